//! The promises of a program at the time of a crash: operations begun and acknowledged.

use crate::tape::Tape;
use everbyte_media::museum::carried;
use std::panic::resume_unwind;
use std::sync::Arc;

/// An operation of the recorded program, numbered from 0 in the order of [`Oracle::begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Op(pub usize);

/// Which thread runs a step of the recorded program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Threads {
    /// The program's own thread runs all steps.
    #[default]
    One,
    /// Each step runs on a thread of its own, one after the other. A fence orders only what its own
    /// thread flushed, so this mode permits every image of [`Threads::One`] and further ones: those
    /// in which a step relied on a fence that the next step issues.
    PerStep,
}

/// The recorded program's voice: it says what it begins and what it has told its caller.
#[derive(Clone)]
pub struct Oracle {
    pub(crate) tape: Tape,
    pub(crate) threads: Threads,
}

impl Oracle {
    /// An operation begins: from here on its effects may be on media. The name appears in failures.
    pub fn begin(&self, name: impl Into<String>) -> Op {
        Op(self.tape.begin(name.into()))
    }

    /// The operation has been acknowledged: no crash from here on may lose it.
    pub fn acked(&self, op: Op) {
        self.tape.acked(op.0);
    }

    /// One operation from begin to acknowledgement, on the thread that [`Threads`] says.
    pub fn step<T: Send>(&self, name: impl Into<String>, body: impl FnOnce() -> T + Send) -> T {
        let op = self.begin(name);
        let result = self.on_its_thread(body);
        self.acked(op);
        result
    }

    /// As [`Oracle::step`], always on the calling thread: for bodies that are bound to it.
    pub fn step_here<T>(&self, name: impl Into<String>, body: impl FnOnce() -> T) -> T {
        let op = self.begin(name);
        let result = body();
        self.acked(op);
        result
    }

    /// Runs `body` to its end on the thread that [`Threads`] says. For operations that overlap and
    /// therefore begin and are acknowledged outside of a step.
    pub fn on_its_thread<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        match self.threads {
            Threads::One => body(),
            Threads::PerStep => {
                let body = carried(body);
                std::thread::scope(|scope| scope.spawn(body).join().unwrap_or_else(|panic| resume_unwind(panic)))
            }
        }
    }
}

/// The state that the check may demand of one crash image.
#[derive(Clone)]
pub struct Seen {
    pub(crate) names: Arc<Vec<String>>,
    pub(crate) begun: usize,
    pub(crate) acked: Arc<Vec<usize>>,
    pub(crate) acked_count: usize,
    pub(crate) died: bool,
    /// The run began with what a dead process had left.
    pub(crate) heir: bool,
    pub(crate) tape: Tape,
}

impl Seen {
    /// Whether the caller had been told that `op` is done: it must be there.
    pub fn acked(&self, op: Op) -> bool {
        self.acked[..self.acked_count].contains(&op.0)
    }

    /// Whether `op` had begun: it may be there, whole. Operations that had not begun must not.
    pub fn begun(&self, op: Op) -> bool {
        op.0 < self.begun || self.acked(op)
    }

    /// How many operations had been acknowledged. For programs that do one thing after another: the
    /// first so many.
    pub fn acked_count(&self) -> usize {
        self.acked_count
    }

    /// How many operations had begun.
    pub fn begun_count(&self) -> usize {
        self.begun.max(self.acked[..self.acked_count].iter().map(|op| op + 1).max().unwrap_or(0))
    }

    /// Whether the process died and memory stayed: others that share it go on without opening it
    /// again. Otherwise power has failed, and every process has ended.
    pub fn died(&self) -> bool {
        self.died
    }

    /// Recovery is over: what the check stores from here on (to see whether the thing still works)
    /// is not part of the crash inside recovery that is explored next.
    pub fn recovered(&self) {
        self.tape.stop();
    }
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (acked, begun) = (self.acked_count(), self.begun_count());
        write!(f, "{acked} acknowledged")?;
        let pending: Vec<&str> =
            (0..begun).filter(|&op| !self.acked(Op(op))).map(|op| self.names[op].as_str()).collect();
        if pending.is_empty() { Ok(()) } else { write!(f, ", pending: {}", pending.join(", ")) }
    }
}

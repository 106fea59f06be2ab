//! The thread that clears released clusters which are kept, and prepares new ones, so that who asks
//! for some next finds them ready.
//!
//! It begins when a MiB waits for it, or somebody has asked for a MiB in small pieces ([`AFTER`]),
//! so a store that does little has none. Nothing depends on it: what it has not reached is done by
//! whoever reserves it. Only stores that one process has alone keep clusters, where processes see
//! each other's stores: on `file` zeros would go through the log, and a shared store's clusters may
//! be others' by the next turn.
//!
//! Threads: called from any. It ends when the store is closed or dropped, and what was kept goes
//! back to the file system. A child of fork has no such thread, and leaves its parent's clusters
//! alone.
//!
//! Design: docs/design/backing.md

use everbyte_space::{PREPARE_STEP, PREPARED_MAX, Space};
use parking_lot::{Condvar, Mutex};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Bytes for which the thread is called.
const CALL: u64 = 1 << 20;
/// Bytes that an object has grown by before, or new objects have begun with, in this session, until
/// more are prepared for the next.
pub(crate) const AFTER: u64 = 1 << 20;
/// What is prepared for an object that grows: as much as it asked for last, at least and at most
/// this.
const ONE: (u64, u64) = (1 << 20, PREPARED_MAX / 4);

pub(crate) struct Background {
    space: Arc<Space>,
    /// Whether released clusters are kept.
    keeps: AtomicBool,
    /// For tests: there is no thread, and more is prepared from the first piece on.
    by_hand: AtomicBool,
    calls: Arc<Calls>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The process that has the thread.
    process: u32,
}

/// How an object grows.
#[derive(Default)]
pub(crate) struct Growth {
    /// Bytes, in this session.
    bytes: u64,
    /// One past what was to be prepared.
    ahead: u64,
}

#[derive(Default)]
struct Calls {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Called,
    Working,
    Stop,
}

impl Background {
    pub(crate) fn new(space: Arc<Space>) -> Background {
        let (keeps, by_hand, calls, thread) = Default::default();
        Background { space, keeps, by_hand, calls, thread, process: std::process::id() }
    }

    /// Has clusters kept from now on, or no more.
    pub(crate) fn keep(&self, keeps: bool) {
        self.keeps.store(keeps, Ordering::Relaxed);
    }

    /// Releases clusters of somebody; they are kept if he allows it, and this store keeps any.
    pub(crate) fn release(&self, range: &Range<u64>, allowed: bool) {
        if !allowed || !self.keeps.load(Ordering::Relaxed) {
            self.space.release(range);
        } else if self.space.release_and_keep(range) >= CALL {
            self.call();
        }
    }

    /// For tests: [`Background::finish`] alone does what there is to do, from the first piece on.
    pub(crate) fn by_hand(&self) {
        self.by_hand.store(true, Ordering::Relaxed);
    }

    /// Whether more is prepared for somebody who has asked for so many bytes by now.
    pub(crate) fn expects(&self, asked: u64) -> bool {
        self.keeps.load(Ordering::Relaxed) && (asked >= AFTER || self.by_hand.load(Ordering::Relaxed))
    }

    /// Has clusters prepared that nobody has. Nobody reserves them before this returns.
    pub(crate) fn prepare(&self, range: &Range<u64>) {
        if self.space.want(range) {
            self.call();
        }
    }

    /// Has more prepared for an object that grew and has addresses up to `end`, before the last is
    /// used up. The caller lets nobody else grow it.
    pub(crate) fn prepare_more(&self, growth: &mut Growth, grown: &Range<u64>, end: u64) {
        let (before, len) = (growth.bytes, grown.end - grown.start);
        growth.bytes += len;
        let ahead = len.clamp(ONE.0, ONE.1);
        if self.expects(before) && growth.ahead <= grown.end + ahead / 2 {
            growth.ahead = end.min((grown.end + ahead).next_multiple_of(PREPARE_STEP));
            self.prepare(&(grown.end..growth.ahead));
        }
    }

    fn call(&self) {
        let mut state = self.calls.state.lock();
        if *state != State::Idle || self.by_hand.load(Ordering::Relaxed) {
            return; // it looks for more before it rests
        }
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (space, calls) = (Arc::clone(&self.space), Arc::clone(&self.calls));
            let named = std::thread::Builder::new().name("everbyte-clear".into());
            *thread = named.spawn(move || calls.serve(&space)).ok();
        }
        if thread.is_some() {
            *state = State::Called;
            self.calls.changed.notify_all();
        }
    }

    /// Returns when all that can be cleared is.
    pub(crate) fn finish(&self) {
        if !self.is_ours() {
            return; // its parent may have handed out by now what this process remembers as free
        }
        let served = self.thread.lock().is_some();
        if served {
            self.call();
            let mut state = self.calls.state.lock();
            while matches!(*state, State::Called | State::Working) {
                self.calls.changed.wait(&mut state);
            }
        }
        // without a thread all of it, else what came at its last moment
        while self.space.zero_next() {}
    }

    fn is_ours(&self) -> bool {
        std::process::id() == self.process
    }

    /// Ends the thread, after the cluster it is at, and keeps nothing any more.
    pub(crate) fn stop(&self) {
        if !self.is_ours() {
            return;
        }
        self.keep(false);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            *self.calls.state.lock() = State::Stop;
            self.calls.changed.notify_all();
            let _ = thread.join(); // a panic in it has been printed, and what it was at is nobody's
        }
        self.space.give_back();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Calls {
    /// The thread's life.
    fn serve(&self, space: &Space) {
        while self.next() {
            while *self.state.lock() == State::Working && space.zero_next() {}
        }
    }

    /// Rests until it is called. `false`: it is to end.
    fn next(&self) -> bool {
        let mut state = self.state.lock();
        if *state == State::Working {
            *state = State::Idle;
            self.changed.notify_all();
        }
        while *state == State::Idle {
            self.changed.wait(&mut state);
        }
        if *state == State::Called {
            *state = State::Working;
        }
        *state == State::Working
    }
}

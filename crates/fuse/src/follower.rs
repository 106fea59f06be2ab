//! [`Follower`]: the thread of a mount that brings its last thread to the core of the program.
//!
//! The core of a program is read from `/proc`, and reading it waits while the program is inside of
//! `execve(2)`. There the kernel closes files of the program, some of them with a request to this
//! mount, and waits for the answer. So no thread that answers requests reads `/proc` for a caller:
//! it leaves that to this thread, which may wait.
//!
//! Threads: no other thread waits for this one, neither one that answers nor the one that ends the
//! mount: the program may stay inside of `execve(2)` for reasons of its own. `Place::state` is
//! locked to ask and to move a thread, never while `/proc` is read. A thread leaves its place
//! before it ends, so that no other thread with its number is moved.

use parking_lot::Mutex;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// The cores of one thread that answers requests.
pub(crate) struct Place {
    thread: Pid,
    /// The cores on which the thread could run at first.
    anywhere: CpuSet,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The program that the thread follows.
    caller: Option<u32>,
    /// The core that the thread is bound to.
    core: Option<usize>,
}

/// The way from the threads that answer to the follower.
#[derive(Default)]
pub(crate) struct Looks(Mutex<Option<SyncSender<Arc<Place>>>>);

/// Moves threads until it is dropped, and until the look that has begun by then.
pub(crate) struct Follower<'l> {
    looks: &'l Looks,
    thread: Option<JoinHandle<()>>,
}

impl Place {
    /// The place of this thread; `None` where the kernel does not tell it.
    pub(crate) fn of_this_thread() -> Option<Arc<Place>> {
        let anywhere = sched_getaffinity(None).ok()?;
        Some(Arc::new(Place { thread: gettid(), anywhere, state: Mutex::default() }))
    }

    /// Lets the thread, which is the calling one, run anywhere.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock();
        state.caller = None;
        if state.core.take().is_some() {
            let _ = sched_setaffinity(None, &self.anywhere); // slower then, and not wrong
        }
    }

    /// Whether the thread is bound to a core.
    pub(crate) fn is_bound(&self) -> bool {
        self.state.lock().core.is_some()
    }

    /// Binds the thread to the core of its caller, unless it has left meanwhile.
    fn follow(&self, core_of: fn(u32) -> Option<usize>) {
        let caller = self.state.lock().caller;
        let core = caller.and_then(core_of).filter(|&core| self.anywhere.is_set(core));
        let mut state = self.state.lock();
        if let Some(core) = core
            && state.caller == caller
            && state.core != Some(core)
        {
            let mut set = CpuSet::new();
            set.set(core);
            let _ = sched_setaffinity(Some(self.thread), &set); // slower then, and not wrong
            state.core = Some(core);
        }
    }
}

impl Looks {
    /// Asks for a look at the core of `caller`, which `place` is to follow. Nothing happens while
    /// the follower is at another look, or where none runs.
    pub(crate) fn ask(&self, place: &Arc<Place>, caller: u32) {
        place.state.lock().caller = Some(caller);
        if let Some(looks) = &*self.0.lock() {
            let _ = looks.try_send(place.clone());
        }
    }
}

impl<'l> Follower<'l> {
    /// Starts the thread. If none can be started, threads run anywhere.
    pub(crate) fn of(looks: &'l Looks) -> Follower<'l> {
        Follower::with(looks, core_of)
    }

    pub(crate) fn with(looks: &'l Looks, core_of: fn(u32) -> Option<usize>) -> Follower<'l> {
        let (sender, asked) = sync_channel::<Arc<Place>>(1);
        let work = move || asked.into_iter().for_each(|place| place.follow(core_of));
        let thread = thread::Builder::new().name("follower".into()).spawn(work).ok();
        *looks.0.lock() = thread.is_some().then_some(sender);
        Follower { looks, thread }
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        *self.looks.0.lock() = None;
        drop(self.thread.take()); // not joined
    }
}

/// The core that a thread has run on last.
fn core_of(thread: u32) -> Option<usize> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    // The name of the program may hold blanks; the core is the 37th word behind it.
    text.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    impl Follower<'_> {
        /// Ends after the last look.
        pub(crate) fn finish(mut self) {
            let thread = self.thread.take();
            drop(self);
            thread.unwrap().join().unwrap();
        }
    }

    /// Runs `test` in a thread whose cores it may change.
    fn alone(test: impl FnOnce() + Send + 'static) {
        thread::spawn(test).join().unwrap();
    }

    fn cores() -> CpuSet {
        sched_getaffinity(None).unwrap()
    }

    #[test]
    fn a_thread_is_bound_to_the_core_of_its_caller_until_it_leaves() {
        alone(|| {
            let (looks, anywhere) = (Looks::default(), cores());
            let place = Place::of_this_thread().unwrap();
            let follower = Follower::of(&looks);
            looks.ask(&place, gettid().as_raw_nonzero().get() as u32);
            follower.finish();
            assert_eq!(cores().count(), 1);
            assert!((0..CpuSet::MAX_CPU).all(|core| anywhere.is_set(core) || !cores().is_set(core)));
            place.leave();
            assert_eq!(cores(), anywhere);
            looks.ask(&place, 1); // without a follower
            assert_eq!(cores(), anywhere);
        });
    }

    /// The core of a program that does not tell it, of one that has none, and of one outside of
    /// the cores that are allowed.
    #[test]
    fn a_caller_without_a_core_binds_nobody() {
        fn none(_: u32) -> Option<usize> {
            None
        }
        fn beyond(_: u32) -> Option<usize> {
            (0..CpuSet::MAX_CPU).find(|&core| !cores().is_set(core))
        }
        for core_of in [none, beyond, core_of] {
            alone(move || {
                let (looks, anywhere) = (Looks::default(), cores());
                let place = Place::of_this_thread().unwrap();
                let follower = Follower::with(&looks, core_of);
                looks.ask(&place, u32::MAX);
                follower.finish();
                assert_eq!(cores(), anywhere);
            });
        }
    }

    /// A look that waits delays neither the thread that asks, nor one that leaves, nor the end of
    /// the mount; its outcome binds no thread that has left.
    #[test]
    fn nobody_waits_for_a_look() {
        static AT: AtomicU32 = AtomicU32::new(0);
        fn waits(_: u32) -> Option<usize> {
            AT.store(1, Ordering::SeqCst);
            while AT.load(Ordering::SeqCst) != 2 {
                thread::yield_now();
            }
            (0..CpuSet::MAX_CPU).find(|&core| cores().is_set(core))
        }
        alone(|| {
            let (looks, anywhere) = (Looks::default(), cores());
            let place = Place::of_this_thread().unwrap();
            let mut follower = Follower::with(&looks, waits);
            looks.ask(&place, 1);
            while AT.load(Ordering::SeqCst) != 1 {
                thread::yield_now();
            }
            for caller in 2..100 {
                looks.ask(&place, caller);
            }
            place.leave();
            let looking = follower.thread.take().unwrap();
            drop(follower);
            AT.store(2, Ordering::SeqCst);
            looking.join().unwrap();
            assert_eq!(cores(), anywhere);
        });
    }
}

//! [`Workers`]: how many of the threads of a mount wait for requests.
//!
//! The kernel hands a request to the thread that has waited longest. With several waiting threads
//! the requests of one program go round them, over all cores, and each costs the waking of another
//! core; with one they stay on the core of the program. So one thread waits while one program asks,
//! and more join while requests queue:
//!   1. a thread that found [`CROWDED`] requests in a row without waiting lets another one join
//!   2. a thread that waited for [`QUIET`] requests more than it found rests, unless it is the last
//!   3. the last one follows the program to its core: each [`LOOK`] requests it asks the
//!      [`Follower`] to look where that runs; a thread among several runs anywhere
//!   4. a thread that called another one before a request that may take long rests after it: two
//!      would take turns from then on, over two cores
//!
//! Invariants
//!   FU-4  At least one thread that answers has not been put to rest: a thread rests only while
//!         another one that has answered before does not.
//!   FU-5  No thread rests once one has ended: the ends of the threads that answered wake all.
//!   FU-6  A request that may take long does not keep the others from being read: before it, a
//!         thread that rests is called unless another one waits; and no thread rests while all
//!         others are at such requests.
//!   FU-7  No request is at work while [`Workers::pause`] has returned a guard that lives.
//!   FU-9  No thread that answers waits for another process: its caller may wait for the answer
//!         in a place where the kernel makes all others wait for the caller (`follower.rs`).
//!
//! Threads: any. `state` is locked to rest, to wake and to end, and never for a request alone;
//! `at_work` is shared by the requests at work, and held alone in a pause. A thread that rests or
//! waits for a request holds neither.

use crate::follower::{Follower, Looks, Place};
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A request that was read within this time had been waiting: a switch of threads takes longer.
const AT_ONCE: Duration = Duration::from_micros(2);
/// Requests in a row that had been waiting, before another thread joins.
const CROWDED: u32 = 4;
/// Requests that were waited for, less those that had been waiting, before a thread rests.
const QUIET: u32 = 16;
/// Requests between two looks at the core of the program.
const LOOK: u32 = 64;

thread_local! {
    static SELF: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct State {
    /// Threads that have answered and neither rest nor have ended.
    active: usize,
    /// Threads that rest.
    resting: usize,
    /// Resting threads that may go on.
    called: usize,
    /// Active threads at requests that may take long.
    at_long: usize,
    has_ended: bool,
}

#[derive(Default)]
struct Crew {
    state: Mutex<State>,
    call: Condvar,
    /// `resting` without the threads that were called, to look at without the lock.
    idle: AtomicUsize,
    /// `active`, to look at without the lock.
    waiting: AtomicUsize,
    at_work: RwLock<()>,
    looks: Looks,
    /// Whether a fence settles, so that no request waits for a disk.
    fences_settle: bool,
}

/// The threads of one mount.
#[derive(Clone, Default)]
pub(crate) struct Workers(Arc<Crew>);

/// The memory of a thread: its last requests.
struct Worker {
    of: Workers,
    answered: Instant,
    crowded: u32,
    quiet: u32,
    /// Requests since the last look.
    unseen: u32,
    place: Option<Arc<Place>>,
}

/// A request at work; the thread may rest at its drop, after the answer.
pub(crate) struct Turn<'w> {
    at_work: Option<RwLockReadGuard<'w, ()>>,
    is_long: bool,
    /// Another thread was called to read requests meanwhile.
    has_called: bool,
}

impl Workers {
    /// `fences_settle` tells of the volume's media.
    pub(crate) fn new(fences_settle: bool) -> Workers {
        Workers(Arc::new(Crew { fences_settle, ..Crew::default() }))
    }

    /// Begins a request in this thread; `caller` is the thread that asks, 0 if there is none.
    pub(crate) fn turn(&self, caller: u32) -> Turn<'_> {
        SELF.with_borrow_mut(|own| match own {
            Some(own) if Arc::ptr_eq(&own.of.0, &self.0) => own.begin(caller),
            // A thread serves one mount.
            _ => {
                let mut state = self.0.state.lock();
                state.active += 1;
                self.0.waiting.store(state.active, Ordering::Relaxed);
                drop(state);
                *own = Some(Worker::new(self));
            }
        });
        Turn { at_work: Some(self.0.at_work.read()), is_long: false, has_called: false }
    }

    /// As [`Workers::turn`], for a request that may work for long (FU-6).
    pub(crate) fn long_turn(&self, caller: u32) -> Turn<'_> {
        let mut turn = self.turn(caller);
        let mut state = self.0.state.lock();
        state.at_long += 1;
        turn.is_long = true;
        if state.active + state.called == state.at_long {
            turn.has_called = self.call_one(&mut state);
        }
        turn
    }

    /// As [`Workers::long_turn`], for a request that is long only where it waits for a disk.
    pub(crate) fn disk_turn(&self, caller: u32) -> Turn<'_> {
        if self.0.fences_settle { self.turn(caller) } else { self.long_turn(caller) }
    }

    /// Waits for the requests at work, and holds back others until the guard is dropped (FU-7).
    pub(crate) fn pause(&self) -> RwLockWriteGuard<'_, ()> {
        self.0.at_work.write()
    }

    /// Other work that changes the volume, as a request does: not in a pause.
    pub(crate) fn work(&self) -> RwLockReadGuard<'_, ()> {
        self.0.at_work.read()
    }

    /// The thread that brings the last one to its caller's core, until the drop.
    pub(crate) fn follower(&self) -> Follower<'_> {
        Follower::of(&self.0.looks)
    }

    /// Lets a resting thread go on.
    fn call(&self) {
        self.call_one(&mut self.0.state.lock());
    }

    /// As [`Workers::call`]; whether one rested.
    fn call_one(&self, state: &mut State) -> bool {
        let is_one = state.called < state.resting;
        if is_one {
            state.called += 1;
            self.0.idle.store(state.resting - state.called, Ordering::Relaxed);
            self.0.call.notify_one();
        }
        is_one
    }

    /// Takes a call back that no thread has followed yet.
    fn takes_back(&self, state: &mut State) -> bool {
        let is_one = state.called > 0;
        state.called -= usize::from(is_one);
        self.0.idle.store(state.resting - state.called, Ordering::Relaxed);
        is_one
    }

    /// Waits until the thread is called, unless no other one would be left that reads (FU-4, FU-6);
    /// whether it has waited.
    fn rest(&self, mut state: MutexGuard<'_, State>) -> bool {
        if state.active < state.at_long + 2 || state.has_ended {
            return false;
        }
        state.active -= 1;
        self.0.waiting.store(state.active, Ordering::Relaxed);
        state.resting += 1;
        self.0.idle.store(state.resting - state.called, Ordering::Relaxed);
        while state.called == 0 && !state.has_ended {
            self.0.call.wait(&mut state);
        }
        state.called = state.called.saturating_sub(1);
        state.resting -= 1;
        state.active += 1;
        self.0.waiting.store(state.active, Ordering::Relaxed);
        true
    }
}

impl Worker {
    fn new(of: &Workers) -> Worker {
        let (answered, place) = (Instant::now(), Place::of_this_thread());
        Worker { of: of.clone(), answered, crowded: 0, quiet: 0, unseen: 0, place }
    }

    /// Whether it runs on a core that it has followed a caller to.
    fn is_bound(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.is_bound())
    }

    /// Runs on the core of the caller, soon, or anywhere.
    fn follow(&mut self, caller: u32) {
        let Some(place) = &self.place else { return };
        match self.of.0.waiting.load(Ordering::Relaxed) {
            1 => self.of.0.looks.ask(place, caller),
            _ => place.leave(),
        }
    }

    fn begin(&mut self, caller: u32) {
        self.unseen += 1;
        if self.unseen >= LOOK && caller != 0 {
            self.unseen = 0;
            self.follow(caller);
        }
        if self.answered.elapsed() < AT_ONCE {
            (self.crowded, self.quiet) = (self.crowded + 1, self.quiet.saturating_sub(1));
        } else {
            (self.crowded, self.quiet) = (0, self.quiet + 1);
        }
        if self.crowded >= CROWDED {
            self.crowded = 0;
            if self.of.0.idle.load(Ordering::Relaxed) > 0 {
                self.of.call();
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        drop(self.at_work.take()); // before the thread may rest
        SELF.with_borrow_mut(|own| {
            let Some(own) = own else { return };
            let is_quiet = own.quiet >= QUIET;
            if is_quiet || self.is_long {
                let workers = own.of.clone();
                let mut state = workers.0.state.lock();
                state.at_long -= usize::from(self.is_long);
                if is_quiet {
                    own.quiet = 0;
                }
                let has_rested = match self.has_called && workers.takes_back(&mut state) {
                    false if is_quiet || self.has_called => workers.rest(state),
                    _ => false,
                };
                if has_rested && !own.is_bound() {
                    own.unseen = LOOK; // the next request tells where to run
                }
            }
            own.answered = Instant::now();
        });
    }
}

impl Drop for Worker {
    /// The thread ends, and with it the mount: the others are to see that, too (FU-5).
    fn drop(&mut self) {
        self.place.iter().for_each(|place| place.leave());
        let mut state = self.of.0.state.lock();
        state.active = state.active.saturating_sub(1);
        self.of.0.waiting.store(state.active, Ordering::Relaxed);
        state.has_ended = true;
        self.of.0.call.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity};
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;
    use std::thread;

    /// A request that was waited for.
    fn quiet(workers: &Workers) {
        let turn = workers.turn(0);
        SELF.with_borrow_mut(|own| own.as_mut().unwrap().quiet = QUIET);
        drop(turn);
    }

    #[test]
    fn the_last_thread_never_rests() {
        let workers = Workers::default();
        for _ in 0..100 {
            quiet(&workers);
        }
        assert_eq!(workers.0.state.lock().active, 1);
    }

    #[test]
    fn the_last_thread_follows_its_caller_and_one_of_several_does_not() {
        thread::spawn(|| {
            let (workers, anywhere) = (Workers::default(), sched_getaffinity(None).unwrap());
            drop(workers.turn(0));
            let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            let look = || {
                SELF.with_borrow_mut(|own| own.as_mut().unwrap().unseen = LOOK);
                drop(workers.turn(me));
            };
            let follower = workers.follower();
            look();
            follower.finish();
            assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
            workers.0.waiting.store(2, Ordering::Relaxed);
            look();
            assert_eq!(sched_getaffinity(None).unwrap(), anywhere);
        })
        .join()
        .unwrap();
    }

    /// A look that ends after its thread moves no other thread that has got the number.
    #[test]
    fn a_thread_that_has_ended_is_not_moved() {
        static HAS_ENDED: AtomicBool = AtomicBool::new(false);
        fn after_the_end(_: u32) -> Option<usize> {
            while !HAS_ENDED.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            (0..CpuSet::MAX_CPU).find(|&core| sched_getaffinity(None).unwrap().is_set(core))
        }
        let workers = Workers::default();
        let follower = Follower::with(&workers.0.looks, after_the_end);
        let answers = workers.clone();
        let last = thread::spawn(move || {
            drop(answers.turn(0));
            SELF.with_borrow_mut(|own| own.as_mut().unwrap().unseen = LOOK);
            drop(answers.turn(1));
            SELF.with_borrow(|own| own.as_ref().unwrap().place.clone()).unwrap()
        });
        let place = last.join().unwrap();
        HAS_ENDED.store(true, Ordering::SeqCst);
        follower.finish();
        assert!(!place.is_bound());
    }

    /// A thread that rests until it is called.
    fn resting(workers: &Workers) -> thread::JoinHandle<()> {
        let other = workers.clone();
        let thread = thread::spawn(move || quiet(&other));
        while workers.0.idle.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        thread
    }

    #[test]
    fn a_request_that_may_take_long_calls_a_thread_that_rests() {
        let workers = Workers::default();
        drop(workers.turn(0));
        let thread = resting(&workers);
        let turn = workers.disk_turn(0);
        thread.join().unwrap();
        drop(turn);
    }

    /// Two threads after it would take turns, each on a core of its own.
    #[test]
    fn a_thread_rests_after_a_long_request_and_the_called_one_goes_on_alone() {
        let workers = Workers::default();
        let (first, second) = (workers.clone(), workers.clone());
        let first = thread::spawn(move || {
            drop(first.turn(0));
            while first.0.idle.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            let turn = first.long_turn(0);
            while first.0.state.lock().resting > 0 {
                thread::yield_now();
            }
            drop(turn); // until the end of the second
        });
        let second = thread::spawn(move || {
            while second.0.state.lock().active == 0 {
                thread::yield_now();
            }
            quiet(&second);
            loop {
                let state = second.0.state.lock();
                assert!(!state.has_ended, "the first one rests before it ends");
                if state.resting == 1 {
                    break assert_eq!((state.active, state.at_long), (1, 0));
                }
                drop(state);
                thread::yield_now();
            }
        });
        second.join().unwrap();
        first.join().unwrap();
    }

    #[test]
    fn a_long_request_that_was_short_takes_its_call_back() {
        let workers = Workers::default();
        drop(workers.turn(0));
        let thread = resting(&workers);
        let mut state = workers.0.state.lock(); // so that the thread cannot go on yet
        assert!(workers.call_one(&mut state) && workers.takes_back(&mut state));
        assert_eq!((state.called, state.resting, workers.0.idle.load(Ordering::Relaxed)), (0, 1, 1));
        drop(state);
        workers.call();
        thread.join().unwrap();
    }

    #[test]
    fn no_thread_rests_while_all_others_are_at_long_requests() {
        let workers = Workers::default();
        let turn = workers.long_turn(0);
        let other = workers.clone();
        thread::spawn(move || quiet(&other)).join().unwrap();
        drop(turn);
    }

    #[test]
    fn where_fences_settle_a_request_for_a_disk_calls_no_thread() {
        let workers = Workers::new(true);
        drop(workers.turn(0));
        let thread = resting(&workers);
        drop(workers.disk_turn(0));
        assert_eq!(workers.0.idle.load(Ordering::Relaxed), 1);
        workers.call();
        thread.join().unwrap();
    }

    /// A pause waits for the request at work, and the next request waits for its end.
    #[test]
    fn no_request_is_at_work_in_a_pause() {
        let workers = Workers::default();
        let (events, happened) = channel();
        let turn = workers.turn(0);
        thread::scope(|scope| {
            let (workers, paused) = (&workers, events.clone());
            scope.spawn(move || {
                let pause = workers.pause();
                paused.send("paused").unwrap();
                let next = paused.clone();
                scope.spawn(move || {
                    let _turn = workers.turn(0);
                    next.send("next").unwrap();
                });
                thread::yield_now();
                paused.send("end of the pause").unwrap();
                drop(pause);
            });
            while workers.0.at_work.try_read().is_some() {
                thread::yield_now(); // until the pause waits
            }
            events.send("answered").unwrap();
            drop(turn);
        });
        drop(events);
        let order: Vec<_> = happened.into_iter().collect();
        assert_eq!(order, ["answered", "paused", "end of the pause", "next"]);
    }

    #[test]
    fn a_thread_that_rests_delays_no_pause() {
        let workers = Workers::default();
        drop(workers.turn(0));
        let thread = resting(&workers);
        assert!(workers.0.at_work.try_write().is_some());
        workers.call();
        thread.join().unwrap();
    }

    #[test]
    fn a_thread_rests_until_requests_queue() {
        let workers = Workers::default();
        drop(workers.turn(0));
        let (done, is_done) = channel();
        let other = workers.clone();
        let thread = thread::spawn(move || {
            quiet(&other);
            done.send(()).unwrap();
            is_done
        });
        while workers.0.idle.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        assert_eq!(workers.0.state.lock().active, 1);
        for _ in 0..CROWDED {
            // As if the request had been there when the last one was answered.
            SELF.with_borrow_mut(|own| own.as_mut().unwrap().answered = Instant::now() + AT_ONCE);
            drop(workers.turn(0));
        }
        thread.join().unwrap().recv().unwrap();
    }

    #[test]
    fn the_end_of_a_thread_wakes_all() {
        let workers = Workers::default();
        let (first, second) = (workers.clone(), workers.clone());
        let resting = thread::spawn(move || {
            while second.0.state.lock().active == 0 {
                thread::yield_now();
            }
            quiet(&second);
        });
        thread::spawn(move || {
            drop(first.turn(0));
            while first.0.idle.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
        })
        .join()
        .unwrap();
        resting.join().unwrap();
        assert!(workers.0.state.lock().has_ended);
    }
}

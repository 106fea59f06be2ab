//! [`Workers`]: how many of the threads of a mount wait for requests.
//!
//! The kernel hands a request to the thread that has waited longest. With several waiting threads
//! the requests of one program go round them, over all cores, and each costs the waking of another
//! core; with one they stay on the core of the program. So one thread waits while one program asks,
//! and more join while requests queue:
//!   1. a thread that found [`CROWDED`] requests in a row without waiting lets another one join
//!   2. a thread that waited for [`QUIET`] requests in a row rests, unless it is the last
//!
//! Invariants
//!   FU-4  At least one thread that answers has not been put to rest: a thread rests only while
//!         another one that has answered before does not.
//!   FU-5  No thread rests once one has ended: the ends of the threads that answered wake all.
//!
//! Threads: any. A lock is taken to rest, to wake and to end, and never for a request alone.

use parking_lot::{Condvar, Mutex};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A request that was read within this time had been waiting: a switch of threads takes longer.
const AT_ONCE: Duration = Duration::from_micros(2);
/// Requests in a row that had been waiting, before another thread joins.
const CROWDED: u32 = 4;
/// Requests in a row that were waited for, before a thread rests.
const QUIET: u32 = 16;

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
    has_ended: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    call: Condvar,
    /// `resting` without the threads that were called, to look at without the lock.
    idle: AtomicUsize,
}

/// The threads of one mount.
#[derive(Clone, Default)]
pub(crate) struct Workers(Arc<Shared>);

/// What a thread remembers of its requests.
struct Worker {
    of: Workers,
    answered: Instant,
    crowded: u32,
    quiet: u32,
}

/// A request at work; the thread may rest at its drop, after the answer.
pub(crate) struct Turn(());

impl Workers {
    /// Begins a request in this thread.
    pub(crate) fn turn(&self) -> Turn {
        SELF.with_borrow_mut(|own| match own {
            Some(own) if Arc::ptr_eq(&own.of.0, &self.0) => own.begin(),
            // A thread serves one mount.
            _ => {
                self.0.state.lock().active += 1;
                *own = Some(Worker { of: self.clone(), answered: Instant::now(), crowded: 0, quiet: 0 });
            }
        });
        Turn(())
    }

    /// Lets a resting thread go on.
    fn call(&self) {
        let mut state = self.0.state.lock();
        if state.called < state.resting {
            state.called += 1;
            self.0.idle.store(state.resting - state.called, Ordering::Relaxed);
            self.0.call.notify_one();
        }
    }

    /// Waits until the thread is called, unless no other one would be left (FU-4).
    fn rest(&self) {
        let mut state = self.0.state.lock();
        if state.active < 2 || state.has_ended {
            return;
        }
        state.active -= 1;
        state.resting += 1;
        self.0.idle.store(state.resting - state.called, Ordering::Relaxed);
        while state.called == 0 && !state.has_ended {
            self.0.call.wait(&mut state);
        }
        state.called = state.called.saturating_sub(1);
        state.resting -= 1;
        state.active += 1;
    }
}

impl Worker {
    fn begin(&mut self) {
        if self.answered.elapsed() < AT_ONCE {
            (self.crowded, self.quiet) = (self.crowded + 1, 0);
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

impl Drop for Turn {
    fn drop(&mut self) {
        SELF.with_borrow_mut(|own| {
            let Some(own) = own else { return };
            if own.quiet >= QUIET {
                own.quiet = 0;
                own.of.rest();
            }
            own.answered = Instant::now();
        });
    }
}

impl Drop for Worker {
    /// The thread ends, and with it the mount: the others are to see that, too (FU-5).
    fn drop(&mut self) {
        let mut state = self.of.0.state.lock();
        state.active -= 1;
        state.has_ended = true;
        self.of.0.call.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    /// A request that was waited for.
    fn quiet(workers: &Workers) {
        let turn = workers.turn();
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
    fn a_thread_rests_until_requests_queue() {
        let workers = Workers::default();
        drop(workers.turn());
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
            drop(workers.turn());
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
            drop(first.turn());
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

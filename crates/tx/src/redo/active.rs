//! The running transactions and their start times: so that memory is not reused, nor its data taken
//! out of transactions, while a transaction can still read the old state; and so that one
//! transaction can have the engine to itself.
//!
//! Invariants
//!   REDO-7  After `quiesce(ts)` no transaction runs that began before the commit with timestamp
//!           `ts` was visible, but for those that were found to be valid since: one that commits
//!           later than it has seen nothing of what it replaced.
//!   REDO-8  While a transaction runs alone, no other runs.
//!
//! Threads: any. A beginning thread stores and then reads `alone` and the clock; a waiting thread
//! stores first and then reads the list of transactions. All of these are sequentially consistent,
//! so one of the two sees the other.

use crossbeam_utils::{Backoff, CachePadded};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// No transaction runs.
const IDLE: u64 = u64::MAX;

/// A worker's entry: the clock when its transaction began, or was last found to be valid.
pub(super) type StartTime = Arc<CachePadded<AtomicU64>>;

#[derive(Default)]
pub(super) struct Active {
    all: RwLock<Vec<StartTime>>,
    /// Counts the transactions that begin and end; changed only under the lock of `all`.
    changes: AtomicU64,
    /// The worker that runs alone; 0: none.
    alone: AtomicU32,
}

/// All but one worker, as it saw them last.
#[derive(Default)]
pub(super) struct Others {
    changes: u64,
    all: Vec<StartTime>,
}

impl Active {
    pub(super) fn enter(&self) -> StartTime {
        let since = Arc::new(CachePadded::new(AtomicU64::new(IDLE)));
        let mut all = self.all.write();
        all.push(Arc::clone(&since));
        self.changes.fetch_add(1, Ordering::SeqCst);
        since
    }

    pub(super) fn leave(&self, since: &StartTime) {
        let mut all = self.all.write();
        all.retain(|other| !Arc::ptr_eq(other, since));
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// A transaction of `owner` begins; waits while another runs alone.
    #[inline]
    pub(super) fn begin(&self, since: &StartTime, owner: u32, clock: &AtomicU64) {
        loop {
            since.store(clock.load(Ordering::SeqCst), Ordering::SeqCst);
            let alone = self.alone.load(Ordering::SeqCst);
            if alone == 0 || alone == owner {
                return;
            }
            self.end(since);
            wait_until(|| self.alone.load(Ordering::Acquire) == 0);
        }
    }

    #[inline]
    pub(super) fn end(&self, since: &StartTime) {
        since.store(IDLE, Ordering::Release);
    }

    /// Waits until no transaction of `others`, all but `own`, runs that began before `timestamp`.
    /// A transaction that begins after the read of `changes` begins with a clock that has passed
    /// it.
    #[inline]
    pub(super) fn quiesce(&self, own: &StartTime, others: &mut Others, timestamp: u64) {
        if others.changes != self.changes.load(Ordering::SeqCst) {
            self.look_around(own, others);
        }
        for since in &others.all {
            if since.load(Ordering::SeqCst) < timestamp {
                wait_until(|| since.load(Ordering::Acquire) >= timestamp);
            }
        }
    }

    #[cold]
    fn look_around(&self, own: &StartTime, others: &mut Others) {
        let all = self.all.read();
        others.changes = self.changes.load(Ordering::SeqCst);
        others.all = all.iter().filter(|since| !Arc::ptr_eq(since, own)).cloned().collect();
    }

    /// Transactions that run began at this timestamp or after it.
    pub(super) fn oldest(&self) -> u64 {
        self.all.read().iter().map(|since| since.load(Ordering::SeqCst)).min().unwrap_or(IDLE)
    }

    /// Lets `owner`, which runs no transaction, be the only one to run any from now on (REDO-8).
    pub(super) fn shut_out_others(&self, owner: u32) {
        wait_until(|| self.alone.compare_exchange(0, owner, Ordering::SeqCst, Ordering::Relaxed).is_ok());
        for since in self.all.read().iter() {
            wait_until(|| since.load(Ordering::SeqCst) == IDLE);
        }
    }

    pub(super) fn let_others_in(&self, owner: u32) {
        // it may not have been alone
        let _ = self.alone.compare_exchange(owner, 0, Ordering::Release, Ordering::Relaxed);
    }
}

/// Waits for a step of another thread.
pub(super) fn wait_until(mut done: impl FnMut() -> bool) {
    let backoff = Backoff::new();
    while !done() {
        backoff.snooze(); // spins first, then yields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// REDO-8, for the transaction of any worker.
    #[test]
    fn a_transaction_that_runs_alone_waits_for_each_other_one() {
        let (active, clock) = (Active::default(), AtomicU64::new(7));
        let workers = [1, 2, 3].map(|number| (number, active.enter()));
        for (number, since) in &workers {
            active.begin(since, *number, &clock);
            std::thread::scope(|threads| {
                let waiting = threads.spawn(|| active.shut_out_others(4));
                for _ in 0..200 {
                    assert!(!waiting.is_finished(), "worker {number} runs a transaction");
                    std::thread::yield_now();
                }
                active.end(since);
            });
            active.let_others_in(4);
        }
    }
}

//! The cost of persistence: lines flushed, fences, barriers, bytes logged, write windows. Exact on
//! any machine.
//!
//! Each thread counts in a shard of its own with plain loads and stores, so counting does not cost
//! a locked instruction on paths that take a few hundred nanoseconds. Threads beyond the last shard
//! share it, with locked instructions.

use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SHARDS: usize = 64;
const SHARED: usize = SHARDS - 1;

/// A sum over all threads since the media was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cache lines flushed, lines of non-temporal copies included.
    pub lines: u64,
    /// Fences, those inside barriers included.
    pub fences: u64,
    /// Barriers.
    pub barriers: u64,
    /// Bytes appended to the log of the `file` backend, headers and padding included.
    pub log_bytes: u64,
    /// Syncs of the underlying file.
    pub syncs: u64,
    /// Write windows opened; each is closed, too. With keys these are windows of a thread, by the
    /// page table those of the process. 0 without guarded pages.
    pub windows: u64,
}

impl std::ops::Add for Counts {
    type Output = Counts;
    fn add(self, more: Counts) -> Counts {
        Counts {
            lines: self.lines + more.lines,
            fences: self.fences + more.fences,
            barriers: self.barriers + more.barriers,
            log_bytes: self.log_bytes + more.log_bytes,
            syncs: self.syncs + more.syncs,
            windows: self.windows + more.windows,
        }
    }
}

impl std::ops::Sub for Counts {
    type Output = Counts;
    fn sub(self, earlier: Counts) -> Counts {
        Counts {
            lines: self.lines - earlier.lines,
            fences: self.fences - earlier.fences,
            barriers: self.barriers - earlier.barriers,
            log_bytes: self.log_bytes - earlier.log_bytes,
            syncs: self.syncs - earlier.syncs,
            windows: self.windows - earlier.windows,
        }
    }
}

/// A counted event; the index into a shard.
#[derive(Clone, Copy)]
pub(crate) enum Counter {
    Lines,
    Fences,
    Barriers,
    LogBytes,
    Syncs,
    Windows,
}

#[repr(align(128))] // two lines: the adjacent-line prefetcher pairs them
#[derive(Default)]
struct Shard([AtomicU64; 6]);

pub(crate) struct Counters(Box<[Shard]>);

impl Counters {
    pub(crate) fn new() -> Counters {
        Counters((0..SHARDS).map(|_| Shard::default()).collect())
    }

    #[inline]
    pub(crate) fn add(&self, counter: Counter, amount: u64) {
        // A thread that is ending may have returned its number: a program may close a store as it
        // exits.
        let shard = SHARD.try_with(|shard| shard.0.get()).unwrap_or(SHARED);
        let cell = &self.0[shard].0[counter as usize];
        if shard == SHARED {
            cell.fetch_add(amount, Relaxed);
        } else {
            // No other thread writes this shard while this one holds its number.
            cell.store(cell.load(Relaxed) + amount, Relaxed);
        }
    }

    pub(crate) fn sum(&self) -> Counts {
        let total = |counter: Counter| self.0.iter().map(|shard| shard.0[counter as usize].load(Relaxed)).sum();
        Counts {
            lines: total(Counter::Lines),
            fences: total(Counter::Fences),
            barriers: total(Counter::Barriers),
            log_bytes: total(Counter::LogBytes),
            syncs: total(Counter::Syncs),
            windows: total(Counter::Windows),
        }
    }
}

/// Shard numbers not held by a live thread. The lock orders a shard's counts before its next use.
static FREE: Mutex<(usize, Vec<usize>)> = Mutex::new((0, Vec::new()));

struct ShardNumber(Cell<usize>);

impl ShardNumber {
    fn take() -> ShardNumber {
        let mut free = FREE.lock();
        let number = free.1.pop().unwrap_or_else(|| {
            let next = free.0.min(SHARED);
            free.0 = next + 1;
            next
        });
        ShardNumber(Cell::new(number))
    }
}

impl Drop for ShardNumber {
    fn drop(&mut self) {
        if self.0.get() != SHARED {
            FREE.lock().1.push(self.0.get());
        }
    }
}

thread_local! {
    static SHARD: ShardNumber = ShardNumber::take();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More threads than shards, some of them gone: nothing is lost.
    #[test]
    fn counts_are_exact_across_threads() {
        let counters = Counters::new();
        for _ in 0..3 {
            std::thread::scope(|scope| {
                for _ in 0..100 {
                    scope.spawn(|| (0..1000).for_each(|_| counters.add(Counter::Lines, 1)));
                }
            });
        }
        assert_eq!(counters.sum().lines, 300_000);
    }
}

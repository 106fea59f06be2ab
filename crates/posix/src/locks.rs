//! Advisory locks: of whole files (`flock`), and of ranges (`fcntl`), owned by processes or by open
//! files. They live in memory and end with the process.
//!
//! A range lock of one owner replaces what it overlaps; adjacent ones of a kind become one. A
//! request waits for the owners in its way; it fails at once where one of these waits, over any
//! number of others, for the requesting owner.
//!
//! Threads: one lock guards all. A release wakes every waiter. Where no file has a lock, a release
//! takes none: each open file ends with two of them.

use crate::{Errno, Result};
use everbyte_fs::Ino;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Any number of owners may have it.
    Shared,
    /// One owner has it.
    Exclusive,
}

/// A lock of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeLock {
    /// Its kind.
    pub kind: LockKind,
    /// Its bytes; the end of [`u64::MAX`] stands for the end of every file.
    pub range: Range<u64>,
    /// Its owner: a number of the process, or of the open file.
    pub owner: u64,
}

/// All locks of a volume.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    table: Mutex<LockTable>,
    released: Condvar,
    /// A file may have a lock. Set under the lock of the table before the first lock is added, and
    /// cleared under it.
    is_used: AtomicBool,
}

#[derive(Debug, Default)]
struct LockTable {
    ranges: HashMap<Ino, Vec<RangeLock>>,
    /// Locks of whole files, as ranges over everything; they are apart from range locks.
    whole: HashMap<Ino, Vec<RangeLock>>,
    /// Owners that wait, each with the owners that it waits for.
    waiting: HashMap<u64, HashSet<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockSpace {
    /// Locks of ranges.
    Ranges,
    /// Locks of whole files.
    Whole,
}

impl LockTable {
    fn locks(&mut self, space: LockSpace, ino: Ino) -> &mut Vec<RangeLock> {
        let map = match space {
            LockSpace::Ranges => &mut self.ranges,
            LockSpace::Whole => &mut self.whole,
        };
        map.entry(ino).or_default()
    }

    fn tidy(&mut self, ino: Ino) {
        for map in [&mut self.ranges, &mut self.whole] {
            if map.get(&ino).is_some_and(Vec::is_empty) {
                map.remove(&ino);
            }
        }
    }

    /// The locks of other owners that are in the way of a new one.
    fn conflicts<'t>(&'t mut self, space: LockSpace, ino: Ino, new: &RangeLock) -> impl Iterator<Item = &'t RangeLock> {
        let is_in_way = move |lock: &&RangeLock| {
            let overlaps = lock.range.start < new.range.end && new.range.start < lock.range.end;
            let excludes = lock.kind == LockKind::Exclusive || new.kind == LockKind::Exclusive;
            lock.owner != new.owner && overlaps && excludes
        };
        self.locks(space, ino).iter().filter(is_in_way)
    }

    /// Whether `from` waits for `to`, over any number of others.
    fn waits(&self, from: u64, to: u64) -> bool {
        let (mut seen, mut next) = (HashSet::from([from]), vec![from]);
        while let Some(owner) = next.pop() {
            for &other in self.waiting.get(&owner).into_iter().flatten() {
                if other == to {
                    return true;
                }
                if seen.insert(other) {
                    next.push(other);
                }
            }
        }
        false
    }

    /// Takes a range from the locks of an owner.
    fn release(&mut self, space: LockSpace, ino: Ino, owner: u64, range: &Range<u64>) {
        let locks = self.locks(space, ino);
        let mut kept = Vec::with_capacity(locks.len() + 1);
        for lock in locks.drain(..) {
            let overlaps = lock.range.start < range.end && range.start < lock.range.end;
            if lock.owner != owner || !overlaps {
                kept.push(lock);
                continue;
            }
            let before = lock.range.start..range.start.max(lock.range.start);
            let behind = range.end.min(lock.range.end)..lock.range.end;
            let parts = [before, behind].into_iter().filter(|part| !part.is_empty());
            kept.extend(parts.map(|range| RangeLock { range, ..lock.clone() }));
        }
        *locks = kept;
        self.tidy(ino);
    }

    /// Adds a lock that nothing is in the way of, in the place of the owner's locks that it
    /// overlaps.
    fn add(&mut self, space: LockSpace, ino: Ino, mut new: RangeLock) {
        let range = new.range.clone();
        self.release(space, ino, new.owner, &range);
        let locks = self.locks(space, ino);
        locks.retain(|lock| {
            let touches = lock.range.end == new.range.start || new.range.end == lock.range.start;
            let joins = touches && lock.owner == new.owner && lock.kind == new.kind;
            if joins {
                new.range = lock.range.start.min(new.range.start)..lock.range.end.max(new.range.end);
            }
            !joins
        });
        locks.push(new);
    }
}

impl Locks {
    pub(crate) fn set(&self, space: LockSpace, ino: Ino, new: RangeLock, waits: bool) -> Result<()> {
        let mut table = self.table.lock();
        let is_other = |lock: &RangeLock| lock.owner == new.owner && lock.kind != new.kind;
        // As on Linux: the old lock is gone before the new one is asked for, so that two owners
        // that both want more do not wait for each other.
        if space == LockSpace::Whole && table.locks(space, ino).iter().any(is_other) {
            table.release(space, ino, new.owner, &new.range);
            self.released.notify_all();
        }
        loop {
            let in_way: HashSet<u64> = table.conflicts(space, ino, &new).map(|lock| lock.owner).collect();
            if in_way.is_empty() {
                self.is_used.store(true, Ordering::Release);
                table.add(space, ino, new);
                // A lock that became shared may let others in.
                self.released.notify_all();
                return Ok(());
            }
            if !waits {
                table.tidy(ino);
                return Err(Errno::EAGAIN.into());
            }
            // Locks of whole files never fail so: POSIX knows no deadlock of `flock`.
            if space == LockSpace::Ranges && in_way.iter().any(|&owner| table.waits(owner, new.owner)) {
                return Err(Errno::EDEADLK.into());
            }
            self.wait(&mut table, space, new.owner, in_way);
        }
    }

    fn wait(&self, table: &mut MutexGuard<'_, LockTable>, space: LockSpace, owner: u64, for_owners: HashSet<u64>) {
        if space == LockSpace::Ranges {
            table.waiting.insert(owner, for_owners);
        }
        self.released.wait(table);
        if space == LockSpace::Ranges {
            table.waiting.remove(&owner);
        }
    }

    /// The first lock of another owner that is in the way of a new range lock.
    pub(crate) fn first_conflict(&self, ino: Ino, new: &RangeLock) -> Option<RangeLock> {
        let mut table = self.table.lock();
        let found = table.conflicts(LockSpace::Ranges, ino, new).min_by_key(|lock| lock.range.start).cloned();
        table.tidy(ino);
        found
    }

    /// Releases the range locks of a process on a file.
    pub(crate) fn release_records(&self, ino: Ino, owner: u64) {
        self.release(LockSpace::Ranges, ino, owner, &(0..u64::MAX));
    }

    /// Releases all locks of an open file that ends.
    pub(crate) fn release_all(&self, ino: Ino, owner: u64) {
        self.release(LockSpace::Ranges, ino, owner, &(0..u64::MAX));
        self.release(LockSpace::Whole, ino, owner, &(0..u64::MAX));
    }

    pub(crate) fn release(&self, space: LockSpace, ino: Ino, owner: u64, range: &Range<u64>) {
        // An owner that has a lock sees the flag that it has set itself, or the thread that it got
        // the open file from.
        if !self.is_used.load(Ordering::Acquire) {
            return;
        }
        let mut table = self.table.lock();
        table.release(space, ino, owner, range);
        if table.ranges.is_empty() && table.whole.is_empty() {
            self.is_used.store(false, Ordering::Release);
        }
        self.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_workload::Random;

    const FILE: Ino = Ino(3);

    fn lock(owner: u64, kind: LockKind, range: Range<u64>) -> RangeLock {
        RangeLock { kind, range, owner }
    }

    #[test]
    fn a_part_of_a_lock_is_released_or_changes_its_kind() {
        let locks = Locks::default();
        locks.set(LockSpace::Ranges, FILE, lock(1, LockKind::Exclusive, 10..50), false).unwrap();
        locks.set(LockSpace::Ranges, FILE, lock(1, LockKind::Shared, 20..30), false).unwrap();
        locks.release(LockSpace::Ranges, FILE, 1, &(40..45));
        let mut left = locks.table.lock().ranges[&FILE].clone();
        left.sort_by_key(|lock| lock.range.start);
        let parts = [(10..20, LockKind::Exclusive), (20..30, LockKind::Shared), (30..40, LockKind::Exclusive)];
        let parts = parts.into_iter().chain([(45..50, LockKind::Exclusive)]);
        assert_eq!(left, parts.map(|(range, kind)| lock(1, kind, range)).collect::<Vec<_>>());
        locks.set(LockSpace::Ranges, FILE, lock(2, LockKind::Shared, 20..30), false).unwrap();
        let refused = locks.set(LockSpace::Ranges, FILE, lock(2, LockKind::Shared, 0..11), false);
        assert_eq!(refused.unwrap_err(), Errno::EAGAIN);
    }

    /// Random locks against an owner for each byte.
    #[test]
    fn ranges_are_what_bytes_are() {
        const LEN: u64 = 40;
        let mut random = Random::new(11);
        let locks = Locks::default();
        let mut bytes: Vec<Vec<(u64, LockKind)>> = vec![Vec::new(); LEN as usize];
        for _ in 0..4000 {
            let (owner, from) = (1 + random.below(3), random.below(LEN));
            let range = from..(from + 1 + random.below(12)).min(LEN);
            let covered = range.start as usize..range.end as usize;
            if random.below(3) == 0 {
                locks.release(LockSpace::Ranges, FILE, owner, &range);
                bytes[covered].iter_mut().for_each(|byte| byte.retain(|held| held.0 != owner));
                continue;
            }
            let kind = if random.below(2) == 0 { LockKind::Shared } else { LockKind::Exclusive };
            let is_free = bytes[covered.clone()]
                .iter()
                .flatten()
                .all(|&(other, held)| other == owner || held == LockKind::Shared && kind == LockKind::Shared);
            let taken = locks.set(LockSpace::Ranges, FILE, lock(owner, kind, range), false);
            assert_eq!(taken.is_ok(), is_free);
            if is_free {
                for byte in &mut bytes[covered] {
                    byte.retain(|held| held.0 != owner);
                    byte.push((owner, kind));
                }
            }
            let kind = |at: usize, owner: u64| bytes[at].iter().find(|held| held.0 == owner).map(|held| held.1);
            let begins = |at: usize, owner: u64| {
                kind(at, owner).is_some() && (at == 0 || kind(at - 1, owner) != kind(at, owner))
            };
            let parts = (1..=3).map(|owner| (0..LEN as usize).filter(|&at| begins(at, owner)).count());
            let table = locks.table.lock();
            let joined = table.ranges.get(&FILE).map_or(0, Vec::len);
            assert_eq!(joined, parts.sum::<usize>(), "adjacent locks become one");
        }
    }

    /// Whatever order the locks were taken in; locks of the asking owner are in no one's way.
    #[test]
    fn the_first_lock_in_the_way_is_told() {
        let locks = Locks::default();
        for (owner, range) in [(2, 50..60), (1, 0..10), (3, 20..30)] {
            locks.set(LockSpace::Ranges, FILE, lock(owner, LockKind::Shared, range), false).unwrap();
        }
        let found = |kind| locks.first_conflict(FILE, &lock(1, kind, 0..u64::MAX));
        assert_eq!(found(LockKind::Exclusive), Some(lock(3, LockKind::Shared, 20..30)));
        assert_eq!(found(LockKind::Shared), None);
    }

    #[test]
    fn waiting_in_a_circle_fails() {
        let locks = Locks::default();
        locks.set(LockSpace::Ranges, FILE, lock(1, LockKind::Exclusive, 0..1), false).unwrap();
        locks.set(LockSpace::Ranges, FILE, lock(2, LockKind::Exclusive, 1..2), false).unwrap();
        locks.set(LockSpace::Ranges, FILE, lock(3, LockKind::Exclusive, 2..3), false).unwrap();
        std::thread::scope(|scope| {
            let wait = |owner: u64, at: u64| {
                let locks = &locks;
                scope.spawn(move || {
                    locks.set(LockSpace::Ranges, FILE, lock(owner, LockKind::Exclusive, at..at + 1), true)
                })
            };
            let second = wait(2, 0);
            let third = wait(3, 1);
            while locks.table.lock().waiting.len() < 2 {
                std::thread::yield_now();
            }
            let first = locks.set(LockSpace::Ranges, FILE, lock(1, LockKind::Exclusive, 2..3), true);
            assert_eq!(first.unwrap_err(), Errno::EDEADLK);
            locks.release_records(FILE, 1);
            second.join().unwrap().unwrap();
            locks.release_records(FILE, 2);
            third.join().unwrap().unwrap();
        });
        locks.release_records(FILE, 3);
        let table = locks.table.lock();
        assert!(table.ranges.is_empty() && table.waiting.is_empty(), "nothing is left");
    }

    /// A waiter is woken by a lock that becomes shared, as by one that ends.
    #[test]
    fn a_lock_that_becomes_shared_lets_others_in() {
        let locks = Locks::default();
        locks.set(LockSpace::Ranges, FILE, lock(1, LockKind::Exclusive, 0..9), false).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let locks = &locks;
            scope.spawn(move || {
                sender.send(locks.set(LockSpace::Ranges, FILE, lock(2, LockKind::Shared, 0..9), true)).unwrap();
            });
            while locks.table.lock().waiting.is_empty() {
                std::thread::yield_now();
            }
            locks.set(LockSpace::Ranges, FILE, lock(1, LockKind::Shared, 0..9), false).unwrap();
            let taken = receiver.recv_timeout(std::time::Duration::from_secs(20));
            locks.release_records(FILE, 1); // the waiter ends in any case
            taken.expect("the waiter is woken").unwrap();
        });
    }

    /// The end of the last range lock leaves the locks of whole files.
    #[test]
    fn locks_of_both_kinds_are_released_apart() {
        let locks = Locks::default();
        locks.set(LockSpace::Whole, FILE, lock(2, LockKind::Exclusive, 0..u64::MAX), false).unwrap();
        locks.set(LockSpace::Ranges, FILE, lock(1, LockKind::Exclusive, 0..9), false).unwrap();
        locks.release_records(FILE, 1);
        locks.release_all(FILE, 2);
        locks.set(LockSpace::Whole, FILE, lock(3, LockKind::Exclusive, 0..u64::MAX), false).unwrap();
    }
}

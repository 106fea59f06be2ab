//! Locks of a pool, by address: held to the end of the transaction, volatile.
//!
//! A lock word inside a value would be moved by a swap, and would have to be reset after a crash.
//! Here a lock exists while it is held: in the pool's table for all threads, in the
//! transaction's list for its own use.
//!
//! Invariants
//!   LOCK-1  A lock is released after its transaction is ordered, or rolled back.
//!   LOCK-2  A lane is taken before the first lock, so no thread waits for a lane while it holds a
//!           lock.
//!   LOCK-3  While a guard that can change a value lives, there is no other guard of that value.
//!   LOCK-4  A transaction that met others, at a lock, a shared count or a volatile weak pointer,
//!           settles the newest commit of those others before it returns: it may have read it.
//!
//! Threads: any. Programs must order their locks.

use crate::transaction::counts::ByPlace;
use crate::transaction::running::Running;
use crate::transaction::sync::{Condvar, Mutex};
use everbyte_media::museum::{misplaced, unless};
use everbyte_media::seeded;
use std::collections::hash_map::Entry;

/// One shard where schedules are tried: all should meet there.
const SHARD_BITS: u32 = if cfg!(test) { 0 } else { 6 };
/// Pauses between asking for a lock before its thread sleeps: some microseconds in all. Most
/// transactions end sooner, and a thread takes longer to wake up. In schedules a thread sleeps at
/// once.
const PATIENCE: &[u32] = if cfg!(test) { &[] } else { &[1, 2, 4, 8, 16, 32, 64] };

/// The table.
pub(crate) struct LockTable {
    shards: [Shard; 1 << SHARD_BITS],
}

#[derive(Default)]
#[repr(align(128))] // as counters: threads at neighbouring shards do not share lines
struct Shard {
    locks: Mutex<Locks>,
    freed: Condvar,
}

#[derive(Default)]
struct Locks {
    states: ByPlace<usize, LockState>,
    waiting: u32,
}

/// Readers, or one writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LockState {
    Read(u32),
    Written,
}

/// The mode of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Read,
    Write,
}

/// A guard of a lock; recorded until this is dropped, which leaves the lock itself (LOCK-3).
pub(crate) struct HeldLock<'b> {
    running: &'b Running,
    index: usize,
    mode: Mode,
}

impl Drop for HeldLock<'_> {
    #[inline]
    fn drop(&mut self) {
        let mine = &mut self.running.locks.borrow_mut()[self.index];
        match self.mode {
            Mode::Read => mine.readers -= 1,
            Mode::Write => mine.writer = false,
        }
    }
}

/// A lock that a transaction holds.
pub(crate) struct Mine {
    key: usize,
    mode: Mode,
    /// In the table; a value that is not in the pool needs no lock, only LOCK-3.
    shared: bool,
    readers: u32,
    writer: bool,
}

impl Default for LockTable {
    fn default() -> LockTable {
        LockTable { shards: std::array::from_fn(|_| Shard::default()) }
    }
}

impl LockTable {
    fn shard(&self, key: usize) -> &Shard {
        let hash = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(hash >> 1 >> (63 - SHARD_BITS)) as usize]
    }

    fn acquire(&self, key: usize, mode: Mode) {
        for &pauses in PATIENCE {
            if self.try_acquire(key, mode) {
                return;
            }
            (0..pauses).for_each(|_| std::hint::spin_loop());
        }
        let shard = self.shard(key);
        let mut locks = shard.locks.lock();
        while !locks.grant(key, mode) {
            locks.waiting += 1;
            shard.freed.wait(&mut locks);
            locks.waiting -= 1;
        }
    }

    fn try_acquire(&self, key: usize, mode: Mode) -> bool {
        self.shard(key).locks.lock().grant(key, mode)
    }

    /// The only reader becomes the writer.
    fn raise(&self, key: usize) -> bool {
        let mut locks = self.shard(key).locks.lock();
        let alone = locks.states.get(&key) == Some(&LockState::Read(1)) || seeded("object-raise-beside");
        if alone {
            locks.states.insert(key, LockState::Written);
        }
        alone
    }

    fn release(&self, key: usize) {
        let shard = self.shard(key);
        let mut locks = shard.locks.lock();
        match locks.states.get_mut(&key) {
            Some(LockState::Read(count)) if *count > 1 => *count -= 1,
            Some(_) => drop(locks.states.remove(&key)),
            None => unreachable!("LOCK-1: a lock falls once"),
        }
        if locks.waiting > 0 {
            misplaced("object-wake-one", || {
                shard.freed.notify_one();
            });
            unless("object-wake-one", || {
                shard.freed.notify_all(); // threads that wait for another lock of the shard, too
            });
        }
    }
}

impl Locks {
    #[inline]
    fn grant(&mut self, key: usize, mode: Mode) -> bool {
        match (self.states.entry(key), mode) {
            (Entry::Vacant(entry), Mode::Write) => drop(entry.insert(LockState::Written)),
            (Entry::Vacant(entry), Mode::Read) => drop(entry.insert(LockState::Read(1))),
            (Entry::Occupied(mut entry), Mode::Read) => match entry.get_mut() {
                LockState::Read(count) => *count += 1,
                LockState::Written => return false,
            },
            (Entry::Occupied(_), Mode::Write) => return false,
        }
        true
    }
}

impl Running {
    /// Takes a lock for the rest of the transaction, and records a guard of it. `wait` is false for
    /// callers that prefer `None`.
    ///
    /// # Panics
    /// If a guard that forbids it lives in this transaction; if the transaction holds the lock for
    /// reading, others do, too, and it is to be written.
    #[track_caller]
    pub(crate) fn lock(&self, at: *const u8, depth: u8, mode: Mode, wait: bool) -> Option<HeldLock<'_>> {
        let key = at as usize | (depth as usize) << 56;
        let mut locks = self.locks.borrow_mut();
        if let Some(index) = locks.iter().rposition(|mine| mine.key == key) {
            let mine = &mut locks[index];
            let free = !mine.writer && (mode == Mode::Read || mine.readers == 0);
            if !free && !wait {
                return None;
            }
            assert!(free, "LOCK-3: this transaction has a guard of the lock already; drop it first");
            if mode == Mode::Write && mine.mode == Mode::Read {
                let raised = !mine.shared || self.inner().locks.raise(key);
                if !raised && !wait {
                    return None;
                }
                assert!(
                    raised,
                    "this transaction reads the lock with others, and waiting for them could last forever: ask for `write` first"
                );
                mine.mode = Mode::Write;
            }
            mine.record(mode);
            return Some(HeldLock { running: self, index, mode });
        }
        let shared = self.contains(at, 1);
        if shared {
            self.met.set(true);
            if let Err(error) = self.tx().take_lane() {
                drop(locks);
                self.stop(error.into()); // LOCK-2
            }
            if wait {
                self.inner().locks.acquire(key, mode);
            } else if !self.inner().locks.try_acquire(key, mode) {
                return None;
            }
        }
        let mut mine = Mine { key, mode, shared, readers: 0, writer: false };
        mine.record(mode);
        locks.push(mine);
        Some(HeldLock { running: self, index: locks.len() - 1, mode })
    }

    /// LOCK-1.
    pub(crate) fn release_locks(&self) {
        for mine in self.locks.borrow_mut().drain(..).filter(|mine| mine.shared) {
            self.inner().locks.release(mine.key);
        }
    }
}

impl Mine {
    fn record(&mut self, mode: Mode) {
        match mode {
            Mode::Read => self.readers += 1,
            Mode::Write => self.writer = true,
        }
    }
}

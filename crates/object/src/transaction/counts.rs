//! Reference counts: changed by sums at the commit, never by old bytes.
//!
//! While a transaction runs, its additions to a count are kept beside it (volatile), so two
//! transactions may clone one object, and a roll-back of one leaves the other's additions. At the
//! end of the outermost body:
//!   1. the pool's lock on counts is taken, if a count that threads share is to change; it is kept
//!      until the commit is ordered
//!   2. the sums are examined: if an object loses its last strong pointer while another
//!      transaction has pinned it, this transaction waits a moment, and is rolled back if the pin
//!      stays
//!   3. all words that change are logged together and stored
//!   4. values without a strong pointer are dropped, which may change further counts: back to 2
//!
//! Invariants
//!   COUNT-1  A count on media is the number of pointers that committed transactions have left.
//!   COUNT-2  An object whose strong pointer a running transaction has got from a weak one is not
//!            dropped by another: it is pinned.
//!   COUNT-3  A volatile weak pointer names an object by a number used once in the process; when
//!            the value is dropped, or its creation is rolled back, the number is removed before
//!            the block can be used again.
//!   COUNT-4  The end of an object, and its counts, are reported only after the transaction that
//!            changed them is ordered.
//!
//! Threads: pins and numbers are shared under their lock, counts under theirs; a lane is taken
//! before the lock on counts (LOCK-2), and that before pins.

use crate::transaction::running::{Drop, Running};
use crate::transaction::sync::{Condvar, Mutex, MutexGuard};
use crate::{Error, Result};
use everbyte_media::seeded;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A counted object, as it lies in its block.
#[repr(C)]
pub(crate) struct Counted<T> {
    pub strong: AtomicU64,
    pub weak: AtomicU64,
    pub value: T,
}

/// Hashes offsets and addresses, which are well spread already.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline(always)]
    fn write_u64(&mut self, word: u64) {
        let word = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = word ^ word >> 32;
    }

    #[inline(always)]
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

/// A map by offset or address.
pub(crate) type ByPlace<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// How long the last pointer's owner waits for a transaction that has pinned the object.
const PATIENCE: Duration = Duration::from_millis(100);

/// Of a pool.
#[derive(Default)]
pub(crate) struct SharedCounts {
    /// Held from the first changed count of a transaction to its ordered commit.
    lock: Mutex<()>,
    pins: Mutex<Pins>,
    unpinned: Condvar,
}

#[derive(Default)]
struct Pins {
    /// COUNT-2: transactions that hold a strong pointer got from a weak one.
    pinned: ByPlace<u64, u32>,
    /// COUNT-3.
    numbers: ByPlace<u64, Number>,
}

/// The state that volatile weak pointers to an object share.
#[derive(Clone, Copy)]
struct Number {
    number: u64,
    /// The transaction that makes the object and has not ended; 0: it is committed.
    maker: u64,
}

/// The sums that a transaction adds to one object's counts.
#[derive(Clone, Copy)]
struct Delta {
    strong: i64,
    weak: i64,
    /// Drops the value.
    drop: Drop,
    /// Threads share the object.
    shared: bool,
}

/// Of a transaction.
#[derive(Default)]
pub(crate) struct Changes {
    deltas: ByPlace<u64, Delta>,
    pinned: Vec<u64>,
    /// Objects made by this transaction that have a number.
    numbered: Vec<u64>,
    /// Numbers forgotten by this transaction.
    forgotten: Vec<(u64, Number)>,
    lock: Option<MutexGuard<'static, ()>>,
}

impl SharedCounts {
    /// The values of these objects are going: no volatile weak pointer to them is promoted any more
    /// (COUNT-3).
    pub(crate) fn forget_all(&self, offsets: impl Iterator<Item = u64>) {
        let mut pins = self.pins.lock();
        offsets.for_each(|offset| _ = pins.numbers.remove(&offset));
    }
}

impl Running {
    /// Adds to the counts of the object at `offset`. May be called from destructors.
    #[inline]
    pub(crate) fn count(&self, offset: u64, strong: i64, weak: i64, drop: Drop, shared: bool) {
        self.tx(); // there will be something to commit, and to release
        let mut changes = self.changes.borrow_mut();
        let delta = changes.deltas.entry(offset).or_insert(Delta { strong: 0, weak: 0, drop, shared });
        delta.strong += strong;
        delta.weak += weak;
    }

    /// Whether a strong pointer to the object can be made from a weak one, or, with a `number`,
    /// from a volatile one that was given that number. If so it is counted, and pinned where
    /// threads share it.
    pub(crate) fn upgrade(&self, offset: u64, number: Option<u64>, drop: Drop, shared: bool) -> bool {
        self.tx(); // as in `count`
        self.met.set(self.met.get() || shared);
        if self.try_upgrade(offset, number, drop, shared) {
            return true;
        }
        if !shared || seeded("object-gone-early") {
            return false;
        }
        let _still = self.still_counts(); // COUNT-4
        self.try_upgrade(offset, number, drop, shared)
    }

    fn try_upgrade(&self, offset: u64, number: Option<u64>, drop: Drop, shared: bool) -> bool {
        let mut table = (shared || number.is_some()).then(|| self.inner().counts.pins.lock());
        if let (Some(number), Some(table)) = (number, &table) {
            let found = table.numbers.get(&offset).filter(|found| found.number == number);
            let is_made =
                |found: &Number| found.maker == 0 || found.maker == self.id() || seeded("object-promote-early");
            if !found.is_some_and(is_made) {
                return false; // dropped, or not committed by its maker
            }
        }
        let mut changes = self.changes.borrow_mut();
        let delta = changes.deltas.get(&offset).map_or(0, |delta| delta.strong);
        if self.word(offset, 0).load(Ordering::Acquire) as i64 + delta <= 0 {
            return false;
        }
        if let Some(table) = &mut table
            && shared
            && !changes.pinned.contains(&offset)
            && !seeded("object-upgrade-unpinned")
        {
            *table.pinned.entry(offset).or_insert(0) += 1; // COUNT-2
            changes.pinned.push(offset);
        }
        std::mem::drop((changes, table));
        self.count(offset, 1, 0, drop, shared);
        true
    }

    /// Waits for the transaction that changes shared counts at the moment; no transaction changes
    /// them while the result lives.
    #[cold]
    fn still_counts(&self) -> Option<MutexGuard<'_, ()>> {
        let is_mine = self.changes.borrow().lock.is_some();
        (!is_mine).then(|| self.inner().counts.lock.lock())
    }

    /// The number of the object at `offset`, for a volatile weak pointer.
    pub(crate) fn number(&self, offset: u64) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let own = self.owns(offset, 8);
        self.met.set(true);
        let mut pins = self.inner().counts.pins.lock();
        let entry = pins.numbers.entry(offset).or_insert_with(|| {
            let maker = if own { self.id() } else { 0 };
            if own {
                self.changes.borrow_mut().numbered.push(offset);
            }
            Number { number: NEXT.fetch_add(1, Ordering::Relaxed), maker }
        });
        entry.number
    }

    /// The strong (0) or weak (1) count of the object at `offset`.
    pub(crate) fn word(&self, offset: u64, index: u64) -> &AtomicU64 {
        let at = (self.base() + (offset + index * 8) as usize) as *mut u64;
        // SAFETY: a word of a counted object's block, aligned, changed through atomics alone; the
        // pool outlives `self`.
        unsafe { AtomicU64::from_ptr(at) }
    }

    /// The counts of the object at `offset` as this transaction sees them: strong, weak.
    pub(crate) fn counts(&self, offset: u64, shared: bool) -> (u64, u64) {
        let _still = shared.then(|| {
            self.tx(); // there will be something to settle
            self.met.set(true);
            self.still_counts() // COUNT-4
        });
        let changes = self.changes.borrow();
        let (strong, weak) = changes.deltas.get(&offset).map_or((0, 0), |delta| (delta.strong, delta.weak));
        let now = |index, delta| self.word(offset, index).load(Ordering::Acquire).wrapping_add_signed(delta);
        (now(0, strong), now(1, weak))
    }

    /// Stores the sums, and drops values without a strong pointer.
    ///
    /// # Errors
    /// [`Error::Contended`], [`Error::Tx`]: the transaction is to be rolled back.
    #[inline]
    pub(crate) fn fold_counts(&self) -> Result<(), Box<Error>> {
        let mut first = true;
        while !self.changes.borrow().deltas.is_empty() {
            self.fold_round(first).map_err(Box::new)?;
            first = false;
        }
        Ok(())
    }

    #[cold]
    fn fold_round(&self, first: bool) -> Result<()> {
        let deltas: Vec<(u64, Delta)> = {
            let mut changes = self.changes.borrow_mut();
            let mut deltas: Vec<_> =
                changes.deltas.drain().filter(|(_, delta)| delta.strong != 0 || delta.weak != 0).collect();
            // The order of the commit does not depend on the order of the hash map.
            deltas.sort_unstable_by_key(|(offset, _)| *offset);
            deltas
        };
        if deltas.iter().any(|(_, delta)| delta.shared) {
            self.tx().take_lane().map_err(Error::from)?; // LOCK-2: its holder may wait for counts
            self.lock_counts(); // 1
        }
        self.refuse_pinned(&deltas, first)?; // 2
        let words = deltas.iter().flat_map(|(offset, delta)| {
            let at = |index: u64| self.store_offset(offset + index * 8);
            [(delta.strong != 0).then(|| (at(0), 8)), (delta.weak != 0).then(|| (at(1), 8))].into_iter().flatten()
        });
        let words: Vec<(u64, u64)> = words.collect();
        self.tell();
        if !seeded("object-count-unlogged") {
            self.tx().name_ranges(&words).map_err(Error::from)?; // 3
        }
        let mut dead = Vec::new();
        let pins = self.inner().counts.pins.lock();
        if self.is_blocked(&pins, &deltas) && !seeded("object-drop-unchecked") {
            return Err(self.contended()); // upgraded since
        }
        for (offset, delta) in &deltas {
            let (strong, weak) = (self.word(*offset, 0), self.word(*offset, 1));
            let before = strong.load(Ordering::Relaxed);
            let now = before.wrapping_add_signed(delta.strong);
            let weaks = weak.load(Ordering::Relaxed).wrapping_add_signed(delta.weak);
            assert!(now <= i64::MAX as u64 && weaks <= i64::MAX as u64, "COUNT-1: a count below nothing");
            if delta.strong != 0 {
                strong.store(now, Ordering::Release);
            }
            if delta.weak != 0 {
                weak.store(weaks, Ordering::Release);
            }
            if now == 0 {
                dead.push((*offset, *delta, before > 0, weaks));
            }
        }
        std::mem::drop(pins); // from here on no weak pointer to the dead is upgraded
        for (offset, delta, alive, weaks) in dead {
            if alive {
                self.forget(offset);
                // SAFETY: the value is alive, and no strong pointer is left that could reach it or
                // drop it again.
                unsafe { (delta.drop)((self.base() + offset as usize) as *mut u8) }; // 4
            }
            if weaks == 0 {
                self.free(offset);
            }
        }
        self.failed()
    }

    fn lock_counts(&self) {
        let mut changes = self.changes.borrow_mut();
        if changes.lock.is_none() {
            let shared: *const SharedCounts = &self.inner().counts;
            // SAFETY: the guard is dropped with `self`, and the pool outlives that.
            let shared: &'static SharedCounts = unsafe { &*shared };
            changes.lock = Some(shared.lock.lock());
            self.met.set(true);
        }
    }

    /// COUNT-2: waits while an object that is to be dropped is pinned by another transaction. Later
    /// rounds have stored counts already and cannot let go of the lock, so they do not wait.
    fn refuse_pinned(&self, deltas: &[(u64, Delta)], first: bool) -> Result<()> {
        let shared = &self.inner().counts;
        let mut waited = false;
        loop {
            let mut pins = shared.pins.lock();
            if pins.pinned.is_empty() {
                return Ok(());
            }
            if !self.is_blocked(&pins, deltas) {
                return Ok(());
            }
            if waited || !first {
                return Err(self.contended());
            }
            // a transaction that has pinned it may need the lock to end
            self.changes.borrow_mut().lock = None;
            waited = shared.unpinned.wait_for(&mut pins, PATIENCE).timed_out();
            std::mem::drop(pins);
            self.lock_counts();
        }
    }

    /// Whether a value is to be dropped that another transaction has pinned.
    fn is_blocked(&self, pins: &Pins, deltas: &[(u64, Delta)]) -> bool {
        if pins.pinned.is_empty() {
            return false;
        }
        let changes = self.changes.borrow();
        deltas.iter().any(|(offset, delta)| {
            let now = self.word(*offset, 0).load(Ordering::Relaxed).wrapping_add_signed(delta.strong);
            let all = pins.pinned.get(offset).map_or(0, |count| *count);
            let others = all - u32::from(changes.pinned.contains(offset));
            delta.shared && delta.strong < 0 && now == 0 && others > 0
        })
    }

    #[cold]
    fn contended(&self) -> Error {
        Error::Contended { pool: self.inner().object.name().into() }
    }

    /// COUNT-3.
    fn forget(&self, offset: u64) {
        let mut pins = self.inner().counts.pins.lock();
        if let Some(number) = pins.numbers.remove(&offset) {
            self.changes.borrow_mut().forgotten.push((offset, number));
        }
    }

    /// The transaction will be rolled back: its new objects are removed before their blocks can be
    /// used again, and removed ones are added again.
    pub(crate) fn revert_counts(&self) {
        let mut changes = self.changes.borrow_mut();
        let changes = &mut *changes;
        changes.deltas.clear();
        if changes.numbered.is_empty() && changes.forgotten.is_empty() {
            return;
        }
        let mut pins = self.inner().counts.pins.lock();
        changes.forgotten.drain(..).for_each(|(offset, number)| {
            pins.numbers.insert(offset, number);
        });
        if !seeded("object-number-kept") {
            changes.numbered.drain(..).for_each(|offset| {
                pins.numbers.remove(&offset);
            });
        }
    }

    /// After the transaction is ordered, or rolled back: releases pins and locks; its new objects
    /// may be promoted.
    #[inline]
    pub(crate) fn release_counts(&self) {
        let mut changes = self.changes.borrow_mut();
        changes.lock = None;
        if changes.pinned.is_empty() && changes.numbered.is_empty() {
            return;
        }
        let shared = &self.inner().counts;
        let mut pins = shared.pins.lock();
        for offset in changes.numbered.drain(..) {
            if let Some(number) = pins.numbers.get_mut(&offset) {
                number.maker = 0;
            }
        }
        for offset in changes.pinned.drain(..) {
            let count = pins.pinned.get_mut(&offset).expect("COUNT-2: pinned by this transaction");
            *count -= 1;
            if *count == 0 {
                pins.pinned.remove(&offset);
            }
        }
        shared.unpinned.notify_all();
    }
}

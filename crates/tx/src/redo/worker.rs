//! [`Worker`]: what one thread's transaction reads, and what it will store.
//!
//! Stores take the lock of their stripe and wait in memory; loads of a stripe of one's own find them there. Other loads look
//! at the lock before and after: what they return was there at the time up to which the transaction is known to be valid.
//! Where a newer commit is met, everything read so far is looked at again, and that time moves on, or there is a conflict.
//!
//! Invariants
//!   REDO-1  Nothing that was there before is stored to until the record of the commit is settled.
//!   REDO-2  Whatever a body has loaded, at every moment, was all there at one time.
//!
//! Threads: a worker belongs to one thread at a time.

use super::active::{Others, Since};
use super::engine::Inner;
use super::locks::{FOREIGN, Locks, STRIPE, Word};
use super::recover::store_masked;
use super::stripe::{NONE, Stripe};
use crate::owned::Owned;
use crate::{Error, Result};
use crossbeam_utils::Backoff;
use everbyte_heap::{Block, Op};
use everbyte_media::Media;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Why a step of a transaction is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Another transaction is in the way: abort, and begin again.
    Conflict,
    /// The place is none that transactions may change.
    Outside,
    /// There are [`STRIPES_MAX`] places of 32 bytes that wait to be stored.
    TooLong,
}

/// Places of 32 bytes that one transaction may store to, what it allocates left out: 64 MiB where they touch.
pub const STRIPES_MAX: usize = 2 << 20;

/// Runs transactions, one after the other. Whoever wants isolation and retries in one call uses
/// [`super::Redo::atomically`].
pub struct Worker {
    pub(super) engine: Arc<Inner>,
    /// The engine's, one step nearer.
    media: Media,
    pub(super) since: Since,
    pub(super) others: Others,
    pub(super) number: u32,
    /// The log that is tried first.
    pub(super) log: usize,
    pub(super) running: bool,
    /// What was loaded was there at this time.
    pub(super) valid_at: u64,
    /// Locks looked at.
    pub(super) reads: Vec<u32>,
    pub(super) stripes: Vec<Stripe>,
    /// Blocks allocated and not freed again; stored to in place.
    pub(super) blocks: Owned,
    /// Blocks allocated and freed in this transaction.
    pub(super) discarded: Vec<Block>,
    pub(super) frees: Vec<Op>,
    /// The caller has changed memory under locks of this transaction's.
    pub(super) changed_foreign: bool,
    /// What stores replaced since the oldest checkpoint, while there is one.
    replaced: Vec<Replaced>,
    checkpoints: u32,
    /// A step was not done because of a conflict: the transaction cannot commit.
    pub(super) met_conflict: bool,
    /// Times that this transaction was aborted by conflicts.
    pub(super) attempts: u32,
    pub(super) words: Vec<u64>,
}

enum Replaced {
    /// A store that waited.
    Waiting { stripe: u32, word: u8, mask: u8, value: u64 },
    /// A word of a block of this transaction's own.
    Own { at: u64, value: u64 },
}

/// A point inside a transaction that it can go back to.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    replaced: usize,
    frees: usize,
    blocks: Vec<Block>,
    discarded: usize,
}

/// Retries after which a transaction waits until it runs alone.
const PATIENCE: u32 = 24;

impl Worker {
    pub(super) fn new(engine: Arc<Inner>, number: u32) -> Worker {
        let since = engine.active.enter();
        Worker {
            media: engine.media.clone(),
            log: number as usize % engine.logs.len(),
            engine,
            since,
            others: Others::default(),
            number,
            running: false,
            valid_at: 0,
            reads: Vec::new(),
            stripes: Vec::new(),
            blocks: Owned::default(),
            discarded: Vec::new(),
            frees: Vec::new(),
            changed_foreign: false,
            replaced: Vec::new(),
            checkpoints: 0,
            met_conflict: false,
            attempts: 0,
            words: Vec::new(),
        }
    }

    /// Begins a transaction. After conflicts it waits a little, and in the end until it runs alone.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    ///
    /// # Panics
    /// If one runs.
    #[inline]
    pub fn begin(&mut self) -> Result<()> {
        assert!(!self.running, "a worker runs one transaction at a time");
        let engine = &*self.engine;
        engine.require_sound()?;
        if self.attempts > 0 {
            self.wait_turn();
        }
        engine.active.begin(&self.since, self.number, &engine.clock);
        self.valid_at = engine.clock.load(Ordering::Acquire);
        self.running = true;
        Ok(())
    }

    #[cold]
    fn wait_turn(&self) {
        if self.attempts == PATIENCE {
            return self.engine.active.shut_out_others(self.number);
        }
        let backoff = Backoff::new();
        (0..self.attempts.min(8)).for_each(|_| backoff.snooze());
    }

    /// Whether a transaction runs.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// Times that the transaction that runs, or is to be begun again, was aborted by conflicts.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The word at `at`, a multiple of 8.
    ///
    /// # Errors
    /// [`Error::Conflict`]; [`Error::BadRange`].
    #[inline(always)]
    pub fn load(&mut self, at: u64) -> Result<u64> {
        self.load_by(at, |media| media.get_word(at)).map_err(|stop| self.error(stop, at, 8))
    }

    /// The word with this key, a multiple of 8, as `value` finds it in memory, by one load with acquire order: for rooms that
    /// know where the bytes are mapped. `None`: they are not.
    ///
    /// # Errors
    /// [`Stop::Conflict`]; [`Stop::Outside`].
    #[inline(always)]
    pub fn load_by(&mut self, key: u64, value: impl Fn(&Media) -> Option<u64>) -> Result<u64, Stop> {
        let lock = Locks::index(key);
        loop {
            let word = self.engine.locks.word(lock);
            let before = Word(word.load(Ordering::Acquire));
            if before.is_unchanged_since(self.valid_at) {
                let found = value(&self.media);
                if word.load(Ordering::Acquire) == before.0 {
                    if self.reads.last() != Some(&lock) {
                        self.reads.push(lock);
                    }
                    return found.ok_or(Stop::Outside);
                }
            } else if before.is_held() {
                return self.load_held(key, before, value);
            } else {
                self.move_on()?;
            }
        }
    }

    #[cold]
    fn load_held(&mut self, key: u64, word: Word, value: impl Fn(&Media) -> Option<u64>) -> Result<u64, Stop> {
        if !word.is_held_by(self.number) {
            return Err(Stop::Conflict);
        }
        let found = value(&self.media).ok_or(Stop::Outside)?;
        let Some(stripe) = self.find(key & !(STRIPE - 1), word.index()) else { return Ok(found) };
        Ok(self.stripes[stripe].over(Stripe::word(key), found))
    }

    /// The same for memory that is no store's, at `address`; the caller has not changed it, or by leave of
    /// [`Worker::lock_foreign`].
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    #[inline(always)]
    pub fn load_foreign(&mut self, address: u64, value: impl Fn(&Media) -> u64) -> Result<u64, Stop> {
        self.load_by(address | FOREIGN, |media| Some(value(media)))
    }

    /// Takes the lock of the word at `address`, a multiple of 8, which is no store's. The caller may change it in place until
    /// the transaction ends, and before [`Worker::abort`] puts back what was there.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    #[inline]
    pub fn lock_foreign(&mut self, address: u64) -> Result<(), Stop> {
        self.own(address | FOREIGN)?;
        self.changed_foreign = true;
        Ok(())
    }

    /// Stores the word at `at`, a multiple of 8.
    ///
    /// # Errors
    /// [`Error::Conflict`]; [`Error::BadRange`]; [`Error::TooLong`].
    #[inline]
    pub fn store(&mut self, at: u64, value: u64) -> Result<()> {
        self.store_masked(at, 0xff, value).map_err(|stop| self.error(stop, at, 8))
    }

    /// Stores those bytes of the word at `at`, a multiple of 8, that `mask` has bits for.
    ///
    /// # Errors
    /// As it says.
    #[inline]
    pub fn store_masked(&mut self, at: u64, mask: u8, value: u64) -> Result<(), Stop> {
        if !self.blocks.is_empty() && self.blocks.holds(at, at + 8) {
            self.store_own(at, mask, value);
            return Ok(());
        }
        if at >= FOREIGN {
            return Err(Stop::Outside);
        }
        let (index, word) = (self.own(at)?, Stripe::word(at));
        if self.checkpoints > 0 {
            let (mask, value) = self.stripes[index].waiting(word);
            self.replaced.push(Replaced::Waiting { stripe: index as u32, word: word as u8, mask, value });
        }
        self.stripes[index].put(word, mask, value);
        Ok(())
    }

    /// Stores to a block of this transaction's own: in place, for on media it is free until the commit.
    fn store_own(&mut self, at: u64, mask: u8, value: u64) {
        let media = &self.engine.media;
        if self.checkpoints > 0 {
            self.replaced.push(Replaced::Own { at, value: media.load(at) });
        }
        store_through(media, at, mask, value);
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// As [`Worker::load`].
    pub fn read(&mut self, at: u64, into: &mut [u8]) -> Result<()> {
        let (mut at, mut into) = (at, into);
        while !into.is_empty() {
            let (skip, word) = ((at % 8) as usize, self.load(at & !7)?.to_le_bytes());
            let count = into.len().min(8 - skip);
            let (now, later) = into.split_at_mut(count);
            now.copy_from_slice(&word[skip..skip + count]);
            (at, into) = (at + count as u64, later);
        }
        Ok(())
    }

    /// Stores bytes.
    ///
    /// # Errors
    /// As [`Worker::store`].
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.write_by(at, bytes).map_err(|stop| self.error(stop, at, bytes.len() as u64))
    }

    /// Stores bytes.
    ///
    /// # Errors
    /// As it says.
    pub fn write_by(&mut self, at: u64, bytes: &[u8]) -> Result<(), Stop> {
        let (mut at, mut bytes) = (at, bytes);
        while !bytes.is_empty() {
            if let (0, Some((word, later))) = (at % 8, bytes.split_first_chunk()) {
                self.store_masked(at, 0xff, u64::from_le_bytes(*word))?;
                (at, bytes) = (at + 8, later);
                continue;
            }
            let (skip, mut word) = ((at % 8) as usize, [0; 8]);
            let (now, later) = bytes.split_at(bytes.len().min(8 - skip));
            word[skip..skip + now.len()].copy_from_slice(now);
            self.store_masked(at & !7, (((1u32 << now.len()) - 1) << skip) as u8, u64::from_le_bytes(word))?;
            (at, bytes) = (at + now.len() as u64, later);
        }
        Ok(())
    }

    /// Allocates a block of at least `size` bytes. It is the transaction's own: an abort or a crash gives it back. What it
    /// holds is unspecified.
    ///
    /// # Errors
    /// [`Error::Heap`].
    pub fn allocate(&mut self, size: u64) -> Result<Block> {
        let engine = &*self.engine;
        let block = match engine.heap.reserve(size) {
            Err(error) if error.is_full() => {
                engine.truncate(); // what was freed may still wait for that
                engine.heap.reserve(size)?
            }
            reserved => reserved?,
        };
        self.blocks.push(block);
        Ok(block)
    }

    /// Frees the block at `at` at the commit; an abort keeps it. Nobody may store to it any more.
    ///
    /// # Errors
    /// [`Error::Heap`] if `at` is no allocated block, or is being freed already: nothing has changed.
    pub fn free(&mut self, at: u64) -> Result<()> {
        if let Some(block) = self.blocks.remove(at) {
            self.discarded.push(block);
            return Ok(());
        }
        self.frees.push(self.engine.heap.op_free(at)?);
        Ok(())
    }

    /// Usable bytes of the block at `at`, be it allocated or this transaction's own.
    ///
    /// # Errors
    /// [`Error::Heap`] if no block starts there.
    pub fn size_of(&self, at: u64) -> Result<u64> {
        let own = self.blocks.iter().find(|block| block.at == at).map(|block| block.size);
        own.map_or_else(|| Ok(self.engine.heap.size_of(at)?), Ok)
    }

    /// Marks this point. To be ended by [`Worker::roll_back_to`] or [`Worker::release`], the newest first.
    pub fn checkpoint(&mut self) -> Checkpoint {
        self.checkpoints += 1;
        let (replaced, frees, discarded) = (self.replaced.len(), self.frees.len(), self.discarded.len());
        Checkpoint { replaced, frees, blocks: self.blocks.iter().copied().collect(), discarded }
    }

    /// Takes back what was stored, allocated and freed since. Locks stay.
    pub fn roll_back_to(&mut self, checkpoint: Checkpoint) {
        for replaced in self.replaced.drain(checkpoint.replaced..).rev() {
            match replaced {
                Replaced::Waiting { stripe, word, mask, value } => {
                    self.stripes[stripe as usize].put_back(word as usize, (mask, value));
                }
                Replaced::Own { at, value } => store_through(&self.engine.media, at, 0xff, value),
            }
        }
        self.engine.heap.abandon(&self.frees[checkpoint.frees..]);
        self.frees.truncate(checkpoint.frees);
        let now: Vec<Block> = self.blocks.iter().copied().chain(self.discarded.drain(checkpoint.discarded..)).collect();
        self.blocks.clear();
        for block in now {
            match checkpoint.blocks.contains(&block) {
                true => self.blocks.push(block),
                false => self.engine.heap.cancel(block),
            }
        }
        self.release();
    }

    /// Forgets the newest checkpoint.
    pub fn release(&mut self) {
        self.checkpoints -= 1;
        if self.checkpoints == 0 {
            self.replaced.clear();
        }
    }

    /// Ends the transaction; nothing of it has happened. If the caller has changed memory under its locks, it has put back
    /// what was there.
    pub fn abort(&mut self) {
        let engine = &*self.engine;
        self.blocks.iter().for_each(|block| engine.heap.cancel(*block));
        self.blocks.clear();
        engine.heap.abandon(&self.frees);
        self.frees.clear();
        // Who looked at the caller's changes meanwhile must not find the lock as it was.
        let version = self.changed_foreign.then(|| engine.clock.fetch_add(1, Ordering::SeqCst) + 1);
        self.unlock(version);
        self.end();
    }

    /// Gives locks back: as they were, or with a new version.
    pub(super) fn unlock(&mut self, version: Option<u64>) {
        for stripe in self.stripes.drain(..).filter(|stripe| !stripe.before.is_held()) {
            let word = version.map_or(stripe.before, Word::free);
            self.engine.locks.word(stripe.lock).store(word.0, Ordering::Release);
        }
    }

    /// What begins with a transaction ends; its locks have been given back.
    pub(super) fn end(&mut self) {
        let engine = &*self.engine;
        self.discarded.drain(..).for_each(|block| engine.heap.cancel(block));
        self.reads.clear();
        self.replaced.clear();
        self.checkpoints = 0;
        self.changed_foreign = false;
        self.met_conflict = false;
        self.running = false;
        engine.active.end(&self.since);
    }

    /// [`Worker::abort`] because of a conflict; the next [`Worker::begin`] waits a little.
    pub fn abort_to_retry(&mut self) {
        self.abort();
        self.attempts += 1;
    }

    /// [`Worker::abort`] for good: the next transaction is another one.
    pub fn give_up(&mut self) {
        self.abort();
        self.calm_down();
    }

    /// The transaction that was begun again and again has ended.
    pub(super) fn calm_down(&mut self) {
        if self.attempts >= PATIENCE {
            self.engine.active.let_others_in(self.number);
        }
        self.attempts = 0;
    }

    /// A [`Stop`] as an error.
    #[cold]
    fn error(&mut self, stop: Stop, at: u64, len: u64) -> Error {
        match stop {
            Stop::Conflict => {
                self.met_conflict = true;
                Error::Conflict
            }
            Stop::Outside => Error::BadRange { at, len, object: self.engine.name() },
            Stop::TooLong => Error::TooLong { object: self.engine.name(), most: STRIPES_MAX },
        }
    }

    /// The stripe of a key, under a lock of this transaction's.
    #[inline]
    fn own(&mut self, key: u64) -> Result<usize, Stop> {
        let (base, lock) = (key & !(STRIPE - 1), Locks::index(key));
        if self.stripes.last().is_some_and(|newest| newest.base == base) {
            return Ok(self.stripes.len() - 1);
        }
        let backoff = Backoff::new();
        loop {
            let seen = Word(self.engine.locks.word(lock).load(Ordering::Acquire));
            if seen.is_held_by(self.number) {
                return match self.find(base, seen.index()) {
                    Some(index) => Ok(index),
                    None => self.own_another(key, lock, seen.index()),
                };
            }
            if seen.is_held() {
                if backoff.is_completed() {
                    return Err(Stop::Conflict);
                }
                backoff.spin(); // its holder may be about to commit
                continue;
            }
            if !seen.is_unchanged_since(self.valid_at) {
                self.move_on()?;
                continue;
            }
            self.require_changeable(key)?;
            self.media.prefetch(base); // the commit stores there; of an address that is no store's, a hint at nothing
            let held = Word::held(self.number, self.stripes.len());
            let word = self.engine.locks.word(lock);
            if word.compare_exchange(seen.0, held.0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                self.stripes.push(Stripe::new(base, lock, seen));
                return Ok(self.stripes.len() - 1);
            }
        }
    }

    /// Another stripe under a lock that this transaction holds.
    #[cold]
    fn own_another(&mut self, key: u64, lock: u32, first: u32) -> Result<usize, Stop> {
        self.require_changeable(key)?;
        let (base, index) = (key & !(STRIPE - 1), self.stripes.len());
        let mut stripe = Stripe::new(base, lock, Word::held(self.number, first as usize));
        stripe.next = std::mem::replace(&mut self.stripes[first as usize].next, index as u32);
        self.stripes.push(stripe);
        Ok(index)
    }

    #[inline]
    fn require_changeable(&self, key: u64) -> Result<(), Stop> {
        if self.stripes.len() == STRIPES_MAX {
            return Err(Stop::TooLong);
        }
        if key & FOREIGN != 0 || key.is_multiple_of(8) && self.engine.may_change(key, 8) {
            return Ok(());
        }
        Err(Stop::Outside)
    }

    #[inline]
    fn find(&self, base: u64, first: u32) -> Option<usize> {
        let mut index = first;
        while index != NONE {
            let stripe = &self.stripes[index as usize];
            if stripe.base == base {
                return Some(index as usize);
            }
            index = stripe.next;
        }
        None
    }

    /// Moves on to the present, if what was loaded is still there (REDO-2).
    #[cold]
    fn move_on(&mut self) -> Result<(), Stop> {
        let now = self.engine.clock.load(Ordering::Acquire);
        if !self.is_valid() {
            return Err(Stop::Conflict);
        }
        self.valid_at = now;
        self.since.store(now, Ordering::Release);
        Ok(())
    }

    /// Whether nothing that was loaded has changed since.
    pub(super) fn is_valid(&self) -> bool {
        self.reads.iter().all(|&lock| {
            let word = Word(self.engine.locks.word(lock).load(Ordering::Acquire));
            word.is_unchanged_since(self.valid_at) || word.is_held_by(self.number)
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.running {
            self.abort();
        }
        self.calm_down();
        self.engine.active.leave(&self.since);
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Worker({}, {}, running: {})", self.engine.name(), self.number, self.running)
    }
}

/// Stores to media that nobody else looks at; where memory is private, also on its way at once: no section is open that
/// would keep it until the commit.
fn store_through(media: &Media, at: u64, mask: u8, value: u64) {
    let _section = media.section();
    store_masked(media, at, mask, value);
    if !media.capabilities().fence_settles {
        media.flush(at, 8);
    }
}

//! [`Worker`]: the read set and the buffered stores of one thread's transaction, from begin to end.
//! Loads, stores and the commit have files of their own.
//!
//! Invariants
//!   REDO-1  Nothing that was there before is stored to until the record of the commit is settled.
//!   REDO-2  All bytes that a body has loaded so far were valid together at one time.
//!
//! Threads: a worker belongs to one thread at a time.

use super::active::{Others, StartTime};
use super::engine::RedoState;
use super::layout::TIMESTAMPS_LAST;
use super::locks::Word;
use super::stores::store_through;
use super::stripe::Stripe;
use crate::owned::Owned;
use crate::{Error, Result};
use crossbeam_utils::Backoff;
use everbyte_heap as heap;
use everbyte_heap::{Block, Op};
use everbyte_media::{Length, Media, Offset};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Why a step of a transaction is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Another transaction is in the way: abort, and begin again.
    Conflict,
    /// The place is none that transactions may change.
    Outside,
    /// There are [`STRIPES_MAX`] lines that wait to be stored.
    TooLong,
}

/// Lines that one transaction may store to, what it allocates left out: 64 MiB where they touch.
pub const STRIPES_MAX: usize = 1 << 20;

/// Runs transactions, one after the other. [`super::Redo::atomically`] offers isolation and retries
/// in one call.
pub struct Worker {
    pub(super) engine: Arc<RedoState>,
    /// The engine's, one step nearer.
    pub(super) media: Media,
    pub(super) since: StartTime,
    pub(super) others: Others,
    pub(super) number: u32,
    /// The log that is tried first.
    pub(super) log: usize,
    pub(super) running: bool,
    /// The loaded values were there at this time.
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
    /// Values that stores replaced since the oldest checkpoint, while there is one.
    pub(super) replaced: Vec<Replaced>,
    pub(super) checkpoints: u32,
    /// A step was not done because of a conflict: the transaction cannot commit.
    pub(super) met_conflict: bool,
    /// Times that this transaction was aborted by conflicts.
    pub(super) attempts: u32,
    pub(super) words: Vec<u64>,
}

pub(super) enum Replaced {
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
    pub(super) fn new(engine: Arc<RedoState>, number: u32) -> Worker {
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
    /// [`Error::Poisoned`], [`Error::TimestampsExhausted`].
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
        if self.valid_at >= TIMESTAMPS_LAST {
            self.abort();
            return Err(Error::TimestampsExhausted { object: self.engine.name() });
        }
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

    /// Allocates a block of at least `size` bytes. It is the transaction's own: an abort or a crash
    /// gives it back. Its contents are unspecified.
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

    /// Frees the block at `at` at the commit; an abort keeps it. No store to it may follow.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another transaction frees it. [`Error::Heap`] if `at` is no allocated
    /// block, or is being freed already: nothing has changed.
    pub fn free(&mut self, at: impl Into<Offset>) -> Result<()> {
        let at = at.into().get();
        if let Some(block) = self.blocks.remove(at) {
            self.discarded.push(block);
            return Ok(());
        }
        let op = self.engine.heap.op_free(at).map_err(|error| self.refusal(error, at))?;
        self.frees.push(op);
        Ok(())
    }

    /// Usable bytes of the block at `at`, be it allocated or this transaction's own.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another transaction has freed it. [`Error::Heap`] if no block starts
    /// there.
    pub fn size_of(&mut self, at: impl Into<Offset>) -> Result<u64> {
        let at = at.into().get();
        if let Some(own) = self.blocks.iter().find(|block| block.at == at) {
            return Ok(own.size.get());
        }
        self.engine.heap.size_of(at).map_err(|error| self.refusal(error, at))
    }

    /// An error of the heap, whose present state this transaction has asked for: a conflict if it
    /// comes of a transaction that has committed since, or that is about to.
    #[cold]
    fn refusal(&mut self, error: heap::Error, at: u64) -> Error {
        let of_another = matches!(error, heap::Error::BeingFreed { .. }) && !self.frees_block(at);
        if !self.is_valid() || of_another && self.attempts < PATIENCE {
            return self.error(Stop::Conflict, at, 0);
        }
        error.into()
    }

    /// Whether the commit of this transaction is to free the block at `at`.
    fn frees_block(&self, at: u64) -> bool {
        let heap = &self.engine.heap;
        let block = heap.size_of(at).map(|size| Block { at: Offset::new(at), size: Length::new(size) });
        block.is_ok_and(|block| self.frees.contains(&heap.op_allocate(&block).inverse()))
    }

    /// Marks this point. To be ended by [`Worker::roll_back_to`] or [`Worker::release`], the newest
    /// first.
    pub fn checkpoint(&mut self) -> Checkpoint {
        self.checkpoints += 1;
        let (replaced, frees, discarded) = (self.replaced.len(), self.frees.len(), self.discarded.len());
        Checkpoint { replaced, frees, blocks: self.blocks.iter().copied().collect(), discarded }
    }

    /// Takes back the stores, allocations and frees since then. Locks stay.
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

    /// Ends the transaction; nothing of it has happened. If the caller has changed memory under its
    /// locks, it has put back what was there.
    pub fn abort(&mut self) {
        let engine = &*self.engine;
        self.blocks.iter().for_each(|block| engine.heap.cancel(*block));
        self.blocks.clear();
        engine.heap.abandon(&self.frees);
        self.frees.clear();
        if engine.heap.object().require_readable().is_err() {
            engine.media.forget_lost(); // what it flushed is nothing any more
        }
        // A thread that read the caller's changes meanwhile must not find the lock as it was.
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

    /// Ends the state of a transaction; its locks have been given back.
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
    pub(super) fn error(&mut self, stop: Stop, at: u64, len: u64) -> Error {
        match stop {
            Stop::Conflict => {
                self.met_conflict = true;
                Error::Conflict
            }
            Stop::Outside => Error::BadRange { at, len, object: self.engine.name() },
            Stop::TooLong => Error::TooLong { object: self.engine.name(), most: STRIPES_MAX },
        }
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

//! How a transaction commits.
//!
//! A fence between the lines, but for 4 to 6:
//!   1. blocks of its own flushed, if there are any
//!   2. a log with space for the record taken; timestamp taken; loads looked at once more; record
//!      appended and flushed: it has committed, and settles
//!   3. stores done in place, operations of the heap applied
//!   4. lines flushed, record truncated (synchronous truncation alone)
//!   5. locks given back; no other transaction has seen anything of it before
//!   6. it waits until the transactions that began before it was visible have ended, later commits
//!      left out; freed blocks become allocatable
//!
//! Invariants
//!   REDO-3  Locks are given back only after the record is settled and the stores are done: a
//!           transaction that loads the stored bytes sees no state that a crash takes back.

use super::Worker;
use super::engine::{End, Log, RedoState};
use super::locks::STRIPE;
use super::record;
use super::recover::store_masked;
use super::stripe::Stripe;
use super::truncate::{Changes, Untruncated};
use crate::{Error, Result};
use everbyte_heap::{Block, Op};
use everbyte_log as log;
use everbyte_log::Producer;
use everbyte_log::ring::Position;
use everbyte_media::museum::{misplaced, unless};
use everbyte_media::{Flusher, LINE, LatchGuard};
use std::sync::atomic::Ordering;

impl Worker {
    /// Commits; settled on return. After an error the transaction still runs and has done nothing:
    /// it is to be aborted.
    ///
    /// # Errors
    /// [`Error::Conflict`]: it is to be begun again. [`Error::Heap`]: there is no space for a
    /// transaction of this size. [`Error::Media`]: unknown until the store is opened again.
    ///
    /// # Panics
    /// If no transaction runs.
    #[inline]
    pub fn commit(&mut self) -> Result<()> {
        self.commit_by(|_, _, _| {})
    }

    /// [`Worker::commit`] that calls `stored` with the place, mask and value of each word that it
    /// stores in place, before the locks are given back: for rooms that have a copy of it.
    ///
    /// # Errors
    /// As [`Worker::commit`].
    ///
    /// # Panics
    /// As [`Worker::commit`].
    #[inline]
    pub fn commit_by(&mut self, stored: impl FnMut(u64, u8, u64)) -> Result<()> {
        assert!(self.running, "a transaction that was begun is committed");
        if self.met_conflict {
            return Err(Error::Conflict);
        }
        // TX-9
        unless("tx-commits-over-lost-page", || self.engine.heap.object().require_readable())?;
        if self.stripes.is_empty() && self.blocks.is_empty() && self.frees.is_empty() {
            self.end(); // all loaded bytes were valid at one time
            self.calm_down();
            return Ok(());
        }
        self.commit_changes(stored)
    }

    fn commit_changes(&mut self, mut stored: impl FnMut(u64, u8, u64)) -> Result<()> {
        let waits = self.stripes.iter().any(Stripe::is_waiting);
        let persistent = waits || !self.blocks.is_empty() || !self.frees.is_empty();
        let timestamp = if persistent { self.commit_persistent()? } else { self.take_timestamp()? };
        for stripe in &self.stripes {
            stripe.each(&mut stored);
        }
        self.blocks.clear();
        self.frees.clear();
        self.unlock(Some(timestamp)); // 5
        self.end();
        self.calm_down();
        self.engine.active.quiesce(&self.since, &mut self.others, timestamp); // 6
        if persistent {
            self.engine.finish_ripe();
        }
        Ok(())
    }

    /// The timestamp of this commit, if what was loaded is still there.
    #[inline]
    fn take_timestamp(&self) -> Result<u64> {
        let timestamp = self.engine.clock.fetch_add(1, Ordering::SeqCst) + 1;
        // No transaction has committed since it was found to be valid: it is.
        if timestamp > self.valid_at + 1 && !self.is_valid() {
            return Err(Error::Conflict);
        }
        // The record of a commit that failed may be in the log, and its locks were given back as
        // they were: what was loaded may be older than that record.
        self.engine.require_sound()?;
        // it was found to be valid: commits before it need not wait for it
        self.since.store(timestamp, Ordering::Release);
        Ok(timestamp)
    }

    /// Steps 1 to 4.
    fn commit_persistent(&mut self) -> Result<u64> {
        let ops = self.ops();
        record::encode(&ops, &self.stripes, &mut self.words);
        self.flush_blocks();
        let engine = &self.engine;
        let (log, mut end, extents) = engine.take_log_for(self.log, &mut self.words)?;
        // A thread that sees the timestamp, which is taken next, sees this.
        log.committing.store(engine.clock.load(Ordering::Acquire), Ordering::Release);
        let recorded = self.take_timestamp().and_then(|timestamp| {
            misplaced("redo-stored-early", || engine.store_all(&self.stripes));
            self.words[0] |= timestamp;
            Ok((timestamp, engine.append(&mut end.producer, &self.words)?))
        });
        let (timestamp, position) = recorded.inspect_err(|error| {
            log.committing.store(u64::MAX, Ordering::Release);
            if matches!(error, Error::Media(_)) {
                // The next opening may find the record, with its extents and its operations.
                self.blocks.clear();
                self.frees.clear();
            } else {
                engine.give_back(&extents);
            }
        })?;
        {
            let _section = engine.media.section();
            engine.store_all(&self.stripes); // 3
            if !ops.is_empty() {
                engine.heap.apply(&ops);
            }
            if !engine.media.fences_settle() {
                self.flush_stores(); // a private page may be given back when the section ends
            }
        }
        let truncator = &engine.truncator;
        if truncator.is_asynchronous() || truncator.waiting.load(Ordering::Acquire) {
            let changes = Changes::new(ops, extents);
            truncator.leave(&mut end.left, Untruncated { timestamp, end: position, changes }, lines(&self.stripes));
            log.committing.store(u64::MAX, Ordering::Release);
            let is_half_full = end.producer.is_half_full();
            drop(end);
            match truncator.is_asynchronous() {
                true if is_half_full => engine.call_truncator(),
                true => {}
                // older records are left of the time before `set_truncation`
                false => engine.truncate_up_to(timestamp),
            }
            return Ok(timestamp);
        }
        {
            let _section = engine.media.section();
            self.flush_stores();
        }
        engine.media.fence();
        log.consumer.lock().truncate(position); // 4
        log.committing.store(u64::MAX, Ordering::Release);
        drop(end);
        engine.give_back(&extents);
        truncator.ripen(timestamp, &ops);
        Ok(timestamp)
    }

    /// The changes of the commit in the heap.
    fn ops(&self) -> Vec<Op> {
        if self.blocks.is_empty() && self.frees.is_empty() {
            return Vec::new();
        }
        let allocated = self.blocks.iter().map(|block| self.engine.heap.op_allocate(block));
        allocated.chain(self.frees.iter().copied()).collect()
    }

    /// Flushes the lines that this transaction stored to.
    fn flush_stores(&self) {
        for line in lines(&self.stripes) {
            self.engine.media.flush_unless("redo-not-flushed", line, LINE);
        }
    }

    /// Flushes and fences the bytes of this transaction's own blocks.
    fn flush_blocks(&self) {
        if self.blocks.is_empty() {
            return;
        }
        let media = &self.engine.media;
        let mut flusher = Flusher::new(media);
        self.blocks.iter().for_each(|block| flusher.touch(block.at, block.size));
        drop(flusher);
        media.fence();
    }
}

/// The lines of stripes that wait.
fn lines(stripes: &[Stripe]) -> impl Iterator<Item = u64> {
    const { assert!(STRIPE == LINE) };
    stripes.iter().filter(|stripe| stripe.is_waiting()).map(|stripe| stripe.base)
}

impl RedoState {
    /// A log with space for a record, which ends with its line then; a record that no log has space
    /// for is moved to extents.
    fn take_log_for(&self, own: usize, words: &mut Vec<u64>) -> Result<(&Log, LatchGuard<'_, End>, Vec<Block>)> {
        let mut extents = Vec::new();
        loop {
            let (log, mut end) = self.take_log(own);
            let count = words.len();
            words.resize(end.producer.whole_lines(count as u64) as usize, 0);
            let Err(error) = end.producer.reserve(words.len() as u64) else { return Ok((log, end, extents)) };
            drop(end);
            words.truncate(count);
            let again = match error {
                log::Error::TooLarge { .. } if extents.is_empty() => {
                    record::spill(&self.heap, words).map(|new| extents = new)
                }
                log::Error::Full { .. } => {
                    self.truncate(); // what fills it is older than this
                    self.require_sound()
                }
                error => Err(error.into()),
            };
            again.inspect_err(|_| self.give_back(&extents))?;
        }
    }

    /// Appends a record for which there is room; settled on return.
    fn append(&self, producer: &mut Producer, words: &[u64]) -> Result<Position> {
        producer.append(words)?;
        let position = producer.flush();
        if let Err(error) = self.media.settle(self.media.mark()) {
            self.poisoned.store(true, Ordering::Release);
            return Err(error.into());
        }
        Ok(position)
    }

    /// Stores the buffered bytes.
    fn store_all(&self, stripes: &[Stripe]) {
        for stripe in stripes {
            stripe.each(|at, mask, value| store_masked(&self.media, at, mask, value));
        }
    }
}

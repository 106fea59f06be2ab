//! How a transaction commits.
//!
//! A fence between the lines, but for 4 to 6:
//!   1. blocks of its own flushed, if there are any
//!   2. timestamp taken; loads looked at once more; record appended and flushed: it has committed, and settles
//!   3. stores done in place, operations of the heap applied
//!   4. lines flushed, record truncated (synchronous truncation alone)
//!   5. locks given back; nobody has seen anything of it before
//!   6. it waits until nobody runs who began before it was visible; freed blocks become allocatable
//!
//! Invariants
//!   REDO-3  Locks are given back only after the record is settled and the stores are done: who loads what was stored
//!           cannot be told anything that a crash takes back.

use super::Worker;
use super::recover::store_masked;
use super::{layout, record};
use crate::{Error, Result};
use everbyte_heap::{Block, Op};
use everbyte_log as log;
use everbyte_log::Producer;
use everbyte_log::ring::Position;
use everbyte_media::{Flusher, LINE, seeded};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Worker {
    /// Commits; settled on return. After an error the transaction still runs and has done nothing: it is to be aborted.
    ///
    /// # Errors
    /// [`Error::Conflict`]: it is to be begun again. [`Error::Heap`]: there is no room for a transaction of this size.
    /// [`Error::Media`]: unknown until the store is opened again.
    ///
    /// # Panics
    /// If no transaction runs.
    #[inline]
    pub fn commit(&mut self) -> Result<()> {
        self.commit_by(|_, _, _| {})
    }

    /// [`Worker::commit`] that calls `stored` with the place, mask and value of each word that it stores in place, before the
    /// locks are given back: for rooms that have a copy of it.
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
        if self.stripes.is_empty() && self.blocks.is_empty() && self.frees.is_empty() {
            self.end(); // what was loaded was all there at one time
            self.calm_down();
            return Ok(());
        }
        self.commit_changes(stored)
    }

    fn commit_changes(&mut self, mut stored: impl FnMut(u64, u8, u64)) -> Result<()> {
        let engine = Arc::clone(&self.engine);
        let stores = self.stripes.iter().flat_map(|stripe| stripe.masks).filter(|&mask| mask != 0).count();
        let persistent = stores > 0 || !self.blocks.is_empty() || !self.frees.is_empty();
        let committed = if persistent { self.commit_persistent(stores) } else { self.take_timestamp() };
        let timestamp = committed?;
        for stripe in &self.stripes {
            stripe.each(&mut stored);
        }
        self.blocks.clear();
        self.frees.clear();
        self.unlock(Some(timestamp)); // 5
        self.end();
        self.calm_down();
        engine.active.quiesce(timestamp); // 6
        if persistent {
            engine.finish_ripe();
        }
        Ok(())
    }

    /// The timestamp of this commit, if what was loaded is still there.
    #[inline]
    fn take_timestamp(&self) -> Result<u64> {
        let timestamp = self.engine.clock.fetch_add(1, Ordering::SeqCst) + 1;
        // Nobody has committed since it was found to be valid: it is.
        if timestamp > self.valid_at + 1 && !self.is_valid() {
            return Err(Error::Conflict);
        }
        Ok(timestamp)
    }

    /// Steps 1 to 4.
    fn commit_persistent(&mut self, stores: usize) -> Result<u64> {
        let engine = Arc::clone(&self.engine);
        let ops: Vec<Op> =
            self.blocks.iter().map(|block| engine.heap.op_allocate(block)).chain(self.frees.iter().copied()).collect();
        self.flush_blocks();
        let (log, mut producer) = engine.take_log(self.number);
        log.committing.store(engine.clock.load(Ordering::SeqCst), Ordering::SeqCst);
        let recorded = self.take_timestamp().and_then(|timestamp| {
            if seeded("redo-stored-early") {
                self.store_all();
            }
            let (end, extents) = self.record(&mut producer, timestamp, &ops, stores)?;
            if let Err(error) = engine.media.settle(engine.media.mark()) {
                engine.poisoned.store(true, Ordering::Release);
                return Err(error.into());
            }
            Ok((timestamp, end, extents))
        });
        let (timestamp, end, extents) = recorded.inspect_err(|_| log.committing.store(u64::MAX, Ordering::Release))?;
        self.lines.clear();
        {
            let _section = engine.media.section();
            self.store_all(); // 3
            engine.heap.apply(&ops);
            if !engine.media.capabilities().fence_settles {
                engine.flush_lines(&mut self.lines); // a private page may be given back when the section ends
            }
        }
        let truncator = &engine.truncator;
        if truncator.is_asynchronous() || truncator.waiting.load(Ordering::Acquire) > 0 {
            truncator.waiting.fetch_add(1, Ordering::AcqRel);
            log.committing.store(u64::MAX, Ordering::Release);
            if producer.is_half_full() {
                match truncator.is_asynchronous() {
                    true => engine.call_truncator(),
                    false => engine.truncate(),
                }
            }
            return Ok(timestamp);
        }
        engine.truncate_own(log, end, &mut self.lines); // 4
        log.committing.store(u64::MAX, Ordering::Release);
        engine.give_back(&extents);
        truncator.ripen(timestamp, &ops);
        Ok(timestamp)
    }

    /// Flushes and fences what this transaction's own blocks hold.
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

    /// Appends the record and flushes it; waits for room.
    fn record(
        &mut self,
        producer: &mut Producer,
        timestamp: u64,
        ops: &[Op],
        stores: usize,
    ) -> Result<(Position, Vec<Block>)> {
        let engine = Arc::clone(&self.engine);
        let (words, mut extents) = (&mut self.words, Vec::new());
        words.clear();
        words.extend(record::head(timestamp, ops.len(), stores));
        words.extend(ops.iter().map(|&op| u64::from(op)));
        for stripe in &self.stripes {
            stripe.each(|at, mask, value| words.extend([layout::pack_place(at, mask), value]));
        }
        loop {
            let again = match producer.append(words) {
                Ok(()) => return Ok((producer.flush(), extents)),
                Err(log::Error::TooLarge { .. }) if extents.is_empty() => {
                    record::spill(&engine.heap, words).map(|new| extents = new)
                }
                Err(log::Error::Full { .. }) => {
                    engine.truncate(); // what fills it is older than this
                    engine.require_sound()
                }
                Err(error) => Err(error.into()),
            };
            again.inspect_err(|_| engine.give_back(&extents))?;
        }
    }

    /// Stores what waits, and notes the lines.
    fn store_all(&mut self) {
        let media = &self.engine.media;
        for stripe in self.stripes.iter().filter(|stripe| stripe.masks != [0; 4]) {
            self.lines.push(stripe.base & !(LINE - 1));
            stripe.each(|at, mask, value| store_masked(media, at, mask, value));
        }
    }
}

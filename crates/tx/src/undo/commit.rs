//! How a transaction ends.
//!
//! Commit of a transaction that only changed bytes, a fence between the lines (the first was paid
//! by the log):
//!   1. changed ranges flushed
//!   2. lane retired: its records are void from now on
//!   3. locks released; after the barrier the call returns
//!
//! With blocks allocated or freed:
//!   1. changed ranges and new blocks flushed; the heap's operations appended to the lane
//!   2. commit word: nothing is undone from now on, the operations are valid
//!   3. bits changed and flushed
//!   4. lane retired
//!   5. locks released; freed blocks become allocatable; after the barrier the caller hears
//!
//! Rollback: old bytes put back and flushed; lane retired; locks released, reservations ended; the
//! newest mark seen at a lock settled, then the call returns.
//!
//! Invariants
//!   TX-6  Locks fall after the fence that follows the retirement where there are operations: a
//!         block can then only be freed after the lane that allocated it is retired, so the order
//!         in which recovery applies lanes is no matter.
//!   TX-9  No transaction commits, and none that only reads answers, over an object with a page
//!         that could not be read.
//!   TX-7  Blocks freed become allocatable, and segments of the log are given back, only after that
//!         fence.

use crate::undo::context::{Context, TxState, Work};
use crate::undo::engine::UndoState;
use crate::{Committed, Error, Result};
use everbyte_log as log;
use everbyte_log::Journal;
use everbyte_media::museum::unless;
use everbyte_media::{Flusher, Length, Offset, Unsettled, seeded};
use std::sync::atomic::Ordering;

/// A segment brought to a lane that had no room: at least this much, so that long transactions
/// spill seldom.
const SPILL: u64 = 16 << 10;

impl UndoState {
    /// Commits; ordered on return, and the caller settles the result. If that fails, `failed` is
    /// called before anything is put back.
    #[inline]
    pub(crate) fn commit(&self, context: &Context, failed: impl FnOnce()) -> Result<Committed<()>> {
        let mut state = context.state.borrow_mut();
        let state = &mut *state;
        let readable = self.require_readable();
        if state.lane.is_none() && readable.is_ok() {
            return Ok(Committed { result: Unsettled::default(), hooks: std::mem::take(&mut state.hooks) });
        }
        let ended = readable.and_then(|()| match state.work.allocated.is_empty() && state.work.frees.is_empty() {
            true => self.commit_bytes(state),
            false => self.commit_with_blocks(state),
        });
        match ended {
            Ok(done) => {
                let result = done.after(&state.seen);
                self.end(state, done);
                Ok(Committed { result, hooks: std::mem::take(&mut state.hooks) })
            }
            Err(error) => {
                failed();
                self.rollback_state(state)?;
                Err(error)
            }
        }
    }

    /// Refuses a commit over a page that could not be read: the body may have read zeros in its
    /// place (TX-9).
    #[inline]
    pub(crate) fn require_readable(&self) -> Result<()> {
        Ok(unless("tx-commits-over-lost-page", || self.heap.object().require_readable())?)
    }

    /// Nothing waits if nothing was changed.
    #[inline]
    fn commit_bytes(&self, state: &mut TxState) -> Result<Unsettled<()>> {
        let journal = &mut state.lane.as_mut().expect("a transaction with work has a lane").journal;
        if journal.is_empty() && !state.work.unlogged {
            return Ok(Unsettled::default());
        }
        if !seeded("tx-data-not-flushed") {
            let mut flusher = Flusher::new(&self.media);
            state.work.ranges.each(|at, end| flusher.touch(at, end - at));
        }
        self.media.fence();
        journal.retire();
        self.media.fence();
        journal.fenced();
        Ok(Unsettled::new(&self.media, ()))
    }

    fn commit_with_blocks(&self, state: &mut TxState) -> Result<Unsettled<()>> {
        let lane = &mut **state.lane.as_mut().expect("a transaction with work has a lane");
        let Work { ranges, allocated, frees, .. } = &state.work;
        lane.ops.clear();
        lane.ops.extend(allocated.iter().map(|block| self.heap.op_allocate(block)));
        lane.ops.extend(frees);
        lane.words.clear();
        lane.words.extend(lane.ops.iter().map(|&op| u64::from(op)));
        loop {
            match lane.journal.log_ops(&lane.words) {
                Ok(()) => break,
                Err(log::Error::Full { needed, .. }) => self.spill(&mut lane.journal, needed)?,
                Err(error) => return Err(error.into()),
            }
        }
        // 1
        let mut flusher = Flusher::new(&self.media);
        ranges.each(|at, end| flusher.touch(at, end - at));
        // neighbours, if the heap could
        unless("tx-new-not-flushed", || allocated.iter().for_each(|block| flusher.touch(block.at, block.size)));
        drop(flusher);
        let ordered = lane.journal.fence_ops();
        lane.journal.commit(&ordered); // 2: from here on nothing can fail
        self.media.fence_unless("tx-apply-before-commit");
        self.heap.apply(&lane.ops); // 3
        self.media.fence();
        lane.journal.retire(); // 4
        self.media.fence();
        lane.journal.fenced();
        let done = Unsettled::new(&self.media, ());
        self.heap.finish(&lane.ops);
        state.work.allocated.clear();
        state.work.frees.clear();
        Ok(done)
    }

    /// Puts everything back; ordered on return.
    pub(crate) fn rollback(&self, context: &Context) -> Result<()> {
        let mut state = context.state.borrow_mut();
        self.rollback_state(&mut state)
    }

    #[cold]
    fn rollback_state(&self, state: &mut TxState) -> Result<()> {
        state.hooks.clear();
        state.owed = state.seen;
        let Some(lane) = &mut state.lane else { return Ok(()) };
        let undone = if lane.journal.is_empty() { Ok(()) } else { lane.journal.rollback() };
        if let Err(error) = undone {
            // The lane stays as it is for recovery, with its locks and its blocks: no transaction
            // may build on this state.
            self.poisoned.store(true, Ordering::Release);
            std::mem::forget(std::mem::take(&mut state.locks));
            std::mem::forget(state.lane.take());
            *state = TxState { owed: state.seen, ..TxState::default() };
            return Err(error.into());
        }
        let work = &mut state.work;
        work.allocated.iter().for_each(|block| self.heap.cancel(*block));
        work.allocated.clear();
        self.heap.abandon(&work.frees);
        work.frees.clear();
        self.end(state, Unsettled::new(&self.media, ()));
        self.media.forget_lost(); // its caller gets an error
        Ok(())
    }

    /// After a rollback, with no section open: settles the newest commit that the transaction saw
    /// at a lock. Its error, result or panic may tell what it read there (TX-5).
    #[cold]
    pub(crate) fn settle_owed(&self, context: &Context) -> Result<()> {
        let owed = std::mem::take(&mut context.state.borrow_mut().owed);
        Ok(owed.settle_unless(&self.media, "tx-failure-tells-unsettled")?)
    }

    /// The lane is retired and fenced, or was never used: locks fall, the lane is free (TX-6,
    /// TX-7).
    #[inline]
    fn end(&self, state: &mut TxState, done: Unsettled<()>) {
        let work = &mut state.work;
        if !work.discarded.is_empty() {
            work.discarded.drain(..).for_each(|block| self.heap.cancel(block));
        }
        work.ranges.clear();
        work.unlogged = false;
        let lane = state.lane.as_mut().expect("a transaction with work has a lane");
        if lane.journal.extra_count() > 0 {
            self.take_back(&mut lane.journal);
        }
        for mut guard in state.locks.drain(..) {
            *guard = guard.after(&done);
        }
        state.seen = Unsettled::default();
        state.lane = None;
    }

    /// Brings a lane more room: reserved in the heap, so that a crash gives it back.
    #[cold]
    pub(crate) fn spill(&self, journal: &mut Journal, needed: u64) -> Result<()> {
        let block = match self.heap.reserve(needed.max(SPILL)) {
            Ok(block) => block,
            Err(full) if full.is_full() => self.heap.reserve(needed)?,
            Err(error) => return Err(error.into()),
        };
        journal.extend(block.at.get()..block.end().get()).map_err(Error::from)
    }

    #[cold]
    fn take_back(&self, journal: &mut Journal) {
        for range in journal.take_extra() {
            self.heap.cancel(everbyte_heap::Block {
                at: Offset::new(range.start),
                size: Length::new(range.end - range.start),
            });
        }
    }
}

//! [`Tx`]: the operations of a transaction's body.
//!
//! Invariants
//!   TX-3  A byte that was there before the transaction is logged, and the log record fenced,
//!         before it is stored to.
//!   TX-4  A block of the transaction's own is stored to unlogged: until the commit word it is free
//!         on media.
//!
//! Threads: a `Tx` belongs to the thread that runs the body.

use crate::layout::ENGINE_END;
use crate::undo::context::{Context, TxState};
use crate::undo::engine::{Lane, UndoState};
use crate::{Error, Result, TxLock, table};
use everbyte_heap::{Block, Heap};
use everbyte_log as log;
use everbyte_media::{Length, Media, Offset, seeded};

/// A running transaction, given to the body by [`crate::Undo::run`].
pub struct Tx<'t> {
    pub(crate) inner: &'t UndoState,
    pub(crate) context: &'t Context,
}

impl Tx<'_> {
    /// The media, to read from. Stores belong in [`Tx::write`], or after [`Tx::log_range`].
    #[inline(always)]
    pub fn media(&self) -> &Media {
        &self.inner.media
    }

    /// The heap, to look at blocks. Its own allocations do not belong to the transaction.
    pub fn heap(&self) -> &Heap {
        &self.inner.heap
    }

    /// Logs the bytes of `at..at+len`, unless they are logged already or lies in a block of this
    /// transaction's own. The range may then be stored to directly; it is flushed at the commit.
    /// One fence.
    ///
    /// # Errors
    /// [`Error::BadRange`]; [`Error::Heap`] if the lane needs more room and the object has none.
    /// Nothing has changed.
    #[inline]
    pub fn log_range(&self, at: impl Into<Offset>, len: impl Into<Length>) -> Result<()> {
        let (at, len) = (at.into().get(), len.into().get());
        let mut state = self.context.state.borrow_mut();
        if self.log_one(&mut state, at, len)? && !seeded("tx-note-unfenced") {
            state.lane.as_mut().expect("logged in a lane").journal.fence(); // TX-3
        }
        Ok(())
    }

    /// [`Tx::log_range`] for several ranges, `(at, len)`, that share one fence: for ranges that a
    /// transaction will change.
    ///
    /// # Errors
    /// As [`Tx::log_range`]; none of the ranges may be stored to then.
    pub fn name_ranges(&self, ranges: &[(u64, u64)]) -> Result<()> {
        let mut state = self.context.state.borrow_mut();
        let logged = self.log_all(&mut state, ranges);
        // Ranges logged before a bad range count as logged from now on, so they are fenced all the
        // same.
        if let Some(lane) = state.lane.as_mut().filter(|lane| lane.journal.is_unfenced())
            && !seeded("tx-note-unfenced")
        {
            lane.journal.fence(); // TX-3
        }
        logged
    }

    /// Stores bytes, and logs the old ones first if they are not logged yet.
    ///
    /// # Errors
    /// As [`Tx::log_range`]: nothing has been stored.
    #[inline]
    pub fn write(&self, at: impl Into<Offset>, bytes: &[u8]) -> Result<()> {
        let at = at.into().get();
        self.log_range(at, bytes.len() as u64)?;
        self.inner.media.write(at, bytes);
        Ok(())
    }

    /// Stores one word, and logs the old one first if it is not logged yet.
    ///
    /// # Errors
    /// As [`Tx::log_range`]: nothing has been stored.
    ///
    /// # Panics
    /// If `at` is not a multiple of 8.
    #[inline]
    pub fn store(&self, at: impl Into<Offset>, value: u64) -> Result<()> {
        let at = at.into().get();
        self.log_range(at, 8)?;
        self.inner.media.store(at, value);
        Ok(())
    }

    /// Allocates a block of at least `size` bytes. It is the transaction's own: stores to it need
    /// no log entry and are flushed at the commit; an abort or a crash gives it back. Its contents
    /// are unspecified.
    ///
    /// # Errors
    /// [`Error::Heap`].
    pub fn allocate(&self, size: u64) -> Result<Block> {
        let mut state = self.context.state.borrow_mut();
        self.lane(&mut state)?;
        let block = self.inner.heap.reserve(size)?;
        state.work.allocated.push(block);
        Ok(block)
    }

    /// Frees the block at `at` at the commit; an abort keeps it. A block of this transaction's own
    /// is given back at its end. It may be stored to until then.
    ///
    /// # Errors
    /// [`Error::Heap`] if `at` is no allocated block, or is being freed already: nothing has
    /// changed.
    pub fn free(&self, at: impl Into<Offset>) -> Result<()> {
        let at = at.into().get();
        let mut state = self.context.state.borrow_mut();
        self.lane(&mut state)?;
        let work = &mut state.work;
        if let Some(block) = work.allocated.remove(at) {
            work.discarded.push(block);
            return Ok(());
        }
        let op = self.inner.heap.op_free(at)?;
        work.frees.push(op);
        Ok(())
    }

    /// Usable bytes of the block at `at`, be it allocated or this transaction's own. Looks at each
    /// of its own blocks.
    ///
    /// # Errors
    /// [`Error::Heap`] if no block starts there.
    pub fn size_of(&self, at: impl Into<Offset>) -> Result<u64> {
        let at = at.into().get();
        let own = self
            .context
            .state
            .borrow()
            .work
            .allocated
            .iter()
            .find(|block| block.at == at)
            .map(|block| block.size.get());
        own.map_or_else(|| Ok(self.inner.heap.size_of(at)?), Ok)
    }

    /// Whether `at..at+len` lies in a block that this transaction has allocated.
    #[inline]
    pub fn owns(&self, at: impl Into<Offset>, len: impl Into<Length>) -> bool {
        let (at, len) = (at.into().get(), len.into().get());
        self.context.state.borrow().work.owns(at, at + len)
    }

    /// Promises that the bytes of `at..at+len` from before this transaction are no longer needed:
    /// they may be overwritten without a log entry, and are flushed at the commit. An abort or a
    /// crash leaves them undefined.
    ///
    /// # Errors
    /// [`Error::BadRange`].
    #[inline]
    pub fn overwrite(&self, at: impl Into<Offset>, len: impl Into<Length>) -> Result<()> {
        let (at, len) = (at.into().get(), len.into().get());
        let mut state = self.context.state.borrow_mut();
        if self.is_new(&mut state, at, len)? {
            state.work.ranges.push(at, at + len);
            state.work.unlogged = true;
        }
        Ok(())
    }

    /// Tells a recorder what the ranges logged so far and the blocks of this transaction's own
    /// hold: for rooms that store through [`Media::address`]. Nothing on other media.
    pub fn tell(&self) {
        if self.inner.media.is_recorded() {
            let state = self.context.state.borrow();
            state.work.ranges.each(|at, end| self.inner.media.report_store(at, end - at));
            let own = state.work.allocated.iter().chain(&state.work.discarded);
            own.for_each(|block| self.inner.media.report_store(block.at, block.size));
        }
    }

    /// Takes a lane, if there is none yet: for rooms with locks of their own, before the first of
    /// them.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn take_lane(&self) -> Result<()> {
        self.lane(&mut self.context.state.borrow_mut()).map(|_| ())
    }

    /// Takes a lock until the transaction's end is ordered: after the fence that follows its commit
    /// word, or its rollback. A lock it has already is not taken again. The order of locks is the
    /// caller's care.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn lock(&self, lock: &TxLock) -> Result<()> {
        let mut state = self.context.state.borrow_mut();
        if state.locks.iter().any(|guard| lock.is(guard)) {
            return Ok(());
        }
        self.lane(&mut state)?; // never waited for while a lock is held
        let guard = match lock.last.try_lock_arc() {
            Some(guard) => guard,
            None => self.inner.wait_for(&lock.last)?,
        };
        state.seen = state.seen.after(&guard);
        state.locks.push(guard);
        Ok(())
    }

    /// Runs `hook` after the outermost transaction has committed and settled; never after a
    /// rollback.
    pub fn on_commit(&self, hook: impl FnOnce() + 'static) {
        self.context.state.borrow_mut().hooks.push(Box::new(hook));
    }

    /// The lane, taken if need be.
    #[inline]
    fn lane<'s>(&self, state: &'s mut TxState) -> Result<&'s mut Lane> {
        if state.lane.is_none() {
            state.lane = Some(self.inner.take_lane()?);
        }
        Ok(state.lane.as_mut().expect("taken just now"))
    }

    /// Logs a range; no fence. `false`: there was no need.
    #[inline]
    fn log_one(&self, state: &mut TxState, at: u64, len: u64) -> Result<bool> {
        if !self.is_new(state, at, len)? {
            return Ok(false);
        }
        let TxState { lane, work, .. } = state;
        let journal = &mut lane.as_mut().expect("taken just now").journal;
        loop {
            match journal.log(at, len) {
                Ok(()) => break,
                Err(log::Error::Full { needed, .. }) => self.inner.spill(journal, needed)?,
                Err(error) => return Err(error.into()),
            }
        }
        work.ranges.push(at, at + len);
        Ok(true)
    }

    /// Logs ranges; no fence. Words share a line of the log, three to one.
    fn log_all(&self, state: &mut TxState, ranges: &[(u64, u64)]) -> Result<()> {
        let (mut words, mut count) = ([0; 24], 0);
        for &(at, len) in ranges {
            if len != 8 || !at.is_multiple_of(8) {
                self.log_one(state, at, len)?;
            } else if self.is_new(state, at, len)? {
                words[count] = at;
                count += 1;
                if count == words.len() {
                    self.log_words(state, &words)?;
                    count = 0;
                }
            }
        }
        self.log_words(state, &words[..count])
    }

    /// Whether a range is to be logged; if so, there is a lane.
    #[inline]
    fn is_new(&self, state: &mut TxState, at: u64, len: u64) -> Result<bool> {
        let end = at.checked_add(len).filter(|_| self.allowed(at, len)).ok_or_else(|| self.bad_range(at, len))?;
        if len == 0 || state.work.ranges.covers(at, end) || state.work.owns(at, end) {
            return Ok(false);
        }
        self.lane(state)?;
        Ok(true)
    }

    /// Logs words that are new; no fence.
    fn log_words(&self, state: &mut TxState, words: &[u64]) -> Result<()> {
        let TxState { lane: Some(lane), work, .. } = state else { return Ok(()) };
        loop {
            match lane.journal.log_words(words) {
                Ok(()) => break,
                Err(log::Error::Full { needed, .. }) => self.inner.spill(&mut lane.journal, needed)?,
                Err(error) => return Err(error.into()),
            }
        }
        words.iter().for_each(|&at| work.ranges.push(at, at + 8));
        Ok(())
    }

    /// Data of the object.
    #[inline]
    fn allowed(&self, at: u64, len: u64) -> bool {
        table::holds_data(&self.inner.heap, &self.inner.lane_bytes, ENGINE_END, at, len)
    }

    #[cold]
    fn bad_range(&self, at: u64, len: u64) -> Error {
        Error::BadRange { at, len, object: self.inner.name() }
    }
}

impl std::fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tx({}, depth {})", self.inner.name(), self.context.depth.get())
    }
}

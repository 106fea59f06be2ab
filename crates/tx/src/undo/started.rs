//! [`Started`]: an outermost transaction that its caller ends by hand: for rooms with bodies and
//! nesting of their own.

use crate::undo::context::Context;
use crate::undo::engine::UndoState;
use crate::{Committed, Result, Tx, Undo};
use everbyte_media::Section;
use std::cell::Cell;

thread_local! {
    /// The context of this thread's last transaction that was started by hand: its vectors need not
    /// be allocated again.
    static SPARE: Cell<Option<Box<Context>>> = const { Cell::new(None) };
}

/// A running transaction, started with [`Undo::start`]; rolled back if it is dropped.
#[must_use = "a transaction that is not committed is rolled back"]
pub struct Started<'u> {
    inner: &'u UndoState,
    /// Taken at the end.
    context: Option<Box<Context>>,
    /// Open until the changes are flushed, so that no page is given back that holds them only in
    /// memory.
    section: Option<Section<'u>>,
}

impl Undo {
    /// Starts a transaction, which is no part of any other and has no others inside: nesting is the
    /// caller's. The rest is [`Undo::run_ordered`]'s.
    #[inline]
    pub fn start(&self) -> Started<'_> {
        let inner = &*self.inner;
        let context = SPARE.take().unwrap_or_default();
        Started { inner, context: Some(context), section: Some(inner.media.section()) }
    }
}

impl Started<'_> {
    /// The handle that changes it.
    #[inline(always)]
    pub fn tx(&self) -> Tx<'_> {
        Tx { inner: self.inner, context: self.context.as_ref().expect("taken at the end alone") }
    }

    /// Commits; ordered on return, the outcome is not reported before the result is settled. If it
    /// cannot be committed, `failed` is called before anything is put back: no other transaction
    /// has got a block of this one by then.
    ///
    /// # Errors
    /// As [`Undo::run`]'s [`crate::TxError::Engine`].
    #[inline]
    pub fn commit(mut self, failed: impl FnOnce()) -> Result<Committed<()>> {
        self.end(|inner, context, section| {
            inner.commit(context, failed).or_else(|error| {
                *section = None;
                inner.settle_owed(context).and(Err(error)) // TX-5
            })
        })
    }

    /// Puts everything back; on return it is ordered, and every commit that the transaction saw
    /// at a lock is settled.
    ///
    /// # Errors
    /// [`crate::Error::Log`] if the log cannot be read: the engine is poisoned.
    /// [`crate::Error::Media`] if that cannot be settled.
    pub fn rollback(mut self) -> Result<()> {
        self.end(put_back)
    }

    /// Ends it as `how` does, and keeps the context for the next one.
    #[inline]
    fn end<T>(&mut self, how: impl FnOnce(&UndoState, &Context, &mut Option<Section<'_>>) -> Result<T>) -> Result<T> {
        let context = self.context.take().expect("it ends once");
        let ended = how(self.inner, &context, &mut self.section);
        self.section = None;
        // none is kept while the thread ends
        let _ = SPARE.try_with(|spare| spare.set(Some(context)));
        ended
    }
}

/// Rolls back, closes the section and settles the commits seen at locks: the caller may tell
/// what it read there (TX-5).
fn put_back(inner: &UndoState, context: &Context, section: &mut Option<Section<'_>>) -> Result<()> {
    let ended = inner.rollback(context);
    *section = None;
    inner.settle_owed(context).and(ended)
}

impl Drop for Started<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.context.is_some() {
            // The drop follows another failure; if this one fails, too, the engine is poisoned.
            let _ = self.end(put_back);
        }
    }
}

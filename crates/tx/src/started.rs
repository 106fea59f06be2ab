//! [`Started`]: an outermost transaction that its caller ends by hand: for rooms with bodies and nesting of their own.

use crate::context::{self, Context};
use crate::engine::Inner;
use crate::{Ordered, Result, Tx, Undo};
use everbyte_media::Section;
use std::rc::Rc;

/// A transaction under way, started with [`Undo::start`]; rolled back if it is dropped.
#[must_use = "a transaction that is not committed is rolled back"]
pub struct Started<'u> {
    inner: &'u Inner,
    context: Rc<Context>,
    /// Open until the changes are flushed, so that no page is given back that holds them only in memory.
    section: Option<Section<'u>>,
    ended: bool,
}

impl Undo {
    /// Starts a transaction of this thread; the rest is [`Undo::run_ordered`]'s.
    ///
    /// # Panics
    /// If this thread runs a transaction of this engine already.
    #[inline]
    pub fn start(&self) -> Started<'_> {
        let inner = &*self.inner;
        let context = context::mine(inner.number);
        assert!(context.depth.get() == 0, "TX-1: a transaction inside another is part of it");
        context.depth.set(1);
        Started { inner, context, section: Some(inner.media.section()), ended: false }
    }
}

impl Started<'_> {
    /// What changes it.
    #[inline(always)]
    pub fn tx(&self) -> Tx<'_> {
        Tx { inner: self.inner, context: &self.context }
    }

    /// Commits; ordered on return, nobody may be told before the mark is settled.
    ///
    /// # Errors
    /// As [`Undo::run`]'s [`crate::TxError::Engine`].
    #[inline]
    pub fn commit(mut self) -> Result<Ordered<()>> {
        let doomed = self.end();
        debug_assert!(!doomed, "nobody nests in a transaction that was started by hand");
        let committed = self.inner.commit(&self.context);
        self.section = None;
        let committed = committed?;
        Ok(Ordered { value: (), mark: committed.mark, hooks: committed.hooks })
    }

    /// Puts everything back; ordered on return.
    ///
    /// # Errors
    /// [`crate::Error::Log`] if the notes cannot be read: the engine is poisoned.
    pub fn rollback(mut self) -> Result<()> {
        self.end();
        self.inner.rollback(&self.context)
    }

    #[inline]
    fn end(&mut self) -> bool {
        self.ended = true;
        self.context.depth.set(0);
        self.context.doomed.replace(false)
    }
}

impl Drop for Started<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.ended {
            self.end();
            // Who drops it has something to say already; if this fails, too, the engine is poisoned.
            let _ = self.inner.rollback(&self.context);
        }
    }
}

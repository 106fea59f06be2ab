//! [`Section`] and [`Mark`]: the values that bracket stores and name a position in their order.

use crate::gate::ThreadWord;
use crate::pages::write_windows::OpenWindow;
use parking_lot::RwLockReadGuard;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// A position in the order of fences: everything that its thread had flushed when it was taken. See
/// [`crate::Media::settle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use = "a mark has no use but to be settled"]
pub struct Mark(pub(crate) u64);

/// While a section is open no page of the mapping is released, so a store that has not been flushed
/// stays, and no image of the media is taken ([`crate::ChangedPages::close_gate`]).
///
/// Every crate stores and flushes inside one section. Sections may nest, and cost two plain stores
/// on media without guarded pages. A section opens the write window of guarded pages:
/// [`crate::Media::guard_writes`].
#[must_use = "the section ends when this is dropped"]
pub struct Section<'m> {
    held: Held<'m>,
    _window: Option<OpenWindow<'m>>,
    /// It ends on its thread.
    _thread: PhantomData<*const ()>,
}

pub(crate) enum Held<'m> {
    /// One of the sections that the word of this thread counts.
    Word(&'static ThreadWord),
    /// Its own share of the gate's lock.
    Lock(#[expect(dead_code, reason = "held until drop")] RwLockReadGuard<'m, ()>),
    /// In a child of the process, which has no part in the media.
    Nothing,
}

impl<'m> Section<'m> {
    #[inline]
    pub(crate) fn new(held: Held<'m>) -> Section<'m> {
        Section { held, _window: None, _thread: PhantomData }
    }

    /// The section keeps a window open, too.
    #[inline]
    pub(crate) fn with_window(mut self, window: Option<OpenWindow<'m>>) -> Section<'m> {
        self._window = window;
        self
    }
}

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Held::Word(word) = self.held {
            word.0.store(word.0.load(Relaxed) - 1, Release);
        }
    }
}

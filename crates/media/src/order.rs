//! Order as types: [`Ordered`] values lie before a fence, a [`PublishWord`] is stored after one,
//! and an [`Unsettled`] value is ordered and not yet durable.
//!
//! A change becomes visible by one 8-byte store. [`PublishWord::publish`] takes the proof that a
//! fence came between the bytes that the word publishes and the word:
//!
//! ```
//! # use everbyte_media::{Media, Offset, Options, PublishWord, Unsettled};
//! # let media = Media::anonymous(1 << 16, &Options::default())?;
//! const ROOT: PublishWord = PublishWord::new(Offset::new(8));
//! media.store(64, 1);
//! media.flush(64, 8);
//! let record = media.fence_after(Offset::new(64));
//! ROOT.publish(&media, record.get(), &record);
//! media.fence();
//! let at = Unsettled::new(&media, Offset::new(64)).settle(&media)?;
//! assert_eq!(at, media.load(8));
//! # Ok::<(), everbyte_media::Error>(())
//! ```
//!
//! Without the fence it does not compile:
//!
//! ```compile_fail,E0308
//! # use everbyte_media::{Media, Offset, Options, PublishWord};
//! # let media = Media::anonymous(1 << 16, &Options::default()).unwrap();
//! media.store(64, 1);
//! media.flush(64, 8);
//! PublishWord::new(Offset::new(8)).publish(&media, 64, &64_u64);
//! ```
//!
//! Threads: a proof holds for the thread that fenced; it is neither `Send` nor `Sync`.

use crate::{Mark, Media, Offset, Result, seeded};
use std::marker::PhantomData;
use std::ops::Deref;

/// A value whose bytes the current thread flushed before a fence. Costs nothing.
#[derive(Debug)]
#[must_use = "the proof of a fence is passed to `publish`"]
pub struct Ordered<T> {
    value: T,
    of_this_thread: PhantomData<*const ()>,
}

impl<T> Deref for Ordered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl Media {
    /// Whether a fence settles what is flushed before it, so that no barrier need follow.
    #[inline(always)]
    pub fn fences_settle(&self) -> bool {
        self.capabilities().fence_settles
    }

    /// [`Media::fence`]: everything that this thread has flushed, `value` among it, is ordered
    /// before its later stores.
    #[track_caller]
    #[inline(always)]
    pub fn fence_after<T>(&self, value: T) -> Ordered<T> {
        self.fence();
        Ordered { value, of_this_thread: PhantomData }
    }

    /// [`Media::fence_after`], whose fence the seeded bug leaves out.
    #[track_caller]
    #[inline(always)]
    pub fn fence_after_unless<T>(&self, bug: &'static str, value: T) -> Ordered<T> {
        if !seeded(bug) {
            self.fence();
        }
        Ordered { value, of_this_thread: PhantomData }
    }
}

/// The offset of a word that publishes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishWord(Offset);

impl PublishWord {
    /// The word at `offset`.
    pub const fn new(offset: Offset) -> PublishWord {
        PublishWord(offset)
    }

    /// Stores `word` and flushes it, in a section of its own: a page that is released between the
    /// two would lose the store. `ordered` is what it publishes, or proof of the fence behind that.
    /// The caller fences next.
    #[track_caller]
    #[inline(always)]
    pub fn publish<T>(self, media: &Media, word: u64, _ordered: &Ordered<T>) {
        let _section = media.section();
        media.store(self.0, word);
        media.flush(self.0, 8);
    }
}

/// A value that is ordered and not yet durable; it may not be acknowledged before
/// [`Unsettled::settle`]. The default waits for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "settle it before it is acknowledged"]
pub struct Unsettled<T> {
    /// The value: other threads may use it, under the same condition.
    pub value: T,
    mark: Option<Mark>,
}

impl<T> Unsettled<T> {
    /// `value`, ordered by the newest fence.
    #[inline]
    pub fn new(media: &Media, value: T) -> Unsettled<T> {
        Unsettled { value, mark: Some(media.mark()) }
    }

    /// `value`, of which nothing waits for the medium.
    #[inline]
    pub fn nothing(value: T) -> Unsettled<T> {
        Unsettled { value, mark: None }
    }

    /// `value`, which may not be acknowledged before `other` is durable, too.
    #[inline]
    pub fn after<U>(self, other: &Unsettled<U>) -> Unsettled<T> {
        Unsettled { value: self.value, mark: self.mark.max(other.mark) }
    }

    /// Another value that waits for the same fence.
    #[inline]
    pub fn with<U>(&self, value: U) -> Unsettled<U> {
        Unsettled { value, mark: self.mark }
    }

    /// Whether nothing of it waits, on any medium.
    #[inline]
    pub fn is_nothing(&self) -> bool {
        self.mark.is_none()
    }

    /// Whether it is durable already: nothing waits, or the fences of this media settle.
    #[inline]
    pub fn is_settled(&self, media: &Media) -> bool {
        self.mark.is_none() || media.fences_settle()
    }

    /// Waits until it is durable.
    ///
    /// # Errors
    /// As [`Media::settle`].
    #[track_caller]
    #[inline]
    pub fn settle(self, media: &Media) -> Result<T> {
        if let Some(mark) = self.mark {
            media.settle(mark)?;
        }
        Ok(self.value)
    }
}

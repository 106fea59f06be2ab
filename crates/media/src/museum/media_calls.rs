//! Calls of media that a seeded bug leaves out: a line each, which stays one call without it.

use super::seeded;
use crate::units::{Length, Offset};
use crate::{Flusher, Media, Result, Unsettled};

impl Media {
    /// [`Media::flush`], which the seeded bug leaves out.
    #[track_caller]
    #[inline(always)]
    pub fn flush_unless(&self, bug: &'static str, at: impl Into<Offset>, len: impl Into<Length>) {
        let (at, len) = (at.into().get(), len.into().get());
        if !seeded(bug) {
            self.flush(at, len);
        }
    }

    /// [`Media::fence`], which the seeded bug leaves out.
    #[track_caller]
    #[inline(always)]
    pub fn fence_unless(&self, bug: &'static str) {
        if !seeded(bug) {
            self.fence();
        }
    }

    /// [`Media::barrier`], which the seeded bug leaves out.
    ///
    /// # Errors
    /// As [`Media::barrier`].
    #[track_caller]
    #[inline(always)]
    pub fn barrier_unless(&self, bug: &'static str) -> Result<()> {
        if seeded(bug) { Ok(()) } else { self.barrier() }
    }

    /// [`Media::barrier`], of which the seeded bug leaves only the fence.
    ///
    /// # Errors
    /// As [`Media::barrier`].
    #[track_caller]
    #[inline(always)]
    pub fn barrier_or_fence(&self, bug: &'static str) -> Result<()> {
        if seeded(bug) {
            self.fence();
            return Ok(());
        }
        self.barrier()
    }

    /// [`Media::copy_nt`]; with the seeded bug the bytes are stored and not flushed.
    ///
    /// # Panics
    /// As [`Media::copy_nt`].
    #[inline(always)]
    pub fn copy_nt_unless(&self, bug: &'static str, at: impl Into<Offset>, bytes: &[u8]) {
        let at = at.into().get();
        if seeded(bug) { self.write(at, bytes) } else { self.copy_nt(at, bytes) }
    }
}

impl<T> Unsettled<T> {
    /// [`Unsettled::settle`], which the seeded bug leaves out.
    ///
    /// # Errors
    /// As [`Media::settle`].
    #[track_caller]
    #[inline(always)]
    pub fn settle_unless(self, media: &Media, bug: &'static str) -> Result<T> {
        if seeded(bug) { Ok(self.value) } else { self.settle(media) }
    }
}

impl Flusher<'_> {
    /// Flushes the last ranges, as dropping does; with the seeded bug these lines are forgotten.
    #[inline(always)]
    pub fn finish_unless(self, bug: &'static str) {
        if seeded(bug) { std::mem::forget(self) } else { drop(self) }
    }
}

//! Calls that a seeded bug leaves out, or makes at a wrong place. The code around them stays one
//! algorithm, with the bug or without.

use super::seeded;
use crate::units::{Length, Offset};
use crate::{Flusher, Mark, Media, Result};

/// A result of a call that was left out.
pub trait Omitted {
    /// The result.
    fn omitted() -> Self;
}

impl Omitted for () {
    #[inline(always)]
    fn omitted() {}
}

impl Omitted for bool {
    #[inline(always)]
    fn omitted() -> bool {
        false
    }
}

impl<E> Omitted for Result<(), E> {
    #[inline(always)]
    fn omitted() -> Result<(), E> {
        Ok(())
    }
}

/// Runs `call`, which the seeded bug leaves out.
#[inline(always)]
pub fn unless<T: Omitted>(bug: &'static str, call: impl FnOnce() -> T) -> T {
    if seeded(bug) { T::omitted() } else { call() }
}

/// Runs `call` with the seeded bug alone, at a place that is too early or too late for it.
#[inline(always)]
pub fn misplaced<T: Omitted>(bug: &'static str, call: impl FnOnce() -> T) -> T {
    if seeded(bug) { call() } else { T::omitted() }
}

/// `call` for two places, one of them [`misplaced`]: only the first runs it.
pub fn once<T: Omitted>(call: impl FnOnce() -> T) -> impl FnMut() -> T {
    let mut call = Some(call);
    move || call.take().map_or_else(T::omitted, |call| call())
}

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

    /// [`Media::settle`] if there is a mark, which the seeded bug leaves out.
    ///
    /// # Errors
    /// As [`Media::settle`].
    #[track_caller]
    #[inline(always)]
    pub fn settle_unless(&self, bug: &'static str, mark: Option<Mark>) -> Result<()> {
        match mark {
            Some(mark) if !seeded(bug) => self.settle(mark),
            _ => Ok(()),
        }
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

impl Flusher<'_> {
    /// Flushes the last ranges, as dropping does; with the seeded bug these lines are forgotten.
    #[inline(always)]
    pub fn finish_unless(self, bug: &'static str) {
        if seeded(bug) { std::mem::forget(self) } else { drop(self) }
    }
}

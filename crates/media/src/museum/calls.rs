//! Calls that a seeded bug leaves out, or makes at a wrong place. The code around them stays one
//! algorithm, with the bug or without.

use super::seeded;

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

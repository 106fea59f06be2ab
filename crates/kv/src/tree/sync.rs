//! The atomics and locks of `pins`. The programs of `schedules` give the same code shuttle's.

pub(crate) use parking_lot::Mutex;
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU64, fence};

use std::cell::Cell;

/// Pins that have a slot; further ones go to a list under a lock.
pub(crate) const SLOTS: usize = 128;

thread_local! {
    static HINT: Cell<usize> = const { Cell::new(0) };
}

/// The slot that this thread took last.
#[inline]
pub(crate) fn hint() -> usize {
    HINT.with(Cell::get)
}

/// Remembers a slot for [`hint`].
#[inline]
pub(crate) fn set_hint(slot: usize) {
    HINT.with(|hint| hint.set(slot));
}

//! As `tree::sync`, with shuttle's atomics and locks, and so few slots that pins overflow.

pub(super) use shuttle::hint::spin_loop;
pub(super) use shuttle::sync::atomic::{AtomicU64, fence};

use shuttle::sync::{Mutex as Inner, MutexGuard};
use std::cell::Cell;
use std::sync::PoisonError;

pub(super) const SLOTS: usize = 2;

shuttle::thread_local! {
    static HINT: Cell<usize> = const { Cell::new(0) };
}

pub(super) fn hint() -> usize {
    HINT.with(Cell::get)
}

pub(super) fn set_hint(slot: usize) {
    HINT.with(|hint| hint.set(slot));
}

/// Shuttle's lock with the interface of `parking_lot`.
#[derive(Default)]
pub(super) struct Mutex<T>(Inner<T>);

impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Mutex<T> {
        Mutex(Inner::new(value))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

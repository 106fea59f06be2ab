//! As `tree::sync`, with shuttle's atomics and locks, and so few slots that pins overflow.

pub(super) use shuttle::hint::spin_loop;
pub(super) use shuttle::sync::atomic::{AtomicU64, fence};

use shuttle::sync::{Mutex as Inner, MutexGuard};
use std::cell::Cell;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

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

/// As `tree::sync::Words`, of memory that only the threads of a program share.
#[derive(Clone)]
pub(super) struct Words(std::sync::Arc<[AtomicU64]>);

impl Words {
    pub(super) fn new(bytes: usize) -> Words {
        Words((0..bytes / 8).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn load(&self, at: usize) -> u64 {
        self.0[at / 8].load(Acquire)
    }

    pub(super) fn store(&self, at: usize, value: u64) {
        self.0[at / 8].store(value, Release);
    }

    pub(super) fn exchange(&self, at: usize, current: u64, new: u64) -> bool {
        self.0[at / 8].compare_exchange(current, new, AcqRel, Acquire).is_ok()
    }

    pub(super) fn len(&self) -> u64 {
        0
    }

    pub(super) fn are_here(&self) -> bool {
        true
    }
}

pub(super) const ATTEMPTS: usize = 1000;
pub(super) const SPINS: usize = 2;

pub(super) fn pause(_attempt: usize) {
    shuttle::thread::yield_now();
}

//! State that threads have parts of, so that they do not write to one line.
//!
//! A thread has a number, and uses the part of that number; threads beyond the parts share them.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Parts that suffice for the threads of most machines.
pub(crate) const PARTS: usize = 16;

/// A value in lines of its own; two, since a CPU may fetch the line beside one along.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Apart<T>(T);

impl<T> Apart<T> {
    pub(crate) fn new(value: T) -> Apart<T> {
        Apart(value)
    }
}

impl<T> Deref for Apart<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Apart<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// The number of this thread.
#[inline]
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

/// A lock that is held for reading most often: a reader takes the part of its thread, a writer all.
#[derive(Debug, Default)]
pub(crate) struct PartedLock<const N: usize>([Apart<RwLock<()>>; N])
where
    [Apart<RwLock<()>>; N]: Default;

impl<const N: usize> PartedLock<N>
where
    [Apart<RwLock<()>>; N]: Default,
{
    /// Locks for reading. A thread may do so again while it does.
    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, ()> {
        self.0[thread_number() % N].read_recursive()
    }

    /// Locks for writing.
    pub(crate) fn write(&self) -> [RwLockWriteGuard<'_, ()>; N] {
        self.0.each_ref().map(|part| part.write())
    }
}

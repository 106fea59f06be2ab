//! [`PCell`]: a value that is replaced as a whole.

use crate::types::wrapper::wrapper;
use crate::{Journal, MemPool, PSafe};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;

/// As `Cell`: read by copying, replaced with [`PCell::set`], which logs the old value.
#[repr(transparent)]
pub struct PCell<T, P: MemPool> {
    value: UnsafeCell<T>,
    marker: PhantomData<P>,
}

wrapper!(PCell, cells: 0);

impl<T: PSafe<P>, P: MemPool> PCell<T, P> {
    /// Replaces the value; the old one is dropped.
    #[inline]
    pub fn set(&self, value: T, j: &Journal<P>) {
        drop(self.replace(value, j));
    }

    /// Replaces the value and answers the old one.
    #[inline]
    pub fn replace(&self, value: T, j: &Journal<P>) -> T {
        j.running().log(self.value.get().cast(), size_of::<T>());
        // SAFETY: logged (OBJ-1); a cell hands out no references and is not shared by threads.
        unsafe { self.value.get().replace(value) }
    }

    /// Takes the value out and leaves the default.
    pub fn take(&self, j: &Journal<P>) -> T
    where
        T: Default,
    {
        self.replace(T::default(), j)
    }
}

impl<T: PSafe<P> + Copy, P: MemPool> PCell<T, P> {
    /// A copy of the value.
    #[inline(always)]
    pub fn get(&self) -> T {
        // SAFETY: a cell hands out no references and is not shared by threads, so no other code is
        // changing it.
        unsafe { *self.value.get() }
    }

    /// Replaces the value by the result of `change`, and returns that.
    pub fn update(&self, change: impl FnOnce(T) -> T, j: &Journal<P>) -> T {
        let value = change(self.get());
        self.set(value, j);
        value
    }
}

impl<T: PSafe<P> + Copy + fmt::Debug, P: MemPool> fmt::Debug for PCell<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PCell").field(&self.get()).finish()
    }
}

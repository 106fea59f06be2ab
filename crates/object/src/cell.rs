//! [`PCell`]: a value that is replaced as a whole.

use crate::schema::{Schema, TypeName};
use crate::{Journal, MemPool, PSafe, Tracer};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::RefUnwindSafe;

/// As `Cell`: read by copying, replaced with [`PCell::set`], which notes the old value.
#[repr(transparent)]
pub struct PCell<T, P: MemPool> {
    value: UnsafeCell<T>,
    marker: PhantomData<P>,
}

impl<T, P: MemPool> RefUnwindSafe for PCell<T, P> {}

impl<T: PSafe<P>, P: MemPool> PCell<T, P> {
    /// A cell that holds `value`.
    pub const fn new(value: T) -> PCell<T, P> {
        PCell { value: UnsafeCell::new(value), marker: PhantomData }
    }

    /// Replaces the value; the old one is dropped.
    #[inline]
    pub fn set(&self, value: T, j: &Journal<P>) {
        drop(self.replace(value, j));
    }

    /// Replaces the value and answers the old one.
    #[inline]
    pub fn replace(&self, value: T, j: &Journal<P>) -> T {
        j.running().log(self.value.get().cast(), size_of::<T>());
        // SAFETY: noted (OBJ-1); a cell hands out no references and is not shared by threads.
        unsafe { self.value.get().replace(value) }
    }

    /// Takes the value out and leaves the default.
    pub fn take(&self, j: &Journal<P>) -> T
    where
        T: Default,
    {
        self.replace(T::default(), j)
    }

    /// The value, to be changed: who has the cell alone has noted it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Takes the cell apart.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: PSafe<P> + Copy, P: MemPool> PCell<T, P> {
    /// A copy of the value.
    #[inline(always)]
    pub fn get(&self) -> T {
        // SAFETY: a cell hands out no references and is not shared by threads, so nobody is changing it.
        unsafe { *self.value.get() }
    }

    /// Replaces the value by what `change` makes of it, and answers that.
    pub fn update(&self, change: impl FnOnce(T) -> T, j: &Journal<P>) -> T {
        let value = change(self.get());
        self.set(value, j);
        value
    }
}

// SAFETY: as the value; changing it takes a journal of the pool.
unsafe impl<T: PSafe<P>, P: MemPool> PSafe<P> for PCell<T, P> {
    type At<'x> = PCell<T::At<'x>, P::At<'x>>;

    const CELLS: u8 = T::CELLS;

    fn describe(schema: &mut Schema) -> TypeName {
        schema.wrapper::<T, P>("PCell")
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        // SAFETY: the caller's; a cell is its value.
        unsafe { T::trace(this.cast(), tracer) }
    }
}

impl<T: PSafe<P> + Copy + fmt::Debug, P: MemPool> fmt::Debug for PCell<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PCell").field(&self.get()).finish()
    }
}

impl<T: PSafe<P> + Default, P: MemPool> Default for PCell<T, P> {
    fn default() -> Self {
        PCell::new(T::default())
    }
}

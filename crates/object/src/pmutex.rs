//! [`PMutex`]: a value that one transaction at a time can reach, to its end.

use crate::locks::Mode;
use crate::psafe::level;
use crate::schema::{Schema, TypeName};
use crate::{Journal, MemPool, PSafe, Tracer};
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::RefUnwindSafe;

/// As `Mutex`, with two differences: [`PMutex::lock`] takes a journal, and the lock is held to the end of the outermost
/// transaction, however early the guard is dropped. So nobody sees what is not committed. It is never poisoned: what a
/// panic leaves is rolled back. As large as its value.
///
/// In which order a program takes its locks is its own care; two transactions that take two locks in opposite orders may
/// wait for each other forever.
#[repr(transparent)]
pub struct PMutex<T, P: MemPool> {
    value: UnsafeCell<T>,
    marker: PhantomData<P>,
}

// SAFETY: a value is reached by one transaction at a time, and a transaction stays in its thread.
unsafe impl<T: Send, P: MemPool> Sync for PMutex<T, P> {}
impl<T, P: MemPool> RefUnwindSafe for PMutex<T, P> {}

impl<T: PSafe<P>, P: MemPool> PMutex<T, P> {
    /// A mutex that holds `value`.
    pub const fn new(value: T) -> PMutex<T, P> {
        PMutex { value: UnsafeCell::new(value), marker: PhantomData }
    }

    /// Waits for the lock and takes it, to the end of the transaction. A transaction may lock again what it holds.
    ///
    /// # Panics
    /// While another guard of it lives in the same transaction.
    #[track_caller]
    pub fn lock<'b>(&'b self, j: &'b Journal<P>) -> PMutexGuard<'b, T, P> {
        self.take(j, true).expect("waited for")
    }

    /// [`PMutex::lock`] that answers `None` if another transaction holds the lock, or a guard lives in this one.
    pub fn try_lock<'b>(&'b self, j: &'b Journal<P>) -> Option<PMutexGuard<'b, T, P>> {
        self.take(j, false)
    }

    #[track_caller]
    fn take<'b>(&'b self, j: &'b Journal<P>, wait: bool) -> Option<PMutexGuard<'b, T, P>> {
        let value = self.value.get();
        let index = j.running().lock(value.cast(), level::<T, P>(), Mode::Write, wait)?;
        Some(PMutexGuard { value, index, noted: Cell::new(false), journal: j, marker: PhantomData })
    }

    /// The value, to be changed: who has the mutex alone has noted it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Takes the mutex apart.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// A locked value; dropping it does not unlock. The first mutable dereference notes the old value.
pub struct PMutexGuard<'b, T, P: MemPool> {
    value: *mut T,
    index: usize,
    noted: Cell<bool>,
    journal: &'b Journal<P>,
    marker: PhantomData<(*mut (), &'b mut T)>,
}

impl<T, P: MemPool> Deref for PMutexGuard<'_, T, P> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: locked to the end of the transaction, and this is its only guard (LOCK-3).
        unsafe { &*self.value }
    }
}

impl<T, P: MemPool> DerefMut for PMutexGuard<'_, T, P> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        if !self.noted.get() {
            self.journal.running().log(self.value.cast(), size_of::<T>());
            self.noted.set(true);
        }
        // SAFETY: as in `deref`, and the old bytes are noted (OBJ-1).
        unsafe { &mut *self.value }
    }
}

impl<T, P: MemPool> Drop for PMutexGuard<'_, T, P> {
    #[inline]
    fn drop(&mut self) {
        self.journal.running().unguard(self.index, Mode::Write);
    }
}

// SAFETY: as the value; locks are kept elsewhere, and changing it takes a journal of the pool.
unsafe impl<T: PSafe<P>, P: MemPool> PSafe<P> for PMutex<T, P> {
    type At<'x> = PMutex<T::At<'x>, P::At<'x>>;
    const CELLS: u8 = T::CELLS + 1;

    fn describe(schema: &mut Schema) -> TypeName {
        schema.wrapper::<T, P>("PMutex")
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        // SAFETY: the caller's; a mutex is its value.
        unsafe { T::trace(this.cast(), tracer) }
    }
}

impl<T, P: MemPool> fmt::Debug for PMutex<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PMutex(..)")
    }
}

impl<T: fmt::Debug, P: MemPool> fmt::Debug for PMutexGuard<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: PSafe<P> + Default, P: MemPool> Default for PMutex<T, P> {
    fn default() -> Self {
        PMutex::new(T::default())
    }
}

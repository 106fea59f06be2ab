//! [`PRwLock`]: a value that many transactions read, or one changes, to their ends.

use crate::locks::Mode;
use crate::psafe::level;
use crate::schema::{Schema, TypeName};
use crate::{Journal, MemPool, PSafe, Tracer};
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::RefUnwindSafe;

/// As `RwLock`, held to the end of the outermost transaction as a [`crate::PMutex`] is.
#[repr(transparent)]
pub struct PRwLock<T, P: MemPool> {
    value: UnsafeCell<T>,
    marker: PhantomData<P>,
}

// SAFETY: as `RwLock`: readers of several threads share `&T`, a writer is alone.
unsafe impl<T: Send + Sync, P: MemPool> Sync for PRwLock<T, P> {}
impl<T, P: MemPool> RefUnwindSafe for PRwLock<T, P> {}

impl<T: PSafe<P>, P: MemPool> PRwLock<T, P> {
    /// A lock that holds `value`.
    pub const fn new(value: T) -> PRwLock<T, P> {
        PRwLock { value: UnsafeCell::new(value), marker: PhantomData }
    }

    /// Waits until nobody writes, and keeps it so to the end of the transaction.
    ///
    /// # Panics
    /// While a guard that writes lives in the same transaction.
    #[track_caller]
    pub fn read<'b>(&'b self, j: &'b Journal<P>) -> PReadGuard<'b, T, P> {
        self.try_read_waiting(j, true).expect("waited for")
    }

    /// [`PRwLock::read`] that answers `None` if somebody writes.
    pub fn try_read<'b>(&'b self, j: &'b Journal<P>) -> Option<PReadGuard<'b, T, P>> {
        self.try_read_waiting(j, false)
    }

    #[track_caller]
    fn try_read_waiting<'b>(&'b self, j: &'b Journal<P>, wait: bool) -> Option<PReadGuard<'b, T, P>> {
        let value = self.value.get();
        let index = j.running().lock(value.cast(), level::<T, P>(), Mode::Read, wait)?;
        Some(PReadGuard { value, index, journal: j, marker: PhantomData })
    }

    /// Waits until this transaction alone has the lock, and keeps it so to its end.
    ///
    /// # Panics
    /// While another guard lives in the same transaction; if the transaction has read the lock before and others read it,
    /// too: two that did so would wait for each other forever. Ask for `write` first.
    #[track_caller]
    pub fn write<'b>(&'b self, j: &'b Journal<P>) -> PWriteGuard<'b, T, P> {
        self.try_write_waiting(j, true).expect("waited for")
    }

    /// [`PRwLock::write`] that answers `None` if the lock is held.
    pub fn try_write<'b>(&'b self, j: &'b Journal<P>) -> Option<PWriteGuard<'b, T, P>> {
        self.try_write_waiting(j, false)
    }

    #[track_caller]
    fn try_write_waiting<'b>(&'b self, j: &'b Journal<P>, wait: bool) -> Option<PWriteGuard<'b, T, P>> {
        let value = self.value.get();
        let index = j.running().lock(value.cast(), level::<T, P>(), Mode::Write, wait)?;
        Some(PWriteGuard { value, index, noted: Cell::new(false), journal: j, marker: PhantomData })
    }

    /// The value, to be changed: who has the lock alone has noted it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Takes the lock apart.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// A value that is being read; dropping it does not unlock.
pub struct PReadGuard<'b, T, P: MemPool> {
    value: *const T,
    index: usize,
    journal: &'b Journal<P>,
    marker: PhantomData<(*mut (), &'b T)>,
}

impl<T, P: MemPool> Deref for PReadGuard<'_, T, P> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: nobody writes to the end of the transaction (LOCK-3).
        unsafe { &*self.value }
    }
}

impl<T, P: MemPool> Drop for PReadGuard<'_, T, P> {
    #[inline]
    fn drop(&mut self) {
        self.journal.running().unguard(self.index, Mode::Read);
    }
}

/// A value that is being changed; dropping it does not unlock. The first mutable dereference notes the old value.
pub struct PWriteGuard<'b, T, P: MemPool> {
    value: *mut T,
    index: usize,
    noted: Cell<bool>,
    journal: &'b Journal<P>,
    marker: PhantomData<(*mut (), &'b mut T)>,
}

impl<T, P: MemPool> Deref for PWriteGuard<'_, T, P> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: locked to the end of the transaction, and this is its only guard (LOCK-3).
        unsafe { &*self.value }
    }
}

impl<T, P: MemPool> DerefMut for PWriteGuard<'_, T, P> {
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

impl<T, P: MemPool> Drop for PWriteGuard<'_, T, P> {
    #[inline]
    fn drop(&mut self) {
        self.journal.running().unguard(self.index, Mode::Write);
    }
}

// SAFETY: as the value; locks are kept elsewhere, and changing it takes a journal of the pool.
unsafe impl<T: PSafe<P>, P: MemPool> PSafe<P> for PRwLock<T, P> {
    type At<'x> = PRwLock<T::At<'x>, P::At<'x>>;
    const CELLS: u8 = T::CELLS + 1;

    fn describe(schema: &mut Schema) -> TypeName {
        schema.wrapper::<T, P>("PRwLock")
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        // SAFETY: the caller's; a lock is its value.
        unsafe { T::trace(this.cast(), tracer) }
    }
}

impl<T, P: MemPool> fmt::Debug for PRwLock<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PRwLock(..)")
    }
}

impl<T: fmt::Debug, P: MemPool> fmt::Debug for PReadGuard<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Debug, P: MemPool> fmt::Debug for PWriteGuard<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: PSafe<P> + Default, P: MemPool> Default for PRwLock<T, P> {
    fn default() -> Self {
        PRwLock::new(T::default())
    }
}

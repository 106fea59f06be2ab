//! Parts shared by the guards of cells and locks.
//!
//! Invariants
//!   GUARD-1  While an [`Exclusive`] lives, nothing else reaches its value.
//!   GUARD-2  It logs the value at the first mutable dereference, and not before.

use crate::{Journal, MemPool};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A value that its holder alone may read and change, until this is dropped.
pub(crate) struct Exclusive<'b, T, P: MemPool> {
    value: *mut T,
    /// The value as well once it is logged, null before: one look says both (GUARD-2).
    logged: *mut T,
    journal: &'b Journal<P>,
    marker: PhantomData<&'b mut T>,
}

impl<'b, T, P: MemPool> Exclusive<'b, T, P> {
    /// # Safety
    /// `value` may be written to while the result lives, and nothing else reaches it (GUARD-1).
    #[inline(always)]
    pub(crate) unsafe fn new(value: *mut T, journal: &'b Journal<P>) -> Self {
        Exclusive { value, logged: std::ptr::null_mut(), journal, marker: PhantomData }
    }
}

impl<T, P: MemPool> Deref for Exclusive<'_, T, P> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: GUARD-1, by the maker of the guard.
        unsafe { &*self.value }
    }
}

impl<T, P: MemPool> DerefMut for Exclusive<'_, T, P> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        if self.logged.is_null() {
            self.journal.running().log(self.value.cast(), size_of::<T>());
            self.logged = self.value;
        }
        // SAFETY: GUARD-1, and the old bytes are logged (OBJ-1).
        unsafe { &mut *self.logged }
    }
}

/// Makes guards of types that hold an [`Exclusive`] as `value`.
macro_rules! exclusive {
    ($Guard:ident) => {
        impl<T, P: MemPool> std::ops::Deref for $Guard<'_, T, P> {
            type Target = T;

            #[inline(always)]
            fn deref(&self) -> &T {
                &self.value
            }
        }

        impl<T, P: MemPool> std::ops::DerefMut for $Guard<'_, T, P> {
            #[inline(always)]
            fn deref_mut(&mut self) -> &mut T {
                &mut self.value
            }
        }

        impl<T: std::fmt::Debug, P: MemPool> std::fmt::Debug for $Guard<'_, T, P> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}
pub(crate) use exclusive;

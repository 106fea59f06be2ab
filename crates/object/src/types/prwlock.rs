//! [`PRwLock`]: a value that many transactions read, or one changes, to their ends.

use crate::description::psafe::level;
use crate::transaction::guard::{Exclusive, exclusive};
use crate::transaction::locks::{HeldLock, Mode};
use crate::types::wrapper::wrapper;
use crate::{Journal, MemPool, Out, PSafe, PoolTag, Reader};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

/// As `RwLock`, held to the end of the outermost transaction as a [`crate::PMutex`] is.
#[repr(transparent)]
pub struct PRwLock<T, P: MemPool> {
    value: UnsafeCell<T>,
    marker: PhantomData<P>,
}

// SAFETY: as `RwLock`: readers of several threads share `&T`, a writer is alone.
unsafe impl<T: Send + Sync, P: MemPool> Sync for PRwLock<T, P> {}

wrapper!(PRwLock, cells: 1);

impl<T: PSafe<Out<G>>, G: PoolTag> PRwLock<T, Out<G>> {
    /// The value: outside of transactions, while none changes the pool
    /// ([`Root::read`](crate::Root::read)).
    pub fn get<'r>(&'r self, _: &'r Reader<G>) -> &'r T {
        // SAFETY: in bounds and alive as `self`; transactions alone change it, and none does while
        // the reader lives.
        unsafe { &*self.value.get() }
    }
}

impl<T: PSafe<P>, P: MemPool> PRwLock<T, P> {
    /// Waits until no transaction writes, and keeps it so to the end of the transaction.
    ///
    /// # Panics
    /// While a guard that writes lives in the same transaction.
    #[track_caller]
    pub fn read<'b>(&'b self, j: &'b Journal<P>) -> PReadGuard<'b, T, P> {
        self.take_read(j, true).expect("waited for")
    }

    /// [`PRwLock::read`] that answers `None` if a transaction writes.
    pub fn try_read<'b>(&'b self, j: &'b Journal<P>) -> Option<PReadGuard<'b, T, P>> {
        self.take_read(j, false)
    }

    #[track_caller]
    fn take_read<'b>(&'b self, j: &'b Journal<P>, wait: bool) -> Option<PReadGuard<'b, T, P>> {
        let value = self.value.get();
        let held = j.running().lock(value.cast(), level::<T, P>(), Mode::Read, wait)?;
        Some(PReadGuard { value, held, marker: PhantomData })
    }

    /// Waits until this transaction alone has the lock, and keeps it so to its end.
    ///
    /// # Panics
    /// While another guard lives in the same transaction; if the transaction has read the lock
    /// before and others read it, too: two that did so would wait for each other forever. Ask for
    /// `write` first.
    #[track_caller]
    pub fn write<'b>(&'b self, j: &'b Journal<P>) -> PWriteGuard<'b, T, P> {
        self.take_write(j, true).expect("waited for")
    }

    /// [`PRwLock::write`] that answers `None` if the lock is held.
    pub fn try_write<'b>(&'b self, j: &'b Journal<P>) -> Option<PWriteGuard<'b, T, P>> {
        self.take_write(j, false)
    }

    #[track_caller]
    fn take_write<'b>(&'b self, j: &'b Journal<P>, wait: bool) -> Option<PWriteGuard<'b, T, P>> {
        let value = self.value.get();
        let held = j.running().lock(value.cast(), level::<T, P>(), Mode::Write, wait)?;
        // SAFETY: locked to the end of the transaction, and this is its only guard (LOCK-3).
        let value = unsafe { Exclusive::new(value, j) };
        Some(PWriteGuard { value, held })
    }
}

/// A value that is being read; dropping it does not unlock.
pub struct PReadGuard<'b, T, P: MemPool> {
    value: *const T,
    #[allow(dead_code)] // recorded while it lives
    held: HeldLock<'b>,
    marker: PhantomData<(&'b T, P)>,
}

impl<T, P: MemPool> Deref for PReadGuard<'_, T, P> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: no transaction writes before the end of this one (LOCK-3).
        unsafe { &*self.value }
    }
}

/// A value that is being changed; dropping it does not unlock. The first mutable dereference logs
/// the old value.
pub struct PWriteGuard<'b, T, P: MemPool> {
    value: Exclusive<'b, T, P>,
    #[allow(dead_code)] // recorded while it lives
    held: HeldLock<'b>,
}

exclusive!(PWriteGuard);

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

//! [`PMutex`]: a value that one transaction at a time can reach, to its end.

use crate::description::psafe::level;
use crate::transaction::guard::{Exclusive, exclusive};
use crate::transaction::locks::{HeldLock, Mode};
use crate::types::wrapper::wrapper;
use crate::{Journal, MemPool, Out, PSafe, PoolTag, Reader};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;

/// As `Mutex`, with two differences: [`PMutex::lock`] takes a journal, and the lock is held to the
/// end of the outermost transaction, however early the guard is dropped. So no other thread reads
/// an uncommitted value. It is never poisoned: changes before a panic are rolled back. As large as
/// its value.
///
/// In which order a program takes its locks is its own care; two transactions that take two locks
/// in opposite orders may wait for each other forever.
#[repr(transparent)]
pub struct PMutex<T, P: MemPool> {
    value: UnsafeCell<T>,
    marker: PhantomData<P>,
}

// SAFETY: a value is reached by one transaction at a time, and a transaction stays in its thread.
unsafe impl<T: Send, P: MemPool> Sync for PMutex<T, P> {}

wrapper!(PMutex, cells: 1);

impl<T: PSafe<Out<G>>, G: PoolTag> PMutex<T, Out<G>> {
    /// The value: outside of transactions, while none changes the pool
    /// ([`Root::read`](crate::Root::read)).
    pub fn get<'r>(&'r self, _: &'r Reader<G>) -> &'r T {
        // SAFETY: in bounds and alive as `self`; transactions alone change it, and none does while
        // the reader lives.
        unsafe { &*self.value.get() }
    }
}

impl<T: PSafe<P>, P: MemPool> PMutex<T, P> {
    /// Waits for the lock and takes it, to the end of the transaction. A transaction may lock again
    /// what it holds.
    ///
    /// # Panics
    /// While another guard of it lives in the same transaction.
    #[track_caller]
    pub fn lock<'b>(&'b self, j: &'b Journal<P>) -> PMutexGuard<'b, T, P> {
        self.take(j, true).expect("waited for")
    }

    /// [`PMutex::lock`] that answers `None` if another transaction holds the lock, or a guard lives
    /// in this one.
    pub fn try_lock<'b>(&'b self, j: &'b Journal<P>) -> Option<PMutexGuard<'b, T, P>> {
        self.take(j, false)
    }

    #[track_caller]
    fn take<'b>(&'b self, j: &'b Journal<P>, wait: bool) -> Option<PMutexGuard<'b, T, P>> {
        let value = self.value.get();
        let held = j.running().lock(value.cast(), level::<T, P>(), Mode::Write, wait)?;
        // SAFETY: locked to the end of the transaction, and this is its only guard (LOCK-3).
        let value = unsafe { Exclusive::new(value, j) };
        Some(PMutexGuard { value, held })
    }
}

/// A locked value; dropping it does not unlock. The first mutable dereference logs the old value.
pub struct PMutexGuard<'b, T, P: MemPool> {
    value: Exclusive<'b, T, P>,
    #[allow(dead_code)] // recorded while it lives
    held: HeldLock<'b>,
}

exclusive!(PMutexGuard);

impl<T, P: MemPool> fmt::Debug for PMutex<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PMutex(..)")
    }
}

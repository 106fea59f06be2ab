//! [`Freeze`]: keeps all changes of a volume waiting while a snapshot is made.
//!
//! A call that changes the volume enters before it takes any lock, and stays until it returns. A
//! thread enters at the part of the lock that is its own, so that threads do not write to one line.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

const PARTS: usize = 16;

/// A part of the lock, in lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Part(RwLock<()>);

/// The lock.
#[derive(Default)]
pub(crate) struct Freeze([Part; PARTS]);

thread_local! {
    /// The part of this thread.
    static HOME: Cell<usize> = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % PARTS)
    };
}

impl Freeze {
    /// Begins a call that changes the volume; it ends when the result is dropped. A thread may
    /// enter again while it is inside.
    #[inline]
    pub(crate) fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.0[HOME.get()].0.read_recursive()
    }

    /// Waits until all calls that change the volume have ended; none begins before the result is
    /// dropped.
    pub(crate) fn stop(&self) -> Vec<RwLockWriteGuard<'_, ()>> {
        self.0.iter().map(|part| part.0.write()).collect()
    }
}

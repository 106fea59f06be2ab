//! [`TxLock`]: a lock that a transaction keeps until its commit is ordered.
//!
//! Locks are released before the barrier, so that other threads need not wait for the disk. The
//! next holder reads data that is ordered but not yet settled; therefore a lock remembers its last
//! writer's commit, and a transaction that takes the lock settles that commit before it returns.
//!
//! Invariants
//!   TX-5  A transaction returns only after the newest commit that it saw at a lock is settled.

use everbyte_media::Unsettled;
use parking_lot::{ArcMutexGuard, Mutex, RawMutex};
use std::sync::Arc;

/// A volatile lock for data of a persistent object; see [`crate::Tx::lock`]. Clones are the same
/// lock.
#[derive(Clone, Default)]
pub struct TxLock {
    pub(crate) last: Arc<Mutex<Unsettled<()>>>,
}

pub(crate) type Guard = ArcMutexGuard<RawMutex, Unsettled<()>>;

impl TxLock {
    /// A new lock, free.
    pub fn new() -> TxLock {
        TxLock::default()
    }

    pub(crate) fn is(&self, guard: &Guard) -> bool {
        Arc::ptr_eq(&self.last, ArcMutexGuard::mutex(guard))
    }
}

impl std::fmt::Debug for TxLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TxLock({})", if self.last.is_locked() { "held" } else { "free" })
    }
}

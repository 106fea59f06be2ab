//! Numbers for threads: never used twice in a process, unlike the addresses of thread-local
//! storage.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// No thread.
pub(crate) const NONE: u64 = 0;

/// The number of the current thread.
#[inline]
pub(crate) fn current() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(NONE + 1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Relaxed);
    }
    NUMBER.with(|number| *number)
}

//! [`SharedWords`]: the memory that [`crate::RobustLock`] and [`crate::SharedLock`] lie in.

use std::time::Duration;

/// Aligned 8-byte words of memory that all members map. Loads acquire, stores release, and a
/// compare-and-exchange does both.
///
/// `everbyte_media::Media` implements it; offsets are then offsets in the store.
pub trait SharedWords: Clone + Send + Sync + 'static {
    /// The value of the word at `at`.
    fn load(&self, at: u64) -> u64;

    /// Stores the word at `at`.
    fn store(&self, at: u64, value: u64);

    /// Replaces `current` by `new` in the word at `at`. `Err` carries the value found instead.
    ///
    /// # Errors
    /// The value found, if it is not `current`.
    fn compare_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64>;

    /// Waits until [`SharedWords::wake`] is called for the word at `at`, in any process. Returns at
    /// once if its lower half is not `expected`, at the latest after `most`, and spuriously.
    fn wait(&self, at: u64, expected: u32, most: Duration);

    /// Wakes one thread that waits for the word at `at`.
    fn wake(&self, at: u64);

    /// Whether a test has switched on the seeded bug of that name; `false` in release builds.
    fn seeded(&self, bug: &'static str) -> bool;
}

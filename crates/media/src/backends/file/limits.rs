//! Limits of the log's length.

/// The smallest log that can be used.
pub(crate) const LOG_MIN: u64 = 16 << 10;
/// The largest: recovery reads the log into memory.
pub(crate) const LOG_MAX: u64 = 1 << 30;

//! The seam for the crash explorer: media that tells every store, flush, fence and barrier to a recorder.

use std::io;

/// Hears what a program does to its media, in one total order.
///
/// Calls come under one lock, and a store is told together with making it: what the recorder hears is what memory holds.
pub trait Recorder: Send {
    /// `bytes` were stored at `at`; only whole or partial words inside that range changed.
    fn store(&mut self, at: u64, bytes: &[u8]);
    /// The bytes `at..at+len` were flushed (whole lines for a flush, exact words for a non-temporal copy).
    fn flush(&mut self, at: u64, len: u64);
    /// Stores by this thread after this survive only with what it flushed before.
    fn fence(&mut self);
    /// Everything this thread flushed before is settled. The error is what the program is told.
    fn barrier(&mut self) -> io::Result<()>;
    /// `at..at+len` is about to be backed. The error is what the program is told: a full disk.
    fn allocate(&mut self, at: u64, len: u64) -> io::Result<()>;
}

//! The interface for the crash explorer: a recorder gets every store, flush, fence and barrier of a
//! media.

use crate::{Capabilities, Media};
use std::io;

/// Gets the operations of a program on its media, in one total order.
///
/// The acting thread calls it under one lock, together with the store itself: the reported content
/// is the content of memory. A recorder may also find stores by itself; see [`Recorder::scan`].
pub trait Recorder: Send {
    /// `bytes` were stored at `at`; only whole or partial words inside that range changed.
    fn store(&mut self, at: u64, bytes: &[u8]);
    /// The bytes `at..at+len` were flushed (whole lines for a flush, exact words for a non-temporal
    /// copy).
    fn flush(&mut self, at: u64, len: u64);
    /// Later stores of this thread survive only with its earlier flushes.
    fn fence(&mut self);
    /// The answer of [`Media::mark`]: the number of the newest fence, in the order of all threads.
    fn mark(&mut self) -> u64 {
        0
    }
    /// Everything ordered by the fences up to `mark` is settled. The program gets the error.
    fn barrier(&mut self, mark: u64) -> io::Result<()>;
    /// Whether a barrier has settled `mark` and a checkpoint may have passed it.
    fn settled(&mut self, _mark: u64) -> bool {
        true
    }
    /// `at..at+len` is about to be backed. The program gets the error, such as a full disk.
    fn allocate(&mut self, at: u64, len: u64) -> io::Result<()>;
    /// The pages of `at..at+len` were released: they may read as zeros from now on, settled bytes
    /// included.
    fn punch(&mut self, _at: u64, _len: u64) {}
    /// The capabilities that the media is to report.
    fn capabilities(&self) -> Capabilities {
        Capabilities { shared: false, fence_settles: false, huge_pages: false }
    }
    /// Called before each flush, fence and barrier: a recorder of a program whose stores are not
    /// reported compares memory with the content that it knows. Only loads of `media` may be called
    /// from here.
    fn scan(&mut self, _media: &Media) {}
}

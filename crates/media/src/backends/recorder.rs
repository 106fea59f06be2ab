//! The seam for the crash explorer: media that tells every store, flush, fence and barrier to a
//! recorder.

use crate::{Capabilities, Media};
use std::io;

/// Hears what a program does to its media, in one total order.
///
/// Calls come under one lock, from the thread that acts, and a store is told together with making
/// it: what the recorder hears is what memory holds. A recorder that scans finds stores by itself,
/// see [`Recorder::scan`].
pub trait Recorder: Send {
    /// `bytes` were stored at `at`; only whole or partial words inside that range changed.
    fn store(&mut self, at: u64, bytes: &[u8]);
    /// The bytes `at..at+len` were flushed (whole lines for a flush, exact words for a non-temporal
    /// copy).
    fn flush(&mut self, at: u64, len: u64);
    /// Stores by this thread after this survive only with what it flushed before.
    fn fence(&mut self);
    /// What [`Media::mark`] answers: the number of the newest fence, in the order of all threads.
    fn mark(&mut self) -> u64 {
        0
    }
    /// Everything ordered by the fences up to `mark` is settled. The error is what the program is
    /// told.
    fn barrier(&mut self, mark: u64) -> io::Result<()>;
    /// Whether a barrier has settled `mark` and a checkpoint may have passed it.
    fn settled(&mut self, _mark: u64) -> bool {
        true
    }
    /// `at..at+len` is about to be backed. The error is what the program is told: a full disk.
    fn allocate(&mut self, at: u64, len: u64) -> io::Result<()>;
    /// The pages of `at..at+len` were given back: they may read as zeros from now on, whatever was
    /// settled.
    fn punch(&mut self, _at: u64, _len: u64) {}
    /// What the media is to pretend to be capable of.
    fn capabilities(&self) -> Capabilities {
        Capabilities { shared: false, fence_settles: false, huge_pages: false }
    }
    /// Called before each flush, fence and barrier: a recorder that is not told stores compares
    /// memory with what it knows. Only loads of `media` may be called from here.
    fn scan(&mut self, _media: &Media) {}
}

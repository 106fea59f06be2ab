//! Freeing chunks: other chunks take their ranges of the file, and the file becomes shorter if they
//! were its last.
//!
//! For the process that has the store alone, when it closes or trims it. For each chunk without a
//! backed byte, each step durable before the next:
//!   1. the log names none of its bytes: the caller has passed the log, and lets no thread back any
//!      of them meanwhile; no mapping shows it
//!   2. the first copy of its slot says that it is free
//!   3. the second copy; from now on another chunk may take the range and the slot
//!
//! After a crash between 2 and 3 the copy with more changes counts, and opening writes the other
//! again.
//!
//! Invariants
//!   CHUNK-6  A chunk is freed only while the log names no byte of it: recovery treats a log that
//!            names bytes outside of all chunks as damaged.
//!   CHUNK-7  Memory forgets a chunk only after every mapping has hidden it. A chunk that the
//!            medium still has must not get a second slot: opening refuses two for one range.
//!
//! Threads: as the rest of the map.

use super::Chunks;
use super::slot::{FREE, Slot};
use crate::backends::file::disk::Disk;
use crate::bytes::extent::Extent;
use crate::museum::unless;
use crate::seeded;
use std::io;
use std::ops::Range;
use std::sync::Weak;
use std::sync::atomic::Ordering;

impl Chunks {
    /// Frees each chunk for whose store offsets `is_free` says that no byte is backed. Returns the
    /// bytes freed; 0 while other processes may have the store (CHUNK-4).
    pub(crate) fn free(&self, disk: &dyn Disk, is_free: &dyn Fn(Range<u64>) -> bool) -> io::Result<u64> {
        let _making = self.making.lock();
        let chunks = self.freeable(is_free);
        for chunk in &chunks {
            self.free_one(disk, chunk)?;
        }
        if !chunks.is_empty() {
            // After a failure the file stays longer than necessary.
            let _ = disk.shorten(self.state.read().layout.end());
        }
        Ok(chunks.iter().map(|chunk| chunk.len).sum())
    }

    /// The chunks that [`Chunks::free`] frees.
    pub(crate) fn freeable(&self, is_free: &dyn Fn(Range<u64>) -> bool) -> Vec<Extent> {
        if self.is_linear() || self.members.get().is_some() {
            return Vec::new();
        }
        let chunks = self.extents().into_iter().filter(|extent| extent.slot > 0 && !self.overlaps_log(extent));
        chunks.filter(|extent| is_free(extent.at..extent.end())).collect()
    }

    fn overlaps_log(&self, extent: &Extent) -> bool {
        extent.at < self.log.end && self.log.start < extent.end()
    }

    fn free_one(&self, disk: &dyn Disk, chunk: &Extent) -> io::Result<()> {
        self.require_good()?;
        for mapping in self.mappings.lock().iter().filter_map(Weak::upgrade) {
            let refused = || Err(io::Error::from_raw_os_error(libc::ENOMEM));
            let hidden = if seeded("media-hide-refused") { refused() } else { mapping.hide(chunk) };
            // A mapping may have hidden it, so its bytes must not be used; the map still has it.
            hidden.inspect_err(|_| {
                self.state.write().unsure.push(chunk.at..chunk.end());
                self.failed.store(true, Ordering::Release);
            })?; // CHUNK-7
        }
        self.state.write().layout.remove(chunk.at);
        let (number, changes) = (chunk.slot - 1, chunk.changes + 1);
        let slot = Slot::new(FREE, changes, (chunk.at, chunk.file, chunk.len), number);
        unless("media-chunk-free-unwritten", || self.put(disk, number, slot))?; // 2, 3
        disk.punch(chunk.file, chunk.len);
        let mut state = self.state.write();
        state.layout.release(chunk.file); // CHUNK-3
        state.free.push((number, changes));
        Ok(())
    }
}

//! [`ChunkDisk`]: a disk by store offsets, over the disk that holds the file.

use super::Chunks;
use crate::backends::file::disk::Disk;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A disk whose offsets are the store's; see [`Chunks`].
pub(crate) struct ChunkDisk {
    disk: Arc<dyn Disk>,
    pub chunks: Arc<Chunks>,
    /// The length of the store; of a linear file, its length.
    len: AtomicU64,
}

impl ChunkDisk {
    pub(crate) fn new(disk: Arc<dyn Disk>, chunks: Arc<Chunks>, len: u64) -> ChunkDisk {
        ChunkDisk { disk, chunks, len: len.into() }
    }

    /// Makes chunks for a range; refuses a range with which the file would exceed its limit.
    pub(crate) fn cover(&self, at: u64, len: u64) -> io::Result<()> {
        self.chunks.require_limit(self, at, len)?;
        self.chunks.cover(&*self.disk, at, len)
    }

    /// [`Disk::allocate`] of a range that lies in chunks.
    pub(crate) fn back(&self, at: u64, len: u64) -> io::Result<()> {
        self.each(at, len, |part, file| {
            let file = file.ok_or_else(|| io::Error::other("a range to be backed has no place in the file"))?;
            self.disk.allocate(file, part.len() as u64)
        })?;
        self.len.fetch_max(at + len, Ordering::AcqRel);
        Ok(())
    }

    /// Calls `each` with each part of a range and its file offset.
    fn each(
        &self,
        at: u64,
        len: u64,
        mut each: impl FnMut(Range<usize>, Option<u64>) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut from, end) = (at, at + len);
        while from < end {
            let (range, file) = self.chunks.part(from..end);
            from = range.end;
            each((range.start - at) as usize..(range.end - at) as usize, file)?;
        }
        Ok(())
    }

    /// As [`ChunkDisk::each`], for the parts that lie in chunks.
    fn each_place(&self, at: u64, len: u64, mut each: impl FnMut(u64, u64)) {
        let done = self.each(at, len, |part, file| {
            file.into_iter().for_each(|file| each(file, part.len() as u64));
            Ok(())
        });
        done.expect("nothing fails");
    }

    fn write(&self, at: u64, bytes: &[u8], write: impl Fn(&dyn Disk, u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
        self.chunks.require_good()?;
        self.each(at, bytes.len() as u64, |part, file| match file {
            Some(file) => write(&*self.disk, file, &bytes[part]),
            None => Err(io::Error::other(format!("offset {:#x} has no place in the file", at + part.start as u64))),
        })
    }
}

impl Disk for ChunkDisk {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.each(at, into.len() as u64, |part, file| match file {
            Some(file) => self.disk.read_at(file, &mut into[part]),
            None => {
                into[part].fill(0);
                Ok(())
            }
        })
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(at, bytes, |disk, at, bytes| disk.write_at(at, bytes))
    }

    fn write_pages_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(at, bytes, |disk, at, bytes| disk.write_pages_at(at, bytes))
    }

    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(at, bytes, |disk, at, bytes| self.chunks.synced(|| disk.write_sync_at(at, bytes)))
    }

    fn sync(&self) -> io::Result<()> {
        self.chunks.require_good()?;
        self.chunks.synced(|| self.disk.sync())?;
        self.chunks.require_no_other_failed()
    }

    fn len(&self) -> io::Result<u64> {
        if self.chunks.is_linear() { self.disk.len() } else { Ok(self.len.load(Ordering::Acquire)) }
    }

    fn allocate(&self, at: u64, len: u64) -> io::Result<()> {
        self.cover(at, len)?;
        self.back(at, len)
    }

    fn has_free_chunks(&self, is_free: &dyn Fn(Range<u64>) -> bool) -> bool {
        !self.chunks.freeable(is_free).is_empty()
    }

    fn free_chunks(&self, is_free: &dyn Fn(Range<u64>) -> bool) -> io::Result<u64> {
        self.chunks.free(&*self.disk, is_free)
    }

    fn limit_room(&self, max: u64) {
        self.chunks.limit.store(max, Ordering::Relaxed);
    }

    fn parts(&self, at: u64, len: u64) -> Vec<(Range<u64>, Option<u64>)> {
        self.chunks.parts(at, len)
    }

    fn forget(&self, at: u64, len: u64) {
        self.each_place(at, len, |at, len| self.disk.forget(at, len));
    }

    fn expect(&self, at: u64, len: u64) {
        self.each_place(at, len, |at, len| self.disk.expect(at, len));
    }

    fn punch(&self, at: u64, len: u64) {
        self.each_place(at, len, |at, len| self.disk.punch(at, len));
    }

    fn file_len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn data(&self, at: u64, len: u64) -> Option<Vec<Range<u64>>> {
        let mut found = Some(Vec::new());
        let done = self.each(at, len, |part, file| {
            if let (Some(file), Some(all)) = (file, &mut found) {
                let here = at + part.start as u64;
                match self.disk.data(file, part.len() as u64) {
                    Some(data) => {
                        all.extend(data.iter().map(|data| here + (data.start - file)..here + (data.end - file)))
                    }
                    None => found = None,
                }
            }
            Ok(())
        });
        done.expect("nothing fails");
        found
    }

    fn room(&self) -> io::Result<u64> {
        self.disk.room()
    }

    fn mappable(&self) -> BorrowedFd<'_> {
        self.disk.mappable()
    }
}

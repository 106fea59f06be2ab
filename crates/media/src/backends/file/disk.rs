//! The disk below the `file` backend, as an interface: real files here, recorded and failing ones
//! in `sim`.

use super::allocate::allocate;
use crate::Result;
use everbyte_members::PrivateDescriptor;
use everbyte_members::lock_file_apart;
use parking_lot::RwLock;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// A file on a disk. Writes may reach the medium in any order, by 512-byte sectors, until a sync
/// returns.
pub trait Disk: Send + Sync {
    /// Fills `into` from `at`.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
    /// Writes all bytes; not yet durable.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// [`Disk::write_at`] for whole pages that are rarely read: they may go past the system's
    /// cache, and their write-back has begun on return.
    fn write_pages_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_at(at, bytes)
    }
    /// Writes all bytes and returns when these are durable; other writes may not be.
    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Returns when all earlier writes are durable.
    fn sync(&self) -> io::Result<()>;
    /// Bytes of the file.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Backs a range and grows the file; existing bytes stay.
    fn allocate(&self, at: u64, len: u64) -> io::Result<()>;
    /// The parts of a range of store offsets, each with its file offset; `None` for a part without
    /// a chunk.
    fn parts(&self, at: u64, len: u64) -> Vec<(Range<u64>, Option<u64>)> {
        vec![(at..at + len, Some(at))]
    }
    /// Bytes of the file. On a disk of store offsets, [`Disk::len`] is the length of the store.
    fn file_len(&self) -> io::Result<u64> {
        self.len()
    }
    /// Makes the file at least `len` bytes long; new bytes read as zeros and may be a hole.
    fn lengthen(&self, len: u64) -> io::Result<()> {
        self.allocate(len - 4096, 4096)
    }
    /// Makes a range of whole pages read as zeros.
    fn clear(&self, at: u64, len: u64) -> io::Result<()> {
        self.punch(at, len);
        let mut page = [0; 4096];
        for at in (at..at + len).step_by(page.len()) {
            self.read_at(at, &mut page)?;
            if page.iter().any(|&byte| byte != 0) {
                self.write_at(at, &[0; 4096])?;
            }
        }
        Ok(())
    }
    /// Bytes that the file takes on the disk, or more.
    fn room(&self) -> io::Result<u64> {
        self.len()
    }
    /// Free bytes of the file system, or more.
    fn free(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }
    /// Shortens the file to `len` bytes; the bytes behind are unused. Callers ignore a failure.
    fn shorten(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }
    /// On a disk of store offsets: whether [`Disk::free_chunks`] would free a chunk.
    fn has_free_chunks(&self, _is_free: &dyn Fn(Range<u64>) -> bool) -> bool {
        false
    }
    /// On a disk of store offsets: frees the chunks for which `is_free` holds. Returns their bytes.
    fn free_chunks(&self, _is_free: &dyn Fn(Range<u64>) -> bool) -> io::Result<u64> {
        Ok(0)
    }
    /// Makes [`Disk::allocate`] refuse ranges with which the file would take more than `max` bytes.
    fn limit_room(&self, _max: u64) {}
    /// A hint: later reads of the range should come from the medium. Its writes have been synced.
    fn forget(&self, _at: u64, _len: u64) {}
    /// A hint: the range will be read soon.
    fn expect(&self, _at: u64, _len: u64) {}
    /// Releases a range to the file system; it then reads as zeros. A failure is ignored.
    fn punch(&self, at: u64, len: u64);
    /// The parts of a range that hold data, in order; `None` if the system cannot tell. The other
    /// parts read as zeros and may take space.
    fn data(&self, _at: u64, _len: u64) -> Option<Vec<Range<u64>>> {
        None
    }
    /// The descriptor for `mmap`.
    fn mappable(&self) -> BorrowedFd<'_>;
}

impl Disk for File {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        FileExt::read_exact_at(self, into, at)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, at)
    }

    fn write_pages_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        Disk::write_at(self, at, bytes)?;
        let (fd, from, len) = (self.as_raw_fd(), at as i64, bytes.len() as i64);
        // A hint: a failure is ignored.
        // SAFETY: the descriptor is open as long as `self`, and the call accesses no memory.
        let _ = unsafe { libc::sync_file_range(fd, from, len, libc::SYNC_FILE_RANGE_WRITE) };
        Ok(())
    }

    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        use rustix::io::{IoSlice, ReadWriteFlags, pwritev2};
        let mut done = 0;
        while done < bytes.len() {
            let rest = [IoSlice::new(&bytes[done..])];
            match pwritev2(self, &rest, at + done as u64, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::OPNOTSUPP) => {
                    FileExt::write_all_at(self, &bytes[done..], at + done as u64)?;
                    return self.sync_data();
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn allocate(&self, at: u64, len: u64) -> io::Result<()> {
        allocate(self, at, len, &RwLock::new(()))
    }

    fn lengthen(&self, len: u64) -> io::Result<()> {
        super::require_length(len)?;
        if len > Disk::len(self)? { self.set_len(len) } else { Ok(()) }
    }

    fn shorten(&self, len: u64) -> io::Result<()> {
        if len < Disk::len(self)? { self.set_len(len) } else { Ok(()) }
    }

    fn clear(&self, at: u64, len: u64) -> io::Result<()> {
        use rustix::fs::FallocateFlags;
        if rustix::fs::fallocate(self, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len).is_ok() {
            return Ok(());
        }
        let zeros = vec![0; 64 << 10];
        for from in (at..at + len).step_by(zeros.len()) {
            FileExt::write_all_at(self, &zeros[..(at + len - from).min(zeros.len() as u64) as usize], from)?;
        }
        Ok(())
    }

    fn room(&self) -> io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        Ok(self.metadata()?.blocks() * 512)
    }

    fn free(&self) -> io::Result<u64> {
        let found = rustix::fs::fstatvfs(self)?;
        // A memory file system without a limit names no blocks.
        Ok(if found.f_blocks == 0 { u64::MAX } else { found.f_bfree.saturating_mul(found.f_frsize) })
    }

    fn forget(&self, at: u64, len: u64) {
        let len = std::num::NonZeroU64::new(len);
        let _ = rustix::fs::fadvise(self, at, len, rustix::fs::Advice::DontNeed);
    }

    fn expect(&self, at: u64, len: u64) {
        let _ = rustix::fs::fadvise(self, at, std::num::NonZeroU64::new(len), rustix::fs::Advice::WillNeed);
    }

    fn punch(&self, at: u64, len: u64) {
        use rustix::fs::FallocateFlags;
        let _ = rustix::fs::fallocate(self, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len);
    }

    fn data(&self, at: u64, len: u64) -> Option<Vec<Range<u64>>> {
        use rustix::fs::{SeekFrom, seek};
        use rustix::io::Errno;
        let (mut from, end, mut found) = (at, at + len, Vec::new());
        while from < end {
            // The call moves the descriptor's offset, which no code here uses.
            let start = match seek(self, SeekFrom::Data(from)) {
                Ok(start) => start,
                Err(Errno::NXIO) => break, // only a hole follows, or the end of the file
                Err(_) => return None,
            };
            if start >= end {
                break;
            }
            let hole = seek(self, SeekFrom::Hole(start)).ok()?;
            found.push(start..hole.min(end));
            from = hole.max(start + 1);
        }
        Some(found)
    }

    fn mappable(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

/// A file whose log is written past the page cache: a synced write of a few sectors then takes only
/// the device's time. Long runs of pages go past the cache, too: it would hold a second copy of
/// pages that the process keeps.
///
/// The kernel drops the cached pages of such a write, and readers go through the cache: they see
/// the same bytes.
pub(crate) struct FileDisk {
    file: File,
    /// The same file, opened with `O_DIRECT`; `None` if the file system lacks it.
    direct: Option<File>,
    /// A direct write was refused: the device wants another alignment.
    refused: AtomicBool,
    /// Writes hold it shared; filling holes with zeros holds it exclusively (ALLOC-1).
    writes: RwLock<()>,
    /// The lock on the file ends with the disk.
    _lock: Option<PrivateDescriptor>,
}

/// A file that this process has alone until the result is dropped or the process ends; forked
/// children do not keep the lock. `path` is for messages.
///
/// # Errors
/// [`Error::InUse`](crate::Error::InUse), [`Error::Io`](crate::Error::Io).
pub fn disk_alone(file: File, path: &Path) -> Result<Arc<dyn Disk>> {
    let lock = lock_file_apart(&file, None, path)?;
    Ok(Arc::new(FileDisk::new(file, Some(lock))))
}

/// A page of a buffer that can be written past the cache.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
pub(crate) struct Page(pub [u64; 512]);

impl Page {
    /// `count` pages of zeros.
    pub(crate) fn buffer(count: usize) -> Box<[Page]> {
        <[Page]>::new_box_zeroed_with_elems(count).expect("a buffer fits in memory")
    }
}

/// The alignment of direct writes, in memory and in the file.
const ALIGNMENT: usize = 512;
/// The shortest run of pages, in bytes, that is written past the cache. Each such write waits for
/// the device, so the system had better merge shorter runs.
const RUN_MIN: usize = 64 << 10;

impl FileDisk {
    pub(crate) fn new(file: File, lock: Option<PrivateDescriptor>) -> FileDisk {
        let again = format!("/proc/self/fd/{}", file.as_raw_fd());
        // Opened again, not duplicated: the flag belongs to the open file description, and `mmap`
        // needs one without it.
        let direct = File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(again).ok();
        FileDisk { file, direct, refused: AtomicBool::new(false), writes: RwLock::new(()), _lock: lock }
    }

    /// Writes past the cache by `write`; `None` if that is impossible.
    fn write_direct(
        &self,
        at: u64,
        bytes: &[u8],
        write: impl FnOnce(&File, u64, &[u8]) -> io::Result<()>,
    ) -> Option<io::Result<()>> {
        let direct = self.direct.as_ref().filter(|_| !self.refused.load(Relaxed))?;
        let aligned = [at as usize, bytes.len(), bytes.as_ptr() as usize].iter().all(|part| part % ALIGNMENT == 0);
        if !aligned {
            return None;
        }
        match write(direct, at, bytes) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.refused.store(true, Relaxed); // no byte was written
                None
            }
            written => Some(written),
        }
    }
}

impl Disk for FileDisk {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        Disk::read_at(&self.file, at, into)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let _writes = self.writes.read();
        Disk::write_at(&self.file, at, bytes)
    }

    fn write_pages_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let _writes = self.writes.read();
        let direct = if bytes.len() < RUN_MIN { None } else { self.write_direct(at, bytes, Disk::write_at) };
        direct.unwrap_or_else(|| Disk::write_pages_at(&self.file, at, bytes))
    }

    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let direct = self.write_direct(at, bytes, Disk::write_sync_at);
        direct.unwrap_or_else(|| Disk::write_sync_at(&self.file, at, bytes))
    }

    fn sync(&self) -> io::Result<()> {
        Disk::sync(&self.file)
    }

    fn len(&self) -> io::Result<u64> {
        Disk::len(&self.file)
    }

    fn allocate(&self, at: u64, len: u64) -> io::Result<()> {
        allocate(&self.file, at, len, &self.writes)
    }

    fn lengthen(&self, len: u64) -> io::Result<()> {
        self.file.lengthen(len)
    }

    fn shorten(&self, len: u64) -> io::Result<()> {
        self.file.shorten(len)
    }

    fn clear(&self, at: u64, len: u64) -> io::Result<()> {
        self.file.clear(at, len)
    }

    fn room(&self) -> io::Result<u64> {
        self.file.room()
    }

    fn free(&self) -> io::Result<u64> {
        self.file.free()
    }

    fn forget(&self, at: u64, len: u64) {
        self.file.forget(at, len);
    }

    fn expect(&self, at: u64, len: u64) {
        self.file.expect(at, len);
    }

    fn punch(&self, at: u64, len: u64) {
        Disk::punch(&self.file, at, len);
    }

    fn data(&self, at: u64, len: u64) -> Option<Vec<Range<u64>>> {
        Disk::data(&self.file, at, len)
    }

    fn mappable(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

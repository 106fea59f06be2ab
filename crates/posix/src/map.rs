//! [`FileMap`]: a range of an open file that is mapped, as `mmap` maps it: loads and stores on the
//! medium itself.

use crate::files::Files;
use crate::open::OpenFile;
use crate::{Errno, Result};
use everbyte_fs::{FileKind, MapOptions as Options, MapPages};
use std::ptr::NonNull;

/// Options of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapOptions {
    /// Stores are allowed, and change the file: `MAP_SHARED` with `PROT_WRITE`.
    pub writable: bool,
    /// Stores stay in the mapping: `MAP_PRIVATE`. It copies pages of 4 KiB.
    pub private: bool,
    /// Touches each page at once: `MAP_POPULATE`.
    pub populate: bool,
    /// The size of the pages that the system maps, where it has a choice.
    pub pages: MapPages,
}

/// A range of a file that is mapped, until the value is dropped. Offsets count from the start of
/// the range. It stays when the open file is dropped.
///
/// Stores are seen by reads at once and are durable after [`FileMap::sync`], or after
/// [`FileMap::flush`] and [`FileMap::fence`] where fences settle. They are single words to a crash,
/// and not one change.
#[derive(Debug)]
pub struct FileMap {
    map: everbyte_fs::FileMap,
    files: Files,
    path: Box<[u8]>,
    writable: bool,
}

impl OpenFile {
    /// Maps bytes from offset `at` on, a multiple of 4096; fewer than `len` at the end of the file.
    /// The mapping does not grow with the file. While it lives its pages keep their places: a call
    /// that would free or move them (a smaller size, a hole, a range that is cut out or put in
    /// before them, the flag `TRUNC`) is [`Errno::EBUSY`].
    ///
    /// # Errors
    /// [`Errno::EACCES`] if the file is not open for reading, or not for writing where stores are
    /// allowed; [`Errno::ENODEV`] for other types; [`Errno::EINVAL`] for no bytes and for another
    /// offset; [`Errno::ENXIO`] for a range behind the end; [`Errno::ENOSPC`] if its pages do not
    /// fit.
    pub fn map(&self, at: u64, len: u64, options: &MapOptions) -> Result<FileMap> {
        let (flags, description) = (self.flags(), &*self.description);
        if self.kind() != FileKind::Regular {
            return Err(Errno::ENODEV.into());
        }
        let stores = options.writable && !options.private;
        if !flags.reads() || stores && !flags.writes() {
            return Err(Errno::EACCES.into());
        }
        if len == 0 || !at.is_multiple_of(4096) {
            return Err(Errno::EINVAL.into());
        }
        let files = description.files();
        if stores {
            files.require_writable()?;
        }
        let MapOptions { writable, private, populate, pages } = *options;
        let options = Options { writable, private, populate, pages, as_is: files.is_read_only() };
        let map = files.logged(self.path(), || match files.volume().map(self.ino(), at, len, &options) {
            Err(everbyte_fs::Error::Outside { .. }) => Err(Errno::ENXIO.into()),
            outcome => Ok(outcome?),
        })?;
        self.accessed();
        Ok(FileMap { map, files: files.clone(), path: self.path().into(), writable })
    }
}

impl FileMap {
    /// Bytes of the mapping.
    pub fn len(&self) -> u64 {
        self.map.len()
    }

    /// Whether the mapping has no byte: never.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The address of the first byte, if the range has one range of addresses and stores through it
    /// reach the medium, or stay in a private mapping; see [`everbyte_fs::FileMap::as_ptr`].
    pub fn as_ptr(&self) -> Option<NonNull<u8>> {
        self.map.as_ptr()
    }

    /// Runs of bytes that lie side by side on the medium.
    pub fn part_count(&self) -> usize {
        self.map.part_count()
    }

    #[inline]
    fn checked<T>(&self, outcome: everbyte_fs::Result<T>) -> Result<T> {
        match outcome {
            Ok(value) => Ok(value),
            Err(error) => self.files.logged(&self.path, || Err(error.into())),
        }
    }

    fn require_writable(&self) -> Result<()> {
        if self.writable { Ok(()) } else { Err(Errno::EACCES.into()) }
    }

    /// Copies bytes out of the file.
    ///
    /// # Errors
    /// [`Errno::EFAULT`] beyond the end; [`Errno::EIO`] if a page could not be read.
    #[inline]
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.checked(self.map.read(at, into))
    }

    /// The word at `at`, with acquire order.
    ///
    /// # Errors
    /// [`Errno::EINVAL`] if `at` is no multiple of 8; as [`FileMap::read`].
    #[inline]
    pub fn load(&self, at: u64) -> Result<u64> {
        self.checked(self.map.load(at))
    }

    /// Stores bytes, word by word.
    ///
    /// # Errors
    /// [`Errno::EFAULT`] beyond the end, [`Errno::EACCES`] if the mapping is not writable: nothing
    /// was stored.
    #[inline]
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.require_writable()?;
        self.checked(self.map.write(at, bytes))
    }

    /// Stores a word, untorn, with release order.
    ///
    /// # Errors
    /// [`Errno::EINVAL`] if `at` is no multiple of 8; as [`FileMap::write`].
    #[inline]
    pub fn store(&self, at: u64, value: u64) -> Result<()> {
        self.require_writable()?;
        self.checked(self.map.store(at, value))
    }

    /// Starts the write-back of a range; the next [`FileMap::fence`] orders it.
    ///
    /// # Errors
    /// [`Errno::EFAULT`] beyond the end.
    #[inline]
    pub fn flush(&self, at: u64, len: u64) -> Result<()> {
        self.checked(self.map.flush(at, len))
    }

    /// Orders what this thread has flushed before all that it stores later.
    #[inline]
    pub fn fence(&self) {
        self.map.fence();
    }

    /// Makes all stores of this mapping to a range durable, as `msync` does with `MS_SYNC`, and
    /// sets the times of the file.
    ///
    /// # Errors
    /// [`Errno::EFAULT`] beyond the end; [`Errno::EIO`]: the medium failed.
    pub fn sync(&self, at: u64, len: u64) -> Result<()> {
        self.checked(self.map.sync(at, len))
    }
}

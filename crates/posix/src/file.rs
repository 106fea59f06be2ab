//! Bytes of open files: reading, writing, offsets.

use crate::attributes::{NewTime, drop_rights, set_mode, set_owner, set_times};
use crate::files::{AccessTimes, Files};
use crate::open::{OpenFile, OpenFlags};
use crate::process::Process;
use crate::{Errno, Result};
use everbyte_fs::{Attributes, FILE_MAX, FileKind};
use std::borrow::Cow;

/// Nanoseconds of a day, after which a read changes the time of the last read in any case.
const DAY: i64 = 86_400_000_000_000;

/// The origin of a new offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The start of the file.
    Start(u64),
    /// The present offset.
    Current(i64),
    /// The end of the file.
    End(i64),
    /// The first byte at or behind this offset that is no hole.
    Data(u64),
    /// The first hole at or behind this offset; the end of the file is one.
    Hole(u64),
}

impl OpenFile {
    fn files(&self) -> &Files {
        self.description.files()
    }

    /// The path that it was opened by.
    pub(crate) fn path(&self) -> &[u8] {
        &self.description.path
    }

    /// A file whose bytes may be read.
    fn require_reading(&self) -> Result<()> {
        match self.kind() {
            _ if !self.flags().reads() => Err(Errno::EBADF.into()),
            FileKind::Directory => Err(Errno::EISDIR.into()),
            _ => Ok(()),
        }
    }

    /// A file whose bytes may be changed.
    pub(crate) fn require_writing(&self) -> Result<()> {
        match self.flags().writes() {
            false => Err(Errno::EBADF.into()),
            true => self.files().require_writable(),
        }
    }

    /// Reads from an offset on; returns the number of bytes, which is less than the length of
    /// `into` at the end of the file only.
    ///
    /// # Errors
    /// [`Errno::EBADF`] if it is not open for reading, [`Errno::EISDIR`]; [`Errno::EIO`].
    pub fn read_at(&self, into: &mut [u8], at: u64) -> Result<usize> {
        self.require_reading()?;
        let len = self.files().logged(self.path(), || Ok(self.description.held.read(at, into)?))?;
        if !into.is_empty() {
            self.accessed();
        }
        Ok(len)
    }

    /// Reads from the offset of the open file on, and moves it.
    ///
    /// # Errors
    /// As [`OpenFile::read_at`].
    pub fn read(&self, into: &mut [u8]) -> Result<usize> {
        let mut offset = self.description.offset.lock();
        let len = self.read_at(into, *offset)?;
        *offset += len as u64;
        Ok(len)
    }

    /// [`OpenFile::read_at`] into several buffers, in order. Another write may come between two of
    /// them.
    ///
    /// # Errors
    /// As [`OpenFile::read_at`].
    pub fn read_vectored_at(&self, into: &mut [std::io::IoSliceMut<'_>], at: u64) -> Result<usize> {
        let mut done = 0;
        for part in into {
            let len = self.read_at(part, at + done as u64)?;
            done += len;
            if len < part.len() {
                break;
            }
        }
        Ok(done)
    }

    /// [`OpenFile::read_vectored_at`] from the offset of the open file on, which moves.
    ///
    /// # Errors
    /// As [`OpenFile::read_at`].
    pub fn read_vectored(&self, into: &mut [std::io::IoSliceMut<'_>]) -> Result<usize> {
        let mut offset = self.description.offset.lock();
        let len = self.read_vectored_at(into, *offset)?;
        *offset += len as u64;
        Ok(len)
    }

    /// Writes all of `bytes` at an offset; behind the end with the flag `APPEND`, as Linux does.
    /// Whole or absent after a crash. Durable on return where fences settle, and with the flags
    /// `SYNC` and `DSYNC`.
    ///
    /// # Errors
    /// [`Errno::EBADF`] if it is not open for writing; [`Errno::ENOSPC`], [`Errno::EFBIG`],
    /// [`Errno::EROFS`], [`Errno::EIO`]: nothing was written.
    pub fn write_at(&self, bytes: &[u8], at: u64) -> Result<usize> {
        self.put(bytes, at, true).map(|_| bytes.len())
    }

    /// [`OpenFile::write_at`] of bytes that a cache has kept since they were changed: the program
    /// has lost its set-id bits and capabilities then, and those that it got since stay.
    ///
    /// # Errors
    /// As [`OpenFile::write_at`].
    pub fn write_back_at(&self, bytes: &[u8], at: u64) -> Result<usize> {
        self.put(bytes, at, false).map(|_| bytes.len())
    }

    /// Writes at the offset of the open file, and moves it.
    ///
    /// # Errors
    /// As [`OpenFile::write_at`].
    pub fn write(&self, bytes: &[u8]) -> Result<usize> {
        let mut offset = self.description.offset.lock();
        let end = self.put(bytes, *offset, true)?;
        if !bytes.is_empty() {
            *offset = end;
        }
        Ok(bytes.len())
    }

    /// [`OpenFile::write_at`] from several buffers, as one write.
    ///
    /// # Errors
    /// As [`OpenFile::write_at`].
    pub fn write_vectored_at(&self, bytes: &[std::io::IoSlice<'_>], at: u64) -> Result<usize> {
        self.write_at(&joined(bytes), at)
    }

    /// [`OpenFile::write`] from several buffers, as one write.
    ///
    /// # Errors
    /// As [`OpenFile::write_at`].
    pub fn write_vectored(&self, bytes: &[std::io::IoSlice<'_>]) -> Result<usize> {
        self.write(&joined(bytes))
    }

    /// Takes the rights that a file lends, before its bytes change.
    pub(crate) fn drop_rights(&self) -> Result<()> {
        let (user, held) = (&self.description.user, &self.description.held);
        drop_rights(user, self.files().volume(), held.ino(), held.permissions(), held.has_xattrs())
    }

    /// Writes; returns the end of the bytes.
    fn put(&self, bytes: &[u8], at: u64, drops_rights: bool) -> Result<u64> {
        self.require_writing()?;
        let (files, flags) = (self.files(), self.flags());
        let end = files.logged(self.path(), || {
            let len = bytes.len() as u64;
            if len > 0 && drops_rights {
                self.drop_rights()?;
            }
            if flags.contains(OpenFlags::APPEND) {
                return Ok(self.description.held.append(bytes)? + len);
            }
            self.description.held.write(at, bytes)?;
            Ok(at + len)
        })?;
        self.written()?;
        Ok(end)
    }

    /// Follows a write: makes it durable, where the flags or the options say so.
    pub(crate) fn written(&self) -> Result<()> {
        match self.flags().contains(OpenFlags::DSYNC) {
            true => self.files().sync_for(self.path()),
            false => self.files().settle_if_sync(),
        }
    }

    /// Follows a read: sets the time of the last read, as the options say. A file that cannot be
    /// changed, such as one of a snapshot, keeps its time.
    pub(crate) fn accessed(&self) {
        let policy = self.files().options().access_times;
        let is_directory = self.kind() == FileKind::Directory;
        let never = policy == AccessTimes::Never
            || policy == AccessTimes::NeverOfDirectories && is_directory
            || self.flags().contains(OpenFlags::NOATIME)
            || self.files().is_read_only();
        if never {
            return;
        }
        let [accessed, modified, changed] = self.description.held.times();
        let is_old = || accessed <= modified || accessed <= changed || self.files().volume().now() - accessed >= DAY;
        if policy == AccessTimes::Strict || is_old() {
            let volume = self.files().volume();
            drop(volume.set_accessed(self.ino(), volume.now()));
        }
    }

    /// Moves the offset; returns it. In a directory [`Seek::Start`] takes what
    /// [`OpenFile::entries`] has told.
    ///
    /// # Errors
    /// [`Errno::EINVAL`] for an offset before the start; [`Errno::ENXIO`] for [`Seek::Data`] behind
    /// the last data and [`Seek::Hole`] behind the end; [`Errno::EBADF`] for an open path.
    pub fn seek(&self, to: Seek) -> Result<u64> {
        if self.flags().contains(OpenFlags::PATH) {
            return Err(Errno::EBADF.into());
        }
        let mut offset = self.description.offset.lock();
        let volume = self.files().volume();
        let from = |base: u64, by: i64| base.checked_add_signed(by).ok_or(Errno::EINVAL);
        let new = match to {
            Seek::Start(at) => at,
            Seek::Current(by) => from(*offset, by)?,
            _ if self.kind() == FileKind::Directory => return Err(Errno::EINVAL.into()),
            Seek::End(by) => from(self.description.held.size(), by)?,
            Seek::Data(at) => {
                self.files().logged(self.path(), || Ok(volume.next_data(self.ino(), at)?))?.ok_or(Errno::ENXIO)?
            }
            Seek::Hole(at) => {
                self.files().logged(self.path(), || Ok(volume.next_hole(self.ino(), at)?))?.ok_or(Errno::ENXIO)?
            }
        };
        // Cookies of directories have 64 bits.
        if new > FILE_MAX && self.kind() != FileKind::Directory {
            return Err(Errno::EINVAL.into());
        }
        *offset = new;
        Ok(new)
    }

    /// Sets the size of a regular file.
    ///
    /// # Errors
    /// [`Errno::EINVAL`] for other types and for a file that is not open for writing;
    /// [`Errno::EFBIG`], [`Errno::ENOSPC`].
    pub fn set_size(&self, size: u64) -> Result<()> {
        if self.flags().contains(OpenFlags::PATH) {
            return Err(Errno::EBADF.into());
        }
        if self.kind() != FileKind::Regular || !self.flags().writes() {
            return Err(Errno::EINVAL.into());
        }
        self.files().change(self.path(), |volume| {
            self.drop_rights()?;
            Ok(volume.resize(self.ino(), size)?)
        })
    }

    /// Waits until every change of the file that returned before is durable, and all others of the
    /// volume with it.
    ///
    /// # Errors
    /// [`Errno::EIO`]: the medium failed; later changes fail, too. [`Errno::EBADF`] for an open
    /// path.
    pub fn sync(&self) -> Result<()> {
        match self.flags().contains(OpenFlags::PATH) {
            true => Err(Errno::EBADF.into()),
            false => self.files().sync_for(self.path()),
        }
    }

    /// The attributes of the file.
    ///
    /// # Errors
    /// [`Errno::EUCLEAN`], [`Errno::EIO`].
    pub fn status(&self) -> Result<Attributes> {
        self.files().logged(self.path(), || Ok(self.files().volume().attributes(self.ino())?))
    }

    /// Sets the mode, as a call of `by`.
    ///
    /// # Errors
    /// As [`Process::set_mode`]; [`Errno::EBADF`] for an open path.
    pub fn set_mode(&self, by: &Process, permissions: u16) -> Result<()> {
        self.require_opened()?;
        self.files().change(self.path(), |volume| set_mode(by.user(), volume, &self.owner()?, permissions))
    }

    /// Sets owner and group, as a call of `by`.
    ///
    /// # Errors
    /// As [`Process::set_owner`]; [`Errno::EBADF`] for an open path.
    pub fn set_owner(&self, by: &Process, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.require_opened()?;
        self.files().change(self.path(), |volume| set_owner(by.user(), volume, &self.owner()?, uid, gid))
    }

    /// Sets times, as a call of `by`.
    ///
    /// # Errors
    /// As [`Process::set_times`]; [`Errno::EBADF`] for an open path.
    pub fn set_times(&self, by: &Process, accessed: NewTime, modified: NewTime) -> Result<()> {
        self.require_opened()?;
        self.files().change(self.path(), |volume| set_times(by, volume, &self.owner()?, accessed, modified))
    }

    pub(crate) fn require_opened(&self) -> Result<()> {
        match self.flags().contains(OpenFlags::PATH) {
            true => Err(Errno::EBADF.into()),
            false => Ok(()),
        }
    }
}

/// The bytes of several buffers in a row.
fn joined<'b>(parts: &'b [std::io::IoSlice<'b>]) -> Cow<'b, [u8]> {
    match parts {
        [one] => Cow::Borrowed(one),
        parts => Cow::Owned(parts.iter().flat_map(|part| part.iter().copied()).collect()),
    }
}

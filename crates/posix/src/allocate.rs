//! Pages of open files: `fallocate`, and copies of ranges.

use crate::files::Paths;
use crate::open::{OpenFile, OpenFlags};
use crate::{Errno, Result};
use everbyte_fs::{Allocate, FILE_MAX, FileKind};

bitflags::bitflags! {
    /// Modes of [`OpenFile::allocate`], with the values of Linux. Without any, holes of the range
    /// get pages and the file grows to its end.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct AllocateMode: u32 {
        /// The size stays.
        const KEEP_SIZE = libc::FALLOC_FL_KEEP_SIZE as u32;
        /// The range becomes a hole; with `KEEP_SIZE`.
        const PUNCH_HOLE = libc::FALLOC_FL_PUNCH_HOLE as u32;
        /// The range leaves the file; both ends are multiples of 4096.
        const COLLAPSE_RANGE = libc::FALLOC_FL_COLLAPSE_RANGE as u32;
        /// The range becomes zeros that have pages.
        const ZERO_RANGE = libc::FALLOC_FL_ZERO_RANGE as u32;
        /// A hole comes in before the range; both ends are multiples of 4096.
        const INSERT_RANGE = libc::FALLOC_FL_INSERT_RANGE as u32;
        /// Pages that other files share get a copy when they are written; the call gives pages as
        /// without it.
        const UNSHARE_RANGE = libc::FALLOC_FL_UNSHARE_RANGE as u32;
    }
}

/// The change of the volume that a mode asks for.
enum Change {
    Allocate(Allocate),
    Collapse,
    Insert,
}

fn change(mode: AllocateMode) -> Result<Change> {
    let keeps = mode.contains(AllocateMode::KEEP_SIZE);
    Ok(match mode - AllocateMode::KEEP_SIZE {
        rest if rest.is_empty() || rest == AllocateMode::UNSHARE_RANGE => {
            Change::Allocate(if keeps { Allocate::KeepSize } else { Allocate::Grow })
        }
        AllocateMode::PUNCH_HOLE if keeps => Change::Allocate(Allocate::Punch),
        AllocateMode::PUNCH_HOLE => return Err(Errno::EOPNOTSUPP.into()),
        AllocateMode::ZERO_RANGE => Change::Allocate(if keeps { Allocate::ZeroKeepSize } else { Allocate::Zero }),
        AllocateMode::COLLAPSE_RANGE if !keeps => Change::Collapse,
        AllocateMode::INSERT_RANGE if !keeps => Change::Insert,
        rest if AllocateMode::all().contains(rest) => return Err(Errno::EINVAL.into()),
        _ => return Err(Errno::EOPNOTSUPP.into()),
    })
}

impl OpenFile {
    /// Gives pages to a range of a regular file, or takes them away. Whole or absent after a crash.
    ///
    /// # Errors
    /// [`Errno::EBADF`] if it is not open for writing; [`Errno::ENODEV`] for other types;
    /// [`Errno::EINVAL`] for an empty range, modes that exclude each other, and ranges that are no
    /// pages inside of the file; [`Errno::EOPNOTSUPP`] for an unknown mode and for `PUNCH_HOLE`
    /// without `KEEP_SIZE`; [`Errno::EFBIG`], [`Errno::ENOSPC`].
    pub fn allocate(&self, mode: AllocateMode, at: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Err(Errno::EINVAL.into());
        }
        let change = change(mode)?;
        self.require_writing()?;
        if self.kind() != FileKind::Regular {
            return Err(Errno::ENODEV.into());
        }
        let files = self.description.files();
        files.logged(self.path(), || {
            let (volume, ino) = (files.volume(), self.ino());
            self.drop_rights()?;
            let changed = match change {
                Change::Allocate(mode) => volume.allocate(ino, at, len, mode),
                Change::Collapse => volume.collapse(ino, at, len),
                Change::Insert => volume.insert(ino, at, len),
            };
            Ok(changed?)
        })?;
        self.written()
    }

    /// Copies bytes of a file to another one, or to another place of it; returns their number,
    /// which is less than `len` at the end of the source only. Whole pages are shared where both
    /// offsets lie at the same place of a page. Whole or absent after a crash.
    ///
    /// # Errors
    /// [`Errno::EBADF`] if the files are not open for reading and writing, and for `APPEND`;
    /// [`Errno::EINVAL`] for overlapping ranges of one file, and for other types of files;
    /// [`Errno::EXDEV`] for files of two volumes; [`Errno::EISDIR`], [`Errno::EFBIG`],
    /// [`Errno::ENOSPC`].
    pub fn copy_range(&self, at: u64, to: &OpenFile, to_at: u64, len: u64) -> Result<u64> {
        require_copy(self, to)?;
        let len = len.min(self.description.held.size().saturating_sub(at));
        let (end, to_end) = (at + len, to_at.saturating_add(len));
        if self.ino() == to.ino() && at < to_end && to_at < end {
            return Err(Errno::EINVAL.into());
        }
        if to_end > FILE_MAX {
            return Err(Errno::EFBIG.into());
        }
        to.require_writing()?;
        let files = to.description.files();
        let done = files.logged_of(&Paths::of_two(self.path(), to.path()), || {
            let volume = files.volume();
            to.drop_rights()?;
            Ok(volume.copy_range(self.ino(), at, to.ino(), to_at, len)?)
        })?;
        to.written()?;
        self.accessed();
        Ok(done)
    }

    /// Makes a range share the pages of another file, or of another place of the file, as
    /// `FICLONERANGE` does: no byte is copied until one side is written to. `len` 0 means all up to
    /// the end of the source. Whole or absent after a crash.
    ///
    /// # Errors
    /// [`Errno::EINVAL`] for ranges that are no pages, but for the last one of the source, and for
    /// overlapping ranges; [`Errno::EXDEV`] for files of two volumes; as [`OpenFile::copy_range`].
    pub fn clone_range(&self, at: u64, to: &OpenFile, to_at: u64, len: u64) -> Result<u64> {
        require_copy(self, to)?;
        to.require_writing()?;
        let files = to.description.files();
        let done = files.logged_of(&Paths::of_two(self.path(), to.path()), || {
            let volume = files.volume();
            to.drop_rights()?;
            Ok(volume.clone_range(self.ino(), at, to.ino(), to_at, len)?)
        })?;
        to.written()?;
        Ok(done)
    }
}

/// Refuses files that bytes cannot be copied between.
fn require_copy(from: &OpenFile, to: &OpenFile) -> Result<()> {
    let kinds = [from.kind(), to.kind()];
    if kinds.contains(&FileKind::Directory) {
        return Err(Errno::EISDIR.into());
    }
    if kinds != [FileKind::Regular; 2] {
        return Err(Errno::EINVAL.into());
    }
    if !from.flags().reads() || !to.flags().writes() || to.flags().contains(OpenFlags::APPEND) {
        return Err(Errno::EBADF.into());
    }
    match from.description.files().is(to.description.files()) {
        true => Ok(()),
        false => Err(Errno::EXDEV.into()),
    }
}

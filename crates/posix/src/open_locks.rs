//! Locks through open files: [`OpenFile::lock_whole`], [`OpenFile::lock_range`].

use crate::locks::{LockKind, LockSpace, RangeLock};
use crate::open::OpenFile;
use crate::{Errno, Result};
use std::ops::Range;

/// The owner of a range lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockBy {
    /// The process: the lock ends as soon as the process closes any open file of the same file, and
    /// `fork` does not pass it on (`F_SETLK`).
    Process,
    /// The open file, which its clones share (`F_OFD_SETLK`).
    OpenFile,
}

impl OpenFile {
    /// Locks the whole file, as `flock` does: the open file is the owner, and its clones with it. A
    /// lock of another kind that it has is released first, so that others may get in between; it is
    /// lost if the call fails.
    ///
    /// # Errors
    /// [`Errno::EAGAIN`] if another owner has it and `waits` is not set; [`Errno::EBADF`] for an
    /// open path.
    pub fn lock_whole(&self, kind: LockKind, waits: bool) -> Result<()> {
        self.require_opened()?;
        let owner = self.description.id;
        let locks = self.description.files().locks();
        locks.set(LockSpace::Whole, self.ino(), RangeLock { kind, range: 0..u64::MAX, owner }, waits)
    }

    /// Ends the lock of the whole file.
    ///
    /// # Errors
    /// [`Errno::EBADF`] for an open path.
    pub fn unlock_whole(&self) -> Result<()> {
        self.require_opened()?;
        self.description.files().locks().release(LockSpace::Whole, self.ino(), self.description.id, &(0..u64::MAX));
        Ok(())
    }

    fn lock_owner(&self, by: LockBy) -> u64 {
        match by {
            LockBy::Process => self.process_id(),
            LockBy::OpenFile => self.description.id,
        }
    }

    /// Locks a range, which may lie behind the end. A lock of the owner that it overlaps is
    /// replaced there. `waits`: until no other owner is in the way.
    ///
    /// # Errors
    /// [`Errno::EAGAIN`] if another owner is in the way and `waits` is not set;
    /// [`Errno::EDEADLK`] if that owner waits for this one; [`Errno::EBADF`] if a shared lock is
    /// asked of a file that is not open for reading, or an exclusive one of a file that is not open
    /// for writing; [`Errno::EINVAL`] for an empty range.
    pub fn lock_range(&self, by: LockBy, kind: LockKind, range: Range<u64>, waits: bool) -> Result<()> {
        let flags = self.flags();
        let is_open = match kind {
            LockKind::Shared => flags.reads(),
            LockKind::Exclusive => flags.writes(),
        };
        if !is_open {
            return Err(Errno::EBADF.into());
        }
        require_range(&range)?;
        let new = RangeLock { kind, range, owner: self.lock_owner(by) };
        self.description.files().locks().set(LockSpace::Ranges, self.ino(), new, waits)
    }

    /// Ends the locks of a range.
    ///
    /// # Errors
    /// [`Errno::EINVAL`] for an empty range; [`Errno::EBADF`] for an open path.
    pub fn unlock_range(&self, by: LockBy, range: Range<u64>) -> Result<()> {
        self.require_opened()?;
        require_range(&range)?;
        self.description.files().locks().release(LockSpace::Ranges, self.ino(), self.lock_owner(by), &range);
        Ok(())
    }

    /// The lock that would be in the way of a new one; `None`: there is none now.
    ///
    /// # Errors
    /// [`Errno::EINVAL`] for an empty range; [`Errno::EBADF`] for an open path.
    pub fn blocking_lock(&self, by: LockBy, kind: LockKind, range: Range<u64>) -> Result<Option<RangeLock>> {
        self.require_opened()?;
        require_range(&range)?;
        let new = RangeLock { kind, range, owner: self.lock_owner(by) };
        Ok(self.description.files().locks().first_conflict(self.ino(), &new))
    }
}

fn require_range(range: &Range<u64>) -> Result<()> {
    if range.is_empty() { Err(Errno::EINVAL.into()) } else { Ok(()) }
}

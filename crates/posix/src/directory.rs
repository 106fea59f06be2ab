//! Entries of open directories.

use crate::open::OpenFile;
use crate::{Errno, Result};
use everbyte_fs::{FileKind, Ino};

/// Cookies of `.` and `..` come before those of the volume.
const DOTS: u64 = 2;
/// Entries that are read at a time where each is taken.
const READ_AT_ONCE: usize = 256;

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The number of the inode.
    pub ino: Ino,
    /// The type of the file.
    pub kind: FileKind,
    /// The name.
    pub name: Vec<u8>,
    /// The cookie behind this entry, for [`OpenFile::seek`] and [`OpenFile::entries_from`]. It
    /// stays valid while names come and go.
    pub next: u64,
}

impl OpenFile {
    /// The next entries, at most `count`, and moves behind them; empty at the end. `.` and `..` are
    /// the first ones. An entry that exists all the time is told once.
    ///
    /// # Errors
    /// [`Errno::ENOTDIR`]; [`Errno::EBADF`] for an open path; [`Errno::ENOENT`] if it was removed.
    pub fn entries(&self, count: usize) -> Result<Vec<DirectoryEntry>> {
        let mut offset = self.description.offset.lock();
        let entries = self.entries_from(*offset, count)?;
        if let Some(last) = entries.last() {
            *offset = last.next;
        }
        Ok(entries)
    }

    /// Calls `take` with each entry behind a cookie, until it returns `true` or there are no more.
    ///
    /// # Errors
    /// As [`OpenFile::entries`].
    pub fn each_entry_from(&self, cookie: u64, mut take: impl FnMut(&DirectoryEntry) -> bool) -> Result<()> {
        let mut cookie = cookie;
        loop {
            let entries = self.entries_from(cookie, READ_AT_ONCE)?;
            let Some(last) = entries.last() else { return Ok(()) };
            cookie = last.next;
            if entries.iter().any(&mut take) {
                return Ok(());
            }
        }
    }

    /// The entries behind a cookie, at most `count`; 0 begins.
    ///
    /// # Errors
    /// As [`OpenFile::entries`].
    pub fn entries_from(&self, cookie: u64, count: usize) -> Result<Vec<DirectoryEntry>> {
        self.require_opened()?;
        if self.kind() != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        let entries = self.description.files().look(self.path(), |volume| {
            let ino = self.ino();
            let parent = match volume.parent(ino) {
                Ok(parent) => parent,
                Err(everbyte_fs::Error::Stale { .. }) => return Err(Errno::ENOENT.into()),
                Err(error) => return Err(error.into()),
            };
            let mut entries = Vec::new();
            for (index, (ino, name)) in [(ino, &b"."[..]), (parent, b"..")].into_iter().enumerate() {
                if cookie <= index as u64 && entries.len() < count {
                    let (kind, name) = (FileKind::Directory, name.to_vec());
                    entries.push(DirectoryEntry { ino, kind, name, next: index as u64 + 1 });
                }
            }
            let rest = volume.entries(ino, cookie.saturating_sub(DOTS), count - entries.len())?;
            let named = |entry: everbyte_fs::Entry| DirectoryEntry {
                ino: entry.ino,
                kind: entry.kind,
                name: entry.name,
                next: entry.next + DOTS,
            };
            entries.extend(rest.into_iter().map(named));
            Ok(entries)
        })?;
        self.accessed();
        Ok(entries)
    }
}

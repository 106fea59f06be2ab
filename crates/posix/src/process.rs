//! [`Process`]: the caller of a call. It has a user, a mask for new files, and a working directory.

use crate::files::{Files, new_id};
use crate::user::{Rights, User};
use crate::walk::{At, LastLink};
use crate::{Errno, Result};
use everbyte_fs::{FileKind, Held, Ino, Owner, Volume};
use std::sync::Arc;

/// A process that uses a volume: a user, a mask, a working directory, and the owner of its record
/// locks. Its calls take paths; those of [`crate::OpenFile`] take offsets.
///
/// Every call is whole or absent after a crash. It is durable on return where fences settle (`pmem`
/// and `shm`); on `file` with [`crate::FilesOptions::sync`], else after [`crate::OpenFile::sync`].
#[derive(Debug)]
pub struct Process {
    files: Files,
    user: User,
    mask: u16,
    working: Held,
    locks: Arc<LockOwner>,
    /// The owner and the group of new files, where they are not the user's own.
    makes_for: Option<(u32, u32)>,
}

/// The owner of a process's record locks, which open files refer to, and the volume in use. An open
/// file refers to both by one count, since threads of a process change it together.
#[derive(Debug)]
#[repr(align(128))] // apart from the count
pub(crate) struct LockOwner {
    pub files: Files,
    pub id: u64,
}

impl LockOwner {
    fn new(files: &Files) -> Arc<LockOwner> {
        Arc::new(LockOwner { files: files.clone(), id: new_id() })
    }
}

impl Files {
    /// A process of this user: its working directory is the root, its mask is 022.
    ///
    /// # Errors
    /// The root directory is damaged.
    pub fn process(&self, user: User) -> Result<Process> {
        Process::new(self.clone(), user)
    }
}

impl Process {
    fn new(files: Files, user: User) -> Result<Process> {
        let working = files.volume().hold(Ino::ROOT)?;
        let locks = LockOwner::new(&files);
        Ok(Process { files, user, mask: 0o022, working, locks, makes_for: None })
    }

    /// A process with the same user, mask and working directory, and no locks: what `fork` makes.
    #[must_use]
    pub fn fork(&self) -> Process {
        Process {
            files: self.files.clone(),
            user: self.user.clone(),
            mask: self.mask,
            working: self.working.clone(),
            locks: LockOwner::new(&self.files),
            makes_for: self.makes_for,
        }
    }

    /// A process with the rights and the locks of this one, whose new files belong to another user
    /// and group: for callers that have checked the rights of that user themselves.
    #[must_use]
    pub fn on_behalf_of(&self, uid: u32, gid: u32, mask: u16) -> Process {
        Process {
            files: self.files.clone(),
            user: self.user.clone(),
            mask: mask & 0o777,
            working: self.working.clone(),
            locks: Arc::clone(&self.locks),
            makes_for: Some((uid, gid)),
        }
    }

    /// The volume in use.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The user.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Another user from now on; open files stay open.
    pub fn set_user(&mut self, user: User) {
        self.user = user;
    }

    /// Permission bits that new files do not get.
    pub fn mask(&self) -> u16 {
        self.mask
    }

    /// Sets the mask; returns the old one.
    pub fn set_mask(&mut self, mask: u16) -> u16 {
        std::mem::replace(&mut self.mask, mask & 0o777)
    }

    /// The owner and the group of files that it makes.
    pub(crate) fn makes_for(&self) -> (u32, u32) {
        self.makes_for.unwrap_or((self.user.uid, self.user.gid))
    }

    pub(crate) fn working(&self) -> &Held {
        &self.working
    }

    pub(crate) fn lock_owner(&self) -> &Arc<LockOwner> {
        &self.locks
    }

    /// Changes the working directory.
    ///
    /// # Errors
    /// [`Errno::ENOTDIR`], [`Errno::EACCES`] without the right to search it; those of paths.
    pub fn change_directory<'a>(&mut self, to: impl Into<At<'a>>) -> Result<()> {
        let at = to.into();
        self.working = self.files.look(at.path, |volume| {
            let directory = self.file(volume, at, LastLink::Follow)?;
            if directory.kind != FileKind::Directory {
                return Err(Errno::ENOTDIR.into());
            }
            self.user.require(volume, &directory, Rights::EXECUTE)?;
            self.files.hold(&directory)?.ok_or_else(|| Errno::ENOENT.into())
        })?;
        Ok(())
    }

    /// The path of the working directory.
    ///
    /// # Errors
    /// [`Errno::ENOENT`] if it was removed.
    pub fn working_directory(&self) -> Result<Vec<u8>> {
        self.files.look(b".", |volume| {
            let mut names: Vec<Vec<u8>> = Vec::new();
            let mut at = self.working.ino();
            if at != Ino::ROOT && volume.attributes(at)?.links == 0 {
                return Err(Errno::ENOENT.into());
            }
            while at != Ino::ROOT {
                let parent = volume.parent(at)?;
                names.push(name_in(volume, parent, at)?.ok_or(Errno::ENOENT)?);
                at = parent;
            }
            let path: Vec<u8> = names.iter().rev().flat_map(|name| [b"/".as_slice(), name].concat()).collect();
            Ok(if path.is_empty() { b"/".to_vec() } else { path })
        })
    }

    /// Refuses a change of attributes to users that do not own the file.
    pub(crate) fn require_owner(&self, file: &Owner) -> Result<()> {
        match self.user.owns(file.uid) {
            true => Ok(()),
            false => Err(Errno::EPERM.into()),
        }
    }
}

/// The name of a directory in its parent.
fn name_in(volume: &Volume, parent: Ino, child: Ino) -> Result<Option<Vec<u8>>> {
    let mut cookie = 0;
    loop {
        let entries = volume.entries(parent, cookie, 64)?;
        let Some(last) = entries.last() else { return Ok(None) };
        cookie = last.next;
        if let Some(entry) = entries.into_iter().find(|entry| entry.ino == child) {
            return Ok(Some(entry.name));
        }
    }
}

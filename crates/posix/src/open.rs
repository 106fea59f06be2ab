//! Opening of files: [`OpenFlags`], [`OpenFile`].

use crate::attributes::drop_rights;
use crate::files::{Files, new_id};
use crate::names::gone_directory;
use crate::process::{LockOwner, Process};
use crate::user::{Rights, User};
use crate::walk::{At, Last, LastLink, Start};
use crate::{Errno, Result};
use everbyte_fs::{Error as FsError, FileKind, Held, Ino, Owner, Volume};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

bitflags::bitflags! {
    /// Flags of opening, with the values of Linux. Flags that have no meaning here, such as
    /// `O_CLOEXEC`, `O_NONBLOCK` and `O_DIRECT`, are ignored.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct OpenFlags: u32 {
        /// Writing alone; without this and `RDWR`, reading alone.
        const WRONLY = libc::O_WRONLY as u32;
        /// Reading and writing.
        const RDWR = libc::O_RDWR as u32;
        /// A file is made where there is none.
        const CREAT = libc::O_CREAT as u32;
        /// With `CREAT`: an existing file is an error.
        const EXCL = libc::O_EXCL as u32;
        /// A regular file becomes empty.
        const TRUNC = libc::O_TRUNC as u32;
        /// Each write goes behind the end.
        const APPEND = libc::O_APPEND as u32;
        /// Anything but a directory is an error.
        const DIRECTORY = libc::O_DIRECTORY as u32;
        /// A symbolic link at the end of the path is an error.
        const NOFOLLOW = libc::O_NOFOLLOW as u32;
        /// Reads do not change times. For the owner and root.
        const NOATIME = libc::O_NOATIME as u32;
        /// The file is named and not opened: neither rights to it nor its bytes are used.
        const PATH = libc::O_PATH as u32;
        /// Each write is durable on return, with its metadata.
        const SYNC = libc::O_SYNC as u32;
        /// Each write is durable on return.
        const DSYNC = libc::O_DSYNC as u32;
        /// A file without a name, in the directory that the path leads to. Also needs writing.
        const TMPFILE = libc::O_TMPFILE as u32;
    }
}

impl OpenFlags {
    /// Whether the bytes may be read.
    pub fn reads(self) -> bool {
        !self.contains(OpenFlags::PATH) && !self.contains(OpenFlags::WRONLY)
    }

    /// Whether the bytes may be changed.
    pub fn writes(self) -> bool {
        !self.contains(OpenFlags::PATH) && self.intersects(OpenFlags::WRONLY | OpenFlags::RDWR)
    }

    fn is_tmpfile(self) -> bool {
        self.contains(OpenFlags::TMPFILE)
    }

    fn rights(self) -> Rights {
        let mut rights = Rights::NONE;
        if self.reads() {
            rights = rights.and(Rights::READ);
        }
        if self.writes() || self.contains(OpenFlags::TRUNC) {
            rights = rights.and(Rights::WRITE);
        }
        rights
    }
}

/// An open file. Clones share the offset and the flags, as descriptors do that `dup` and `fork`
/// make. The file stays alive until the last of them is dropped.
///
/// Dropping one releases the record locks that its process has on the file, as POSIX says, and the
/// last one its other locks. An open path (`PATH`) has none, and releases none.
#[derive(Debug)]
pub struct OpenFile {
    pub(crate) description: Arc<Description>,
    /// The process, if it is not the one that opened the file.
    inheritor: Option<Arc<LockOwner>>,
}

/// The state that clones of an open file share.
#[derive(Debug)]
pub(crate) struct Description {
    /// The process that opened it, and the volume.
    owner: Arc<LockOwner>,
    /// The path that it was opened by, for the log.
    pub path: Box<[u8]>,
    /// The user that opened it.
    pub user: User,
    pub held: Held,
    pub kind: FileKind,
    flags: AtomicU32,
    /// The offset of the next read or write; in a directory the cookie of the next entry.
    pub offset: Mutex<u64>,
    /// Tells it from all others: the owner of its locks.
    pub id: u64,
    /// Made without a name, and may get one.
    linkable: bool,
}

impl Process {
    /// Opens a file; makes it with the flag `CREAT` and this mode, of which the mask's bits go.
    ///
    /// # Errors
    /// [`Errno::ENOENT`], [`Errno::EEXIST`], [`Errno::EACCES`]; [`Errno::EISDIR`] for writing to a
    /// directory; [`Errno::ELOOP`] for a link with `NOFOLLOW`; [`Errno::ENXIO`] for a device, a
    /// pipe or a socket, which have no bytes here; [`Errno::EROFS`]; [`Errno::EPERM`] for `NOATIME`
    /// on a file of another user; those of paths.
    pub fn open<'a>(&self, at: impl Into<At<'a>>, flags: OpenFlags, permissions: u16) -> Result<OpenFile> {
        let at = at.into();
        let path_only = OpenFlags::PATH | OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW;
        let flags = if flags.contains(OpenFlags::PATH) { flags & path_only } else { flags };
        let flags = match flags.contains(OpenFlags::WRONLY | OpenFlags::RDWR) {
            true => return Err(Errno::EINVAL.into()),
            false => flags,
        };
        if flags.is_tmpfile() {
            if !flags.writes() {
                return Err(Errno::EINVAL.into());
            }
            return self.files().change(at.path, |volume| self.open_unnamed(volume, at, flags, permissions));
        }
        if flags.contains(OpenFlags::CREAT | OpenFlags::DIRECTORY) {
            return Err(Errno::EINVAL.into());
        }
        let opened = self.files().look(at.path, |volume| {
            loop {
                if let Some(opened) = self.try_open(volume, at, flags, permissions)? {
                    return Ok(opened);
                }
            }
        })?;
        if flags.intersects(OpenFlags::CREAT | OpenFlags::TRUNC) {
            self.files().settle_if_sync()?;
        }
        Ok(opened)
    }

    /// Opens the file of a path, or makes it. `None`: another call was in between.
    fn try_open(&self, volume: &Volume, at: At<'_>, flags: OpenFlags, permissions: u16) -> Result<Option<OpenFile>> {
        let makes = flags.contains(OpenFlags::CREAT);
        let is_exclusive = makes && flags.contains(OpenFlags::EXCL);
        let last_link = match (makes, flags.contains(OpenFlags::NOFOLLOW)) {
            _ if is_exclusive => LastLink::Name,
            (true, true) => LastLink::Name,
            (true, false) => LastLink::Make,
            (false, true) => LastLink::Keep,
            (false, false) => LastLink::Follow,
        };
        let walked = self.walk_to(volume, at, last_link)?;
        if makes && walked.has_slash && matches!(walked.last, Last::Name(_)) {
            return Err(Errno::EISDIR.into());
        }
        walked.require_name()?;
        let Some(file) = walked.found else {
            let (Last::Name(name), true) = (&walked.last, makes) else { return Err(Errno::ENOENT.into()) };
            self.files().require_writable()?;
            self.user().require(volume, &walked.directory, Rights::CHANGE)?;
            let new = self.new_attributes(volume, &walked.directory, FileKind::Regular, permissions)?;
            let made = new.with(self, FileKind::Regular, |new| volume.make_held(&walked.directory, name, new));
            // The mode of a new file does not limit the process that made it.
            return match made {
                Ok(held) => Ok(Some(self.opened(at.path, held, FileKind::Regular, flags, false))),
                Err(FsError::Exists) if is_exclusive => Err(Errno::EEXIST.into()),
                Err(FsError::Exists) => Ok(None),
                Err(error) => Err(gone_directory(error)),
            };
        };
        if is_exclusive {
            return Err(Errno::EEXIST.into());
        }
        if walked.has_slash && file.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        self.require_openable(volume, &file, flags)?;
        let Some(held) = self.files().hold(&file)? else { return Ok(None) };
        if flags.contains(OpenFlags::TRUNC) && file.kind == FileKind::Regular {
            drop_rights(self.user(), volume, file.ino, file.permissions, file.has_xattrs)?;
            volume.resize(file.ino, 0)?;
        }
        Ok(Some(self.opened(at.path, held, file.kind, flags, false)))
    }

    pub(crate) fn require_openable(&self, volume: &Volume, file: &Owner, flags: OpenFlags) -> Result<()> {
        let is_path = flags.contains(OpenFlags::PATH);
        if flags.contains(OpenFlags::DIRECTORY) && file.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        let changes = flags.writes() || flags.contains(OpenFlags::TRUNC);
        match file.kind {
            _ if is_path => return Ok(()),
            FileKind::Link => return Err(Errno::ELOOP.into()),
            FileKind::Directory if changes || flags.contains(OpenFlags::CREAT) => return Err(Errno::EISDIR.into()),
            _ => (),
        }
        self.user().require(volume, file, flags.rights())?;
        match file.kind {
            FileKind::Regular if changes => self.files().require_writable()?,
            FileKind::Regular | FileKind::Directory => (),
            _ => return Err(Errno::ENXIO.into()),
        }
        if flags.contains(OpenFlags::NOATIME) {
            self.require_owner(file)?;
        }
        Ok(())
    }

    fn open_unnamed(&self, volume: &Volume, at: At<'_>, flags: OpenFlags, permissions: u16) -> Result<OpenFile> {
        let directory = self.file(volume, at, LastLink::Follow)?;
        if directory.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        self.user().require(volume, &directory, Rights::CHANGE)?;
        let new = self.new_attributes(volume, &directory, FileKind::Regular, permissions)?;
        let held = new.with(self, FileKind::Regular, |new| volume.make_unnamed_in(directory.ino, new))?;
        Ok(self.opened(at.path, held, FileKind::Regular, flags, !flags.contains(OpenFlags::EXCL)))
    }

    pub(crate) fn opened(&self, path: &[u8], held: Held, kind: FileKind, flags: OpenFlags, linkable: bool) -> OpenFile {
        let description = Description {
            owner: Arc::clone(self.lock_owner()),
            path: path.into(),
            user: self.user().clone(),
            held,
            kind,
            flags: AtomicU32::new(flags.bits()),
            offset: Mutex::new(0),
            id: new_id(),
            linkable,
        };
        OpenFile { description: Arc::new(description), inheritor: None }
    }
}

impl Description {
    /// The volume in use.
    pub(crate) fn files(&self) -> &Files {
        &self.owner.files
    }
}

impl OpenFile {
    /// The number of the file's inode.
    pub fn ino(&self) -> Ino {
        self.description.held.ino()
    }

    /// The type of the file.
    pub fn kind(&self) -> FileKind {
        self.description.kind
    }

    /// The flags of opening.
    pub fn flags(&self) -> OpenFlags {
        OpenFlags::from_bits_retain(self.description.flags.load(Ordering::Acquire))
    }

    /// Sets the flags `APPEND` and `NOATIME`, as `fcntl` does; others stay.
    ///
    /// # Errors
    /// [`Errno::EPERM`] for `NOATIME` on a file of another user.
    pub fn set_flags(&self, flags: OpenFlags) -> Result<()> {
        let settable = OpenFlags::APPEND | OpenFlags::NOATIME;
        let old = self.flags();
        if (flags - old).contains(OpenFlags::NOATIME) && !self.description.user.owns(self.owner()?.uid) {
            return Err(Errno::EPERM.into());
        }
        let new = (old - settable) | (flags & settable);
        self.description.flags.store(new.bits(), Ordering::Release);
        Ok(())
    }

    pub(crate) fn owner(&self) -> Result<Owner> {
        Ok(self.description.files().volume().owner(self.ino())?)
    }

    /// The owner of the record locks that its process has.
    pub(crate) fn process_id(&self) -> u64 {
        self.inheritor.as_ref().unwrap_or(&self.description.owner).id
    }

    pub(crate) fn may_be_linked(&self) -> bool {
        self.description.linkable
    }

    /// A descriptor of the same open file: it shares offset, flags and locks.
    #[must_use]
    pub fn duplicate(&self) -> OpenFile {
        OpenFile { description: Arc::clone(&self.description), inheritor: self.inheritor.clone() }
    }

    /// The same open file in another process, as `fork` leaves it to the child.
    #[must_use]
    pub fn inherited(&self, by: &Process) -> OpenFile {
        OpenFile { description: Arc::clone(&self.description), inheritor: Some(Arc::clone(by.lock_owner())) }
    }
}

impl<'a, P: Into<At<'a>>> From<(&'a OpenFile, P)> for At<'a> {
    fn from((start, path): (&'a OpenFile, P)) -> At<'a> {
        At { start: Start::Held(&start.description.held), ..path.into() }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if !self.flags().contains(OpenFlags::PATH) {
            self.description.files().locks().release_records(self.ino(), self.process_id());
        }
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        self.files().locks().release_all(self.held.ino(), self.id);
    }
}

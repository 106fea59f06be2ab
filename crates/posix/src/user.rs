//! [`User`] and the rights that it has to a file.

use crate::acl::{ACCESS, Acl};
use crate::{Errno, Result};
use everbyte_fs::{FileKind, Owner, Volume};

/// The user, group and further groups of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user; 0 has every right.
    pub uid: u32,
    /// The group of new files.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// Rights to a file, as bits of a mode: 4 reads, 2 writes, 1 executes or searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights(pub(crate) u16);

impl Rights {
    /// The file exists.
    pub const NONE: Rights = Rights(0);
    /// Searching a directory, or executing a file.
    pub const EXECUTE: Rights = Rights(1);
    /// Writing.
    pub const WRITE: Rights = Rights(2);
    /// Changing the names of a directory.
    pub const CHANGE: Rights = Rights(3);
    /// Reading.
    pub const READ: Rights = Rights(4);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }

    /// Whether all of `wanted` are among these bits of a mode.
    pub(crate) fn are_in(self, bits: u16) -> bool {
        bits & self.0 == self.0
    }
}

impl User {
    /// User and group 0.
    pub fn root() -> User {
        User::default()
    }

    /// A user without further groups.
    pub fn new(uid: u32, gid: u32) -> User {
        User { uid, gid, groups: Vec::new() }
    }

    /// Whether the user has every right.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether a group is among those of the user.
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether the user may change the attributes of a file.
    pub(crate) fn owns(&self, uid: u32) -> bool {
        self.is_root() || self.uid == uid
    }

    /// Refuses rights to a file that the user lacks.
    pub(crate) fn require(&self, volume: &Volume, file: &Owner, rights: Rights) -> Result<()> {
        match self.may(volume, file, rights)? {
            true => Ok(()),
            false => Err(Errno::EACCES.into()),
        }
    }

    /// Whether the user has rights to a file.
    fn may(&self, volume: &Volume, file: &Owner, rights: Rights) -> Result<bool> {
        let mode = file.permissions;
        if self.is_root() {
            // Executing a file that no class may execute is refused to root, too.
            let executes = rights.0 & 1 != 0 && file.kind != FileKind::Directory;
            return Ok(!executes || mode & 0o111 != 0);
        }
        if self.uid == file.uid {
            return Ok(rights.are_in(mode >> 6));
        }
        if file.has_xattrs && mode & 0o070 != 0 {
            match volume.xattr(file.ino, ACCESS) {
                Ok(bytes) => return Ok(Acl::parse(&bytes)?.allows(self, file, rights)),
                Err(everbyte_fs::Error::NoAttribute { .. }) => (),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(if self.is_in(file.gid) { rights.are_in(mode >> 3) } else { rights.are_in(mode) })
    }
}

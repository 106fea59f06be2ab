//! Extended attributes, by the rules of Linux for the namespaces of their names.
//!
//! | namespace | read | set |
//! |---|---|---|
//! | `user.` | with the right to read | with the right to write; regular files and directories |
//! | `trusted.` | root | root |
//! | `security.` | all users | root |
//! | `system.posix_acl_*` | all users | the owner |

use crate::acl::{ACCESS, Acl, DEFAULT};
use crate::attributes::{set_access_list, set_default_list};
use crate::open::OpenFile;
use crate::process::Process;
use crate::user::{Rights, User};
use crate::walk::{At, LastLink};
use crate::{Errno, Error, Result};
use everbyte_fs::{Error as FsError, FileKind, Ino, Owner, SetXattr, Volume};

const SETGID: u16 = 0o2000;
const STICKY: u16 = 0o1000;
/// Bytes of the longest name.
const NAME_MAX: usize = 255;
/// Bytes of the longest value.
const VALUE_MAX: usize = 65_536;

/// The namespace of an attribute.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    User,
    Trusted,
    Security,
    AccessList,
    DefaultList,
    /// None that a volume keeps.
    Unknown,
}

fn space(name: &[u8]) -> Result<Space> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(Errno::ERANGE.into());
    }
    match () {
        () if name == ACCESS => Ok(Space::AccessList),
        () if name == DEFAULT => Ok(Space::DefaultList),
        () if name.starts_with(b"user.") => Ok(Space::User),
        () if name.starts_with(b"trusted.") => Ok(Space::Trusted),
        () if name.starts_with(b"security.") => Ok(Space::Security),
        () => Ok(Space::Unknown),
    }
}

/// Refuses the name of a namespace without a name in it.
fn require_rest(name: &[u8]) -> Result<()> {
    if name.ends_with(b".") && name.iter().filter(|&&byte| byte == b'.').count() == 1 {
        return Err(Errno::EINVAL.into());
    }
    Ok(())
}

/// The right is asked before the namespace.
fn refuse(user: &User, volume: &Volume, file: &Owner, name: &[u8], rights: Rights) -> Result<()> {
    if !name.starts_with(b"system.") {
        user.require(volume, file, rights)?;
    }
    Err(Errno::EOPNOTSUPP.into())
}

fn require_get(user: &User, volume: &Volume, file: &Owner, name: &[u8], space: Space) -> Result<()> {
    match space {
        Space::User if !has_user_space(file) => Err(Errno::ENODATA.into()),
        Space::User => user.require(volume, file, Rights::READ),
        Space::Unknown => refuse(user, volume, file, name, Rights::READ),
        Space::Trusted if !user.is_root() => Err(Errno::ENODATA.into()),
        _ => Ok(()),
    }
}

fn require_set(user: &User, volume: &Volume, file: &Owner, name: &[u8], space: Space) -> Result<()> {
    match space {
        Space::User if !has_user_space(file) => Err(Errno::EPERM.into()),
        Space::User => {
            let is_sticky = file.kind == FileKind::Directory && file.permissions & STICKY != 0;
            if is_sticky && !user.owns(file.uid) {
                return Err(Errno::EPERM.into());
            }
            user.require(volume, file, Rights::WRITE)
        }
        Space::Unknown => refuse(user, volume, file, name, Rights::WRITE),
        Space::Trusted | Space::Security if !user.is_root() => Err(Errno::EPERM.into()),
        _ => Ok(()),
    }
}

fn has_user_space(file: &Owner) -> bool {
    matches!(file.kind, FileKind::Regular | FileKind::Directory)
}

/// The errno of a refused attribute differs from that of a file.
fn told(error: FsError) -> Error {
    match error {
        FsError::TooLarge { .. } => Errno::ENOSPC.into(),
        FsError::NameTooLong { .. } => Errno::ERANGE.into(),
        error => error.into(),
    }
}

fn get(user: &User, volume: &Volume, file: &Owner, name: &[u8]) -> Result<Vec<u8>> {
    let space = space(name)?;
    if matches!(space, Space::AccessList | Space::DefaultList) && file.kind == FileKind::Link {
        return Err(Errno::EOPNOTSUPP.into());
    }
    require_get(user, volume, file, name, space)?;
    require_rest(name)?;
    volume.xattr(file.ino, name).map_err(told)
}

fn list(user: &User, volume: &Volume, file: &Owner) -> Result<Vec<Vec<u8>>> {
    let is_seen = |name: &Vec<u8>| user.is_root() || !name.starts_with(b"trusted.");
    Ok(volume.xattrs(file.ino)?.into_iter().filter(is_seen).collect())
}

fn set(user: &User, volume: &Volume, file: &Owner, name: &[u8], value: &[u8], mode: SetXattr) -> Result<()> {
    if value.len() > VALUE_MAX {
        return Err(Errno::E2BIG.into());
    }
    let space = space(name)?;
    require_set(user, volume, file, name, space)?;
    require_rest(name)?;
    let set_list = match space {
        Space::AccessList => set_access_list,
        Space::DefaultList => set_default_list,
        _ => return volume.set_xattr(file.ino, name, value, mode).map_err(told),
    };
    // A list without entries is none. Lists are replaced whatever the mode, as on Linux.
    let acl = if value.is_empty() || value.len() == 4 { None } else { Some(Acl::parse_entries(value)?) };
    set_list(user, volume, file, acl.as_ref())
}

fn remove(user: &User, volume: &Volume, file: &Owner, name: &[u8]) -> Result<()> {
    let space = space(name)?;
    require_set(user, volume, file, name, space)?;
    require_rest(name)?;
    match space {
        Space::AccessList => set_access_list(user, volume, file, None),
        Space::DefaultList => set_default_list(user, volume, file, None),
        _ => volume.remove_xattr(file.ino, name).map_err(told),
    }
}

impl Process {
    /// The value of an extended attribute. See the table in the crate's manual for the rights.
    ///
    /// # Errors
    /// [`Errno::ENODATA`]; [`Errno::EOPNOTSUPP`] for a name outside of the namespaces;
    /// [`Errno::ERANGE`] for a name of more than 255 bytes; those of paths.
    pub fn xattr<'a>(&self, at: impl Into<At<'a>>, name: &[u8]) -> Result<Vec<u8>> {
        self.xattr_look(at.into(), LastLink::Follow, |volume, file| get(self.user(), volume, file, name))
    }

    /// [`Process::xattr`] of a symbolic link itself.
    ///
    /// # Errors
    /// As [`Process::xattr`].
    pub fn link_xattr<'a>(&self, at: impl Into<At<'a>>, name: &[u8]) -> Result<Vec<u8>> {
        self.xattr_look(at.into(), LastLink::Keep, |volume, file| get(self.user(), volume, file, name))
    }

    /// The names of the extended attributes of a file.
    ///
    /// # Errors
    /// Those of paths.
    pub fn xattrs<'a>(&self, at: impl Into<At<'a>>) -> Result<Vec<Vec<u8>>> {
        self.xattr_look(at.into(), LastLink::Follow, |volume, file| list(self.user(), volume, file))
    }

    /// [`Process::xattrs`] of a symbolic link itself.
    ///
    /// # Errors
    /// Those of paths.
    pub fn link_xattrs<'a>(&self, at: impl Into<At<'a>>) -> Result<Vec<Vec<u8>>> {
        self.xattr_look(at.into(), LastLink::Keep, |volume, file| list(self.user(), volume, file))
    }

    fn xattr_look<T>(&self, at: At<'_>, last_link: LastLink, call: impl Fn(&Volume, &Owner) -> Result<T>) -> Result<T> {
        self.files().look(at.path, |volume| self.with_file(volume, at, last_link, call))
    }

    /// Sets an extended attribute. Whole or absent after a crash.
    ///
    /// # Errors
    /// [`Errno::EEXIST`], [`Errno::ENODATA`] as `mode` says; [`Errno::EPERM`], [`Errno::EACCES`];
    /// [`Errno::E2BIG`] for more than 64 KiB; [`Errno::ENOSPC`] if the attributes of the file are
    /// more than 64 KiB together; as [`Process::xattr`].
    pub fn set_xattr<'a>(&self, at: impl Into<At<'a>>, name: &[u8], value: &[u8], mode: SetXattr) -> Result<()> {
        self.on_file(at.into(), LastLink::Follow, |volume, file| set(self.user(), volume, file, name, value, mode))
    }

    /// [`Process::set_xattr`] of a symbolic link itself.
    ///
    /// # Errors
    /// As [`Process::set_xattr`].
    pub fn set_link_xattr<'a>(&self, at: impl Into<At<'a>>, name: &[u8], value: &[u8], mode: SetXattr) -> Result<()> {
        self.on_file(at.into(), LastLink::Keep, |volume, file| set(self.user(), volume, file, name, value, mode))
    }

    /// [`Process::set_link_xattr`] by the rights of this process, for a caller that has been
    /// checked: an access list of a caller outside of the file's group takes the set-id bit of the
    /// group.
    ///
    /// # Errors
    /// As [`Process::set_xattr`].
    pub fn set_xattr_for(&self, caller: &User, ino: Ino, name: &[u8], value: &[u8], mode: SetXattr) -> Result<()> {
        self.set_link_xattr(At::file(ino), name, value, mode)?;
        let file = self.files().volume().owner(ino)?;
        let is_list = matches!(space(name)?, Space::AccessList);
        if is_list && file.permissions & SETGID != 0 && !caller.is_root() && !caller.is_in(file.gid) {
            self.set_mode(At::file(ino), file.permissions & !SETGID)?;
        }
        Ok(())
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// [`Errno::ENODATA`]; as [`Process::set_xattr`].
    pub fn remove_xattr<'a>(&self, at: impl Into<At<'a>>, name: &[u8]) -> Result<()> {
        self.on_file(at.into(), LastLink::Follow, |volume, file| remove(self.user(), volume, file, name))
    }

    /// [`Process::remove_xattr`] of a symbolic link itself.
    ///
    /// # Errors
    /// As [`Process::remove_xattr`].
    pub fn remove_link_xattr<'a>(&self, at: impl Into<At<'a>>, name: &[u8]) -> Result<()> {
        self.on_file(at.into(), LastLink::Keep, |volume, file| remove(self.user(), volume, file, name))
    }

    /// The access control list of a file; that of its mode where it has no other.
    ///
    /// # Errors
    /// As [`Process::xattr`].
    pub fn access_list<'a>(&self, at: impl Into<At<'a>>) -> Result<Acl> {
        self.xattr_look(at.into(), LastLink::Follow, |volume, file| match get(self.user(), volume, file, ACCESS) {
            Ok(bytes) => Acl::parse(&bytes),
            Err(error) if error == Errno::ENODATA => Ok(Acl::of_mode(file.permissions)),
            Err(error) => Err(error),
        })
    }
}

impl OpenFile {
    /// The value of an extended attribute, as a call of `by`.
    ///
    /// # Errors
    /// As [`Process::xattr`]; [`Errno::EBADF`] for an open path.
    pub fn xattr(&self, by: &Process, name: &[u8]) -> Result<Vec<u8>> {
        self.require_opened()?;
        self.description.files().look(self.path(), |volume| get(by.user(), volume, &self.owner()?, name))
    }

    /// The names of the extended attributes, as a call of `by`.
    ///
    /// # Errors
    /// As [`Process::xattrs`]; [`Errno::EBADF`] for an open path.
    pub fn xattrs(&self, by: &Process) -> Result<Vec<Vec<u8>>> {
        self.require_opened()?;
        self.description.files().look(self.path(), |volume| list(by.user(), volume, &self.owner()?))
    }

    /// Sets an extended attribute, as a call of `by`.
    ///
    /// # Errors
    /// As [`Process::set_xattr`]; [`Errno::EBADF`] for an open path.
    pub fn set_xattr(&self, by: &Process, name: &[u8], value: &[u8], mode: SetXattr) -> Result<()> {
        self.require_opened()?;
        self.description.files().change(self.path(), |volume| set(by.user(), volume, &self.owner()?, name, value, mode))
    }

    /// Removes an extended attribute, as a call of `by`.
    ///
    /// # Errors
    /// As [`Process::remove_xattr`]; [`Errno::EBADF`] for an open path.
    pub fn remove_xattr(&self, by: &Process, name: &[u8]) -> Result<()> {
        self.require_opened()?;
        self.description.files().change(self.path(), |volume| remove(by.user(), volume, &self.owner()?, name))
    }
}

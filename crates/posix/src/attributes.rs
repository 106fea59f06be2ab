//! Calls that read and change the attributes of files.
//!
//! The functions at the end act on an inode; calls by path and calls by open file share them.

use crate::acl::{ACCESS, Acl, DEFAULT};
use crate::process::Process;
use crate::user::{Rights, User};
use crate::walk::{At, LastLink};
use crate::{Errno, Result};
use everbyte_fs::{Attributes, FileKind, Ino, Owner, Present, SetAttributes, Update, Volume};

const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
/// The attribute that holds the capabilities of a program.
const CAPABILITIES: &[u8] = b"security.capability";

/// A new time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewTime {
    /// The present time.
    Now,
    /// It stays.
    Omit,
    /// Nanoseconds since 1970.
    At(i64),
}

impl Process {
    /// The attributes of a file.
    ///
    /// # Errors
    /// Those of paths.
    pub fn status<'a>(&self, at: impl Into<At<'a>>) -> Result<Attributes> {
        self.status_of(at.into(), LastLink::Follow)
    }

    /// [`Process::status`] of a symbolic link itself.
    ///
    /// # Errors
    /// Those of paths.
    pub fn link_status<'a>(&self, at: impl Into<At<'a>>) -> Result<Attributes> {
        self.status_of(at.into(), LastLink::Keep)
    }

    fn status_of(&self, at: At<'_>, last_link: LastLink) -> Result<Attributes> {
        self.files().look(at.path, |volume| {
            loop {
                let file = self.file(volume, at, last_link)?;
                match volume.attributes(file.ino) {
                    // Another file has its number now.
                    Ok(attributes) if attributes.generation != file.generation => (),
                    Err(everbyte_fs::Error::Stale { .. }) => (),
                    outcome => return Ok(outcome?),
                }
            }
        })
    }

    /// Whether the user has rights to a file.
    ///
    /// # Errors
    /// [`Errno::EACCES`] without them; [`Errno::EROFS`] for writing to a read-only volume; those of
    /// paths.
    pub fn access<'a>(&self, at: impl Into<At<'a>>, rights: Rights) -> Result<()> {
        let at = at.into();
        self.files().look(at.path, |volume| {
            let file = self.file(volume, at, LastLink::Follow)?;
            self.user().require(volume, &file, rights)?;
            let is_kept = matches!(file.kind, FileKind::Regular | FileKind::Directory | FileKind::Link);
            if rights.0 & Rights::WRITE.0 != 0 && is_kept {
                self.files().require_writable()?;
            }
            Ok(())
        })
    }

    /// Sets the mode of a file.
    ///
    /// # Errors
    /// [`Errno::EPERM`] for a file of another user; those of paths.
    pub fn set_mode<'a>(&self, at: impl Into<At<'a>>, permissions: u16) -> Result<()> {
        self.on_file(at.into(), LastLink::Follow, |volume, file| set_mode(self.user(), volume, file, permissions))
    }

    /// Sets the owner and the group of a file; `None` keeps one. The set-id bits and the
    /// capabilities of a file that is no directory go.
    ///
    /// # Errors
    /// [`Errno::EPERM`] unless root; the owner may set a group that it is in.
    pub fn set_owner<'a>(&self, at: impl Into<At<'a>>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.on_file(at.into(), LastLink::Follow, |volume, file| set_owner(self.user(), volume, file, uid, gid))
    }

    /// [`Process::set_owner`] of a symbolic link itself.
    ///
    /// # Errors
    /// As [`Process::set_owner`].
    pub fn set_link_owner<'a>(&self, at: impl Into<At<'a>>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.on_file(at.into(), LastLink::Keep, |volume, file| set_owner(self.user(), volume, file, uid, gid))
    }

    /// Sets the times of the last read and of the last change of the bytes.
    ///
    /// # Errors
    /// [`Errno::EPERM`] for a file of another user; [`Errno::EACCES`] for two times
    /// [`NewTime::Now`] of a file that the user may not write.
    pub fn set_times<'a>(&self, at: impl Into<At<'a>>, accessed: NewTime, modified: NewTime) -> Result<()> {
        self.times_of(at.into(), LastLink::Follow, accessed, modified)
    }

    /// [`Process::set_times`] of a symbolic link itself.
    ///
    /// # Errors
    /// As [`Process::set_times`].
    pub fn set_link_times<'a>(&self, at: impl Into<At<'a>>, accessed: NewTime, modified: NewTime) -> Result<()> {
        self.times_of(at.into(), LastLink::Keep, accessed, modified)
    }

    fn times_of(&self, at: At<'_>, last_link: LastLink, accessed: NewTime, modified: NewTime) -> Result<()> {
        self.on_file(at, last_link, |volume, file| set_times(self, volume, file, accessed, modified))
    }

    /// Sets the project of quotas of a file. For root alone.
    ///
    /// # Errors
    /// [`Errno::EPERM`]; those of paths.
    pub fn set_project<'a>(&self, at: impl Into<At<'a>>, project: u32) -> Result<()> {
        self.on_file(at.into(), LastLink::Keep, |volume, file| {
            if !self.user().is_root() {
                return Err(Errno::EPERM.into());
            }
            let set = SetAttributes { project: Some(project), ..SetAttributes::default() };
            Ok(volume.set_attributes(file.ino, &set)?)
        })
    }

    /// Sets whether a directory passes its project on to files that are made in it. For root alone.
    ///
    /// # Errors
    /// [`Errno::EPERM`]; [`Errno::ENOTDIR`] for other types; those of paths.
    pub fn set_project_inherited<'a>(&self, at: impl Into<At<'a>>, inherited: bool) -> Result<()> {
        self.on_file(at.into(), LastLink::Keep, |volume, file| {
            if !self.user().is_root() {
                return Err(Errno::EPERM.into());
            }
            let set = SetAttributes { inherits_project: Some(inherited), ..SetAttributes::default() };
            Ok(volume.set_attributes(file.ino, &set)?)
        })
    }

    /// Sets the size of a regular file.
    ///
    /// # Errors
    /// [`Errno::EISDIR`]; [`Errno::EINVAL`] for other types; [`Errno::EACCES`] without the right to
    /// write; [`Errno::EFBIG`]; those of paths.
    pub fn truncate<'a>(&self, at: impl Into<At<'a>>, size: u64) -> Result<()> {
        self.on_file(at.into(), LastLink::Follow, |volume, file| {
            match file.kind {
                FileKind::Regular => (),
                FileKind::Directory => return Err(Errno::EISDIR.into()),
                _ => return Err(Errno::EINVAL.into()),
            }
            self.user().require(volume, file, Rights::WRITE)?;
            drop_rights(self.user(), volume, file.ino, file.permissions, file.has_xattrs)?;
            Ok(volume.resize(file.ino, size)?)
        })
    }

    /// Takes its rights from a program that the user `by` is about to change: its capabilities, and
    /// unless that is root its set-id bits. One change; a file without such rights stays as it is.
    /// For root alone, which passes on changes that other users ask for.
    ///
    /// # Errors
    /// [`Errno::EPERM`]; [`Errno::ENOSPC`] for attributes beside the capabilities, which are
    /// written again; those of paths.
    pub fn drop_privileges<'a>(&self, at: impl Into<At<'a>>, by: &User) -> Result<()> {
        if !self.user().is_root() {
            return Err(Errno::EPERM.into());
        }
        let at = at.into();
        let lends = |file: &Owner| file.has_xattrs || !by.is_root() && file.permissions & (SETUID | SETGID) != 0;
        match self.files().look(at.path, |volume| self.file(volume, at, LastLink::Keep))? {
            file if lends(&file) => {
                self.on_file(at, LastLink::Keep, |volume, file| drop_rights_of(by, volume, file.ino, !by.is_root()))
            }
            _ => Ok(()),
        }
    }

    /// Sets the time of the change, as a change by the user `by` of attributes to those that the
    /// file has, and takes its rights from a program as [`Process::drop_privileges`] does. For root
    /// alone.
    ///
    /// # Errors
    /// As [`Process::drop_privileges`].
    pub fn touch<'a>(&self, at: impl Into<At<'a>>, by: &User) -> Result<()> {
        if !self.user().is_root() {
            return Err(Errno::EPERM.into());
        }
        self.on_file(at.into(), LastLink::Keep, |volume, file| {
            volume.update(file.ino, |present| Ok(without_rights(by, present, !by.is_root())))
        })
    }

    /// A change of the file that a path leads to.
    pub(crate) fn on_file<T>(
        &self,
        at: At<'_>,
        last_link: LastLink,
        call: impl Fn(&Volume, &Owner) -> Result<T>,
    ) -> Result<T> {
        self.files().change(at.path, |volume| self.with_file(volume, at, last_link, call))
    }

    /// Calls `call` with the file that a path leads to, held, so that its number stays its own.
    pub(crate) fn with_file<T>(
        &self,
        volume: &Volume,
        at: At<'_>,
        last_link: LastLink,
        call: impl Fn(&Volume, &Owner) -> Result<T>,
    ) -> Result<T> {
        loop {
            let file = self.file(volume, at, last_link)?;
            if let Some(_held) = self.files().hold(&file)? {
                return call(volume, &file);
            }
        }
    }
}

fn require_owner(user: &User, uid: u32) -> Result<()> {
    if user.owns(uid) { Ok(()) } else { Err(Errno::EPERM.into()) }
}

/// Sets the mode, and the list that says the same.
pub(crate) fn set_mode(user: &User, volume: &Volume, file: &Owner, permissions: u16) -> Result<()> {
    if file.kind == FileKind::Link {
        return Err(Errno::EOPNOTSUPP.into());
    }
    volume.update(file.ino, |present| {
        let attributes = &present.attributes;
        require_owner(user, attributes.uid)?;
        let mut permissions = permissions & 0o7777;
        if !user.is_root() && !user.is_in(attributes.gid) {
            permissions &= !SETGID;
        }
        let mut update = mode_of(permissions);
        if let Some(bytes) = present.xattr(ACCESS) {
            let mut acl = Acl::parse(bytes)?;
            acl.set_mode(permissions);
            let new = acl.bytes();
            if new != bytes {
                update.xattrs.push((ACCESS, Some(new)));
            }
        }
        Ok(update)
    })
}

fn mode_of(permissions: u16) -> Update {
    Update { set: SetAttributes { permissions: Some(permissions), ..SetAttributes::default() }, xattrs: Vec::new() }
}

/// Sets owner and group; the set-id bits and the capabilities of a file that is no directory go.
pub(crate) fn set_owner(user: &User, volume: &Volume, file: &Owner, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    volume.update(file.ino, |present| {
        let attributes = &present.attributes;
        let keeps_owner = uid.is_none_or(|uid| uid == attributes.uid);
        let takes_group = gid.is_none_or(|gid| gid == attributes.gid || user.is_in(gid));
        let is_permitted = user.is_root() || attributes.uid == user.uid && keeps_owner && takes_group;
        let mut update = without_rights(user, present, true);
        let drops = update.set.permissions.is_some() || !update.xattrs.is_empty();
        // A call that changes nothing is permitted to all users.
        let changes = uid.is_some() || gid.is_some() || drops;
        if changes && !is_permitted {
            return Err(Errno::EPERM.into());
        }
        (update.set.uid, update.set.gid) = (uid, gid);
        Ok::<_, crate::Error>(update)
    })
}

/// The permissions of a file after a change that takes the set-id bits.
fn without_set_ids(user: &User, present: &Present<'_>) -> u16 {
    let Attributes { permissions, kind, gid, .. } = present.attributes;
    // The bit of the group without the right to run the file is no right.
    let keeps_group = permissions & 0o010 == 0 && (user.is_root() || user.is_in(gid));
    match kind {
        FileKind::Directory => permissions,
        _ if keeps_group => permissions & !SETUID,
        _ => permissions & !(SETUID | SETGID),
    }
}

/// The change that takes from a file the rights that it lends: its capabilities, and with `set_ids`
/// its set-id bits. No access control list tells of these bits, so none is written again.
fn without_rights(user: &User, present: &Present<'_>, set_ids: bool) -> Update {
    let permissions = without_set_ids(user, present);
    let mut update = match set_ids && permissions != present.attributes.permissions {
        true => mode_of(permissions),
        false => Update::default(),
    };
    if present.attributes.kind != FileKind::Directory && present.xattr(CAPABILITIES).is_some() {
        update.xattrs.push((CAPABILITIES, None));
    }
    update
}

/// Takes from a file whose bytes are about to change the rights that it lends: its capabilities,
/// and its set-id bits unless root changes it.
pub(crate) fn drop_rights(user: &User, volume: &Volume, ino: Ino, permissions: u16, has_xattrs: bool) -> Result<()> {
    let set_ids = !user.is_root() && permissions & (SETUID | SETGID) != 0;
    match set_ids || has_xattrs {
        true => drop_rights_of(user, volume, ino, set_ids),
        false => Ok(()),
    }
}

/// One change; none where the file lends no rights.
fn drop_rights_of(user: &User, volume: &Volume, ino: Ino, set_ids: bool) -> Result<()> {
    let dropped = volume.update(ino, |present| {
        let update = without_rights(user, present, set_ids);
        match update.set.permissions.is_none() && update.xattrs.is_empty() {
            true => Err(Errno::ENODATA.into()),
            false => Ok(update),
        }
    });
    match dropped {
        Err(error) if error == Errno::ENODATA => Ok(()),
        dropped => dropped,
    }
}

pub(crate) fn set_times(
    process: &Process,
    volume: &Volume,
    file: &Owner,
    accessed: NewTime,
    modified: NewTime,
) -> Result<()> {
    let user = process.user();
    match (accessed, modified) {
        (NewTime::Omit, NewTime::Omit) => return Ok(()),
        (NewTime::Now, NewTime::Now) if user.owns(file.uid) => (),
        (NewTime::Now, NewTime::Now) => user.require(volume, file, Rights::WRITE)?,
        _ => process.require_owner(file)?,
    }
    let now = volume.now();
    let time = |new| match new {
        NewTime::Now => Some(now),
        NewTime::Omit => None,
        NewTime::At(time) => Some(time),
    };
    let set = SetAttributes { accessed: time(accessed), modified: time(modified), ..SetAttributes::default() };
    Ok(volume.set_attributes(file.ino, &set)?)
}

/// Sets or removes the list that rules the access to a file, and the mode that says the same.
pub(crate) fn set_access_list(user: &User, volume: &Volume, file: &Owner, acl: Option<&Acl>) -> Result<()> {
    if file.kind == FileKind::Link {
        return Err(Errno::EOPNOTSUPP.into());
    }
    volume.update(file.ino, |present| {
        let attributes = &present.attributes;
        require_owner(user, attributes.uid)?;
        let mut permissions = attributes.permissions;
        let mut value = None;
        if let Some(acl) = acl {
            acl.require_valid()?;
            permissions = permissions & 0o7000 | acl.mode();
            value = Some(acl.bytes()).filter(|_| !acl.is_mode());
        }
        if !user.is_root() && !user.is_in(attributes.gid) {
            permissions &= !SETGID;
        }
        Ok(Update { xattrs: vec![(ACCESS, value)], ..mode_of(permissions) })
    })
}

/// Sets or removes the list that new files in a directory inherit.
pub(crate) fn set_default_list(user: &User, volume: &Volume, file: &Owner, acl: Option<&Acl>) -> Result<()> {
    if file.kind == FileKind::Link {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if file.kind != FileKind::Directory {
        return if acl.is_some() { Err(Errno::EACCES.into()) } else { Ok(()) };
    }
    volume.update(file.ino, |present| {
        require_owner(user, present.attributes.uid)?;
        if let Some(acl) = acl {
            acl.require_valid()?;
        }
        Ok(Update { xattrs: vec![(DEFAULT, acl.map(Acl::bytes))], ..Update::default() })
    })
}

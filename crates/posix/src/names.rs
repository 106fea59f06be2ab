//! Calls that make, move and remove names.

use crate::acl::{ACCESS, Acl, DEFAULT};
use crate::files::Paths;
use crate::open::OpenFile;
use crate::process::Process;
use crate::user::Rights;
use crate::walk::{At, Last, LastLink, Walked};
use crate::{Errno, Result};
use everbyte_fs::{Error as FsError, FileKind, Found, Ino, NewFile, Owner, Rename, Volume};

const STICKY: u16 = 0o1000;
const SETGID: u16 = 0o2000;
/// Bytes of the longest target of a symbolic link.
const TARGET_MAX: usize = everbyte_fs::TARGET_MAX;

bitflags::bitflags! {
    /// Flags of a rename, as `renameat2` has them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RenameFlags: u32 {
        /// The rename is refused if the new name exists.
        const NOREPLACE = libc::RENAME_NOREPLACE;
        /// The two files exchange their names.
        const EXCHANGE = libc::RENAME_EXCHANGE;
        /// The old name leads to a character device 0 afterwards.
        const WHITEOUT = libc::RENAME_WHITEOUT;
    }
}

/// What a new file gets beside its name: the mode after the mask, its group, and inherited lists.
pub(crate) struct NewAttributes {
    permissions: u16,
    gid: u32,
    xattrs: Vec<(&'static [u8], Vec<u8>)>,
}

impl NewAttributes {
    /// Makes the file with `make`.
    pub(crate) fn with<T>(
        &self,
        process: &Process,
        kind: FileKind,
        make: impl FnOnce(&NewFile<'_>) -> everbyte_fs::Result<T>,
    ) -> everbyte_fs::Result<T> {
        let xattrs: Vec<(&[u8], &[u8])> = self.xattrs.iter().map(|(name, value)| (*name, value.as_slice())).collect();
        let (uid, gid) = (process.makes_for().0, self.gid);
        make(&NewFile { uid, gid, xattrs: &xattrs, ..NewFile::new(kind, self.permissions) })
    }
}

impl Process {
    /// Makes a directory. Its mode lacks the bits of the mask, unless the parent has a default
    /// list.
    ///
    /// # Errors
    /// [`Errno::EEXIST`], [`Errno::EACCES`], [`Errno::EMLINK`], [`Errno::ENOSPC`]; those of paths.
    pub fn make_directory<'a>(&self, at: impl Into<At<'a>>, permissions: u16) -> Result<Ino> {
        let at = at.into();
        self.files().change(at.path, |volume| {
            let (directory, name) = self.absent(volume, at, true)?;
            let new = self.new_attributes(volume, &directory, FileKind::Directory, permissions & !0o6000)?;
            let made = new.with(self, FileKind::Directory, |new| volume.make(directory.ino, &name, new));
            made.map_err(gone_directory)
        })
    }

    /// Makes a file of any type but a directory and a link. Devices are for root, but for the
    /// character device 0, which marks a removed name in overlays.
    ///
    /// # Errors
    /// [`Errno::EPERM`]; [`Errno::EINVAL`] for another type; as [`Process::make_directory`].
    pub fn make_node<'a>(&self, at: impl Into<At<'a>>, kind: FileKind, permissions: u16, device: u64) -> Result<Ino> {
        let at = at.into();
        self.files().change(at.path, |volume| {
            match kind {
                FileKind::Directory => return Err(Errno::EPERM.into()),
                FileKind::Link => return Err(Errno::EINVAL.into()),
                _ => (),
            }
            let (directory, name) = self.absent(volume, at, false)?;
            let new = self.new_attributes(volume, &directory, kind, permissions)?;
            let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
            if is_device && !self.user().is_root() && (kind, device) != (FileKind::CharDevice, 0) {
                return Err(Errno::EPERM.into());
            }
            let device = if is_device { device } else { 0 };
            let made = new.with(self, kind, |new| volume.make(directory.ino, &name, &NewFile { device, ..*new }));
            made.map_err(gone_directory)
        })
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// [`Errno::ENOENT`] for an empty target, [`Errno::ENAMETOOLONG`] for one of more than 4095
    /// bytes; as [`Process::make_directory`].
    pub fn make_link<'a>(&self, target: impl AsRef<[u8]>, at: impl Into<At<'a>>) -> Result<Ino> {
        let (target, at) = (target.as_ref(), at.into());
        if target.is_empty() {
            return Err(Errno::ENOENT.into());
        }
        if target.len() > TARGET_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        if target.contains(&0) {
            return Err(Errno::EINVAL.into());
        }
        self.files().change(at.path, |volume| {
            let (directory, name) = self.absent(volume, at, false)?;
            let new = self.group_for(&directory);
            let new = NewFile { target, uid: self.makes_for().0, gid: new, ..NewFile::new(FileKind::Link, 0o777) };
            volume.make(directory.ino, &name, &new).map_err(gone_directory)
        })
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`Errno::EINVAL`] for other files; those of paths.
    pub fn read_link<'a>(&self, at: impl Into<At<'a>>) -> Result<Vec<u8>> {
        let at = at.into();
        self.files().look(at.path, |volume| {
            self.with_file(volume, at, LastLink::Keep, |volume, file| Ok(volume.read_link(file.ino)?))
        })
    }

    /// Gives a file one more name. A symbolic link at the end of `from` is linked itself.
    ///
    /// # Errors
    /// [`Errno::EPERM`] for a directory; [`Errno::EMLINK`]; as [`Process::make_directory`].
    pub fn link<'a, 'b>(&self, from: impl Into<At<'a>>, to: impl Into<At<'b>>) -> Result<()> {
        self.link_from(from.into(), to.into(), LastLink::Keep)
    }

    /// [`Process::link`] to the file that a symbolic link at the end of `from` leads to.
    ///
    /// # Errors
    /// As [`Process::link`].
    pub fn link_followed<'a, 'b>(&self, from: impl Into<At<'a>>, to: impl Into<At<'b>>) -> Result<()> {
        self.link_from(from.into(), to.into(), LastLink::Follow)
    }

    fn link_from(&self, from: At<'_>, to: At<'_>, last_link: LastLink) -> Result<()> {
        self.files().change(to.path, |volume| {
            self.with_file(volume, from, last_link, |volume, file| self.link_file(volume, file, to))
        })
    }

    /// Gives an open file a name, also one that was opened without.
    ///
    /// # Errors
    /// [`Errno::ENOENT`] for a file that lost its last name, or was opened unnamed and exclusive;
    /// otherwise as [`Process::link`].
    pub fn link_open<'a>(&self, file: &OpenFile, to: impl Into<At<'a>>) -> Result<()> {
        let to = to.into();
        self.files().change(to.path, |volume| {
            if !file.may_be_linked() && volume.attributes(file.ino())?.links == 0 {
                return Err(Errno::ENOENT.into());
            }
            self.link_file(volume, &volume.owner(file.ino())?, to)
        })
    }

    fn link_file(&self, volume: &Volume, file: &Owner, to: At<'_>) -> Result<()> {
        let (directory, name) = self.absent(volume, to, false)?;
        if file.kind == FileKind::Directory {
            return Err(Errno::EPERM.into());
        }
        volume.link(file.ino, directory.ino, &name).map_err(gone_directory)
    }

    /// Withdraws a name of a file that is no directory. The file lives until its last name is gone
    /// and no process has it open.
    ///
    /// # Errors
    /// [`Errno::EISDIR`]; [`Errno::EPERM`] in a sticky directory of another user;
    /// [`Errno::EACCES`]; those of paths.
    pub fn remove<'a>(&self, at: impl Into<At<'a>>) -> Result<()> {
        let at = at.into();
        self.files().change(at.path, |volume| {
            loop {
                let walked = self.walk(volume, at, LastLink::Name)?;
                let Last::Name(name) = &walked.last else { return Err(Errno::EISDIR.into()) };
                let file = walked.found.ok_or(Errno::ENOENT)?;
                if walked.has_slash {
                    let is_directory = file.kind == FileKind::Directory;
                    return Err(if is_directory { Errno::EISDIR } else { Errno::ENOTDIR }.into());
                }
                self.require_removal(volume, &walked.directory, &file)?;
                // The rights are to this file: one that has the name since is looked at anew.
                if volume.unlink_found(walked.directory.ino, name, &file)? {
                    return Ok(());
                }
            }
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Errno::ENOTEMPTY`], [`Errno::ENOTDIR`]; [`Errno::EBUSY`] for the root;
    /// [`Errno::EINVAL`] for `.`; otherwise as [`Process::remove`].
    pub fn remove_directory<'a>(&self, at: impl Into<At<'a>>) -> Result<()> {
        let at = at.into();
        self.files().change_alone(&Paths::of(at.path), |volume| {
            let walked = self.walk(volume, at, LastLink::Name)?;
            let name = match &walked.last {
                Last::Name(name) => name,
                Last::Root => return Err(Errno::EBUSY.into()),
                Last::Dot => return Err(Errno::EINVAL.into()),
                Last::DotDot => return Err(Errno::ENOTEMPTY.into()),
            };
            let file = walked.found.ok_or(Errno::ENOENT)?;
            self.require_removal(volume, &walked.directory, &file)?;
            if file.kind != FileKind::Directory {
                return Err(Errno::ENOTDIR.into());
            }
            Ok(volume.remove_directory(walked.directory.ino, name)?)
        })
    }

    /// Renames a file in one step.
    ///
    /// # Errors
    /// [`Errno::EEXIST`] with `NOREPLACE`; [`Errno::ENOTEMPTY`], [`Errno::EISDIR`],
    /// [`Errno::ENOTDIR`] for the file that would be replaced; [`Errno::EINVAL`] for a directory
    /// that would move below itself, and for flags that contradict each other; [`Errno::EBUSY`] for
    /// `.`, `..` and `/`; [`Errno::EPERM`] in sticky directories; those of paths.
    pub fn rename<'a, 'b>(&self, from: impl Into<At<'a>>, to: impl Into<At<'b>>, flags: RenameFlags) -> Result<()> {
        let (from, to) = (from.into(), to.into());
        let exchanges = flags.contains(RenameFlags::EXCHANGE);
        if exchanges && flags.intersects(RenameFlags::NOREPLACE | RenameFlags::WHITEOUT) {
            return Err(Errno::EINVAL.into());
        }
        let paths = Paths::of_two(from.path, to.path);
        // Two files of one directory: no directory is removed, so other calls go on meanwhile.
        let is_done = self.files().change_unsettled(&paths, |volume| {
            let (from, to) = (self.walk_to(volume, from, LastLink::Name)?, self.walk_to(volume, to, LastLink::Name)?);
            let is_directory =
                |walked: &Walked<'_>| walked.found.as_ref().is_some_and(|file| file.kind == FileKind::Directory);
            if from.directory.ino != to.directory.ino || is_directory(&from) || is_directory(&to) {
                return Ok(false);
            }
            let (from_name, to_name) = self.require_rename(volume, &from, &to, flags)?;
            let Some(moved) = &from.found else { return Ok(false) };
            // The rights are to these files: if others have the names since, all is looked at anew.
            let rename = |mode: Rename<'_>| {
                volume.rename_found(from.directory.ino, (from_name, moved), (to_name, to.found.as_ref()), mode)
            };
            self.rename_by(volume, &from, flags, rename)
        })?;
        if is_done {
            return self.files().settle_if_sync();
        }
        self.files().change_alone(&paths, |volume| {
            let (from, to) = (self.walk_to(volume, from, LastLink::Name)?, self.walk_to(volume, to, LastLink::Name)?);
            let (from_name, to_name) = self.require_rename(volume, &from, &to, flags)?;
            let rename =
                |mode: Rename<'_>| volume.rename(from.directory.ino, from_name, to.directory.ino, to_name, mode);
            self.rename_by(volume, &from, flags, rename)
        })
    }

    /// Renames by the flags of a call.
    fn rename_by<T>(
        &self,
        volume: &Volume,
        from: &Walked<'_>,
        flags: RenameFlags,
        rename: impl FnOnce(Rename<'_>) -> everbyte_fs::Result<T>,
    ) -> Result<T> {
        let replace = !flags.contains(RenameFlags::NOREPLACE);
        let renamed = match flags {
            _ if flags.contains(RenameFlags::EXCHANGE) => rename(Rename::Exchange),
            _ if flags.contains(RenameFlags::WHITEOUT) => {
                let new = self.new_attributes(volume, &from.directory, FileKind::CharDevice, 0)?;
                new.with(self, FileKind::CharDevice, |file| rename(Rename::Whiteout { replace, file: *file }))
            }
            _ if replace => rename(Rename::Replace),
            _ => rename(Rename::NoReplace),
        };
        renamed.map_err(gone_directory)
    }

    /// The names of a rename; refuses forms of paths, and a process without the rights for it.
    fn require_rename<'w>(
        &self,
        volume: &Volume,
        from: &'w Walked<'_>,
        to: &'w Walked<'_>,
        flags: RenameFlags,
    ) -> Result<(&'w [u8], &'w [u8])> {
        let Last::Name(from_name) = &from.last else { return Err(Errno::EBUSY.into()) };
        let Last::Name(to_name) = &to.last else {
            let is_refused = flags.contains(RenameFlags::NOREPLACE);
            return Err(if is_refused { Errno::EEXIST } else { Errno::EBUSY }.into());
        };
        let names: (&[u8], &[u8]) = (from_name, to_name);
        let exchanges = flags.contains(RenameFlags::EXCHANGE);
        from.require_name()?;
        let moved = from.found.as_ref().ok_or(Errno::ENOENT)?;
        to.require_name()?;
        if to.found.is_some() && flags.contains(RenameFlags::NOREPLACE) {
            return Err(Errno::EEXIST.into());
        }
        if exchanges && to.found.is_none() {
            return Err(Errno::ENOENT.into());
        }
        let exchanged = to.found.as_ref().filter(|_| exchanges);
        if exchanged.is_some_and(|other| other.kind != FileKind::Directory && to.has_slash) {
            return Err(Errno::ENOTDIR.into());
        }
        if moved.kind != FileKind::Directory && (from.has_slash || !exchanges && to.has_slash) {
            return Err(Errno::ENOTDIR.into());
        }
        if from.directory.ino != to.directory.ino {
            if is_above(volume, moved, &to.directory)? {
                return Err(Errno::EINVAL.into());
            }
            if let Some(other) = &to.found
                && is_above(volume, other, &from.directory)?
            {
                return Err(if exchanges { Errno::EINVAL } else { Errno::ENOTEMPTY }.into());
            }
        }
        if to.found.as_ref().is_some_and(|other| other.ino == moved.ino) {
            return Ok(names); // nothing will change
        }
        self.require_removal(volume, &from.directory, moved)?;
        match &to.found {
            Some(other) => {
                self.require_removal(volume, &to.directory, other)?;
                match (moved.kind, other.kind) {
                    _ if exchanges => (),
                    (FileKind::Directory, FileKind::Directory) => (),
                    (FileKind::Directory, _) => return Err(Errno::ENOTDIR.into()),
                    (_, FileKind::Directory) => return Err(Errno::EISDIR.into()),
                    _ => (),
                }
            }
            None => self.user().require(volume, &to.directory, Rights::CHANGE)?,
        }
        // The entry `..` of a directory that moves is changed.
        if from.directory.ino != to.directory.ino {
            for file in [Some(moved), exchanged].into_iter().flatten().filter(|file| file.kind == FileKind::Directory) {
                self.user().require(volume, file, Rights::WRITE)?;
            }
        }
        Ok(names)
    }

    /// The directory and the name of a file to be made. A slash may follow the name of a directory
    /// only.
    pub(crate) fn absent<'a>(
        &self,
        volume: &Volume,
        at: At<'a>,
        is_directory: bool,
    ) -> Result<(Found, std::borrow::Cow<'a, [u8]>)> {
        let walked = self.walk(volume, at, LastLink::Name)?;
        let Last::Name(name) = walked.last else { return Err(Errno::EEXIST.into()) };
        if walked.found.is_some() {
            return Err(Errno::EEXIST.into());
        }
        if walked.has_slash && !is_directory {
            return Err(Errno::ENOENT.into());
        }
        self.user().require(volume, &walked.directory, Rights::CHANGE)?;
        Ok((walked.directory, name))
    }

    /// Refuses the removal of a name without the right to change the directory, and in a sticky
    /// directory to users that own neither it nor the file.
    fn require_removal(&self, volume: &Volume, directory: &Owner, file: &Owner) -> Result<()> {
        self.user().require(volume, directory, Rights::CHANGE)?;
        let owns_one = self.user().owns(file.uid) || self.user().owns(directory.uid);
        match directory.permissions & STICKY != 0 && !owns_one {
            true => Err(Errno::EPERM.into()),
            false => Ok(()),
        }
    }

    /// The group of a new file in a directory.
    fn group_for(&self, directory: &Owner) -> u32 {
        if directory.permissions & SETGID != 0 { directory.gid } else { self.makes_for().1 }
    }

    /// The mode and the lists of a new file: those of the default list of its directory, or the
    /// mode without the mask.
    pub(crate) fn new_attributes(
        &self,
        volume: &Volume,
        directory: &Owner,
        kind: FileKind,
        permissions: u16,
    ) -> Result<NewAttributes> {
        let gid = self.group_for(directory);
        let mut permissions = permissions & 0o7777;
        if directory.permissions & SETGID != 0 {
            let is_in = self.user().is_root() || self.user().is_in(gid);
            match kind {
                FileKind::Directory => permissions |= SETGID,
                // A file that others of the group may run gets no group that its maker is not in.
                _ if !is_in && permissions & 0o010 != 0 => permissions &= !SETGID,
                _ => (),
            }
        }
        let mut xattrs = Vec::new();
        let inherited = match directory.has_xattrs {
            true => default_list(volume, directory.ino)?,
            false => None,
        };
        match inherited {
            None => permissions &= !self.mask(),
            Some(bytes) => {
                let mut acl = Acl::parse(&bytes)?;
                permissions = permissions & 0o7000 | acl.inherit(permissions);
                if !acl.is_mode() {
                    xattrs.push((ACCESS, acl.bytes()));
                }
                if kind == FileKind::Directory {
                    xattrs.push((DEFAULT, bytes));
                }
            }
        }
        Ok(NewAttributes { permissions, gid, xattrs })
    }
}

/// Whether a directory is another one, or holds it over any number of others.
fn is_above(volume: &Volume, directory: &Owner, other: &Owner) -> Result<bool> {
    if directory.kind != FileKind::Directory {
        return Ok(false);
    }
    volume.is_above(directory.ino, other.ino).map_err(gone_directory)
}

fn default_list(volume: &Volume, directory: Ino) -> Result<Option<Vec<u8>>> {
    match volume.xattr(directory, DEFAULT) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(FsError::NoAttribute { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A directory that was removed has no names, and gets none.
pub(crate) fn gone_directory(error: FsError) -> crate::Error {
    match error {
        FsError::Stale { .. } => Errno::ENOENT.into(),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Files, FilesOptions, OpenFlags, User};
    use everbyte_fs::VolumeOptions;
    use everbyte_media::{Media, Options};
    use everbyte_store::{FormatOptions, Store};
    use std::sync::mpsc;
    use std::time::Duration;

    /// Files are renamed in their directory while another call resolves a path; a directory is not.
    #[test]
    fn files_are_renamed_beside_other_calls() {
        let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let options = VolumeOptions { span: Some(32 << 20), ..VolumeOptions::default() };
        let files = Files::new(Volume::create(&store, "files", &options).unwrap(), FilesOptions::default());
        let process = files.process(User::root()).unwrap();
        for name in ["one", "two"] {
            process.open(name, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).unwrap();
        }
        process.make_directory("directory", 0o755).unwrap();
        std::thread::scope(|scope| {
            let other_call = files.walk();
            let (done, renamed) = mpsc::channel();
            let process = &process;
            scope.spawn(move || {
                let rename = |from: &str, to: &str, flags| done.send(process.rename(from, to, flags)).unwrap();
                rename("one", "new", RenameFlags::empty());
                rename("new", "two", RenameFlags::EXCHANGE);
                rename("new", "two", RenameFlags::empty());
                rename("directory", "moved", RenameFlags::empty());
            });
            for _ in 0..3 {
                renamed.recv_timeout(Duration::from_secs(60)).expect("no wait for the other call").unwrap();
            }
            assert!(renamed.try_recv().is_err(), "a directory is renamed alone");
            drop(other_call);
            renamed.recv().unwrap().unwrap();
        });
    }
}

//! [`FileRights`]: the rights of a backing file follow those of its store's file, of which it holds
//! a part.

use rustix::fs::{Mode, fchmod, fchown, fstat};
use std::fs::Metadata;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;

/// Owner, group and mode of a store's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRights {
    user: u32,
    group: u32,
    mode: u32,
}

impl FileRights {
    /// The rights of the store's file.
    pub fn of(store: &Metadata) -> FileRights {
        FileRights { user: store.uid(), group: store.gid(), mode: store.mode() }
    }

    /// The mode of a backing file of this group: its owner may read and write it, and no other user
    /// has more access to it than to the store.
    fn mode_for(self, group: u32) -> u32 {
        let (of_group, of_others) = (self.mode >> 3 & 0o6, self.mode & 0o6);
        let of_group = if group == self.group { of_group } else { of_group & of_others };
        0o600 | of_group << 3 | of_others
    }

    /// Whether an existing file may become a backing file: another user's descriptor of it, or
    /// another name, would reach the clusters.
    pub(crate) fn may_own(self, file: BorrowedFd<'_>) -> io::Result<bool> {
        let found = fstat(file)?;
        let own = [rustix::process::geteuid().as_raw(), self.user].contains(&found.st_uid);
        Ok(own && found.st_nlink == 1)
    }

    /// Gives a new backing file, which its maker alone may read, to the users of the store.
    pub(crate) fn give(self, file: BorrowedFd<'_>) -> io::Result<()> {
        use rustix::fs::{Gid, Uid};
        let (user, group) = (Some(Uid::from_raw(self.user)), Some(Gid::from_raw(self.group)));
        // Only root may give the owner. Without the group the mode gives less.
        let _ = fchown(file, user, group).or_else(|_| fchown(file, None, group));
        Ok(fchmod(file, Mode::from_raw_mode(self.mode_for(fstat(file)?.st_gid)))?)
    }

    /// Takes the access away that the store's file does not give: files of earlier programs were
    /// readable by every user.
    pub(crate) fn take_excess(self, file: BorrowedFd<'_>) -> io::Result<()> {
        let found = fstat(file)?;
        let (mode, most) = (found.st_mode & 0o777, self.mode_for(found.st_gid));
        if mode & !most != 0 {
            fchmod(file, Mode::from_raw_mode(mode & most))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_has_more_access_to_a_backing_file_than_to_its_store() {
        let mode = |mode, group| FileRights { user: 1, group: 10, mode }.mode_for(group);
        assert_eq!([mode(0o100600, 10), mode(0o100660, 10), mode(0o100664, 10)], [0o600, 0o660, 0o664]);
        assert_eq!([mode(0o100660, 11), mode(0o100664, 11), mode(0o100666, 11)], [0o600, 0o644, 0o666]);
        assert_eq!(mode(0o100755, 10), 0o644);
    }
}

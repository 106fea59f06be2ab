//! Mount points: refusals before a mount, dead mounts, unmounting.

use crate::{Error, Result};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prepares a mount point: refuses what cannot be one, and takes a mount away whose daemon is dead.
pub(crate) fn prepare(path: &Path, nonempty: bool) -> Result<PathBuf> {
    let io = |action| move |source| Error::Io { path: path.to_owned(), action, source };
    // Attributes come from the kernel's cache, the figures of a file system from its daemon.
    if rustix::fs::statfs(path).err() == Some(Errno::NOTCONN) {
        unmount(path, true)?;
    }
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::BadMountPoint { path: path.to_owned(), detail: "no such directory to mount on" });
        }
        found => found.map_err(io("use the mount point"))?,
    };
    if !found.is_dir() {
        return Err(Error::BadMountPoint { path: path.to_owned(), detail: "not a directory" });
    }
    let path = path.canonicalize().map_err(io("resolve the mount point"))?;
    let is_mounted = match path.parent() {
        Some(parent) => fs::metadata(parent).map_err(io("use the parent directory"))?.dev() != found.dev(),
        None => true,
    };
    if is_mounted {
        return Err(Error::Busy { path, detail: "a file system is mounted here" });
    }
    let is_empty = fs::read_dir(&path).map_err(io("read the mount point"))?.next().is_none();
    if !is_empty && !nonempty {
        let detail = "the directory is not empty; the option `nonempty` mounts over its files";
        return Err(Error::BadMountPoint { path, detail });
    }
    if !Path::new("/dev/fuse").exists() {
        return Err(Error::NoFuse);
    }
    Ok(path)
}

/// Detaches a mount. `lazy`: also while files of it are open; they stay usable until they are
/// closed.
///
/// # Errors
/// [`Error::Busy`] while files are open; [`Error::BadMountPoint`] where nothing is mounted;
/// [`Error::Io`].
pub fn unmount(path: &Path, lazy: bool) -> Result<()> {
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(path, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::INVAL) => {
            Err(Error::BadMountPoint { path: path.to_owned(), detail: "no file system is mounted here" })
        }
        Err(Errno::BUSY) => {
            let detail = "programs use files of the mount; close them, or unmount with --lazy";
            Err(Error::Busy { path: path.to_owned(), detail })
        }
        Err(Errno::PERM) => by_helper(path, lazy),
        Err(error) => Err(Error::Io { path: path.to_owned(), action: "unmount", source: error.into() }),
    }
}

/// Unmounts through the set-user-id helper of the package fuse3, as users other than root must.
fn by_helper(path: &Path, lazy: bool) -> Result<()> {
    let io = |source| Error::Io { path: path.to_owned(), action: "run fusermount3", source };
    let mut helper = Command::new("fusermount3");
    helper.arg(if lazy { "-uz" } else { "-u" }).arg(path);
    let output = helper.output().map_err(io)?;
    if output.status.success() {
        return Ok(());
    }
    let source = io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    Err(Error::Io { path: path.to_owned(), action: "unmount", source })
}

/// Ends the connection of a mount to the kernel: every request fails, also those that no thread
/// will answer.
///
/// # Errors
/// The kernel's, or those of mounting its table of connections where that is absent.
pub(crate) fn abort((major, minor): Device) -> io::Result<()> {
    let connections = Path::new("/sys/fs/fuse/connections");
    let name = connections.join((major << 20 | minor).to_string()).join("abort");
    fs::write(&name, "1").or_else(|_| {
        rustix::mount::mount("fusectl", connections, "fusectl", MountFlags::empty(), None)?;
        fs::write(&name, "1")
    })
}

/// A device number, major and minor.
pub(crate) type Device = (u32, u32);

/// The device of the file system at a path. Its daemon is not asked.
pub(crate) fn device_at(path: &Path) -> Option<Device> {
    let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::empty()).ok()?;
    Some((found.stx_dev_major, found.stx_dev_minor))
}

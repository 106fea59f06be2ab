//! Attributes as C has them: `struct stat`, `struct statx`; and the rights of the caller.

use super::table::{self, OpenVolume};
use super::{caller, done, path, require_flags, store};
use crate::fault::{Fault, Result};
use everbyte_posix::{Attributes, Errno, Rights};
use std::ffi::{c_char, c_int, c_uint};
use std::mem::zeroed;

const SECOND: i64 = 1_000_000_000;

/// A device number for a volume: tells its files from those of others.
fn device(volume: &OpenVolume) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = volume.files.volume().uuid();
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

fn stat(volume: &OpenVolume, attributes: &Attributes) -> libc::stat {
    // SAFETY: a struct of numbers, for which zeros are valid.
    let mut told: libc::stat = unsafe { zeroed() };
    told.st_dev = device(volume);
    told.st_ino = attributes.ino.0;
    told.st_mode = u32::from(attributes.kind.bits() | attributes.permissions);
    told.st_nlink = attributes.links as _;
    told.st_uid = attributes.uid;
    told.st_gid = attributes.gid;
    told.st_rdev = attributes.device;
    told.st_size = attributes.size as i64;
    told.st_blksize = 4096;
    told.st_blocks = (attributes.allocated / 512) as i64;
    let parts = |time: i64| (time.div_euclid(SECOND), time.rem_euclid(SECOND));
    (told.st_atime, told.st_atime_nsec) = parts(attributes.accessed);
    (told.st_mtime, told.st_mtime_nsec) = parts(attributes.modified);
    (told.st_ctime, told.st_ctime_nsec) = parts(attributes.changed);
    told
}

fn statx(volume: &OpenVolume, attributes: &Attributes) -> libc::statx {
    // SAFETY: a struct of numbers, for which zeros are valid.
    let mut told: libc::statx = unsafe { zeroed() };
    let time = |time: i64| {
        // SAFETY: as above.
        let mut told: libc::statx_timestamp = unsafe { zeroed() };
        told.tv_sec = time.div_euclid(SECOND);
        told.tv_nsec = time.rem_euclid(SECOND) as u32;
        told
    };
    told.stx_mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
    told.stx_blksize = 4096;
    told.stx_nlink = attributes.links as u32;
    told.stx_uid = attributes.uid;
    told.stx_gid = attributes.gid;
    told.stx_mode = attributes.kind.bits() | attributes.permissions;
    told.stx_ino = attributes.ino.0;
    told.stx_size = attributes.size;
    told.stx_blocks = attributes.allocated / 512;
    told.stx_atime = time(attributes.accessed);
    told.stx_btime = time(attributes.born);
    told.stx_ctime = time(attributes.changed);
    told.stx_mtime = time(attributes.modified);
    (told.stx_rdev_major, told.stx_rdev_minor) = (libc::major(attributes.device), libc::minor(attributes.device));
    let device = device(volume);
    (told.stx_dev_major, told.stx_dev_minor) = (libc::major(device), libc::minor(device));
    told
}

/// The attributes of the file of a path, or with `AT_EMPTY_PATH` of a descriptor, as `told` makes
/// them.
fn status<T>(fd: c_int, path: &[u8], flags: c_int, told: fn(&OpenVolume, &Attributes) -> T) -> Result<T> {
    require_flags(flags, libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT)?;
    if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 && fd != libc::AT_FDCWD {
        let open = table::get(fd)?;
        return Ok(told(&open.volume, &open.file.status()?));
    }
    // Without a descriptor the empty path is the working directory.
    let path = if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 { b"." } else { path };
    caller::with_place(fd, path, |place, at| {
        let process = place.process.read();
        let keeps_link = flags & libc::AT_SYMLINK_NOFOLLOW != 0;
        let attributes = if keeps_link { process.link_status(at)? } else { process.status(at)? };
        Ok(told(&place.volume, &attributes))
    })
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_stat(path: *const c_char, into: *mut libc::stat) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { eb_fstatat(libc::AT_FDCWD, path, into, 0) }
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_lstat(path: *const c_char, into: *mut libc::stat) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { eb_fstatat(libc::AT_FDCWD, path, into, libc::AT_SYMLINK_NOFOLLOW) }
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_fstat(fd: c_int, into: *mut libc::stat) -> c_int {
    let told = table::get(fd).and_then(|open| Ok(stat(&open.volume, &open.file.status()?)));
    // SAFETY: the caller's promise.
    done(told.and_then(|told| unsafe { store(into, told) }))
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_fstatat(
    fd: c_int,
    path: *const c_char,
    into: *mut libc::stat,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let told = unsafe { self::path(path) }.and_then(|path| status(fd, path, flags, stat));
    // SAFETY: as above.
    done(told.and_then(|told| unsafe { store(into, told) }))
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_statx(
    fd: c_int,
    path: *const c_char,
    flags: c_int,
    _mask: c_uint,
    into: *mut libc::statx,
) -> c_int {
    let sync = libc::AT_STATX_FORCE_SYNC | libc::AT_STATX_DONT_SYNC;
    // SAFETY: the caller's promise.
    let told = unsafe { self::path(path) }.and_then(|path| status(fd, path, flags & !sync, statx));
    // SAFETY: as above.
    done(told.and_then(|told| unsafe { store(into, told) }))
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { eb_faccessat(libc::AT_FDCWD, path, mode, 0) }
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_faccessat(fd: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { self::path(path) }.and_then(|path| {
        require_flags(flags, libc::AT_EACCESS)?;
        if mode & !(libc::R_OK | libc::W_OK | libc::X_OK) != 0 {
            return Err(Fault::from(everbyte_posix::Error::from(Errno::EINVAL)));
        }
        let asked = [(libc::R_OK, Rights::READ), (libc::W_OK, Rights::WRITE), (libc::X_OK, Rights::EXECUTE)];
        let asked = asked.into_iter().filter(|(bit, _)| mode & bit != 0);
        let rights = asked.fold(Rights::NONE, |rights, (_, right)| rights.and(right));
        caller::at(fd, path, |process, at| process.access(at, rights))
    }))
}

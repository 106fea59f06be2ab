//! Attributes, set: modes, owners, times.

use super::table;
use super::{caller, done, path, require_flags};
use crate::fault::{Fault, Result};
use everbyte_posix::{NewTime, OpenFile, Process};
use std::ffi::{c_char, c_int};

/// A change of an open file as a call of the present caller.
fn of_open(fd: c_int, change: impl FnOnce(&OpenFile, &Process) -> everbyte_posix::Result<()>) -> Result<()> {
    let open = table::get(fd)?;
    let place = caller::current().place(&open.volume)?;
    Ok(change(&open.file, &place.process.read())?)
}

fn is_empty(path: &[u8], flags: c_int) -> bool {
    path.is_empty() && flags & libc::AT_EMPTY_PATH != 0
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_chmod(path: *const c_char, mode: libc::mode_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { eb_fchmodat(libc::AT_FDCWD, path, mode, 0) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_fchmod(fd: c_int, mode: libc::mode_t) -> c_int {
    done(of_open(fd, |file, by| file.set_mode(by, (mode & 0o7777) as u16)))
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_fchmodat(fd: c_int, path: *const c_char, mode: libc::mode_t, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { self::path(path) }.and_then(|path| {
        require_flags(flags, 0)?;
        caller::at(fd, path, |process, at| process.set_mode(at, (mode & 0o7777) as u16))
    }))
}

/// An owner to be set; -1 keeps the present one.
fn chosen(id: u32) -> Option<u32> {
    Some(id).filter(|&id| id != u32::MAX)
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_chown(path: *const c_char, uid: u32, gid: u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { eb_fchownat(libc::AT_FDCWD, path, uid, gid, 0) }
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_lchown(path: *const c_char, uid: u32, gid: u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { eb_fchownat(libc::AT_FDCWD, path, uid, gid, libc::AT_SYMLINK_NOFOLLOW) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_fchown(fd: c_int, uid: u32, gid: u32) -> c_int {
    done(of_open(fd, |file, by| file.set_owner(by, chosen(uid), chosen(gid))))
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_fchownat(fd: c_int, path: *const c_char, uid: u32, gid: u32, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { self::path(path) }.and_then(|path| {
        require_flags(flags, libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH)?;
        let (uid, gid) = (chosen(uid), chosen(gid));
        if is_empty(path, flags) {
            return of_open(fd, |file, by| file.set_owner(by, uid, gid));
        }
        caller::at(fd, path, |process, at| match flags & libc::AT_SYMLINK_NOFOLLOW {
            0 => process.set_owner(at, uid, gid),
            _ => process.set_link_owner(at, uid, gid),
        })
    }))
}

fn time(given: &libc::timespec) -> Result<NewTime> {
    match given.tv_nsec {
        libc::UTIME_NOW => Ok(NewTime::Now),
        libc::UTIME_OMIT => Ok(NewTime::Omit),
        // A time that the volume cannot hold is the nearest that it can, as in Linux.
        nanoseconds @ 0..1_000_000_000 => {
            Ok(NewTime::At(given.tv_sec.saturating_mul(1_000_000_000).saturating_add(nanoseconds)))
        }
        other => Err(Fault::invalid(format!("{other} is no number of nanoseconds"))),
    }
}

/// Two times; null: now.
///
/// # Safety
/// `times` is null, or good for two times to be read.
unsafe fn times(times: *const libc::timespec) -> Result<[NewTime; 2]> {
    if times.is_null() {
        return Ok([NewTime::Now; 2]);
    }
    // SAFETY: the caller's promise.
    let [accessed, modified] = unsafe { times.cast::<[libc::timespec; 2]>().read() };
    Ok([time(&accessed)?, time(&modified)?])
}

/// # Safety
/// As said in `posix/mod.rs`; `given` is null, or good for two times to be read.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_utimensat(
    fd: c_int,
    path: *const c_char,
    given: *const libc::timespec,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { self::path(path) }.and_then(|path| {
        // SAFETY: as above.
        let [accessed, modified] = unsafe { times(given) }?;
        require_flags(flags, libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH)?;
        if is_empty(path, flags) {
            return of_open(fd, |file, by| file.set_times(by, accessed, modified));
        }
        caller::at(fd, path, |process, at| match flags & libc::AT_SYMLINK_NOFOLLOW {
            0 => process.set_times(at, accessed, modified),
            _ => process.set_link_times(at, accessed, modified),
        })
    }))
}

/// # Safety
/// `given` is null, or good for two times to be read.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_futimens(fd: c_int, given: *const libc::timespec) -> c_int {
    // SAFETY: the caller's promise.
    done(
        unsafe { times(given) }
            .and_then(|[accessed, modified]| of_open(fd, |file, by| file.set_times(by, accessed, modified))),
    )
}

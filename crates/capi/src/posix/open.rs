//! Descriptors: opened, closed, duplicated; their flags, and the locks of their files.

use super::table::{self, Descriptor};
use super::{bad_address, done};
use crate::fault::{Fault, Result, answer};
use everbyte_posix::{LockBy, LockKind, OpenFlags, Seek};
use std::ffi::{c_char, c_int};
use std::ops::Range;

fn open(fd: c_int, path: &[u8], flags: c_int, mode: libc::mode_t) -> Result<c_int> {
    let flags = OpenFlags::from_bits_truncate(flags as u32);
    super::caller::with_place(fd, path, |place, at| {
        let file = place.process.read().open(at, flags, (mode & 0o7777) as u16)?;
        table::add(file, place.volume.clone(), 0)
    })
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_open(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { eb_openat(libc::AT_FDCWD, path, flags, mode) }
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_openat(fd: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: the caller's promise.
    answer(unsafe { super::path(path) }.and_then(|path| open(fd, path, flags, mode)), -1, |fd| fd)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_close(fd: c_int) -> c_int {
    done(table::remove(fd))
}

/// A descriptor of the same open file, whose record locks are those of the present caller.
fn duplicate(fd: c_int, least: c_int) -> Result<c_int> {
    let open = table::get(fd)?;
    let place = super::caller::current().place(&open.volume)?;
    let file = open.file.inherited(&place.process.read());
    table::add(file, open.volume.clone(), least)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_dup(fd: c_int) -> c_int {
    answer(duplicate(fd, 0), -1, |fd| fd)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_fcntl(fd: c_int, command: c_int, argument: c_int) -> c_int {
    let done = match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicate(fd, argument),
        libc::F_GETFL => table::get(fd).map(|open| {
            let made = OpenFlags::CREAT | OpenFlags::EXCL | OpenFlags::TRUNC;
            (open.file.flags() - made).bits() as c_int
        }),
        libc::F_SETFL => table::get(fd).and_then(|open| {
            if open.file.flags().contains(OpenFlags::PATH) {
                return Err(Fault::new(libc::EBADF, "the descriptor is of a path alone"));
            }
            open.file.set_flags(OpenFlags::from_bits_truncate(argument as u32))?;
            Ok(0)
        }),
        _ => table::get(fd).and_then(|_| Err(Fault::invalid(format!("the command {command} is not known")))),
    };
    answer(done, -1, |number| number)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_flock(fd: c_int, operation: c_int) -> c_int {
    done(table::get(fd).and_then(|open| {
        let waits = operation & libc::LOCK_NB == 0;
        let changed = match operation & !libc::LOCK_NB {
            libc::LOCK_SH => open.file.lock_whole(LockKind::Shared, waits),
            libc::LOCK_EX => open.file.lock_whole(LockKind::Exclusive, waits),
            libc::LOCK_UN => open.file.unlock_whole(),
            _ => return Err(Fault::invalid(format!("no lock is {operation}"))),
        };
        Ok(changed?)
    }))
}

/// The bytes that a `flock` names.
fn range(open: &Descriptor, lock: &libc::flock) -> Result<Range<u64>> {
    let origin = match c_int::from(lock.l_whence) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => open.file.seek(Seek::Current(0))? as i64,
        libc::SEEK_END => open.file.status()?.size as i64,
        other => return Err(Fault::invalid(format!("no offset begins at {other}"))),
    };
    let overflow = || Fault::new(libc::EOVERFLOW, "the range does not fit");
    let at = origin.checked_add(lock.l_start).ok_or_else(overflow)?;
    let end = at.checked_add(lock.l_len).ok_or_else(overflow)?;
    let start = super::positive(at.min(end))?;
    Ok(if lock.l_len == 0 { start..u64::MAX } else { start..at.max(end) as u64 })
}

fn record_lock(open: &Descriptor, command: c_int, lock: &mut libc::flock) -> Result<()> {
    let by_file = matches!(command, libc::F_OFD_GETLK | libc::F_OFD_SETLK | libc::F_OFD_SETLKW);
    if by_file && lock.l_pid != 0 {
        return Err(Fault::invalid("the field l_pid must be 0"));
    }
    let by = if by_file { LockBy::OpenFile } else { LockBy::Process };
    let range = range(open, lock)?;
    let kind = match c_int::from(lock.l_type) {
        libc::F_RDLCK => Some(LockKind::Shared),
        libc::F_WRLCK => Some(LockKind::Exclusive),
        libc::F_UNLCK => None,
        other => return Err(Fault::invalid(format!("no lock has the type {other}"))),
    };
    let waits = matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW);
    match (command, kind) {
        (libc::F_GETLK | libc::F_OFD_GETLK, None) => Err(Fault::invalid("no lock is in the way of none")),
        (libc::F_GETLK | libc::F_OFD_GETLK, Some(kind)) => {
            match open.file.blocking_lock(by, kind, range)? {
                None => lock.l_type = libc::F_UNLCK as i16,
                Some(found) => {
                    let is_shared = found.kind == LockKind::Shared;
                    lock.l_type = if is_shared { libc::F_RDLCK } else { libc::F_WRLCK } as i16;
                    lock.l_whence = libc::SEEK_SET as i16;
                    lock.l_start = found.range.start as i64;
                    lock.l_len = match found.range.end {
                        u64::MAX => 0,
                        end => (end - found.range.start) as i64,
                    };
                    lock.l_pid = std::process::id() as i32;
                }
            }
            Ok(())
        }
        (libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW, Some(kind)) => {
            Ok(open.file.lock_range(by, kind, range, waits)?)
        }
        (libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW, None) => {
            Ok(open.file.unlock_range(by, range)?)
        }
        _ => Err(Fault::invalid(format!("the command {command} is of no lock"))),
    }
}

/// # Safety
/// `lock` is null, or good for a `struct flock` to be read and written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_fcntl_lock(fd: c_int, command: c_int, lock: *mut libc::flock) -> c_int {
    done(table::get(fd).and_then(|open| {
        if lock.is_null() {
            return Err(bad_address("a lock"));
        }
        // SAFETY: the caller's promise; a copy, so that other threads may read it meanwhile.
        let mut copy = unsafe { lock.read() };
        record_lock(&open, command, &mut copy)?;
        if matches!(command, libc::F_GETLK | libc::F_OFD_GETLK) {
            // SAFETY: as above.
            unsafe { lock.write(copy) };
        }
        Ok(())
    }))
}

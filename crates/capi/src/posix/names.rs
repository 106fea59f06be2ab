//! Names: made, moved, removed.

use super::caller::{self, with_place};
use super::{copy_out, done, path, require_flags, table};
use crate::fault::{Fault, Result, answer};
use everbyte_posix::{Errno, FileKind, RenameFlags};
use std::ffi::{c_char, c_int, c_uint};

const HERE: c_int = libc::AT_FDCWD;

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_mkdir(path: *const c_char, mode: libc::mode_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { eb_mkdirat(HERE, path, mode) }
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_mkdirat(fd: c_int, path: *const c_char, mode: libc::mode_t) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { self::path(path) }.and_then(|path| {
        caller::at(fd, path, |process, at| process.make_directory(at, (mode & 0o7777) as u16))?;
        Ok(())
    }))
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_mknod(path: *const c_char, mode: libc::mode_t, device: libc::dev_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { eb_mknodat(HERE, path, mode, device) }
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_mknodat(
    fd: c_int,
    path: *const c_char,
    mode: libc::mode_t,
    device: libc::dev_t,
) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { self::path(path) }.and_then(|path| {
        let kind = match mode & libc::S_IFMT {
            0 => FileKind::Regular,
            bits => FileKind::ALL
                .into_iter()
                .find(|kind| u32::from(kind.bits()) == bits)
                .ok_or_else(|| Fault::invalid(format!("{bits:#o} is no type of a file")))?,
        };
        caller::at(fd, path, |process, at| process.make_node(at, kind, (mode & 0o7777) as u16, device))?;
        Ok(())
    }))
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_symlink(target: *const c_char, path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { eb_symlinkat(target, HERE, path) }
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_symlinkat(target: *const c_char, fd: c_int, path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let paths = unsafe { two(target, path) };
    done(paths.and_then(|(target, path)| {
        caller::at(fd, path, |process, at| process.make_link(target, at))?;
        Ok(())
    }))
}

/// # Safety
/// As said in `posix/mod.rs`.
unsafe fn two<'p>(one: *const c_char, other: *const c_char) -> Result<(&'p [u8], &'p [u8])> {
    // SAFETY: the caller's promise.
    let one = unsafe { path(one) }?;
    // SAFETY: as above.
    Ok((one, unsafe { path(other) }?))
}

/// # Safety
/// As said in `posix/mod.rs`; `into` is null, or good for `room` bytes to be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_readlink(path: *const c_char, into: *mut c_char, room: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { eb_readlinkat(HERE, path, into, room) }
}

/// # Safety
/// As [`eb_readlink`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_readlinkat(fd: c_int, path: *const c_char, into: *mut c_char, room: usize) -> isize {
    // SAFETY: the caller's promise.
    let copied = unsafe { self::path(path) }.and_then(|path| {
        if room == 0 {
            return Err(Fault::invalid("no room for a target"));
        }
        let target = caller::at(fd, path, |process, at| process.read_link(at))?;
        let len = target.len().min(room);
        // SAFETY: as above.
        unsafe { copy_out(&target[..len], into.cast(), room) }?;
        Ok(len)
    });
    answer(copied, -1, |len| len as isize)
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_link(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { eb_linkat(HERE, from, HERE, to, 0) }
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_linkat(
    from_fd: c_int,
    from: *const c_char,
    to_fd: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { two(from, to) }.and_then(|(from, to)| {
        require_flags(flags, libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH)?;
        if from.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            let open = table::get(from_fd)?;
            return with_place(to_fd, to, |place, at| {
                require_same(place.volume.id, open.volume.id)?;
                Ok(place.process.read().link_open(&open.file, at)?)
            });
        }
        with_place(from_fd, from, |source, from| {
            with_place(to_fd, to, |place, to| {
                require_same(source.volume.id, place.volume.id)?;
                let process = place.process.read();
                let linked = match flags & libc::AT_SYMLINK_FOLLOW {
                    0 => process.link(from, to),
                    _ => process.link_followed(from, to),
                };
                Ok(linked?)
            })
        })
    }))
}

/// Refuses a change in two volumes.
fn require_same(one: u64, other: u64) -> Result<()> {
    if one == other { Ok(()) } else { Err(everbyte_posix::Error::from(Errno::EXDEV).into()) }
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_unlink(path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { eb_unlinkat(HERE, path, 0) }
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_rmdir(path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { eb_unlinkat(HERE, path, libc::AT_REMOVEDIR) }
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_unlinkat(fd: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { self::path(path) }.and_then(|path| {
        require_flags(flags, libc::AT_REMOVEDIR)?;
        caller::at(fd, path, |process, at| match flags {
            0 => process.remove(at),
            _ => process.remove_directory(at),
        })
    }))
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { eb_renameat2(HERE, from, HERE, to, 0) }
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_renameat(
    from_fd: c_int,
    from: *const c_char,
    to_fd: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { eb_renameat2(from_fd, from, to_fd, to, 0) }
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_renameat2(
    from_fd: c_int,
    from: *const c_char,
    to_fd: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { two(from, to) }.and_then(|(from, to)| {
        require_flags(flags as c_int, RenameFlags::all().bits() as c_int)?;
        with_place(from_fd, from, |source, from| {
            with_place(to_fd, to, |place, to| {
                require_same(source.volume.id, place.volume.id)?;
                Ok(place.process.read().rename(from, to, RenameFlags::from_bits_truncate(flags))?)
            })
        })
    }))
}

//! `posix.h`: the calls of a POSIX file system on volumes. The header states their promises.
//!
//! * `volumes`: making, opening and closing of volumes.
//! * `table`: the descriptors of this process, and the volumes that they belong to.
//! * `caller`: users, masks and working directories.
//! * `open`: descriptors made and closed, their flags and locks.
//! * `bytes`: bytes of open files.
//! * `maps`: ranges of open files that are mapped.
//! * `attributes`, `status`: attributes, set and told.
//! * `names`: names made, moved and removed.
//! * `directory`: streams of names.
//! * `xattrs`, `handle`: extended attributes, persistent handles.
//!
//! Safety, for all of them: a path, and the name of an attribute, is a string that ends with a zero
//! byte, or null; other pointers are valid for the bytes that the header says, or null.

mod attributes;
mod bytes;
mod caller;
mod directory;
mod handle;
mod maps;
mod names;
mod open;
mod status;
mod table;
mod volumes;
mod xattrs;

use crate::fault::{Fault, Result, answer};
use everbyte_posix::PATH_MAX;
use std::ffi::{c_char, c_int};

impl From<everbyte_posix::Error> for Fault {
    fn from(error: everbyte_posix::Error) -> Fault {
        Fault::new(error.errno().0, error.to_string())
    }
}

/// An error of making or opening a volume; those of the store have the numbers of `heapo.h`.
fn of_volume(error: everbyte_fs::Error) -> Fault {
    match error {
        everbyte_fs::Error::Store(error) => error.into(),
        everbyte_fs::Error::Media(error) => error.into(),
        error => everbyte_posix::Error::from(error).into(),
    }
}

/// A null pointer, or one that no object can have.
fn bad_address(of: &str) -> Fault {
    Fault::new(libc::EFAULT, format!("a null pointer to {of}"))
}

/// The bytes of a path. A longer one than any that is permitted is cut, and is refused then.
///
/// # Safety
/// As said at the top of the file.
unsafe fn path<'p>(path: *const c_char) -> Result<&'p [u8]> {
    // SAFETY: the caller's promise.
    unsafe { text(path, PATH_MAX + 1) }
}

/// The bytes of a string, at most `most` of them.
///
/// # Safety
/// As said at the top of the file.
unsafe fn text<'p>(text: *const c_char, most: usize) -> Result<&'p [u8]> {
    if text.is_null() {
        return Err(bad_address("a string"));
    }
    // SAFETY: the caller's promise: readable up to its end, or to this many bytes.
    let len = unsafe { libc::strnlen(text, most) };
    // SAFETY: so many bytes were just read; the caller keeps them during this call.
    Ok(unsafe { std::slice::from_raw_parts(text.cast(), len) })
}

/// Stores a value for the caller.
///
/// # Safety
/// `to` is null, or good for a value to be written.
unsafe fn store<T>(to: *mut T, value: T) -> Result<()> {
    if to.is_null() {
        return Err(bad_address("room for the result"));
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

/// Copies bytes to room of the caller, where they must fit.
///
/// # Safety
/// `to` is null, or good for `room` bytes to be written.
unsafe fn copy_out(bytes: &[u8], to: *mut u8, room: usize) -> Result<()> {
    if bytes.len() > room {
        return Err(everbyte_posix::Error::from(everbyte_posix::Errno::ERANGE).into());
    }
    if to.is_null() {
        return Err(bad_address("room for bytes"));
    }
    // SAFETY: the caller's promise; the bytes are our own, and no more than the room.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    Ok(())
}

/// The result of a call without a value: 0, or -1.
fn done(result: Result<()>) -> c_int {
    answer(result, -1, |()| 0)
}

/// The result of a call that returns a number, or -1.
fn number(result: Result<u64>) -> i64 {
    let fits = |number| i64::try_from(number).map_err(|_| Fault::new(libc::EOVERFLOW, "the result does not fit"));
    answer(result.and_then(fits), -1, |number| number)
}

/// An argument that must not be negative.
fn positive(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| Fault::invalid(format!("{number} is negative")))
}

/// Refuses flags that a call does not know.
fn require_flags(flags: c_int, known: c_int) -> Result<()> {
    match flags & !known {
        0 => Ok(()),
        unknown => Err(Fault::invalid(format!("unknown flags {unknown:#x}"))),
    }
}

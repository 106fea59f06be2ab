//! `kv.h`: the ordered key-value store. The header states the promises of each call.
//!
//! * `handles`: the numbers that stand for open things.
//! * `calls`: stores, tables, views and cursors, versions, compaction.
//! * `batches`: batches of a thread.
//!
//! Invariant CKV-1: no panic leaves a call; one is a failure with EIO.
//!
//! Safety, for all of them: a name is a string that ends with a zero byte, or null; a pointer to
//! bytes is valid for the given length, or null; a pointer to a result is good for it to be
//! written, or null; `each` may be called with a name and `context`.

mod batches;
mod calls;
mod handles;

use crate::fault::{Fault, Result, answer};
use everbyte_kv::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Longer names are refused before they are read.
const NAME_READ: usize = 4096;

/// The result of a call, or the failure that a panic is (CKV-1).
fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    let bug = |_| Err(Fault::new(libc::EIO, "a bug in the library ended this call; close the store and check it"));
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(bug)
}

fn done(call: impl FnOnce() -> Result<()>) -> c_int {
    answer(caught(call), 0, |()| 1)
}

fn handle(call: impl FnOnce() -> Result<u64>) -> u64 {
    answer(caught(call), 0, |handle| handle)
}

fn null(of: &str) -> Fault {
    Fault::new(libc::EFAULT, format!("a null pointer to {of}"))
}

fn absent() -> Fault {
    Fault::new(libc::ENOENT, "the key is not there")
}

/// A batch in the same thread: the numbers of `heapo.h` have a finer one than its kind has.
fn own_batch() -> Fault {
    Fault::new(libc::EBUSY, Error::OwnBatch.to_string())
}

fn fault(error: Error) -> Fault {
    if matches!(error, Error::OwnBatch) { own_batch() } else { error.into() }
}

/// # Safety
/// As said at the top of the file.
unsafe fn name<'n>(name: *const c_char) -> Result<&'n str> {
    if name.is_null() {
        return Err(null("a name"));
    }
    // SAFETY: the caller's promise: readable up to its end, or to this many bytes.
    if unsafe { libc::strnlen(name, NAME_READ) } == NAME_READ {
        return Err(Fault::invalid("a name of more than 4095 bytes"));
    }
    // SAFETY: it ends with a zero byte, which was just found.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().map_err(|_| Fault::invalid("a name is UTF-8"))
}

/// # Safety
/// As said at the top of the file.
unsafe fn bytes<'b>(start: *const c_void, len: usize) -> Result<&'b [u8]> {
    match (start.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null("bytes")),
        _ if len > isize::MAX as usize => Err(Fault::invalid("more bytes than memory has")),
        // SAFETY: the caller's promise; a concurrent store by C code is a data race of the program.
        _ => Ok(unsafe { std::slice::from_raw_parts(start.cast(), len) }),
    }
}

/// # Safety
/// As said at the top of the file.
unsafe fn border<'b>(start: *const c_void, len: usize) -> Result<Option<&'b [u8]>> {
    // SAFETY: the caller's promise.
    if start.is_null() && len == 0 { Ok(None) } else { unsafe { bytes(start, len) }.map(Some) }
}

/// Stores a result for the caller, if it wants it.
///
/// # Safety
/// As said at the top of the file.
unsafe fn store<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's promise.
        unsafe { to.write_unaligned(value) };
    }
}

/// Copies a value for the caller.
///
/// # Safety
/// `value` is null or has room for `room` bytes; `len` as said at the top of the file.
unsafe fn give(found: Option<Vec<u8>>, value: *mut c_void, room: usize, len: *mut usize) -> Result<()> {
    let found = found.ok_or_else(absent)?;
    if value.is_null() && room > 0 {
        return Err(null("room for a value"));
    }
    let count = found.len().min(room);
    if count > 0 {
        // SAFETY: room for so many bytes, as the caller says.
        unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), value.cast(), count) };
    }
    // SAFETY: the caller's promise.
    unsafe { store(len, found.len()) };
    Ok(())
}

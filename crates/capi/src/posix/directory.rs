//! Streams of the names of directories.
//!
//! Safety, for all functions with a stream: it came from `eb_opendir` or `eb_fdopendir`, was not
//! closed, and no other thread uses it meanwhile; or it is null.

use super::{bad_address, done, path, table};
use crate::fault::{Fault, Result, answer};
use everbyte_posix::{DirectoryEntry, FileKind, OpenFlags, Seek};
use std::collections::VecDeque;
use std::ffi::{c_char, c_int};
use std::mem::zeroed;
use std::ptr::null_mut;

/// Names that are read at once.
const AHEAD: usize = 64;

/// A stream, `struct eb_dir` in C.
pub(crate) struct Stream {
    fd: c_int,
    /// The cookie behind the last name that was handed out.
    at: u64,
    ahead: VecDeque<DirectoryEntry>,
    /// The name that was handed out last.
    entry: libc::dirent,
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_opendir(path: *const c_char) -> *mut Stream {
    // SAFETY: the caller's promise.
    let opened = unsafe { self::path(path) }.and_then(|path| {
        super::caller::with_place(libc::AT_FDCWD, path, |place, at| {
            let file = place.process.read().open(at, OpenFlags::DIRECTORY, 0)?;
            table::add(file, place.volume.clone(), 0)
        })
    });
    answer(opened, null_mut(), |fd| stream(fd, 0))
}

fn stream(fd: c_int, at: u64) -> *mut Stream {
    // SAFETY: a struct of numbers, for which zeros are valid.
    let entry = unsafe { zeroed() };
    Box::into_raw(Box::new(Stream { fd, at, ahead: VecDeque::new(), entry }))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_fdopendir(fd: c_int) -> *mut Stream {
    let at = table::get(fd).and_then(|open| {
        if open.file.kind() != FileKind::Directory {
            return Err(Fault::new(libc::ENOTDIR, "not a directory"));
        }
        Ok(open.file.seek(Seek::Current(0))?)
    });
    answer(at, null_mut(), |at| stream(fd, at))
}

/// # Safety
/// As said at the top of the file.
unsafe fn of<'s>(stream: *mut Stream) -> Result<&'s mut Stream> {
    // SAFETY: the caller's promise: made by `Box::into_raw`, and of one thread.
    unsafe { stream.as_mut() }.ok_or_else(|| bad_address("a stream of names"))
}

impl Stream {
    /// The next name, or null at the end.
    fn next(&mut self) -> Result<*mut libc::dirent> {
        if self.ahead.is_empty() {
            self.ahead = table::get(self.fd)?.file.entries_from(self.at, AHEAD)?.into();
        }
        let Some(next) = self.ahead.pop_front() else { return Ok(null_mut()) };
        self.at = next.next;
        let entry = &mut self.entry;
        entry.d_ino = next.ino.0;
        entry.d_off = next.next as i64;
        entry.d_reclen = size_of::<libc::dirent>() as u16;
        entry.d_type = (next.kind.bits() >> 12) as u8;
        let len = next.name.len().min(entry.d_name.len() - 1);
        for (to, byte) in entry.d_name.iter_mut().zip(&next.name[..len]) {
            *to = *byte as c_char;
        }
        entry.d_name[len] = 0;
        Ok(entry)
    }

    fn seek(&mut self, at: u64) {
        self.at = at;
        self.ahead.clear();
    }
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_readdir(stream: *mut Stream) -> *mut libc::dirent {
    // SAFETY: the caller's promise.
    answer(unsafe { of(stream) }.and_then(Stream::next), null_mut(), |entry| entry)
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_telldir(stream: *mut Stream) -> i64 {
    // SAFETY: the caller's promise.
    answer(unsafe { of(stream) }, -1, |stream| stream.at as i64)
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_seekdir(stream: *mut Stream, at: i64) {
    // SAFETY: the caller's promise.
    answer(unsafe { of(stream) }, (), |stream| stream.seek(at as u64));
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_rewinddir(stream: *mut Stream) {
    // SAFETY: the caller's promise.
    unsafe { eb_seekdir(stream, 0) }
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_dirfd(stream: *mut Stream) -> c_int {
    // SAFETY: the caller's promise.
    answer(unsafe { of(stream) }, -1, |stream| stream.fd)
}

/// # Safety
/// As said at the top of the file; the stream is not used any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_closedir(stream: *mut Stream) -> c_int {
    if stream.is_null() {
        return done(Err(bad_address("a stream of names")));
    }
    // SAFETY: the caller's promise: made by `Box::into_raw`.
    let stream = unsafe { Box::from_raw(stream) };
    done(table::remove(stream.fd))
}

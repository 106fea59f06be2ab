//! Bytes of open files: read, written, copied, and the pages that they have.

use super::table::{self, Descriptor};
use super::{bad_address, caller, done, number, positive, require_flags};
use crate::fault::{Fault, Result};
use everbyte_posix::{AllocateMode, Seek};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::io::{IoSlice, IoSliceMut};

/// Bytes of one call, as Linux limits them.
const MOST: usize = 0x7fff_f000;
/// Buffers of one call.
const BUFFERS: c_int = 1024;

/// Room of the caller.
///
/// # Safety
/// `start` is null, or good for `len` bytes to be written, which nothing else touches during the
/// call.
unsafe fn room<'b>(start: *mut c_void, len: usize) -> Result<&'b mut [u8]> {
    match (start.is_null(), len.min(MOST)) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(bad_address("room for bytes")),
        // SAFETY: the caller's promise.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), len) }),
    }
}

/// Bytes of the caller.
///
/// # Safety
/// `start` is null, or good for `len` bytes to be read.
unsafe fn given<'b>(start: *const c_void, len: usize) -> Result<&'b [u8]> {
    match (start.is_null(), len.min(MOST)) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(bad_address("bytes")),
        // SAFETY: the caller's promise.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts(start.cast(), len) }),
    }
}

/// The buffers of a vectored call.
///
/// # Safety
/// `parts` is null, or good for `count` elements to be read.
unsafe fn buffers<'b>(parts: *const libc::iovec, count: c_int) -> Result<&'b [libc::iovec]> {
    if !(0..=BUFFERS).contains(&count) {
        return Err(Fault::invalid(format!("{count} buffers; a call takes up to {BUFFERS}")));
    }
    if count == 0 {
        return Ok(&[]);
    }
    if parts.is_null() {
        return Err(bad_address("buffers"));
    }
    // SAFETY: the caller's promise.
    let parts = unsafe { std::slice::from_raw_parts(parts, count as usize) };
    let total = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.iov_len));
    match total.is_some_and(|total| total <= MOST) {
        true => Ok(parts),
        false => Err(Fault::invalid("the buffers have more bytes than one call takes")),
    }
}

fn read(fd: c_int, call: impl FnOnce(&Descriptor) -> Result<usize>) -> isize {
    number(table::get(fd).and_then(|open| Ok(call(&open)? as u64))) as isize
}

/// # Safety
/// `into` is null, or good for `len` bytes to be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_read(fd: c_int, into: *mut c_void, len: usize) -> isize {
    // SAFETY: the caller's promise.
    read(fd, |open| Ok(open.file.read(unsafe { room(into, len) }?)?))
}

/// # Safety
/// As [`eb_read`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_pread(fd: c_int, into: *mut c_void, len: usize, at: i64) -> isize {
    // SAFETY: the caller's promise.
    read(fd, |open| Ok(open.file.read_at(unsafe { room(into, len) }?, positive(at)?)?))
}

/// The buffers of a vectored read.
///
/// # Safety
/// As [`buffers`] and [`room`].
unsafe fn rooms<'b>(parts: *const libc::iovec, count: c_int) -> Result<Vec<IoSliceMut<'b>>> {
    // SAFETY: the caller's promise.
    let parts = unsafe { buffers(parts, count) }?;
    // SAFETY: as above.
    parts.iter().map(|part| Ok(IoSliceMut::new(unsafe { room(part.iov_base, part.iov_len) }?))).collect()
}

/// # Safety
/// `parts` is null, or good for `count` elements, each null or good for its bytes to be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_readv(fd: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    // SAFETY: the caller's promise.
    read(fd, |open| Ok(open.file.read_vectored(&mut unsafe { rooms(parts, count) }?)?))
}

/// # Safety
/// As [`eb_readv`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_preadv(fd: c_int, parts: *const libc::iovec, count: c_int, at: i64) -> isize {
    // SAFETY: the caller's promise.
    read(fd, |open| Ok(open.file.read_vectored_at(&mut unsafe { rooms(parts, count) }?, positive(at)?)?))
}

/// # Safety
/// `bytes` is null, or good for `len` bytes to be read.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_write(fd: c_int, bytes: *const c_void, len: usize) -> isize {
    // SAFETY: the caller's promise.
    read(fd, |open| Ok(open.file.write(unsafe { given(bytes, len) }?)?))
}

/// # Safety
/// As [`eb_write`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_pwrite(fd: c_int, bytes: *const c_void, len: usize, at: i64) -> isize {
    // SAFETY: the caller's promise.
    read(fd, |open| Ok(open.file.write_at(unsafe { given(bytes, len) }?, positive(at)?)?))
}

/// The buffers of a vectored write.
///
/// # Safety
/// As [`buffers`] and [`given`].
unsafe fn gifts<'b>(parts: *const libc::iovec, count: c_int) -> Result<Vec<IoSlice<'b>>> {
    // SAFETY: the caller's promise.
    let parts = unsafe { buffers(parts, count) }?;
    // SAFETY: as above.
    parts.iter().map(|part| Ok(IoSlice::new(unsafe { given(part.iov_base, part.iov_len) }?))).collect()
}

/// # Safety
/// `parts` is null, or good for `count` elements, each null or good for its bytes to be read.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_writev(fd: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    // SAFETY: the caller's promise.
    read(fd, |open| Ok(open.file.write_vectored(&unsafe { gifts(parts, count) }?)?))
}

/// # Safety
/// As [`eb_writev`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_pwritev(fd: c_int, parts: *const libc::iovec, count: c_int, at: i64) -> isize {
    // SAFETY: the caller's promise.
    read(fd, |open| Ok(open.file.write_vectored_at(&unsafe { gifts(parts, count) }?, positive(at)?)?))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_lseek(fd: c_int, offset: i64, whence: c_int) -> i64 {
    number(table::get(fd).and_then(|open| {
        let behind = || u64::try_from(offset).map_err(|_| Fault::new(libc::ENXIO, "no data lies before the start"));
        let to = match whence {
            libc::SEEK_SET => Seek::Start(positive(offset)?),
            libc::SEEK_CUR => Seek::Current(offset),
            libc::SEEK_END => Seek::End(offset),
            libc::SEEK_DATA => Seek::Data(behind()?),
            libc::SEEK_HOLE => Seek::Hole(behind()?),
            other => return Err(Fault::invalid(format!("no offset begins at {other}"))),
        };
        Ok(open.file.seek(to)?)
    }))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_fsync(fd: c_int) -> c_int {
    done(table::get(fd).and_then(|open| Ok(open.file.sync()?)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_fdatasync(fd: c_int) -> c_int {
    eb_fsync(fd)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_ftruncate(fd: c_int, size: i64) -> c_int {
    done(table::get(fd).and_then(|open| Ok(open.file.set_size(positive(size)?)?)))
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_truncate(path: *const c_char, size: i64) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { super::path(path) }.and_then(|path| {
        let size = positive(size)?;
        caller::at(libc::AT_FDCWD, path, |process, at| process.truncate(at, size))
    }))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_fallocate(fd: c_int, mode: c_int, at: i64, len: i64) -> c_int {
    done(table::get(fd).and_then(|open| {
        let mode = AllocateMode::from_bits_retain(mode as u32);
        Ok(open.file.allocate(mode, positive(at)?, positive(len)?)?)
    }))
}

/// The offset of one side of a copy: the caller's, or that of the open file.
///
/// # Safety
/// `at` is null, or good for an offset to be read.
unsafe fn offset(open: &Descriptor, at: *const i64) -> Result<u64> {
    match at.is_null() {
        true => Ok(open.file.seek(Seek::Current(0))?),
        // SAFETY: the caller's promise.
        false => positive(unsafe { at.read() }),
    }
}

/// Moves that offset.
///
/// # Safety
/// `at` is null, or good for an offset to be written.
unsafe fn advance(open: &Descriptor, at: *mut i64, to: u64) -> Result<()> {
    match at.is_null() {
        true => drop(open.file.seek(Seek::Start(to))?),
        // SAFETY: the caller's promise.
        false => unsafe { at.write(to as i64) },
    }
    Ok(())
}

/// # Safety
/// `from_at` and `to_at` are null, or good for an offset to be read and written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_copy_file_range(
    from: c_int,
    from_at: *mut i64,
    to: c_int,
    to_at: *mut i64,
    len: usize,
    flags: c_uint,
) -> isize {
    let copied = table::get(from).and_then(|from| {
        let to = table::get(to)?;
        require_flags(flags as c_int, 0)?;
        // SAFETY: the caller's promise.
        let (at, into) = (unsafe { offset(&from, from_at) }?, unsafe { offset(&to, to_at) }?);
        let done = from.file.copy_range(at, &to.file, into, len.min(MOST) as u64)?;
        // SAFETY: as above.
        unsafe { advance(&from, from_at, at + done) }?;
        // SAFETY: as above.
        unsafe { advance(&to, to_at, into + done) }?;
        Ok(done)
    });
    number(copied) as isize
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_clone_range(to: c_int, from: c_int, from_at: i64, len: i64, to_at: i64) -> c_int {
    done(table::get(to).and_then(|to| {
        let from = table::get(from)?;
        from.file.clone_range(positive(from_at)?, &to.file, positive(to_at)?, positive(len)?)?;
        Ok(())
    }))
}

//! Persistent handles, in the `struct file_handle` of Linux.

use super::caller::{self, with_place};
use super::{bad_address, done, path, require_flags, store, table};
use crate::fault::{Fault, Result, answer};
use everbyte_posix::{Attributes, FileHandle, OpenFlags};
use std::ffi::{c_char, c_int, c_uint};

/// `struct file_handle`, before its bytes.
#[repr(C)]
pub(crate) struct Handle {
    /// Bytes that follow; from the caller: room for them.
    bytes: c_uint,
    kind: c_int,
}

/// The type of our handles.
const KIND: c_int = 0x45;

fn handle(volume: [u8; 16], attributes: &Attributes) -> FileHandle {
    FileHandle { volume, ino: attributes.ino, generation: attributes.generation }
}

/// The handle of a file, and the number of its volume.
fn find(fd: c_int, path: &[u8], flags: c_int) -> Result<(FileHandle, u64)> {
    require_flags(flags, libc::AT_EMPTY_PATH | libc::AT_SYMLINK_FOLLOW)?;
    if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
        let open = table::get(fd)?;
        return Ok((handle(open.volume.files.volume().uuid(), &open.file.status()?), open.volume.id));
    }
    with_place(fd, path, |place, at| {
        let process = place.process.read();
        let found = match flags & libc::AT_SYMLINK_FOLLOW {
            0 => process.handle(at)?,
            _ => handle(place.volume.files.volume().uuid(), &process.status(at)?),
        };
        Ok((found, place.volume.id))
    })
}

/// # Safety
/// As said in `posix/mod.rs`; `into` is null, or a handle with room for as many bytes as it says;
/// `volume` is null, or good for a number to be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_name_to_handle_at(
    fd: c_int,
    path: *const c_char,
    into: *mut Handle,
    volume: *mut c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { self::path(path) }.and_then(|path| {
        if into.is_null() {
            return Err(bad_address("a handle"));
        }
        let (found, id) = find(fd, path, flags)?;
        // SAFETY: as above.
        let room = unsafe { (*into).bytes } as usize;
        // SAFETY: as above; the bytes follow, for which there is room if the caller says so.
        unsafe { (*into).bytes = FileHandle::LEN as c_uint };
        if room < FileHandle::LEN {
            return Err(Fault::new(libc::EOVERFLOW, "the handle does not fit"));
        }
        // SAFETY: as above.
        unsafe { (*into).kind = KIND };
        let bytes = found.bytes();
        let behind = into.wrapping_add(1).cast();
        // SAFETY: room for so many bytes behind the handle, as the caller says.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), behind, bytes.len()) };
        // SAFETY: the caller's promise.
        if volume.is_null() { Ok(()) } else { unsafe { store(volume, id as c_int) } }
    }))
}

/// # Safety
/// `from` is null, or a handle with as many bytes as it says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_open_by_handle_at(fd: c_int, from: *const Handle, flags: c_int) -> c_int {
    let opened = open(
        fd,
        || {
            if from.is_null() {
                return Err(bad_address("a handle"));
            }
            // SAFETY: the caller's promise.
            let Handle { bytes: len, kind } = unsafe { from.read() };
            let len = len as usize;
            if len != FileHandle::LEN || kind != KIND {
                return Err(Fault::invalid("no handle of a file of a volume"));
            }
            let behind = from.wrapping_add(1).cast::<u8>();
            // SAFETY: the caller's promise: so many bytes follow.
            let bytes = unsafe { std::slice::from_raw_parts(behind, len) };
            Ok(FileHandle::parse(bytes)?)
        },
        flags,
    );
    answer(opened, -1, |fd| fd)
}

fn open(fd: c_int, handle: impl FnOnce() -> Result<FileHandle>, flags: c_int) -> Result<c_int> {
    let caller = caller::current();
    let place = match fd {
        libc::AT_FDCWD => caller.working()?,
        fd => caller.place(&table::get(fd)?.volume)?,
    };
    let flags = OpenFlags::from_bits_truncate(flags as u32);
    let file = place.process.read().open_handle(&handle()?, flags)?;
    table::add(file, place.volume.clone(), 0)
}

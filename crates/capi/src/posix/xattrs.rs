//! Extended attributes.

use super::{bad_address, caller, copy_out, done, path, require_flags, table, text};
use crate::fault::{Result, answer};
use everbyte_posix::{At, OpenFile, Process, SetXattr};
use std::ffi::{c_char, c_int, c_void};

/// One byte more than the longest name, so that a longer one is refused.
const NAME_MOST: usize = 256;

/// The file of a call.
#[derive(Clone, Copy)]
enum Of {
    Path(*const c_char),
    Link(*const c_char),
    Descriptor(c_int),
}

impl Of {
    /// Runs the call of a path, of a link, or of an open file.
    ///
    /// # Safety
    /// As said in `posix/mod.rs`.
    unsafe fn run<T>(
        self,
        by_path: impl FnOnce(&Process, At<'_>) -> everbyte_posix::Result<T>,
        by_link: impl FnOnce(&Process, At<'_>) -> everbyte_posix::Result<T>,
        by_file: impl FnOnce(&OpenFile, &Process) -> everbyte_posix::Result<T>,
    ) -> Result<T> {
        match self {
            // SAFETY: the caller's promise.
            Of::Path(path) => caller::at(libc::AT_FDCWD, unsafe { self::path(path) }?, by_path),
            // SAFETY: as above.
            Of::Link(path) => caller::at(libc::AT_FDCWD, unsafe { self::path(path) }?, by_link),
            Of::Descriptor(fd) => {
                let open = table::get(fd)?;
                let place = caller::current().place(&open.volume)?;
                Ok(by_file(&open.file, &place.process.read())?)
            }
        }
    }

    /// # Safety
    /// As said in `posix/mod.rs`; `into` is null, or good for `room` bytes to be written.
    unsafe fn get(self, name: *const c_char, into: *mut c_void, room: usize) -> isize {
        // SAFETY: the caller's promise.
        let value = unsafe { text(name, NAME_MOST) }.and_then(|name| {
            // SAFETY: as above.
            unsafe {
                self.run(|by, at| by.xattr(at, name), |by, at| by.link_xattr(at, name), |file, by| file.xattr(by, name))
            }
        });
        // SAFETY: as above.
        answer(value.and_then(|value| unsafe { hand_out(&value, into, room) }), -1, |len| len)
    }

    /// # Safety
    /// As [`Of::get`].
    unsafe fn list(self, into: *mut c_void, room: usize) -> isize {
        // SAFETY: the caller's promise.
        let names = unsafe { self.run(|by, at| by.xattrs(at), |by, at| by.link_xattrs(at), OpenFile::xattrs) };
        let names = names.map(|names| names.iter().flat_map(|name| [name, &b"\0"[..]].concat()).collect::<Vec<u8>>());
        // SAFETY: as above.
        answer(names.and_then(|names| unsafe { hand_out(&names, into, room) }), -1, |len| len)
    }

    /// # Safety
    /// As said in `posix/mod.rs`; `value` is null, or good for `len` bytes to be read.
    unsafe fn set(self, name: *const c_char, value: *const c_void, len: usize, flags: c_int) -> c_int {
        // SAFETY: the caller's promise.
        done(unsafe { text(name, NAME_MOST) }.and_then(|name| {
            require_flags(flags, libc::XATTR_CREATE | libc::XATTR_REPLACE)?;
            let mode = match flags {
                0 => SetXattr::Any,
                libc::XATTR_CREATE => SetXattr::Create,
                libc::XATTR_REPLACE => SetXattr::Replace,
                _ => return Err(crate::fault::Fault::invalid("an attribute is made or replaced, not both")),
            };
            let value = match (value.is_null(), len) {
                (_, 0) => &[],
                (true, _) => return Err(bad_address("a value")),
                // A value beyond the longest one is refused, whatever its bytes.
                // SAFETY: as above.
                _ => unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len.min(1 << 20)) },
            };
            // SAFETY: as above.
            unsafe {
                self.run(
                    |by, at| by.set_xattr(at, name, value, mode),
                    |by, at| by.set_link_xattr(at, name, value, mode),
                    |file, by| file.set_xattr(by, name, value, mode),
                )
            }
        }))
    }

    /// # Safety
    /// As said in `posix/mod.rs`.
    unsafe fn remove(self, name: *const c_char) -> c_int {
        // SAFETY: the caller's promise.
        done(unsafe { text(name, NAME_MOST) }.and_then(|name| {
            // SAFETY: as above.
            unsafe {
                self.run(
                    |by, at| by.remove_xattr(at, name),
                    |by, at| by.remove_link_xattr(at, name),
                    |file, by| file.remove_xattr(by, name),
                )
            }
        }))
    }
}

/// Copies bytes out, or tells their number where there is no room.
///
/// # Safety
/// As [`Of::get`].
unsafe fn hand_out(bytes: &[u8], into: *mut c_void, room: usize) -> Result<isize> {
    if room > 0 {
        // SAFETY: the caller's promise.
        unsafe { copy_out(bytes, into.cast(), room) }?;
    }
    Ok(bytes.len() as isize)
}

/// The functions of a call: by path, by link, and by descriptor.
macro_rules! three {
    ($call:ident, $returned:ty, $by_path:ident, $by_link:ident, $by_fd:ident, ($($name:ident: $type:ty),*)) => {
        /// # Safety
        /// As said in `posix/mod.rs`; further pointers as the header says, or null.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $by_path(path: *const c_char $(, $name: $type)*) -> $returned {
            // SAFETY: the caller's promise.
            unsafe { Of::Path(path).$call($($name),*) }
        }

        /// # Safety
        /// As said in `posix/mod.rs`; further pointers as the header says, or null.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $by_link(path: *const c_char $(, $name: $type)*) -> $returned {
            // SAFETY: the caller's promise.
            unsafe { Of::Link(path).$call($($name),*) }
        }

        /// # Safety
        /// As said in `posix/mod.rs`; further pointers as the header says, or null.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $by_fd(fd: c_int $(, $name: $type)*) -> $returned {
            // SAFETY: the caller's promise.
            unsafe { Of::Descriptor(fd).$call($($name),*) }
        }
    };
}

three!(get, isize, eb_getxattr, eb_lgetxattr, eb_fgetxattr, (name: *const c_char, into: *mut c_void, room: usize));
three!(list, isize, eb_listxattr, eb_llistxattr, eb_flistxattr, (into: *mut c_void, room: usize));
three!(
    set,
    c_int,
    eb_setxattr,
    eb_lsetxattr,
    eb_fsetxattr,
    (name: *const c_char, value: *const c_void, len: usize, flags: c_int)
);
three!(remove, c_int, eb_removexattr, eb_lremovexattr, eb_fremovexattr, (name: *const c_char));

//! Calls of `heapo.h` for objects: create, map, delete, rights, limits and the prime node.
//!
//! Safety, for all of them: a name is a string that ends with a zero byte or reaches beyond 128
//! bytes, or null; other pointers are only compared with the addresses of objects, unless the
//! header says that they are read or written.

use super::mapped::Mapped;
use super::{name, object, pointer, transactions, writable};
use crate::fault::{Fault, Result, answer, done};
use crate::process::{self, Process};
use everbyte_store::Want;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

/// The default size to which an object can grow.
const SPAN: u64 = 64 << 20;

/// # Safety
/// `path` is a string that ends with a zero byte, or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_open(path: *const c_char) -> c_int {
    if path.is_null() {
        return done(Process::look().map(|_| ()));
    }
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    done(Process::open(Path::new(OsStr::from_bytes(path.to_bytes()))).map(|_| ()))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_create(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { heapo_create_sized(object, 0) }
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_create_sized(object: *const c_char, size_max: usize) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Process::get()?.create(name, process::span(size_max, SPAN)?)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_map(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Process::look()?.map(name, Want::Write)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_map_to_read(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Process::look()?.map(name, Want::Read)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_unmap(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Process::look()?.unmap(name)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_is_mapped(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let mapped = unsafe { name(object) }.and_then(|name| Ok(Process::look()?.is_mapped(name)));
    answer(mapped, 0, c_int::from)
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_delete(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Process::get()?.delete(name)))
}

/// # Safety
/// As said at the top of the file for `prefix`; `each` may be called with a name and `context`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_list(
    prefix: *const c_char,
    each: Option<unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int>,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    let prefix = if prefix.is_null() { Ok("") } else { unsafe { name(prefix) } };
    let names = prefix.and_then(|prefix| Process::look()?.names(prefix));
    let Some(each) = each else { return done(Err(Fault::invalid("no function to call with each name"))) };
    answer(names, 0, |names| {
        for name in names {
            let name = CString::new(name).expect("names hold no control characters");
            // SAFETY: the caller's promise; the name lives during the call.
            if unsafe { each(name.as_ptr(), context) } == 0 {
                break;
            }
        }
        1
    })
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_chmod(object: *const c_char, mode: c_uint) -> c_int {
    let mode = u16::try_from(mode).unwrap_or(u16::MAX);
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Ok(Process::get()?.store().chmod(name, mode)?)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_chown(object: *const c_char, owner: c_uint, group: c_uint) -> c_int {
    let [owner, group] = [owner, group].map(|id| Some(id).filter(|&id| id != c_uint::MAX));
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Ok(Process::get()?.store().chown(name, owner, group)?)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_set_resident(object: *const c_char, clusters: usize) -> c_int {
    let limit = Some(clusters as u64).filter(|&clusters| clusters > 0);
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Ok(Process::get()?.store().set_resident(name, limit, None)?)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_set_quota(object: *const c_char, clusters: usize) -> c_int {
    let quota = Some(clusters as u64).filter(|&clusters| clusters > 0);
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Ok(Process::get()?.store().set_quota(name, quota)?)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_get_prime_node(object: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    let object = unsafe { self::object(object) };
    answer(object, null_mut(), |object| pointer(object.undo.heap().object().root() as usize))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_set_prime_node(object: *const c_char, node: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { writable(object) }.and_then(|object| set_prime_node(&object, node.addr())))
}

fn set_prime_node(object: &Arc<Mapped>, node: usize) -> Result<()> {
    if node != 0 {
        object.offset(node)?;
    }
    let (root_at, media) = (object.undo.heap().object().root_at(), object.undo.media());
    if let Some(logged) = transactions::within(object, |tx| Ok(tx.store(root_at.get(), node as u64)?)) {
        return logged;
    }
    let _exclusive = object.undo.enter()?;
    media.fence(); // orders the caller's flushed data before the root that leads to it
    object.undo.heap().object().set_root(node as u64);
    Ok(media.barrier()?)
}

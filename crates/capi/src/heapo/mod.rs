//! `heapo.h` and `heapo_kv.h`: HEAPO's interface, named objects at fixed addresses. The headers
//! state the promises of each call.
//!
//! * `objects`: objects of the store, their rights and limits, and their prime nodes.
//! * `chunks`: allocation in an object, and flushes of its bytes.
//! * `transactions`: the transactions of a thread, one for each object.
//! * `locks`: objects that a thread has locked.
//! * `pairs`: key-value stores.
//! * `mapped`: an object that this process has mapped.
//!
//! Safety, for all of them: a name is a string that ends with a zero byte or reaches beyond 128
//! bytes, or null; other pointers are only compared with the addresses of objects, unless the
//! header says that they are read or written.

mod chunks;
mod locks;
pub(crate) mod mapped;
mod objects;
mod pairs;
mod transactions;

use crate::fault::{Fault, Result};
use crate::process::Process;
use everbyte_store::NAME_MAX;
use mapped::Mapped;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// The name that a program passes. A text longer than the longest name is cut, and then no
/// object has it.
///
/// # Safety
/// As said at the top of the file.
pub(crate) unsafe fn name<'n>(name: *const c_char) -> Result<&'n str> {
    if name.is_null() {
        return Err(Fault::invalid("a null pointer is no name"));
    }
    // SAFETY: the caller's promise: readable up to its end, or to this many bytes.
    let len = unsafe { libc::strnlen(name, NAME_MAX + 1) };
    // SAFETY: so many bytes were just read; the caller keeps them during this call.
    let bytes = unsafe { std::slice::from_raw_parts(name.cast::<u8>(), len) };
    std::str::from_utf8(bytes).map_err(|_| Fault::invalid("a name is UTF-8"))
}

/// The mapped object of a name.
///
/// # Safety
/// As said at the top of the file.
unsafe fn object(object: *const c_char) -> Result<Arc<Mapped>> {
    // SAFETY: the caller's promise.
    let name = unsafe { name(object) }?;
    Process::look()?.find(name)
}

/// The mapped object of a name, unless it is mapped to be read.
///
/// # Safety
/// As said at the top of the file.
unsafe fn writable(object: *const c_char) -> Result<Arc<Mapped>> {
    // SAFETY: the caller's promise.
    let object = unsafe { self::object(object) }?;
    object.require_writable()?;
    Ok(object)
}

fn pointer(address: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address)
}

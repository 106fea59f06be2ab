//! `heapo_kv.h`: HEAPO's key-value calls. The header states their promises.
//!
//! Safety, for all of them: names as in `heapo/mod.rs`; a store is one that `heapo_kv_init` or
//! `heapo_kv_open` returned and that was not closed, or null; a pointer to bytes is valid for
//! the given length, or null if the length is 0.

use super::name;
use crate::fault::{Fault, Result, answer};
use crate::process::{self, Process};
use everbyte_hkv::{Direction, Kv, KvKind, SharedKv, Tree};
use std::ffi::{c_char, c_int, c_void};
use std::ops::Bound;
use std::ptr::null_mut;

/// The default span of a key-value store.
const SPAN: u64 = 1 << 30;

/// The function that a scan calls with each pair.
type Each = unsafe extern "C" fn(*const c_void, usize, *const c_void, usize, *mut c_void) -> c_int;

fn handle(kv: Result<SharedKv>) -> *mut SharedKv {
    answer(kv, null_mut(), |kv| Box::into_raw(Box::new(kv)))
}

/// The store behind a handle.
///
/// # Safety
/// As said at the top of the file.
unsafe fn store<'h>(kv: *mut SharedKv) -> Result<&'h SharedKv> {
    // SAFETY: the caller's promise: made by `Box::into_raw`, and shared until it is closed.
    unsafe { kv.as_ref() }.ok_or_else(|| Fault::invalid("a null pointer is no key-value store"))
}

/// The bytes at `start`.
///
/// # Safety
/// As said at the top of the file.
unsafe fn bytes<'b>(start: *const c_void, len: usize) -> Result<&'b [u8]> {
    match (start.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Fault::invalid("a null pointer to bytes")),
        // SAFETY: the caller's promise; a concurrent store by C code is a data race of the program.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts(start.cast(), len) }),
    }
}

/// A store, and the bytes of a key.
///
/// # Safety
/// As said at the top of the file.
unsafe fn keyed<'b>(kv: *mut SharedKv, key: *const c_void, key_len: usize) -> Result<(&'b SharedKv, &'b [u8])> {
    // SAFETY: the caller's promise.
    let kv = unsafe { store(kv) }?;
    // SAFETY: as above.
    Ok((kv, unsafe { bytes(key, key_len) }?))
}

/// The result of a change, which is refused if its key is there, or is not there.
fn done(changed: Result<bool>, otherwise: i32, why: &str) -> c_int {
    let changed = changed.and_then(|changed| if changed { Ok(()) } else { Err(Fault::new(otherwise, why)) });
    answer(changed, 0, |()| 1)
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_kv_init(object: *const c_char, kind: c_int, size_max: usize) -> *mut SharedKv {
    // SAFETY: the caller's promise.
    handle(unsafe { name(object) }.and_then(|name| {
        let span = process::span(size_max, SPAN)?;
        let kind = match kind {
            0 => KvKind::Hash,
            1 => KvKind::Tree,
            _ => return Err(Fault::invalid("a key-value store is a hash table or a tree")),
        };
        Ok(SharedKv::create(Process::get()?.store(), name, kind, span)?)
    }))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_kv_open(object: *const c_char) -> *mut SharedKv {
    // SAFETY: the caller's promise.
    handle(unsafe { name(object) }.and_then(|name| Ok(SharedKv::open(Process::look()?.store(), name)?)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_kv_close(kv: *mut SharedKv) {
    if !kv.is_null() {
        // SAFETY: the caller's promise: it came from `Box::into_raw`, and no thread uses it any
        // more.
        drop(unsafe { Box::from_raw(kv) });
    }
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_kv_insert(
    kv: *mut SharedKv,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let inserted = unsafe { change(kv, (key, key_len), (value, value_len), Kv::insert) };
    done(inserted, libc::EEXIST, "the key is there already; update it")
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_kv_update(
    kv: *mut SharedKv,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let updated = unsafe { change(kv, (key, key_len), (value, value_len), Kv::update) };
    done(updated, libc::ENOENT, "the key is not there; insert it")
}

/// Stores a value under a key, as `how` does.
///
/// # Safety
/// As said at the top of the file.
unsafe fn change(
    kv: *mut SharedKv,
    (key, key_len): (*const c_void, usize),
    (value, value_len): (*const c_void, usize),
    how: impl FnOnce(&Kv, &[u8], &[u8]) -> everbyte_hkv::Result<bool>,
) -> Result<bool> {
    // SAFETY: the caller's promise.
    let (kv, key) = unsafe { keyed(kv, key, key_len) }?;
    // SAFETY: as above.
    let value = unsafe { bytes(value, value_len) }?;
    Process::get()?;
    Ok(kv.change(|kv| how(kv, key, value))?)
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_kv_delete(kv: *mut SharedKv, key: *const c_void, key_len: usize) -> c_int {
    // SAFETY: the caller's promise.
    let keyed = unsafe { keyed(kv, key, key_len) };
    let deleted = keyed.and_then(|(kv, key)| {
        Process::get()?;
        Ok(kv.change(|kv| kv.delete(key))?)
    });
    done(deleted, libc::ENOENT, "the key is not there")
}

/// # Safety
/// As said at the top of the file; `value` is good for `room` bytes to be written, `value_len` for
/// one length, or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_kv_lookup(
    kv: *mut SharedKv,
    key: *const c_void,
    key_len: usize,
    value: *mut c_void,
    room: usize,
    value_len: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let keyed = unsafe { keyed(kv, key, key_len) };
    let found = keyed.and_then(|(kv, key)| {
        let found = kv.look(|kv| kv.get(key))?.ok_or_else(|| Fault::new(libc::ENOENT, "the key is not there"))?;
        match value.is_null() && room > 0 {
            true => Err(Fault::invalid("a null pointer to room for a value")),
            false => Ok(found),
        }
    });
    answer(found, 0, |found| {
        let copied = found.len().min(room);
        if copied > 0 {
            // SAFETY: `copied` bytes of our own, and no more than the room that the caller
            // promises.
            unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), value.cast(), copied) };
        }
        if !value_len.is_null() {
            // SAFETY: the caller's promise.
            unsafe { value_len.write(found.len()) };
        }
        1
    })
}

/// # Safety
/// As said at the top of the file; `each` may be called with a pair and `context`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_kv_scan(kv: *mut SharedKv, each: Option<Each>, context: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let kv = unsafe { store(kv) };
    // SAFETY: as above.
    let each = unsafe { hand_out(each, context) };
    answer(kv.and_then(|kv| each.and_then(|each| Ok(kv.look(|kv| kv.scan(each))?))), 0, |()| 1)
}

/// # Safety
/// As said at the top of the file; `each` may be called with a pair and `context`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_kv_scan_range(
    kv: *mut SharedKv,
    from: *const c_void,
    from_len: usize,
    to: *const c_void,
    to_len: usize,
    way: c_int,
    each: Option<Each>,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    let bounds = unsafe { keyed(kv, from, from_len) }.and_then(|(kv, from)| {
        let to = match to.is_null() && to_len == 0 {
            true => Bound::Unbounded,
            // SAFETY: as above.
            false => Bound::Excluded(unsafe { bytes(to, to_len) }?),
        };
        Ok((kv, (Bound::Included(from), to)))
    });
    let scanned = bounds.and_then(|(kv, bounds)| {
        // SAFETY: as above.
        let (way, each) = (direction(way)?, unsafe { hand_out(each, context) }?);
        kv.look(|kv| Ok(tree(kv)?.range(bounds, way, each)?))
    });
    answer(scanned, 0, |()| 1)
}

/// # Safety
/// As said at the top of the file; `each` may be called with a pair and `context`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_kv_scan_prefix(
    kv: *mut SharedKv,
    prefix: *const c_void,
    prefix_len: usize,
    way: c_int,
    each: Option<Each>,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    let scanned = unsafe { keyed(kv, prefix, prefix_len) }.and_then(|(kv, prefix)| {
        // SAFETY: as above.
        let (way, each) = (direction(way)?, unsafe { hand_out(each, context) }?);
        kv.look(|kv| Ok(tree(kv)?.prefix(prefix, way, each)?))
    });
    answer(scanned, 0, |()| 1)
}

fn tree(kv: &Kv) -> Result<&Tree> {
    match kv {
        Kv::Tree(tree) => Ok(tree),
        Kv::Hash(_) => Err(Fault::new(libc::ENOTSUP, "a hash table has no order: scan it whole, or make a tree")),
    }
}

fn direction(way: c_int) -> Result<Direction> {
    match way {
        0 => Ok(Direction::Forward),
        1 => Ok(Direction::Backward),
        _ => Err(Fault::invalid("a scan goes forward or backward")),
    }
}

/// A closure that calls `each` with a pair.
///
/// # Safety
/// `each` may be called with a pair and `context` as long as the result lives.
unsafe fn hand_out(each: Option<Each>, context: *mut c_void) -> Result<impl FnMut(&[u8], &[u8]) -> bool> {
    let each = each.ok_or_else(|| Fault::invalid("no function to call with each pair"))?;
    Ok(move |key: &[u8], value: &[u8]| {
        // SAFETY: the caller's promise; key and value live during the call.
        unsafe { each(key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len(), context) != 0 }
    })
}

//! `heapo.h`: HEAPO's calls, each a line or two over the rooms below. The header says what they
//! promise.
//!
//! Safety, for all of them: a name is a string that ends with a zero byte or reaches beyond 128
//! bytes, or null; other pointers are only compared with where objects lie, unless the header says
//! that they are read or written.

use crate::fault::{Fault, Result, answer, done};
use crate::held;
use crate::mapped::Mapped;
use crate::process::{self, Process};
use crate::running::{self, End};
use everbyte_heap::Heap;
use everbyte_store::{Exclusive, NAME_MAX, Want};
use everbyte_tx::Tx;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

/// What an object can grow to unless its maker says otherwise.
const SPAN: u64 = 64 << 20;

/// The name that a program handed over; longer ones than names can be are cut, which makes them
/// none.
///
/// # Safety
/// As said at the top of the file.
pub(crate) unsafe fn name<'n>(name: *const c_char) -> Result<&'n str> {
    if name.is_null() {
        return Err(Fault::invalid("a null pointer is no name"));
    }
    // SAFETY: the caller's promise: readable up to its end, or to this many bytes.
    let len = unsafe { libc::strnlen(name, NAME_MAX + 1) };
    // SAFETY: so many bytes were just read; they stay the caller's, who is inside this call.
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

/// The mapped object of a name, if it may be changed.
///
/// # Safety
/// As said at the top of the file.
unsafe fn writable(object: *const c_char) -> Result<Arc<Mapped>> {
    // SAFETY: the caller's promise.
    let object = unsafe { self::object(object) }?;
    object.require_writable()?;
    Ok(object)
}

/// Runs `body` in this thread's transaction on `object`, or in one of its own, which is ordered on
/// return.
fn transact<T>(object: &Arc<Mapped>, body: impl Fn(&Tx<'_>) -> Result<T>) -> Result<T> {
    running::within(object, &body).unwrap_or_else(|| {
        let _exclusive = object.undo.enter()?;
        Ok(object.undo.run_ordered(body)?.value)
    })
}

/// Changes the size of a heap.
fn resize(object: &Arc<Mapped>, change: impl FnOnce(&Heap) -> everbyte_heap::Result<()>) -> Result<()> {
    let exclusive = object.undo.enter()?;
    exclusive.iter().for_each(Exclusive::changed);
    Ok(change(object.undo.heap())?)
}

fn pointer(address: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address)
}

/// # Safety
/// `path` is a string that ends with a zero byte, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_open(path: *const c_char) -> c_int {
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
pub unsafe extern "C" fn heapo_create(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { heapo_create_sized(object, 0) }
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_create_sized(object: *const c_char, size_max: usize) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Process::get()?.create(name, process::span(size_max, SPAN)?)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_map(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Process::look()?.map(name, Want::Write)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_map_to_read(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Process::look()?.map(name, Want::Read)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_unmap(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Process::look()?.unmap(name)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_is_mapped(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let mapped = unsafe { name(object) }.and_then(|name| Ok(Process::look()?.is_mapped(name)));
    answer(mapped, 0, c_int::from)
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_delete(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Process::get()?.delete(name)))
}

/// # Safety
/// As said at the top of the file for `prefix`; `each` may be called with a name and `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_list(
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
pub unsafe extern "C" fn heapo_chmod(object: *const c_char, mode: c_uint) -> c_int {
    let mode = u16::try_from(mode).unwrap_or(u16::MAX);
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Ok(Process::get()?.store().chmod(name, mode)?)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_chown(object: *const c_char, owner: c_uint, group: c_uint) -> c_int {
    let [owner, group] = [owner, group].map(|id| Some(id).filter(|&id| id != c_uint::MAX));
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Ok(Process::get()?.store().chown(name, owner, group)?)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_set_resident(object: *const c_char, clusters: usize) -> c_int {
    let limit = Some(clusters as u64).filter(|&clusters| clusters > 0);
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Ok(Process::get()?.store().set_resident(name, limit, None)?)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_set_quota(object: *const c_char, clusters: usize) -> c_int {
    let quota = Some(clusters as u64).filter(|&clusters| clusters > 0);
    // SAFETY: the caller's promise.
    done(unsafe { name(object) }.and_then(|name| Ok(Process::get()?.store().set_quota(name, quota)?)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_get_prime_node(object: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    let object = unsafe { self::object(object) };
    answer(object, null_mut(), |object| pointer(object.undo.heap().object().root() as usize))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_set_prime_node(object: *const c_char, node: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { writable(object) }.and_then(|object| set_prime_node(&object, node.addr())))
}

fn set_prime_node(object: &Arc<Mapped>, node: usize) -> Result<()> {
    if node != 0 {
        object.offset(node)?;
    }
    let (root_at, media) = (object.undo.heap().object().root_at(), object.undo.media());
    if let Some(noted) = running::within(object, |tx| Ok(tx.store(root_at, node as u64)?)) {
        return noted;
    }
    let _exclusive = object.undo.enter()?;
    media.fence(); // what the caller has flushed is there before a root leads to it
    object.undo.heap().object().set_root(node as u64);
    Ok(media.barrier()?)
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_malloc(object: *const c_char, size: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    let allocated = unsafe { writable(object) }.and_then(|object| allocate(&object, size, false));
    answer(allocated, null_mut(), pointer)
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_calloc(object: *const c_char, count: usize, size: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    let allocated = unsafe { writable(object) }.and_then(|object| {
        let size = count.checked_mul(size).ok_or_else(|| Fault::new(libc::ENOMEM, "more bytes than there are"))?;
        allocate(&object, size, true)
    });
    answer(allocated, null_mut(), pointer)
}

fn allocate(object: &Arc<Mapped>, size: usize, zeroed: bool) -> Result<usize> {
    transact(object, |tx| {
        let block = tx.allocate(size.max(1) as u64)?;
        if zeroed {
            tx.media().zero(block.at, block.size);
        }
        Ok(object.address(block.at))
    })
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_realloc(object: *const c_char, chunk: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    let moved = unsafe { writable(object) }.and_then(|object| reallocate(&object, chunk.addr(), size));
    answer(moved, null_mut(), pointer)
}

fn reallocate(object: &Arc<Mapped>, chunk: usize, size: usize) -> Result<usize> {
    if chunk == 0 {
        return allocate(object, size, false);
    }
    let at = object.offset(chunk)?;
    transact(object, |tx| {
        let room = tx.size_of(at)?;
        if size as u64 <= room && size as u64 > room / 2 {
            return Ok(chunk);
        }
        let block = tx.allocate(size.max(1) as u64)?;
        let kept = tx.media().read_vec(at, room.min(block.size) as usize);
        tx.media().write(block.at, &kept);
        tx.free(at).or_else(|error| tx.free(block.at).and(Err(error)))?;
        Ok(object.address(block.at))
    })
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_free(object: *const c_char, chunk: *mut c_void) -> c_int {
    if chunk.is_null() {
        return 1;
    }
    // SAFETY: the caller's promise.
    done(unsafe { writable(object) }.and_then(|object| {
        let at = object.offset(chunk.addr())?;
        transact(&object, |tx| Ok(tx.free(at)?))
    }))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_tx_begin(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { writable(object) }.and_then(running::begin))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_tx_append(object: *const c_char, start: *const c_void, size: usize) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { writable(object) }.and_then(|object| {
        let at = object.offset(start.addr())?;
        let (len, heap) = (size as u64, object.undo.heap());
        let noted = running::within(&object, |tx| {
            let is_prime_node = at == heap.object().root_at() && len == 8;
            let is_own = || at.checked_add(len).is_some() && tx.owns(at, len);
            if !(is_prime_node || heap.is_allocated(at, len) || is_own()) {
                let (address, name) = (start.addr(), heap.object().name());
                return Err(Fault::invalid(format!(
                    "{address:#x} + {size} does not lie in a chunk of object `{name}`"
                )));
            }
            Ok(tx.log_range(at, len)?)
        });
        noted.unwrap_or_else(|| Err(Fault::invalid("no transaction under way: call heapo_tx_begin first")))
    }))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_tx_end(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { writable(object) }.and_then(|object| running::end(&object, End::Commit)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_tx_abort(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { writable(object) }.and_then(|object| running::end(&object, End::Abort)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_lock(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { self::object(object) }.and_then(held::lock))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_unlock(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { self::object(object) }.and_then(|object| held::unlock(&object)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_expand(object: *const c_char, size: usize) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { writable(object) }.and_then(|object| resize(&object, |heap| heap.expand(size as u64))))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapo_shrink(object: *const c_char, start: *const c_void, size: usize) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { writable(object) }.and_then(|object| {
        if start.is_null() {
            return resize(&object, Heap::shrink_all);
        }
        let at = object.offset(start.addr())?;
        let end = at.checked_add(size as u64).ok_or_else(|| Fault::invalid("more bytes than there are"))?;
        resize(&object, |heap| heap.shrink(at..end))
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn heapo_flush(start: *const c_void, size: usize) -> c_int {
    done(flush(start.addr(), size).map(|_| ()))
}

#[unsafe(no_mangle)]
pub extern "C" fn heapo_fence() -> c_int {
    done(Process::get().map(|process| process.media().fence()))
}

#[unsafe(no_mangle)]
pub extern "C" fn heapo_persist(start: *const c_void, size: usize) -> c_int {
    done(flush(start.addr(), size).and_then(|process| Ok(process.media().barrier()?)))
}

fn flush(start: usize, size: usize) -> Result<Arc<Process>> {
    let process = Process::get()?;
    let at = process.offset(start, size)?;
    process.media().flush(at, size as u64);
    Ok(process)
}

//! Calls of `heapo.h` for chunks of an object: allocation, sizes of the heap, flushes.
//!
//! Safety, for all of them: a name is a string that ends with a zero byte or reaches beyond 128
//! bytes, or null; other pointers are only compared with the addresses of objects, unless the
//! header says that they are read or written.

use super::mapped::Mapped;
use super::{pointer, transactions, writable};
use crate::fault::{Fault, Result, answer, done};
use crate::process::Process;
use everbyte_heap::Heap;
use everbyte_store::Exclusive;
use everbyte_tx::Tx;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// Runs `body` in this thread's transaction on `object`, or in a transaction of its own, which is
/// ordered on return.
fn transact<T>(object: &Arc<Mapped>, body: impl Fn(&Tx<'_>) -> Result<T>) -> Result<T> {
    transactions::within(object, &body).unwrap_or_else(|| {
        let _exclusive = object.undo.enter()?;
        Ok(object.undo.run_ordered(body)?.result.value)
    })
}

/// Changes the size of a heap.
fn resize(object: &Arc<Mapped>, change: impl FnOnce(&Heap) -> everbyte_heap::Result<()>) -> Result<()> {
    let exclusive = object.undo.enter()?;
    exclusive.iter().for_each(Exclusive::changed);
    Ok(change(object.undo.heap())?)
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_malloc(object: *const c_char, size: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    let allocated = unsafe { writable(object) }.and_then(|object| allocate(&object, size, false));
    answer(allocated, null_mut(), pointer)
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_calloc(object: *const c_char, count: usize, size: usize) -> *mut c_void {
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
        Ok(object.address(block.at.get()))
    })
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_realloc(object: *const c_char, chunk: *mut c_void, size: usize) -> *mut c_void {
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
        let kept = tx.media().read_vec(at, room.min(block.size.get()) as usize);
        tx.media().write(block.at, &kept);
        tx.free(at).or_else(|error| tx.free(block.at.get()).and(Err(error)))?;
        Ok(object.address(block.at.get()))
    })
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_free(object: *const c_char, chunk: *mut c_void) -> c_int {
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
pub(crate) unsafe extern "C" fn heapo_expand(object: *const c_char, size: usize) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { writable(object) }.and_then(|object| resize(&object, |heap| heap.expand(size as u64))))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_shrink(object: *const c_char, start: *const c_void, size: usize) -> c_int {
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
pub(crate) extern "C" fn heapo_flush(start: *const c_void, size: usize) -> c_int {
    done(flush(start.addr(), size).map(|_| ()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn heapo_fence() -> c_int {
    done(Process::get().map(|process| process.media().fence()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn heapo_persist(start: *const c_void, size: usize) -> c_int {
    done(flush(start.addr(), size).and_then(|process| Ok(process.media().barrier()?)))
}

fn flush(start: usize, size: usize) -> Result<Arc<Process>> {
    let process = Process::get()?;
    let at = process.offset(start, size)?;
    process.media().flush(at, size as u64);
    Ok(process)
}

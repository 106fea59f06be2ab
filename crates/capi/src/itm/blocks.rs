//! `malloc`, `new` and their kin inside a transaction: an abort frees the allocated blocks, and the
//! freed blocks are freed after the commit, when no other transaction can read them.

use super::tx::{Action, current, step};
use super::weak;
use std::ffi::c_void;

type Free = unsafe extern "C" fn(*mut c_void);
type New = unsafe extern "C-unwind" fn(usize) -> *mut c_void;

unsafe extern "C" fn c_free(block: *mut c_void) {
    // SAFETY: the caller's promise: a block of malloc that no thread uses any more.
    unsafe { libc::free(block) };
}

unsafe extern "C" fn delete(block: *mut c_void) {
    // SAFETY: the C++ runtime's function of this type.
    let free = unsafe { std::mem::transmute::<*const (), Free>(weak::needed(weak::operator_delete())) };
    // SAFETY: the caller's promise: a block of new that no thread uses any more.
    unsafe { free(block) };
}

unsafe extern "C" fn delete_array(block: *mut c_void) {
    // SAFETY: the C++ runtime's function of this type.
    let free = unsafe { std::mem::transmute::<*const (), Free>(weak::needed(weak::operator_delete_array())) };
    // SAFETY: the caller's promise: a block of new[] that no thread uses any more.
    unsafe { free(block) };
}

/// Records an allocated block; it belongs to the transaction until its end.
pub(super) fn allocated(block: *mut c_void, free: Free) -> *mut c_void {
    if !block.is_null() && current().is_some() {
        step(|tx| {
            tx.actions.allocated.push(Action { run: free, with: block });
            Ok(())
        });
    }
    block
}

fn freed(block: *mut c_void, free: Free) {
    step(|tx| {
        if !block.is_null() {
            tx.actions.freed.push(Action { run: free, with: block });
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn _ITM_malloc(size: usize) -> *mut c_void {
    // SAFETY: it has no conditions.
    allocated(unsafe { libc::malloc(size) }, c_free)
}

#[unsafe(no_mangle)]
extern "C" fn _ITM_calloc(count: usize, size: usize) -> *mut c_void {
    // SAFETY: it has no conditions.
    allocated(unsafe { libc::calloc(count, size) }, c_free)
}

#[unsafe(no_mangle)]
extern "C" fn _ITM_free(block: *mut c_void) {
    freed(block, c_free);
}

/// Calls one of the C++ runtime's `new`, which may throw: no frame here has anything to drop then.
fn new(address: usize, size: usize, free: Free) -> *mut c_void {
    // SAFETY: the C++ runtime's function of this type.
    let new = unsafe { std::mem::transmute::<*const (), New>(weak::needed(address)) };
    // SAFETY: it has no conditions.
    allocated(unsafe { new(size) }, free)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn _ZGTtnwm(size: usize) -> *mut c_void {
    new(weak::operator_new(), size, delete)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn _ZGTtnam(size: usize) -> *mut c_void {
    new(weak::operator_new_array(), size, delete_array)
}

#[unsafe(no_mangle)]
extern "C" fn _ZGTtnwmRKSt9nothrow_t(size: usize, _nothrow: usize) -> *mut c_void {
    _ITM_malloc(size.max(1)) // operator delete passes the block to free
}

#[unsafe(no_mangle)]
extern "C" fn _ZGTtnamRKSt9nothrow_t(size: usize, _nothrow: usize) -> *mut c_void {
    _ITM_malloc(size.max(1))
}

macro_rules! deletes {
    ($($name:ident ($($ignored:ident),*) $free:ident)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name(block: *mut c_void $(, $ignored: usize)*) {
            freed(block, $free);
        })*
    };
}
deletes! {
    _ZGTtdlPv() delete
    _ZGTtdlPvm(_size) delete
    _ZGTtdlPvRKSt9nothrow_t(_nothrow) delete
    _ZGTtdlPvmRKSt9nothrow_t(_size, _nothrow) delete
    _ZGTtdaPv() delete_array
    _ZGTtdaPvm(_size) delete_array
    _ZGTtdaPvRKSt9nothrow_t(_nothrow) delete_array
    _ZGTtdaPvmRKSt9nothrow_t(_size, _nothrow) delete_array
}

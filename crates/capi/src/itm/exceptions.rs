//! C++ exceptions inside a transaction. One that leaves the block commits and goes on; one that is
//! under way when the transaction aborts is forgotten, with what catches it.
//!
//! Unwinding does not pass through frames of Rust: throwing and the end of a handler are jumps.

use super::tx::{self, Action, current, step};
use super::{place, weak};
use std::arch::naked_asm;
use std::ffi::c_void;
use std::ptr::{null_mut, with_exposed_provenance_mut};

/// Bytes of the unwinder's header before an exception object.
const UNWIND_HEADER: usize = 32;

/// Handlers and exceptions of this thread, as far as a transaction has to put them back.
#[derive(Default)]
pub struct Handlers {
    /// Handlers entered and not left, in this transaction.
    pub caught: u32,
    /// The address at which the C++ runtime counts this thread's exceptions; 0: there is none.
    uncaught_at: usize,
    uncaught: u32,
}

impl Handlers {
    pub fn of_this_thread() -> Handlers {
        let address = weak::get_globals();
        if address == 0 {
            return Handlers::default();
        }
        // SAFETY: the C++ runtime's function of this type.
        let globals =
            unsafe { std::mem::transmute::<*const (), unsafe extern "C" fn() -> usize>(weak::needed(address)) };
        // SAFETY: it has no conditions. The count lies behind a pointer, by the C++ ABI.
        let uncaught_at = unsafe { globals() } + size_of::<usize>();
        Handlers { uncaught_at, ..Handlers::default() }
    }

    fn count(&self) -> Option<*mut u32> {
        (self.uncaught_at != 0).then(|| with_exposed_provenance_mut(self.uncaught_at))
    }

    pub fn begin(&mut self) {
        self.caught = 0;
        if let Some(count) = self.count() {
            // SAFETY: this thread's, which lives as long as the thread.
            self.uncaught = unsafe { count.read() };
        }
    }

    pub fn end(&mut self) {
        self.caught = 0;
    }

    /// Leaves handlers that were entered since there were `caught`, as if nothing had been thrown.
    pub fn forget_to(&mut self, caught: u32) {
        if self.caught > caught {
            leave(self.caught - caught);
            self.caught = caught;
        }
        if let Some(count) = self.count() {
            // SAFETY: this thread's, which lives as long as the thread.
            unsafe { count.write(self.uncaught) };
        }
    }
}

/// Has the C++ runtime leave handlers.
fn leave(caught: u32) {
    type CleanUp = unsafe extern "C" fn(*mut c_void, *mut c_void, u32);
    // SAFETY: the C++ runtime's function of this type.
    let clean_up = unsafe { std::mem::transmute::<*const (), CleanUp>(weak::needed(weak::tm_cleanup())) };
    // SAFETY: made for this; so many handlers were entered and not left.
    unsafe { clean_up(null_mut(), null_mut(), caught) };
}

/// # Safety
/// `object` was allocated, and if it was thrown, it is not being caught.
unsafe extern "C" fn free_exception(object: *mut c_void) {
    type Free = unsafe extern "C" fn(*mut c_void);
    // SAFETY: the C++ runtime's function of this type.
    let free = unsafe { std::mem::transmute::<*const (), Free>(weak::needed(weak::free_exception())) };
    // SAFETY: the caller's promise.
    unsafe { free(object) };
}

#[unsafe(no_mangle)]
extern "C" fn _ITM_cxa_allocate_exception(size: usize) -> *mut c_void {
    type Allocate = unsafe extern "C" fn(usize) -> *mut c_void;
    // SAFETY: the C++ runtime's function of this type.
    let allocate = unsafe { std::mem::transmute::<*const (), Allocate>(weak::needed(weak::allocate_exception())) };
    // SAFETY: it has no conditions.
    super::blocks::allocated(unsafe { allocate(size) }, free_exception)
}

/// The object is not the transaction's to give back any more.
fn disown(object: *mut c_void) {
    if current().is_some() {
        step(|tx| {
            tx.actions.allocated.retain(|Action { with, .. }| *with != object);
            Ok(())
        });
    }
}

#[unsafe(no_mangle)]
extern "C" fn _ITM_cxa_free_exception(object: *mut c_void) {
    disown(object);
    // SAFETY: compiled code frees what it allocated and did not throw.
    unsafe { free_exception(object) };
}

#[unsafe(no_mangle)]
extern "C" fn _ITM_cxa_begin_catch(header: *mut c_void) -> *mut c_void {
    disown(header.wrapping_byte_add(UNWIND_HEADER));
    if let Some(tx) = current() {
        tx.handlers.caught += 1;
    }
    type Begin = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
    // SAFETY: the C++ runtime's function of this type.
    let begin = unsafe { std::mem::transmute::<*const (), Begin>(weak::needed(weak::begin_catch())) };
    // SAFETY: compiled code enters a handler for what was thrown.
    unsafe { begin(header) }
}

extern "C" fn leave_handler() {
    if let Some(tx) = current() {
        tx.handlers.caught = tx.handlers.caught.saturating_sub(1);
    }
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn _ITM_cxa_end_catch() {
    naked_asm!(
        ".cfi_startproc",
        "endbr64",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {leave}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        ".weak __cxa_end_catch",
        "jmp [rip + __cxa_end_catch@GOTPCREL]",
        ".cfi_endproc",
        leave = sym leave_handler,
    )
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn _ITM_cxa_throw() {
    naked_asm!("endbr64", ".weak __cxa_throw", "jmp [rip + __cxa_throw@GOTPCREL]")
}

/// The field of the unwinder's header that marks a thread's end: the function that stops it, which
/// a throw leaves empty.
const FORCED: usize = 16;

/// An exception leaves the block: what was done is committed, and the exception is the program's. A
/// thread that ends inside the block leaves it in the same way: what was done is taken back.
#[unsafe(no_mangle)]
extern "C" fn _ITM_commitTransactionEH(header: *mut c_void) {
    if !header.is_null() && place::load(header.expose_provenance() + FORCED) != 0 {
        return tx::leave();
    }
    tx::commit(None); // until then the object goes if the block is run again
}

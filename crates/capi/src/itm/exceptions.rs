//! C++ exceptions inside a transaction. An exception that leaves the block commits and propagates;
//! an exception in progress when the transaction aborts is dropped, with its handlers.
//!
//! Unwinding does not pass through frames of Rust: throwing and the end of a handler are jumps.

use super::tx::{self, Action, current, step};
use super::{place, weak};
use std::arch::naked_asm;
use std::ffi::c_void;
use std::ptr::{null_mut, with_exposed_provenance_mut};

/// Bytes of the unwinder's header before an exception object.
const UNWIND_HEADER: usize = 32;

/// Handlers and exceptions of this thread, as far as a transaction restores them.
#[derive(Default)]
pub(super) struct Handlers {
    /// Handlers entered and not left, in this transaction.
    pub caught: u32,
    /// The address of the C++ runtime's count of this thread's exceptions in progress; 0: no
    /// runtime is linked.
    uncaught_at: usize,
    uncaught: u32,
}

impl Handlers {
    pub(super) fn of_this_thread() -> Handlers {
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

    pub(super) fn begin(&mut self) {
        self.caught = 0;
        if let Some(count) = self.count() {
            // SAFETY: this thread's, which lives as long as the thread.
            self.uncaught = unsafe { count.read() };
        }
    }

    pub(super) fn end(&mut self) {
        self.caught = 0;
    }

    /// Leaves the handlers entered since the count was `caught`, as if no exception had been
    /// thrown.
    pub(super) fn forget_to(&mut self, caught: u32) {
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

/// Makes the C++ runtime leave handlers.
fn leave(caught: u32) {
    type CleanUp = unsafe extern "C" fn(*mut c_void, *mut c_void, u32);
    // SAFETY: the C++ runtime's function of this type.
    let clean_up = unsafe { std::mem::transmute::<*const (), CleanUp>(weak::needed(weak::tm_cleanup())) };
    // SAFETY: the function's purpose; this many handlers were entered and not left.
    unsafe { clean_up(null_mut(), null_mut(), caught) };
}

/// # Safety
/// `object` was allocated, and if it was thrown, no handler catches it.
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

/// Removes an object from the list of blocks that an abort frees.
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
    // SAFETY: compiled code enters a handler for a thrown object.
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

/// The offset in the unwinder's header of the stop function: set if a thread is ending, empty after
/// a throw.
const FORCED: usize = 16;

/// An exception leaves the block: the transaction commits, and the exception belongs to the
/// program. A thread that ends inside the block leaves it in the same way, but its transaction is
/// undone.
#[unsafe(no_mangle)]
extern "C" fn _ITM_commitTransactionEH(header: *mut c_void) {
    if !header.is_null() && place::load(header.expose_provenance() + FORCED) != 0 {
        return tx::leave();
    }
    tx::commit(None); // until here a retry frees the object
}

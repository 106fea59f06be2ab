//! The begin of a transaction, and the return of control to it.
//!
//! `_ITM_beginTransaction` returns as often as the block is run: registers that a function keeps
//! for its caller are saved, and a jump restores them, the stack pointer and the return address.

use super::{place, rest, tx};
use std::arch::naked_asm;
use std::ffi::{c_int, c_void};

/// The callee-saved registers at the return of `_ITM_beginTransaction`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Jump {
    /// The stack pointer after the return: the bytes below it are dead when control comes back.
    pub stack: usize,
    rbx: usize,
    rbp: usize,
    r12: usize,
    r13: usize,
    r14: usize,
    r15: usize,
    pub address: usize,
}

/// # Safety
/// For compiled code alone.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn _ITM_beginTransaction(_properties: u32) -> u32 {
    naked_asm!(
        ".cfi_startproc",
        "endbr64",
        "lea rax, [rsp + 8]",
        "mov rcx, [rsp]",
        "sub rsp, 72",
        ".cfi_adjust_cfa_offset 72",
        "mov [rsp], rax",
        "mov [rsp + 8], rbx",
        "mov [rsp + 16], rbp",
        "mov [rsp + 24], r12",
        "mov [rsp + 32], r13",
        "mov [rsp + 40], r14",
        "mov [rsp + 48], r15",
        "mov [rsp + 56], rcx",
        "mov rsi, rsp",
        "call {begin}",
        "add rsp, 72",
        ".cfi_adjust_cfa_offset -72",
        "ret",
        ".cfi_endproc",
        begin = sym begin,
    )
}

unsafe extern "C" fn begin(properties: u32, jump: *const Jump) -> u32 {
    // SAFETY: `_ITM_beginTransaction` has just filled it, on the stack of this thread.
    let jump = unsafe { *jump };
    tx::begin(properties, jump)
}

/// Returns once more from the `_ITM_beginTransaction` that saved `jump`, with `action`.
///
/// # Safety
/// The function that called it has not returned. Frames between it and this one have nothing to
/// drop (ITM-2).
#[unsafe(naked)]
pub(super) unsafe extern "C" fn return_again(_action: u32, _jump: *const Jump) -> ! {
    naked_asm!(
        "mov eax, edi",
        "mov rbx, [rsi + 8]",
        "mov rbp, [rsi + 16]",
        "mov r12, [rsi + 24]",
        "mov r13, [rsi + 32]",
        "mov r14, [rsi + 40]",
        "mov r15, [rsi + 48]",
        "mov rdx, [rsi + 56]",
        "mov rsp, [rsi]",
        "jmp rdx",
    )
}

extern "C" fn commit(stack: usize) {
    tx::commit(Some(stack));
}

/// Whether the [`everbyte_atomically`] that began there is still running its body: the call of the
/// body has stored its return address below the stack pointer of the begin, and frames that
/// replaced it have stored other addresses.
pub(super) fn body_runs(stack: usize) -> bool {
    const CODE: usize = 128; // bytes of the function, at most
    let start = (everbyte_atomically as *const ()).addr();
    place::load(stack - size_of::<usize>()).wrapping_sub(start as u64) < CODE as u64
}

/// `atomically.h`: a transaction whose body is a function, for compilers without transactions. The
/// body returns whether to commit. Control comes back to a begin in assembly only, which keeps the
/// arguments of the body in registers.
///
/// # Safety
/// `body` may be called with `with`, as often as the transaction is run.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn everbyte_atomically(
    _body: unsafe extern "C" fn(*mut c_void) -> c_int,
    _with: *mut c_void,
) -> c_int {
    naked_asm!(
        "endbr64",
        "push rbx",
        "push r12",
        "push r13",
        "mov r12, rdi",
        "mov r13, rsi",
        "mov edi, {instrumented}",
        "call {begin}",
        "xor ebx, ebx",
        "test eax, {cancelled}",
        "jnz 3f",
        "mov rdi, r13",
        "call r12",
        "test eax, eax",
        "jz 2f",
        "mov ebx, 1",
        "mov rdi, rsp", // as it was at the begin
        "call {commit}",
        "jmp 3f",
        "2:",
        "mov edi, 1", // the cancel that the program asked for
        "call {cancel}",
        "3:",
        "mov eax, ebx",
        "pop r13",
        "pop r12",
        "pop rbx",
        "ret",
        instrumented = const tx::HAS_INSTRUMENTED | tx::IS_FUNCTION,
        cancelled = const tx::CANCELLED,
        begin = sym _ITM_beginTransaction,
        commit = sym commit,
        cancel = sym rest::_ITM_abortTransaction,
    )
}

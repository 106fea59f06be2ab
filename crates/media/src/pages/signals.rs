//! Signal handlers: installation, and the call of the handler that was installed before.
//!
//! Threads: any; the functions for handlers call only async-signal-safe functions.

use std::ffi::{c_int, c_void};

/// A handler with SA_SIGINFO.
pub(crate) type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Installs a handler and returns the action that it replaces.
pub(crate) fn install(signal: c_int, handler: Handler, flags: c_int) -> libc::sigaction {
    // SAFETY: zeros are a valid `sigaction`: no flags, no blocked signals, the default action.
    let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
    let mut before = ours;
    ours.sa_sigaction = handler as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | flags;
    // SAFETY:
    // - in bounds: the call reads and writes one `sigaction` each;
    // - alive: both live through the call, and the handler as long as the program;
    // - no writer: both are local;
    // - valid: the handler has the form that SA_SIGINFO asks for.
    let refused = unsafe { libc::sigaction(signal, &raw const ours, &raw mut before) };
    assert_eq!(refused, 0, "the arguments are valid");
    before
}

/// The signal's code and the address that the thread touched.
///
/// # Safety
/// `info` is the argument of a handler of SIGBUS or SIGSEGV.
pub(crate) unsafe fn code_and_address(info: *mut libc::siginfo_t) -> (c_int, usize) {
    // SAFETY: the kernel passes a valid `siginfo_t`, which lives through the handler.
    let info = unsafe { &*info };
    // SAFETY: the kernel fills this field for both signals. If a process has sent the signal, the
    // field holds any number: the code is then none of a fault, and the address is compared only.
    (info.si_code, unsafe { info.si_addr() }.addr())
}

/// Runs `body` and restores the thread's errno.
pub(crate) fn keep_errno<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: the function has no conditions.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY:
    // - in bounds, alive: this thread's errno, which outlives the call;
    // - no writer: no other thread accesses it;
    // - valid: any bits are a `c_int`.
    let kept = unsafe { *errno };
    let answer = body();
    // SAFETY: as above.
    unsafe { *errno = kept };
    answer
}

/// Passes a signal on to the action before ours.
///
/// # Safety
/// The last three arguments are those of a handler, and `before` was installed for this signal.
pub(crate) unsafe fn pass_on(
    before: &libc::sigaction,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // The instruction runs again, and the kernel takes its default action.
            // SAFETY: a constant action for an existing signal.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
            // SAFETY: the kernel passes a valid `siginfo_t`, which lives through the handler.
            if unsafe { (*info).si_code } <= 0 {
                // A signal that a process has sent is not repeated by the instruction.
                // SAFETY: the call accesses no memory of ours.
                unsafe { libc::raise(signal) };
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the kernel had this address as a handler of this form.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: the kernel had this address as a handler of the form without SA_SIGINFO.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

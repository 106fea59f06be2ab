//! One thread-local word: the pointer to the thread's transaction.
//!
//! Every load and store of a block begins here. In a shared library the access to a thread-local of
//! Rust is a call, which takes as long as the load itself; the access to this word is two loads
//! (the initial-exec model of thread-local storage). The loader allocates it when it loads the
//! library; static storage is reserved for a few such words of libraries opened later, too.

use std::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss.everbyte_transaction, \"awT\", @nobits",
    ".globl everbyte_transaction",
    ".hidden everbyte_transaction",
    ".type everbyte_transaction, @object",
    ".size everbyte_transaction, 8",
    ".p2align 3",
    "everbyte_transaction:",
    ".zero 8",
    ".popsection",
);

/// The pointer that this thread stored; null at first.
#[inline(always)]
pub(super) fn get<T>() -> *mut T {
    let pointer;
    // SAFETY: it reads a word of this thread's, which is there as long as the thread.
    unsafe {
        asm!(
            "mov {0}, [rip + everbyte_transaction@GOTTPOFF]",
            "mov {0}, fs:[{0}]",
            out(reg) pointer,
            options(nostack, preserves_flags, readonly),
        );
    }
    pointer
}

/// Stores the pointer.
pub(super) fn set<T>(pointer: *mut T) {
    // SAFETY: it writes a word of this thread that no other thread reads.
    unsafe {
        asm!(
            "mov {1}, [rip + everbyte_transaction@GOTTPOFF]",
            "mov fs:[{1}], {0}",
            in(reg) pointer,
            out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}

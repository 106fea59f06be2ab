//! One word of each thread's own, in which it keeps the transaction it has.
//!
//! Every load and store of a block begins here. In a shared library a thread-local of Rust is found
//! by a call, which takes as long as the load that it is for; this one by two loads (the
//! initial-exec model of thread-local storage). The loader gives it a place when it loads the
//! library; libraries that are opened later have room for a few such words, too.

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

/// The value that this thread has put there; null at first.
#[inline(always)]
pub fn get<T>() -> *mut T {
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

/// Puts it there.
pub fn set<T>(pointer: *mut T) {
    // SAFETY: it writes a word of this thread's that no other thread reads.
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

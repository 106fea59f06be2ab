//! `patomic.h`: the 173 functions of GCC's libitm, which the code of a `__transaction_atomic` block
//! calls, over the redo engine. x86-64.
//!
//! Persistent words stay in the engine until the commit. Other memory is changed in place, under
//! the engine's locks, and restored by an abort: compiled code reads its own allocations and locals
//! directly. The stack below the frame that began belongs to the transaction.
//!
//! * `begin`: registers saved at a begin, and the jump back to it.
//! * `tx`: one thread's transaction: begin, nest, commit, cancel, retry; `slot`: the thread-local
//!   pointer to it.
//! * `ground`: the persistent addresses.
//! * `access`: loads and stores of any length; `place`: the same for memory, the only file with raw
//!   pointers to it; `undo`: the bytes that an abort restores.
//! * `scalars`, `vectors`, `bulk`: the names for loads, stores and logging, by type.
//! * `blocks`, `persistent`, `exceptions`, `clones`, `rest`: the other names; `weak`: the functions
//!   of the C++ runtime that they call.
//!
//! Invariants
//!   ITM-1  A retry runs the instrumented code again, with the registers, locals and memory of the
//!          first time.
//!   ITM-2  A jump back skips no destructor: no frame of this module has anything to drop by then.
//!   ITM-3  An abort restores memory before it releases the locks under which it was changed.
//!
//! Threads: each has its own transaction. docs/design/patomic.md gives the reasons of the design.

mod access;
mod begin;
mod blocks;
mod bulk;
mod clones;
mod exceptions;
mod ground;
mod persistent;
mod place;
mod rest;
mod scalars;
mod slot;
mod tx;
mod undo;
mod vectors;
mod weak;

/// Ends the process: a transaction cannot go on, and the compiled code has no way to be told.
#[cold]
fn die(message: impl std::fmt::Display) -> ! {
    eprintln!("everbyte: patomic: {message}");
    std::process::abort()
}

//! `patomic.h`: what GCC calls for the code in a `__transaction_atomic` block, the 173 names of its
//! libitm, over the redo engine. x86-64.
//!
//! Persistent words wait in the engine until the commit. Other memory is changed in place, under
//! the engine's locks, and put back by an abort: compiled code looks at its own allocations and
//! locals directly. The stack below the frame that began is the transaction's own.
//!
//! * `begin`: registers saved at a begin, and the jump back to it.
//! * `tx`: one thread's transaction: begin, nest, commit, cancel, retry; `slot`: where a thread
//!   finds it.
//! * `ground`: which addresses are persistent.
//! * `access`: loads and stores of any length; `place`: of memory, the one place with raw pointers;
//!   `undo`: what an abort puts back.
//! * `scalars`, `vectors`, `bulk`: the names for loads, stores and logging, by type.
//! * `blocks`, `persistent`, `exceptions`, `clones`, `rest`: the other names; `weak`: what they
//!   call in the C++ runtime.
//!
//! Invariants
//!   ITM-1  A retry runs the instrumented code again, with the registers, locals and memory of the
//!          first time.
//!   ITM-2  Nothing is skipped that has to run when control jumps back: no frame of ours has
//!          anything to drop by then.
//!   ITM-3  Memory is put back before the locks that it was changed under are given back.
//!
//! Threads: each has its own transaction. Its purpose is in docs/design/patomic.md.

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

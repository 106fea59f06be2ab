//! `mnemosyne.h`, `pstatic.h` and `pdata.h`: persistent variables of programs, and what stands on them (Volos, Tack, Swift:
//! "Mnemosyne: Lightweight Persistent Memory", ASPLOS 2011).
//!
//! * `sections`: variables, mapped over or copied to where the program was linked to have them.
//! * `elf`: what an executable says of its build and of its variables.
//! * `heap`: `pmalloc` and its kin.
//! * `log`: logs of words.
//! * `primitives`: store, flush, fence.
//! * `restart`: what a program does before its first transaction.

mod elf;
mod heap;
mod log;
mod primitives;
mod restart;
mod sections;

pub use sections::write_back;

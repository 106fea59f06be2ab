//! `mnemosyne.h`, `pstatic.h` and `pdata.h`: persistent variables of programs, with heap, regions
//! and logs (Volos, Tack, Swift: "Mnemosyne: Lightweight Persistent Memory", ASPLOS 2011).
//!
//! * `sections`: the places of variables in the store; `linked` opens them, mapped over or copied
//!   to the section of the program; `pdata` deletes the variables of deleted files.
//! * `elf`: the build and the variables of an executable.
//! * `heap`: `pmalloc` and its kin.
//! * `log`: logs of words.
//! * `primitives`: store, flush, fence.
//! * `regions`: `pmap` and `punmap`.
//! * `restart`: the functions that a program runs before its first transaction.

mod elf;
mod heap;
mod linked;
mod log;
mod pdata;
mod primitives;
mod regions;
mod restart;
mod sections;

pub(crate) use restart::mnemosyne_restart as restart;
pub(crate) use sections::{Transactional, is_variable, transactional};

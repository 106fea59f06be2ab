//! `mnemosyne.h`, `pstatic.h` and `pdata.h`: persistent variables of programs, and what stands on
//! them (Volos, Tack, Swift: "Mnemosyne: Lightweight Persistent Memory", ASPLOS 2011).
//!
//! * `sections`: where variables lie in the store; `linked` opens them, mapped over or copied to
//!   where the program was linked to have them; `pdata` gives up those of files that are gone.
//! * `elf`: what an executable says of its build and of its variables.
//! * `heap`: `pmalloc` and its kin.
//! * `log`: logs of words.
//! * `primitives`: store, flush, fence.
//! * `regions`: `pmap` and `punmap`.
//! * `restart`: what a program does before its first transaction.

mod elf;
mod heap;
mod linked;
mod log;
mod pdata;
mod primitives;
mod regions;
mod restart;
mod sections;

pub use restart::mnemosyne_restart as restart;
pub use sections::{Transactional, is_variable, transactional};

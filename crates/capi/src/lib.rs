//! # everbyte-capi: Everbyte for C and C++
//!
//! The headers in `include/everbyte/` are the documentation for users; the functions here implement
//! them. Arguments are checked before use, as far as the language allows: an invalid pointer
//! remains the program's own fault, as with any library of C.
//!
//! * `heapo`: HEAPO's interface, named objects at fixed addresses and key-value stores (Hwang et
//!   al., ACM TOS 11(1), 2014).
//! * `kv`: the ordered key-value store.
//! * `mnemosyne`: variables that keep their values, and what stands on them.
//! * `itm`: what compilers call in a `patomic` block.
//! * `posix`: the calls of a POSIX file system on volumes.
//! * `domain`: stores that a broker passes.
//!
//! Threads: any, unless a header says otherwise.

mod domain;
mod fault;
mod heapo;
#[cfg(target_arch = "x86_64")]
mod itm;
mod kv;
mod mnemosyne;
mod posix;
mod process;

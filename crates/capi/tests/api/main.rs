//! C programs: compiled in every way, run, killed, run again, and searched by tools.

#[cfg(target_arch = "x86_64")]
#[path = "../programs/kills.rs"]
mod kills;
#[cfg(target_arch = "x86_64")]
#[path = "../programs/object_code.rs"]
mod object_code;
#[path = "../programs/mod.rs"]
mod programs;

mod checkers;
mod heapo;
mod kv;
mod mnemosyne;
#[cfg(target_arch = "x86_64")]
mod patomic;
mod posix;

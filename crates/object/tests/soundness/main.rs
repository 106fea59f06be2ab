//! Hostile programs: safe code that tries to reach freed or foreign memory, and the checks that
//! stop it.
//!
//! Programs that do not compile are in `ui/`. These compile, so a check at run time has to stop
//! them, or what they reach has to be whole.

#[path = "../common/mod.rs"]
mod common;

mod chains;
mod checks;
mod interleavings;
mod outside;
mod threads;
mod weak;

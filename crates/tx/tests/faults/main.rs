//! Damaged media, full disks and failing calls.

#[path = "../common/mod.rs"]
mod common;

mod check;
mod memory_errors;
mod settled_failures;

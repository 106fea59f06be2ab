//! The server on bad days: disks that fail under it, and processes that are killed.

#[path = "../common/mod.rs"]
mod common;

mod disks;
mod histories;
mod saves;

//! Damaged media, full disks and failing calls.

mod full_disks;
mod hooked;
mod memory_errors;
mod replay_fuzz;
mod syncs;

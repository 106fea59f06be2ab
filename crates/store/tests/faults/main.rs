//! Damaged media, full disks and failing calls.

#[path = "../common/mod.rs"]
mod common;

mod backing_files;
mod bad_days;
mod crafted;
mod damage;
mod full_disk;
mod half_done;

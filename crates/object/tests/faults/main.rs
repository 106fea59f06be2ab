//! Damaged media, full disks and failing calls.

#[path = "../common/mod.rs"]
mod common;

mod bad_days;
mod deep;
mod limits;
mod maps_on_media;
mod memory_errors;
mod own_code;
mod repair;

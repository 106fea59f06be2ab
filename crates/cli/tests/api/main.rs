//! Commands and their output.

#![forbid(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;

mod backups;
mod bridge;
mod commands;
mod control;
mod copies;
mod deep;
mod dump;
mod engines;
mod kills;
mod kv;
mod kv_dump;
mod look;
mod mounts;
mod redis;
mod top;
mod volumes;

//! The server as its clients see it.

#[path = "../common/mod.rs"]
mod common;

mod backups;
mod clients;
mod pending;
mod tools;

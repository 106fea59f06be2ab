//! Crashes of both logs, without and with seeded bugs.

#[path = "../common/mod.rs"]
mod common;

mod images;
mod museum;

//! Programs that the crash explorer cuts everywhere.

#[path = "../common/mod.rs"]
mod common;

mod general;
mod names_crashes;

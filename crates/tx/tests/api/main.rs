//! Tests of public calls.

#[path = "../common/mod.rs"]
mod common;

mod basic;
mod chains;
mod ending;
mod heap_log;
mod redo;
mod redo_deaths;

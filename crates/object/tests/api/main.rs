//! Tests of public calls.

#[path = "../common/mod.rs"]
mod common;

mod basic;
mod cells;
mod counted;
mod maps;
mod maps_keys;
mod reopen;

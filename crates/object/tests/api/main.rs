//! Tests of public calls.

#[path = "../common/mod.rs"]
mod common;

mod basic;
mod cells;
mod collections;
mod counted;
mod derives;
mod entries;
mod maps;
mod maps_keys;
mod plain;
mod reopen;
mod stored;

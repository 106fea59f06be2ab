//! Tests of public calls of the facade.

#[path = "../common/mod.rs"]
mod common;

mod merge;
mod no_raw_writes;
mod own_engine;

//! The public interface of the heap: allocation, refusals, openings, growing and shrinking.

#[path = "../common/mod.rs"]
mod common;

mod basic;
mod free_runs;
mod interrupted;
mod lazy_zones;
mod opening;
mod resize;

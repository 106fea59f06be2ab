//! Programs beside a plain model of the heap.

#[path = "../common/mod.rs"]
mod common;

mod chains;
mod programs;
mod swarm;

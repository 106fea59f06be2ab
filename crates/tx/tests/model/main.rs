//! Random programs beside a model in memory.

#[path = "../common/mod.rs"]
mod common;

mod general;
mod serial;
mod swarm;

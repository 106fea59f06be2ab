//! Random programs beside a model in memory.

#[path = "../common/mod.rs"]
mod common;
#[path = "../histories/mod.rs"]
mod histories;

mod general;
mod serial;
mod swarm;

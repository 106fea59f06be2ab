//! Programs beside a plain model of a key-value store.

mod chains;
mod programs;
mod swarm;

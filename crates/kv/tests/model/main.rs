//! Programs beside a plain model of the store.

mod chains;
mod programs;
mod swarm;
mod tables;

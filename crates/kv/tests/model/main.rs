//! Programs beside a plain model of the store.

mod chains;
mod expiring;
mod loads;
mod programs;
mod swarm;
mod tables;

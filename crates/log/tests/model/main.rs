//! Lanes beside a plain model of their contents.

mod chains;
mod swarm;

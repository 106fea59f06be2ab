//! Processes that share a store: membership, file locks, fork, robust locks, peers.

pub(crate) mod file_lock;
pub(crate) mod fork;
pub(crate) mod members;
pub(crate) mod peer_groups;
pub(crate) mod robust_lock;

//! The same list, search tree and hash map, in memory that survives.

pub mod list;
pub mod map;
pub mod tree;

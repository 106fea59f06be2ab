//! A list, a search tree and a hash map, in memory that forgets.

pub mod list;
pub mod map;
pub mod tree;

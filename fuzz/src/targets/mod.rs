//! One file a target.

pub mod file;
pub mod journal;
pub mod kv;
pub mod object;
pub mod store;
pub mod words;

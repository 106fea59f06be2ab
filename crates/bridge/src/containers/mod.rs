//! Containers over classes of C++, which `include/everbyte/std.hpp` gives the interface of std's.
//!
//! `library!` exports them to each pool whose list has `std`. Keys are compared and hashed by
//! functions that C++ passes with each call (`keys`).

mod hashed;
mod keys;
mod ordered;
mod sequences;

pub use hashed::{HashMap, HashSet};
pub use ordered::{Map, Set};
pub use sequences::{Deque, Vector};

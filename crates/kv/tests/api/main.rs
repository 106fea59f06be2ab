//! Calls of the key-value store and their results.

mod given_up;
mod max;
mod parts;
mod passed;
mod read_only;
mod updates;

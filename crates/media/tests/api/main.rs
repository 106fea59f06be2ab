//! Tests of public calls.

mod chunks;
mod file_backend;
mod primitives;
mod reading;

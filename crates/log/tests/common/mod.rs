//! The programs whose crashes are explored, and their oracles. Used by `crash.rs` (no crash breaks
//! them) and `museum.rs` (every seeded bug is found).
#![allow(dead_code)] // each test file uses its part

pub mod lane;
pub mod words;

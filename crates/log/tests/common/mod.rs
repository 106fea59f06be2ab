//! The programs whose crashes are explored, and what must hold afterwards. Used by `crash.rs` (they
//! are right) and `museum.rs` (with a seeded bug they are caught).
#![allow(dead_code)] // each test file uses its part

pub mod lane;
pub mod words;

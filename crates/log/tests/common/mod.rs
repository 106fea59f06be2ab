//! The programs whose crashes are explored, and their oracles. Used by `crash` (no crash breaks
//! them) and its `museum` (every seeded bug is found).
#![allow(dead_code)] // each test file uses its part

pub(crate) mod lane;
pub(crate) mod words;

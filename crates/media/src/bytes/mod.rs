//! Mapped bytes: the mapping, loads and stores, flush instructions of each ISA, and windows on
//! ranges.

pub(crate) mod access;
pub(crate) mod checked;
pub(crate) mod extent;
pub(crate) mod flusher;
pub(crate) mod isa;
pub(crate) mod line_words;
pub(crate) mod mapping;
pub mod sealed;
pub(crate) mod sizes;
mod waits;
pub(crate) mod window;

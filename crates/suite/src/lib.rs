//! # everbyte-suite: what the crates do together
//!
//! Tests in real processes with real input. Parts they share: the input (`debian`), a client and
//! the server's process (`process`), the twin that knows what may be found after a kill (`twin`),
//! and a writer of batches that say themselves how many there should be (`acked`).

#![forbid(unsafe_code)]

pub mod acked;
pub mod debian;
pub mod process;
pub mod twin;

//! # everbyte-names: a trie of names on media
//!
//! A [`Trie`] maps names to records, by HEAPO's burst trie. It lies in an object that grows by
//! clusters ([`Clusters`]) and leads to records of 256 bytes that hold the names ([`Records`]);
//! both belong to its owner. The trie therefore needs no store, and a store or a volume can own
//! one.
//!
//! Opening a trie costs one look at its head and its two lists, for any number of names. One change
//! at a time alters the form of the trie; a crash in the middle of it is repaired by a walk along
//! one name ([`Trie::recover_intents`]).
//!
//! Modules: `rules` defines a name, `trie` finds one, `change` inserts and removes, `intent` holds
//! the lists for recovery, `slab` hands out blocks, `burst_policy` selects containers that are slow
//! to search, `list` walks in order, `check` verifies.
//!
//! Format: docs/formats/names.md.
//! Design: docs/design/logs-and-dictionaries.md

#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as everbyte_names; // for `desk`

mod burst_policy;
mod change;
mod check;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod desk;
mod error;
mod intent;
pub mod layout;
mod list;
mod owner;
mod rules;
mod slab;
mod trie;

pub use check::{Fault, FaultKind};
pub use error::{Damaged, Result};
pub use owner::{Clusters, Records};
pub use rules::{NAME_MAX, complaint};
pub use trie::{LastClose, Trie};

/// Bytes at the start of the object that its owner and the trie's head share: the first blocks lie
/// behind them.
pub const PRIME_LEN: u64 = 4096;

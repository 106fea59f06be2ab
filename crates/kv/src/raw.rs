//! The way from a table to its store: for servers and tools. And a tree without its flushes, for
//! measurement.

use crate::tree::Tree;
use crate::{Kv, Result};
use everbyte_store::Store;

/// Leads to the store, whose safe functions change any byte of it: see [`everbyte_store::raw`]. The
/// crate `everbyte` does not export this trait.
pub trait Raw {
    /// The store that holds this table.
    fn store(&self) -> &Store;
}

impl Raw for Kv {
    fn store(&self) -> &Store {
        &self.store
    }
}

/// Opens the table `name` in the volatile mode: batches write, commit and are seen as always, and
/// nothing that they store is flushed or fenced. It measures the cost of durability: what is
/// written lasts only if the store is closed and its machine goes on. After a death or a power cut
/// the table may be damaged. On media whose fences do not settle it is opened as always.
///
/// The heap below flushes still; a store that was opened with `flush_on_fail` issues no flush at
/// all.
///
/// # Errors
/// As [`Kv::open`].
pub fn open_volatile(store: &Store, name: &str) -> Result<Kv> {
    Kv::open_by(store, name, Tree::open_volatile)
}

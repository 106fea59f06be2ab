//! The way from a table to its store: for servers and tools.

use crate::Kv;
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

//! The way from a table to its store: for servers and tools. And a tree without its flushes, for
//! measurement.

#[cfg(doc)]
use crate::RESERVED_VERSIONS;
use crate::tree::{Tree, Version};
use crate::{Kv, Result, Snapshot};
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

/// The address of what handles of one object share in this process: equal for all of them, and of
/// no other object's while there is one.
pub fn tree_address(kv: &Kv) -> usize {
    kv.tree.address()
}

/// As [`Kv::name_version`], with a name that is reserved ([`RESERVED_VERSIONS`]). Returns the
/// version that has the name, and that of the commit that gave it.
///
/// # Errors
/// As [`Kv::name_version`].
pub fn name_reserved_version(kv: &Kv, name: &str) -> Result<(Version, Version)> {
    kv.name_any_version(name)
}

/// As [`Kv::remove_version`], with a name that is reserved.
///
/// # Errors
/// As [`Kv::remove_version`].
pub fn remove_reserved_version(kv: &Kv, name: &str) -> Result<()> {
    kv.remove_any_version(name)
}

/// As [`Kv::rename_versions`], with names that are reserved.
///
/// # Errors
/// As [`Kv::rename_versions`].
pub fn rename_reserved_versions(kv: &Kv, old: &[&str], name: &str) -> Result<Snapshot> {
    kv.rename_any_versions(old, name)
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

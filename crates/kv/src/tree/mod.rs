//! A versioned B+-tree that needs no log.
//!
//! Consistent and durable data structures (Venkataraman and others, FAST 2011): nothing an older
//! version can see is overwritten, and one 8-byte store makes a new version real. So there is no
//! log to write twice, recovery is bounded by what was in flight, and readers take no lock: they
//! pin a version.
//!
//! - [`Tree`]: open, get, snapshot, batch, settle, check
//! - [`TreeBatch`]: one version in the making
//! - [`TreeSnapshot`] and [`Cursor`]: reading a version that stays
//!
//! The map: `layout` (bytes on media), `node` (reading), `walk` and `cursor` (in key order),
//! `build` (writing whole nodes), `batch`, `slots`, `replace`, `merge`, `load`, `compact` and
//! `delete_range` (what writes do),
//! `commit` and `undo` (the end of a batch), `savepoint`, `ledger` (what follows a commit),
//! `readers` and `outside` (readers in other processes), `writer` (kept between batches),
//! `reclaim` (what becomes of the dead), `format`, `open`,
//! `voids`, `scrub` (how a tree begins, after a crash too), `check`, `salvage` (what is left of a
//! damaged one). Format: docs/formats/tree.md.

mod age;
mod batch;
mod build;
mod changes;
mod check;
mod claims;
mod commit;
mod compact;
mod cursor;
mod delete_range;
mod dirty;
mod format;
mod get_into;
mod handle;
mod hash;
mod inner_slots;
mod key;
#[allow(missing_docs)] // documented in docs/formats/tree.md
mod layout;
mod leaf_slots;
mod ledger;
mod load;
mod merge;
mod named;
mod node;
mod number;
mod open;
mod outside;
mod parts;
mod pins;
mod prefetch;
mod readers;
mod reclaim;
mod record;
mod record_prefetch;
mod replace;
mod salvage;
mod savepoint;
#[cfg(test)]
mod schedules;
mod scrub;
mod slots;
mod stamp;
mod sum;
mod sync;
#[cfg(test)]
mod tests;
pub(crate) mod thread;
mod undo;
mod version;
mod voids;
mod walk;
mod writer;

pub(crate) use batch::TreeBatch;
pub(crate) use changes::TreeChanges;
pub(crate) use cursor::{Cursor, Entry};
pub use handle::{Commit, Stats};
pub(crate) use handle::{Tree, TreeSnapshot};
pub(crate) use key::{TABLE_LEN, TableNumber};
pub use layout::{KEY_MAX, VALUE_MAX};
pub(crate) use load::TreeLoad;
pub(crate) use named::{VersionRecord, each_named};
pub use number::Version;
pub(crate) use pins::Published;
pub use record::fetched;
pub(crate) use salvage::{Border, LeafPlace, TreeLoss, Wreck};
pub(crate) use savepoint::TreeSavepoint;
pub(crate) use sum::Sum;
pub use walk::listed;

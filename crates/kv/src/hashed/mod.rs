//! A versioned hash table that needs no log: the other form of consistent and durable data
//! structures (Venkataraman and others, FAST 2011), without an order of keys.
//!
//! Entries are blocks of the heap, stamped with the versions that see them, in chains that begin in
//! buckets. A version stores its new entries where nothing leads, and a ledger of the words that
//! lead there; one 8-byte store makes it real, and then the ledger is applied.
//!
//! The map: `layout` (bytes on media), `shape` (which bucket, and where), `chain` (reading),
//! `table`, `snapshot` (readers), `batch`, `split`, `commit`, `reclaim` (the writer), `format`,
//! `open`, `check`. Format: docs/formats/hashed.md. Design: docs/design/hashed.md.

mod batch;
mod chain;
mod check;
mod commit;
mod format;
#[allow(missing_docs)] // documented in docs/formats/hashed.md
mod layout;
mod open;
mod reclaim;
mod shape;
mod snapshot;
mod split;
mod table;

pub use batch::HashBatch;
pub(crate) use layout::HASH_FINGERPRINT;
pub use snapshot::{HashEntries, HashSnapshot};
pub use table::{HashStats, HashTable};

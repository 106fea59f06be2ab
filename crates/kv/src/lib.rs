//! # everbyte-kv: an ordered key-value store that is simply there after a crash
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("everbyte.store");
//! use everbyte_kv::Kv;
//! use everbyte_store::{CreateOptions, Store};
//!
//! let store = Store::create(&path, &CreateOptions::default())?; // a file on any disk
//! let kv = Kv::open_or_create(&store, "cities")?;
//! kv.put(b"Oslo", b"Norway")?; // durable when it returns
//! kv.put(b"Bergen", b"Norway")?;
//! assert_eq!(kv.get(b"Oslo")?.as_deref(), Some(&b"Norway"[..]));
//! for entry in kv.range::<[u8]>(..) {
//!     let (city, country) = entry?; // in key order: Bergen, Oslo
//! #   assert_eq!(country, b"Norway"); let _ = city;
//! }
//! # Ok(()) }
//! ```
//!
//! - A write has survived any crash once it has returned ([`Kv::put`], [`Kv::delete`]) or once its
//!   batch is settled ([`Kv::settle`]); the durability mode of the media says which crashes.
//! - A reader sees settled data only, takes no lock, and keeps its version for as long as it holds
//!   a [`Snapshot`].
//! - Keys and values are byte strings: keys up to 16 MiB, values up to 1 TiB less 64 MiB as far as
//!   space goes; keys of 0 bytes count.

#![forbid(unsafe_code)]

mod batch;
mod catalogue;
mod compact;
mod dump;
mod error;
mod hashed;
mod kv;
mod load;
mod optimistic;
mod range;
pub mod raw;
mod reader;
mod reads;
mod repair;
mod settler;
mod snapshot;
mod table;
mod tools;
mod tree;
mod ttl;
mod typed;
mod update;
mod versions;

pub use batch::{Batch, BatchTable, Savepoint};
pub use catalogue::TABLE_NAME_MAX;
pub use compact::Compacted;
pub use dump::Dumped;
pub use error::{Error, Result};
pub use everbyte_kv_derive::Typed;
pub use hashed::{HashBatch, HashEntries, HashSnapshot, HashStats, HashTable};
pub use kv::Kv;
pub use load::BulkLoad;
pub use optimistic::{TRANSACT_ATTEMPTS, Transaction, TransactionRange, TransactionSavepoint, TransactionTable};
pub use range::{Entry, Range};
pub use reader::KvReader;
pub use repair::{Loss, Salvaged};
pub use settler::{Settled, Settler};
pub use snapshot::Snapshot;
pub use table::{KvTable, TableSnapshot};
pub use tools::KvTools;
pub use tree::{Commit, KEY_MAX, Stats, VALUE_MAX, Version, fetched, listed};
pub use ttl::{Clock, ExpiringBatch, ExpiringRange, ExpiringSnapshot, ExpiringTable, ManualClock, Swept, SystemClock};
pub use typed::{
    DecodeError, Decoder, Encoding, KeyPrefix, OtherTypeDetail, TableTypes, Typed, TypedBatchTable, TypedRange,
    TypedSnapshot, TypedTable, decode, encode,
};
pub use update::{Compared, Counter};
pub use versions::{Change, Changes, NamedVersion, RESERVED_VERSIONS, VERSION_NAME_MAX};

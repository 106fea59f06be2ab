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
//! - Keys and values are byte strings: keys up to 16 MiB, values up to 1 TiB as far as space goes;
//!   keys of 0 bytes count.

#![forbid(unsafe_code)]

mod batch;
mod catalogue;
mod error;
mod kv;
mod range;
pub mod raw;
mod reads;
mod snapshot;
mod table;
mod tools;
mod tree;
mod versions;

pub use batch::{Batch, BatchTable, Savepoint};
pub use catalogue::TABLE_NAME_MAX;
pub use error::{Error, Result};
pub use kv::Kv;
pub use range::{Entry, Range};
pub use snapshot::Snapshot;
pub use table::{KvTable, TableSnapshot};
pub use tools::KvTools;
pub use tree::{Commit, KEY_MAX, Stats, VALUE_MAX, Version, fetched};
pub use versions::{Change, Changes, NamedVersion, VERSION_NAME_MAX};

//! The redo engine: transactions that are isolated from each other, over words of one object.
//!
//! The stores of a transaction wait in memory until it commits; then one record in a word log holds
//! all of them, with one fence, and the stores are done in place. After a crash records are stored
//! again in the order of their timestamps.
//!
//! ```
//! use everbyte_media::{Media, Options};
//! use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
//! use everbyte_tx::{Error, Redo};
//! let store = Store::format(Media::anonymous(8 << 20, &Options::default())?, &FormatOptions::default())?;
//! let options = ObjectOptions { engine: Engine::Redo, fingerprint: 0, span: Some(4 << 20) };
//! let redo = Redo::open(store.create_object("accounts", options, Redo::format)?)?;
//! let root = redo.heap().object().root_at();
//! let block = redo.atomically(|tx| {
//!     let block = tx.allocate(64)?;
//!     tx.store(block.at, 100)?;
//!     tx.store(root, block.at.get())?;
//!     Ok::<_, Error>(block)
//! })?; // settled
//! let sum = redo.atomically(|tx| {
//!     let sum = tx.load(block.at)? + 1;
//!     tx.store(block.at, sum)?;
//!     Ok::<_, Error>(sum)
//! })?;
//! assert_eq!((sum, redo.media().load(block.at)), (101, 101));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Promises: docs/semantics/transactions.md. Format: docs/formats/redo.md.
//! Design: docs/design/patomic.md

mod active;
mod atomically;
mod check;
mod commit;
mod engine;
pub mod layout;
mod loads;
mod locks;
mod record;
mod recover;
mod stores;
mod stripe;
mod tools;
mod truncate;
mod worker;

pub use engine::{Redo, Replayed};
pub use tools::RedoTools;
pub use truncate::Truncation;
pub use worker::{Checkpoint, STRIPES_MAX, Stop, Worker};

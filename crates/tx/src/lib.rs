//! # everbyte-tx: a section of code happens whole or not at all
//!
//! An [`Undo`] engine runs transactions over the bytes of one object: bytes are stored in place,
//! after the old bytes were logged in a lane; a crash, an error or a panic puts them back.
//! Blocks are allocated and freed with the transaction, by the same commit word.
//!
//! ```
//! use everbyte_media::{Media, Options};
//! use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
//! use everbyte_tx::{Error, TxError, Undo};
//! let store = Store::format(Media::anonymous(8 << 20, &Options::default())?, &FormatOptions::default())?;
//! let options = ObjectOptions { engine: Engine::Undo, fingerprint: 0, span: Some(4 << 20) };
//! let object = store.create_object("accounts", options, Undo::format)?;
//! let undo = Undo::open(object)?;
//! let root = undo.heap().object().root_at();
//! let block = undo.run(|tx| {
//!     let block = tx.allocate(64)?;       // the tx's own until it commits
//!     tx.store(block.at, 100)?;           // new memory: nothing to log
//!     tx.store(root, block.at.get())?;    // the old root is logged first
//!     Ok::<_, Error>(block)
//! })?;                                    // settled
//! let outcome = undo.run(|tx| {
//!     tx.store(block.at, 7)?;
//!     Err::<(), Error>(Error::NoLane { object: "on purpose".into() })
//! });
//! assert!(matches!(outcome, Err(TxError::Aborted(_))));
//! assert_eq!(undo.media().load(block.at), 100); // rolled back
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Redo`] is the other engine: its transactions are isolated from each other, and what they store
//! waits until they commit.
//!
//! Promises: docs/semantics/transactions.md. Format: docs/formats/lane.md.

#![forbid(unsafe_code)]

mod error;
mod exclusive;
pub mod layout;
mod lock;
mod owned;
pub mod redo;
mod table;
mod undo;

pub use error::{Error, Result, TxError};
pub use lock::TxLock;
pub use redo::Redo;
pub use undo::engine::{Committed, Quiet, Undo};
pub use undo::recover::Recovered;
pub use undo::started::Started;
pub use undo::tx::Tx;

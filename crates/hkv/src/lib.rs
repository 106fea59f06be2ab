//! # everbyte-hkv: key-value stores with small log records
//!
//! HEAPO's observation (Hwang et al., ACM TOS 11(1), 2014): a log of an insertion needs only the
//! one pointer that makes it visible. So a change of a [`Hash`] or a [`Tree`] logs that word and
//! the block it leads to, in 32 to 64 bytes.
//!
//! ```
//! use everbyte_hkv::Hash;
//! use everbyte_media::{Media, Options};
//! use everbyte_store::{FormatOptions, Store};
//! let store = Store::format(Media::anonymous(64 << 20, &Options::default())?, &FormatOptions::default())?;
//! let cities = Hash::create(&store, "cities", Some(32 << 20))?;
//! assert!(cities.insert(b"Oslo", b"Norway")?); // durable when it returns
//! assert!(!cities.insert(b"Oslo", b"Denmark")?, "it is there already");
//! assert_eq!(cities.get(b"Oslo")?.as_deref(), Some(&b"Norway"[..]));
//! assert!(cities.delete(b"Oslo")?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Format: docs/formats/hkv.md.

#![forbid(unsafe_code)]

mod base;
mod error;
mod hash;
mod hasher;
mod kind;
pub mod layout;
mod log_record;
mod log_recovery;
pub mod raw;
mod record;
mod shared;
mod tools;
mod tree;

pub use error::{Error, Result};
pub use hash::Hash;
pub use kind::{Kv, KvKind};
pub use shared::SharedKv;
pub use tools::HkvTools;
pub use tree::{Direction, Tree};

//! # everbyte-broker: rights that the kernel enforces
//!
//! Within one store file whoever has a writable descriptor reaches everything in it: access words
//! there stop accidents. The broker keeps a file for each *domain* instead, a bound store of its
//! own with an owner, a group and rights, in a directory that nobody else can enter. Programs ask
//! for a domain by its name over a socket; the broker asks the kernel who they are, and passes a
//! descriptor with exactly the rights that they have: what was opened for reading cannot be mapped
//! for writing.
//!
//! ```
//! use everbyte_broker::raw::Raw;
//! use everbyte_broker::{Broker, Client, Options, Want};
//!
//! let dir = tempfile::tempdir_in("/dev/shm")?;
//! let broker = Broker::start(&dir.path().join("broker"), &dir.path().join("socket"), Options::default())?;
//!
//! let client = Client::new(broker.socket());
//! client.create("shop/orders", 0o640, 64 << 20)?;
//! let domain = client.attach("shop/orders", Want::Write)?;
//! let store = domain.open(&Default::default())?; // shared with whoever else may write there
//! # assert!(store.is_shared());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! After Volos, Nalli, Panneerselvam, Varadarajan, Saxena, Swift: "Aerie: Flexible File-System
//! Interfaces to Storage-Class Memory" (EuroSys 2014), whose trusted service passes memory in the
//! same way, and HEAPO's rights on objects.
//!
//! * `domains`: what there is, in a store of the broker's own; who may do what with it is decided
//!   by the store's [`Access`]
//! * `wire`: what goes over the socket
//! * `server`, `client`: its two ends
//! * `start`: a broker that starts when it is asked for
//!
//! Design: docs/design/domains.md

#![forbid(unsafe_code)]

mod client;
mod domains;
mod error;
mod layout;
pub mod raw;
mod server;
mod start;
mod wire;

pub use client::{Client, Domain};
pub use domains::{About, Domains};
pub use error::{Error, Result};
pub use everbyte_store::{Access, Want};
pub use server::{Broker, Options};

//! # everbyte-broker: rights that the kernel enforces
//!
//! A process with a writable descriptor of a store file reaches every byte in it: access words
//! there only stop accidents. The broker keeps a file for each *domain* instead, a bound store of
//! its own with an owner, a group and rights, in a directory that no other user can enter. A
//! program asks for a domain by its name over a socket; the broker asks the kernel for the
//! program's user, and passes a descriptor with exactly the rights of that user: a file opened for
//! reading cannot be mapped for writing.
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
//! let store = domain.open(&Default::default())?; // shared with every other writing process
//! # assert!(store.is_shared());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! After Volos, Nalli, Panneerselvam, Varadarajan, Saxena, Swift: "Aerie: Flexible File-System
//! Interfaces to Storage-Class Memory" (EuroSys 2014), whose trusted service passes memory in the
//! same way, and HEAPO's rights on objects.
//!
//! * `domains`: the domains, in a store of the broker's own; the store's [`Access`] decides rights
//! * `wire`: the messages on the socket
//! * `server`, `client`: its two ends
//! * `start`: starts a broker when a client needs one

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

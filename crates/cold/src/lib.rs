//! # everbyte-cold: objects that are larger than their memory
//!
//! A cluster that no thread has touched for a while becomes *cold*: its bytes move to a slot of a
//! lower tier ([`Tier`]), usually a backing file ([`Backing`]), its frame becomes a hole in the
//! store's file, and one word of the object's cold table ([`ColdTable`]) names the slot. The
//! [`Pager`] of an object decides which clusters become cold. The crate knows media and clusters,
//! and no store.
//!
//! Making clusters cold; each step is settled before the next:
//!   1. the pages are hidden, so that no store is lost; their bytes go to free slots of the tier,
//!      and the tier is synced
//!   2. the clusters' words in the table name the slots and the checksums of the bytes there
//!   3. the frames become holes
//!
//! Bringing a cluster back, likewise:
//!   1. its bytes are read, verified, and stored in a new frame
//!   2. its word says that the cluster is in memory
//!   3. the page is shown again, and the slot is free
//!
//! Invariants
//!   COLD-1  The table's word says which of a cluster's two copies counts. That copy is whole and
//!           synced before the word is stored; the other copy is given up after the word is
//!           settled.
//!   COLD-2  A page is shown only while its cluster is in memory, so a thread that touches a cold
//!           cluster stops and waits.
//!   COLD-3  No two words name one slot.
//!   COLD-4  The first cluster of an object, and its cold table, never become cold.
//!
//! Threads: any. Each object has one lock; no thread touches the object's pages while it holds that
//! lock (HIDE-1). One process has such an object open at a time. Elsewhere: hiding pages and
//! receiving touches (`media`), the limit of clusters in memory (the owner of the object).

#![forbid(unsafe_code)]

mod backing;
mod check;
mod error;
pub mod layout;
mod pager;
mod queue;
mod rights;
mod table;
mod tier;

pub use backing::{Backing, Candidate, Files, OpenMode, Owner, RealFiles};
pub use check::{Fault, FaultKind, check};
pub use error::{Error, Result};
pub use pager::{Pager, Paging, TouchSource};
pub use rights::FileRights;
pub use table::{ColdTable, Location};
pub use tier::Tier;

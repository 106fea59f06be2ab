//! The name space: which record has which name.
//!
//! A store begins with a table of 256 records, which is read whole when it is opened and is the
//! trie's only container. When it is full it bursts: an object of the store's own (engine `names`)
//! gets a trie over all names, and room for further records. From then on opening reads the table
//! and what was in flight, whatever the number of names.
//!
//! `rules` says what a name is; `trie` finds, `change` inserts and removes, `intent` knows what a
//! crash interrupts, `slab` has the blocks, `burst_policy` bursts what is slow, `list` walks in order.

mod burst_policy;
mod change;
mod check;
mod intent;
pub mod layout;
mod list;
mod promote;
pub(crate) mod rules;
mod slab;
mod trie;

pub(crate) use trie::Trie;

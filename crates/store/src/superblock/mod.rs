//! The superblock of a store: its copies on media, the words beside them, the plan of a new store,
//! and its identity.

pub(crate) mod copies;
pub(crate) mod head;
pub(crate) mod identity;
pub(crate) mod plan;
mod rebase;
pub(crate) mod words;

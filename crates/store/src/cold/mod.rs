//! Objects that are larger than their memory: clusters that nobody has touched for a while are
//! *cold*. Their bytes lie in a backing file, their frames are holes in the store's file, and the
//! object's cold table says so, a word for each cluster.
//!
//! To let clusters grow cold, each step settled before the next:
//!   1. the pages are hidden, so that no store is lost; their bytes go to free slots of the backing
//!      file, and it is synced
//!   2. their words in the table say which slots, and the checksums of what is there
//!   3. their frames become holes
//!
//! To bring one back, likewise:
//!   1. its bytes are read, found whole, and stored in a new frame
//!   2. its word says that it is here
//!   3. the page shows again, and the slot is free
//!
//! Invariants
//!   COLD-1  Of a cluster's two copies the table's word says which counts; that one is whole and
//!           synced before the word is stored, and the other is not given up before the word is
//!           settled.
//!   COLD-2  A page shows only while its cluster is in memory, so whoever touches a cold one is
//!           stopped, and waits.
//!   COLD-3  No two words lead to one slot.
//!   COLD-4  The first cluster of an object, and its cold table, never grow cold.
//!
//! Threads: any; one lock for each object, which is never held while its pages are touched
//! (HIDE-1). Of such an object there is one user. Elsewhere: hiding pages and hearing of touches
//! (`media`), limits (`limit.rs`).

mod backing;
mod check;
mod limit;
mod pager;
mod queue;
mod table;

pub use backing::{Files, RealFiles};
pub use limit::Residency;
pub(crate) use pager::{Cold, Pager};
pub(crate) use table::Table;

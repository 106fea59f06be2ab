//! Attaching a store: validate, then repair the traces of a crash. Every step can be crashed and
//! taken again.
//!
//!   1. choose a whole superblock, read words and table; nothing is changed before all of them are
//!      found good (STORE-2). After a process that died, the bytes that were read are flushed and
//!      fenced before anything is built on them (STORE-8)
//!   2. write a torn or stale superblock copy again
//!   3. count the opening: the generation of volatile areas and of object ids
//!   4. recover the change of the trie that was in progress (`names`)
//!   5. release records that are `creating` or `removing`, and finish or take back those that
//!      replace another, in the table and in the list of pending changes
//!   6. take unfinished growths back
//!
//! Steps 1 to 3 are in `attach`, steps 4 to 6 in `catalogue/recovery`. Cost: two superblocks, the
//! table of 256 records and a page for each of them, and the changes that were in progress, for any
//! number of objects and any amount of data.

/// The findings of opening a store, and its repairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Whether the last process closed the store.
    pub clean: bool,
    /// Copies of the superblock that were written again, by offset.
    pub superblocks: Vec<u64>,
    /// Words beside the superblocks that failed their check bits and were written again, by offset.
    pub words: Vec<u64>,
    /// Creations that were interrupted, by name; nothing is left of them.
    pub creations: Vec<String>,
    /// Removals that were interrupted and have been finished, by name.
    pub removals: Vec<String>,
    /// Objects with an unfinished growth, which was taken back.
    pub growths: Vec<String>,
    /// Bytes at the end of the file that the store does not know.
    pub unknown: u64,
}

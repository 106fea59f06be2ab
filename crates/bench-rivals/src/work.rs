//! Named operations for libpmemobj, Berkeley DB and Boost.

/// Bytes of a word of the word count, padded with zeros.
pub const WORD: usize = 24;

/// The payload of a node of a red-black tree beside its key and its links: 128 bytes in all.
pub type Payload = [u64; 11];

/// A single operation. Of those named "in batches", a hundred are one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// Reads an object through its pointer.
    Deref = 0,
    /// Allocates and fills, in batches, the commit included.
    Alloc = 1,
    /// Frees, in batches, the commit included.
    Free = 2,
    /// Notes an object that will change, in batches, without the commit.
    DataLog = 3,
    /// Frees, in batches, without the commit.
    DropLog = 4,
    /// A transaction that puts a new object in the place of one that it frees.
    NewFree = 5,
    /// Stores to an object of the transaction's through its pointer.
    DerefMut = 6,
}

/// A single operation of libpmemobj-cpp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CppRow {
    /// A transaction that does nothing.
    Empty = 0,
    /// Reads a number through its pointer.
    Deref = 1,
    /// A transaction that changes a number.
    MutFirst = 2,
}

/// A structure of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// A binary tree that is not balanced.
    Bst = 0,
    /// A hash table with chains.
    KvStore = 1,
    /// A B+tree of eight ways.
    Btree8 = 2,
}

/// The change of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// Puts, removals and gets, a third each, of random keys.
    Mix = 0,
    /// Gets alone.
    Get = 1,
    /// Puts every second key.
    Load = 2,
}

/// The access method of a Berkeley DB database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A B-tree.
    Btree,
    /// A hash table.
    Hash,
}

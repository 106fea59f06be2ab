//! Errors of a key-value store.

use crate::Version;
use everbyte_media::{Damage, ErrorInfo, ErrorKind, Format};

/// An error of the key-value store. Each says what happened, where, and what to do next.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// From the media: an I/O error, a poisoned store.
    #[error(transparent)]
    Media(Box<everbyte_media::Error>),
    /// From the heap: most often, out of space.
    #[error(transparent)]
    Heap(Box<everbyte_heap::Error>),
    /// From the store.
    #[error(transparent)]
    Store(Box<everbyte_store::Error>),
    /// Bytes on media contradict themselves.
    #[error("{0}; `everbyte check` tells what is affected, `everbyte kv export` saves the rest")]
    Damaged(Box<Damage>),
    /// The key is longer than the format allows.
    #[error("a key of {len} bytes is longer than {max}")]
    KeyTooLong {
        /// Its length.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The value is longer than the format allows.
    #[error("a value of {len} bytes is longer than {max}")]
    ValueTooLong {
        /// Its length.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// An earlier operation of this batch failed, so none of it can be committed.
    #[error("an earlier write of this batch failed; drop the batch and try again")]
    Doomed,
    /// The savepoint is none of this batch.
    #[error("the savepoint is of another batch, or this one has gone back to an earlier savepoint")]
    NoSavepoint,
    /// A batch has as many savepoints as it may have.
    #[error("a batch has at most {max} savepoints; commit it and begin another")]
    SavepointsExhausted {
        /// The limit.
        max: u64,
    },
    /// No table has this name.
    #[error("{object} has no table {name:?}")]
    NoTable {
        /// The object that holds the tables.
        object: String,
        /// The table's name.
        name: String,
    },
    /// A table has this name already.
    #[error("{object} has a table {name:?} already")]
    TableExists {
        /// The object that holds the tables.
        object: String,
        /// The table's name.
        name: String,
    },
    /// The name cannot be a table's.
    #[error("a table's name has 1 to {max} bytes; this one has {len}")]
    TableName {
        /// Its length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The table was dropped, was made by a batch that is not committed or was given up, or did not
    /// exist yet at this version.
    #[error("the table {name:?} is not there: it was dropped, is not committed yet, or is newer than this version")]
    TableGone {
        /// The table's name.
        name: String,
    },
    /// The table belongs to another store, or to another object of this one.
    #[error("the table {name:?} belongs to another key-value store")]
    OtherStore {
        /// The table's name.
        name: String,
    },
    /// The reader has fallen too far behind the newest version, and what it sees may be gone.
    #[error(
        "version {version} is no longer kept: the reader is further behind than the limit of this store; take another snapshot"
    )]
    Expired {
        /// The reader's version.
        version: Version,
    },
    /// No version has this name.
    #[error("{object} has no version {name:?}")]
    NoVersion {
        /// The object that holds the versions.
        object: String,
        /// The version's name.
        name: String,
    },
    /// A version has this name already.
    #[error("{object} has a version {name:?} already")]
    VersionExists {
        /// The object that holds the versions.
        object: String,
        /// The version's name.
        name: String,
    },
    /// The name cannot be a version's.
    #[error("a version's name has 1 to {max} bytes; this one has {len}")]
    VersionName {
        /// Its length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// Every table number is in use.
    #[error("there are {max} tables, as many as can be; drop one first")]
    TablesExhausted {
        /// The limit.
        max: u32,
    },
    /// The calling thread has a batch of this tree, which another write would wait for.
    #[error("this thread has a batch of the same table: commit or drop it first, or write through it")]
    OwnBatch,
    /// The commit was made by another tree.
    #[error("the commit belongs to another table, or to this one before it was opened again; settle it there")]
    OtherTree,
    /// The tree was written by a newer Everbyte.
    #[error("the tree {format}, the newest this program knows; use a newer Everbyte")]
    NewerFormat {
        /// The format on media, and the one that this program reads.
        format: Format,
    },
    /// No version numbers are left: after 2^62 commits.
    #[error("the tree has used all its version numbers; export it and import it into a new store")]
    VersionsExhausted,
}

// Boxed, so that a result fits into registers on the paths that never fail.
impl From<everbyte_media::Error> for Error {
    fn from(error: everbyte_media::Error) -> Error {
        Error::Media(Box::new(error))
    }
}

impl From<everbyte_heap::Error> for Error {
    fn from(error: everbyte_heap::Error) -> Error {
        Error::Heap(Box::new(error))
    }
}

impl From<everbyte_store::Error> for Error {
    fn from(error: everbyte_store::Error) -> Error {
        Error::Store(Box::new(error))
    }
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Error {
        Error::Damaged(damage.into())
    }
}

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Media(error) => error.kind(),
            Error::Heap(error) => error.kind(),
            Error::Store(error) => error.kind(),
            Error::Damaged { .. } => ErrorKind::Damaged,
            Error::KeyTooLong { .. } | Error::ValueTooLong { .. } => ErrorKind::TooLarge,
            Error::Doomed
            | Error::OwnBatch
            | Error::OtherTree
            | Error::OtherStore { .. }
            | Error::NoSavepoint
            | Error::TableName { .. }
            | Error::VersionName { .. } => ErrorKind::Invalid,
            Error::NoTable { .. } | Error::TableGone { .. } | Error::NoVersion { .. } => ErrorKind::NotFound,
            Error::Expired { .. } => ErrorKind::Conflict,
            Error::TableExists { .. } | Error::VersionExists { .. } => ErrorKind::Exists,
            Error::SavepointsExhausted { .. } | Error::TablesExhausted { .. } => ErrorKind::NoSpace,
            Error::NewerFormat { .. } => ErrorKind::Newer,
            Error::VersionsExhausted => ErrorKind::NoSpace,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Media(error) => error.damage(),
            Error::Heap(error) => error.damage(),
            Error::Store(error) => error.damage(),
            Error::Damaged(damage) => Some(Damage::clone(damage)),
            _ => None,
        }
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) fn damaged<T>(at: u64, detail: &'static str) -> Result<T> {
    Err(Damage::at(at, detail).into())
}

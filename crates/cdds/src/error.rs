//! Errors of a tree.

use everbyte_media::{Damage, ErrorInfo, ErrorKind};

/// An error of the versioned tree.
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
    #[error(
        "tree damaged at offset {at:#x}: {detail}; `everbyte check` tells what is affected, `everbyte kv export` saves the rest"
    )]
    Damaged {
        /// Offset in the store.
        at: u64,
        /// The kind of damage.
        detail: &'static str,
    },
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
    /// The calling thread has a batch of this tree, which another write would wait for.
    #[error("this thread has a batch of the same table: commit or drop it first, or write through it")]
    OwnBatch,
    /// The commit was made by another tree.
    #[error("the commit belongs to another table, or to this one before it was opened again; settle it there")]
    OtherTree,
    /// The tree was written by a newer Everbyte.
    #[error("tree format {found} is newer than {known}, the newest this program knows; use a newer Everbyte")]
    NewerFormat {
        /// On media.
        found: u32,
        /// Known here.
        known: u32,
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

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Media(error) => error.kind(),
            Error::Heap(error) => error.kind(),
            Error::Store(error) => error.kind(),
            Error::Damaged { .. } => ErrorKind::Damaged,
            Error::KeyTooLong { .. } | Error::ValueTooLong { .. } => ErrorKind::TooLarge,
            Error::Doomed | Error::OwnBatch | Error::OtherTree => ErrorKind::Invalid,
            Error::NewerFormat { .. } => ErrorKind::Newer,
            Error::VersionsExhausted => ErrorKind::NoSpace,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Media(error) => error.damage(),
            Error::Heap(error) => error.damage(),
            Error::Store(error) => error.damage(),
            Error::Damaged { at, detail } => Some(Damage::at(*at, *detail)),
            _ => None,
        }
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) fn damaged<T>(at: u64, detail: &'static str) -> Result<T> {
    Err(Error::Damaged { at, detail })
}

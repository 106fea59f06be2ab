//! Errors in and around a transaction.

use everbyte_heap as heap;
use everbyte_log as log;
use everbyte_media as media;
use media::{Damage, ErrorInfo, ErrorKind, Format};

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The heap refused: a full object, a pointer that is no block.
    #[error(transparent)]
    Heap(#[from] heap::Error),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] everbyte_store::Error),
    /// A lane cannot be read or extended.
    #[error(transparent)]
    Log(#[from] log::Error),
    /// The media failed. At a commit: the outcome is unknown until the store is opened again.
    #[error(transparent)]
    Media(#[from] media::Error),
    /// The object holds no lanes.
    #[error("object `{object}` holds no lanes for transactions of this kind; it was not created with them")]
    NoLane {
        /// The object.
        object: String,
    },
    /// The lanes were made by a newer Everbyte.
    #[error("the table of lanes of object `{object}` {format}; use a newer Everbyte")]
    NewerFormat {
        /// The object.
        object: String,
        /// The format on media, and the one that this program reads.
        format: Format,
    },
    /// The lanes were made by a build of Everbyte that no release came from.
    #[error(
        "the table of lanes of object `{object}` {format}, and no release wrote it; \
         copy its data with the build that made it"
    )]
    OlderFormat {
        /// The object.
        object: String,
        /// The format on media, and the one that this program reads.
        format: Format,
    },
    /// Bytes on media contradict themselves.
    #[error("{0}; `everbyte check` tells what is affected")]
    Damaged(Box<Damage>),
    /// A range that a transaction may not change.
    #[error(
        "{at:#x} + {len} lies outside object `{object}`, or is the engine's own; transactions change their object's data"
    )]
    BadRange {
        /// The store offset.
        at: u64,
        /// Bytes.
        len: u64,
        /// The object.
        object: String,
    },
    /// Another transaction is in the way of one of the redo engine's: it is begun again, by
    /// `Redo::atomically` or by hand.
    #[error("another transaction is in the way of this one; abort it and begin it again")]
    Conflict,
    /// A transaction stores to more than the redo engine keeps in memory for one.
    #[error(
        "a transaction stores to more than {most} lines of 64 bytes in object `{object}`; it has been taken back: \
         divide it, or fill blocks that it allocates"
    )]
    TooLong {
        /// The object.
        object: String,
        /// Lines that one may store to.
        most: usize,
    },
    /// The redo engine has given out all its timestamps.
    #[error(
        "object `{object}` has had as many transactions as its format can number (2^48); nothing of it is lost, and it \
         can be read: copy its data into a new object"
    )]
    TimestampsExhausted {
        /// The object.
        object: String,
    },
    /// An earlier failure left a lane in a state that only recovery can judge.
    #[error(
        "transactions on object `{object}` stopped after a failure of the media; close the store and open it again"
    )]
    Poisoned {
        /// The object.
        object: String,
    },
}

/// Why a transaction did not commit.
#[derive(Debug, thiserror::Error)]
pub enum TxError<E> {
    /// The body returned this error, and all its changes were rolled back.
    #[error("rolled back: {0}")]
    Aborted(E),
    /// A transaction inside this one failed, and the body handled its error and went on: everything
    /// was rolled back.
    #[error("rolled back: a nested transaction failed, and its failure was not passed on")]
    Doomed,
    /// The engine could not commit. [`Error::Media`]: the outcome is unknown until the store is
    /// opened again; otherwise all changes were rolled back.
    #[error(transparent)]
    Engine(Error),
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Error {
        Error::Damaged(damage.into())
    }
}

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Heap(error) => error.kind(),
            Error::Store(error) => error.kind(),
            Error::Log(error) => error.kind(),
            Error::Media(error) => error.kind(),
            Error::NoLane { .. } | Error::OlderFormat { .. } => ErrorKind::Foreign,
            Error::NewerFormat { .. } => ErrorKind::Newer,
            Error::Damaged { .. } => ErrorKind::Damaged,
            Error::BadRange { .. } => ErrorKind::Invalid,
            Error::Conflict => ErrorKind::Conflict,
            Error::TooLong { .. } => ErrorKind::TooLarge,
            Error::TimestampsExhausted { .. } => ErrorKind::NoSpace,
            Error::Poisoned { .. } => ErrorKind::Poisoned,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Heap(error) => error.damage(),
            Error::Store(error) => error.damage(),
            Error::Log(error) => error.damage(),
            Error::Media(error) => error.damage(),
            Error::Damaged(damage) => Some(Damage::clone(damage)),
            _ => None,
        }
    }
}

impl<E: ErrorInfo> ErrorInfo for TxError<E> {
    fn kind(&self) -> ErrorKind {
        match self {
            TxError::Aborted(error) => error.kind(),
            TxError::Doomed => ErrorKind::Invalid,
            TxError::Engine(error) => error.kind(),
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            TxError::Aborted(error) => error.damage(),
            TxError::Doomed => None,
            TxError::Engine(error) => error.damage(),
        }
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

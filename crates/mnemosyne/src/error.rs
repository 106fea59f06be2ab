//! Errors of stored programs, regions and logs.

use everbyte_media::{Damage, ErrorInfo, ErrorKind, Format};

/// An error of this crate. Each text names the event, the place and the way out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The heap refused, or is damaged.
    #[error(transparent)]
    Heap(#[from] everbyte_heap::Error),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] everbyte_store::Error),
    /// The transactions refused, or their logs are damaged.
    #[error(transparent)]
    Tx(#[from] everbyte_tx::Error),
    /// The log refused, or is damaged.
    #[error(transparent)]
    Log(#[from] everbyte_log::Error),
    /// The media failed.
    #[error(transparent)]
    Media(#[from] everbyte_media::Error),
    /// The program was built anew, and its variables lie elsewhere or are others now.
    #[error(
        "the persistent variables of this program are not those that object `{object}` keeps: {detail}; run the program that they belong to, or remove the object to begin with initial values"
    )]
    Changed {
        /// The object.
        object: String,
        /// The difference.
        detail: String,
    },
    /// The program's variables cannot be kept.
    #[error("object `{object}` cannot keep the persistent variables of this program: {detail}")]
    Unfit {
        /// The object.
        object: String,
        /// Why.
        detail: String,
    },
    /// A word that may not receive the address of a region.
    #[error(
        "{at:#x} cannot receive the address of a region: it must be an aligned word of a variable or block of object `{object}`, or of a region"
    )]
    BadTarget {
        /// The program's object.
        object: String,
        /// The offset given.
        at: u64,
    },
    /// The object was written by a newer Everbyte.
    #[error("object `{object}` {format}; use a newer Everbyte")]
    NewerFormat {
        /// The object.
        object: String,
        /// The format on media, and the one that this program reads.
        format: Format,
    },
    /// Bytes contradict themselves.
    #[error("{0}; `everbyte check` tells what is affected")]
    Damaged(Box<Damage>),
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
            Error::Tx(error) => error.kind(),
            Error::Log(error) => error.kind(),
            Error::Media(error) => error.kind(),
            Error::Changed { .. } => ErrorKind::Foreign,
            Error::Unfit { .. } | Error::BadTarget { .. } => ErrorKind::Invalid,
            Error::NewerFormat { .. } => ErrorKind::Newer,
            Error::Damaged { .. } => ErrorKind::Damaged,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Heap(error) => error.damage(),
            Error::Store(error) => error.damage(),
            Error::Tx(error) => error.damage(),
            Error::Log(error) => error.damage(),
            Error::Media(error) => error.damage(),
            Error::Damaged(damage) => Some(Damage::clone(damage)),
            _ => None,
        }
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

//! Errors of a key-value store of this crate.

use everbyte_media::{Damage, ErrorInfo, ErrorKind, Format};
use everbyte_tx::TxError;

/// An error of this crate. Each text names the event, the place and the way out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The transaction that would have changed the store; it was rolled back, unless the media
    /// failed.
    #[error(transparent)]
    Tx(#[from] everbyte_tx::Error),
    /// The heap refused, or is damaged.
    #[error(transparent)]
    Heap(#[from] everbyte_heap::Error),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] everbyte_store::Error),
    /// The media failed.
    #[error(transparent)]
    Media(#[from] everbyte_media::Error),
    /// The object was written by a newer Everbyte.
    #[error("object `{object}` {format}; use a newer Everbyte")]
    NewerFormat {
        /// The object.
        object: String,
        /// The format on media, and the one that this program reads.
        format: Format,
    },
    /// The object was written before this format came.
    #[error("object `{object}` {format}; copy its pairs with the Everbyte that wrote it")]
    OldFormat {
        /// The object.
        object: String,
        /// The format on media, and the one that this program reads.
        format: Format,
    },
    /// Bytes contradict themselves.
    #[error("{0}; `everbyte check` tells what is affected")]
    Damaged(Box<Damage>),
    /// A key or a value is larger than 2^32 - 1 bytes.
    #[error("a key or value of {len} bytes is larger than 4 GiB - 1")]
    TooLarge {
        /// Its length.
        len: usize,
    },
}

impl Error {
    /// Whether a change failed for lack of space, and nothing has changed.
    pub fn is_full(&self) -> bool {
        matches!(self, Error::Heap(error) | Error::Tx(everbyte_tx::Error::Heap(error)) if error.is_full())
    }
}

impl From<TxError<Error>> for Error {
    fn from(error: TxError<Error>) -> Error {
        match error {
            TxError::Aborted(error) => error,
            TxError::Engine(error) => Error::Tx(error),
            other => unreachable!("transactions of this crate are not nested: {other}"),
        }
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
            Error::Tx(error) => error.kind(),
            Error::Heap(error) => error.kind(),
            Error::Store(error) => error.kind(),
            Error::Media(error) => error.kind(),
            Error::NewerFormat { .. } => ErrorKind::Newer,
            Error::OldFormat { .. } => ErrorKind::Foreign,
            Error::Damaged { .. } => ErrorKind::Damaged,
            Error::TooLarge { .. } => ErrorKind::TooLarge,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Tx(error) => error.damage(),
            Error::Heap(error) => error.damage(),
            Error::Store(error) => error.damage(),
            Error::Media(error) => error.damage(),
            Error::Damaged(damage) => Some(Damage::clone(damage)),
            _ => None,
        }
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

//! Errors of a key-value store.

use everbyte_store::{Damage, ErrorInfo, ErrorKind};

/// An error of the key-value store. Each says what happened, where, and what to do next.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// From the tree: damage, limits, out of space.
    #[error(transparent)]
    Tree(#[from] everbyte_cdds::Error),
    /// From the store: no such object, another engine, out of space.
    #[error(transparent)]
    Store(Box<everbyte_store::Error>),
}

impl From<everbyte_store::Error> for Error {
    fn from(error: everbyte_store::Error) -> Error {
        Error::Store(Box::new(error))
    }
}

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Tree(error) => error.kind(),
            Error::Store(error) => error.kind(),
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Tree(error) => error.damage(),
            Error::Store(error) => error.damage(),
        }
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

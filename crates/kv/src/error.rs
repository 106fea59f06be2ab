//! What can go wrong in a key-value store.

/// An error of the key-value store. Each says what happened, where, and what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

//! Errors of typed pools.

use everbyte_media::{Damage, ErrorInfo, ErrorKind, Format};
use std::convert::Infallible;

/// An error of a pool or a transaction on it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] everbyte_store::Error),
    /// Memory of another object could not be read while this transaction ran, by any thread. The
    /// body may have read zeros there, so it was rolled back.
    #[error("rolled back: memory of another object could not be read while this transaction ran; run it again")]
    UnreadableElsewhere,
    /// The transaction engine refused: a full object, damaged lanes, media that failed. A
    /// transaction was rolled back, unless this is [`everbyte_tx::Error::Media`]: then its outcome
    /// is unknown until the store is opened again.
    #[error(transparent)]
    Tx(everbyte_tx::Error),
    /// A pool is open under this pool type already.
    #[error(
        "pool `{open}` is open under pool type `{pool}`; drop its root first, or declare another type with `pool!`"
    )]
    Bound {
        /// The pool type.
        pool: &'static str,
        /// The pool that is open.
        open: String,
    },
    /// No pool is open under this pool type.
    #[error("no pool is open under pool type `{pool}`; open one and keep its root while transactions run")]
    Closed {
        /// The pool type.
        pool: &'static str,
    },
    /// The object is no typed pool.
    #[error("object `{object}` is no typed pool: {detail}")]
    NotTyped {
        /// The object.
        object: String,
        /// The missing part.
        detail: &'static str,
    },
    /// The pool's root is of another type, or the type's layout has changed.
    #[error("pool `{object}` holds another type: {difference}; open it with the type it was made with, or migrate it")]
    WrongType {
        /// The object.
        object: String,
        /// The first type and field that differ, what is found and what was asked for.
        difference: String,
    },
    /// The pool is of an older version of the program, which this one can migrate.
    #[error(
        "pool `{object}` is of an older version: {steps}; open it with `open_migrating`, after which programs of the older \
         version refuse it"
    )]
    OlderVersion {
        /// The object.
        object: String,
        /// Each type that would be migrated, with the versions.
        steps: String,
    },
    /// The pool was made or migrated by a newer version of the program.
    #[error("pool `{object}` is version {found} of `{name}`; this program knows {known}; use the newer program")]
    NewerVersion {
        /// The object.
        object: String,
        /// The type.
        name: String,
        /// Its version in the pool.
        found: u32,
        /// The newest that the program has.
        known: u32,
    },
    /// The pool is of another type than the program, and what the program declares does not lead
    /// from it.
    #[error("pool `{object}` cannot be migrated: {difference}")]
    NoMigration {
        /// The object.
        object: String,
        /// The difference, and the declaration that would agree.
        difference: String,
    },
    /// Strong pointers lead in a circle through objects that are to be migrated: none of them can
    /// be the first.
    #[error(
        "pool `{object}` cannot be migrated: strong pointers lead from the object at {at:#x} to itself; open the circle \
         with the older program"
    )]
    Circle {
        /// The object.
        object: String,
        /// The store offset.
        at: u64,
    },
    /// The pool was made by a newer Everbyte.
    #[error("pool `{object}` {format}; use a newer Everbyte")]
    NewerFormat {
        /// The object.
        object: String,
        /// The format on media, and the one that this program reads.
        format: Format,
    },
    /// Bytes on media contradict themselves.
    #[error("{0}; `everbyte check` tells what is affected")]
    Damaged(Box<Damage>),
    /// A value that a tool cannot read without the program of its type.
    #[error(
        "pool `{object}` holds a value of type `{of}` at {at:#x} that its description does not explain; its program can read it"
    )]
    Opaque {
        /// The object.
        object: String,
        /// The type.
        of: String,
        /// The store offset.
        at: everbyte_media::Offset,
    },
    /// The text of a dump is wrong; nothing was stored.
    #[error("nothing is loaded as `{object}`: line {line} of the dump: {detail}")]
    Dump {
        /// The object.
        object: String,
        /// The line, counted from 1.
        line: u64,
        /// The reason.
        detail: String,
    },
    /// The text of a dump could not be read.
    #[error("nothing is loaded as `{object}`: the dump cannot be read: {source}")]
    Input {
        /// The object.
        object: String,
        /// The reason.
        source: std::io::Error,
    },
    /// The text of a dump could not be written.
    #[error("the dump of `{object}` cannot be written: {source}")]
    Output {
        /// The object.
        object: String,
        /// The reason.
        source: std::io::Error,
    },
    /// A pool in which something cannot be followed: nothing in it is sure to have leaked.
    #[error("{0}; nothing is repaired")]
    Unrepairable(Box<Damage>),
    /// The pool is not the one that a repair was planned for.
    #[error("pool `{object}` has changed since its repair was planned; nothing was repaired: plan again")]
    Changed {
        /// The object.
        object: String,
    },
    /// The last strong pointer to an object was dropped while another transaction held one that it
    /// had upgraded from a weak pointer; everything was rolled back.
    #[error(
        "rolled back: pool `{pool}`: another transaction has upgraded a weak pointer to an object whose last strong pointer \
         was dropped; run the transaction again"
    )]
    Contended {
        /// The pool.
        pool: String,
    },
    /// A check or a repair inside of a transaction of the pool, or a transaction inside of one of
    /// these.
    #[error("pool type `{pool}`: a check, a repair and a transaction of this thread do not run inside of each other")]
    Busy {
        /// The pool type.
        pool: &'static str,
    },
    /// The body panicked; everything was rolled back.
    #[error("rolled back: the transaction's body panicked: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// A transaction inside this one failed, and the body handled its error and went on; everything
    /// was rolled back.
    #[error("rolled back: a nested transaction failed, and its failure was not passed on")]
    Doomed,
}

/// Why a transaction whose body may fail did not commit.
#[derive(Debug, thiserror::Error)]
pub enum TryError<E> {
    /// The body returned this error; everything was rolled back.
    #[error("rolled back: {0}")]
    Aborted(E),
    /// As for a transaction whose body cannot fail.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl TryError<Infallible> {
    pub(crate) fn failed(self) -> Error {
        match self {
            TryError::Failed(error) => error,
            TryError::Aborted(never) => match never {},
        }
    }
}

impl<E: ErrorInfo> ErrorInfo for TryError<E> {
    fn kind(&self) -> ErrorKind {
        match self {
            TryError::Aborted(error) => error.kind(),
            TryError::Failed(error) => error.kind(),
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            TryError::Aborted(error) => error.damage(),
            TryError::Failed(error) => error.damage(),
        }
    }
}

impl From<everbyte_tx::Error> for Error {
    fn from(error: everbyte_tx::Error) -> Error {
        match error {
            everbyte_tx::Error::Store(error) => Error::Store(error),
            error => Error::Tx(error),
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
            Error::Store(error) => error.kind(),
            Error::Tx(error) => error.kind(),
            Error::Bound { .. } | Error::Busy { .. } => ErrorKind::Busy,
            Error::Closed { .. } | Error::Panicked { .. } | Error::Doomed => ErrorKind::Invalid,
            Error::NotTyped { .. }
            | Error::WrongType { .. }
            | Error::OlderVersion { .. }
            | Error::NoMigration { .. }
            | Error::Circle { .. }
            | Error::Opaque { .. }
            | Error::Dump { .. } => ErrorKind::Foreign,
            Error::Input { .. } | Error::Output { .. } => ErrorKind::Io,
            Error::NewerVersion { .. } | Error::NewerFormat { .. } => ErrorKind::Newer,
            Error::Damaged { .. } | Error::Unrepairable { .. } => ErrorKind::Damaged,
            Error::Changed { .. } | Error::Contended { .. } | Error::UnreadableElsewhere => ErrorKind::Conflict,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Store(error) => error.damage(),
            Error::Tx(error) => error.damage(),
            Error::Damaged(damage) | Error::Unrepairable(damage) => Some(Damage::clone(damage)),
            _ => None,
        }
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

//! Errors of the media.

use crate::kind::{Damage, ErrorInfo, ErrorKind, Format};
use std::io;
use std::path::PathBuf;

/// An error of this crate. Each text has the event, its place, and the way out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call on the store file failed; no durable byte has changed.
    #[error("{path}: cannot {action}: {source}")]
    Io {
        /// The attempted action, as the text continues "cannot".
        action: &'static str,
        /// The store file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A write or sync failed, now or earlier: the content of the disk is unknown, and no write is
    /// retried.
    #[error(
        "{path}: poisoned: a write or sync failed earlier ({cause}); close the store and open it again to learn what survived"
    )]
    Poisoned {
        /// The store file.
        path: PathBuf,
        /// The first failure.
        cause: String,
    },
    /// A process holds the store: another one, or this one by an earlier handle.
    #[error("{path}: in use by {holder}; close it there, or reach it through `everbyte serve`")]
    InUse {
        /// The store file.
        path: PathBuf,
        /// The holder: `this process (pid 123)`, `another process (pid 456)`, or `another process`
        /// if no process id is known.
        holder: String,
    },
    /// The file carries no media header: it is not a store.
    #[error("{path}: not an Everbyte store ({detail}); create one with `everbyte create`")]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// The finding.
        detail: &'static str,
    },
    /// The file was written by a newer Everbyte.
    #[error("{path}: the media {format}, the newest this program knows; use a newer Everbyte")]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The format on media, and the one that this program reads.
        format: Format,
    },
    /// Bytes on media contradict themselves.
    #[error("{0}; `everbyte check` tells what is affected")]
    Damaged(Box<Damage>),
    /// The system could not read a page: an uncorrectable memory error, a bad sector, or a file
    /// that was truncated from outside. Other pages can be used.
    #[error("{0}; copy what can be, and restore the rest from a backup")]
    Unreadable(Box<Damage>),
    /// The store is bound to an address at which this process has another mapping.
    #[error(
        "{path}: bound to {address:#x}, and this process has something there{holder}; close that, or open this store in another process"
    )]
    AddressTaken {
        /// The store file.
        path: PathBuf,
        /// The address of the store.
        address: u64,
        /// Bytes it needs there.
        len: u64,
        /// The mapping there, if it is known: ` (NAME at ADDRESS)`, or empty.
        holder: String,
    },
    /// The range lies outside the backed bytes.
    #[error("offset {at:#x} + {len} lies outside the store's {limit} bytes")]
    OutOfRange {
        /// Start of the range.
        at: u64,
        /// Bytes.
        len: u64,
        /// Bytes backed now.
        limit: u64,
    },
    /// The media was opened by another process and inherited by fork.
    #[error("the store was opened by process {owner} and cannot be used after fork; open it again in this process")]
    Forked {
        /// The process that opened it.
        owner: u32,
    },
    /// This machine or path cannot do what the options ask for.
    #[error("{path}: {detail}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The impossible request, and the possible one.
        detail: String,
    },
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Error {
        Error::Damaged(damage.into())
    }
}

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Io { source, .. } => ErrorKind::of_io(source),
            Error::Poisoned { .. } => ErrorKind::Poisoned,
            Error::InUse { .. } | Error::AddressTaken { .. } => ErrorKind::Busy,
            Error::NotAStore { .. } => ErrorKind::Foreign,
            Error::NewerFormat { .. } => ErrorKind::Newer,
            Error::Damaged { .. } | Error::Unreadable { .. } => ErrorKind::Damaged,
            Error::OutOfRange { .. } | Error::Forked { .. } => ErrorKind::Invalid,
            Error::Unsupported { .. } => ErrorKind::Unsupported,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Damaged(damage) | Error::Unreadable(damage) => Some(Damage::clone(damage)),
            _ => None,
        }
    }
}

impl From<everbyte_members::Error> for Error {
    fn from(error: everbyte_members::Error) -> Error {
        match error {
            everbyte_members::Error::Io { action, path, source } => Error::Io { action, path, source },
            everbyte_members::Error::InUse { path, holder } => Error::InUse { path, holder },
            everbyte_members::Error::Forked { owner } => Error::Forked { owner },
        }
    }
}

/// `members` lies below this crate; its errors are answered here.
impl ErrorInfo for everbyte_members::Error {
    fn kind(&self) -> ErrorKind {
        match self {
            everbyte_members::Error::Io { source, .. } => ErrorKind::of_io(source),
            everbyte_members::Error::InUse { .. } => ErrorKind::Busy,
            everbyte_members::Error::Forked { .. } => ErrorKind::Invalid,
        }
    }

    fn damage(&self) -> Option<Damage> {
        None
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

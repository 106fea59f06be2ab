//! Errors of backing clusters.

use everbyte_media as media;
use everbyte_media::{Damage, ErrorInfo, ErrorKind};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system has no space for more clusters, or the store may have no more. Nothing has
    /// changed.
    #[error("no room for {bytes} more bytes at offset {at:#x}; free some space and try again: {source}")]
    OutOfSpace {
        /// Offset of the refused range.
        at: u64,
        /// Its length.
        bytes: u64,
        /// The system's answer.
        #[source]
        source: media::Error,
    },
    /// A word of a bitmap fails its check bits: what it says about its clusters cannot be believed.
    #[error("{0}; `everbyte check` tells what is affected")]
    Damaged(Box<Damage>),
    /// The media failed.
    #[error(transparent)]
    Media(#[from] media::Error),
}

impl Error {
    /// Tells a full disk from other failures of `extend`.
    pub(crate) fn of_extend(at: u64, bytes: u64, source: media::Error) -> Error {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match &source {
            media::Error::Io { source: io, .. } if [StorageFull, QuotaExceeded, FileTooLarge].contains(&io.kind()) => {
                Error::OutOfSpace { at, bytes, source }
            }
            _ => Error::Media(source),
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
            Error::OutOfSpace { .. } => ErrorKind::NoSpace,
            Error::Damaged { .. } => ErrorKind::Damaged,
            Error::Media(error) => error.kind(),
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Damaged(damage) => Some(Damage::clone(damage)),
            Error::Media(error) => error.damage(),
            Error::OutOfSpace { .. } => None,
        }
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

//! What can go wrong when a store asks for room.

use everbyte_media as media;
use std::path::PathBuf;

/// An error of the space floor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system has no room for more clusters. Nothing has changed.
    #[error("no room on the disk for {bytes} more bytes at offset {at:#x}; free some space and try again: {source}")]
    OutOfSpace {
        /// Where room was wanted.
        at: u64,
        /// How much.
        bytes: u64,
        /// The system's answer.
        #[source]
        source: media::Error,
    },
    /// A word of a bitmap fails its check bits: what it says about its clusters cannot be believed.
    #[error("{path}: the bitmap of clusters is damaged at offset {at:#x}; `everbyte check` tells what is affected")]
    Damaged {
        /// The store.
        path: PathBuf,
        /// Where the word lies.
        at: u64,
    },
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

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

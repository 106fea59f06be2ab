//! The errors of cold clusters.

use everbyte_media as media;
use media::{Damage, ErrorInfo, ErrorKind};
use std::path::PathBuf;

/// An error of cold clusters.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The media failed or refused.
    #[error(transparent)]
    Media(#[from] media::Error),
    /// No frame is left for a cluster. Nothing has changed.
    #[error("no room for {bytes} more bytes at offset {at:#x}; free some space and try again: {source}")]
    OutOfSpace {
        /// The offset of the cluster.
        at: u64,
        /// The bytes asked for.
        bytes: u64,
        /// The system's answer.
        #[source]
        source: media::Error,
    },
    /// The backing file of an object cannot be used.
    #[error(
        "{store}: object `{object}`: its backing file {path}: {detail}; the clusters in memory are whole; put the right file there, or restore both from a copy"
    )]
    Backing {
        /// The store.
        store: PathBuf,
        /// The object.
        object: String,
        /// The backing file.
        path: PathBuf,
        /// The reason.
        detail: String,
    },
}

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Media(error) => error.kind(),
            Error::OutOfSpace { .. } => ErrorKind::NoSpace,
            Error::Backing { .. } => ErrorKind::Damaged,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Media(error) => error.damage(),
            Error::OutOfSpace { .. } => None,
            Error::Backing { path, object, detail, .. } => {
                Some(Damage { detail: detail.clone(), ..Damage::default() }.of_file(path).of_object(object))
            }
        }
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

//! Errors of the tools: libraries that are described, headers that are made.

use everbyte_media::{Damage, ErrorInfo, ErrorKind};

/// Why a library has no description or no headers.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The loader refused.
    #[error("the library cannot be loaded: {detail}")]
    Loader {
        /// The loader's words, with the file.
        detail: String,
    },
    /// It exports no types.
    #[error("{path}: it exports no types: the crate has no `library! {{ .. }}`, or is no `cdylib`")]
    NoBridge {
        /// The file.
        path: String,
    },
    /// The text is no description that this version reads.
    #[error("line {line} of the description: {detail}")]
    Description {
        /// The line, counted from 1.
        line: usize,
        /// The contradiction.
        detail: String,
    },
    /// A part of a description has no form in C++.
    #[error("`{place}`: {detail}")]
    Header {
        /// The part.
        place: String,
        /// The reason.
        detail: String,
    },
}

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Loader { .. } => ErrorKind::Io,
            Error::NoBridge { .. } | Error::Description { .. } | Error::Header { .. } => ErrorKind::Invalid,
        }
    }

    fn damage(&self) -> Option<Damage> {
        None
    }
}

//! What can go wrong between a program and its broker.

use std::io;
use std::path::PathBuf;

/// An error of this room. Each says what happened, where, and what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store of the broker, or of a domain.
    #[error(transparent)]
    Store(#[from] everbyte_store::Error),
    /// The media of one.
    #[error(transparent)]
    Media(#[from] everbyte_media::Error),
    /// The system refused.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A path that another user controls, or that holds something else.
    #[error("{}: {detail}", path.display())]
    Unsafe {
        /// The path.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        detail: String,
    },
    /// No broker answers there.
    #[error("{}: no broker answers ({source}); start one with `everbyte broker`", path.display())]
    NoBroker {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The broker said no.
    #[error("{said}")]
    Refused {
        /// Why, as a number of `errno`.
        errno: i32,
        /// Why, as a sentence.
        said: String,
    },
    /// What came over the socket is no answer of a broker.
    #[error("{}: what answers is no broker, or a newer one", path.display())]
    Garbled {
        /// The socket.
        path: PathBuf,
    },
}

/// Results of this room.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A no of the broker: its reason as `errno`, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct No {
    pub errno: i32,
    pub said: String,
}

impl No {
    pub(crate) fn new(errno: rustix::io::Errno, said: impl Into<String>) -> No {
        No { errno: errno.raw_os_error(), said: said.into() }
    }
}

impl From<everbyte_store::Error> for No {
    fn from(error: everbyte_store::Error) -> No {
        use everbyte_store::Error;
        use rustix::io::Errno;
        let errno = match error {
            Error::Exists { .. } => Errno::EXIST,
            Error::NotFound { .. } => Errno::NOENT,
            Error::BadName { .. } | Error::BadOption { .. } => Errno::INVAL,
            Error::Full { .. } | Error::NoSpan { .. } | Error::OutOfSpace { .. } => Errno::NOSPC,
            _ => Errno::IO,
        };
        No::new(errno, error.to_string())
    }
}

impl From<everbyte_media::Error> for No {
    fn from(error: everbyte_media::Error) -> No {
        No::new(rustix::io::Errno::IO, error.to_string())
    }
}

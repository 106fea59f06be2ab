//! What can go wrong between a program and its broker.

use everbyte_media::{Damage, ErrorInfo, ErrorKind};
use std::io;
use std::path::PathBuf;

/// An error of this room. Each says what happened, where, and what to do next.
#[derive(Debug, thiserror::Error)]
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

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Store(error) => error.kind(),
            Error::Media(error) => error.kind(),
            Error::Io { source, .. } => ErrorKind::of_io(source),
            Error::Unsafe { .. } => ErrorKind::Denied,
            Error::NoBroker { .. } => ErrorKind::Io,
            Error::Refused { errno, .. } => ErrorKind::of_io(&io::Error::from_raw_os_error(*errno)),
            Error::Garbled { .. } => ErrorKind::Foreign,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Store(error) => error.damage(),
            Error::Media(error) => error.damage(),
            _ => None,
        }
    }
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

impl No {
    /// The answer to a client for an error of this process.
    pub(crate) fn of(error: &impl ErrorInfo) -> No {
        use rustix::io::Errno;
        let errno = match error.kind() {
            ErrorKind::NotFound => Errno::NOENT,
            ErrorKind::Exists => Errno::EXIST,
            ErrorKind::Busy => Errno::BUSY,
            ErrorKind::Denied => Errno::ACCESS,
            ErrorKind::NoSpace => Errno::NOSPC,
            ErrorKind::Quota => Errno::DQUOT,
            ErrorKind::Invalid => Errno::INVAL,
            ErrorKind::TooLarge => Errno::TOOBIG,
            ErrorKind::Damaged => Errno::UCLEAN,
            ErrorKind::Newer | ErrorKind::Unsupported => Errno::NOTSUP,
            ErrorKind::Foreign => Errno::MEDIUMTYPE,
            ErrorKind::Conflict => Errno::AGAIN,
            ErrorKind::ReadOnly => Errno::ROFS,
            ErrorKind::Interrupted => Errno::INTR,
            ErrorKind::Poisoned | ErrorKind::Io => Errno::IO,
        };
        No::new(errno, error.to_string())
    }
}

impl From<everbyte_store::Error> for No {
    fn from(error: everbyte_store::Error) -> No {
        No::of(&error)
    }
}

impl From<everbyte_media::Error> for No {
    fn from(error: everbyte_media::Error) -> No {
        No::of(&error)
    }
}

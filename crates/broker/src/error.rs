//! Errors between a program and its broker.

use everbyte_media::{Damage, ErrorInfo, ErrorKind};
use std::io;
use std::path::{Path, PathBuf};

/// An error of this crate. Each text names the event, the place and the way out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store of the broker, or of a domain.
    #[error(transparent)]
    Store(#[from] everbyte_store::Error),
    /// The same, with the directory of the domains as the user named it.
    #[error("{said}")]
    Domains {
        /// The text of the store.
        said: String,
        /// The error itself, which names the directory by a descriptor.
        source: Box<Error>,
    },
    /// The media of one.
    #[error(transparent)]
    Media(#[from] everbyte_media::Error),
    /// The system refused.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The refused action.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A path that another user controls, or that holds something else.
    #[error("{}: {detail}", path.display())]
    Unsafe {
        /// The path.
        path: PathBuf,
        /// The reason, and the way out.
        detail: String,
    },
    /// No broker answers there.
    #[error("{}: no broker answers ({source}); start one with `everbyte broker`", path.display())]
    NoBroker {
        /// The socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The broker refused.
    #[error("{said}")]
    Refused {
        /// Why, as a number of `errno`.
        errno: i32,
        /// Why, as a sentence.
        said: String,
    },
    /// The message on the socket is not an answer of a broker.
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
            Error::Domains { source, .. } => source.kind(),
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
            Error::Domains { source, .. } => source.damage(),
            Error::Media(error) => error.damage(),
            _ => None,
        }
    }
}

impl Error {
    /// The error as the user should read it: the broker knows the directory of its domains by a
    /// descriptor, the user by a name.
    pub(crate) fn in_directory(self, descriptor: &Path, named: &Path) -> Error {
        let said = self.to_string();
        match renamed(&said, descriptor, named) {
            same if same == said => self,
            said => Error::Domains { said, source: Box::new(self) },
        }
    }
}

/// A text in which one path is replaced by another. The longer numbers that the first may begin are
/// left alone.
pub(crate) fn renamed(text: &str, from: &Path, to: &Path) -> String {
    let (from, to) = (from.display().to_string(), to.display().to_string());
    let mut parts = text.split(from.as_str());
    let mut renamed = parts.next().unwrap_or_default().to_string();
    for part in parts {
        renamed.push_str(if part.starts_with(|next: char| next.is_ascii_digit()) { &from } else { &to });
        renamed.push_str(part);
    }
    renamed
}

/// Results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A refusal of the broker: its reason as `errno`, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct No {
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

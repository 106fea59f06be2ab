//! The errors of mounting.

use everbyte_media::{Damage, ErrorInfo, ErrorKind};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A result of mounting.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of mounting or unmounting.
#[derive(Debug)]
pub enum Error {
    /// The mount point does not exist or is no directory.
    BadMountPoint {
        /// The path.
        path: PathBuf,
        /// The reason.
        detail: &'static str,
    },
    /// The mount point is in use.
    Busy {
        /// The path.
        path: PathBuf,
        /// The reason.
        detail: &'static str,
    },
    /// This machine offers no FUSE.
    NoFuse,
    /// An option that does not exist, or excludes another one.
    BadOption {
        /// The option.
        option: String,
    },
    /// The operating system refused.
    Io {
        /// The path.
        path: PathBuf,
        /// The call.
        action: &'static str,
        /// Its error.
        source: io::Error,
    },
    /// The volume failed.
    Posix(everbyte_posix::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::BadMountPoint { path, detail } | Error::Busy { path, detail } => {
                write!(f, "{}: {detail}", path.display())
            }
            Error::NoFuse => {
                f.write_str("/dev/fuse is absent: the kernel has no FUSE, or the container does not pass it on")
            }
            Error::BadOption { option } => {
                let (words, names) = (everbyte_posix::FilesOptions::WORDS, crate::options::NAMES);
                write!(f, "`{option}` is no mount option; the options are {words}, {names}")
            }
            Error::Io { path, action, source } if source.kind() == io::ErrorKind::PermissionDenied => {
                let hint = "this needs root, or `fusermount3` of the package fuse3";
                write!(f, "{}: cannot {action}: {source}; {hint}", path.display())
            }
            Error::Io { path, action, source } => write!(f, "{}: cannot {action}: {source}", path.display()),
            Error::Posix(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Posix(error) => Some(error),
            _ => None,
        }
    }
}

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::BadMountPoint { .. } | Error::BadOption { .. } => ErrorKind::Invalid,
            Error::Busy { .. } => ErrorKind::Busy,
            Error::NoFuse => ErrorKind::Unsupported,
            Error::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                io::ErrorKind::ResourceBusy => ErrorKind::Busy,
                _ => ErrorKind::Io,
            },
            Error::Posix(error) => error.kind(),
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Posix(error) => error.damage(),
            _ => None,
        }
    }
}

impl From<everbyte_posix::Error> for Error {
    fn from(error: everbyte_posix::Error) -> Error {
        Error::Posix(error)
    }
}

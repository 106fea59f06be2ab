//! Errors of a log: the media, its space, or damage found in it.

use everbyte_media::{Damage, ErrorInfo, ErrorKind, Format};

/// An error of this crate. Each text names the event, the place and the way out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The media refused; see its own words.
    #[error(transparent)]
    Media(#[from] everbyte_media::Error),
    /// No space for an append. A journal takes another segment, see [`crate::Journal::extend`]; a
    /// ring is truncated.
    #[error("the log at {at:#x} is full: {needed} bytes more are needed; extend or truncate it")]
    Full {
        /// Offset of the log.
        at: u64,
        /// Bytes that the append needs.
        needed: u64,
    },
    /// An append that could never fit, however empty the ring.
    #[error(
        "an append of {words} words cannot fit the ring at {at:#x}, which takes {most}; split it or use a larger ring"
    )]
    TooLarge {
        /// Offset of the log.
        at: u64,
        /// Words asked for.
        words: u64,
        /// The longest append this ring takes.
        most: u64,
    },
    /// The range given for a log is no good.
    #[error("{start:#x}..{end:#x} cannot hold a log: {detail}")]
    BadRange {
        /// Start of the range.
        start: u64,
        /// End of the range.
        end: u64,
        /// The refused property.
        detail: &'static str,
    },
    /// The range carries no log of this kind.
    #[error("no {what} at {at:#x}: it was never formatted, or something wrote over it")]
    NotALog {
        /// `undo journal` or `word log`.
        what: &'static str,
        /// The offset.
        at: u64,
    },
    /// The log was written by a newer Everbyte.
    #[error("the {what} at {at:#x} {format}, the newest this program knows; use a newer Everbyte")]
    NewerFormat {
        /// `undo journal` or `word log`.
        what: &'static str,
        /// The offset.
        at: u64,
        /// The format on media, and the one that this program reads.
        format: Format,
    },
    /// Bytes on media contradict themselves in a way that no crash explains.
    #[error("{0}; `everbyte check` tells what is affected")]
    Damaged(Box<Damage>),
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Error {
        Error::Damaged(damage.into())
    }
}

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Media(error) => error.kind(),
            Error::Full { .. } => ErrorKind::NoSpace,
            Error::TooLarge { .. } => ErrorKind::TooLarge,
            Error::BadRange { .. } => ErrorKind::Invalid,
            Error::NotALog { .. } => ErrorKind::Foreign,
            Error::NewerFormat { .. } => ErrorKind::Newer,
            Error::Damaged { .. } => ErrorKind::Damaged,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Media(error) => error.damage(),
            Error::Damaged(damage) => Some(Damage::clone(damage)),
            _ => None,
        }
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

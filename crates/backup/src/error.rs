//! The errors of backups. Each text names the event, the place, and the way out.

use everbyte_media as media;
use everbyte_store as store;
use media::{Damage, ErrorInfo, ErrorKind, Format};
use std::path::PathBuf;

/// An error of a backup or of restoring one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed or refused.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The media failed or refused.
    #[error(transparent)]
    Media(#[from] media::Error),
    /// A file of a backup failed.
    #[error("{path}: cannot {action}: {source}")]
    Io {
        /// The call.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The file is not a backup.
    #[error("{path}: not a backup of an Everbyte store ({detail})")]
    NotABackup {
        /// The file.
        path: PathBuf,
        /// The reason.
        detail: String,
    },
    /// The file comes from a newer program.
    #[error("{path}: the backup {format}; use a newer program")]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: Format,
    },
    /// The file is damaged.
    #[error("{}; restore from another backup", damaged(.0))]
    Damaged(Box<Damage>),
    /// Files that do not belong together, in this order.
    #[error("{path}: {detail}")]
    WrongParent {
        /// The file that does not follow.
        path: PathBuf,
        /// The file that it needs.
        detail: String,
    },
    /// The store cannot be copied as it is open now. No file was made.
    #[error("{path}: {detail}")]
    Refused {
        /// The store.
        path: PathBuf,
        /// The reason, and the way out.
        detail: String,
    },
    /// The store is in use in a way that keeps a backup waiting. No file was made.
    #[error("{path}: {detail}")]
    Busy {
        /// The store.
        path: PathBuf,
        /// The reason, and the way out.
        detail: String,
    },
}

/// The text of a damage of a backup's file, which is not the one of a store.
fn damaged(damage: &Damage) -> String {
    let path = damage.path.as_deref().unwrap_or(std::path::Path::new("the backup")).display();
    let offset = damage.offset.unwrap_or_default();
    format!("{path}: the backup is damaged at offset {offset:#x}: {}", damage.detail)
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Error {
        Error::Damaged(damage.into())
    }
}

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Store(error) => error.kind(),
            Error::Media(error) => error.kind(),
            Error::Io { source, .. } => match source.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                std::io::ErrorKind::AlreadyExists => ErrorKind::Exists,
                std::io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                _ => ErrorKind::of_io(source),
            },
            Error::NotABackup { .. } => ErrorKind::Foreign,
            Error::NewerFormat { .. } => ErrorKind::Newer,
            Error::Damaged(_) => ErrorKind::Damaged,
            Error::WrongParent { .. } | Error::Refused { .. } => ErrorKind::Invalid,
            Error::Busy { .. } => ErrorKind::Busy,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Store(error) => error.damage(),
            Error::Media(error) => error.damage(),
            Error::Damaged(damage) => Some(Damage::clone(damage)),
            _ => None,
        }
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

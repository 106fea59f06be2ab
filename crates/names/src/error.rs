//! The one error of this crate: damage.

use everbyte_media::{Damage, ErrorInfo, ErrorKind};
use std::path::PathBuf;

/// Bytes of the trie contradict themselves or each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: the name space is damaged at offset {at:#x}: {detail}; `everbyte check` tells what is affected")]
pub struct Damaged {
    /// The file.
    pub path: PathBuf,
    /// The offset of the damage.
    pub at: u64,
    /// The contradiction.
    pub detail: String,
}

impl ErrorInfo for Damaged {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Damaged
    }

    fn damage(&self) -> Option<Damage> {
        Some(Damage::at(self.at, format!("the name space: {}", self.detail)).of_file(&self.path))
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Damaged> = std::result::Result<T, E>;

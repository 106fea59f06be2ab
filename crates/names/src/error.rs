//! The one error of this crate: damage.

use everbyte_media::{Damage, ErrorInfo, ErrorKind, Offset};
use std::path::Path;

/// Bytes of the trie contradict themselves or each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; `everbyte check` tells what is affected")]
pub struct Damaged(pub Box<Damage>);

impl Damaged {
    /// Damage at `at` of the file at `path`.
    pub fn new(path: &Path, at: impl Into<Offset>, detail: String) -> Damaged {
        let at = at.into().get();
        Damaged(Damage::at(at, format!("the name space: {detail}")).of_file(path).into())
    }
}

impl ErrorInfo for Damaged {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Damaged
    }

    fn damage(&self) -> Option<Damage> {
        Some(Damage::clone(&self.0))
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Damaged> = std::result::Result<T, E>;

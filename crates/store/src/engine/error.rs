//! [`EngineError`]: the error of any engine, for tools that know none of them.

use crate::Finding;
use everbyte_media::{Damage, ErrorInfo, ErrorKind};

/// An error of an engine's tools. The text is the engine's own.
#[derive(Debug)]
pub enum EngineError {
    /// The engine failed or refused.
    Engine(Box<dyn ErrorInfo + Send + Sync>),
    /// The object is damaged, and damaged objects are not repaired.
    Unrepairable(Finding),
}

impl EngineError {
    /// The error of an engine.
    pub fn new(error: impl ErrorInfo + Send + Sync + 'static) -> EngineError {
        EngineError::Engine(Box::new(error))
    }
}

impl From<crate::Error> for EngineError {
    fn from(error: crate::Error) -> EngineError {
        EngineError::new(error)
    }
}

impl ErrorInfo for EngineError {
    fn kind(&self) -> ErrorKind {
        match self {
            EngineError::Engine(error) => error.kind(),
            EngineError::Unrepairable(_) => ErrorKind::Damaged,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            EngineError::Engine(error) => error.damage(),
            EngineError::Unrepairable(finding) => {
                Some(Damage { object: finding.object.clone(), ..Damage::at(finding.at, &finding.detail) })
            }
        }
    }
}

impl std::error::Error for EngineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            EngineError::Engine(error) => error.source(),
            EngineError::Unrepairable(_) => None,
        }
    }
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EngineError::Engine(error) => error.fmt(f),
            EngineError::Unrepairable(finding) => {
                write!(f, "{finding}; nothing is repaired while there is damage; see what `everbyte check` says of it")
            }
        }
    }
}

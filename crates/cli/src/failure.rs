//! Why a command did not do what it was asked, and the exit code that says so.

use std::io;
use std::path::Path;

/// A failure of a command. Its text says what, where, and what to do next.
#[derive(Debug)]
pub enum Failure {
    /// The answer is no: an absent key, findings of `check`. Exit code 1.
    No(String),
    /// The words make no sense. Exit code 2.
    Words(String),
    /// Not a store, from a newer version, or damaged. Exit code 3.
    Store(String),
    /// In use by another process. Exit code 4.
    InUse(String),
    /// The system refused: permission, space, an address that is taken. Exit code 5.
    System(String),
    /// Whoever read our output has closed it; nothing is wrong.
    Closed,
}

impl Failure {
    /// The exit code, as docs/manual/cli.md lists them.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Closed => 0,
            Failure::No(_) => 1,
            Failure::Words(_) => 2,
            Failure::Store(_) => 3,
            Failure::InUse(_) => 4,
            Failure::System(_) => 5,
        }
    }

    /// A system call on a file failed.
    pub fn system(action: &str, path: &Path, source: io::Error) -> Failure {
        Failure::System(format!("{}: cannot {action}: {source}", path.display()))
    }

    /// Writing to standard output failed.
    pub fn output(source: io::Error) -> Failure {
        match source.kind() {
            io::ErrorKind::BrokenPipe => Failure::Closed,
            _ => Failure::System(format!("cannot write the output: {source}")),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::No(text)
            | Failure::Words(text)
            | Failure::Store(text)
            | Failure::InUse(text)
            | Failure::System(text) => f.write_str(text),
            Failure::Closed => f.write_str("the output was closed"),
        }
    }
}

impl From<everbyte_media::Error> for Failure {
    fn from(error: everbyte_media::Error) -> Failure {
        use everbyte_media::Error;
        let text = error.to_string();
        match error {
            Error::InUse { .. } => Failure::InUse(text),
            Error::NotAStore { .. } | Error::NewerFormat { .. } | Error::Damaged { .. } | Error::OutOfRange { .. } => {
                Failure::Store(text)
            }
            _ => Failure::System(text), // Io, Poisoned, Unsupported
        }
    }
}

impl From<everbyte_store::Error> for Failure {
    fn from(error: everbyte_store::Error) -> Failure {
        use everbyte_store::Error;
        let text = error.to_string();
        match error {
            Error::Media(error) => error.into(),
            Error::BadOption { .. } | Error::BadName { .. } | Error::BadRange { .. } | Error::Occupied { .. } => {
                Failure::Words(text)
            }
            Error::NotFound { .. } => Failure::No(text),
            Error::Open { .. }
            | Error::Attached { .. }
            | Error::Unshared { .. }
            | Error::SameIdentity { .. }
            | Error::Busy => Failure::InUse(text),
            Error::OutOfSpace { .. }
            | Error::Full { .. }
            | Error::NoSpan { .. }
            | Error::SpanFull { .. }
            | Error::QuotaExceeded { .. }
            | Error::UserQuotaExceeded { .. }
            | Error::Backing { .. }
            | Error::Denied { .. } => Failure::System(text),
            _ => Failure::Store(text), // not a store, newer, damaged, truncated, of another engine or type
        }
    }
}

impl From<everbyte_heap::Error> for Failure {
    fn from(error: everbyte_heap::Error) -> Failure {
        use everbyte_heap::Error;
        let text = error.to_string();
        match error {
            Error::Store(error) => error.into(),
            Error::Media(error) => error.into(),
            _ => Failure::Store(text),
        }
    }
}

impl From<everbyte_kv::Error> for Failure {
    fn from(error: everbyte_kv::Error) -> Failure {
        use everbyte_cdds::Error as Tree;
        use everbyte_kv::Error;
        let text = error.to_string();
        match error {
            Error::Store(error) | Error::Tree(Tree::Store(error)) => (*error).into(),
            Error::Tree(Tree::Media(error)) => (*error).into(),
            Error::Tree(Tree::Heap(error)) => (*error).into(),
            Error::Tree(Tree::KeyTooLong { .. } | Tree::ValueTooLong { .. }) => Failure::Words(text),
            _ => Failure::Store(text), // damaged, newer, worn out
        }
    }
}

impl From<everbyte_object::Error> for Failure {
    fn from(error: everbyte_object::Error) -> Failure {
        use everbyte_object::Error;
        let text = error.to_string();
        match error {
            Error::Store(error) => error.into(),
            Error::Unrepairable { .. } | Error::Changed { .. } => Failure::No(text),
            _ => Failure::Store(text), // damaged, newer
        }
    }
}

impl From<everbyte::MergeError> for Failure {
    fn from(error: everbyte::MergeError) -> Failure {
        use everbyte::MergeError;
        let text = error.to_string();
        match error {
            MergeError::Store(error) => error.into(),
            MergeError::Kv(error) => error.into(),
            MergeError::Object(error) => error.into(),
            _ => Failure::Words(text), // other words would do: a prefix, a rename, a skip, a resume
        }
    }
}

impl From<everbyte_server::Error> for Failure {
    fn from(error: everbyte_server::Error) -> Failure {
        let text = error.to_string();
        match error {
            everbyte_server::Error::Store { source } => match Failure::from(source) {
                Failure::Store(_) => Failure::Store(text),
                _ => Failure::System(text),
            },
            _ => Failure::System(text), // a taken address, a refused system call
        }
    }
}

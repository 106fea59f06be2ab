//! Why a command did not do what it was asked, and the exit code that says so.

use everbyte_media::{ErrorInfo, ErrorKind};
use std::io;
use std::path::Path;

/// A failure of a command. Its text says what, where, and what to do next.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The answer is no: an absent key, findings of `check`. Exit code 1.
    No(String),
    /// Invalid arguments. Exit code 2.
    Words(String),
    /// Not a store, from a newer version, or damaged. Exit code 3.
    Store(String),
    /// In use by another process. Exit code 4.
    InUse(String),
    /// The system refused: permission, space, an address that is taken. Exit code 5.
    System(String),
    /// The reader of the output has closed it; this is no error.
    Closed,
}

impl Failure {
    /// The exit code, as docs/manual/cli.md lists them.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Closed => 0,
            Failure::No(_) => 1,
            Failure::Words(_) => 2,
            Failure::Store(_) => 3,
            Failure::InUse(_) => 4,
            Failure::System(_) => 5,
        }
    }

    /// The failure of another process that ran the command.
    pub(crate) fn of_code(code: u8, text: String) -> Failure {
        match code {
            1 => Failure::No(text),
            2 => Failure::Words(text),
            3 => Failure::Store(text),
            4 => Failure::InUse(text),
            _ => Failure::System(text),
        }
    }

    /// A system call on a file failed.
    pub(crate) fn system(action: &str, path: &Path, source: io::Error) -> Failure {
        Failure::System(format!("{}: cannot {action}: {source}", path.display()))
    }

    /// Writing to standard output failed.
    pub(crate) fn output(source: io::Error) -> Failure {
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

/// Every error of the workspace, by its kind.
///
/// A refusal of the operating system keeps its exit code, whichever kind it has.
fn by_kind(error: &impl ErrorInfo) -> Failure {
    let text = error.to_string();
    if error.os_error().is_some() {
        return Failure::System(text);
    }
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::Conflict => Failure::No(text),
        ErrorKind::Exists | ErrorKind::Invalid | ErrorKind::TooLarge => Failure::Words(text),
        ErrorKind::Damaged | ErrorKind::Newer | ErrorKind::Foreign => Failure::Store(text),
        ErrorKind::Busy => Failure::InUse(text),
        ErrorKind::Denied
        | ErrorKind::NoSpace
        | ErrorKind::Quota
        | ErrorKind::Poisoned
        | ErrorKind::Unsupported
        | ErrorKind::ReadOnly
        | ErrorKind::Interrupted
        | ErrorKind::Io => Failure::System(text),
    }
}

macro_rules! from_errors {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                by_kind(&error)
            }
        })*
    };
}

from_errors!(
    everbyte::EngineError,
    everbyte::backup::Error,
    everbyte::MergeError,
    everbyte_bridge::Error,
    everbyte_fs::Error,
    everbyte_fuse::Error,
    everbyte_heap::Error,
    everbyte_kv::Error,
    everbyte_media::Error,
    everbyte_object::Error,
    everbyte_server::Error,
    everbyte_server::ExportError,
    everbyte_server::ImportError,
    everbyte_store::Error
);

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_media::Damage;

    /// An error of a kind, with no system error behind it.
    #[derive(Debug)]
    struct Plain(ErrorKind);

    impl std::error::Error for Plain {}

    impl std::fmt::Display for Plain {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0.name())
        }
    }

    impl ErrorInfo for Plain {
        fn kind(&self) -> ErrorKind {
            self.0
        }

        fn damage(&self) -> Option<Damage> {
            None
        }
    }

    #[test]
    fn the_manual_lists_the_exit_code_of_every_kind() {
        let page = include_str!("../../../docs/manual/errors.md");
        for kind in ErrorKind::ALL {
            let row = format!("| `{kind}` | {} |", by_kind(&Plain(kind)).code());
            assert!(page.contains(&row), "no row begins with {row}");
        }
    }
}

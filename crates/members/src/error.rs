//! Errors of membership and of file locks.

use std::io;
use std::path::PathBuf;

/// An error of membership. `everbyte_media::Error` has the same three variants with the same texts
/// and is made from this one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call on the store file failed.
    #[error("{path}: cannot {action}: {source}")]
    Io {
        /// The attempted action, as the text continues "cannot".
        action: &'static str,
        /// The store file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A process holds the store: another one, or this one by an earlier handle.
    #[error("{path}: in use by {holder}; close it there, or reach it through `everbyte serve`")]
    InUse {
        /// The store file.
        path: PathBuf,
        /// The holder: `this process (pid 123)`, `another process (pid 456)`, or `another process`
        /// if no process id is known.
        holder: String,
    },
    /// The store was opened by another process, and this one inherited it by fork.
    #[error("the store was opened by process {owner} and cannot be used after fork; open it again in this process")]
    Forked {
        /// The process that opened it.
        owner: u32,
    },
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

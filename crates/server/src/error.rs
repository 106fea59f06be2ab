//! Why a server could not start, or had to stop.

use everbyte_media::{Damage, ErrorInfo, ErrorKind, Format};
use std::io;

/// Errors of [`Server`](crate::Server).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is no address, or this machine does not have it, or it is taken.
    #[error("cannot listen on {address}: {source}{}", advice(.source))]
    Listen {
        /// As given.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// Other machines can reach the address, there is no password, and the options do not say that
    /// they may.
    #[error(
        "refusing to listen on {address}: other machines can reach it, and no password is set, so every client could read, change \
         and delete every key; listen on 127.0.0.1, set a password (option `requirepass`), or say --open (option `open`) if the network is \
         trusted"
    )]
    Exposed {
        /// As given.
        address: String,
    },
    /// The file of users cannot be used.
    #[error("{text}; the server has not started: put the file right, or start without it (option `aclfile`)")]
    Users {
        /// Everything that is wrong with it.
        text: String,
    },
    /// Certificates or keys cannot be used.
    #[error("{text}")]
    Tls {
        /// The faults of the files, with their names.
        text: String,
    },
    /// A system call of the event loop failed.
    #[error("{action}: {source}")]
    System {
        /// The failed operation.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The server's tables cannot be opened or made.
    #[error("cannot open the server's tables: {source}")]
    Open {
        /// The store's error.
        source: everbyte_kv::Error,
    },
    /// An import into the same store is under way in this process.
    #[error("an import into this store has not finished; wait for its end, or stop it")]
    Importing,
    /// A server or an export uses the tables in this process.
    #[error("a server or an export of this process uses the store; stop it before an import")]
    Served,
    /// Another program has written the server's tables.
    #[error("the object is a server's, and its layout {format}: serve it with the Everbyte that made it")]
    Layout {
        /// The layout found and the one known.
        format: Format,
    },
    /// The store could not settle an iteration. Acknowledged writes are safe; the outcome of the
    /// iteration's own writes is unknown.
    #[error(
        "the store could not settle the last writes, which were answered with errors: {source}; the server stops: \
         see to the medium, then start it again, and opening the store shows what it holds"
    )]
    Store {
        /// The store's error.
        source: everbyte_kv::Error,
    },
    /// The thread that settles has panicked. Acknowledged writes are safe; the outcome of the last
    /// writes is unknown.
    #[error(
        "nothing is settled any more, by a fault of Everbyte itself that was printed where the server runs; the last writes were \
         answered with errors, and the server stops: start it again, and opening the store shows what it holds"
    )]
    Settler,
    /// The thread of another event loop has panicked. Its connections are lost; acknowledged writes
    /// are safe.
    #[error(
        "an event loop has ended by a fault of Everbyte itself that was printed where the server runs, and its connections with \
         it; the server stops: start it again, with one loop (option `io-threads`) if it happens again"
    )]
    Loop,
}

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Listen { source, .. } | Error::System { source, .. } => ErrorKind::of_io(source),
            Error::Exposed { .. } => ErrorKind::Denied,
            Error::Importing | Error::Served => ErrorKind::Busy,
            Error::Users { .. } | Error::Tls { .. } => ErrorKind::Invalid,
            Error::Store { source } | Error::Open { source } => source.kind(),
            Error::Layout { .. } => ErrorKind::Newer,
            Error::Settler | Error::Loop => ErrorKind::Poisoned,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Store { source } | Error::Open { source } => source.damage(),
            _ => None,
        }
    }
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another server has it: stop that one, or listen on another port",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need a privilege: listen on a higher one",
        io::ErrorKind::AddrNotAvailable => {
            "; this machine has no such address: use 127.0.0.1 or one that `ip addr` shows"
        }
        io::ErrorKind::InvalidInput => "; give an address and a port, such as 127.0.0.1:6380",
        _ => "",
    }
}

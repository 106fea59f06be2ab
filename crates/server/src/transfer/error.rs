//! Errors of imports, and the state of the store behind them.

use everbyte_kv::KEY_MAX;
use everbyte_media::{Damage, ErrorInfo, ErrorKind};
use std::fmt;
use std::io;

/// Bytes of a key or a reply that a text shows.
const SHOWN_MAX: usize = 100;

/// Text of bytes, cut.
fn shown(bytes: &[u8]) -> String {
    let text = bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii().to_string();
    if bytes.len() > SHOWN_MAX { format!("{text}...") } else { text }
}

/// The fault that has ended an import.
#[derive(Debug, thiserror::Error)]
pub enum ImportFault {
    /// A file cannot be read.
    #[error("{name}: cannot read at offset {offset}: {source}")]
    Read {
        /// The file.
        name: String,
        /// The offset in it.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// A file is none of Redis's, or is damaged.
    #[error("{name}: damaged at offset {offset}: {detail}")]
    Damaged {
        /// The file, or the server.
        name: String,
        /// The offset in it.
        offset: u64,
        /// The damage.
        detail: String,
    },
    /// The source has data that this server does not support.
    #[error("{name}: offset {offset}: {detail}")]
    Unsupported {
        /// The file, or the server.
        name: String,
        /// The offset in it.
        offset: u64,
        /// Its description, and what to do.
        detail: String,
    },
    /// The store has a key of the source.
    #[error(
        "the key \"{}\" of database {database} is in the store already, or twice in the source; --replace gives it the new value, \
         --clear deletes all keys first", shown(.key)
    )]
    Exists {
        /// Its database.
        database: u8,
        /// The key.
        key: Vec<u8>,
    },
    /// Commands cannot be added to the keys that the store has.
    #[error(
        "the store has keys, and the commands of an AOF or of a running server go on top of their own keys alone; --clear deletes \
         all keys of the store first, or import into a new store (--create)"
    )]
    NotEmpty,
    /// The keys of a replica are a mixture of two versions of its primary.
    #[error(
        "the store is a replica's, and its keys are a mixture of two versions of its primary; --clear deletes all of them first, \
         or let the replica catch up"
    )]
    Mixture,
    /// A command of the source was refused.
    #[error("{name}: the command at offset {offset}, {}, was refused: {}", shown(.command), shown(.reply))]
    Refused {
        /// The file, or the server.
        name: String,
        /// The offset in it.
        offset: u64,
        /// Its name.
        command: Vec<u8>,
        /// The error.
        reply: Vec<u8>,
    },
    /// The running server cannot be reached, or the connection has ended.
    #[error("{address}: cannot {action}: {source}")]
    Connection {
        /// The server.
        address: String,
        /// The failed operation.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The running server has refused a request.
    #[error("{address}: the server has answered {request} with \"{}\"", shown(.reply))]
    Answer {
        /// The server.
        address: String,
        /// The request.
        request: &'static str,
        /// The answer.
        reply: Vec<u8>,
    },
    /// The server's tables cannot be opened.
    #[error("{source}")]
    Open {
        /// The server's error.
        source: crate::Error,
    },
    /// The store refuses.
    #[error("{source}{}", advice(.source))]
    Store {
        /// The store's error.
        source: everbyte_kv::Error,
    },
    /// Another thread of this process has written to the store meanwhile.
    #[error("another thread of this process has written to the store during the import, which needs it alone")]
    Disturbed,
    /// The caller has stopped it.
    #[error("the import was stopped")]
    Stopped,
}

fn advice(error: &everbyte_kv::Error) -> String {
    match error {
        everbyte_kv::Error::KeyTooLong { .. } => {
            format!(" (keys, members and fields have at most {} bytes here)", KEY_MAX - 64)
        }
        _ => String::new(),
    }
}

impl From<everbyte_kv::Error> for ImportFault {
    fn from(source: everbyte_kv::Error) -> ImportFault {
        ImportFault::Store { source }
    }
}

/// The state of the store after an import that has failed.
#[derive(Debug)]
pub enum Kept {
    /// The store is as it was before.
    Nothing,
    /// The store has the keys of the running server as of this offset of its stream.
    Followed(u64),
    /// The import could not be taken back now: the next opening of the tables does that.
    Marked(everbyte_kv::Error),
}

/// An import that has failed.
#[derive(Debug)]
pub struct ImportError {
    /// The fault.
    pub fault: ImportFault,
    /// The state of the store.
    pub kept: Kept,
}

impl ImportError {
    /// A fault before anything was written.
    pub(crate) fn before(fault: ImportFault) -> ImportError {
        ImportError { fault, kept: Kept::Nothing }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; ", self.fault)?;
        match &self.kept {
            Kept::Nothing => write!(f, "nothing was imported: the store is as it was before"),
            Kept::Followed(offset) => write!(
                f,
                "the store has the server's keys as of its replication offset {offset}; import again with --clear"
            ),
            Kept::Marked(error) => write!(
                f,
                "the keys imported so far could not be removed ({error}): the next import or server that opens the store \
                 removes them"
            ),
        }
    }
}

impl std::error::Error for ImportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.fault)
    }
}

impl ErrorInfo for ImportFault {
    fn kind(&self) -> ErrorKind {
        match self {
            ImportFault::Read { source, .. } | ImportFault::Connection { source, .. } => ErrorKind::of_io(source),
            ImportFault::Damaged { .. } => ErrorKind::Damaged,
            ImportFault::Unsupported { .. } => ErrorKind::Unsupported,
            ImportFault::Exists { .. } | ImportFault::NotEmpty => ErrorKind::Exists,
            ImportFault::Mixture => ErrorKind::Busy,
            ImportFault::Refused { .. } => ErrorKind::Invalid,
            ImportFault::Answer { .. } => ErrorKind::Denied,
            ImportFault::Open { source } => source.kind(),
            ImportFault::Store { source } => source.kind(),
            ImportFault::Disturbed => ErrorKind::Busy,
            ImportFault::Stopped => ErrorKind::Interrupted,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            ImportFault::Open { source } => source.damage(),
            ImportFault::Store { source } => source.damage(),
            _ => None,
        }
    }
}

impl ErrorInfo for ImportError {
    fn kind(&self) -> ErrorKind {
        self.fault.kind()
    }

    fn damage(&self) -> Option<Damage> {
        self.fault.damage()
    }
}

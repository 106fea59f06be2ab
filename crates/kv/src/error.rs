//! Errors of a key-value store.

use crate::Version;
use crate::typed::{DecodeError, OtherTypeDetail};
use everbyte_media::{Damage, ErrorInfo, ErrorKind, Format};

/// An error of the key-value store. Each says what happened, where, and what to do next.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// From the media: an I/O error, a poisoned store.
    #[error(transparent)]
    Media(Box<everbyte_media::Error>),
    /// From the heap: most often, out of space.
    #[error(transparent)]
    Heap(Box<everbyte_heap::Error>),
    /// From the store.
    #[error(transparent)]
    Store(Box<everbyte_store::Error>),
    /// Bytes on media contradict themselves.
    #[error("{0}; `everbyte check` tells what is affected, `everbyte kv repair` saves the rest")]
    Damaged(Box<Damage>),
    /// The key is longer than the format allows.
    #[error("a key of {len} bytes is longer than {max}")]
    KeyTooLong {
        /// Its length.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The value is longer than the format allows.
    #[error("a value of {len} bytes is longer than {max}")]
    ValueTooLong {
        /// Its length.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// An earlier operation of this batch failed, so none of it can be committed.
    #[error("an earlier write of this batch failed; drop the batch and try again")]
    Doomed,
    /// The savepoint is none of this batch.
    #[error("the savepoint is of another batch, or this one has gone back to an earlier savepoint")]
    NoSavepoint,
    /// A batch has as many savepoints as it may have.
    #[error("a batch has at most {max} savepoints; commit it and begin another")]
    SavepointsExhausted {
        /// The limit.
        max: u64,
    },
    /// No table has this name.
    #[error("{object} has no table {name:?}")]
    NoTable {
        /// The object that holds the tables.
        object: String,
        /// The table's name.
        name: String,
    },
    /// A table has this name already.
    #[error("{object} has a table {name:?} already")]
    TableExists {
        /// The object that holds the tables.
        object: String,
        /// The table's name.
        name: String,
    },
    /// The name cannot be a table's.
    #[error("a table's name has 1 to {max} bytes; this one has {len}")]
    TableName {
        /// Its length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The table was dropped, was made by a batch that is not committed or was given up, or did not
    /// exist yet at this version.
    #[error("the table {name:?} is not there: it was dropped, is not committed yet, or is newer than this version")]
    TableGone {
        /// The table's name.
        name: String,
    },
    /// The table was made with other types of keys and values.
    #[error(
        "the table {name:?} has other types: {} is {} in the store and {} in this program",
        detail.at, detail.expected, detail.found
    )]
    OtherType {
        /// The table's name.
        name: String,
        /// The first field that differs.
        detail: Box<OtherTypeDetail>,
    },
    /// The table was made without types.
    #[error("the table {name:?} has no types; open it with `open_table`")]
    Untyped {
        /// The table's name.
        name: String,
    },
    /// The types of a new table have no description that can be stored.
    #[error("the types of the table {name:?} cannot be described: {}", error.detail)]
    Undescribed {
        /// The table's name.
        name: String,
        /// The reason.
        error: DecodeError,
    },
    /// Stored bytes of a typed table are no encoding of its type: they were written without types.
    #[error("a stored {part} is no encoding of its type: {error}; read the table with `open_table`")]
    Undecodable {
        /// A key, a value or a description.
        part: &'static str,
        /// The reason.
        error: DecodeError,
    },
    /// The table belongs to another store, or to another object of this one.
    #[error("the table {name:?} belongs to another key-value store")]
    OtherStore {
        /// The table's name.
        name: String,
    },
    /// The reader has fallen too far behind the newest version, and what it sees may be gone.
    #[error(
        "version {version} is no longer kept: the reader is further behind than the limit of this store; take another snapshot"
    )]
    Expired {
        /// The reader's version.
        version: Version,
    },
    /// Another process writes the table, and there is no version of it to read now.
    #[error("{object} cannot be read beside its writer now: {detail}")]
    Unpublished {
        /// The object.
        object: String,
        /// The reason.
        detail: &'static str,
    },
    /// A transaction has read what another thread has changed since it began.
    #[error(
        "another thread has changed {}, which this transaction has read; run the transaction again",
        place(table, key)
    )]
    Conflict {
        /// The table's name; the main table has none.
        table: String,
        /// The key that was changed: of a range or a count the first one.
        key: Vec<u8>,
    },
    /// The sum of a counter and what was to be added is out of range.
    #[error("{} counts beyond the range of its number; nothing was added", place(table, key))]
    CounterOverflow {
        /// The table's name; the main table has none.
        table: String,
        /// The counter's key.
        key: Vec<u8>,
    },
    /// The value is not the 8 bytes of a number.
    #[error("{} is no counter: its value has {len} bytes, and a counter's has 8", place(table, key))]
    NotACounter {
        /// The table's name; the main table has none.
        table: String,
        /// The key.
        key: Vec<u8>,
        /// Bytes of its value.
        len: u64,
    },
    /// No version has this name.
    #[error("{object} has no version {name:?}")]
    NoVersion {
        /// The object that holds the versions.
        object: String,
        /// The version's name.
        name: String,
    },
    /// A version has this name already.
    #[error("{object} has a version {name:?} already")]
    VersionExists {
        /// The object that holds the versions.
        object: String,
        /// The version's name.
        name: String,
    },
    /// The name of the version is one that servers give.
    #[error("{name:?}: names of versions that begin with `server/` are a server's; choose another one")]
    VersionReserved {
        /// The version's name.
        name: String,
    },
    /// The name cannot be a version's.
    #[error("a version's name has 1 to {max} bytes; this one has {len}")]
    VersionName {
        /// Its length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// A load received a key that is not larger than the one before it.
    #[error("{} follows {}; a load takes keys in ascending order, each once", shown(key), shown(last))]
    Unsorted {
        /// The key.
        key: Vec<u8>,
        /// The one before it.
        last: Vec<u8>,
    },
    /// A key lies in the range of a load.
    #[error("{} is there already, in the range of the load; delete the range first, or put the entries", shown(key))]
    RangeNotEmpty {
        /// The key.
        key: Vec<u8>,
    },
    /// Every table number is in use.
    #[error("there are {max} tables, as many as can be; drop one first")]
    TablesExhausted {
        /// The limit.
        max: u32,
    },
    /// The calling thread has a batch of this tree, which another write would wait for.
    #[error("this thread has a batch of the same table: commit or drop it first, or write through it")]
    OwnBatch,
    /// The store was opened read-only.
    #[error("{object} is in a store that was opened read-only: nothing was written; open the store to change it")]
    ReadOnly {
        /// The object.
        object: String,
    },
    /// The commit was made by another tree.
    #[error("the commit belongs to another table, or to this one before it was opened again; settle it there")]
    OtherTree,
    /// The tree was written by a newer Everbyte.
    #[error("the tree {format}, the newest this program knows; use a newer Everbyte")]
    NewerFormat {
        /// The format on media, and the one that this program reads.
        format: Format,
    },
    /// No version numbers are left: after 2^62 commits.
    #[error("the tree has used all its version numbers; export it and import it into a new store")]
    VersionsExhausted,
    /// The input is not a dump of a key-value store.
    #[error("this is not a dump of a key-value store: {detail}; `everbyte kv dump` writes one, `kv import` reads text")]
    NotADump {
        /// The reason.
        detail: &'static str,
    },
    /// The dump was written by a newer Everbyte.
    #[error("the dump {format}; use a newer Everbyte")]
    NewerDump {
        /// The format of the dump, and the one that this program reads.
        format: Format,
    },
    /// Bytes of a dump contradict themselves.
    #[error("the dump is damaged at offset {:#x}: {}; nothing was loaded, use another dump", .0.offset.unwrap_or_default(), .0.detail)]
    DumpDamaged(Box<Damage>),
    /// The stream that a dump goes to, or comes from, failed.
    #[error("cannot {action} the dump: {source}")]
    DumpIo {
        /// The call.
        action: &'static str,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
}

// Boxed, so that a result fits into registers on the paths that never fail.
impl From<everbyte_media::Error> for Error {
    fn from(error: everbyte_media::Error) -> Error {
        Error::Media(Box::new(error))
    }
}

impl From<everbyte_heap::Error> for Error {
    fn from(error: everbyte_heap::Error) -> Error {
        Error::Heap(Box::new(error))
    }
}

impl From<everbyte_store::Error> for Error {
    fn from(error: everbyte_store::Error) -> Error {
        Error::Store(Box::new(error))
    }
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
            Error::Heap(error) => error.kind(),
            Error::Store(error) => error.kind(),
            Error::Damaged { .. } | Error::Undecodable { .. } => ErrorKind::Damaged,
            Error::KeyTooLong { .. } | Error::ValueTooLong { .. } => ErrorKind::TooLarge,
            Error::Doomed
            | Error::OwnBatch
            | Error::OtherTree
            | Error::OtherStore { .. }
            | Error::NoSavepoint
            | Error::OtherType { .. }
            | Error::Untyped { .. }
            | Error::Undescribed { .. }
            | Error::CounterOverflow { .. }
            | Error::NotACounter { .. }
            | Error::TableName { .. }
            | Error::Unsorted { .. }
            | Error::VersionName { .. }
            | Error::VersionReserved { .. } => ErrorKind::Invalid,
            Error::NoTable { .. } | Error::TableGone { .. } | Error::NoVersion { .. } => ErrorKind::NotFound,
            Error::ReadOnly { .. } => ErrorKind::ReadOnly,
            Error::Unpublished { .. } => ErrorKind::Busy,
            Error::Expired { .. } | Error::Conflict { .. } => ErrorKind::Conflict,
            Error::TableExists { .. } | Error::VersionExists { .. } | Error::RangeNotEmpty { .. } => ErrorKind::Exists,
            Error::SavepointsExhausted { .. } | Error::TablesExhausted { .. } => ErrorKind::NoSpace,
            Error::NewerFormat { .. } => ErrorKind::Newer,
            Error::VersionsExhausted => ErrorKind::NoSpace,
            Error::NotADump { .. } => ErrorKind::Foreign,
            Error::NewerDump { .. } => ErrorKind::Newer,
            Error::DumpDamaged(_) => ErrorKind::Damaged,
            Error::DumpIo { source, .. } => ErrorKind::of_io(source),
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Media(error) => error.damage(),
            Error::Heap(error) => error.damage(),
            Error::Store(error) => error.damage(),
            Error::Damaged(damage) | Error::DumpDamaged(damage) => Some(Damage::clone(damage)),
            _ => None,
        }
    }
}

/// A key of a table, for messages.
fn place(table: &str, key: &[u8]) -> String {
    let of_table = if table.is_empty() { "the main table".into() } else { format!("table {table:?}") };
    format!("{} of {of_table}", shown(key))
}

fn shown(key: &[u8]) -> String {
    const SHOWN: usize = 40;
    let (shown, more) = if key.len() > SHOWN { (&key[..SHOWN], "..") } else { (key, "") };
    format!("key \"{}\"{more}", shown.escape_ascii())
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) fn damaged<T>(at: u64, detail: &'static str) -> Result<T> {
    Err(Damage::at(at, detail).into())
}

//! The errors of a store. Each text names the event, the place, and the way out.

use crate::{Access, Engine};
use everbyte_media as media;
use everbyte_space as space;
use media::{Damage, ErrorInfo, ErrorKind, Format};
use std::path::PathBuf;

/// An error of a store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The media failed or refused.
    #[error(transparent)]
    Media(media::Error),
    /// The disk is full, or the store has as much of it as its maximum allows. Nothing has changed.
    #[error("no room for {bytes} more bytes at offset {at:#x}; free some space and try again: {source}")]
    OutOfSpace {
        /// The offset of the request.
        at: u64,
        /// The bytes asked for.
        bytes: u64,
        /// The system's answer.
        #[source]
        source: media::Error,
    },
    /// The file is not a store.
    #[error("{path}: not an Everbyte store ({detail}); create one with `everbyte create`")]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// The bytes in place of a superblock.
        detail: String,
    },
    /// The file was being made into a store when that was interrupted; it never held anything.
    #[error("{path}: its creation was interrupted, so it holds nothing; remove the file and create it again")]
    Unfinished {
        /// The file.
        path: PathBuf,
    },
    /// The store was opened read-only, and a change of it was asked for.
    #[error("{path}: the store was opened read-only: nothing has changed; open it to change it")]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The store was written by a newer Everbyte.
    #[error("{path}: the store {format}, the newest this program knows; use a newer Everbyte")]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The format on media, and the one that this program reads.
        format: Format,
    },
    /// Bytes on media contradict themselves.
    #[error("{0}; `everbyte check` tells what is affected")]
    Damaged(Box<Damage>),
    /// The file is shorter than what the store has in it.
    #[error(
        "{path}: the file has {len} bytes and the store needs {needed}: it was truncated from outside; restore it from a copy"
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes of the file.
        len: u64,
        /// Bytes the store has backed.
        needed: u64,
    },
    /// A store of these sizes cannot be made.
    #[error("{detail}")]
    BadOption {
        /// The reason, and a value that suffices.
        detail: String,
    },
    /// This process has the store open of which this one is a copy.
    #[error(
        "{path}: a copy of {open}, which is open: both bear one identity; give the copy its own with `everbyte store rebase`, or copy with `everbyte store clone`"
    )]
    SameIdentity {
        /// The copy.
        path: PathBuf,
        /// The one that is open.
        open: PathBuf,
    },
    /// The name that a clone is to have, or is made under, is taken.
    #[error(
        "{path}: exists already, and is not replaced; name another file, or remove it if a clone that was interrupted left it"
    )]
    Occupied {
        /// The file.
        path: PathBuf,
    },
    /// The media given to `format` is not empty.
    #[error("{path}: holds a store already, or something else; only empty media is formatted")]
    NotEmpty {
        /// The media.
        path: PathBuf,
    },
    /// Another process has the object open, in a way that does not go with what was asked.
    #[error("object `{object}` is attached by another process{users}; detach it there first")]
    Attached {
        /// The object.
        object: String,
        /// The processes that have the store open, if they are known: ` (pid 12, 34)`, or empty.
        users: String,
    },
    /// A thread changes a shared object without the object's lock.
    #[error("object `{object}` is shared with other processes: take its lock before changing it (`Undo::enter`)")]
    NotExclusive {
        /// The object.
        object: String,
    },
    /// No object has this name.
    #[error("no object is named `{}` in this store", shown(.name))]
    NotFound {
        /// The name.
        name: String,
    },
    /// An object has this name already.
    #[error("an object named `{name}` exists already in this store")]
    Exists {
        /// The name.
        name: String,
    },
    /// Not a name.
    #[error("`{}` cannot name an object: {why}", shown(.name))]
    BadName {
        /// The given name, shortened.
        name: String,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// The object table has no free record, and none is left for a trie of names.
    #[error(
        "the store holds {slots} objects, and its table has no record left for the trie that more need; remove one first"
    )]
    Full {
        /// Records of the table.
        slots: u64,
    },
    /// The object's rights do not allow it.
    #[error(
        "object `{object}` ({access}): {why}; its owner or root can change that with `everbyte chmod` and `everbyte chown`"
    )]
    Denied {
        /// The object.
        object: String,
        /// Its rights.
        access: Access,
        /// The access that is denied.
        why: &'static str,
    },
    /// As many objects as can be are being made or grown at once.
    #[error("64 objects are being made, removed or grown at once in this store; try again when one of them is done")]
    Busy,
    /// No free span of this size is left.
    #[error(
        "no free span of {size} bytes is left in a store with addresses for {max} bytes; ask for a smaller one, or grow the store"
    )]
    NoSpan {
        /// The span asked for; 0: any.
        size: u64,
        /// One past the store's last address.
        max: u64,
    },
    /// The object's span is used up.
    #[error(
        "object `{object}` needs {asked} more bytes and its span of {span} bytes has {left} left; create it with a larger span and copy it"
    )]
    SpanFull {
        /// The object.
        object: String,
        /// Bytes of its span.
        span: u64,
        /// Bytes asked for.
        asked: u64,
        /// Bytes left.
        left: u64,
    },
    /// The object belongs to another engine.
    #[error("object `{object}` belongs to the engine `{found}` and cannot be opened as `{wanted}`")]
    WrongEngine {
        /// The object.
        object: String,
        /// Its engine.
        found: Engine,
        /// The one that asked.
        wanted: Engine,
    },
    /// The object is open already, in this process.
    #[error("object `{object}` is already open in this process; clone that handle, or drop it and what it lent first")]
    Claimed {
        /// The object.
        object: String,
    },
    /// The object holds another type.
    #[error(
        "object `{object}` holds type {found:#018x} and not {wanted:#018x}: the program's types have changed since it was made"
    )]
    WrongFingerprint {
        /// The object.
        object: String,
        /// Its fingerprint.
        found: u64,
        /// The one that asked.
        wanted: u64,
    },
    /// This process has the object open, and what was asked for changes it as a whole.
    #[error("object `{object}` is open in this process, which is in the way; close it first")]
    Open {
        /// The object.
        object: String,
    },
    /// The object has as many clusters as it may have.
    #[error(
        "object `{object}` has {has} clusters and asks for {asked} more, and its quota is {quota}; free some of it, or raise the quota with `everbyte limit`"
    )]
    QuotaExceeded {
        /// The object.
        object: String,
        /// Clusters that it may have.
        quota: u64,
        /// Clusters that it has.
        has: u64,
        /// Clusters asked for.
        asked: u64,
    },
    /// The objects of a user have as many clusters as they may have together.
    #[error(
        "object `{object}` asks for {asked} more clusters; the objects of user {user} have {has}, and a user's quota in this store is {quota}; free some, or raise it with `everbyte limit --each-user`"
    )]
    UserQuotaExceeded {
        /// The object.
        object: String,
        /// Its owner.
        user: u32,
        /// Clusters that a user's objects may have.
        quota: u64,
        /// Clusters that they have.
        has: u64,
        /// Clusters asked for.
        asked: u64,
    },
    /// Other processes cannot share an object that is larger than its memory, and none can guard
    /// its pages.
    #[error(
        "object `{object}` has a limit of clusters in memory: one process has it at a time; lift the limit to share it"
    )]
    Unshared {
        /// The object.
        object: String,
    },
    /// Every id of this opening was given to an object.
    #[error("{path}: 16777216 objects were made since the store was opened; close it and open it again to make more")]
    NoIds {
        /// The store.
        path: PathBuf,
    },
    /// The backing file of an object cannot be used.
    #[error(
        "{store}: object `{object}`: its backing file {path}: {detail}; what is in memory is whole; put the right file there, or restore both from a copy"
    )]
    Backing {
        /// The store.
        store: PathBuf,
        /// The object.
        object: String,
        /// The backing file.
        path: PathBuf,
        /// The reason.
        detail: String,
    },
    /// A range that the object cannot release or back.
    #[error(
        "object `{object}`: {at:#x} + {len} is not a range of whole clusters behind its first one and below its end"
    )]
    BadRange {
        /// The object.
        object: String,
        /// Start.
        at: u64,
        /// Bytes.
        len: u64,
    },
}

impl From<media::Error> for Error {
    fn from(error: media::Error) -> Error {
        Error::Media(error)
    }
}

impl From<space::Error> for Error {
    fn from(error: space::Error) -> Error {
        match error {
            space::Error::OutOfSpace { at, bytes, source } => Error::OutOfSpace { at, bytes, source },
            space::Error::Damaged(damage) => Error::Damaged(damage),
            space::Error::Media(error) => Error::Media(error),
        }
    }
}

/// A name as a terminal may be sent it: one that was asked for may hold anything.
fn shown(name: &str) -> String {
    let shown = |character: char| {
        if character.is_control() { character.escape_default().to_string() } else { character.into() }
    };
    name.chars().map(shown).collect()
}

impl From<everbyte_members::Error> for Error {
    fn from(error: everbyte_members::Error) -> Error {
        Error::Media(error.into())
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
            Error::OutOfSpace { .. }
            | Error::Full { .. }
            | Error::NoSpan { .. }
            | Error::SpanFull { .. }
            | Error::NoIds { .. } => ErrorKind::NoSpace,
            Error::QuotaExceeded { .. } | Error::UserQuotaExceeded { .. } => ErrorKind::Quota,
            Error::NotAStore { .. }
            | Error::Unfinished { .. }
            | Error::WrongEngine { .. }
            | Error::WrongFingerprint { .. } => ErrorKind::Foreign,
            Error::NewerFormat { .. } => ErrorKind::Newer,
            Error::ReadOnly { .. } => ErrorKind::ReadOnly,
            Error::Damaged { .. } | Error::Truncated { .. } | Error::Backing { .. } => ErrorKind::Damaged,
            Error::BadOption { .. } | Error::BadName { .. } | Error::BadRange { .. } | Error::NotExclusive { .. } => {
                ErrorKind::Invalid
            }
            Error::SameIdentity { .. }
            | Error::Attached { .. }
            | Error::Claimed { .. }
            | Error::Open { .. }
            | Error::Unshared { .. }
            | Error::Busy => ErrorKind::Busy,
            Error::Occupied { .. } | Error::NotEmpty { .. } | Error::Exists { .. } => ErrorKind::Exists,
            Error::NotFound { .. } => ErrorKind::NotFound,
            Error::Denied { .. } => ErrorKind::Denied,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Media(error) => error.damage(),
            Error::Damaged(damage) => Some(Damage::clone(damage)),
            Error::Truncated { path, .. } => {
                Some(Damage { detail: "the file was truncated".into(), ..Damage::default() }.of_file(path))
            }
            Error::Backing { path, object, detail, .. } => {
                Some(Damage { detail: detail.clone(), ..Damage::default() }.of_file(path).of_object(object))
            }
            _ => None,
        }
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

//! Errors of a volume. Texts name the event, the place and the way out; `posix` maps them to errno.

use crate::Ino;
use crate::quota::limits::QuotaKind;
use everbyte_media::{Damage, ErrorInfo, ErrorKind, Format};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] everbyte_store::Error),
    /// The media failed.
    #[error(transparent)]
    Media(#[from] everbyte_media::Error),
    /// A lane of the journal refused, or is damaged.
    #[error(transparent)]
    Log(#[from] everbyte_log::Error),
    /// The volume was written by a newer Everbyte.
    #[error("volume `{volume}` {format}; use a newer Everbyte")]
    NewerFormat {
        /// The volume.
        volume: String,
        /// The format on media, and the one that this program reads.
        format: Format,
    },
    /// The volume was written before this format came.
    #[error("volume `{volume}` {format}; copy its files with the Everbyte that wrote it")]
    OldFormat {
        /// The volume.
        volume: String,
        /// The format on media, and the one that this program reads.
        format: Format,
    },
    /// Bytes contradict themselves.
    #[error("{0}; `everbyte fs fsck` tells what is affected")]
    Damaged(Box<Damage>),
    /// An option of a new volume is out of range.
    #[error("{detail}")]
    BadOption {
        /// The option and its range.
        detail: String,
    },
    /// The directory has no such name.
    #[error("no file of that name")]
    NotFound,
    /// The directory has the name already.
    #[error("the name exists")]
    Exists,
    /// The inode is no directory.
    #[error("inode {ino} is no directory")]
    NotADirectory {
        /// The inode.
        ino: Ino,
    },
    /// The inode is a directory.
    #[error("inode {ino} is a directory")]
    IsADirectory {
        /// The inode.
        ino: Ino,
    },
    /// The inode holds no bytes: a device, a pipe or a socket.
    #[error("inode {ino} is no regular file")]
    NotAFile {
        /// The inode.
        ino: Ino,
    },
    /// The directory has entries.
    #[error("directory {ino} is not empty")]
    NotEmpty {
        /// The inode.
        ino: Ino,
    },
    /// A name is empty, `.`, `..`, or has a byte that names cannot have.
    #[error("a name is not empty, not `.` or `..`, and has no `/` and no zero byte")]
    BadName,
    /// A name is longer than 255 bytes.
    #[error("a name of {len} bytes is longer than 255")]
    NameTooLong {
        /// Its length.
        len: usize,
    },
    /// A file, or a link's target, would be larger than the format allows.
    #[error("{len} bytes are more than the {max} that the volume allows")]
    TooLarge {
        /// The wanted size.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// The inode has as many links as it may have.
    #[error("inode {ino} has {max} links, the most that an inode may have")]
    TooManyLinks {
        /// The inode.
        ino: Ino,
        /// The limit.
        max: u64,
    },
    /// A range that is removed or added does not consist of pages inside of the file.
    #[error("offset {at} and length {len} are no multiples of 4096 inside of the file")]
    Unaligned {
        /// The offset.
        at: u64,
        /// The length.
        len: u64,
    },
    /// Bytes would be copied to a range of the same file that has some of them.
    #[error("two ranges of inode {ino} have bytes in common")]
    Overlap {
        /// The inode.
        ino: Ino,
    },
    /// The file has no extended attribute of that name.
    #[error("inode {ino} has no extended attribute of that name")]
    NoAttribute {
        /// The inode.
        ino: Ino,
    },
    /// A directory would move into itself.
    #[error("directory {ino} cannot move below itself")]
    Loop {
        /// The inode.
        ino: Ino,
    },
    /// The inode was removed, or its number holds another file now.
    #[error("inode {ino} was removed")]
    Stale {
        /// The inode.
        ino: Ino,
    },
    /// A volume is closed while other clones of it, or files that they hold, are in use.
    #[error("volume `{volume}` is in use: drop its other clones and the files that they hold, then close it")]
    InUse {
        /// The volume.
        volume: String,
    },
    /// The call would move, free or share pages of a range that is mapped.
    #[error("a range of inode {ino} is mapped: its pages stay until the mapping ends")]
    Mapped {
        /// The inode.
        ino: Ino,
    },
    /// An access lies outside of a mapping, or a mapping outside of its file.
    #[error("offset {at} and length {len} lie outside of the {end} bytes that are there")]
    Outside {
        /// The offset.
        at: u64,
        /// The length.
        len: u64,
        /// Bytes of the mapping, or of the file.
        end: u64,
    },
    /// The inode belongs to a snapshot.
    #[error("inode {ino} belongs to a snapshot, which cannot be changed")]
    ReadOnly {
        /// The inode.
        ino: Ino,
    },
    /// The volume has no free pages and cannot grow.
    #[error("volume `{volume}` is full: {cause}")]
    NoSpace {
        /// The volume.
        volume: String,
        /// The refusal of the store.
        #[source]
        cause: Box<everbyte_store::Error>,
    },
    /// A limit of a user, a group or a project would be passed.
    #[error("volume `{volume}`: {kind} {id} has reached its limit of {limit}")]
    Quota {
        /// The volume.
        volume: String,
        /// User, group or project.
        kind: QuotaKind,
        /// Its number.
        id: u32,
        /// `bytes` or `inodes`.
        limit: &'static str,
    },
    /// A directory passes its project on to all of its files, and the file has another one.
    #[error("inode {ino} does not belong to project {project}, which its new directory passes on")]
    OtherProject {
        /// The inode.
        ino: Ino,
        /// The project of the directory.
        project: u32,
    },
    /// The volume has as many bytes as it may have.
    #[error("volume `{volume}` is full: it may have {size} bytes; `everbyte fs grow` raises that")]
    SizeReached {
        /// The volume.
        volume: String,
        /// Its size.
        size: u64,
    },
    /// The volume has as many inodes as the format allows.
    #[error("volume `{volume}` has no free inode")]
    NoInodes {
        /// The volume.
        volume: String,
    },
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Error {
        Error::Damaged(damage.into())
    }
}

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Store(error) => error.kind(),
            Error::Media(error) => error.kind(),
            Error::Log(error) => error.kind(),
            Error::NewerFormat { .. } => ErrorKind::Newer,
            Error::OldFormat { .. } => ErrorKind::Foreign,
            Error::Damaged(_) => ErrorKind::Damaged,
            Error::BadOption { .. } | Error::BadName | Error::Loop { .. } => ErrorKind::Invalid,
            Error::Unaligned { .. } | Error::Overlap { .. } | Error::Outside { .. } => ErrorKind::Invalid,
            Error::OtherProject { .. } => ErrorKind::Invalid,
            Error::Quota { .. } => ErrorKind::Quota,
            Error::NotFound | Error::NoAttribute { .. } | Error::Stale { .. } => ErrorKind::NotFound,
            Error::Exists => ErrorKind::Exists,
            Error::InUse { .. } | Error::Mapped { .. } => ErrorKind::Busy,
            Error::NotADirectory { .. } | Error::IsADirectory { .. } | Error::NotAFile { .. } => ErrorKind::Invalid,
            Error::NotEmpty { .. } => ErrorKind::Conflict,
            Error::NameTooLong { .. } | Error::TooLarge { .. } => ErrorKind::TooLarge,
            Error::TooManyLinks { .. } => ErrorKind::TooLarge,
            Error::NoSpace { cause, .. } => cause.kind(),
            Error::NoInodes { .. } | Error::SizeReached { .. } => ErrorKind::NoSpace,
            Error::ReadOnly { .. } => ErrorKind::ReadOnly,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Store(error) => error.damage(),
            Error::Media(error) => error.damage(),
            Error::Log(error) => error.damage(),
            Error::Damaged(damage) => Some(Damage::clone(damage)),
            _ => None,
        }
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

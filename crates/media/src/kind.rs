//! One error model: every error of the workspace has an [`ErrorKind`], and damage has a place
//! ([`Damage`]).
//!
//! Edges (exit codes, `errno`, replies of servers) map kinds by one exhaustive match each. The
//! error enums keep their own variants and texts; they answer [`ErrorInfo`].

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The kind of an error: which reaction makes sense.
///
/// ```
/// use everbyte_media::{Error, ErrorInfo, ErrorKind, OpenOptions, Options};
///
/// let refused = OpenOptions::new("/dev/null/absent").open(&Options::default()).unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::Io);
/// assert!(refused.os_error().is_some());
/// assert_eq!(Error::Forked { owner: 1 }.kind(), ErrorKind::Invalid);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The named thing does not exist.
    NotFound,
    /// The name, the file or the object exists already.
    Exists,
    /// Another process, or another handle of this one, has it open or locked.
    Busy,
    /// Rights do not allow it.
    Denied,
    /// The disk, the object's span, or a table of the store is full.
    NoSpace,
    /// A quota is reached.
    Quota,
    /// The caller passed what no state of the store makes valid.
    Invalid,
    /// A key, a value, a record or a transaction is larger than the format allows.
    TooLarge,
    /// Bytes on media contradict themselves or cannot be read.
    Damaged,
    /// A newer Everbyte, or a newer version of the program, wrote it.
    Newer,
    /// It is not of the expected kind: no store, another engine, another type, an older format.
    Foreign,
    /// An earlier write or sync failed: the outcome is unknown until the store is opened again.
    Poisoned,
    /// A concurrent change is in the way; the same call can succeed when it is repeated.
    Conflict,
    /// This machine, path or backend cannot do it.
    Unsupported,
    /// It is open for reading only.
    ReadOnly,
    /// It was stopped before it was done.
    Interrupted,
    /// The operating system refused for another reason; see [`ErrorInfo::os_error`].
    Io,
}

impl ErrorKind {
    /// Every kind, in the order of the declaration.
    pub const ALL: [ErrorKind; 17] = [
        ErrorKind::NotFound,
        ErrorKind::Exists,
        ErrorKind::Busy,
        ErrorKind::Denied,
        ErrorKind::NoSpace,
        ErrorKind::Quota,
        ErrorKind::Invalid,
        ErrorKind::TooLarge,
        ErrorKind::Damaged,
        ErrorKind::Newer,
        ErrorKind::Foreign,
        ErrorKind::Poisoned,
        ErrorKind::Conflict,
        ErrorKind::Unsupported,
        ErrorKind::ReadOnly,
        ErrorKind::Interrupted,
        ErrorKind::Io,
    ];

    /// Its name, for messages and JSON: lower case, words joined by `_`.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "not_found",
            ErrorKind::Exists => "exists",
            ErrorKind::Busy => "busy",
            ErrorKind::Denied => "denied",
            ErrorKind::NoSpace => "no_space",
            ErrorKind::Quota => "quota",
            ErrorKind::Invalid => "invalid",
            ErrorKind::TooLarge => "too_large",
            ErrorKind::Damaged => "damaged",
            ErrorKind::Newer => "newer",
            ErrorKind::Foreign => "foreign",
            ErrorKind::Poisoned => "poisoned",
            ErrorKind::Conflict => "conflict",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::ReadOnly => "read_only",
            ErrorKind::Interrupted => "interrupted",
            ErrorKind::Io => "io",
        }
    }

    /// The kind of a refusal of the operating system.
    pub fn of_io(error: &io::Error) -> ErrorKind {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge => ErrorKind::NoSpace,
            io::ErrorKind::QuotaExceeded => ErrorKind::Quota,
            io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            io::ErrorKind::Interrupted => ErrorKind::Interrupted,
            _ => ErrorKind::Io,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The place of a damage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// The file, where the error knows it.
    pub path: Option<PathBuf>,
    /// The object's name, where the damage lies in an object.
    pub object: Option<String>,
    /// The offset in the store, where one place is to blame.
    pub offset: Option<u64>,
    /// The contradiction.
    pub detail: String,
}

impl Damage {
    /// A damage at `offset`.
    pub fn at(offset: impl Into<crate::Offset>, detail: impl Into<String>) -> Damage {
        Damage { offset: Some(offset.into().get()), detail: detail.into(), ..Damage::default() }
    }

    /// The same in the file at `path`.
    #[must_use]
    pub fn of_file(self, path: impl Into<PathBuf>) -> Damage {
        Damage { path: Some(path.into()), ..self }
    }

    /// The same in the object `name`.
    #[must_use]
    pub fn of_object(self, name: impl Into<String>) -> Damage {
        Damage { object: Some(name.into()), ..self }
    }
}

/// "FILE: object `NAME` is damaged at offset 0x40: DETAIL", as far as the place is known.
impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        match &self.object {
            Some(object) => write!(f, "object `{object}` is damaged")?,
            None => f.write_str("the store is damaged")?,
        }
        if let Some(offset) = self.offset {
            write!(f, " at offset {offset:#x}")?;
        }
        write!(f, ": {}", self.detail)
    }
}

/// The format of a structure that this program cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The format on media, or the feature bits that it requires.
    pub found: u64,
    /// The newest format that this program reads.
    pub known: u64,
}

impl Format {
    /// A structure of format `found`, where this program reads `known`.
    pub fn new(found: impl Into<u64>, known: impl Into<u64>) -> Format {
        Format { found: found.into(), known: known.into() }
    }
}

/// "has format 3, newer than 2": follows the name of the structure.
impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Format { found, known } = self;
        let order = if found < known { "older" } else { "newer" };
        write!(f, "has format {found}, {order} than {known}")
    }
}

/// The questions that every error of the workspace answers.
pub trait ErrorInfo: std::error::Error {
    /// The kind of this error.
    fn kind(&self) -> ErrorKind;

    /// The place, for errors of kind [`ErrorKind::Damaged`].
    fn damage(&self) -> Option<Damage>;

    /// The operating system's error number, where its refusal is the cause.
    fn os_error(&self) -> Option<i32> {
        let mut cause = self.source();
        while let Some(error) = cause {
            if let Some(number) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
                return Some(number);
            }
            cause = error.source();
        }
        None
    }
}

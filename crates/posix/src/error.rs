//! [`Errno`] and [`Error`]: the one place where errors of a volume become errno.

use everbyte_fs::Error as FsError;
use everbyte_media::{Damage, ErrorInfo, ErrorKind};
use std::fmt;

/// A number of `<errno.h>`, as Linux has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(pub i32);

macro_rules! numbers {
    ($($name:ident $text:literal),* $(,)?) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Errno = Errno(libc::$name);)*

            /// The name of the number, and the event that it stands for.
            fn texts(self) -> Option<(&'static str, &'static str)> {
                match self {
                    $(Errno::$name => Some((stringify!($name), $text)),)*
                    _ => None,
                }
            }
        }
    };
}

numbers! {
    EPERM "operation not permitted",
    ENOENT "no such file or directory",
    EIO "input or output error",
    ENXIO "no such device or address, or no data behind the offset",
    E2BIG "the value is too long",
    EBADF "the file is not open for this",
    EAGAIN "another lock is in the way",
    EACCES "permission denied",
    EFAULT "the bytes lie outside of the mapping",
    EBUSY "the file is in use",
    EEXIST "the file exists",
    EXDEV "the files lie in two volumes, or belong to two projects",
    ENODEV "the file's type does not support this",
    ENOTDIR "not a directory",
    EISDIR "is a directory",
    EINVAL "invalid argument",
    EFBIG "the file would be too large",
    ENOSPC "no space left on the volume",
    ESPIPE "the file has no offset",
    EROFS "the volume is read-only",
    EMLINK "too many links",
    ERANGE "the buffer is too small",
    EDEADLK "waiting for the lock would never end",
    ENAMETOOLONG "the name is too long",
    ENOTEMPTY "the directory is not empty",
    ELOOP "too many symbolic links",
    ENODATA "no extended attribute of that name",
    EOVERFLOW "the offset does not fit",
    EUCLEAN "damaged bytes; `everbyte fs fsck` tells what is affected",
    EOPNOTSUPP "not supported",
    ESTALE "the file of this handle was removed",
    EDQUOT "the quota is reached",
    EPROTONOSUPPORT "the volume has the format of another Everbyte",
    EINTR "interrupted",
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.texts() {
            Some((name, text)) => write!(f, "{text} ({name})"),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.texts() {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

/// The errno of a call, with the error of the volume where that tells more.
#[derive(Debug)]
pub struct Error {
    errno: Errno,
    cause: Option<Box<FsError>>,
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The number.
    pub fn errno(&self) -> Errno {
        self.errno
    }

    /// Whether bytes of the volume are damaged or cannot be read, or an earlier write failed: an
    /// event for the log and not for the caller alone.
    pub fn is_failure(&self) -> bool {
        matches!(self.errno, Errno::EIO | Errno::EUCLEAN)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => write!(f, "{cause} ({:?})", self.errno),
            None => self.errno.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Error {
        Error { errno, cause: None }
    }
}

impl From<FsError> for Error {
    fn from(error: FsError) -> Error {
        let errno = errno_of(&error);
        let is_plain = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Exists) && error.damage().is_none();
        Error { errno, cause: if is_plain { None } else { Some(Box::new(error)) } }
    }
}

impl PartialEq<Errno> for Error {
    fn eq(&self, other: &Errno) -> bool {
        self.errno == *other
    }
}

/// The errno of an error of a volume.
fn errno_of(error: &FsError) -> Errno {
    match error {
        FsError::Store(_) | FsError::Media(_) | FsError::Log(_) => errno_of_kind(error.kind()),
        FsError::NewerFormat { .. } | FsError::OldFormat { .. } => Errno::EPROTONOSUPPORT,
        FsError::ReadOnly { .. } => Errno::EROFS,
        FsError::Damaged(_) => Errno::EUCLEAN,
        FsError::BadOption { .. } | FsError::BadName | FsError::NotAFile { .. } => Errno::EINVAL,
        FsError::Unaligned { .. } | FsError::Overlap { .. } | FsError::Loop { .. } => Errno::EINVAL,
        FsError::InUse { .. } | FsError::Mapped { .. } => Errno::EBUSY,
        FsError::Outside { .. } => Errno::EFAULT,
        FsError::NotFound => Errno::ENOENT,
        FsError::Exists => Errno::EEXIST,
        FsError::NotADirectory { .. } => Errno::ENOTDIR,
        FsError::IsADirectory { .. } => Errno::EISDIR,
        FsError::NotEmpty { .. } => Errno::ENOTEMPTY,
        FsError::NameTooLong { .. } => Errno::ENAMETOOLONG,
        FsError::TooLarge { .. } => Errno::EFBIG,
        FsError::TooManyLinks { .. } => Errno::EMLINK,
        FsError::NoAttribute { .. } => Errno::ENODATA,
        FsError::Stale { .. } => Errno::ESTALE,
        FsError::Quota { .. } => Errno::EDQUOT,
        FsError::OtherProject { .. } => Errno::EXDEV,
        FsError::NoSpace { cause, .. } if cause.kind() == ErrorKind::Quota => Errno::EDQUOT,
        FsError::NoSpace { .. } | FsError::NoInodes { .. } | FsError::SizeReached { .. } => Errno::ENOSPC,
    }
}

fn errno_of_kind(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::NotFound => Errno::ENOENT,
        ErrorKind::Exists => Errno::EEXIST,
        ErrorKind::Busy => Errno::EBUSY,
        ErrorKind::Denied => Errno::EACCES,
        ErrorKind::NoSpace => Errno::ENOSPC,
        ErrorKind::Quota => Errno::EDQUOT,
        ErrorKind::Invalid | ErrorKind::Foreign => Errno::EINVAL,
        ErrorKind::TooLarge => Errno::EFBIG,
        ErrorKind::Damaged => Errno::EUCLEAN,
        ErrorKind::Newer => Errno::EPROTONOSUPPORT,
        ErrorKind::Poisoned | ErrorKind::Io => Errno::EIO,
        ErrorKind::Conflict => Errno::EAGAIN,
        ErrorKind::Unsupported => Errno::EOPNOTSUPP,
        ErrorKind::ReadOnly => Errno::EROFS,
        ErrorKind::Interrupted => Errno::EINTR,
    }
}

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        match (&self.cause, self.errno) {
            (Some(cause), _) => cause.kind(),
            (None, Errno::ENOENT | Errno::ENODATA | Errno::ENXIO | Errno::ESTALE) => ErrorKind::NotFound,
            (None, Errno::EEXIST) => ErrorKind::Exists,
            (None, Errno::EACCES | Errno::EPERM) => ErrorKind::Denied,
            (None, Errno::EBUSY) => ErrorKind::Busy,
            (None, Errno::EAGAIN | Errno::EDEADLK | Errno::ENOTEMPTY) => ErrorKind::Conflict,
            (None, Errno::EROFS) => ErrorKind::ReadOnly,
            (None, Errno::ENOSPC) => ErrorKind::NoSpace,
            (None, Errno::EDQUOT) => ErrorKind::Quota,
            (None, Errno::EOPNOTSUPP) => ErrorKind::Unsupported,
            (None, Errno::EIO) => ErrorKind::Io,
            (None, Errno::EUCLEAN) => ErrorKind::Damaged,
            (None, Errno::EFBIG | Errno::E2BIG | Errno::ENAMETOOLONG | Errno::EMLINK) => ErrorKind::TooLarge,
            (None, Errno::EINTR) => ErrorKind::Interrupted,
            (None, _) => ErrorKind::Invalid,
        }
    }

    fn damage(&self) -> Option<Damage> {
        self.cause.as_ref().and_then(|cause| cause.damage())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_fs::{Ino, QuotaKind};
    use everbyte_media::Format;
    use everbyte_store::Error as StoreError;

    /// Each error of a volume, and each kind of those below it, has its errno.
    #[test]
    fn each_error_has_its_errno() {
        let (ino, volume) = (Ino(7), || "home".to_owned());
        let (at, len, max, end) = (1, 2, 3, 4);
        let format = Format { found: 9, known: 1 };
        let damaged = || Box::new(Damage::at(64, "a torn word"));
        let full = |quota: bool| {
            let (object, asked) = (volume(), 8);
            Box::new(match quota {
                true => StoreError::QuotaExceeded { object, quota: 4, has: 4, asked },
                false => StoreError::SpanFull { object, span: 4, asked, left: 0 },
            })
        };
        let quota = FsError::Quota { volume: volume(), kind: QuotaKind::User, id: 1, limit: "bytes" };
        let table = [
            (FsError::NewerFormat { volume: volume(), format }, Errno::EPROTONOSUPPORT),
            (FsError::OldFormat { volume: volume(), format }, Errno::EPROTONOSUPPORT),
            (FsError::Damaged(damaged()), Errno::EUCLEAN),
            (FsError::BadOption { detail: volume() }, Errno::EINVAL),
            (FsError::NotFound, Errno::ENOENT),
            (FsError::Exists, Errno::EEXIST),
            (FsError::NotADirectory { ino }, Errno::ENOTDIR),
            (FsError::IsADirectory { ino }, Errno::EISDIR),
            (FsError::NotAFile { ino }, Errno::EINVAL),
            (FsError::NotEmpty { ino }, Errno::ENOTEMPTY),
            (FsError::BadName, Errno::EINVAL),
            (FsError::NameTooLong { len: 256 }, Errno::ENAMETOOLONG),
            (FsError::TooLarge { len, max }, Errno::EFBIG),
            (FsError::TooManyLinks { ino, max }, Errno::EMLINK),
            (FsError::Unaligned { at, len }, Errno::EINVAL),
            (FsError::Overlap { ino }, Errno::EINVAL),
            (FsError::NoAttribute { ino }, Errno::ENODATA),
            (FsError::Loop { ino }, Errno::EINVAL),
            (FsError::Stale { ino }, Errno::ESTALE),
            (FsError::InUse { volume: volume() }, Errno::EBUSY),
            (FsError::Mapped { ino }, Errno::EBUSY),
            (FsError::Outside { at, len, end }, Errno::EFAULT),
            (FsError::ReadOnly { ino }, Errno::EROFS),
            (FsError::NoSpace { volume: volume(), cause: full(false) }, Errno::ENOSPC),
            (FsError::NoSpace { volume: volume(), cause: full(true) }, Errno::EDQUOT),
            (quota, Errno::EDQUOT),
            (FsError::OtherProject { ino, project: 1 }, Errno::EXDEV),
            (FsError::SizeReached { volume: volume(), size: 1 }, Errno::ENOSPC),
            (FsError::NoInodes { volume: volume() }, Errno::ENOSPC),
        ];
        for (error, errno) in table {
            let text = error.to_string();
            assert_eq!(errno_of(&error), errno, "{text}");
            assert_eq!(Error::from(error).errno(), errno, "{text}");
        }
        let of_kinds = [
            (ErrorKind::NotFound, Errno::ENOENT),
            (ErrorKind::Exists, Errno::EEXIST),
            (ErrorKind::Busy, Errno::EBUSY),
            (ErrorKind::Denied, Errno::EACCES),
            (ErrorKind::NoSpace, Errno::ENOSPC),
            (ErrorKind::Quota, Errno::EDQUOT),
            (ErrorKind::Invalid, Errno::EINVAL),
            (ErrorKind::Foreign, Errno::EINVAL),
            (ErrorKind::TooLarge, Errno::EFBIG),
            (ErrorKind::Damaged, Errno::EUCLEAN),
            (ErrorKind::Newer, Errno::EPROTONOSUPPORT),
            (ErrorKind::Poisoned, Errno::EIO),
            (ErrorKind::Io, Errno::EIO),
            (ErrorKind::Conflict, Errno::EAGAIN),
            (ErrorKind::Unsupported, Errno::EOPNOTSUPP),
            (ErrorKind::ReadOnly, Errno::EROFS),
            (ErrorKind::Interrupted, Errno::EINTR),
        ];
        for kind in ErrorKind::ALL {
            let found: Vec<_> = of_kinds.iter().filter(|of| of.0 == kind).collect();
            assert!(matches!(found[..], [of] if of.1 == errno_of_kind(kind)), "{kind:?}: {found:?}");
        }
        let below = FsError::Store(StoreError::Damaged(damaged()));
        assert_eq!(errno_of(&below), Errno::EUCLEAN);
    }
}

//! [`Fault`]: what went wrong, as C hears of it: `errno`, and a sentence that `everbyte_error` returns.

use everbyte_media as media;
use everbyte_store as store;
use everbyte_tx as tx;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

/// A failed call.
#[derive(Debug)]
pub struct Fault {
    errno: i32,
    message: String,
}

pub type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    pub fn new(errno: i32, message: impl Into<String>) -> Fault {
        Fault { errno, message: message.into() }
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The program handed over what it may not.
    pub fn invalid(message: impl Into<String>) -> Fault {
        Fault::new(libc::EINVAL, message)
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The result of a call as C sees it: `good` of its value, or `bad` with `errno` and the sentence set.
pub fn answer<T, C>(result: Result<T>, bad: C, good: impl FnOnce(T) -> C) -> C {
    match result {
        Ok(value) => good(value),
        Err(Fault { errno, message }) => {
            // A zero byte can only come from a name, and names have none.
            LAST.set(CString::new(message).unwrap_or_default());
            // SAFETY: it has no conditions.
            let place = unsafe { libc::__errno_location() };
            // SAFETY: this thread's `errno`, which lives as long as the thread and is nobody else's.
            unsafe { place.write(errno) };
            bad
        }
    }
}

/// The result of a call that has no value, as C sees it: 1, or 0.
pub fn done(result: Result<()>) -> c_int {
    answer(result, 0, |()| 1)
}

/// The sentence of this thread's last failed call; empty before the first. Good until its next failed call.
#[unsafe(no_mangle)]
pub extern "C" fn everbyte_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

impl From<store::Error> for Fault {
    fn from(error: store::Error) -> Fault {
        use store::Error;
        let message = error.to_string();
        let errno = match error {
            Error::Media(error) => return Fault::from(error),
            Error::Exists { .. } | Error::Occupied { .. } => libc::EEXIST,
            Error::NotFound { .. } => libc::ENOENT,
            Error::BadName { .. } | Error::BadOption { .. } | Error::BadRange { .. } => libc::EINVAL,
            Error::Open { .. }
            | Error::Attached { .. }
            | Error::Claimed { .. }
            | Error::SameIdentity { .. }
            | Error::Busy => libc::EBUSY,
            Error::Denied { .. } => libc::EACCES,
            Error::OutOfSpace { .. } | Error::Full { .. } | Error::NoSpan { .. } | Error::SpanFull { .. } => {
                libc::ENOSPC
            }
            Error::QuotaExceeded { .. } | Error::UserQuotaExceeded { .. } => libc::EDQUOT,
            Error::Unshared { .. } => libc::EBUSY,
            Error::WrongEngine { .. } | Error::WrongFingerprint { .. } | Error::OutOfTurn { .. } => libc::EPERM,
            Error::NewerFormat { .. } => libc::ENOTSUP,
            Error::NotAStore { .. } | Error::Unfinished { .. } | Error::NotEmpty { .. } => libc::EMEDIUMTYPE,
            Error::Damaged { .. } | Error::Truncated { .. } => libc::EUCLEAN,
            _ => libc::EIO,
        };
        Fault { errno, message }
    }
}

impl From<media::Error> for Fault {
    fn from(error: media::Error) -> Fault {
        use media::Error;
        let errno = match &error {
            Error::Io { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
            Error::InUse { .. } => libc::EBUSY,
            Error::NotAStore { .. } => libc::EMEDIUMTYPE,
            Error::NewerFormat { .. } | Error::Unsupported { .. } => libc::ENOTSUP,
            Error::Damaged { .. } => libc::EUCLEAN,
            Error::AddressTaken { .. } => libc::EADDRINUSE,
            Error::OutOfRange { .. } => libc::EINVAL,
            Error::Forked { .. } => libc::EPERM,
            _ => libc::EIO,
        };
        Fault::new(errno, error.to_string())
    }
}

impl From<everbyte_heap::Error> for Fault {
    fn from(error: everbyte_heap::Error) -> Fault {
        use everbyte_heap::Error;
        let message = error.to_string();
        let errno = match error {
            Error::Store(error) => return Fault::from(error),
            Error::Media(error) => return Fault::from(error),
            Error::NotABlock { .. } | Error::NotAllocated { .. } | Error::BeingFreed { .. } => libc::EINVAL,
            Error::BadDestination { .. } => libc::EINVAL,
            Error::NotFree { .. } => libc::EBUSY,
            Error::TooLarge { .. } => libc::ENOMEM,
            Error::NewerFormat { .. } => libc::ENOTSUP,
            Error::NoHeap { .. } => libc::EPERM,
            Error::Damaged { .. } => libc::EUCLEAN,
            _ => libc::EIO,
        };
        Fault { errno, message }
    }
}

impl From<everbyte_hkv::Error> for Fault {
    fn from(error: everbyte_hkv::Error) -> Fault {
        use everbyte_hkv::Error;
        let message = error.to_string();
        let errno = match error {
            Error::Tx(error) => return Fault::from(error),
            Error::Heap(error) => return Fault::from(error),
            Error::Store(error) => return Fault::from(error),
            Error::Media(error) => return Fault::from(error),
            Error::NewerFormat { .. } | Error::OldFormat { .. } => libc::ENOTSUP,
            Error::Damaged { .. } => libc::EUCLEAN,
            Error::TooLarge { .. } => libc::E2BIG,
            _ => libc::EIO,
        };
        Fault { errno, message }
    }
}

impl From<everbyte_log::Error> for Fault {
    fn from(error: everbyte_log::Error) -> Fault {
        use everbyte_log::Error;
        let message = error.to_string();
        let errno = match error {
            Error::Media(error) => return Fault::from(error),
            Error::Full { .. } => libc::ENOSPC,
            Error::TooLarge { .. } => libc::E2BIG,
            Error::NewerFormat { .. } => libc::ENOTSUP,
            Error::NotALog { .. } | Error::Damaged { .. } | Error::BadRange { .. } => libc::EUCLEAN,
            _ => libc::EIO,
        };
        Fault { errno, message }
    }
}

impl From<everbyte_mnemosyne::Error> for Fault {
    fn from(error: everbyte_mnemosyne::Error) -> Fault {
        use everbyte_mnemosyne::Error;
        let message = error.to_string();
        let errno = match error {
            Error::Tx(error) => return Fault::from(error),
            Error::Heap(error) => return Fault::from(error),
            Error::Store(error) => return Fault::from(error),
            Error::Media(error) => return Fault::from(error),
            Error::Log(error) => return Fault::from(error),
            Error::Changed { .. } => libc::EPERM,
            Error::Unfit { .. } | Error::BadTarget { .. } => libc::EINVAL,
            Error::NewerFormat { .. } => libc::ENOTSUP,
            Error::Damaged { .. } => libc::EUCLEAN,
            _ => libc::EIO,
        };
        Fault { errno, message }
    }
}

impl From<tx::Error> for Fault {
    fn from(error: tx::Error) -> Fault {
        use tx::Error;
        let message = error.to_string();
        let errno = match error {
            Error::Heap(error) => return Fault::from(error),
            Error::Store(error) => return Fault::from(error),
            Error::Media(error) => return Fault::from(error),
            Error::BadRange { .. } => libc::EINVAL,
            Error::NoLane { .. } => libc::EPERM,
            Error::Conflict => libc::EAGAIN,
            Error::TooLong { .. } => libc::E2BIG,
            Error::TimestampsExhausted { .. } => libc::EOVERFLOW,
            Error::NewerFormat { .. } => libc::ENOTSUP,
            Error::Damaged { .. } => libc::EUCLEAN,
            _ => libc::EIO,
        };
        Fault { errno, message }
    }
}

impl From<tx::TxError<Fault>> for Fault {
    fn from(error: tx::TxError<Fault>) -> Fault {
        match error {
            tx::TxError::Aborted(fault) => fault,
            tx::TxError::Engine(error) => Fault::from(error),
            _ => Fault::new(libc::ECANCELED, "rolled back: a transaction inside this one failed"),
        }
    }
}

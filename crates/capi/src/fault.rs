//! [`Fault`]: an error as C receives it: `errno`, and a sentence that `everbyte_error` returns.

use everbyte_media::{self as media, ErrorInfo, ErrorKind};
use everbyte_store as store;
use everbyte_tx as tx;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char, c_int};

/// A failed call.
#[derive(Debug)]
pub(crate) struct Fault {
    errno: i32,
    message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    pub(crate) fn new(errno: i32, message: impl Into<String>) -> Fault {
        Fault { errno, message: message.into() }
    }

    /// The sentence.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// A thread that is ending would begin something that only its end could end.
    pub(crate) fn ending() -> Fault {
        Fault::new(libc::EPERM, "this thread is ending and can begin nothing; begin and end it earlier")
    }

    /// The program passed an invalid argument.
    pub(crate) fn invalid(message: impl Into<String>) -> Fault {
        Fault::new(libc::EINVAL, message)
    }
}

/// Bytes of a sentence, its end included.
const SENTENCE_MAX: usize = 1024;
/// The same in a thread that is ending. Few: a library that is loaded late finds little room for
/// values of threads.
const LAST_WORDS_MAX: usize = 128;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
    /// In place of [`LAST`] once that is dropped: calls also fail while a thread ends, in functions
    /// that run at exit and in destructors of static objects and of keys.
    static LAST_WORDS: [Cell<u8>; LAST_WORDS_MAX] = const { [const { Cell::new(0) }; LAST_WORDS_MAX] };
}

/// Keeps a sentence for [`everbyte_error`], or as much of it as has room.
fn keep(sentence: &str) {
    let cut = |most: usize| &sentence.as_bytes()[..sentence.floor_char_boundary(most - 1)];
    // Names have no zero bytes.
    let kept = LAST.try_with(|last| last.replace(CString::new(cut(SENTENCE_MAX)).unwrap_or_default()));
    if kept.is_err() {
        let bytes = cut(LAST_WORDS_MAX).iter().chain(&[0]);
        LAST_WORDS.with(|last| last.iter().zip(bytes).for_each(|(place, &byte)| place.set(byte)));
    }
}

/// The result of a call for C: `good` of its value, or `bad` with `errno` and the sentence set.
pub(crate) fn answer<T, C>(result: Result<T>, bad: C, good: impl FnOnce(T) -> C) -> C {
    match result {
        Ok(value) => good(value),
        Err(Fault { errno, message }) => {
            keep(&message);
            // SAFETY: it has no conditions.
            let place = unsafe { libc::__errno_location() };
            // SAFETY: this thread's `errno`, which lives as long as the thread and is
            // private to it.
            unsafe { place.write(errno) };
            bad
        }
    }
}

/// The result of a call without a value, for C: 1, or 0.
pub(crate) fn done(result: Result<()>) -> c_int {
    answer(result, 0, |()| 1)
}

/// The sentence of this thread's last failed call; empty before the first. Valid until its next
/// failed call.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn everbyte_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or_else(|_| LAST_WORDS.with(|last| last.as_ptr().cast()))
}

/// The number of `errno` for a kind of error.
fn number(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::Exists => libc::EEXIST,
        ErrorKind::Busy => libc::EBUSY,
        ErrorKind::Denied => libc::EACCES,
        ErrorKind::NoSpace => libc::ENOSPC,
        ErrorKind::Quota => libc::EDQUOT,
        ErrorKind::Invalid => libc::EINVAL,
        ErrorKind::TooLarge => libc::E2BIG,
        ErrorKind::Damaged => libc::EUCLEAN,
        ErrorKind::Newer | ErrorKind::Unsupported => libc::ENOTSUP,
        ErrorKind::Foreign => libc::EMEDIUMTYPE,
        ErrorKind::Conflict => libc::EAGAIN,
        ErrorKind::ReadOnly => libc::EROFS,
        ErrorKind::Interrupted => libc::EINTR,
        ErrorKind::Poisoned | ErrorKind::Io => libc::EIO,
    }
}

/// The errors for which the headers promise a finer number than their kind has.
trait Finer: ErrorInfo {
    fn finer(&self) -> Option<i32>;
}

/// The numbers of some variants; `through` names the variants that hold an error with finer
/// numbers, `by_kind` those that have the number of their kind. A new variant does not compile
/// before it stands in one of the three lists.
macro_rules! finer {
    (
        $error:ty,
        through [$($inner:ident),*],
        by_kind [$($kind:ident),*],
        $($variant:ident => $number:ident),* $(,)?
    ) => {
        impl Finer for $error {
            fn finer(&self) -> Option<i32> {
                type Of = $error;
                match self {
                    $(Of::$inner(error) => error.finer(),)*
                    $(Of::$variant { .. } => Some(libc::$number),)*
                    $(Of::$kind { .. } => None,)*
                }
            }
        }
    };
}

finer!(
    media::Error,
    through [],
    by_kind [
        Io, Poisoned, InUse, NotAStore, NewerFormat, Damaged, Unreadable, OutOfRange, Unsupported
    ],
    AddressTaken => EADDRINUSE, Forked => EPERM
);
finer!(
    store::Error,
    through [Media],
    by_kind [
        NotAStore, Unfinished, NewerFormat, Damaged, Truncated, BadOption, SameIdentity, Occupied,
        NotEmpty, Attached, NotFound, Exists, BadName, Full, Denied, Busy, NoSpan, SpanFull,
        Claimed, Open, QuotaExceeded, UserQuotaExceeded, Unshared, NoIds, Backing, BadRange, ReadOnly
    ],
    OutOfSpace => ENOSPC, WrongEngine => EPERM, WrongFingerprint => EPERM, NotExclusive => EPERM
);
finer!(
    everbyte_heap::Error,
    through [Store, Media],
    by_kind [
        NotABlock, NotAllocated, BeingFreed, NotFree, BadDestination, BadOp, NewerFormat, Damaged
    ],
    TooLarge => ENOMEM, NoHeap => EPERM
);
// A log's range comes from an object: an unfit one is damage.
finer!(
    everbyte_log::Error,
    through [Media],
    by_kind [Full, TooLarge, NewerFormat, Damaged],
    NotALog => EUCLEAN, BadRange => EUCLEAN
);
finer!(
    tx::Error,
    through [Heap, Store, Log, Media],
    by_kind [NewerFormat, OlderFormat, Damaged, BadRange, Conflict, TooLong, Poisoned],
    NoLane => EPERM, TimestampsExhausted => EOVERFLOW
);
finer!(
    everbyte_hkv::Error,
    through [Tx, Heap, Store, Media],
    by_kind [NewerFormat, Damaged, TooLarge],
    OldFormat => ENOTSUP
);
finer!(
    everbyte_mnemosyne::Error,
    through [Tx, Heap, Store, Media, Log],
    by_kind [Unfit, BadTarget, NewerFormat, Damaged],
    Changed => EPERM
);

finer!(
    everbyte_kv::Error,
    through [Media, Heap, Store],
    by_kind [
        Damaged, KeyTooLong, ValueTooLong, NoSavepoint, SavepointsExhausted, NoTable, TableExists,
        TableName, TableGone, OtherStore, Expired, NoVersion, VersionExists, VersionName,
        VersionReserved, TablesExhausted, OwnBatch, OtherTree, NewerFormat, VersionsExhausted, NotADump, NewerDump,
        DumpDamaged, DumpIo, OtherType, Untyped, Undescribed, Undecodable, Conflict, NotACounter,
        Unsorted, RangeNotEmpty, ReadOnly, Unpublished
    ],
    Doomed => ECANCELED, CounterOverflow => EOVERFLOW
);

impl<E: Finer> From<E> for Fault {
    fn from(error: E) -> Fault {
        let errno = error.finer().or_else(|| error.os_error()).unwrap_or_else(|| number(error.kind()));
        Fault::new(errno, error.to_string())
    }
}

impl From<everbyte_recorded::Refused> for Fault {
    fn from(refused: everbyte_recorded::Refused) -> Fault {
        Fault::new(refused.errno, refused.message)
    }
}

impl From<tx::TxError<Fault>> for Fault {
    fn from(error: tx::TxError<Fault>) -> Fault {
        match error {
            tx::TxError::Aborted(fault) => fault,
            tx::TxError::Engine(error) => Fault::from(error),
            tx::TxError::Doomed => Fault::new(libc::ECANCELED, "rolled back: a transaction inside this one failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sentence_is_cut_at_a_whole_character() {
        let sentence = || {
            // SAFETY: a string of this thread, which no call changes meanwhile.
            unsafe { std::ffi::CStr::from_ptr(everbyte_error()) }.to_str().unwrap()
        };
        assert_eq!(sentence(), "");
        assert_eq!(done(Err(Fault::invalid("é".repeat(SENTENCE_MAX)))), 0);
        assert_eq!(sentence(), "é".repeat(SENTENCE_MAX / 2 - 1));
        assert_eq!(done(Err(Fault::invalid("a short one"))), 0);
        assert_eq!(sentence(), "a short one");
    }

    #[test]
    fn the_manual_lists_the_number_of_every_kind() {
        let page = include_str!("../../../docs/manual/errors.md");
        for kind in ErrorKind::ALL {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{kind}` |"))).expect("a row");
            let name = row.split('|').nth(3).unwrap_or_default().trim().trim_matches('`');
            let listed = match name {
                "ENOENT" => libc::ENOENT,
                "EEXIST" => libc::EEXIST,
                "EBUSY" => libc::EBUSY,
                "EACCES" => libc::EACCES,
                "ENOSPC" => libc::ENOSPC,
                "EDQUOT" => libc::EDQUOT,
                "EINVAL" => libc::EINVAL,
                "E2BIG" => libc::E2BIG,
                "EUCLEAN" => libc::EUCLEAN,
                "ENOTSUP" => libc::ENOTSUP,
                "EMEDIUMTYPE" => libc::EMEDIUMTYPE,
                "EAGAIN" => libc::EAGAIN,
                "EROFS" => libc::EROFS,
                "EINTR" => libc::EINTR,
                "EIO" => libc::EIO,
                other => panic!("{other}: no number that is known here"),
            };
            assert_eq!(number(kind), listed, "{kind}");
        }
    }
}

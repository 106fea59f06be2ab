//! [`Fault`]: an error on its way to C++, and the functions that let nothing unwind.

use everbyte_media::{ErrorInfo, ErrorKind};
use everbyte_object::TryError;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The kind of a fault that is a panic. Kinds of errors count from 1, in the order of
/// [`ErrorKind::ALL`].
const PANICKED: u32 = 100;
/// The kind of an error that an exported method has returned.
const REFUSED: u32 = 101;

/// The results of a call, as C++ reads them.
pub(crate) const DONE: u32 = 0;
pub(crate) const FAILED: u32 = 1;
/// The lambda of a transaction has thrown: the caller rethrows.
pub(crate) const THROWN: u32 = 2;

/// An error for C++: a kind and a sentence. One word: the result of a call that does not fail stays
/// in registers.
#[derive(Clone, Debug)]
pub struct Fault(Box<Said>);

#[derive(Clone, Debug)]
struct Said {
    kind: u32,
    message: String,
    /// The exception lies at the caller.
    is_thrown: bool,
}

impl Fault {
    #[cold]
    fn new(kind: u32, message: impl Into<String>) -> Fault {
        Fault(Box::new(Said { kind, message: message.into(), is_thrown: false }))
    }

    /// The program has passed what no call accepts.
    pub fn invalid(message: impl Into<String>) -> Fault {
        Fault::of_kind(ErrorKind::Invalid, message)
    }

    /// An error of that kind.
    pub fn of_kind(kind: ErrorKind, message: impl Into<String>) -> Fault {
        let index = ErrorKind::ALL.iter().position(|one| *one == kind).expect("`ALL` has every kind");
        Fault::new(index as u32 + 1, message)
    }

    /// The error of an exported method that returns a `Result`.
    pub fn refused(error: impl Display) -> Fault {
        Fault::new(REFUSED, error.to_string())
    }

    /// A root of another type than the caller's.
    #[doc(hidden)]
    pub fn another_type(name: &str, wanted: &str) -> Fault {
        Fault::of_kind(
            ErrorKind::Foreign,
            format!("root `{name}` is no `{wanted}`: open it with the type it was made with"),
        )
    }

    /// A root that was made with other classes of C++.
    #[doc(hidden)]
    pub fn other_classes(name: &str) -> Fault {
        Fault::of_kind(ErrorKind::Foreign, format!("root `{name}` was made with other classes of C++"))
    }

    /// The lambda has thrown.
    pub(crate) fn thrown() -> Fault {
        Fault(Box::new(Said { kind: 0, message: String::new(), is_thrown: true }))
    }

    /// The error that a transaction ended with.
    #[doc(hidden)]
    #[cold]
    pub fn of_transaction(error: TryError<Fault>) -> Fault {
        match error {
            TryError::Aborted(fault) => fault,
            TryError::Failed(error) => error.into(),
        }
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl From<everbyte_object::Error> for Fault {
    #[cold]
    fn from(error: everbyte_object::Error) -> Fault {
        match error {
            everbyte_object::Error::Panicked { message } => Fault::new(PANICKED, message),
            error => Fault::of_kind(error.kind(), error.to_string()),
        }
    }
}

impl From<everbyte_media::Error> for Fault {
    fn from(error: everbyte_media::Error) -> Fault {
        everbyte_store::Error::from(error).into()
    }
}

impl From<everbyte_recorded::Refused> for Fault {
    fn from(refused: everbyte_recorded::Refused) -> Fault {
        Fault::invalid(refused.message)
    }
}

impl From<everbyte_store::Error> for Fault {
    fn from(error: everbyte_store::Error) -> Fault {
        Fault::of_kind(error.kind(), error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<Option<Fault>> = const { RefCell::new(None) };
    /// A callback has thrown, and Rust unwinds because of it.
    static IS_THROWN: Cell<bool> = const { Cell::new(false) };
}

/// Whether a callback has thrown in this call, which ends by that.
#[inline]
pub(crate) fn was_thrown() -> bool {
    IS_THROWN.take()
}

/// Unwinds to the call of C++ whose callback has thrown; the exception lies at C++.
#[cold]
pub(crate) fn throw() -> ! {
    IS_THROWN.set(true);
    resume_unwind(Box::new("an exception of C++"))
}

/// The last fault of a thread, as C++ reads it. The text is valid until the thread's next fault.
#[repr(C)]
pub(crate) struct RawFault {
    kind: u32,
    bytes: *const u8,
    size: usize,
}

/// The fault of this thread's last call that failed.
///
/// # Safety
/// `out` is null, or may be written to.
pub(crate) unsafe extern "C" fn last_fault(out: *mut RawFault) {
    if out.is_null() || !out.is_aligned() {
        return; // PASS-2
    }
    LAST.with_borrow(|last| {
        let (kind, text) = last.as_ref().map_or((0, ""), |fault| (fault.0.kind, fault.message()));
        // SAFETY: the caller's.
        unsafe { out.write(RawFault { kind, bytes: text.as_ptr(), size: text.len() }) };
    });
}

/// Asserts that a call has succeeded.
#[cfg(test)]
#[track_caller]
pub(crate) fn assert_done(status: u32) {
    LAST.with_borrow(|last| assert_eq!(status, DONE, "{last:?}"));
}

/// Asserts that a call has failed with a sentence that has `part`.
#[cfg(test)]
#[track_caller]
pub(crate) fn assert_failed(status: u32, part: &str) {
    LAST.with_borrow(|last| {
        let is_said = last.as_ref().is_some_and(|fault| fault.message().contains(part));
        assert!(status == FAILED && is_said, "{status}, {last:?}, not `{part}`");
    });
}

/// The status of a call; its fault is kept for [`last_fault`].
#[inline]
fn status(result: Result<(), Fault>) -> u32 {
    match result {
        Ok(()) => DONE,
        Err(fault) => failed(fault),
    }
}

#[cold]
fn failed(fault: Fault) -> u32 {
    // Either, whatever has become of the panic on its way: the exception is older.
    if IS_THROWN.take() || fault.0.is_thrown {
        return THROWN;
    }
    LAST.set(Some(fault));
    FAILED
}

/// The status of a call that may panic. Nothing but that status leaves the frame that catches.
#[inline]
pub(crate) fn caught(call: impl FnOnce() -> Result<(), Fault>) -> u32 {
    catch_unwind(AssertUnwindSafe(|| status(call()))).unwrap_or_else(failed_by_panic)
}

#[cold]
fn failed_by_panic(payload: Box<dyn Any + Send>) -> u32 {
    failed(panicked(payload))
}

#[cold]
fn panicked(payload: Box<dyn Any + Send>) -> Fault {
    let message = match (payload.downcast_ref::<String>(), payload.downcast_ref::<&str>()) {
        (Some(message), _) => message.clone(),
        (_, Some(message)) => message.to_string(),
        _ => "(a payload that is no text)".into(),
    };
    // A payload may panic when it is dropped; the payload of that panic is left alone.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    Fault::new(PANICKED, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exception of one call is not that of the next.
    #[test]
    fn an_exception_ends_with_its_call() {
        assert_eq!(caught(|| throw()), THROWN);
        assert_failed(caught(|| Err(Fault::invalid("another"))), "another");
        assert_eq!(caught(|| Err(Fault::thrown())), THROWN);
        assert_failed(caught(|| panic!("a panic")), "a panic");
    }

    /// The header's enumerators are the kinds, in order.
    #[test]
    fn the_header_names_every_kind_of_error() {
        let header = include_str!("../../../include/everbyte/bridge_wire.hpp");
        for (index, kind) in ErrorKind::ALL.iter().enumerate() {
            let line = format!("  {} = {},", kind.name(), index + 1);
            assert!(header.contains(&line), "no line `{line}`");
        }
        assert!(header.contains(&format!("  panicked = {PANICKED},")));
        assert!(header.contains(&format!("  refused = {REFUSED},")));
    }
}

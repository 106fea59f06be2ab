//! The other names: commit and cancel, queries by the program, and its own actions.

use super::die;
use super::tx::{self, Action, current, step};
use std::ffi::{c_char, c_int, c_void};

#[unsafe(no_mangle)]
extern "C" fn _ITM_commitTransaction() {
    tx::commit(None);
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn _ITM_abortTransaction(reason: u32) -> ! {
    tx::cancel(reason)
}

#[unsafe(no_mangle)]
extern "C" fn _ITM_changeTransactionMode(_mode: c_int) {
    die("this transaction asks to become irrevocable; a durable one cannot: what it calls must be transaction_safe");
}

#[unsafe(no_mangle)]
extern "C" fn _ITM_inTransaction() -> c_int {
    // 2: in one of several concurrent transactions, which can be undone.
    if current().is_some_and(|tx| tx.is_running()) { 2 } else { 0 }
}

#[unsafe(no_mangle)]
extern "C" fn _ITM_getTransactionId() -> u64 {
    current().filter(|tx| tx.is_running()).map_or(1, |tx| tx.number() + 1) // 1: no transaction
}

type Run = unsafe extern "C" fn(*mut c_void);

/// # Safety
/// `run` may be called with `with` after this transaction has committed.
#[unsafe(no_mangle)]
unsafe extern "C" fn _ITM_addUserCommitAction(run: Run, _resumes: u64, with: *mut c_void) {
    if current().is_some_and(|tx| tx.is_running()) {
        step(|tx| {
            tx.actions.committed.push(Action { run, with });
            Ok(())
        });
    } else {
        Action { run, with }.call();
    }
}

/// # Safety
/// `run` may be called with `with` after this transaction has been aborted.
#[unsafe(no_mangle)]
unsafe extern "C" fn _ITM_addUserUndoAction(run: Run, with: *mut c_void) {
    if current().is_some() {
        step(|tx| {
            tx.actions.aborted.push(Action { run, with });
            Ok(())
        });
    }
}

#[unsafe(no_mangle)]
extern "C" fn _ITM_dropReferences(_at: *mut c_void, _len: usize) {}

/// The version of the ABI that compilers ask for.
const VERSION: c_int = 90;

#[unsafe(no_mangle)]
extern "C" fn _ITM_versionCompatible(version: c_int) -> c_int {
    (version == VERSION).into()
}

#[unsafe(no_mangle)]
extern "C" fn _ITM_libraryVersion() -> *const c_char {
    c"Everbyte patomic".as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn _ITM_error(_location: *const c_void, code: c_int) -> ! {
    die(format_args!("error {code} of the compiled code"))
}

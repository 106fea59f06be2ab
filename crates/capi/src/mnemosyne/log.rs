//! `log_create` and its kin. The header states their contracts.
//!
//! Safety, for all of them: a log is one that `log_create` returned and that was not closed, or
//! null.

use crate::fault::{Fault, Result, answer, done};
use crate::heapo::name;
use crate::process::Process;
use everbyte_log::{Form, Full};
use everbyte_mnemosyne::{Log, LogOptions};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

/// The valid `flags` of `log_create`.
const BASE: c_int = 1;
const WAIT: c_int = 2;
const EMPTY: c_int = 4;

/// The callback that receives each record.
type Each = unsafe extern "C" fn(*const u64, usize, *mut c_void);

/// # Safety
/// As said at the top of the file.
unsafe fn handle<'l>(log: *mut Log) -> Result<&'l Log> {
    // SAFETY: the caller's promise: made by `Box::into_raw`, and shared until it is closed.
    unsafe { log.as_ref() }.ok_or_else(|| Fault::invalid("a null pointer is no log"))
}

/// # Safety
/// `object` is a name as in `heapo.h`; `each`, unless null, may be called with records and
/// `context`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn log_create(
    object: *const c_char,
    size: usize,
    flags: c_int,
    each: Option<Each>,
    context: *mut c_void,
) -> *mut Log {
    // SAFETY: the caller's promise.
    let opened = unsafe { name(object) }.and_then(|name| {
        if flags & !(BASE | WAIT | EMPTY) != 0 {
            return Err(Fault::invalid(format!("{flags:#x} has unknown flags")));
        }
        let form = if flags & BASE != 0 { Form::Base } else { Form::Torn };
        let full = if flags & WAIT != 0 { Full::Block } else { Full::Error };
        let options = LogOptions { size: size as u64, form, full };
        let log = Log::open(Process::get()?.store(), name, options, |words| {
            if let Some(each) = each {
                // SAFETY: the caller's promise; the words live during the call.
                unsafe { each(words.as_ptr(), words.len(), context) };
            }
        })?;
        if flags & EMPTY != 0 {
            log.truncate()?;
        }
        Ok(log)
    });
    answer(opened, null_mut(), |log| Box::into_raw(Box::new(log)))
}

/// # Safety
/// As said at the top of the file; `words` is good for `count` words.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn log_append(log: *mut Log, words: *const u64, count: usize) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { handle(log) }.and_then(|log| {
        let words = match (words.is_null(), count) {
            (_, 0) => &[],
            (true, _) => return Err(Fault::invalid("a null pointer to words")),
            // SAFETY: the caller's promise.
            (false, count) => unsafe { std::slice::from_raw_parts(words, count) },
        };
        Ok(log.append(words)?)
    }))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn log_flush(log: *mut Log) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { handle(log) }.and_then(|log| Ok(log.flush()?)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn log_truncate(log: *mut Log) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { handle(log) }.and_then(|log| Ok(log.truncate()?)))
}

/// # Safety
/// As said at the top of the file; no thread uses the log any more.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn log_close(log: *mut Log) {
    if !log.is_null() {
        // SAFETY: the caller's promise: made by `Box::into_raw`, and not closed before.
        drop(unsafe { Box::from_raw(log) });
    }
}

//! The primitives: stores past the cache, flush, and the fence, which completes as the paper's
//! does: a barrier.

use super::sections::home;
use crate::fault::{Result, done};
use crate::process::Process;
use std::ffi::{c_int, c_void};

fn flush(start: usize, size: usize) -> Result<()> {
    let home = home(start, size)?;
    home.push(start, size);
    home.media.flush(home.at, size as u64);
    Ok(())
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn mnemosyne_flush(start: *const c_void, size: usize) -> c_int {
    done(flush(start.addr(), size))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn mnemosyne_order() -> c_int {
    done(Process::get().map(|process| process.media().fence()))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn mnemosyne_fence() -> c_int {
    done(Process::get().and_then(|process| Ok(process.media().barrier()?)))
}

/// # Safety
/// `target` is checked against persistent memory; `source .. source + size` is readable.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn mnemosyne_wtcopy(target: *mut c_void, source: *const c_void, size: usize) -> c_int {
    done(home(target.addr(), size).map(|home| {
        if size == 0 {
            return;
        }
        if home.copied {
            // SAFETY: the target is memory of a section, checked just now; the source is the
            // caller's promise.
            unsafe { std::ptr::copy(source.cast::<u8>(), target.cast::<u8>(), size) };
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(source.cast::<u8>(), size) };
        home.media.copy_nt(home.at, bytes);
    }))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn mnemosyne_wtstore(target: *mut u64, value: u64) -> c_int {
    // SAFETY: the source is a local word of this call.
    unsafe { mnemosyne_wtcopy(target.cast(), (&raw const value).cast(), 8) }
}

//! The protection key of write windows: one for all guarded pages of the process.
//!
//! A thread may load from pages with the key; its window lets it store there, too. The rights are
//! a register of the thread (PKRU on x86-64), so a window changes no page table and no other
//! thread. A CPU has 16 keys, and programs may use some, so the process takes one and keeps it.
//!
//! The kernel gives a thread no rights to a key that it did not take itself: a thread that existed
//! before the key, and a thread that runs a signal handler, fault at their first access. The
//! handler of SIGSEGV gives such a thread the rights that its open sections say, in the registers
//! to which the kernel returns, and the instruction runs again. A fault with these rights is a
//! stray store.
//!
//! Invariants
//!   KEY-1  A thread has the right to store exactly while it has an open section that began with
//!          keys; [`DEPTH`] counts those.
//!
//! Threads: any. The functions for the handler call no library and take no lock. No thread may be
//! started inside a section: it would inherit the rights.

use crate::bytes::isa;
use parking_lot::Mutex;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// `PKEY_DISABLE_WRITE`.
const NO_STORES: u32 = 2;
/// `SEGV_PKUERR`: the fault is one of a key.
const CODE: c_int = 4;
/// The key of guarded pages; 0 while there is none, since 0 is the key of all other pages.
static KEY: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Open sections of this thread that opened its window.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Takes the key, at the first call that succeeds.
///
/// # Errors
/// The CPU or the kernel has no keys, or no key is left.
pub(crate) fn take() -> io::Result<()> {
    static TAKING: Mutex<()> = Mutex::new(());
    let _one = TAKING.lock();
    if KEY.load(Ordering::Acquire) != 0 {
        return Ok(());
    }
    if !isa::has_keys() {
        return Err(io::Error::other("the CPU or the kernel has no protection keys"));
    }
    // SAFETY: a system call with numbers alone; it changes the rights of this thread to the new
    // key, which no page has.
    let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, NO_STORES) };
    match u32::try_from(key) {
        Ok(key) => KEY.store(key, Ordering::Release),
        Err(_) => return Err(io::Error::last_os_error()),
    }
    Ok(())
}

/// Gives pages the key, or key 0, readable and writable by their rights in the page table.
///
/// # Safety
/// `place..place+len` are whole pages of a mapping of this process that stays mapped meanwhile.
pub(crate) unsafe fn set(place: *mut u8, len: usize, is_guarded: bool) -> io::Result<()> {
    let key = if is_guarded { KEY.load(Ordering::Acquire) } else { 0 };
    // SAFETY:
    // - in bounds, alive: the caller's promise;
    // - no writer: no byte changes, and no reference into guarded pages exists;
    // - valid: as above.
    let refused = unsafe {
        libc::syscall(libc::SYS_pkey_mprotect, place, len, libc::PROT_READ | libc::PROT_WRITE, u64::from(key))
    };
    if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A section of this thread begins. Returns whether it opened the window.
#[inline]
pub(crate) fn open() -> bool {
    let depth = DEPTH.get();
    DEPTH.set(depth + 1);
    if depth == 0 {
        put_rights(0);
    }
    depth == 0
}

/// A section that called [`open`] ends.
#[inline]
pub(crate) fn close() {
    let depth = DEPTH.get() - 1;
    DEPTH.set(depth);
    if depth == 0 {
        put_rights(NO_STORES);
    }
}

/// Sets this thread's rights to the key.
#[inline]
fn put_rights(rights: u32) {
    let key = KEY.load(Ordering::Relaxed);
    // SAFETY: the key was taken, so the CPU has the instruction.
    let all = unsafe { isa::key_rights() };
    // SAFETY: as above; the rights of other keys stay, and this code touches no guarded page.
    unsafe { isa::put_key_rights(with_rights(all, key, rights)) };
}

/// `all` with the rights of one key replaced.
fn with_rights(all: u32, key: u32, rights: u32) -> u32 {
    all & !(3 << (2 * key)) | rights << (2 * key)
}

/// Gives the thread that faulted the rights of its sections. `false`: the fault is none of our key,
/// or the thread has these rights.
///
/// # Safety
/// `info` and `context` are the arguments of the running handler of SIGSEGV.
pub(crate) unsafe fn resolve(info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
    /// Offset of the number of the key in `siginfo_t`.
    const KEY_AT: usize = 32;
    let key = KEY.load(Ordering::Acquire);
    // SAFETY: the kernel passes a valid `siginfo_t`, which lives through the handler.
    if key == 0 || unsafe { (*info).si_code } != CODE {
        return false;
    }
    // SAFETY: with this code the kernel fills the field; a `siginfo_t` has 128 bytes.
    let found = unsafe { info.cast::<u8>().wrapping_add(KEY_AT).cast::<u32>().read() };
    let rights = if DEPTH.get() > 0 { 0 } else { NO_STORES };
    // SAFETY: the caller's promise.
    found == key && unsafe { isa::change_saved_rights(context, |all| with_rights(all, key, rights)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rights_of_other_keys_stay() {
        assert_eq!(with_rights(0x5555_5554, 3, NO_STORES), 0x5555_5594);
        assert_eq!(with_rights(0x5555_5594, 3, 0), 0x5555_5514);
        assert_eq!(with_rights(0, 15, 3), 0xc000_0000);
    }
}

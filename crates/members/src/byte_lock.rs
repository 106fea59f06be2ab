//! Locks on single bytes of a file: open-file-description locks, which belong to the description
//! and not to the process.
//!
//! The kernel releases them when the last descriptor of the description is closed, at the latest
//! when the process exits. All bytes lie far behind any store's end.
//!
//! Threads: any.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Locked exclusively while a process opens or closes the store.
pub(crate) const JOIN: u64 = 1 << 60;
/// Locked shared by every member; exclusively by a process that is the only member.
pub(crate) const MEMBERS: u64 = JOIN + 1;
/// Locked shared by processes that only read the store.
const READERS: u64 = JOIN + 2;
/// Locked exclusively by a process that gives the file another chunk.
pub(crate) const GROWTH: u64 = JOIN + 3;
/// Plus a token: locked exclusively by the member with that token.
pub(crate) const TOKENS: u64 = 1 << 61;
/// Plus a slot number: locked by members that hold the slot.
pub(crate) const SLOT_BYTES: u64 = 1 << 62;

/// The state of a byte's lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteLock {
    Unlocked,
    Shared,
    Exclusive,
}

/// Registers a reader of `file`. `false`: the store has members, which change it meanwhile.
pub(crate) fn register_reader(file: BorrowedFd<'_>) -> io::Result<bool> {
    set(file, READERS, ByteLock::Shared, false)?;
    Ok(!is_taken(file, MEMBERS, ByteLock::Exclusive)?)
}

/// Whether a process that is no member reads `file`.
///
/// # Errors
/// The system's refusal.
pub fn is_read(file: &File) -> io::Result<bool> {
    is_taken(file.as_fd(), READERS, ByteLock::Exclusive)
}

fn request(at: u64, lock: ByteLock) -> libc::flock {
    let kind = match lock {
        ByteLock::Unlocked => libc::F_UNLCK,
        ByteLock::Shared => libc::F_RDLCK,
        ByteLock::Exclusive => libc::F_WRLCK,
    };
    // The calls below require `l_pid` to be 0.
    libc::flock { l_type: kind as _, l_whence: libc::SEEK_SET as _, l_start: at as _, l_len: 1, l_pid: 0 }
}

/// Locks or unlocks a byte for the open file description of `file`. `false`: another description
/// holds a conflicting lock.
pub(crate) fn set(file: BorrowedFd<'_>, at: u64, lock: ByteLock, wait: bool) -> io::Result<bool> {
    let request = request(at, lock);
    loop {
        let command = if wait { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
        // SAFETY:
        // - in bounds: the command reads one `flock`, which `request` is;
        // - alive: `request` and the borrowed descriptor live through the call;
        // - no writer: the command does not write to the structure;
        // - valid: every field is initialised, and a wrong descriptor is an error.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const request) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN | libc::EACCES) => return Ok(false),
            _ => return Err(error),
        }
    }
}

/// Whether another description holds a lock that conflicts with this one.
pub(crate) fn is_taken(file: BorrowedFd<'_>, at: u64, lock: ByteLock) -> io::Result<bool> {
    let mut request = request(at, lock);
    // SAFETY:
    // - in bounds: the command reads and writes one `flock`, which `request` is;
    // - alive: `request` and the borrowed descriptor live through the call;
    // - no writer: `request` is a local variable, of which this call has the only pointer;
    // - valid: every field is initialised, the kernel writes a valid structure, and a wrong
    //   descriptor is an error.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut request) } {
        0 => Ok(request.l_type != libc::F_UNLCK as _),
        _ => Err(io::Error::last_os_error()),
    }
}

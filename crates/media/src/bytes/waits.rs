//! Threads and processes that wait for a word of a mapping, by futexes.

use crate::bytes::mapping::Mapping;
use crate::bytes::sizes::WORD;
use std::time::Duration;

impl Mapping {
    /// Waits until [`Mapping::wake`] is called for this word, in any process that maps the file.
    /// Returns at once if its lower half is not `expected`, at the latest after `most`, and
    /// spuriously.
    pub(crate) fn wait(&self, at: u64, expected: u32, most: Duration) {
        self.check(at, WORD);
        let most = libc::timespec { tv_sec: most.as_secs() as _, tv_nsec: most.subsec_nanos() as _ };
        // SAFETY:
        // - in bounds: the kernel reads the lower half of a mapped word (checked), and a time;
        // - alive: the mapping and the local time live through the call;
        // - no writer: the kernel reads the word atomically;
        // - valid: any bits are a u32, and the caller loads the word again on return.
        unsafe { libc::syscall(libc::SYS_futex, self.pointer(at), libc::FUTEX_WAIT, expected, &raw const most) };
    }

    /// Wakes one thread that waits for this word.
    pub(crate) fn wake(&self, at: u64) {
        self.check(at, WORD);
        // SAFETY: the address of a mapped word (checked), whose content the kernel does not read.
        unsafe { libc::syscall(libc::SYS_futex, self.pointer(at), libc::FUTEX_WAKE, 1) };
    }
}

//! A child of fork for tests: it runs one function when it is told to, and says whether that went
//! well.
//!
//! Threads: the child has the one that forked; it must need nothing that another thread may have
//! locked.

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::fs::File;
use std::io::{Read, Write};

/// A child of this process that waits.
pub struct Forked {
    pid: Pid,
    /// The child waits for a byte of it.
    word: File,
}

impl Forked {
    /// Forks. The child runs `body` once [`Forked::run`] is called, and ends.
    ///
    /// # Panics
    /// If there can be no child.
    pub fn new(body: impl FnOnce() -> bool) -> Forked {
        let (reads, writes) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        // SAFETY: the child has one thread, runs `body` alone, and leaves by `_exit`.
        match unsafe { libc::fork() } {
            0 => {
                drop(writes);
                let told = File::from(reads).read(&mut [0]).is_ok_and(|count| count == 1);
                let went_well = told && std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
                // SAFETY: it has no conditions.
                unsafe { libc::_exit(i32::from(!went_well)) }
            }
            pid => Forked { pid: Pid::from_raw(pid).expect("fork answers with a process id"), word: writes.into() },
        }
    }

    /// Has the child run, and waits until it ends. Returns what its function returned; a panic or a
    /// signal counts as `false`.
    ///
    /// # Panics
    /// If the child cannot be told or waited for.
    pub fn run(mut self) -> bool {
        self.word.write_all(&[1]).expect("the child waits");
        let ended = waitpid(Some(self.pid), WaitOptions::empty()).expect("a child of ours").expect("it ended");
        ended.1.exit_status() == Some(0)
    }
}

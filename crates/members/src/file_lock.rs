//! The advisory lock on a whole store file: one process, or several that only read, or several
//! members; and the process ids of the holders.
//!
//! Threads: any.

use crate::byte_lock::register_reader;
use crate::fork::PrivateDescriptor;
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

/// The other processes that may have the file open meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FileLockMode {
    /// None.
    Exclusive,
    /// Processes that only read.
    Readers,
    /// Members of the same shared store.
    Members,
}

/// Locks the whole file for this process, until the result is dropped or the process exits. For
/// backends whose private mapping a forked child may keep: the child's stores never reach the file.
/// `locks` is a description of the file that serves no other purpose. Without it the file is opened
/// once more, which the kernel refuses to a process that was only passed a descriptor.
///
/// # Errors
/// As [`lock_file`].
pub fn lock_file_apart(file: &File, locks: Option<File>, path: &Path) -> Result<PrivateDescriptor> {
    let own = locks.map_or_else(|| PrivateDescriptor::reopen(file), PrivateDescriptor::new);
    let own = own.map_err(|source| Error::Io { action: "lock", path: path.into(), source })?;
    lock_file(&own, path, FileLockMode::Exclusive)?;
    Ok(own)
}

/// Locks the whole file until its open file description is gone: every descriptor closed and every
/// mapping removed, those of forked children included.
///
/// # Errors
/// [`Error::InUse`], [`Error::Io`].
pub fn lock_file(file: impl AsFd, path: &Path, mode: FileLockMode) -> Result<()> {
    use rustix::fs::{FlockOperation, flock};
    let file = file.as_fd();
    let operation = match mode {
        FileLockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
        FileLockMode::Readers | FileLockMode::Members => FlockOperation::NonBlockingLockShared,
    };
    // A program that has the store open and starts another one holds the lock twice between fork
    // and exec, even after it has closed the store. The second holder disappears with exec, which
    // takes long on a slow machine; no other process than this one has taken the lock then.
    const WAIT: Duration = Duration::from_millis(10);
    const ATTEMPTS: usize = 20;
    const OWN_ATTEMPTS: usize = 100;
    let mut attempts = 0;
    loop {
        attempts += 1;
        match flock(file, operation) {
            Ok(()) => break,
            Err(rustix::io::Errno::WOULDBLOCK) if attempts < ATTEMPTS => {}
            Err(rustix::io::Errno::WOULDBLOCK) if attempts < OWN_ATTEMPTS && is_held_by_own(file) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(Error::InUse { path: path.into(), holder: holders(file) });
            }
            Err(errno) => return Err(Error::Io { action: "lock", path: path.into(), source: errno.into() }),
        }
        std::thread::sleep(WAIT);
    }
    // Members and readers take the same shared lock and exclude each other by byte locks: each side
    // first registers itself, then looks for the other side.
    if mode == FileLockMode::Readers {
        let quiet = register_reader(file).map_err(|source| Error::Io { action: "lock", path: path.into(), source })?;
        if !quiet {
            return Err(Error::InUse { path: path.into(), holder: holders(file) });
        }
    }
    Ok(())
}

/// The processes that hold a lock on the file, by the kernel's table of locks:
/// `another process (pid 12, 34)`, or `another process` if the table names none.
/// `this process (pid 12)` if there is no other.
pub fn holders(file: BorrowedFd<'_>) -> String {
    named(holder_ids(file), std::process::id())
}

/// Whether this process alone has taken the locks on the file.
fn is_held_by_own(file: BorrowedFd<'_>) -> bool {
    holder_ids(file) == BTreeSet::from([std::process::id()])
}

/// The ids of the processes that have taken a lock on the file. Empty: the table names none.
fn holder_ids(file: BorrowedFd<'_>) -> BTreeSet<u32> {
    let Ok(inode) = rustix::fs::fstat(file).map(|found| found.st_ino.to_string()) else { return BTreeSet::new() };
    let table = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    table.lines().filter_map(|line| holder(line, &inode)).collect()
}

/// The text of [`holders`] for the process ids found; `own` is the caller's.
fn named(mut pids: BTreeSet<u32>, own: u32) -> String {
    let is_own = pids.remove(&own);
    let others: Vec<String> = pids.iter().map(u32::to_string).collect();
    match (&others[..], is_own) {
        ([], true) => format!("this process (pid {own})"),
        ([], false) => "another process".into(),
        (others, _) => format!("another process (pid {})", others.join(", ")),
    }
}

/// The process id in a line of `/proc/locks`, if the line is a lock on this inode. The table names
/// no process for locks of descriptions.
fn holder(line: &str, inode: &str) -> Option<u32> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let place = fields.iter().find(|field| field.matches(':').count() == 2)?;
    (place.rsplit(':').next() == Some(inode)).then(|| fields.get(4)?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_another_process_unless_only_this_one_holds_the_store() {
        assert_eq!(named(BTreeSet::new(), 7), "another process");
        assert_eq!(named(BTreeSet::from([7]), 7), "this process (pid 7)");
        assert_eq!(named(BTreeSet::from([3, 7, 12]), 7), "another process (pid 3, 12)");
        assert_eq!(named(BTreeSet::from([3]), 7), "another process (pid 3)");
    }
}

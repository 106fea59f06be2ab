//! One process at a time, or several that only read: an advisory lock on the store file, and the
//! name of who holds it.

use crate::processes::fork::Own;
use crate::processes::members;
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Who else may have the file meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nobody.
    Alone,
    /// Others who only read.
    Readers,
    /// Others who share the store.
    Users,
}

/// Locks the whole file for this process alone; until what is returned is dropped, or this process
/// ends. For backends whose mapping a child of fork may keep, since nothing that it stores there
/// reaches the file. `locks` is a description of the file for this alone; without it the file is
/// opened once more, which the kernel refuses to a user that only got its descriptor.
pub(crate) fn lock_apart(file: &File, locks: Option<File>, path: &Path) -> Result<Own> {
    let own = locks.map_or_else(|| Own::of(file), Own::new);
    let own = own.map_err(|source| Error::Io { action: "lock", path: path.into(), source })?;
    lock(&own, path, Hold::Alone)?;
    Ok(own)
}

/// Locks the whole file until nothing has its open file description any more: no descriptor, no
/// mapping, no child's either.
pub(crate) fn lock(file: impl AsFd, path: &Path, hold: Hold) -> Result<()> {
    use rustix::fs::{FlockOperation, flock};
    let file = file.as_fd();
    let operation = match hold {
        Hold::Alone => FlockOperation::NonBlockingLockExclusive,
        Hold::Readers | Hold::Users => FlockOperation::NonBlockingLockShared,
    };
    // A program that has the store open and starts another holds the lock twice between fork and
    // exec, even after it has closed the store: such a moment passes by itself.
    const PATIENCE: usize = 20;
    let locked = (0..PATIENCE).map(|_| flock(file, operation)).find(|locked| {
        let taken = matches!(locked, Err(rustix::io::Errno::WOULDBLOCK));
        if taken {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        !taken
    });
    match locked.unwrap_or(Err(rustix::io::Errno::WOULDBLOCK)) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(Error::InUse { path: path.into(), holder: holders(file) }),
        Err(errno) => return Err(Error::Io { action: "lock", path: path.into(), source: errno.into() }),
    }
    // Users and readers hold the same lock, and must not meet: each says what it is, and then looks
    // for the other.
    if hold == Hold::Readers {
        let quiet = members::look(file).map_err(|source| Error::Io { action: "lock", path: path.into(), source })?;
        if !quiet {
            return Err(Error::InUse { path: path.into(), holder: holders(file) });
        }
    }
    Ok(())
}

/// The processes that hold a lock on this inode, by the kernel's table of locks:
/// `another process (pid 12, 34)`, or `another process` where the table does not tell.
/// `this process (pid 12)` if there is no other.
pub(crate) fn holders(file: BorrowedFd<'_>) -> String {
    let other = || "another process".to_string();
    let Ok(inode) = rustix::fs::fstat(file).map(|found| found.st_ino.to_string()) else { return other() };
    let table = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    named(table.lines().filter_map(|line| holder(line, &inode)).collect(), std::process::id())
}

/// [`holders`] for the ids that were found, of which `own` may be one.
fn named(mut pids: BTreeSet<u32>, own: u32) -> String {
    let is_own = pids.remove(&own);
    let others: Vec<String> = pids.iter().map(u32::to_string).collect();
    match (&others[..], is_own) {
        ([], true) => format!("this process (pid {own})"),
        ([], false) => "another process".into(),
        (others, _) => format!("another process (pid {})", others.join(", ")),
    }
}

/// The process that holds the lock of a line of that table, if it is one on this inode. Locks of
/// descriptions name none.
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

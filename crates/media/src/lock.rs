//! One process at a time, or several that only read: an advisory lock on the store file, and the name of who holds it.

use crate::{Error, Result};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Who else may have the file meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nobody.
    Alone,
    /// Others who only read.
    Readers,
}

/// Locks the whole file for this process until the descriptor is closed.
pub(crate) fn lock(file: &File, path: &Path, hold: Hold) -> Result<()> {
    use rustix::fs::{FlockOperation, flock};
    let operation = match hold {
        Hold::Alone => FlockOperation::NonBlockingLockExclusive,
        Hold::Readers => FlockOperation::NonBlockingLockShared,
    };
    // A program that has the store open and starts another holds the lock twice between fork and exec, even after it
    // has closed the store: such a moment passes by itself.
    const PATIENCE: usize = 20;
    let locked = (0..PATIENCE).map(|_| flock(file, operation)).find(|locked| {
        let taken = matches!(locked, Err(rustix::io::Errno::WOULDBLOCK));
        if taken {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        !taken
    });
    match locked.unwrap_or(Err(rustix::io::Errno::WOULDBLOCK)) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let holder = holder(file).map(|pid| format!(" (pid {pid})")).unwrap_or_default();
            Err(Error::InUse { path: path.into(), holder })
        }
        Err(errno) => Err(Error::Io { action: "lock", path: path.into(), source: errno.into() }),
    }
}

/// The process that holds a lock on this inode, by the kernel's table of locks.
fn holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    let table = std::fs::read_to_string("/proc/locks").ok()?;
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let place = fields.iter().find(|field| field.matches(':').count() == 2)?;
        (place.rsplit(':').next() == Some(&inode)).then(|| fields.get(4)?.parse().ok()).flatten()
    })
}

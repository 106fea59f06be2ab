//! The disk of one open store. After a failed write or sync, and in a forked child, it refuses
//! every operation that must not fail.
//!
//! Invariants
//!   FILE-4  After a write or sync that failed, or panicked, nothing is written any more.
//!
//! Threads: any. A thread that poisons the store then wakes the threads that wait for a record.

use super::disk::Disk;
use super::fork_mark::ForkMark;
use crate::counters::{Counter, Counters};
use crate::{Error, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

pub(crate) struct GuardedDisk {
    disk: Arc<dyn Disk>,
    counters: Arc<Counters>,
    path: PathBuf,
    /// The first failure.
    poison: OnceLock<String>,
    fork: ForkMark,
}

impl GuardedDisk {
    pub(crate) fn new(disk: Arc<dyn Disk>, counters: Arc<Counters>, path: &Path) -> Result<GuardedDisk> {
        let fork = ForkMark::new().map_err(|source| Error::Io { action: "map memory", path: path.into(), source })?;
        Ok(GuardedDisk { disk, counters, path: path.into(), poison: OnceLock::new(), fork })
    }

    /// The disk itself: for reads, for holes, and for allocations, whose failure leaves the store
    /// usable.
    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this process is a forked child of the process that opened the store.
    #[inline(always)]
    pub(crate) fn is_child(&self) -> bool {
        self.fork.is_child()
    }

    /// Refuses a forked child.
    #[inline]
    pub(crate) fn require_here(&self) -> Result<()> {
        if self.fork.is_child() { Err(Error::Forked { owner: self.fork.owner() }) } else { Ok(()) }
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poison.get().is_some()
    }

    /// Refuses after a failure, and in a forked child (FILE-4).
    pub(crate) fn check_alive(&self) -> Result<()> {
        self.require_here()?;
        if self.is_poisoned() { Err(self.poisoned()) } else { Ok(()) }
    }

    /// Runs a write or a sync. A failure poisons the store.
    pub(crate) fn attempt(&self, action: &str, io: impl FnOnce(&dyn Disk) -> io::Result<()>) -> Result<()> {
        io(&*self.disk).map_err(|source| {
            self.poison(format!("could not {action}: {source}"));
            self.poisoned()
        })
    }

    /// Poisons the store; the first cause stays.
    pub(crate) fn poison(&self, cause: String) {
        let _ = self.poison.set(cause);
    }

    fn poisoned(&self) -> Error {
        let cause = self.poison.get().cloned().unwrap_or_default();
        Error::Poisoned { path: self.path.clone(), cause }
    }

    pub(crate) fn count(&self, counter: Counter, by: u64) {
        self.counters.add(counter, by);
    }
}

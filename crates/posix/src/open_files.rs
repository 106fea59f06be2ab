//! [`OpenFiles`]: open files by numbers, for a caller that passes numbers on.
//!
//! Threads: any. The table is locked to find an open file, never while it is used.

use crate::open::OpenFile;
use crate::{Errno, Result};
use everbyte_fs::Ino;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Open files by numbers, which are never used again.
#[derive(Clone, Default)]
pub struct OpenFiles(Arc<OpenTable>);

#[derive(Default)]
struct OpenTable {
    files: RwLock<HashMap<u64, Arc<OpenFile>>>,
    last: AtomicU64,
}

impl OpenFiles {
    /// Keeps a file under a new number.
    pub fn keep(&self, file: OpenFile) -> u64 {
        let number = self.0.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.files.write().insert(number, Arc::new(file));
        number
    }

    /// The file of a number.
    ///
    /// # Errors
    /// [`Errno::EBADF`].
    pub fn get(&self, number: u64) -> Result<Arc<OpenFile>> {
        self.0.files.read().get(&number).cloned().ok_or_else(|| Errno::EBADF.into())
    }

    /// Closes a file, once the calls that use it have ended.
    pub fn close(&self, number: u64) {
        let closed = self.0.files.write().remove(&number);
        drop(closed); // which may free the file's pages, not while the table is locked
    }

    /// Closes all.
    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.0.files.write());
        drop(all);
    }

    /// The inodes that are open, each once.
    pub fn inodes(&self) -> Vec<Ino> {
        let mut inodes: Vec<Ino> = self.0.files.read().values().map(|file| file.ino()).collect();
        inodes.sort_unstable();
        inodes.dedup();
        inodes
    }
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFiles").field("inodes", &self.inodes()).finish()
    }
}

//! The volume of a mount, shared by the thread that ends the mount and by work beside it.
//!
//! Threads: any. Work beside the mount holds the lock for reading, so closing waits for it.

use crate::Result;
use everbyte_fs::Volume;
use everbyte_posix::Files;
use parking_lot::RwLock;
use std::sync::Arc;

/// The files of a mount until it has ended.
#[derive(Clone)]
pub(crate) struct SharedFiles(Arc<RwLock<Option<Files>>>);

impl SharedFiles {
    pub(crate) fn new(files: Files) -> SharedFiles {
        SharedFiles(Arc::new(RwLock::new(Some(files))))
    }

    /// Closes the volume, once.
    pub(crate) fn close(&self) -> Result<()> {
        let files = self.0.write().take();
        Ok(files.map_or(Ok(()), Files::close)?)
    }

    /// Calls `work` with the files; `None` if the mount has ended.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Files) -> T) -> Option<T> {
        self.0.read().as_ref().map(work)
    }

    pub(crate) fn sync(&self) -> Result<()> {
        Ok(self.0.read().as_ref().map_or(Ok(()), Files::sync)?)
    }
}

/// The volume of a mount, for work that changes no file: the kernel caches what files are (FU-2).
#[derive(Clone)]
pub struct MountedVolume(pub(crate) SharedFiles);

impl MountedVolume {
    /// Calls `work` with the volume; `None` if the mount has ended. The end of the mount waits for
    /// `work`, which keeps no clone of the volume.
    pub fn with<T>(&self, work: impl FnOnce(&Volume) -> T) -> Option<T> {
        self.0.with(|files| work(files.volume()))
    }
}

//! The volume of a mount, shared by the thread that ends the mount and by work beside it.
//!
//! Threads: any. Work beside the mount holds the lock for reading, so closing waits for it. The
//! kernel is told of changes outside of a pause of the requests: it may wait for an answer first.

use crate::Result;
use crate::attached::Attached;
use crate::workers::Workers;
use everbyte_fs::{Ino, Volume};
use everbyte_posix::Files;
use fuser::INodeNo;
use parking_lot::RwLock;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The files of a mount until it has ended.
#[derive(Clone)]
pub(crate) struct SharedFiles {
    files: Arc<RwLock<Option<Files>>>,
    workers: Workers,
}

impl SharedFiles {
    pub(crate) fn new(files: Files, workers: Workers) -> SharedFiles {
        SharedFiles { files: Arc::new(RwLock::new(Some(files))), workers }
    }

    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Closes the volume, once.
    pub(crate) fn close(&self) -> Result<()> {
        let files = self.files.write().take();
        Ok(files.map_or(Ok(()), Files::close)?)
    }

    /// Calls `work` with the files; `None` if the mount has ended.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Files) -> T) -> Option<T> {
        self.files.read().as_ref().map(work)
    }

    /// As [`SharedFiles::with`], for work that a pause holds back as it does requests.
    pub(crate) fn with_work<T>(&self, work: impl FnOnce(&Files) -> T) -> Option<T> {
        self.with(|files| {
            let _at_work = self.workers.work();
            work(files)
        })
    }

    /// Makes durable what has returned, also when damage has ended all calls.
    pub(crate) fn settle(&self) -> Result<()> {
        let settled = self.with(|files| if files.options().read_only { Ok(()) } else { files.settle() });
        Ok(settled.unwrap_or(Ok(()))?)
    }
}

/// A change of a mounted volume by other means than requests of the kernel.
#[derive(Clone, Copy, Debug)]
pub enum Changed<'n> {
    /// A name of a directory has come, has gone or leads to another file.
    Name(Ino, &'n [u8]),
    /// Attributes, access control lists or bytes of a file have changed.
    File(Ino),
}

/// The volume of a mount, for work beside the requests. The kernel caches what files are (FU-2):
/// work that changes files tells it by [`MountedVolume::changed`].
#[derive(Clone)]
pub struct MountedVolume(Attached);

impl MountedVolume {
    pub(crate) fn new(attached: &Attached) -> MountedVolume {
        MountedVolume(attached.clone())
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Whether the mount has not ended.
    pub fn is_mounted(&self) -> bool {
        self.0.files.with(|_| ()).is_some()
    }

    /// Whether the mount refuses changes.
    pub fn is_read_only(&self) -> bool {
        self.0.files.with(|files| files.options().read_only) == Some(true)
    }

    /// Calls `work` with the volume; `None` if the mount has ended. The end of the mount waits for
    /// `work`, which keeps no clone of the volume.
    pub fn with<T>(&self, work: impl FnOnce(&Volume) -> T) -> Option<T> {
        self.0.files.with(|files| work(files.volume()))
    }

    /// As [`MountedVolume::with`], while no request is answered and nothing is sealed: `work` sees
    /// a volume that no other thread changes. Programs that use the mount wait for its end, so
    /// `work` uses no file of the mount and does not call [`MountedVolume::changed`].
    pub fn paused<T>(&self, work: impl FnOnce(&Volume) -> T) -> Option<T> {
        self.0.files.with(|files| {
            let _pause = self.0.files.workers.pause();
            work(files.volume())
        })
    }

    /// Waits until the kernel has handed over all bytes of files that it keeps: those of mappings,
    /// and with `writeback` those of writes. Not in [`MountedVolume::paused`].
    ///
    /// # Errors
    /// Those of `syncfs`.
    pub fn hand_over(&self) -> std::io::Result<()> {
        self.0.hand_over_all()
    }

    /// Tells the kernel of a change that has been made: programs see it once this has returned.
    pub fn changed(&self, change: Changed<'_>) {
        // An error means that the mount has ended, and its caches with it.
        let _ = match change {
            Changed::Name(directory, name) => {
                let _ = self.0.notifier.inval_entry(INodeNo(directory.0), OsStr::from_bytes(name));
                // Its times, its links and its cached listing.
                self.0.notifier.inval_inode(INodeNo(directory.0), 0, 0)
            }
            Changed::File(ino) => self.0.notifier.inval_inode(INodeNo(ino.0), 0, 0),
        };
    }
}

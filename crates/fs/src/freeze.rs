//! [`Freeze`]: keeps all changes of a volume waiting while a snapshot is made.
//!
//! A call that changes the volume enters before it takes any lock, and stays until it returns.
//! With relaxed commit a call adopts what others have left unfenced as it enters (FS-40).

use crate::parts::{PARTS, PartedLock};
use crate::relaxed::Relaxed;
use everbyte_media::Media;
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};

/// The lock.
pub(crate) struct Freeze {
    lock: PartedLock<PARTS>,
    /// Set with relaxed commit.
    relaxed: Option<(Media, Relaxed)>,
}

impl Freeze {
    /// The lock of a volume; with `relaxed` it commits relaxed.
    pub(crate) fn new(media: &Media, relaxed: bool) -> Freeze {
        Freeze { lock: PartedLock::default(), relaxed: relaxed.then(|| (media.clone(), Relaxed::default())) }
    }

    /// Begins a call that changes the volume; it ends when the result is dropped. A thread may
    /// enter again while it is inside.
    #[inline]
    pub(crate) fn enter(&self) -> RwLockReadGuard<'_, ()> {
        let entered = self.lock.read();
        self.adopt();
        entered
    }

    /// Flushes what other threads have left unfenced, before this thread's next fence.
    #[inline]
    pub(crate) fn adopt(&self) {
        if let Some((media, relaxed)) = &self.relaxed {
            relaxed.adopt(media);
        }
    }

    /// The last fence of a file that has grown: the word at `size_at` is flushed.
    #[inline]
    pub(crate) fn fence_growth(&self, media: &Media, size_at: u64) {
        match &self.relaxed {
            Some((media, relaxed)) => relaxed.leave(media, size_at),
            None => media.fence(),
        }
    }

    /// Waits until all calls that change the volume have ended; none begins before the result is
    /// dropped.
    pub(crate) fn stop(&self) -> [RwLockWriteGuard<'_, ()>; PARTS] {
        let stopped = self.lock.write();
        self.adopt();
        stopped
    }
}

//! [`Freeze`]: keeps all changes of a volume waiting while a snapshot is made.
//!
//! A call that changes the volume enters before it takes any lock, and stays until it returns. A
//! thread enters at the part of the lock that is its own, so that threads do not write to one line.
//! With relaxed commit a call adopts what others have left unfenced as it enters (FS-40).

use crate::relaxed::Relaxed;
use everbyte_media::Media;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

const PARTS: usize = 16;

/// A part of the lock, in lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Part(RwLock<()>);

/// The lock.
pub(crate) struct Freeze {
    parts: [Part; PARTS],
    /// Set with relaxed commit.
    relaxed: Option<(Media, Relaxed)>,
}

thread_local! {
    /// The part of this thread.
    static HOME: Cell<usize> = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % PARTS)
    };
}

impl Freeze {
    /// The lock of a volume; with `relaxed` it commits relaxed.
    pub(crate) fn new(media: &Media, relaxed: bool) -> Freeze {
        Freeze { parts: Default::default(), relaxed: relaxed.then(|| (media.clone(), Relaxed::default())) }
    }

    /// Begins a call that changes the volume; it ends when the result is dropped. A thread may
    /// enter again while it is inside.
    #[inline]
    pub(crate) fn enter(&self) -> RwLockReadGuard<'_, ()> {
        let entered = self.parts[HOME.get()].0.read_recursive();
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
    pub(crate) fn stop(&self) -> Vec<RwLockWriteGuard<'_, ()>> {
        let stopped = self.parts.iter().map(|part| part.0.write()).collect();
        self.adopt();
        stopped
    }
}

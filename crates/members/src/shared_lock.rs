//! The lock of data that the members of a store share: one member at a time holds it, and one
//! thread of that member. A holder learns whether another member has changed the data since this
//! member last held the lock, and whether the previous holder died.
//!
//! The first holder after the store was opened learns that the data may be incomplete; it then
//! recovers the data.
//!
//! The lock is one line of volatile words, never flushed: a robust lock, the generation of the
//! words, and a count of changes. Words of an earlier generation are void; the member that opens or
//! attaches first initialises them.
//!
//! Invariants
//!   SHLOCK-1  A holder that changes data which other members cache raises the count of changes
//!             before it releases the lock.
//!   SHLOCK-2  A holder that was told [`Since::OwnerDied`] and did not catch up abandons the lock:
//!             the next holder is told the same.
//!
//! Threads: any; a thread that holds the lock takes it again at once.
//!
//! Design: docs/design/sharing.md

use crate::membership::Membership;
use crate::robust_lock::{Predecessor, RobustLock};
use crate::{Result, SharedWords};
use parking_lot::{ArcReentrantMutexGuard, RawMutex, RawThreadId, ReentrantMutex};
use std::cell::Cell;
use std::sync::Arc;

const LOCK: u64 = 0;
const GENERATION: u64 = 8;
const CHANGES: u64 = 16;

/// The events since this member last held the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// None: cached data is current.
    Unchanged,
    /// Other members have changed the data and released the lock.
    Changed,
    /// The previous holder died, or no member has held the lock since the store was opened.
    OwnerDied,
}

/// The lock whose words lie at an offset of shared memory.
pub struct SharedLock<W> {
    words: W,
    at: u64,
    lock: RobustLock<W>,
    local: Arc<ReentrantMutex<LocalState>>,
}

/// State of the thread that holds the lock, and of this member between two holds.
struct LocalState {
    /// Guards alive in the thread.
    depth: Cell<u32>,
    /// Events that the member has not caught up with.
    since: Cell<Since>,
    /// The count of changes that the member has caught up with.
    seen: Cell<u64>,
    changed: Cell<bool>,
}

/// The guard of a [`SharedLock`]; the outermost one of a thread releases the lock when it is
/// dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct Exclusive<W: SharedWords> {
    lock: Arc<SharedLock<W>>,
    local: ArcReentrantMutexGuard<RawMutex, RawThreadId, LocalState>,
    since: Since,
}

impl<W: SharedWords> SharedLock<W> {
    /// The lock whose words lie at `at`. The caller keeps other members from initialising or using
    /// the words meanwhile, unless they are of this generation.
    pub fn new(words: W, at: u64, generation: u64, member: Arc<Membership>) -> Arc<SharedLock<W>> {
        if words.load(at + GENERATION) != generation {
            words.store(at + LOCK, 0);
            words.store(at + CHANGES, 0);
            words.store(at + GENERATION, generation);
        }
        let local = LocalState {
            depth: Cell::new(0),
            since: Cell::new(Since::Unchanged),
            seen: Cell::new(u64::MAX),
            changed: false.into(),
        };
        let lock = RobustLock::new(words.clone(), at + LOCK, member);
        Arc::new(SharedLock { words, at, lock, local: Arc::new(ReentrantMutex::new(local)) })
    }

    /// The process that opened the store has recovered the data: the first holder need not.
    pub fn set_recovered(&self) {
        self.words.store(self.at + CHANGES, 1);
    }

    /// Waits for the lock. A thread that holds it is told again of the events that it has not
    /// caught up with.
    ///
    /// # Errors
    /// As [`RobustLock::acquire`].
    pub fn acquire(self: &Arc<SharedLock<W>>) -> Result<Exclusive<W>> {
        let local = ReentrantMutex::lock_arc(&self.local);
        if local.depth.get() == 0 {
            let since = match self.lock.acquire()? {
                Predecessor::Died => Since::OwnerDied,
                // No holder in this generation: the last member of an earlier one may have died.
                Predecessor::Released if self.words.load(self.at + CHANGES) == 0 => Since::OwnerDied,
                Predecessor::Released if self.words.load(self.at + CHANGES) == local.seen.get() => Since::Unchanged,
                Predecessor::Released => Since::Changed,
            };
            local.since.set(since);
            local.changed.set(false);
        }
        local.depth.set(local.depth.get() + 1);
        let since = local.since.get();
        Ok(Exclusive { lock: Arc::clone(self), local, since })
    }

    /// [`Exclusive::changed`] for the guard of this thread. `false`: the thread has none.
    pub fn changed_by_this_thread(&self) -> bool {
        let mine = self.local.is_owned_by_current_thread();
        if mine {
            self.local.lock().changed.set(true);
        }
        mine
    }
}

impl<W: SharedWords> Exclusive<W> {
    /// The events that the holder has to catch up with first.
    #[inline]
    pub fn since(&self) -> Since {
        self.since
    }

    /// This member's cached data is current again.
    pub fn caught_up(&self) {
        if self.local.since.replace(Since::Unchanged) == Since::OwnerDied {
            self.changed();
        }
        self.local.seen.set(self.lock.words.load(self.lock.at + CHANGES));
    }

    /// The holder changes data that other members cache (SHLOCK-1).
    #[inline]
    pub fn changed(&self) {
        self.local.changed.set(true);
    }
}

impl<W: SharedWords> Drop for Exclusive<W> {
    fn drop(&mut self) {
        let Exclusive { lock, local, .. } = self;
        local.depth.set(local.depth.get() - 1);
        if local.depth.get() > 0 {
            return;
        }
        if local.since.get() == Since::OwnerDied {
            lock.lock.abandon(); // SHLOCK-2
            return;
        }
        let changes = lock.words.load(lock.at + CHANGES) + 1;
        if local.changed.get() && (changes == 1 || !lock.words.seeded("turn-change-unsaid")) {
            lock.words.store(lock.at + CHANGES, changes);
            if local.since.get() == Since::Unchanged {
                local.seen.set(changes);
            }
        }
        lock.lock.release();
    }
}

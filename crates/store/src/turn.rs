//! Turns: one user of a shared store at a time, and one thread of it, goes through a turnstile;
//! inside, it knows whether anybody else has changed something since it was there last, and whether
//! the one before died inside.
//!
//! The first turn of an opening hears that everything may be half done; that is when an object is
//! recovered.
//!
//! A turnstile is one line of volatile words, never flushed: a robust lock, the opening that the
//! words are of, and a count of changes. Words of an earlier opening are nothing; they are made new
//! by who opens or attaches first.
//!
//! Invariants
//!   TURN-1  Who changes what others remember raises the count before the turn ends.
//!   TURN-2  A turn whose news were half done and were not caught up with ends as it began: the
//!           next hears the same.
//!
//! Threads: any; a thread that has the turn takes it again at once.

use crate::Result;
use everbyte_media::{Left, Media, RobustLock, User, seeded};
use parking_lot::{ArcReentrantMutexGuard, RawMutex, RawThreadId, ReentrantMutex};
use std::cell::Cell;
use std::sync::Arc;

const LOCK: u64 = 0;
const OPENING: u64 = 8;
const CHANGES: u64 = 16;

/// What has happened since this process had its last turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing: what it remembers is so.
    Nothing,
    /// Others have changed something, in good order.
    Changed,
    /// The one before died in its turn, or nobody had one since the store was opened.
    HalfDone,
}

pub(crate) struct Turnstile {
    media: Media,
    at: u64,
    lock: RobustLock,
    held: Arc<ReentrantMutex<Held>>,
}

/// What the thread that has the turn knows.
struct Held {
    /// How often it has taken it.
    depth: Cell<u32>,
    /// News not yet caught up with.
    news: Cell<News>,
    /// The count of changes that this process has caught up with.
    seen: Cell<u64>,
    changed: Cell<bool>,
}

/// A turn; the next one's when it is dropped.
#[must_use = "the turn ends when this is dropped"]
pub struct Turn {
    stile: Arc<Turnstile>,
    held: ArcReentrantMutexGuard<RawMutex, RawThreadId, Held>,
    news: News,
}

impl Turnstile {
    /// The turnstile whose words lie at `at`. Nobody else makes or uses them meanwhile, unless they
    /// are of this opening.
    pub(crate) fn new(media: Media, at: u64, opening: u64, user: Arc<User>) -> Arc<Turnstile> {
        if media.load(at + OPENING) != opening {
            media.store(at + LOCK, 0);
            media.store(at + CHANGES, 0);
            media.store(at + OPENING, opening);
        }
        let held = Held {
            depth: Cell::new(0),
            news: Cell::new(News::Nothing),
            seen: Cell::new(u64::MAX),
            changed: false.into(),
        };
        let lock = RobustLock::new(media.clone(), at + LOCK, user);
        Arc::new(Turnstile { media, at, lock, held: Arc::new(ReentrantMutex::new(held)) })
    }

    /// Nobody needs to put anything right: who opened the store has.
    pub(crate) fn in_order(&self) {
        self.media.store(self.at + CHANGES, 1);
    }

    /// Waits for the turn. A thread that has it is told what it has not yet caught up with.
    pub(crate) fn enter(self: &Arc<Turnstile>) -> Result<Turn> {
        let held = ReentrantMutex::lock_arc(&self.held);
        if held.depth.get() == 0 {
            let news = match self.lock.acquire()? {
                Left::HalfDone => News::HalfDone,
                // Nobody has had a turn in this opening: the last user of an earlier one may have
                // died.
                Left::InOrder if self.media.load(self.at + CHANGES) == 0 => News::HalfDone,
                Left::InOrder if self.media.load(self.at + CHANGES) == held.seen.get() => News::Nothing,
                Left::InOrder => News::Changed,
            };
            held.news.set(news);
            held.changed.set(false);
        }
        held.depth.set(held.depth.get() + 1);
        let news = held.news.get();
        Ok(Turn { stile: Arc::clone(self), held, news })
    }

    /// [`Turn::changed`] for the turn of this thread. `false`: it has none.
    pub(crate) fn changing(&self) -> bool {
        let mine = self.held.is_owned_by_current_thread();
        if mine {
            self.held.lock().changed.set(true);
        }
        mine
    }
}

impl Turn {
    /// What its owner has to catch up with first.
    #[inline]
    pub fn news(&self) -> News {
        self.news
    }

    /// What this process remembers is so again.
    pub fn caught_up(&self) {
        if self.held.news.replace(News::Nothing) == News::HalfDone {
            self.changed();
        }
        self.held.seen.set(self.stile.media.load(self.stile.at + CHANGES));
    }

    /// What others remember will not be so (TURN-1).
    #[inline]
    pub fn changed(&self) {
        self.held.changed.set(true);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Turn { stile, held, .. } = self;
        held.depth.set(held.depth.get() - 1);
        if held.depth.get() > 0 {
            return;
        }
        if held.news.get() == News::HalfDone {
            stile.lock.abandon(); // TURN-2
            return;
        }
        let changes = stile.media.load(stile.at + CHANGES) + 1;
        if held.changed.get() && (changes == 1 || !seeded("turn-change-unsaid")) {
            stile.media.store(stile.at + CHANGES, changes);
            if held.news.get() == News::Nothing {
                held.seen.set(changes);
            }
        }
        stile.lock.release();
    }
}

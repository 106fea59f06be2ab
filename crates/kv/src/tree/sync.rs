//! The atomics and locks of `pins` and `readers`, and the words that processes share. The programs
//! of `schedules` give the same code shuttle's.

pub(crate) use parking_lot::Mutex;
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU64, fence};

use everbyte_media::{Media, Offset};
use std::cell::Cell;
use std::time::Duration;

/// Pins that have a slot; further ones go to a list under a lock.
pub(crate) const SLOTS: usize = 128;

thread_local! {
    static HINT: Cell<usize> = const { Cell::new(0) };
}

/// The slot that this thread took last.
#[inline]
pub(crate) fn hint() -> usize {
    HINT.with(Cell::get)
}

/// Remembers a slot for [`hint`].
#[inline]
pub(crate) fn set_hint(slot: usize) {
    HINT.with(|hint| hint.set(slot));
}

/// Words of the store that processes share, by their offset from the first. A load acquires and a
/// store releases.
pub(crate) struct Words {
    media: Media,
    at: Offset,
}

impl Words {
    pub(crate) fn new(media: Media, at: Offset) -> Words {
        Words { media, at }
    }

    #[inline]
    pub(crate) fn load(&self, at: usize) -> u64 {
        self.media.load(self.at + at as u64)
    }

    #[inline]
    pub(crate) fn store(&self, at: usize, value: u64) {
        let _section = self.media.section();
        self.media.store(self.at + at as u64, value);
    }

    /// Whether the word was `current`, and is `new` now.
    pub(crate) fn exchange(&self, at: usize, current: u64, new: u64) -> bool {
        let _section = self.media.section();
        self.media.compare_exchange(self.at + at as u64, current, new).is_ok()
    }

    /// Bytes of the store.
    pub(crate) fn len(&self) -> u64 {
        self.media.len()
    }

    /// Whether this process has the words mapped: a forked child has not.
    pub(crate) fn are_here(&self) -> bool {
        self.media.require_here().is_ok()
    }
}

/// Attempts to read the page of readers before the reader gives up; the first [`SPINS`] of them at
/// once, then one each millisecond.
pub(crate) const ATTEMPTS: usize = 10_000;
/// Attempts before a reader asks whether the writer lives.
pub(crate) const SPINS: usize = 200;

/// Waits before another attempt.
pub(crate) fn pause(attempt: usize) {
    if attempt < SPINS { spin_loop() } else { std::thread::sleep(Duration::from_millis(1)) }
}

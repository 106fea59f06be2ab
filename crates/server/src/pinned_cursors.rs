//! Cursors of CURSOR: ranges of the keys as of one version, which clients read in parts.
//!
//! A cursor holds its version, so that the parts are of one moment, and with it the space of what
//! has been replaced since. So cursors are few, and one that no client has used for a minute is
//! closed. A cursor belongs to no connection: each client that may read all keys can go on.
//!
//! Threads: the event loop alone.

use everbyte_kv::Snapshot;
use std::collections::HashMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

/// Cursors at most.
pub(crate) const PINNED_MAX: usize = 1000;
/// The time after which an unused one is closed.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Numbers stay below 2^53, as some clients hold them in a double.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// The rest of a range as of one version.
pub(crate) struct PinnedCursor {
    /// The version.
    pub version: Snapshot,
    /// The database.
    pub database: u8,
    /// The start of the rest.
    pub from: Bound<Vec<u8>>,
    /// Its end.
    pub to: Bound<Vec<u8>>,
    /// From the last key to the first.
    pub backwards: bool,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct PinnedCursors {
    open: HashMap<u64, (PinnedCursor, Instant)>,
}

impl PinnedCursors {
    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.open.len()
    }

    /// Whether one more may be opened.
    pub(crate) fn has_room(&self) -> bool {
        self.open.len() < PINNED_MAX
    }

    /// Opens a cursor; its number, which follows from `random`.
    pub(crate) fn add(&mut self, cursor: PinnedCursor, random: u64, now: Instant) -> u64 {
        let mut number = (random & NUMBER_MAX).max(1);
        while self.open.contains_key(&number) {
            number = (number + 1 & NUMBER_MAX).max(1);
        }
        self.open.insert(number, (cursor, now));
        number
    }

    /// Takes a cursor out, to be used or closed.
    pub(crate) fn take(&mut self, number: u64) -> Option<PinnedCursor> {
        self.open.remove(&number).map(|(cursor, _)| cursor)
    }

    /// Puts one back under its number.
    pub(crate) fn restore(&mut self, number: u64, cursor: PinnedCursor, now: Instant) {
        self.open.insert(number, (cursor, now));
    }

    /// Closes those that were not used for long.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.open.retain(|_, (_, used)| now.saturating_duration_since(*used) < IDLE_MAX);
    }
}

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
const PINNED_MAX: usize = 1000;
/// Bytes of their bounds at most, but for one cursor.
const BOUNDS_SIZE_MAX: usize = 16 << 20;
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

impl PinnedCursor {
    /// Bytes of its bounds.
    pub(crate) fn size(&self) -> usize {
        let size = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(bytes) | Bound::Excluded(bytes) => bytes.len(),
            Bound::Unbounded => 0,
        };
        size(&self.from) + size(&self.to)
    }
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct PinnedCursors {
    open: HashMap<u64, (PinnedCursor, Instant)>,
    /// Bytes of their bounds.
    size: usize,
}

impl PinnedCursors {
    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.open.len()
    }

    /// Whether one more with bounds of `size` bytes may be open; the first one with any may.
    pub(crate) fn has_room(&self, size: usize) -> bool {
        self.open.len() < PINNED_MAX && (self.size == 0 || self.size + size <= BOUNDS_SIZE_MAX)
    }

    /// Bytes of their bounds.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Opens a cursor; its number, which follows from `random`.
    pub(crate) fn add(&mut self, cursor: PinnedCursor, random: u64, now: Instant) -> u64 {
        let mut number = (random & NUMBER_MAX).max(1);
        while self.open.contains_key(&number) {
            number = ((number + 1) & NUMBER_MAX).max(1);
        }
        self.restore(number, cursor, now);
        number
    }

    /// Takes a cursor out, to be used or closed.
    pub(crate) fn take(&mut self, number: u64) -> Option<PinnedCursor> {
        let (cursor, _) = self.open.remove(&number)?;
        self.size -= cursor.size();
        Some(cursor)
    }

    /// Puts one back under its number.
    pub(crate) fn restore(&mut self, number: u64, cursor: PinnedCursor, now: Instant) {
        self.size += cursor.size();
        self.open.insert(number, (cursor, now));
    }

    /// Closes those that were not used for long.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.open.retain(|_, (_, used)| now.saturating_duration_since(*used) < IDLE_MAX);
        self.size = self.open.values().map(|(cursor, _)| cursor.size()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_kv::Kv;
    use everbyte_store::{CreateOptions, Store};

    #[test]
    fn bounds_of_cursors_are_counted_while_they_are_open() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(&folder.path().join("store"), &CreateOptions::default()).unwrap();
        let version = Kv::open_or_create(&store, "kv").unwrap().snapshot();
        let cursor = |from: usize, to: usize| PinnedCursor {
            version: version.clone(),
            database: 0,
            from: Bound::Excluded(vec![0; from]),
            to: if to > 0 { Bound::Included(vec![0; to]) } else { Bound::Unbounded },
            backwards: false,
        };
        let (mut cursors, start) = (PinnedCursors::default(), Instant::now());
        // The first one is let in, whatever its size.
        assert!(cursors.has_room(2 * BOUNDS_SIZE_MAX));
        let first = cursors.add(cursor(BOUNDS_SIZE_MAX - 10, 5), 1, start);
        assert!(cursors.has_room(5) && !cursors.has_room(6));
        let taken = cursors.take(first).unwrap();
        assert_eq!((taken.size(), cursors.size), (BOUNDS_SIZE_MAX - 5, 0));
        cursors.restore(first, taken, start);
        let second = cursors.add(cursor(3, 0), 2, start + IDLE_MAX);
        assert_eq!(cursors.size, BOUNDS_SIZE_MAX - 2);
        cursors.tick(start + IDLE_MAX);
        assert_eq!((cursors.count(), cursors.size), (1, 3));
        assert!(cursors.take(second).is_some() && cursors.size == 0);
        for number in 0..PINNED_MAX as u64 {
            assert!(cursors.has_room(1));
            cursors.add(cursor(0, 0), number, start);
        }
        assert!(!cursors.has_room(0));
    }
}

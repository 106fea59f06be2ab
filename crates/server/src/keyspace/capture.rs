//! The changes of an iteration as they are made, for replicas that have everything before them:
//! such a replica is sent these, and the difference of two versions need not be looked for.
//!
//! Changes that are taken back are taken back here, too: at the commit of a batch its own changes
//! are left.

use super::reads::Place;
use super::replicated::place_of;
use crate::replication::Item;
use std::ops::Bound;

/// Bytes of the changes of one commit at most: those of a larger one are looked for.
const SIZE_MAX: usize = 1 << 20;

/// A commit and its changes; `None`: too many.
pub(crate) type Committed = (u64, Option<Vec<Item>>);

/// See the head of this file.
#[derive(Default)]
pub(super) struct Capture {
    on: bool,
    items: Vec<Item>,
    size: usize,
    /// Items and bytes at the savepoint of the transaction under way.
    savepoint: (usize, usize),
    commits: Vec<Committed>,
}

impl Capture {
    /// Captures from now on.
    pub(super) fn begin(&mut self) {
        self.on = true;
    }

    /// The byte of a place whose changes are captured.
    fn place(&self, place: Place) -> Option<u8> {
        if self.on { place_of(place) } else { None }
    }

    fn add(&mut self, item: impl FnOnce() -> Item, size: usize) {
        self.size += size;
        if self.size <= SIZE_MAX {
            self.items.push(item());
        }
    }

    /// A key has a value.
    pub(super) fn put(&mut self, place: Place, key: &[u8], value: &[u8]) {
        if let Some(place) = self.place(place) {
            self.add(|| Item::Put([&[place], key].concat(), value.to_vec()), key.len() + value.len() + 64);
        }
    }

    /// A key is gone.
    pub(super) fn remove(&mut self, place: Place, key: &[u8]) {
        if let Some(place) = self.place(place) {
            self.add(|| Item::Delete([&[place], key].concat()), key.len() + 64);
        }
    }

    /// The keys of a range are gone.
    pub(super) fn clear(&mut self, place: Place, (from, to): (Bound<&[u8]>, Bound<&[u8]>)) {
        let Some(place) = self.place(place) else { return };
        let at = |key: &[u8]| [&[place], key].concat();
        let behind = |key: &[u8]| [&[place], key, &[0]].concat();
        let clear = || {
            let from = match from {
                Bound::Included(key) => at(key),
                Bound::Excluded(key) => behind(key),
                Bound::Unbounded => vec![place],
            };
            let to = match to {
                Bound::Excluded(key) => at(key),
                Bound::Included(key) => behind(key),
                Bound::Unbounded => vec![place + 1],
            };
            Item::Clear(from, to)
        };
        self.add(clear, 256);
    }

    /// A transaction begins that may be taken back by itself.
    pub(super) fn set_savepoint(&mut self) {
        self.savepoint = (self.items.len(), self.size);
    }

    /// It was taken back.
    pub(super) fn roll_back(&mut self) {
        let (items, size) = self.savepoint;
        self.items.truncate(items);
        self.size = size;
    }

    /// The batch was taken back.
    pub(super) fn forget(&mut self) {
        (self.items, self.size) = (Vec::new(), 0);
    }

    /// The batch was committed.
    pub(super) fn committed(&mut self, version: u64) {
        if self.on {
            let is_small = self.size <= SIZE_MAX;
            self.commits.push((version, is_small.then(|| std::mem::take(&mut self.items))));
        }
        self.forget();
    }

    /// The commits of the iteration.
    pub(super) fn take_commits(&mut self) -> Vec<Committed> {
        std::mem::take(&mut self.commits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_back_is_not_captured() {
        let mut capture = Capture::default();
        capture.put(Place::Main, b"before", b"it begins");
        capture.begin();
        capture.put(Place::Keys, b"\0a", b"1");
        capture.put(Place::Local, b"own", b"facts");
        capture.set_savepoint();
        capture.remove(Place::Main, b"b");
        capture.roll_back();
        capture.clear(Place::Elements, (Bound::Included(b"x"), Bound::Unbounded));
        capture.committed(7);
        capture.put(Place::Main, b"lost", b"");
        capture.forget();
        capture.put(Place::Main, b"large", &[0; SIZE_MAX]);
        capture.committed(8);
        capture.remove(Place::State, b"s");
        capture.committed(9);
        let first = vec![Item::Put(b"\x01\0a".into(), b"1".into()), Item::Clear(b"\x02x".into(), b"\x03".into())];
        let last = vec![Item::Delete(b"\x04s".into())];
        assert_eq!(capture.take_commits(), [(7, Some(first)), (8, None), (9, Some(last))]);
    }
}

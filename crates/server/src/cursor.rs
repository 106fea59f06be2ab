//! Cursors of SCAN: numbers that identify a place in the key order.
//!
//! A place is a key, and a key does not fit into a number, so places are kept here, bounded in
//! count and bytes; the one used longest ago goes first. A number is a keyed hash of its place: the
//! same place has the same number, so a client that repeats a call, or a thousand clients that scan
//! in step, cost one entry. Numbers stay below 2^53, as some clients hold them in a double.
//!
//! Invariant CUR-1: a number is answered with the place it was given for, or not at all.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

const NUMBER_MAX: u64 = (1 << 53) - 1;

/// The places that clients may still ask for.
pub(crate) struct Cursors {
    places: HashMap<u64, CursorPlace>,
    /// Numbers in the order of their last use; an entry counts only with the place's current stamp.
    uses: VecDeque<(u64, u64)>,
    stamp: u64,
    size: usize,
    hasher: RandomState,
    count_max: usize,
    size_max: usize,
}

struct CursorPlace {
    key: Box<[u8]>,
    stamp: u64,
}

impl Cursors {
    /// Room for `count_max` places of `size_max` bytes together; the newest is kept whatever its
    /// size.
    pub(crate) fn new(count_max: usize, size_max: usize) -> Cursors {
        Cursors {
            places: HashMap::new(),
            uses: VecDeque::new(),
            stamp: 0,
            size: 0,
            hasher: RandomState::new(),
            count_max,
            size_max,
        }
    }

    /// The number for "behind `key`".
    pub(crate) fn keep(&mut self, key: &[u8]) -> u64 {
        let mut id = self.hasher.hash_one(key) & NUMBER_MAX;
        while id == 0 || self.places.get(&id).is_some_and(|place| &*place.key != key) {
            id = (id + 1) & NUMBER_MAX;
        }
        if !self.places.contains_key(&id) {
            self.size += key.len();
            self.places.insert(id, CursorPlace { key: key.into(), stamp: 0 });
        }
        self.touch(id);
        while self.places.len() > 1 && (self.places.len() > self.count_max || self.size > self.size_max) {
            self.drop_oldest();
        }
        id
    }

    /// The key a number stands for.
    pub(crate) fn find(&mut self, id: u64) -> Option<&[u8]> {
        if !self.places.contains_key(&id) {
            return None;
        }
        self.touch(id);
        Some(&self.places[&id].key)
    }

    /// How many places are kept.
    pub(crate) fn count(&self) -> usize {
        self.places.len()
    }

    fn touch(&mut self, id: u64) {
        self.stamp += 1;
        if let Some(place) = self.places.get_mut(&id) {
            place.stamp = self.stamp;
        }
        self.uses.push_back((id, self.stamp));
        if self.uses.len() > 2 * self.places.len() + 64 {
            let places = &self.places;
            self.uses.retain(|(id, stamp)| places.get(id).is_some_and(|place| place.stamp == *stamp));
        }
    }

    fn drop_oldest(&mut self) {
        while let Some((id, stamp)) = self.uses.pop_front() {
            if self.places.get(&id).is_some_and(|place| place.stamp == stamp) {
                if let Some(place) = self.places.remove(&id) {
                    self.size -= place.key.len();
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CUR-1
    #[test]
    fn a_place_keeps_its_number_while_it_is_used() {
        let mut cursors = Cursors::new(4, 1 << 20);
        let first = cursors.keep(b"first");
        assert!(first > 0 && first <= NUMBER_MAX);
        for other in 0..1000u32 {
            cursors.keep(&other.to_le_bytes());
            assert_eq!(cursors.keep(b"first"), first);
            assert_eq!(cursors.find(first), Some(&b"first"[..]));
            assert!(cursors.count() <= 4 && cursors.uses.len() < 200);
        }
        for other in 0..4u32 {
            cursors.keep(&other.to_le_bytes());
        }
        assert_eq!(cursors.find(first), None);
    }

    #[test]
    fn giant_places_do_not_add_up() {
        let mut cursors = Cursors::new(1000, 1 << 20);
        for fill in 0..20u8 {
            let id = cursors.keep(&vec![fill; 900_000]);
            assert_eq!(cursors.find(id).map(|key| key[0]), Some(fill));
            assert!(cursors.size <= 1 << 20);
        }
    }
}

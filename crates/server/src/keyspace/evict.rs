//! Keys that go to make room: samples of keys, and the removal of one.
//!
//! A sample is the next keys behind a hand that passes over all keys in their order, again and
//! again: a step costs a descent of the tree, however many keys there are.

use super::reads::Place;
use super::record::damaged;
use super::tables::{DATABASES, parse_deadline_key};
use super::{Keyspace, Touch, after_prefix, unstored_key};
use everbyte_kv::Result;
use std::ops::Bound;

/// The place up to which keys have been looked at.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    place: usize,
    after: Option<Vec<u8>>,
}

impl Keyspace<'_> {
    /// The next `count` keys behind the hand, with their databases: of all keys, or of those with a
    /// deadline. Fewer are all there are, some of them twice.
    pub(crate) fn sample(&mut self, hand: &mut Hand, volatile: bool, count: usize) -> Result<Vec<(u8, Vec<u8>)>> {
        let places: &[Place] = if volatile { &[Place::Deadlines] } else { &[Place::Main, Place::Keys] };
        let (mut found, mut ends) = (Vec::new(), 0);
        while found.len() < count && ends <= places.len() {
            let place = places[hand.place % places.len()];
            let from = hand.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let (mut stored, wanted) = (Vec::new(), count - found.len());
            let mut range = self.entries(place, from, Bound::Unbounded)?;
            while stored.len() < wanted
                && let Some(entry) = range.next_entry()?
            {
                stored.push(entry.key()?.to_vec());
            }
            if stored.len() < wanted {
                (hand.place, hand.after) = ((hand.place + 1) % places.len(), None);
                ends += 1;
            } else {
                hand.after = stored.last().cloned();
            }
            for stored in stored {
                let (space, key) = match place {
                    Place::Main => (0, &stored[..]),
                    Place::Deadlines => {
                        parse_deadline_key(&stored).map(|(space, _, key)| (space, key)).ok_or_else(damaged)?
                    }
                    _ => stored.split_first().map(|(space, key)| (*space, unstored_key(key))).ok_or_else(damaged)?,
                };
                found.push((self.remembered.spaces.database_of(space), key.to_vec()));
            }
        }
        Ok(found)
    }

    /// The key whose deadline comes first of all databases.
    pub(crate) fn first_deadline(&mut self) -> Result<Option<(u8, Vec<u8>)>> {
        let mut first: Option<(u64, u8, Vec<u8>)> = None;
        for database in 0..DATABASES as u8 {
            let space = self.remembered.spaces.of(database);
            let end = after_prefix(&[space]);
            let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut range = self.entries(Place::Deadlines, Bound::Included(&[space]), to)?;
            if let Some(entry) = range.next_entry()? {
                let (_, deadline, key) = parse_deadline_key(entry.key()?).ok_or_else(damaged)?;
                if first.as_ref().is_none_or(|(known, ..)| deadline < *known) {
                    first = Some((deadline, database, key.to_vec()));
                }
            }
        }
        Ok(first.map(|(_, database, key)| (database, key)))
    }

    /// Removes a key to make room; whether it was there.
    pub(crate) fn evict(&mut self, database: u8, key: &[u8]) -> Result<bool> {
        self.select(database);
        self.evicting = true;
        let result = self.take_away(key);
        self.evicting = false;
        if result? {
            self.evicted.add();
            if self.tracks {
                self.touched.push(Touch::Evicted(database, key.to_vec()));
            }
            return Ok(true);
        }
        Ok(false)
    }
}

//! Keys that clients keep copies of (CLIENT TRACKING), and the clients that are told of changes.
//!
//! In the default mode the table knows the clients that have read a key; a change tells them and
//! forgets them. In broadcast mode a client names prefixes, and is told of every change of a key
//! that begins with one. Names of keys count alone, not databases, as in Redis.
//!
//! Invariants
//!   TRACK-1  An invalidation leaves once the change that it tells of is settled (it is a parcel,
//!            PUSH-1), or taken back.
//!   TRACK-2  A client that has read a value of a key which is not the newest settled one has been
//!            told so, or a parcel that will tell it waits for a settlement. So a client that read
//!            the settled value while a change of it was pending is told as that lands.
//!   TRACK-3  The table holds at most `tracking_keys_max` keys and [`SIZE_MAX`] bytes: above it the
//!            readers of some key are told to forget it.
//!
//! Threads: the event loop alone.
//!
//! Design: docs/design/server-tracking.md

use crate::keyspace::Touch;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

/// Bytes of the table at most.
const SIZE_MAX: usize = 256 << 20;
/// Bytes that a key costs beside its name, and that a client costs there, about.
const EACH_KEY: usize = 96;
const EACH_READER: usize = 16;
/// Bytes that a prefix of a client costs beside its name, about.
pub(crate) const EACH_PREFIX: usize = 160;

/// A client that tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tracker {
    /// Its number.
    pub client: u64,
    /// Its slot.
    pub slot: usize,
}

/// The mode that a client asked for.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) struct TrackingMode {
    /// Told by prefix, not by what it has read.
    pub broadcast: bool,
    /// Only what it reads behind CLIENT CACHING YES counts.
    pub opt_in: bool,
    /// Keys that it reads behind CLIENT CACHING NO do not count.
    pub opt_out: bool,
    /// Not told of its own changes.
    pub no_loop: bool,
    /// CLIENT CACHING was given for the next command.
    pub caching: bool,
    /// The client that is told in its stead.
    pub redirect: Option<Tracker>,
    /// Whether that one has left.
    pub broken: bool,
    /// Prefixes, in broadcast mode.
    pub prefixes: BTreeSet<Vec<u8>>,
    /// Bytes of memory that they hold, here and in the table, about.
    pub prefixes_memory: usize,
}

/// A change that clients are to be told of.
pub(crate) struct Invalidation {
    /// The key; `None`: all.
    pub key: Option<Vec<u8>>,
    /// Clients that had read it.
    pub readers: Vec<Tracker>,
    /// Whether the key has changed, and has not only left the table.
    pub changed: bool,
    /// The client that changed it.
    pub author: Option<u64>,
    /// The client that has been told: the author, behind its reply.
    pub told: Option<u64>,
    /// Whether the change was pending: clients that have read the key since are told too (TRACK-2).
    pub late: bool,
}

/// Clients, and the changed keys that they are told of, with their authors.
type Broadcast<'t> = (&'t [Tracker], Vec<(&'t [u8], Option<u64>)>);

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Tracking {
    readers: BTreeMap<Vec<u8>, Vec<Tracker>>,
    /// Bytes of `readers`, about, and how many there are.
    size: usize,
    items: usize,
    /// Clients that track, in any mode.
    clients: HashMap<u64, usize>,
    /// Those in broadcast mode, by prefix.
    prefixes: BTreeMap<Vec<u8>, Vec<Tracker>>,
    /// The key that was forgotten last.
    forgotten: Vec<u8>,
}

impl Tracking {
    /// Whether any client tracks.
    pub(crate) fn is_on(&self) -> bool {
        !self.clients.is_empty()
    }

    /// Numbers of clients, keys, readers of these, and prefixes.
    pub(crate) fn figures(&self) -> [usize; 4] {
        [self.clients.len(), self.readers.len(), self.items, self.prefixes.len()]
    }

    /// A client tracks from now on.
    pub(crate) fn add(&mut self, tracker: Tracker, prefixes: &BTreeSet<Vec<u8>>) {
        self.clients.insert(tracker.client, tracker.slot);
        for prefix in prefixes {
            let list = self.prefixes.entry(prefix.clone()).or_default();
            if !list.contains(&tracker) {
                list.push(tracker);
            }
        }
    }

    /// A client tracks no more. The keys that it has read are forgotten as they change.
    pub(crate) fn forget(&mut self, client: u64) {
        if self.clients.remove(&client).is_some() {
            self.prefixes.retain(|_, list| {
                list.retain(|tracker| tracker.client != client);
                !list.is_empty()
            });
        }
        if self.clients.is_empty() {
            self.clear();
        }
    }

    fn clear(&mut self) {
        (self.readers, self.size, self.items) = (BTreeMap::new(), 0, 0);
    }

    /// A client has read a key. Returns what the table has to forget for it.
    pub(crate) fn read(&mut self, key: &[u8], tracker: Tracker, keys_max: usize) -> Vec<Invalidation> {
        match self.readers.get_mut(key) {
            Some(list) if list.contains(&tracker) => return Vec::new(),
            Some(list) => list.push(tracker),
            None => {
                self.readers.insert(key.to_vec(), vec![tracker]);
                self.size += EACH_KEY + key.len();
            }
        }
        self.size += EACH_READER;
        self.items += 1;
        let mut forgotten = Vec::new();
        while self.readers.len() > keys_max || self.size > SIZE_MAX {
            let after = (Bound::Excluded(&self.forgotten[..]), Bound::Unbounded);
            let next = self.readers.range::<[u8], _>(after).next().or_else(|| self.readers.first_key_value());
            let Some(key) = next.map(|(key, _)| key.clone()) else { break };
            let readers = self.take(&key);
            self.forgotten.clone_from(&key);
            forgotten.push(Invalidation {
                key: Some(key),
                readers,
                changed: false,
                author: None,
                told: None,
                late: false,
            });
        }
        forgotten
    }

    /// Takes the readers of a key out of the table.
    pub(crate) fn take(&mut self, key: &[u8]) -> Vec<Tracker> {
        let list = self.readers.remove(key).unwrap_or_default();
        if !list.is_empty() {
            self.size -= EACH_KEY + key.len() + list.len() * EACH_READER;
            self.items -= list.len();
        }
        list
    }

    /// A command of `author` has changed something.
    pub(crate) fn changed(&mut self, touch: &Touch, author: Option<u64>) -> Invalidation {
        let (key, readers) = match touch {
            Touch::Changed(_, key)
            | Touch::Swept(_, key)
            | Touch::Evicted(_, key)
            | Touch::Told(_, key)
            | Touch::Stream(_, key, _) => (Some(key.clone()), self.take(key)),
            Touch::Cleared(_) => {
                self.clear();
                (None, Vec::new())
            }
        };
        Invalidation { key, readers, changed: true, author, told: None, late: false }
    }

    /// All clients that track, for a change of all keys by `author`. The table is forgotten, but
    /// for what the author has read since.
    pub(crate) fn everyone(&mut self, author: Option<u64>) -> Vec<Tracker> {
        let old = std::mem::take(&mut self.readers);
        self.clear();
        for (key, list) in old {
            if let Some(own) = list.into_iter().find(|reader| Some(reader.client) == author) {
                self.read(&key, own, usize::MAX);
            }
        }
        let mut list: Vec<Tracker> =
            self.clients.iter().map(|(client, slot)| Tracker { client: *client, slot: *slot }).collect();
        list.sort_unstable_by_key(|tracker| tracker.client);
        list
    }

    /// The clients in broadcast mode by prefix, each prefix with the changed keys that begin with
    /// it and their authors.
    pub(crate) fn broadcasts<'t>(
        &'t self,
        keys: &'t BTreeMap<Vec<u8>, Option<u64>>,
    ) -> impl Iterator<Item = Broadcast<'t>> {
        self.prefixes.iter().map(move |(prefix, list)| {
            let from = keys.range::<[u8], _>((Bound::Included(&prefix[..]), Bound::Unbounded));
            let under = from.take_while(|(key, _)| key.starts_with(prefix));
            (&list[..], under.map(|(key, author)| (key.as_slice(), *author)).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Tracker = Tracker { client: 1, slot: 0 };
    const TWO: Tracker = Tracker { client: 2, slot: 1 };

    /// TRACK-3
    #[test]
    fn the_table_is_bounded_and_tells_what_it_forgets() {
        let mut tracking = Tracking::default();
        tracking.add(ONE, &BTreeSet::new());
        let mut told = Vec::new();
        for number in 0..1000u32 {
            let key = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
            told.extend(tracking.read(&key, ONE, 10));
            tracking.read(&key, ONE, 10);
            assert!(tracking.readers.len() <= 10);
        }
        assert_eq!(told.len(), 990);
        assert!(told.iter().all(|one| one.readers == [ONE]));
        let large = vec![b'k'; 100 << 20];
        for number in 0..10 {
            let told = tracking.read(&[&large[..], &[number]].concat(), ONE, 100);
            assert!(tracking.size <= SIZE_MAX && (number < 2 || !told.is_empty()));
        }
        tracking.forget(1);
        assert_eq!((tracking.size, tracking.figures()), (0, [0; 4]));
    }

    #[test]
    fn a_change_tells_each_reader_once() {
        let mut tracking = Tracking::default();
        tracking.add(ONE, &BTreeSet::new());
        tracking.add(TWO, &BTreeSet::from([b"a".to_vec(), b"b".to_vec()]));
        tracking.read(b"k", ONE, 10);
        tracking.read(b"k", TWO, 10);
        let touch = Touch::Changed(3, b"k".to_vec());
        assert_eq!(tracking.changed(&touch, Some(7)).readers, [ONE, TWO]);
        assert!(tracking.changed(&touch, Some(7)).readers.is_empty());
        assert_eq!((tracking.size, tracking.figures()), (0, [2, 0, 0, 2]));
        let keys = BTreeMap::from([(b"a1".to_vec(), None), (b"a2".to_vec(), Some(2)), (b"c".to_vec(), None)]);
        let list: Vec<_> = tracking.broadcasts(&keys).collect();
        assert_eq!(list, [(&[TWO][..], vec![(&b"a1"[..], None), (b"a2", Some(2))]), (&[TWO], vec![])]);
        tracking.read(b"k", ONE, 10);
        assert_eq!(tracking.changed(&Touch::Cleared(0), None).key, None);
        assert_eq!(tracking.figures(), [2, 0, 0, 2]);
        assert_eq!(tracking.everyone(None), [ONE, TWO]);
        tracking.read(b"k", ONE, 10);
        tracking.read(b"k", TWO, 10);
        tracking.everyone(Some(1));
        assert_eq!(tracking.take(b"k"), [ONE]);
    }
}

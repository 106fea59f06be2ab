//! Keys that clients watch (WATCH), and clients whose transactions their changes doom.
//!
//! Invariants
//!   WATCHED-1  A change of a watched key, by any client, by expiry or by FLUSHALL, dooms the
//!            transaction of each client that has watched it before.
//!   WATCHED-2  A client that watches reads the newest state, unsettled changes included, so no
//!            change before its WATCH is missed by the reads after it (`iteration.rs`).
//!
//! Threads: the event loop alone.

use crate::clients::Client;
use crate::keyspace::Touch;
use everbyte_media::seeded;
use std::collections::HashMap;

type Key = (u8, Vec<u8>);

/// Bytes of memory that a watched key costs beside its name, about.
const EACH: usize = 160;

/// One client's watch of a key, as the key was at its WATCH. It has not changed since, or the
/// client is doomed.
struct Watched {
    client: u64,
    /// Whether it was there.
    present: bool,
    /// The iteration of its WATCH.
    iteration: u64,
}

/// A client that watches.
#[derive(Default)]
struct Watcher {
    /// Each once; none once it is doomed.
    keys: Vec<Key>,
    /// The first of their deadlines in milliseconds since 1970.
    deadline: Option<u64>,
    doomed: bool,
}

/// See the head of this file. Clients are named by their ids.
#[derive(Default)]
pub(crate) struct Watches {
    watchers: HashMap<u64, Watcher>,
    /// The watches of each key, at most one of a client.
    by_key: HashMap<Key, Vec<Watched>>,
}

impl Watches {
    /// Whether no client watches anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    /// A client watches a key, whose deadline (0: none) is given if it is there.
    pub(crate) fn watch(&mut self, client: &mut Client, key: Key, deadline: Option<u64>, iteration: u64) {
        client.watches = true;
        let watcher = self.watchers.entry(client.id).or_default();
        // One key more changes nothing for a client that is doomed.
        let known = |list: &Vec<Watched>| list.iter().any(|watched| watched.client == client.id);
        if watcher.doomed || self.by_key.get(&key).is_some_and(known) {
            return;
        }
        client.watches_memory += EACH + 2 * key.1.len();
        let watched = Watched { client: client.id, present: deadline.is_some(), iteration };
        watcher.deadline = watcher.deadline.into_iter().chain(deadline.filter(|deadline| *deadline != 0)).min();
        watcher.keys.push(key.clone());
        self.by_key.entry(key).or_default().push(watched);
    }

    /// The keys of a database that clients watch.
    pub(crate) fn keys_of(&self, database: u8) -> Vec<Vec<u8>> {
        self.by_key.keys().filter(|key| key.0 == database).map(|key| key.1.clone()).collect()
    }

    /// A client watches nothing any more.
    pub(crate) fn forget(&mut self, client: u64) {
        if let Some(watcher) = self.watchers.remove(&client) {
            self.forget_keys(client, &watcher.keys);
        }
    }

    fn forget_keys(&mut self, client: u64, keys: &[Key]) {
        for key in keys {
            if let Some(list) = self.by_key.get_mut(key) {
                list.retain(|watched| watched.client != client);
                if list.is_empty() {
                    self.by_key.remove(key);
                }
            }
        }
    }

    /// Whether a key that the client watches has changed, or has expired by `now`.
    pub(crate) fn is_doomed(&self, client: u64, now: u64) -> bool {
        self.watchers
            .get(&client)
            .is_some_and(|watcher| watcher.doomed || watcher.deadline.is_some_and(|deadline| deadline < now))
    }

    /// A command of this iteration has changed something.
    pub(crate) fn touch(&mut self, touch: &Touch, iteration: u64) {
        if self.by_key.is_empty() {
            return;
        }
        let absent_too = matches!(touch, Touch::Changed(..) | Touch::Evicted(..));
        let fits = |watched: &&Watched| {
            (watched.present || absent_too)
                && !(seeded("server-watch-same-iteration") && watched.iteration == iteration)
        };
        let doomed: Vec<u64> = match touch {
            Touch::Changed(space, key) | Touch::Swept(space, key) | Touch::Evicted(space, key) => {
                let list = self.by_key.get(&(*space, key.clone()));
                list.into_iter().flatten().filter(fits).map(|watched| watched.client).collect()
            }
            Touch::Told(..) | Touch::Stream(..) => return,
            Touch::Cleared(space) => {
                let lists = self.by_key.iter().filter(|(key, _)| key.0 == *space).map(|(_, list)| list);
                lists.flatten().filter(fits).map(|watched| watched.client).collect()
            }
        };
        for client in doomed {
            // Its keys decide nothing any more.
            if let Some(watcher) = self.watchers.get_mut(&client) {
                watcher.doomed = true;
                let keys = std::mem::take(&mut watcher.keys);
                self.forget_keys(client, &keys);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::time::Instant;

    fn client(id: u64) -> Client {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        Client::new(id, address, address, 0, Instant::now())
    }

    fn key(number: usize) -> Key {
        (0, format!("k{number}").into_bytes())
    }

    /// WATCHED-1. A change looks at the watches of its own key alone, so the time for many keys of
    /// one client, all of which change, grows with their number.
    #[test]
    fn a_doomed_client_keeps_no_keys() {
        let (mut watches, mut one, mut other) = (Watches::default(), client(1), client(2));
        for number in 0..100_000 {
            watches.watch(&mut one, key(number), None, 0);
        }
        watches.watch(&mut one, key(7), None, 0);
        watches.watch(&mut other, key(7), Some(50), 0);
        assert_eq!((watches.by_key.len(), watches.by_key[&key(7)].len()), (100_000, 2));
        assert!(one.watches && one.watches_memory > 100_000 * EACH);
        assert!(!watches.is_doomed(1, 100) && watches.is_doomed(2, 100) && !watches.is_doomed(2, 50));
        // A key that was absent is not one that has expired, or was flushed.
        watches.touch(&Touch::Swept(0, key(3).1), 1);
        watches.touch(&Touch::Cleared(1), 1);
        for number in 10..100_000 {
            watches.touch(&Touch::Changed(0, key(number).1), 1);
        }
        assert!(watches.is_doomed(1, 0) && !watches.is_doomed(2, 0));
        assert_eq!(watches.by_key.len(), 1, "the other client's alone");
        let before = one.watches_memory;
        watches.watch(&mut one, key(3), None, 2);
        assert_eq!((watches.by_key.len(), one.watches_memory), (1, before));
        watches.touch(&Touch::Cleared(0), 1);
        assert!(watches.is_doomed(2, 0) && watches.by_key.is_empty());
        [1, 2].into_iter().for_each(|client| watches.forget(client));
        assert!(watches.is_empty());
    }
}

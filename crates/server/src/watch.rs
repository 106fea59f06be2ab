//! Keys that clients watch (WATCH), and clients whose transactions their changes doom.
//!
//! Invariants
//!   WATCHED-1  A change of a watched key, by any client, by expiry or by FLUSHALL, dooms the
//!            transaction of each client that has watched it before.
//!   WATCHED-2  A client that watches reads the newest state, unsettled changes included, so no
//!            change before its WATCH is missed by the reads after it (`iteration.rs`).
//!
//! Threads: the event loop alone.

use crate::keyspace::Touch;
use everbyte_media::seeded;
use std::collections::HashMap;

type Key = (u8, Vec<u8>);

/// A watched key of one client, as it was at its WATCH. It has not changed since, or the client is
/// doomed.
struct Watched {
    key: Key,
    /// Whether it was there.
    present: bool,
    /// Its deadline in milliseconds since 1970; 0: none.
    deadline: u64,
    /// The iteration of its WATCH.
    iteration: u64,
}

#[derive(Default)]
struct Watcher {
    keys: Vec<Watched>,
    doomed: bool,
}

/// See the head of this file. Clients are named by their ids.
#[derive(Default)]
pub(crate) struct Watches {
    watchers: HashMap<u64, Watcher>,
    /// The clients of each watched key.
    by_key: HashMap<Key, Vec<u64>>,
}

impl Watches {
    /// Whether no client watches anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    /// A client watches a key, whose deadline is given if it is there.
    pub(crate) fn watch(&mut self, client: u64, key: Key, deadline: Option<u64>, iteration: u64) {
        let clients = self.by_key.entry(key.clone()).or_default();
        if clients.contains(&client) {
            return;
        }
        clients.push(client);
        let (present, deadline) = (deadline.is_some(), deadline.unwrap_or(0));
        self.watchers.entry(client).or_default().keys.push(Watched { key, present, deadline, iteration });
    }

    /// The keys of a database that clients watch.
    pub(crate) fn keys_of(&self, database: u8) -> Vec<Vec<u8>> {
        self.by_key.keys().filter(|key| key.0 == database).map(|key| key.1.clone()).collect()
    }

    /// A client watches nothing any more.
    pub(crate) fn forget(&mut self, client: u64) {
        let Some(watcher) = self.watchers.remove(&client) else { return };
        for watched in watcher.keys {
            if let Some(clients) = self.by_key.get_mut(&watched.key) {
                clients.retain(|other| *other != client);
                if clients.is_empty() {
                    self.by_key.remove(&watched.key);
                }
            }
        }
    }

    /// Whether a key that the client watches has changed, or has expired by `now`.
    pub(crate) fn is_doomed(&self, client: u64, now: u64) -> bool {
        self.watchers.get(&client).is_some_and(|watcher| {
            let expired = |watched: &Watched| watched.deadline != 0 && watched.deadline < now;
            watcher.doomed || watcher.keys.iter().any(expired)
        })
    }

    /// A command of this iteration has changed something.
    pub(crate) fn touch(&mut self, touch: &Touch, iteration: u64) {
        let fits = |watched: &Watched| match touch {
            Touch::Changed(space, key) | Touch::Evicted(space, key) => watched.key.0 == *space && watched.key.1 == *key,
            Touch::Swept(space, key) => watched.present && watched.key.0 == *space && watched.key.1 == *key,
            Touch::Cleared(space) => watched.present && watched.key.0 == *space,
            Touch::Told(..) | Touch::Stream(..) => false,
        };
        let fits = |watched: &Watched| {
            fits(watched) && !(seeded("server-watch-same-iteration") && watched.iteration == iteration)
        };
        let key = match touch {
            Touch::Changed(space, key) | Touch::Swept(space, key) | Touch::Evicted(space, key) => (*space, key.clone()),
            Touch::Told(..) | Touch::Stream(..) => return,
            Touch::Cleared(_) => {
                for watcher in self.watchers.values_mut() {
                    watcher.doomed |= watcher.keys.iter().any(fits);
                }
                return;
            }
        };
        for client in self.by_key.get(&key).into_iter().flatten() {
            if let Some(watcher) = self.watchers.get_mut(client) {
                watcher.doomed |= watcher.keys.iter().any(fits);
            }
        }
    }
}

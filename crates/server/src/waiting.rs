//! Clients that wait for an element: BLPOP, BZPOPMIN, XREAD and their kin.
//!
//! A command that finds nothing under its keys puts its client here, with a function that tries
//! again for one key. Whenever a command, an EXEC as a whole, has changed a key for which clients
//! wait, `iteration/wake.rs` lets them try. The function decides what an element is, so all types
//! are treated alike. An XREADGROUP tries, too, when its key is gone or holds another type: it ends
//! then.
//!
//! Invariants
//!   WAIT-1  Clients that wait for one key try in the order in which they began, at the end of the
//!           command that changed the key, before any other command.
//!   WAIT-2  The element that a waiting client gets leaves once its removal is settled: the reply
//!           is a parcel of the iteration (PUSH-1). If the iteration is taken back, so is the
//!           removal, and the client reads an error.
//!   WAIT-3  Nothing is removed for a client that has left.
//!
//! Threads: the event loop alone.

use crate::clients::Client;
use crate::command::{Call, Fail};
use crate::outbox::Reader;
use crate::transaction::Transaction;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Tries once more, for the key given; whether it had something, and the reply is written. A key
/// that is absent or of another type has nothing.
pub(crate) type Attempt = fn(&mut Call<'_, '_>, &[u8]) -> Result<bool, Fail>;

/// A key and its database.
pub(crate) type Place = (u8, Vec<u8>);

/// A client that waits.
pub(crate) struct Waiter {
    /// The client, for its reply.
    pub reader: Reader,
    /// Its command, alone.
    pub command: Transaction,
    /// The keys that it waits for, each once.
    pub places: Vec<Place>,
    /// Milliseconds since 1970 at which it gives up.
    pub deadline: Option<u64>,
    /// See there.
    pub attempt: Attempt,
    /// Whether it tries also if the key is gone.
    pub tries_absent: bool,
    /// It waits for replicas, and for no key.
    pub replicas: Option<ReplicaWait>,
}

/// A client that waits until replicas have settled its writes, and its own server's disk has them.
pub(crate) struct ReplicaWait {
    /// So many replicas.
    pub count: usize,
    /// The version that they have to settle: that of the commit of its iteration; 0 before.
    version: AtomicU64,
    /// For WAITAOF: whether it waits for the disk.
    pub local: Option<bool>,
    /// The ticket of its sync; 0: not asked for yet.
    pub ticket: AtomicU64,
}

impl ReplicaWait {
    /// For so many replicas, from the iteration under way on.
    pub(crate) fn new(count: usize, local: Option<bool>) -> ReplicaWait {
        ReplicaWait { count, version: AtomicU64::new(0), local, ticket: AtomicU64::new(0) }
    }

    /// The version; once it is asked for it is `newest`.
    pub(crate) fn version_or(&self, newest: u64) -> u64 {
        let _ = self.version.compare_exchange(0, newest, Relaxed, Relaxed); // one thread
        self.version.load(Relaxed)
    }
}

/// See the head of this file. Clients are named by their ids.
#[derive(Default)]
pub(crate) struct Waiters {
    waiters: HashMap<u64, Arc<Waiter>>,
    by_place: HashMap<Place, VecDeque<u64>>,
    deadlines: BTreeSet<(u64, u64)>,
    /// How many try also if the key is gone.
    absent_count: usize,
    /// Those that wait for replicas.
    for_replicas: BTreeSet<u64>,
}

impl Waiters {
    /// Whether no client waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// How many clients wait.
    pub(crate) fn count(&self) -> usize {
        self.waiters.len()
    }

    /// A client waits from now on.
    pub(crate) fn add(&mut self, client: &mut Client, waiter: Waiter) {
        for place in &waiter.places {
            self.by_place.entry(place.clone()).or_default().push_back(client.id);
        }
        self.deadlines.extend(waiter.deadline.map(|deadline| (deadline, client.id)));
        self.absent_count += usize::from(waiter.tries_absent);
        self.for_replicas.extend(waiter.replicas.is_some().then_some(client.id));
        client.waiting = true;
        client.waiting_memory =
            waiter.command.memory() + waiter.places.iter().map(|place| 2 * place.1.len() + 160).sum::<usize>();
        assert!(self.waiters.insert(client.id, Arc::new(waiter)).is_none(), "a client waits once");
    }

    /// A client waits no more.
    pub(crate) fn remove(&mut self, client: u64) -> Option<Arc<Waiter>> {
        let waiter = self.waiters.remove(&client)?;
        for place in &waiter.places {
            if let Some(clients) = self.by_place.get_mut(place) {
                clients.retain(|other| *other != client);
                if clients.is_empty() {
                    self.by_place.remove(place);
                }
            }
        }
        if let Some(deadline) = waiter.deadline {
            self.deadlines.remove(&(deadline, client));
        }
        self.absent_count -= usize::from(waiter.tries_absent);
        self.for_replicas.remove(&client);
        Some(waiter)
    }

    /// The clients that wait for replicas.
    pub(crate) fn for_replicas(&self) -> Vec<u64> {
        self.for_replicas.iter().copied().collect()
    }

    /// Whether any client tries also if its key is gone.
    pub(crate) fn any_tries_absent(&self) -> bool {
        self.absent_count > 0
    }

    /// The keys of a database for which such clients wait, in order.
    pub(crate) fn tried_absent(&self, database: u8) -> Vec<Place> {
        if self.absent_count == 0 {
            return Vec::new();
        }
        let waiters = self.waiters.values().filter(|waiter| waiter.tries_absent);
        let places: BTreeSet<&Place> =
            waiters.flat_map(|waiter| &waiter.places).filter(|place| place.0 == database).collect();
        places.into_iter().cloned().collect()
    }

    /// All clients that wait.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.waiters.keys().copied().collect()
    }

    /// All keys that clients wait for.
    pub(crate) fn places(&self) -> Vec<Place> {
        self.by_place.keys().cloned().collect()
    }

    /// A client that waits.
    pub(crate) fn get(&self, client: u64) -> Option<Arc<Waiter>> {
        self.waiters.get(&client).map(Arc::clone)
    }

    /// The clients that wait for a key, in the order in which they began.
    pub(crate) fn of(&self, place: &Place) -> Option<&VecDeque<u64>> {
        self.by_place.get(place)
    }

    /// The keys of a database that clients wait for.
    pub(crate) fn keys_of(&self, database: u8) -> Vec<Vec<u8>> {
        self.by_place.keys().filter(|place| place.0 == database).map(|place| place.1.clone()).collect()
    }

    /// The clients that give up by `now`.
    pub(crate) fn due(&self, now: u64) -> Vec<u64> {
        self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, client)| *client).collect()
    }

    /// When the next client gives up.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}

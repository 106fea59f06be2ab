//! Channels and their subscribers: by name, by pattern, and by name in a shard.
//!
//! Subscriptions and messages are numbered as they come, so that a message reaches only the
//! clients that subscribed before it was published, also if it is delivered later (`outbox.rs`).
//!
//! Threads: the event loop alone.

use crate::clients::Client;
use crate::glob::{LetterCase, matches};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The names that a subscription is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subscription {
    /// A channel.
    Channel,
    /// All channels whose names match a pattern.
    Pattern,
    /// A channel of a shard: one server has one shard, with names of its own.
    Shard,
}

/// Kinds of subscriptions.
pub(crate) const SUBSCRIPTIONS: [Subscription; 3] = [Subscription::Channel, Subscription::Pattern, Subscription::Shard];

/// Bytes that a subscription costs beside its name, about: the name is kept twice.
const EACH: usize = 160;

/// A client that subscribes to a name.
pub(crate) struct Subscriber {
    /// Its number.
    pub client: u64,
    /// Its slot.
    pub slot: usize,
    /// Number of the subscription.
    since: u64,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Channels {
    /// Subscribers by name, in the order of their subscriptions; by kind.
    by_name: [BTreeMap<Vec<u8>, Vec<Subscriber>>; 3],
    /// Names by client and kind.
    by_client: HashMap<u64, [BTreeSet<Vec<u8>>; 3]>,
    /// Subscriptions and messages up to here.
    numbered: u64,
}

impl Channels {
    /// The number of a subscription or a message.
    pub(crate) fn number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    /// A client subscribes, if it has not yet.
    pub(crate) fn subscribe(&mut self, kind: Subscription, client: &mut Client, name: &[u8]) {
        let names = &mut self.by_client.entry(client.id).or_default()[kind as usize];
        if names.insert(name.to_vec()) {
            let since = self.number();
            let subscriber = Subscriber { client: client.id, slot: client.slot, since };
            self.by_name[kind as usize].entry(name.to_vec()).or_default().push(subscriber);
            client.subscriptions[kind as usize] += 1;
            client.subscriptions_memory += EACH + 2 * name.len();
            client.switching = true;
        }
    }

    /// A client subscribes no more, if it has.
    pub(crate) fn unsubscribe(&mut self, kind: Subscription, client: &mut Client, name: &[u8]) {
        let Some(names) = self.by_client.get_mut(&client.id) else { return };
        if names[kind as usize].remove(name) {
            self.remove(kind, client.id, name);
            client.subscriptions[kind as usize] -= 1;
            client.subscriptions_memory -= EACH + 2 * name.len();
            client.switching = true;
        }
    }

    fn remove(&mut self, kind: Subscription, client: u64, name: &[u8]) {
        let subscribers = self.by_name[kind as usize].get_mut(name).expect("a subscription has two ends");
        subscribers.retain(|subscriber| subscriber.client != client);
        if subscribers.is_empty() {
            self.by_name[kind as usize].remove(name);
        }
    }

    /// The names that a client subscribes to.
    pub(crate) fn names(&self, kind: Subscription, client: u64) -> Vec<Vec<u8>> {
        self.by_client.get(&client).map_or_else(Vec::new, |names| names[kind as usize].iter().cloned().collect())
    }

    /// The names that a client subscribes to, each with whether it is a pattern.
    pub(crate) fn names_of_all(&self, client: u64) -> Vec<(Vec<u8>, bool)> {
        let of = |kind| self.names(kind, client).into_iter().map(move |name| (name, kind == Subscription::Pattern));
        SUBSCRIPTIONS.into_iter().flat_map(of).collect()
    }

    /// A client has left, or starts again.
    pub(crate) fn forget(&mut self, client: u64) {
        let Some(names) = self.by_client.remove(&client) else { return };
        for (kind, names) in SUBSCRIPTIONS.into_iter().zip(names) {
            names.iter().for_each(|name| self.remove(kind, client, name));
        }
    }

    /// Names with subscribers.
    pub(crate) fn active(&self, kind: Subscription) -> impl Iterator<Item = &[u8]> {
        self.by_name[kind as usize].keys().map(Vec::as_slice)
    }

    /// How many names have subscribers.
    pub(crate) fn active_count(&self, kind: Subscription) -> usize {
        self.by_name[kind as usize].len()
    }

    /// How many clients subscribe to a name.
    pub(crate) fn subscribers_count(&self, kind: Subscription, name: &[u8]) -> usize {
        self.by_name[kind as usize].get(name).map_or(0, Vec::len)
    }

    /// The subscribers of message `number`, in groups: those of its channel, then those of each
    /// pattern that matches, with the pattern. A channel of a `shard` matches none.
    pub(crate) fn groups<'c>(
        &'c self,
        channel: &'c [u8],
        shard: bool,
        number: u64,
    ) -> impl Iterator<Item = (Option<&'c [u8]>, impl Iterator<Item = &'c Subscriber>)> {
        let own = if shard { Subscription::Shard } else { Subscription::Channel };
        let direct = self.by_name[own as usize].get(channel).map(|list| (None, list));
        let patterns = (!shard).then_some(&self.by_name[Subscription::Pattern as usize]).into_iter().flatten();
        let matching = patterns
            .filter(|(pattern, _)| matches(pattern, channel, LetterCase::Exact))
            .map(|(pattern, list)| (Some(pattern.as_slice()), list));
        direct
            .into_iter()
            .chain(matching)
            .map(move |(pattern, list)| (pattern, list.iter().filter(move |subscriber| subscriber.since < number)))
    }
}

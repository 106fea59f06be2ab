//! Clients are told that their copies of keys are stale (`tracking.rs`).

use super::deliver::push;
use super::{Iterations, Served};
use crate::clients::Client;
use crate::command::tell;
use crate::keyspace::Touch;
use crate::notify::Event;
use crate::outbox::Parcel;
use crate::resp::reply::{Protocol, Replies};
use crate::server_state::ServerState;
use crate::tracking::{Invalidation, Tracker};
use everbyte_media::seeded;
use std::collections::BTreeMap;

/// The channel by which clients of RESP2 are told.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Keys that are stale; `None`: all.
fn keys_of(list: Option<&[&[u8]]>, protocol: Protocol) -> Vec<u8> {
    let mut out = Replies::default();
    out.protocol = protocol;
    match list {
        None => out.null(),
        Some(keys) => {
            out.array(keys.len());
            keys.iter().for_each(|key| out.bulk(key));
        }
    }
    out.into_bytes()
}

/// A push of RESP3.
fn write_push(out: &mut Replies, keys: &[u8]) {
    out.push(2);
    out.bulk(b"invalidate");
    out.raw(keys);
}

impl ServerState {
    /// A command of `author`, or a part of its EXEC, has made changes. Tells of keys that have
    /// expired or were evicted, and makes a parcel for those that have copies; the author itself is
    /// told behind its reply, if it can be.
    pub(crate) fn note_changes(&mut self, touches: &[Touch], author: Option<&Client>) {
        for touch in touches {
            match touch {
                Touch::Swept(database, key) => tell(self, &Event::expired(*database, key)),
                Touch::Evicted(database, key) => tell(self, &Event::evicted(*database, key)),
                Touch::Changed(..) | Touch::Told(..) | Touch::Stream(..) | Touch::Cleared(_) => {}
            }
        }
        if !self.tracking.is_on() {
            return;
        }
        let mut all = false;
        for touch in touches.iter().filter(|touch| !matches!(touch, Touch::Told(..) | Touch::Stream(..))) {
            let cleared = matches!(touch, Touch::Cleared(_));
            if cleared && std::mem::replace(&mut all, true) {
                continue; // once for all databases
            }
            let mut change = self.tracking.changed(touch, author.map(|client| client.id));
            if let Some((client, mode)) = author.and_then(|client| Some((client, client.tracking.as_deref()?))) {
                let reads = change.readers.iter().any(|reader| reader.client == client.id) && !mode.broadcast;
                if mode.redirect.is_none() && (cleared || reads && !mode.no_loop) {
                    self.own_stale.push(change.key.clone());
                    change.told = Some(client.id);
                }
                if mode.no_loop {
                    change.readers.retain(|reader| reader.client != client.id);
                }
            }
            self.outbox.add(Parcel::Invalidation(change));
        }
    }
}

impl Iterations {
    /// Tells the client that is served what it has made stale itself.
    pub(super) fn tell_own(own: Vec<Option<Vec<u8>>>, out: &mut Replies) {
        for key in own {
            if out.protocol == Protocol::Resp3 {
                let keys = match &key {
                    None => keys_of(None, out.protocol),
                    Some(key) => keys_of(Some(&[&key[..]]), out.protocol),
                };
                write_push(out, &keys);
            }
        }
    }

    /// A change is settled, or taken back: tells its readers. The key goes to `broadcast`.
    pub(super) fn deliver_invalidation(
        &mut self,
        mut change: Invalidation,
        broadcast: &mut BTreeMap<Vec<u8>, Option<u64>>,
        served: &mut Vec<Served>,
    ) {
        let Some(key) = change.key else {
            for reader in self.shared.tracking.everyone(change.author) {
                if change.told != Some(reader.client) {
                    self.tell(reader, None, served);
                }
            }
            return;
        };
        if change.late && !seeded("server-track-stale") {
            let (own, others): (Vec<_>, Vec<_>) =
                (self.shared.tracking.take(&key).into_iter()).partition(|reader| Some(reader.client) == change.author);
            change.readers.extend(others);
            // The author has waited since, so what it has read behind its change is not older.
            for reader in own {
                self.shared.tracking.read(&key, reader, usize::MAX);
            }
        }
        for reader in change.readers {
            if change.told != Some(reader.client) && self.reads(reader) {
                self.tell(reader, Some(&[&key[..]]), served);
            }
        }
        if change.changed {
            // A change by another client is told to each of them.
            let known = broadcast.entry(key).or_insert(change.author);
            if *known != change.author {
                *known = None;
            }
        }
    }

    /// Whether a client still tracks what it reads.
    fn reads(&self, reader: Tracker) -> bool {
        let connection = self.clients.get(reader.slot).filter(|connection| connection.client.id == reader.client);
        connection.and_then(|connection| connection.client.tracking.as_ref()).is_some_and(|mode| !mode.broadcast)
    }

    /// Tells the clients in broadcast mode of all changes that have become due together.
    pub(super) fn broadcast(&mut self, changed: &BTreeMap<Vec<u8>, Option<u64>>, served: &mut Vec<Served>) {
        if changed.is_empty() {
            return;
        }
        let mut messages: Vec<(Tracker, Vec<Vec<u8>>)> = Vec::new();
        for (clients, keys) in self.shared.tracking.broadcasts(changed) {
            for tracker in clients.iter().filter(|_| !keys.is_empty()) {
                let Some(connection) = self.clients.get(tracker.slot) else { continue };
                let no_loop = connection.client.tracking.as_ref().is_some_and(|mode| mode.no_loop);
                let wanted = keys.iter().filter(|(_, author)| !(no_loop && *author == Some(tracker.client)));
                let list: Vec<Vec<u8>> = wanted.map(|(key, _)| key.to_vec()).collect();
                if !list.is_empty() {
                    messages.push((*tracker, list));
                }
            }
        }
        for (tracker, keys) in messages {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            self.tell(tracker, Some(&keys[..]), served);
        }
    }

    /// Tells a client, or the one that is told in its stead.
    fn tell(&mut self, tracker: Tracker, keys: Option<&[&[u8]]>, served: &mut Vec<Served>) {
        let Some(connection) = self.clients.get(tracker.slot).filter(|one| one.client.id == tracker.client) else {
            return;
        };
        let Some(mode) = connection.client.tracking.as_deref() else { return };
        let (protocol, redirect) = (connection.out.protocol, mode.redirect);
        let target = redirect.unwrap_or(tracker);
        let mut out = Replies::default();
        match self.clients.get(target.slot).filter(|one| one.client.id == target.client) {
            None => {
                if let Some(connection) = self.clients.get_mut(tracker.slot)
                    && let Some(mode) = connection.client.tracking.as_deref_mut()
                {
                    mode.broken = true;
                }
                if protocol == Protocol::Resp2 {
                    return;
                }
                out.protocol = protocol;
                out.push(2);
                out.bulk(b"tracking-redir-broken");
                out.integer(target.client as i64);
                return self.push_to(tracker.slot, out, served);
            }
            Some(connection) if connection.out.protocol == Protocol::Resp3 => {
                out.protocol = Protocol::Resp3;
                write_push(&mut out, &keys_of(keys, protocol));
            }
            Some(connection) if redirect.is_some() && connection.client.subscribes() => {
                out.push(3);
                out.bulk(b"message");
                out.bulk(CHANNEL);
                out.raw(&keys_of(keys, protocol));
            }
            Some(_) => return,
        }
        self.push_to(target.slot, out, served);
    }

    fn push_to(&mut self, slot: usize, out: Replies, served: &mut Vec<Served>) {
        let limit = self.shared.options.push_size_max;
        push(&mut self.clients, slot, &out.into_bytes(), limit, &mut self.shared.metrics, served);
    }
}

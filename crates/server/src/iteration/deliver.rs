//! The end of an iteration for clients that others have something for (`outbox.rs`).

use super::{Iterations, Served};
use crate::clients::{Clients, Closing};
use crate::connection::Connection;
use crate::metrics::Metrics;
use crate::outbox::{Answer, Message, Parcel, refused};
use crate::resp::reply::{Position, Protocol};
use everbyte_media::seeded;
use std::collections::BTreeMap;

impl Iterations {
    /// The iteration's parcels: those that wait for its settlement. The others leave with
    /// [`Iterations::deliver`].
    pub(super) fn pack(&mut self) -> Vec<Parcel> {
        let (mut waiting, mut ready) = self.shared.outbox.take();
        if seeded("server-push-early") {
            ready.append(&mut waiting);
        }
        self.outgoing.append(&mut ready);
        waiting
    }

    /// The iteration's commands are taken back, and with them their parcels (PUSH-3).
    pub(super) fn recall(&mut self, text: &[u8]) {
        if !seeded("server-push-of-lost") {
            let (waiting, ready) = self.shared.outbox.take();
            self.outgoing.extend(refused([ready, waiting].into_iter().flatten().collect(), text));
        }
    }

    /// Writes what has become due behind the replies of its clients, and lists the clients that
    /// have something to be sent. Those of `served` are parked no more.
    pub(super) fn deliver(&mut self, served: &mut Vec<Served>) {
        for served in served.iter_mut() {
            let Some(connection) = self.clients.get_mut(served.slot) else { continue };
            connection.parked = false;
            connection.listed = true;
            // The answer to a command that waits is counted as it comes.
            if connection.client.waiting {
                (served.commands, served.awaited) = (0, 0);
            }
            // They wait for the next sync, if what is sent now has waited for one (DISK-1).
            if !connection.covered {
                let held = std::mem::take(&mut connection.held);
                connection.out.raw(&held);
                connection.owed += std::mem::take(&mut connection.held_owed);
            }
        }
        let mut changed = BTreeMap::new();
        for parcel in std::mem::take(&mut self.outgoing) {
            match parcel {
                Parcel::Invalidation(change) => self.deliver_invalidation(change, &mut changed, served),
                Parcel::Message(message) => self.deliver_message(&message, served),
                Parcel::Answer(answer) => self.deliver_answer(&answer, served),
                Parcel::Line { number, line } => self.deliver_line(number, &line, served),
                Parcel::Applied(origin) => self.deliver_applied(Some(origin)),
                Parcel::Unapplied => self.deliver_applied(None),
            }
        }
        self.broadcast(&changed, served);
        self.feed_replicas(served);
        for slot in std::mem::take(&mut self.gone) {
            // A client that has left ends with this iteration, unless it is parked.
            if let Some(connection) = self.clients.get_mut(slot).filter(|one| !one.parked && !one.listed) {
                list(connection, slot, connection.out.position(), served);
            }
        }
    }

    fn deliver_answer(&mut self, answer: &Answer, served: &mut Vec<Served>) {
        let Some(connection) = self.clients.get_mut(answer.reader.slot) else { return };
        // One that was answered by an error already waits no more.
        if connection.client.id == answer.reader.client && std::mem::take(&mut connection.client.waiting) {
            let held = connection.input_memory();
            self.shared.input_memory = self.shared.input_memory - connection.counted + held;
            connection.counted = held;
            let due = usize::from(!answer.reader.silent && connection.client.closing == Closing::No);
            if connection.parked {
                connection.held_owed += due;
            } else {
                connection.owed += due;
            }
            push(&mut self.clients, answer.reader.slot, &answer.bytes, usize::MAX, &mut self.shared.metrics, served);
        }
    }

    fn deliver_line(&mut self, number: u64, line: &[u8], served: &mut Vec<Served>) {
        let limit = self.shared.options.push_size_max;
        for monitor in self.shared.monitors.iter().filter(|monitor| monitor.since < number) {
            if self.clients.get(monitor.slot).is_some_and(|one| one.client.id == monitor.client) {
                push(&mut self.clients, monitor.slot, line, limit, &mut self.shared.metrics, served);
            }
        }
    }

    fn deliver_message(&mut self, message: &Message, served: &mut Vec<Served>) {
        let limit = self.shared.options.push_size_max;
        for (pattern, subscribers) in self.shared.channels.groups(&message.channel, message.shard, message.number) {
            let mut forms: [Option<Vec<u8>>; 2] = [None, None];
            for subscriber in subscribers.filter(|subscriber| message.except != Some(subscriber.client)) {
                let protocol = match self.clients.get(subscriber.slot) {
                    Some(connection) if connection.client.id == subscriber.client => connection.out.protocol,
                    _ => continue,
                };
                let form = &mut forms[usize::from(protocol == Protocol::Resp3)];
                let bytes = form.get_or_insert_with(|| message.bytes(pattern, protocol));
                push(&mut self.clients, subscriber.slot, bytes, limit, &mut self.shared.metrics, served);
            }
        }
    }
}

/// Writes a push for one client; ends the client if it takes too few of them.
pub(super) fn push(
    clients: &mut Clients,
    slot: usize,
    bytes: &[u8],
    limit: usize,
    metrics: &mut Metrics,
    served: &mut Vec<Served>,
) {
    let Some(connection) = clients.get_mut(slot).filter(|connection| connection.client.closing == Closing::No) else {
        return;
    };
    let parked = connection.parked && !seeded("server-push-overtakes");
    // In front of the push, so that it can be taken back.
    let position = connection.out.position();
    match parked {
        true => connection.held.extend_from_slice(bytes),
        false => connection.out.raw(bytes),
    }
    if connection.out.pending() + connection.held.len() > limit {
        metrics.connections_over_limit += 1;
        connection.client.closing = Closing::Now;
        connection.held = Vec::new();
    }
    if !parked && !connection.listed {
        list(connection, slot, position, served);
    }
}

/// Lists a connection to be sent to, with the start of what has come for it.
fn list(connection: &mut Connection, slot: usize, position: Position, served: &mut Vec<Served>) {
    connection.listed = true;
    served.push(Served::none(slot, position));
}

//! The event loop's part of replication: feeds of replicas, patches of the primary.

use super::deliver::push;
use super::{CAREFUL_ITERATIONS, Iterations, LOST, Served};
use crate::clients::Closing;
use crate::command::store_text;
use crate::keyspace::{Keyspace, Verdict};
use crate::outbox::Answer;
use crate::outbox::Parcel;
use crate::replication::{Patch, ReplicaOrigin, Request};
use everbyte_media::seeded;
use std::time::Duration;

/// Bytes of patches applied in one iteration, and one patch.
const APPLIED_SIZE: usize = 4 << 20;
/// The reply to commands that wait as the server becomes a replica.
const UNBLOCKED: &[u8] =
    b"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

impl Iterations {
    /// Does what was asked for since the last iteration, while there is no batch. A thing that
    /// fails is tried again at the next tick, and the clients of a feed are disconnected.
    pub(super) fn replicate(&mut self) {
        let requests = std::mem::take(&mut self.shared.replication.requests);
        let begun = requests.iter().any(|request| !matches!(request, Request::Attach { .. }));
        let follows = requests.iter().any(|request| matches!(request, Request::Follow(..)));
        for request in requests {
            let keep = self.shared.options.replica_keep;
            let result = match &request {
                // REPL-6: one that could not become a primary does not answer, and is asked again.
                Request::Attach { client: (id, slot), hands_over: true, .. }
                    if self.shared.replication.is_replica() =>
                {
                    self.end(*slot, *id);
                    Ok(())
                }
                Request::Attach { client: (id, slot), host, port, origin, .. } => {
                    let is_here = self.clients.get(*slot).is_some_and(|connection| connection.client.id == *id);
                    let (host, origin) = (host.clone(), origin.clone());
                    match is_here {
                        true => self.shared.replication.attach((*id, *slot), host, *port, origin, keep),
                        false => Ok(()),
                    }
                }
                Request::Follow(address, takes_over) => {
                    let target = self.shared.target(address, *takes_over);
                    self.shared.replication.follow(target)
                }
                Request::Promote => match self.shared.replication.promote(keep) {
                    Ok(false) => {
                        // It is one as soon as the rest of a version has come.
                        self.shared.replication.again.push(request);
                        continue;
                    }
                    promoted => promoted.map(drop),
                },
            };
            if let Err(error) = result {
                eprintln!("everbyte: replication: {error}");
                match request {
                    Request::Attach { client: (id, slot), .. } => self.end(slot, id),
                    other => self.shared.replication.again.push(other),
                }
            }
        }
        if begun {
            // The keys are others from now on, or the server's own again.
            self.shared.remembered.forget_all();
        }
        if follows {
            self.disconnect_waiting();
        }
    }

    /// The server has become a replica: clients whose commands wait read an error and are
    /// disconnected, as by Redis.
    fn disconnect_waiting(&mut self) {
        for client in self.shared.waiters.all() {
            let Some(waiter) = self.shared.waiters.remove(client) else { continue };
            let slot = waiter.reader.slot;
            let Some(connection) = self.clients.get_mut(slot).filter(|one| one.client.id == client) else { continue };
            let answer = Answer::new(waiter.reader, |out| out.error(UNBLOCKED));
            match connection.parked {
                true => connection.held.extend_from_slice(&answer.bytes),
                false => connection.out.raw(&answer.bytes),
            }
            connection.client.waiting = false;
            connection.client.closing = Closing::AfterReplies;
            self.gone.push(slot);
        }
    }

    /// Applies what the primary has sent.
    pub(super) fn apply_patches(&mut self, keys: &mut Keyspace<'_>) {
        let mut size = 0;
        while size < APPLIED_SIZE {
            let replication = &mut self.shared.replication;
            let patch = replication.injected.pop_front();
            let patch = patch.or_else(|| replication.link.as_ref().and_then(|link| link.take()));
            let Some(patch) = patch else { return };
            size += patch.items.iter().map(|item| item.size()).sum::<usize>().max(64);
            if !self.apply_patch(&patch, keys) {
                return;
            }
        }
    }

    /// Applies one patch as a command of no client; whether it happened.
    pub(super) fn apply_patch(&mut self, patch: &Patch, keys: &mut Keyspace<'_>) -> bool {
        // REPL-4
        if self.shared.replication.origin != patch.from && !seeded("server-replica-stale-patch") {
            self.patch_lost("a patch was made from another version than the one that is here");
            return false;
        }
        keys.track(self.shared.follows_changes());
        keys.begin_command(true);
        let applied = keys.apply(patch);
        self.shared.note_changes(keys.new_changes(), None);
        let verdict = keys.end_command(applied.is_err());
        let mut places = self.touched(keys, None);
        if patch.from.is_between() {
            // Clients that wait were not let try while the keys were a mixture.
            places.extend(self.shared.waiters.places());
        }
        if matches!(verdict, Verdict::Lost) {
            // The patches before it in this iteration have gone with it.
            self.careful = CAREFUL_ITERATIONS;
            self.recall(LOST);
        }
        let lost = match (verdict, applied) {
            (Verdict::Kept, Ok(())) => None,
            (Verdict::Refused(error), _) | (_, Err(error)) => Some(store_text(&error)),
            (Verdict::Lost, Ok(())) => Some(LOST.to_vec()),
        };
        if let Some(text) = lost {
            self.shared.outbox.drop_command();
            self.shared.outbox.end_command(keys.unsettled());
            self.patch_lost(&String::from_utf8_lossy(&text));
            return false;
        }
        self.shared.replication.applied(&patch.origin);
        if seeded("server-replica-ack-early") {
            self.deliver_applied(Some(patch.origin.clone()));
        } else {
            self.shared.outbox.add(Parcel::Applied(patch.origin.clone()));
        }
        let is_lost = self.wake(places, keys).is_some();
        if is_lost {
            self.careful = CAREFUL_ITERATIONS;
            self.recall(LOST);
        }
        self.shared.outbox.end_command(keys.unsettled());
        !is_lost
    }

    /// A patch has not happened: the stream begins again from what is settled.
    pub(super) fn patch_lost(&mut self, why: &str) {
        self.shared.replication.reloads = true;
        if let Some(link) = &self.shared.replication.link {
            link.lost(why);
        }
    }

    /// Reads again where the keys come from, if a patch was lost; there is no batch.
    pub(super) fn reload_origin(&mut self) {
        // Everything that was committed is settled.
        if !self.pending.is_empty() || !std::mem::take(&mut self.shared.replication.reloads) {
            return;
        }
        match self.shared.replication.reload_settled() {
            Ok(()) => {
                if let Some(link) = &self.shared.replication.link {
                    link.begin_again(self.shared.replication.origin.clone());
                }
            }
            Err(error) => {
                self.shared.replication.reloads = true;
                eprintln!("everbyte: replication: {error}");
            }
        }
    }

    /// A patch is settled, or was taken back.
    pub(super) fn deliver_applied(&mut self, origin: Option<ReplicaOrigin>) {
        let Some(origin) = origin else {
            return self.patch_lost("a patch was taken back with its iteration");
        };
        if let Some(link) = &self.shared.replication.link {
            link.settled(origin.clone());
        }
        self.shared.replication.settled(origin);
    }

    /// Writes frames for the replicas, as many as their connections take.
    pub(super) fn feed_replicas(&mut self, served: &mut Vec<Served>) {
        let soft = self.shared.options.output_size_soft;
        for replica in &self.shared.replication.replicas {
            loop {
                let connection = self.clients.get(replica.slot).filter(|one| one.client.id == replica.client);
                let Some(connection) = connection else { break };
                if connection.out.pending() + connection.held.len() > soft {
                    break;
                }
                let Some(frame) = replica.feed.take() else {
                    if replica.feed.is_closed()
                        && let Some(connection) = self.clients.get_mut(replica.slot)
                    {
                        connection.client.closing = Closing::Now;
                        self.gone.push(replica.slot);
                    }
                    break;
                };
                push(&mut self.clients, replica.slot, &frame, usize::MAX, &mut self.shared.metrics, served);
            }
            replica.feed.poke();
        }
    }

    /// Whether the primary has sent something that is not applied.
    pub(crate) fn has_patch(&self) -> bool {
        self.shared.replication.link.as_ref().is_some_and(|link| link.has_patch())
    }

    /// Hands the primary's part over once a replica has everything (FAILOVER), or gives up in time.
    /// There is no batch.
    pub(super) fn fail_over(&mut self) {
        let Some(failover) = &self.shared.replication.failover else { return };
        let now = self.shared.clock();
        let late = failover.deadline.is_some_and(|deadline| now >= deadline);
        let next = match self.shared.replication.successor(late && failover.force) {
            Ok(next) => next,
            Err(error) => return eprintln!("everbyte: replication: {error}"),
        };
        if next.is_none() && !late {
            return;
        }
        self.shared.replication.failover = None;
        // A replica refuses what has waited.
        self.shared.pause_ended = true;
        if let Some(address) = next {
            self.shared.replication.ask_to_follow(address, true);
        }
    }

    /// Once a second, while there is no batch: what has failed is tried again, and versions of
    /// replicas that have been away for too long are released.
    pub(super) fn replication_tick(&mut self) {
        let again = std::mem::take(&mut self.shared.replication.again);
        self.shared.replication.requests.extend(again);
        let keep = self.shared.options.replica_keep;
        let replication = &mut self.shared.replication;
        if let Err(error) = replication.end_handover().and_then(|()| replication.prune(keep)) {
            eprintln!("everbyte: replication: {error}");
        }
    }

    /// How long the poll may wait because of replication.
    pub(super) fn replication_sleep(&self) -> Duration {
        if self.shared.replication.requests.is_empty() { Duration::MAX } else { Duration::ZERO }
    }
}

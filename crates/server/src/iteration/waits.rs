//! WAIT and WAITAOF: answered when enough replicas, or the disk, have what their clients wrote.

use super::Iterations;
use crate::outbox::{Answer, Parcel};
use crate::waiting::Waiter;
use everbyte_kv::raw::Raw as _;
use everbyte_media::Durability;
use std::sync::atomic::Ordering::Relaxed;

impl Iterations {
    /// Answers the clients for whose writes enough is done. The iteration has committed.
    pub(super) fn answer_waits(&mut self) {
        let committed = self.shared.replication.committed;
        for client in self.shared.waiters.for_replicas() {
            let Some(waiter) = self.shared.waiters.get(client) else { continue };
            let Some(wait) = &waiter.replicas else { continue };
            let replicas = self.shared.replication.settled_count(wait.version_or(committed));
            if wait.local.is_some() && wait.ticket.load(Relaxed) == 0 {
                wait.ticket.store(self.ask_sync(), Relaxed);
            }
            let local = match self.shared.is_on_disk(wait) {
                Ok(local) => local,
                Err(text) => {
                    self.shared.waiters.remove(client);
                    let answer = Answer::new(waiter.reader, |out| out.error(format!("ERR store: {text}").as_bytes()));
                    self.outgoing.push(Parcel::Answer(answer));
                    continue;
                }
            };
            if replicas >= wait.count && (local || wait.local != Some(true)) {
                self.shared.waiters.remove(client);
                self.outgoing.push(Parcel::Answer(self.shared.wait_answer(&waiter)));
            }
        }
    }

    /// Asks for a sync where the store's mode does not sync each write; its ticket, and
    /// [`u64::MAX`] where none is needed.
    pub(super) fn ask_sync(&mut self) -> u64 {
        let media = self.shared.kv.store().media();
        if media.fences_settle() || media.durability() == Durability::Always {
            return u64::MAX;
        }
        if self.shared.disk_sync.is_none() {
            let waker = self.shared.replication.waker.clone();
            match crate::disk_sync::DiskSync::start(media, waker) {
                Ok(thread) => self.shared.disk_sync = Some(thread),
                Err(error) => {
                    eprintln!("everbyte: no thread that syncs: {error}");
                    return 0; // the next iteration tries again
                }
            }
        }
        self.shared.disk_sync.as_mut().map_or(0, |thread| thread.ask())
    }
}

impl crate::server_state::ServerState {
    /// Whether the disk has what a client of WAITAOF wrote. An error is that of the store.
    fn is_on_disk(&self, wait: &crate::waiting::ReplicaWait) -> Result<bool, String> {
        // The newest version that readers see is settled.
        let settled = self.kv.snapshot().version().get() >= wait.version_or(self.replication.committed);
        match (wait.ticket.load(Relaxed), &self.disk_sync) {
            (u64::MAX, _) => Ok(settled),
            (0, _) | (_, None) => Ok(false),
            (ticket, Some(thread)) => Ok(settled && thread.is_synced(ticket)?),
        }
    }

    /// The answer to WAIT or WAITAOF as things stand.
    pub(crate) fn wait_answer(&self, waiter: &Waiter) -> Answer {
        Answer::new(waiter.reader, |out| {
            let Some(wait) = &waiter.replicas else { return out.null_array() };
            let replicas = self.replication.settled_count(wait.version_or(self.replication.committed)) as i64;
            if wait.local.is_some() {
                out.array(2);
                out.integer(i64::from(self.is_on_disk(wait).unwrap_or(false)));
            }
            out.integer(replicas);
        })
    }
}

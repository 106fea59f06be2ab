//! Connections in the mode `always` on a store whose own mode does not sync each write.
//!
//! All bytes for a connection pass one gate as they are sent: replies, refusals, answers to waits,
//! pushes. Those of a connection in `always` pass it when a sync covers the newest version of the
//! moment at which they came to it; so they tell of nothing that a power cut can take, whichever
//! connection wrote it. Other connections are sent theirs at once.
//!
//! Steps
//!   1. an iteration commits and settles in the store's own mode
//!   2. connections in `always` for which something waits are parked, and one sync is asked for all
//!      of them, unless the newest version is synced
//!   3. the thread of `disk_sync.rs` syncs and wakes the loop; the iteration that begins then sends
//!      what is covered. Pushes that came meanwhile wait for the next sync
//!
//! Invariants
//!   DISK-1  Nothing is sent to a connection in `always` before a sync covers all it may tell of.
//!           The mode counts as it was before and behind each command, whatever changes it before
//!           the replies leave.
//!   DISK-2  A parked connection is not served, so its replies keep their order.

use super::{Iterations, Served, TakenBack, take_back};
use crate::clients::Closing;
use crate::connection::Connection;
use everbyte_kv::raw::Raw as _;
use everbyte_media::{Durability, seeded};
use std::collections::VecDeque;
use std::time::Duration;

/// How often a stopping server looks whether the last sync has ended.
const DRAIN_STEP: Duration = Duration::from_micros(200);

/// See the head of this file.
#[derive(Default)]
pub(crate) struct DiskWaits {
    /// Connections, each with the version that has to be synced.
    parked: Vec<(u64, Served)>,
    /// Syncs that were asked for, oldest first: tickets and the versions that they cover.
    asked: VecDeque<(u64, u64)>,
    /// The newest version that is synced.
    synced: u64,
}

impl Iterations {
    /// Whether what a connection is sent has to wait for a sync.
    pub(super) fn waits_for_disk(&self, connection: &Connection) -> bool {
        let media = self.shared.kv.store().media();
        (connection.client.strict || self.shared.is_always(&connection.client))
            && connection.out.pending() > 0
            && !media.fences_settle()
            && media.durability() != Durability::Always
            && self.disk.synced < self.newest()
            && !seeded("server-always-early")
    }

    /// The newest version that a reader sees.
    fn newest(&self) -> u64 {
        self.shared.kv.stats().version.get()
    }

    /// Parks a connection with its replies (DISK-2).
    pub(super) fn park_for_disk(&mut self, connection: &mut Connection, served: Served) {
        connection.parked = true;
        if std::mem::take(&mut connection.queued) {
            self.queue.retain(|queued| *queued != served.slot);
        }
        let replies = served.replies + std::mem::take(&mut connection.owed);
        self.disk.parked.push((self.newest(), Served { waits: true, replies, ..served }));
    }

    /// The replies of an iteration were sent: asks for a sync if one is needed.
    pub(super) fn ask_for_disk(&mut self) {
        let Some(needed) = self.disk.parked.iter().map(|(version, _)| *version).max() else { return };
        if self.disk.asked.back().is_some_and(|(_, covered)| *covered >= needed) {
            return;
        }
        let newest = self.newest();
        match self.ask_sync() {
            0 => {} // no thread: the next iteration tries again
            ticket => self.disk.asked.push_back((ticket, newest)),
        }
    }

    /// Sends to the connections whose sync has ended.
    pub(super) fn land_disk(&mut self) {
        if self.disk.parked.is_empty() {
            return;
        }
        let mut failed = None;
        while let (Some((ticket, covered)), Some(thread)) = (self.disk.asked.front(), &self.shared.disk_sync) {
            match thread.is_synced(*ticket) {
                Ok(true) => self.disk.synced = self.disk.synced.max(*covered),
                Ok(false) => break,
                Err(text) => {
                    failed = Some(format!("ERR store: {text}"));
                    break;
                }
            }
            self.disk.asked.pop_front();
        }
        let synced = self.disk.synced;
        let due = self.disk.parked.extract_if(.., |(version, _)| failed.is_some() || *version <= synced);
        let due = Vec::from_iter(due);
        for (version, served) in &due {
            let Some(connection) = self.clients.get_mut(served.slot) else { continue };
            connection.covered = true;
            if let Some(text) = failed.as_ref().filter(|_| *version > synced) {
                take_back(connection, served, &mut self.shared.waiters, text.as_bytes(), TakenBack::Whole);
                // Its pushes are lost, so it must not take its copies for fresh ones.
                if connection.client.listens() {
                    connection.client.closing = Closing::AfterReplies;
                }
            }
        }
        if !due.is_empty() {
            let due = due.into_iter().map(|(_, served)| served).collect();
            let list = std::mem::replace(&mut self.served, due);
            self.reply();
            self.served = list;
        } else {
            self.ask_for_disk();
        }
    }

    /// Waits until no connection waits for the disk, for a server that stops.
    pub(super) fn drain_disk(&mut self) {
        while !self.disk.parked.is_empty() {
            self.land_disk();
            std::thread::sleep(DRAIN_STEP);
        }
    }
}

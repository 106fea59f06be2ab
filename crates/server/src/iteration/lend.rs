//! Connections that another loop serves for a while (`loops`): which, when, and their return.
//!
//! A connection is lent when it has sent nothing but plain reads for a while, has nothing else to
//! come from this loop, and the other loop has fewer busy connections than this one. No connection
//! is lent while plain reads have effects here: while clients are paused, or see all commands, or
//! keep copies of keys, while a policy of eviction follows uses, and on a replica.

use super::Iterations;
use crate::clients::{Client, Closing, ReplyMode};
use crate::command::{Command, answers_plainly, looks_around};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::loops::Loops;
use crate::stream::Stream;
use everbyte_kv::raw::Raw as _;
use everbyte_media::{Durability, seeded};
use std::time::Duration;

/// A connection that was silent for so long is not busy.
const SILENCE: Duration = Duration::from_secs(1);

/// Further loops, and the load of this one.
pub(super) struct Lending {
    loops: Loops,
    /// Connections here that were active lately.
    busy: usize,
}

impl Iterations {
    /// There are further loops from now on.
    pub(crate) fn lend_to(&mut self, loops: Loops) {
        self.lending = Some(Lending { loops, busy: 0 });
    }

    /// An error if connections were lost with another loop.
    pub(crate) fn intact(&self) -> Result<()> {
        let lost = self.lending.as_ref().is_some_and(|lending| lending.loops.is_lost());
        if lost { Err(Error::Loop) } else { Ok(()) }
    }

    /// Takes in connections that other loops have given back.
    pub(super) fn come_home(&mut self) {
        let Some(lending) = &mut self.lending else { return };
        let back = lending.loops.come_back(&mut self.shared);
        self.shared.stopping |= lending.loops.is_lost();
        back.into_iter().for_each(|connection| self.take_home(connection));
    }

    /// Takes back all connections and counters, and sends rules anew with the next ones (LOOP-3).
    pub(crate) fn call_home(&mut self) {
        let Some(lending) = &mut self.lending else { return };
        let back = lending.loops.recall(&mut self.shared);
        self.shared.stopping |= lending.loops.is_lost();
        back.into_iter().for_each(|connection| self.take_home(connection));
    }

    /// The same if reads have effects here now.
    pub(super) fn call_home_if_needed(&mut self) {
        if self.lending.as_ref().is_some_and(|lending| lending.loops.lent() > 0) && !self.may_lend() {
            self.call_home();
        }
    }

    /// The same before a command that looks at other connections, or may change rules for them.
    pub(super) fn call_home_before(&mut self, client: &Client, command: &Command) {
        if self.lending.is_some() && looks_around(client, command) && !seeded("server-loop-kept") {
            self.call_home();
        }
    }

    fn take_home(&mut self, mut connection: Box<Connection>) {
        let slot = connection.client.slot;
        (connection.queued, connection.client.reads) = (false, 0);
        let held = connection.input_memory();
        self.count_input(&mut connection, held);
        self.clients.restore(slot, connection);
        self.ready(slot, true);
    }

    /// Whether plain reads have no effect here but their replies.
    fn may_lend(&self) -> bool {
        let shared = &self.shared;
        !shared.stopping
            && !shared.is_paused()
            && !shared.replication.is_replica()
            && !shared.replication.is_mixed()
            && shared.monitors.is_empty()
            && !shared.tracking.is_on()
            && !shared.data_bound.notes_uses()
    }

    /// Whether nothing but replies to plain reads is to come for a connection (LOOP-1).
    fn is_plain(&self, connection: &Connection) -> bool {
        let (client, media) = (&connection.client, self.shared.kv.store().media());
        let synced = media.fences_settle() || media.durability() == Durability::Always;
        !connection.parked
            && !connection.queued
            && !connection.ended
            && !connection.unread
            && connection.out.is_empty()
            && connection.held.is_empty()
            && !matches!(connection.stream, Stream::Tls(_))
            && client.closing == Closing::No
            && client.reply_mode == ReplyMode::On
            && client.transaction.is_none()
            && !client.watches
            && !client.waiting
            && !client.postponed
            && !client.listens()
            && client.over_soft_limit.is_none()
            && !self.shared.lacks_password(client)
            && (synced || !client.strict && !self.shared.is_always(client) || seeded("server-loop-strict-lent"))
    }

    /// The loop that is to serve a connection; `None`: this one.
    pub(super) fn other_loop(&self, connection: &Connection) -> Option<usize> {
        let (lending, client) = (self.lending.as_ref()?, &connection.client);
        let first = self.shared.options.lend_after;
        if client.reads < client.lend_after(first) {
            return None;
        }
        let (index, lent) = lending.loops.least();
        let helps = lent + 2 <= lending.busy || first == 0;
        (helps && self.may_lend() && self.is_plain(connection)).then_some(index)
    }

    /// Lends a connection, which was taken out of its slot.
    pub(super) fn lend(&mut self, index: usize, mut connection: Box<Connection>) {
        self.count_input(&mut connection, 0);
        self.forget_busy(&mut connection);
        let Some(lending) = &mut self.lending else { return };
        match lending.loops.lend(index, connection, &self.shared) {
            Ok(()) => self.shared.metrics.lent += 1,
            Err(connection) => self.take_home(connection),
        }
    }

    /// A connection leaves this loop.
    pub(super) fn forget_busy(&mut self, connection: &mut Connection) {
        if let Some(lending) = self.lending.as_mut().filter(|_| std::mem::take(&mut connection.client.busy)) {
            lending.busy -= 1;
        }
    }

    /// Notes a request, with its row if it names a command.
    pub(super) fn note_request(&mut self, client: &mut Client, row: Option<usize>) {
        let Some(lending) = &mut self.lending else { return };
        lending.busy += usize::from(!std::mem::replace(&mut client.busy, true));
        client.reads = if row.is_some_and(answers_plainly) { client.reads.saturating_add(1) } else { 0 };
    }

    /// About once a second: connections that were silent are not busy.
    pub(super) fn count_busy(&mut self) {
        let Some(lending) = &mut self.lending else { return };
        for slot in self.clients.slots() {
            let Some(connection) = self.clients.get_mut(slot).filter(|one| one.client.busy) else { continue };
            if self.shared.now.saturating_duration_since(connection.client.active) > SILENCE {
                connection.client.busy = false;
                lending.busy -= 1;
            }
        }
    }
}

//! One turn: read what is there, execute it under one batch, settle once, then reply.
//!
//! Steps
//!   1. each queued connection is read once and its whole requests are executed, within the turn's bounds
//!   2. the batch is committed and settled
//!   3. the replies of the turn are sent; what a socket does not take waits for it
//!
//! A connection that still has something to do is queued again behind the others. When the store cannot settle, the turn's
//! replies are taken back, each of its commands is answered with an error instead, and the server stops.
//!
//! Invariants: TURN-1 (`keyspace.rs`), CONN-1, CONN-2 (`connection.rs`), OUT-2 (`reply.rs`).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::clients::{Clients, Closing, ReplyMode};
use crate::command::{Call, Fail, Table, store_text};
use crate::connection::{Connection, Pool, ReadEnd};
use crate::error::{Error, Result};
use crate::keyspace::{Keyspace, Verdict};
use crate::resp::reply::{Mark, Protocol};
use crate::shared::Shared;

/// Turns in which each command is committed by itself, after one has spoiled the others' batch.
const CAREFUL_TURNS: u32 = 256;
/// How long a stopping server tries to deliver what waits.
const FAREWELL: Duration = Duration::from_millis(500);

/// The state that turns work on.
pub struct Turns {
    /// The server's own state.
    pub shared: Shared,
    /// All connections.
    pub clients: Clients,
    queue: VecDeque<usize>,
    served: Vec<Served>,
    pool: Pool,
    ticked: Instant,
    /// Careful turns still to come (`keyspace.rs`).
    careful: u32,
}

/// A connection that was served in this turn.
struct Served {
    slot: usize,
    /// Where its replies of this turn begin.
    mark: Mark,
    /// Commands executed for it in this turn.
    commands: usize,
}

/// What clients read whose commands shared a batch with one that failed in its middle.
const LOST: &[u8] =
    b"ERR store: nothing was done, as a command that shared this batch failed for want of space; try again";

fn take_back(connection: &mut Connection, served: &Served, text: &[u8]) {
    connection.out.cut(served.mark);
    if connection.client.reply_mode != ReplyMode::Off {
        (0..served.commands).for_each(|_| connection.out.error(text));
    }
}

/// What is left of a turn's bounds.
struct Budget {
    commands: usize,
    size: usize,
}

impl Turns {
    /// At the start.
    pub fn new(shared: Shared) -> Turns {
        let ticked = shared.now;
        Turns {
            shared,
            clients: Clients::default(),
            queue: VecDeque::new(),
            served: Vec::new(),
            pool: Pool::default(),
            ticked,
            careful: 0,
        }
    }

    /// Whether no connection waits for a turn.
    pub fn idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// A new turn begins; `true` about once a second.
    pub fn begin(&mut self, now: Instant) -> bool {
        self.shared.now = now;
        let tick = now.saturating_duration_since(self.ticked) >= Duration::from_secs(1);
        if tick {
            self.ticked = now;
            self.shared.metrics.tick(now);
            self.drop_stalled();
        }
        tick
    }

    /// The poll says that a socket may be read (`readable`) or takes bytes again.
    pub fn ready(&mut self, slot: usize, readable: bool) {
        if let Some(connection) = self.clients.get_mut(slot) {
            connection.readable |= readable;
            if !connection.queued {
                connection.queued = true;
                self.queue.push_back(slot);
            }
        }
    }

    /// See the head of this file.
    pub fn turn(&mut self) -> Result<()> {
        let mut budget =
            Budget { commands: self.shared.options.turn_commands_max, size: self.shared.options.turn_size_max };
        let kv = self.shared.kv.clone();
        let mut keys = Keyspace::new(&kv, self.careful > 0);
        self.careful = self.careful.saturating_sub(1);
        for _ in 0..self.queue.len() {
            if budget.commands == 0 || budget.size == 0 || self.shared.stopping {
                break;
            }
            let Some(slot) = self.queue.pop_front() else { break };
            if let Some(mut connection) = self.clients.take(slot) {
                self.serve(slot, &mut connection, &mut keys, &mut budget);
                self.clients.restore(slot, connection);
            }
        }
        let commands = self.shared.options.turn_commands_max - budget.commands;
        if commands > 0 {
            self.shared.metrics.turns += 1;
            self.shared.metrics.turn_commands_max = self.shared.metrics.turn_commands_max.max(commands as u64);
        }
        let result = self.settle(keys);
        if let Err(error) = &result {
            self.take_back(&store_text(error));
        }
        self.reply();
        result.map_err(|source| Error::Store { source })
    }

    /// Commits and settles what the turn wrote; an error means that the store takes no more. The clock is read only when
    /// there is something to settle.
    fn settle(&mut self, mut keys: Keyspace<'_>) -> everbyte_kv::Result<()> {
        if !keys.changed() {
            return Ok(());
        }
        let start = Instant::now();
        if let Err(error) = keys.commit() {
            // Nothing happened. What careful commands committed before it is settled below all the same.
            self.take_back(&store_text(&error));
            self.careful = CAREFUL_TURNS;
        }
        keys.settle()?;
        let elapsed = start.elapsed();
        let metrics = &mut self.shared.metrics;
        metrics.settled += 1;
        metrics.settle_time += elapsed;
        metrics.settle_time_max = metrics.settle_time_max.max(elapsed);
        Ok(())
    }

    /// Reads a connection and executes what it asks.
    fn serve(&mut self, slot: usize, connection: &mut Connection, keys: &mut Keyspace<'_>, budget: &mut Budget) {
        connection.queued = false;
        let mut served = Served { slot, mark: connection.out.mark(), commands: 0 };
        let soft = self.shared.options.output_size_soft;
        if connection.out.pending() > soft {
            // Full: first see whether the socket takes something (CONN-1).
            self.shared.metrics.back_pressure += 1;
        } else {
            self.pool.lend(&mut connection.out);
            self.read(connection);
            self.execute(connection, &mut served, keys, budget);
            connection.client.input_size = connection.input_size();
            connection.settle_input(&mut self.pool);
        }
        self.served.push(served);
    }

    fn read(&mut self, connection: &mut Connection) {
        if !connection.readable || connection.ended || connection.client.closing != Closing::No {
            return;
        }
        match connection.read(&mut self.pool) {
            Ok(ReadEnd::Gone) | Err(_) => {
                connection.readable = false;
                connection.ended = true;
            }
            Ok(ReadEnd::More(count)) => self.received(connection, count),
            Ok(ReadEnd::Drained(count)) => {
                connection.readable = false;
                self.received(connection, count);
            }
        }
    }

    fn received(&mut self, connection: &mut Connection, count: usize) {
        self.shared.metrics.input_bytes += count as u64;
        connection.client.active = self.shared.now;
        connection.unread |= count > 0;
        if connection.input_size() > self.shared.options.input_size_max {
            self.shared.metrics.connections_over_limit += 1;
            connection.client.closing = Closing::Now;
        }
    }

    fn execute(
        &mut self,
        connection: &mut Connection,
        served: &mut Served,
        keys: &mut Keyspace<'_>,
        budget: &mut Budget,
    ) {
        while connection.unread
            && connection.client.closing == Closing::No
            && connection.out.pending() <= self.shared.options.output_size_soft
            && budget.commands > 0
            && budget.size > 0
            && !self.shared.stopping
        {
            match connection.next() {
                Ok(Some(used)) => {
                    let lost = self.command(connection, keys);
                    connection.advance(used);
                    if let Some(reason) = lost {
                        self.lost(connection, served, &reason);
                    } else {
                        served.commands += 1;
                    }
                    budget.commands -= 1;
                    budget.size = budget.size.saturating_sub(used);
                }
                Ok(None) => connection.unread = false,
                Err(malformed) => {
                    self.shared.metrics.connections_malformed += 1;
                    self.shared.metrics.errors += 1;
                    connection.out.error(&malformed.text());
                    connection.client.closing = Closing::AfterReplies;
                }
            }
        }
    }

    /// Executes one request and writes its reply. When what the turn wrote before it is lost by its failure, that is returned.
    fn command(&mut self, connection: &mut Connection, keys: &mut Keyspace<'_>) -> Option<Vec<u8>> {
        keys.begin_command();
        let (args, client, out) = connection.request();
        let mark = out.mark();
        if client.reply_mode == ReplyMode::SkipNext {
            client.reply_mode = ReplyMode::Skip;
        }
        let mut lost = false;
        let outcome = match Table::get().look_up(&args) {
            Err(fail) => Err(fail),
            Ok(index) => {
                let command = Table::get().rows[index];
                client.command = command.name;
                let counts = &mut self.shared.metrics.by_command[index];
                counts.calls += 1;
                self.shared.metrics.commands += 1;
                let mut call = Call { args, out, client, others: &self.clients, keys, shared: &mut self.shared };
                let mut outcome = (command.handler)(&mut call);
                match keys.end_command(outcome.is_err()) {
                    Verdict::Kept => {}
                    Verdict::Refused(error) => outcome = Err(Fail::Store(error)),
                    Verdict::Lost => lost = true,
                }
                if outcome.is_err() {
                    self.shared.metrics.by_command[index].failed += 1;
                }
                outcome
            }
        };
        let mut reason = None;
        if let Err(fail) = outcome {
            self.shared.metrics.errors += 1;
            out.cut(mark);
            out.error(&fail.reply());
            reason = lost.then(|| fail.reply().into_owned());
        }
        assert!(!lost || reason.is_some(), "TURN-2");
        client.resp = if out.protocol == Protocol::Resp3 { 3 } else { 2 };
        match client.reply_mode {
            ReplyMode::On | ReplyMode::SkipNext => {}
            ReplyMode::Off => out.cut(mark),
            ReplyMode::Skip => {
                out.cut(mark);
                client.reply_mode = ReplyMode::On;
            }
        }
        reason
    }

    /// A command has spoiled the turn's batch: everything executed before it in this turn is answered with an error, as it
    /// may have written, or read what was written. Then the turn goes on, carefully from the next one on.
    fn lost(&mut self, connection: &mut Connection, served: &mut Served, reason: &[u8]) {
        self.careful = CAREFUL_TURNS;
        self.take_back(LOST);
        for earlier in &mut self.served {
            if let Some(connection) = self.clients.get_mut(earlier.slot) {
                earlier.mark = connection.out.mark();
                earlier.commands = 0;
            }
        }
        take_back(connection, served, LOST);
        if connection.client.reply_mode != ReplyMode::Off {
            connection.out.error(reason);
        }
        served.mark = connection.out.mark();
        served.commands = 0;
    }

    /// Nobody hears what the turn did, everybody hears that it failed.
    fn take_back(&mut self, text: &[u8]) {
        for served in &self.served {
            if let Some(connection) = self.clients.get_mut(served.slot) {
                take_back(connection, served, text);
            }
        }
    }

    /// Sends the replies of the turn, ends connections, queues those with more to do.
    fn reply(&mut self) {
        let mut served = std::mem::take(&mut self.served);
        for served in served.drain(..) {
            let Some(mut connection) = self.clients.take(served.slot) else { continue };
            if self.send(&mut connection) {
                if !connection.queued && self.wants_turn(&connection) {
                    connection.queued = true;
                    self.queue.push_back(served.slot);
                }
                self.clients.restore(served.slot, connection);
            } else {
                self.pool.reclaim(&mut connection.out);
                self.clients.remove(served.slot);
            }
        }
        self.served = served;
        self.shared.clients = self.clients.count();
    }

    /// Sends what the socket takes; `false` when the connection is over.
    fn send(&mut self, connection: &mut Connection) -> bool {
        if connection.client.closing == Closing::Now {
            return false;
        }
        let before = connection.out.pending();
        if before > 0 {
            if before > self.shared.options.output_size_max.saturating_mul(2) {
                self.shared.metrics.connections_over_limit += 1;
                return false;
            }
            if connection.out.send(&mut connection.stream).is_err() {
                return false;
            }
            let sent = before - connection.out.pending();
            self.shared.metrics.output_bytes += sent as u64;
            if sent > 0 {
                connection.progress = self.shared.now;
            }
        } else {
            connection.progress = self.shared.now;
        }
        if connection.out.is_empty() {
            self.pool.reclaim(&mut connection.out);
            let finished = connection.ended && !connection.unread;
            return connection.client.closing == Closing::No && !finished;
        }
        true
    }

    fn wants_turn(&self, connection: &Connection) -> bool {
        connection.client.closing == Closing::No
            && connection.out.pending() <= self.shared.options.output_size_soft
            && (connection.unread || connection.readable && !connection.ended)
    }

    /// Ends clients that take nothing of what waits for them.
    fn drop_stalled(&mut self) {
        let (now, stall) = (self.shared.now, self.shared.options.output_stall);
        for slot in self.clients.slots() {
            let Some(connection) = self.clients.get_mut(slot) else { continue };
            let full = connection.out.pending() > self.shared.options.output_size_soft;
            if full && now.saturating_duration_since(connection.progress) > stall {
                self.shared.metrics.connections_over_limit += 1;
                connection.client.closing = Closing::Now;
                self.ready(slot, false);
            }
        }
    }

    /// A stopping server delivers what is settled, for a moment.
    pub fn farewell(&mut self) {
        let end = Instant::now() + FAREWELL;
        let mut slots = self.clients.slots();
        while !slots.is_empty() && Instant::now() < end {
            slots.retain(|slot| match self.clients.get_mut(*slot) {
                Some(connection) => matches!(connection.out.send(&mut connection.stream), Ok(false)),
                None => false,
            });
            if !slots.is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

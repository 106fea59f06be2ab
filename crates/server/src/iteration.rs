//! One iteration: read what is there, execute it under one batch, settle once, then reply.
//!
//! Steps
//!   1. each queued connection is read once and its whole requests are executed, within the
//!      iteration's bounds; a few are read before the first of them is executed, so that the store
//!      may fetch what their keys need all at once
//!   2. the batch is committed and settled
//!   3. the replies of the iteration are sent; what a socket does not take waits for it
//!
//! A connection that still has something to do is queued again behind the others. When the store
//! cannot settle, the iteration's replies are taken back, each of its commands is answered with an
//! error instead, and the server stops.
//!
//! If settling waits for a disk and other clients may come meanwhile, step 2 only commits: the
//! iteration becomes *pending*, its connections are parked, and the settler (`settler.rs`) settles
//! while the next iterations read and execute for others. When its commit is settled, its replies
//! are sent, and its connections may be served again.
//!
//! A sync costs the same for one as for many, so pending iterations gather while the settler is
//! busy, and a little beyond that (`gather.rs`). A write is answered within two syncs, the one
//! under way and its own, and one whole iteration between them.
//!
//! Invariants
//!   PEND-1  A connection is in at most one pending iteration, and is not served while it is. So no
//!           replies follow those that a pending iteration holds back, and a connection that is
//!           served has nothing unsettled of its own.
//!   PEND-2  Pending iterations are answered in the order of their commits.
//! And DISK-1, DISK-2 (`iteration/disk.rs`), PUSH-1 to PUSH-3 (`outbox.rs`), WAIT-1 to WAIT-3
//! (`waiting.rs`), ITER-1 (`keyspace.rs`),
//! GATHER-1 (`gather.rs`), CONN-1, CONN-2 (`connection.rs`), OUT-2 (`reply.rs`), SETTLER-1
//! (`settler.rs`).
//!
//! Design: docs/design/server-group-commit.md

use crate::clients::{Clients, Closing, ReplyMode};
use crate::command::{
    Call, CommandTable, Fail, Stands, acts_at_once, admitted, discarded, end_command, feed, listens, may_write,
    note_uses, queued, refused, remember, store_text, tell_changes, waits_for_settled,
};
use crate::connection::{Connection, Pool, ReadEnd};
use crate::error::{Error, Result};
use crate::exporter::FigureDesk;
use crate::gather::Gather;
use crate::keyspace::{Keyspace, Verdict};
use crate::outbox::{self, Parcel};
use crate::resp::reply::Protocol;
use crate::server_state::ServerState;
use crate::settler::Settler;
use everbyte_kv::Commit;
use everbyte_kv::raw::Raw as _;
use everbyte_media::{Durability, seeded};
use mio::Waker;
use served::{Served, Standing, TakenBack, take_back};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod deliver;
mod disk;
mod evict;
mod figures;
mod invalidate;
mod lend;
mod limits;
mod naming;
mod pause;
mod replicate;
mod send;
mod served;
mod settling;
mod sweep;
mod waits;
mod wake;

/// Iterations in which each command is committed by itself, after one has spoiled the others'
/// batch.
const CAREFUL_ITERATIONS: u32 = 256;
/// Expired keys removed in one iteration.
const SWEPT_MAX: usize = 200;
/// Connections read before any of them is executed.
const GROUP_MAX: usize = 16;
/// Maximum number of keys prefetched at once.
const PREFETCH_MAX: usize = 64;
/// How long a stopping server tries to deliver what waits.
const FAREWELL: Duration = Duration::from_millis(500);

/// The state that iterations work on.
pub(crate) struct Iterations {
    /// The server's own state.
    pub shared: ServerState,
    /// All connections.
    pub clients: Clients,
    queue: VecDeque<usize>,
    served: Vec<Served>,
    /// Waits for the medium instead of the loop; `None` where settling takes no time to speak of.
    settler: Option<Settler>,
    /// Iterations that are not settled yet, oldest first.
    pending: VecDeque<PendingIteration>,
    /// Commits that the settler has not been asked for.
    gather: Gather<Commit>,
    /// Parcels that leave with the replies that are sent next.
    outgoing: Vec<Parcel>,
    /// Connections that were found to have ended: to be removed with this iteration.
    gone: Vec<usize>,
    /// Lists of answered iterations, kept for the next ones.
    spare: Vec<Vec<Served>>,
    /// Coming requests whose keys are prefetched.
    prefetched: usize,
    pool: Pool,
    ticked: Instant,
    /// Careful iterations still to come (`keyspace.rs`).
    careful: u32,
    /// Connections whose replies wait for a sync.
    disk: disk::DiskWaits,
    /// Further loops.
    lending: Option<lend::Lending>,
    /// Asks for figures, and is given them.
    pub desk: Option<FigureDesk>,
}

/// The end of a request.
enum Done {
    /// It was executed.
    Kept {
        /// Whether a reply to it leaves: CLIENT REPLY may have said that none does.
        replied: bool,
        /// The part of it that has acted at once, whatever becomes of the batch.
        stands: Stands,
    },
    /// All earlier writes of the iteration are lost.
    Lost {
        /// The reason.
        reason: Vec<u8>,
        /// As above.
        replied: bool,
    },
    /// It is not executed yet: clients are paused.
    Postponed,
    /// It is executed in the client's next iteration, when all before it is settled.
    Later,
}

/// An iteration whose replies wait for its settlement.
struct PendingIteration {
    /// The settler's result for it, now or later.
    ticket: u64,
    served: Vec<Served>,
    parcels: Vec<Parcel>,
    start: Instant,
}

/// The error for clients whose commands shared a batch with one that failed in its middle.
const LOST: &[u8] =
    b"ERR store: nothing was done, as a command that shared this batch failed for want of space; try again";

/// Prefetches the memory for the next puts; returns the number of requests covered.
fn prefetch<'k>(puts: impl Iterator<Item = &'k [u8]>, keys: &mut Keyspace<'_>) -> usize {
    let (mut list, mut count) = ([&[][..]; PREFETCH_MAX], 0);
    for (place, key) in list.iter_mut().zip(puts) {
        *place = key;
        count += 1;
    }
    // One fetch alone overlaps with no other.
    if count > 1 {
        keys.prefetch(&list[..count]);
    }
    count
}

/// The rest of an iteration's bounds.
struct Budget {
    commands: usize,
    size: usize,
}

impl Iterations {
    /// At the start. The settler wakes the loop by `waker`.
    pub(crate) fn new(mut shared: ServerState, waker: Arc<Waker>) -> Iterations {
        shared.replication.waker = Some(Arc::clone(&waker));
        let media = shared.kv.store().media();
        let slow = !media.fences_settle() && media.durability() == Durability::Always;
        let settler = if slow { Settler::start(&shared.kv, waker) } else { None };
        Iterations::with_settler(shared, settler)
    }

    /// At the start, with a settler or none.
    pub(crate) fn with_settler(shared: ServerState, settler: Option<Settler>) -> Iterations {
        let ticked = shared.now;
        Iterations {
            shared,
            clients: Clients::default(),
            queue: VecDeque::new(),
            served: Vec::new(),
            settler,
            pending: VecDeque::new(),
            gather: Gather::default(),
            outgoing: Vec::new(),
            gone: Vec::new(),
            spare: Vec::new(),
            prefetched: 0,
            pool: Pool::default(),
            ticked,
            careful: 0,
            disk: disk::DiskWaits::default(),
            lending: None,
            desk: None,
        }
    }

    /// Whether no connection waits for an iteration.
    pub(crate) fn idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the poll may wait. If so, a landing wakes it, until `after_sleep`.
    pub(crate) fn may_sleep(&self) -> bool {
        match (&self.settler, self.pending.front()) {
            _ if !self.idle() || self.has_patch() => false,
            (Some(settler), Some(one)) => !settler.before_sleep(one.ticket),
            _ => true,
        }
    }

    /// The poll has returned.
    pub(crate) fn after_sleep(&self) {
        if let Some(settler) = self.settler.as_ref().filter(|_| !self.pending.is_empty()) {
            settler.after_sleep();
        }
    }

    /// A new iteration begins; `true` about once a second.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        self.shared.now = now;
        let tick = now.saturating_duration_since(self.ticked) >= Duration::from_secs(1);
        if tick {
            self.ticked = now;
            self.shared.metrics.tick(now);
            self.drop_stalled();
            self.count_busy();
            self.shared.pinned.tick(now);
            self.shared.data_bound.tick();
            self.replication_tick();
        }
        tick
    }

    /// The poll says that a socket may be read (`readable`) or takes bytes again.
    pub(crate) fn ready(&mut self, slot: usize, readable: bool) {
        if let Some(connection) = self.clients.get_mut(slot) {
            connection.readable |= readable;
            if !connection.queued && !connection.parked {
                connection.queued = true;
                self.queue.push_back(slot);
            }
        }
    }

    /// See the head of this file.
    pub(crate) fn iteration(&mut self) -> Result<()> {
        self.come_home();
        self.land()?;
        self.land_disk();
        self.gather.begin_iteration(self.settler.as_ref().is_some_and(Settler::is_idle));
        self.reload_origin();
        self.replicate();
        // A command of this iteration may set another one for the next.
        let (commands_max, size) = (self.shared.options.iteration_commands_max, self.shared.options.iteration_size_max);
        let mut budget = Budget { commands: commands_max, size };
        let tables = Arc::clone(&self.shared.tables);
        let (remembered, now) = (std::mem::take(&mut self.shared.remembered), self.shared.clock());
        let mut keys = Keyspace::new(&tables, remembered, now, self.careful > 0, !self.pending.is_empty());
        if self.shared.replication.has_replicas() {
            keys.capture();
        }
        self.tell_figures(&mut keys);
        self.end_pause(now);
        self.keep_bound(&mut keys);
        self.call_home_if_needed();
        self.apply_patches(&mut keys);
        self.sweep(&mut keys);
        self.give_up(now);
        self.careful = self.careful.saturating_sub(1);
        let mut left = self.queue.len();
        while left > 0 && budget.commands > 0 && budget.size > 0 && !self.shared.stopping {
            // A sync that has ended meanwhile is followed by the next one at once.
            self.send_off(false);
            let group = self.receive(left);
            left -= group;
            if self.lending.is_some() && !seeded("server-loop-late-version") {
                keys.renew(); // LOOP-2
            }
            self.prefetch(group, &mut keys);
            for _ in 0..group {
                if budget.commands == 0 || budget.size == 0 || self.shared.stopping {
                    break;
                }
                let Some(slot) = self.queue.pop_front() else { break };
                if let Some(mut connection) = self.clients.take(slot) {
                    self.serve(slot, &mut connection, &mut keys, &mut budget);
                    self.clients.restore(slot, connection);
                }
            }
        }
        let commands = commands_max - budget.commands;
        if commands > 0 {
            self.shared.metrics.iterations += 1;
            self.shared.metrics.iteration_commands_max =
                self.shared.metrics.iteration_commands_max.max(commands as u64);
        }
        self.gather.end_iteration();
        let result = self.finish(keys);
        self.send_off(false);
        let result = result.map_err(|source| Error::Store { source });
        if let Err(error) = &result {
            self.fail(error);
        }
        self.name_versions();
        self.answer_waits();
        self.fail_over();
        self.reply();
        result
    }

    /// Commits what the iteration wrote, and settles it or sends it off; an error means that the
    /// store takes no more. The clock is read only when there is something to settle.
    fn finish(&mut self, mut keys: Keyspace<'_>) -> everbyte_kv::Result<()> {
        if !keys.unsettled() {
            self.shared.saves.begin(&self.shared.tables, None);
            let mut waiting = self.pack();
            match self.pending.back_mut() {
                Some(last) => {
                    outbox::hold(&mut waiting);
                    last.parcels.append(&mut waiting);
                }
                None => assert!(waiting.is_empty(), "PUSH-1"),
            }
            self.shared.remembered = keys.into_remembered();
            return Ok(());
        }
        let start = Instant::now();
        if let Err(error) = keys.commit() {
            // No command ran. Earlier commits of careful commands are settled below all the same.
            self.take_back(&store_text(&error), TakenBack::Batch);
            self.recall(&store_text(&error));
            self.careful = CAREFUL_ITERATIONS;
        }
        let commit = keys.committed();
        self.shared.metrics.expired += keys.take_expired();
        self.shared.metrics.evicted += keys.take_evicted();
        if let Some(commit) = &commit {
            self.shared.replication.committed(commit.version().get(), keys.take_commits());
        }
        self.shared.saves.begin(&self.shared.tables, commit);
        let mut waiting = self.pack();
        self.shared.remembered = keys.into_remembered();
        // No client can come before this is settled, or settling takes no time: the loop does it by
        // itself.
        let alone = self.pending.is_empty() && self.served.len() == self.clients.count();
        match (commit, &mut self.settler) {
            (Some(commit), Some(settler)) if !alone => {
                let (ticket, settled) = (settler.next_ticket(), settler.settled());
                let served = self.park();
                self.gather.add(commit, served.len());
                self.shared.metrics.pending_syncs_max = self.shared.metrics.pending_syncs_max.max(ticket - settled);
                outbox::hold(&mut waiting);
                self.pending.push_back(PendingIteration { ticket, served, parcels: waiting, start });
            }
            (Some(commit), _) => {
                // A failure answers these with its error, too.
                self.outgoing.append(&mut waiting);
                if !seeded("server-reply-unsettled") {
                    self.shared.kv.settle(commit)?;
                }
                self.settled(start);
            }
            // Nothing was written, but what was read may be on the way.
            (None, _) if !self.pending.is_empty() => {
                let mut parked = self.park();
                if let Some(last) = self.pending.back_mut() {
                    last.served.append(&mut parked);
                    outbox::hold(&mut waiting);
                    last.parcels.append(&mut waiting);
                }
                self.spare.push(parked);
            }
            (None, _) => self.outgoing.append(&mut waiting),
        }
        Ok(())
    }

    /// Reads the next connections in the queue, of at most `left`; returns how many. Their commands
    /// are executed together, so that the keys of all can be prefetched at once.
    fn receive(&mut self, left: usize) -> usize {
        let (mut group, mut puts) = (0, 0);
        while group < left.min(GROUP_MAX) && puts < PREFETCH_MAX {
            let slot = self.queue[group];
            group += 1;
            let Some(mut connection) = self.clients.take(slot) else { continue };
            // Full: first see whether the socket takes something (CONN-1).
            if connection.out.pending() <= self.shared.options.output_size_soft {
                self.read(&mut connection);
            }
            if connection.unread {
                puts += connection.puts_to_prefetch().take(PREFETCH_MAX).count();
            }
            self.clients.restore(slot, connection);
        }
        self.relieve();
        group
    }

    /// Adds what the requests of a connection hold to the sum, in place of what was counted before.
    fn count_input(&mut self, connection: &mut Connection, held: usize) {
        self.shared.input_memory = self.shared.input_memory - connection.counted + held;
        connection.counted = held;
    }

    /// Ends connections, those whose requests hold most first, until all others' fit.
    fn relieve(&mut self) {
        while self.shared.input_memory > self.shared.options.input_total_max {
            let Some(slot) = self.clients.largest_input() else { return };
            let Some(mut connection) = self.clients.take(slot) else { return };
            connection.drop_input(self.shared.options.bulk_size_max);
            connection.client.closing = Closing::Now;
            self.count_input(&mut connection, 0);
            self.shared.metrics.connections_over_limit += 1;
            self.clients.restore(slot, connection);
            // A connection served in this iteration ends with its replies; a second place in the
            // queue would break PEND-1.
            if !self.served.iter().any(|served| served.slot == slot) {
                self.ready(slot, false);
            }
        }
    }

    /// Prefetches the memory for the next puts of the first `group` connections of the queue.
    fn prefetch(&mut self, group: usize, keys: &mut Keyspace<'_>) {
        let group = self.queue.iter().take(group).filter_map(|slot| self.clients.get(*slot));
        self.prefetched =
            prefetch(group.filter(|connection| connection.unread).flat_map(Connection::puts_to_prefetch), keys);
    }

    /// Executes what a connection has sent.
    fn serve(&mut self, slot: usize, connection: &mut Connection, keys: &mut Keyspace<'_>, budget: &mut Budget) {
        connection.queued = false;
        (connection.client.switching, connection.client.turn_over) = (false, false);
        let mut served = Served::none(slot, connection.out.position());
        let soft = self.shared.options.output_size_soft;
        if connection.out.pending() > soft {
            // Full: first see whether the socket takes something (CONN-1).
            self.shared.metrics.back_pressure += 1;
        } else {
            self.pool.lend(&mut connection.out);
            self.execute(connection, &mut served, keys, budget);
            connection.client.input_size = connection.input_size();
            connection.settle_input(&mut self.pool);
            self.count_input(connection, connection.input_memory());
            let early = seeded("server-exec-early") && connection.client.command == "exec";
            served.waits = served.commands > 0 && keys.unsettled() && !early;
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
                if connection.client.waiting || connection.client.postponed {
                    self.shared.waiters.remove(connection.client.id); // WAIT-3
                    connection.client.closing = Closing::Now;
                }
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
        self.count_input(connection, connection.input_memory());
        if connection.input_size() + connection.queued_memory() > self.shared.options.input_size_max {
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
        self.shared.mark = Instant::now();
        while connection.unread
            && !connection.client.waiting
            && !connection.client.turn_over
            && !connection.client.postponed
            && connection.client.closing == Closing::No
            && connection.out.pending() <= self.shared.options.output_size_soft
            && budget.commands > 0
            && budget.size > 0
            && !self.shared.stopping
        {
            if self.prefetched == 0 {
                self.prefetched = prefetch(connection.puts_to_prefetch(), keys);
            }
            match connection.next(self.shared.lacks_password(&connection.client)) {
                Ok(Some(used)) => {
                    self.prefetched = self.prefetched.saturating_sub(1);
                    let (from, published) = (connection.out.position(), self.shared.outbox.size());
                    connection.client.strict |= self.shared.is_always(&connection.client);
                    let done = self.command(connection, keys, served.commands == 0);
                    connection.client.strict |= self.shared.is_always(&connection.client);
                    if matches!(done, Done::Postponed) {
                        connection.postpone();
                        return;
                    }
                    if matches!(done, Done::Later) {
                        return;
                    }
                    connection.advance(used);
                    match done {
                        Done::Lost { reason, replied } => self.lost(connection, served, &reason, replied),
                        Done::Kept { replied, stands } => {
                            served.commands += 1;
                            if stands != Stands::Nothing && replied {
                                let whole = (from, connection.out.position());
                                let reply = (stands == Stands::All).then_some(whole);
                                served.stands.push(Standing { index: served.replies, reply });
                            }
                            let waits = connection.client.waiting;
                            *if waits { &mut served.awaited } else { &mut served.replies } += usize::from(replied);
                        }
                        Done::Postponed | Done::Later => {}
                    }
                    budget.commands -= 1;
                    let published = self.shared.outbox.size().saturating_sub(published);
                    budget.size = budget.size.saturating_sub(used.saturating_add(published));
                }
                Ok(None) => connection.unread = false,
                Err(malformed) => {
                    self.shared.metrics.connections_malformed += 1;
                    let text = malformed.text();
                    self.shared.metrics.count_error(&text);
                    connection.out.error(&text);
                    connection.client.closing = Closing::AfterReplies;
                }
            }
        }
    }

    /// Executes one request and writes its reply; whether it is the `first` of its client in this
    /// iteration.
    fn command(&mut self, connection: &mut Connection, keys: &mut Keyspace<'_>, first: bool) -> Done {
        let (args, client, out) = connection.request();
        let (position, pending) = (out.position(), out.pending());
        if client.reply_mode == ReplyMode::SkipNext {
            client.reply_mode = ReplyMode::Skip;
        }
        let (mut lost, mut stands) = (false, Stands::Nothing);
        let found = CommandTable::get().look_up(&args).and_then(|index| {
            admitted(client, &mut self.shared, index, &args)?;
            Ok(index)
        });
        if let Ok(index) = found
            && self.shared.postpones(client, index)
        {
            client.postponed = true;
            self.shared.postponed += 1;
            return Done::Postponed;
        }
        if matches!(found, Ok(index) if !first && waits_for_settled(CommandTable::get().rows[index])) {
            return Done::Later;
        }
        self.note_request(client, found.as_ref().ok().copied());
        if let Ok(index) = found {
            self.call_home_before(client, CommandTable::get().rows[index]);
        }
        let (mut told, switching) = (false, std::mem::take(&mut client.switching));
        let found = match found {
            Ok(index) if self.shared.data_bound.on => {
                let room = self.admit_room(client, CommandTable::get().rows[index], keys);
                lost |= matches!(room, Err((_, true)));
                room.map(|()| index).map_err(|(fail, _)| fail)
            }
            found => found,
        };
        let found = found.and_then(|index| {
            let command = CommandTable::get().rows[index];
            Ok((index, queued(client, index, command, &args)?))
        });
        let outcome = match found {
            Err(fail) => {
                self.shared.metrics.reject(&args);
                Err(refused(client, &mut self.shared, &args, fail))
            }
            Ok((_, true)) => {
                out.simple("QUEUED");
                Ok(())
            }
            Ok((index, false)) => {
                let command = CommandTable::get().rows[index];
                stands = acts_at_once(client, &self.shared, command, keys.now());
                keys.track(self.shared.follows_changes());
                keys.begin_command(may_write(client, command, &args));
                keys.select(client.database);
                client.command = command.name;
                told = listens(command);
                self.shared.metrics.commands += 1;
                let aim = (command.name == "exec").then(|| self.shared.replication.aim());
                let mut call = Call { args, out, client, others: &self.clients, keys, shared: &mut self.shared };
                let mut outcome = (command.handler)(&mut call);
                if stands == Stands::Some && outcome.is_ok() && !client.acted {
                    stands = Stands::Nothing; // its commands for operators were refused
                }
                told |= std::mem::take(&mut client.told);
                self.shared.metrics.by_command[index].calls += 1;
                self.shared.timed(index, command, client, &args);
                feed(&mut self.shared, client, command, &args);
                self.shared.note_changes(keys.new_changes(), Some(&*client));
                match keys.end_command(outcome.is_err()) {
                    Verdict::Kept if outcome.is_ok() && command.name != "exec" => {
                        tell_changes(&mut self.shared, keys, &args, 0);
                    }
                    Verdict::Kept => {}
                    Verdict::Refused(error) if command.name == "exec" => {
                        outcome = Err(discarded(&Fail::Store(error)));
                    }
                    Verdict::Refused(error) => outcome = Err(Fail::Store(error)),
                    Verdict::Lost => lost = true,
                }
                if let (Some(aim), true) = (aim, outcome.is_err()) {
                    self.shared.replication.set_aim(aim);
                }
                let places = self.touched(keys, Some(&*client));
                if let (Err(fail), false) = (&outcome, lost)
                    && let Some(again) = self.tries_again(client, command, fail, keys)
                {
                    out.cut(position);
                    self.shared.outbox.drop_command();
                    self.shared.own_stale.clear();
                    client.switching |= switching;
                    return again;
                }
                client.tries = 0;
                remember(client, &mut self.shared, index, &args);
                note_uses(&mut self.shared, keys, client.database, command, &args);
                if outcome.is_ok()
                    && let Some(fail) = self.wake(places, keys)
                {
                    (outcome, lost) = (Err(fail), true);
                }
                if outcome.is_err() {
                    self.shared.metrics.by_command[index].failed += 1;
                }
                outcome
            }
        };
        let mut reason = None;
        if let Err(fail) = outcome {
            client.reads = 0;
            if stands == Stands::Some {
                stands = Stands::All; // its error stays true
            }
            self.shared.metrics.count_error(&fail.reply());
            out.cut(position);
            out.error(&fail.reply());
            if !lost {
                self.shared.outbox.drop_command();
            }
            if client.switching {
                client.closing = Closing::AfterReplies; // EXEC was taken back
            }
            reason = lost.then(|| fail.reply().into_owned());
        }
        assert!(!lost || reason.is_some(), "ITER-2");
        self.shared.outbox.end_command(keys.unsettled());
        for (slot, id) in std::mem::take(&mut self.shared.ends) {
            self.end(slot, id);
        }
        client.switching |= switching;
        end_command(client, &args);
        client.resp = if out.protocol == Protocol::Resp3 { 3 } else { 2 };
        let silent = matches!(client.reply_mode, ReplyMode::Off | ReplyMode::Skip);
        let replied = !silent && (client.waiting || out.pending() > pending);
        match client.reply_mode {
            ReplyMode::On | ReplyMode::SkipNext => {}
            ReplyMode::Off if told => {}
            ReplyMode::Off => out.cut(position),
            ReplyMode::Skip => {
                if !told {
                    out.cut(position);
                }
                client.reply_mode = ReplyMode::On;
            }
        }
        Iterations::tell_own(std::mem::take(&mut self.shared.own_stale), out);
        match reason {
            Some(reason) => Done::Lost { reason, replied },
            None => Done::Kept { replied, stands },
        }
    }

    /// Ends another client than the one served, at the end of this iteration.
    pub(crate) fn end(&mut self, slot: usize, id: u64) {
        if let Some(connection) = self.clients.get_mut(slot).filter(|connection| connection.client.id == id) {
            connection.client.closing = Closing::Now;
            self.shared.waiters.remove(id); // WAIT-3
            self.gone.push(slot);
        }
    }

    /// A command has spoiled the iteration's batch: everything executed before it in this iteration
    /// is answered with an error, as it may have written, or read what was written. Then the
    /// iteration goes on, carefully from the next one on.
    fn lost(&mut self, connection: &mut Connection, served: &mut Served, reason: &[u8], replied: bool) {
        self.careful = CAREFUL_ITERATIONS;
        self.take_back(LOST, TakenBack::Batch);
        self.recall(LOST);
        for earlier in &mut self.served {
            if let Some(connection) = self.clients.get_mut(earlier.slot) {
                earlier.begin_again(connection.out.position());
            }
        }
        take_back(connection, served, &mut self.shared.waiters, LOST, TakenBack::Batch);
        if replied {
            connection.out.error(reason);
        }
        served.begin_again(connection.out.position());
    }

    /// No client reads the iteration's replies; every client reads that it failed.
    fn take_back(&mut self, text: &[u8], taken_back: TakenBack) {
        for served in &self.served {
            if let Some(connection) = self.clients.get_mut(served.slot) {
                take_back(connection, served, &mut self.shared.waiters, text, taken_back);
            }
        }
    }
}

#[cfg(test)]
mod interactions;
#[cfg(test)]
mod replicas;
#[cfg(test)]
mod scripts;
#[cfg(test)]
mod tests;

//! A loop that reads: it answers plain reads of the connections that it was lent.
//!
//! Steps of an iteration
//!   1. wait for readiness; take messages of the first loop
//!   2. each queued connection is read once
//!   3. the time is taken, and a snapshot of the newest settled version if there is a newer one
//!      than the last (LOOP-2)
//!   4. whole requests are answered and sent, as long as they are plain reads that succeed
//!   5. connections with another request, those that have ended, and those whose replies or
//!      requests grow, go back to the first loop, which begins with the very request
//!
//! An error is never answered here: the request goes to the first loop, which answers it again. So
//! does one that meets a key whose deadline has passed: whether that key is gone is said by one
//! clock.
//!
//! A snapshot is kept from one iteration to the next, as taking one writes what other threads read.
//! A loop without work drops it after [`SNAPSHOT_KEPT`], and each loop in a recall, so that space
//! is given back.
//!
//! Invariants: LOOP-1 to LOOP-4 (`loops/mod.rs`), ACL-1, CONN-2.

use super::{FromReader, Report, Rules, ToReader};
use crate::clients::{Clients, Closing};
use crate::command::{Call, CommandTable, answers_plainly};
use crate::connection::{Connection, Pool, ReadEnd};
use crate::keyspace::{Keyspace, Remembered, Settled, Tables};
use crate::resp::reply::Protocol;
use crate::server_state::ServerState;
use everbyte_media::seeded;
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

/// How long an idle loop keeps a version.
const SNAPSHOT_KEPT: Duration = Duration::from_millis(10);
/// How often a loop that has connections or counters reports, and gives idle ones back.
const TICK: Duration = Duration::from_secs(1);
/// Commands in one iteration, at most: a recall waits for its end.
const COMMANDS_MAX: usize = 1024;
/// Bytes of an incomplete request above which its connection goes back: the first loop bounds what
/// requests hold.
const INCOMPLETE_MAX: usize = 16 * 1024;

/// See the head of this file.
pub(super) struct Reader {
    index: usize,
    poll: Poll,
    inbox: Receiver<ToReader>,
    home: Sender<FromReader>,
    /// Wakes the first loop.
    first: Arc<Waker>,
    /// Rules and counters; most of it is not used here.
    shared: ServerState,
    remembered: Option<Box<Remembered>>,
    settled: Option<Settled>,
    /// None but the one that is served: plain reads look at no other.
    nobody: Clients,
    /// By slot.
    connections: Vec<Option<Box<Connection>>>,
    count: usize,
    queue: VecDeque<usize>,
    pool: Pool,
    /// Connections that go back with this iteration.
    leaving: Vec<Box<Connection>>,
    ticked: Instant,
}

/// The place of a connection behind a request, or behind all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Stays,
    Leaves,
}

impl Reader {
    pub(super) fn new(
        index: usize,
        poll: Poll,
        inbox: Receiver<ToReader>,
        (home, first): (Sender<FromReader>, Arc<Waker>),
        shared: ServerState,
    ) -> Reader {
        Reader {
            index,
            poll,
            inbox,
            home,
            first,
            remembered: Some(Box::new(Remembered::opened(&shared.tables))),
            ticked: shared.now,
            shared,
            settled: None,
            nobody: Clients::default(),
            connections: Vec::new(),
            count: 0,
            queue: VecDeque::new(),
            pool: Pool::default(),
            leaving: Vec::new(),
        }
    }

    /// Until the first loop is gone.
    pub(super) fn run(mut self, tables: &Tables) {
        let mut events = Events::with_capacity(256);
        loop {
            // An error is an interruption: there are no events then.
            let polled = self.poll.poll(&mut events, self.sleep()).is_ok();
            if self.queue.is_empty() && (!polled || events.is_empty()) {
                self.drop_version();
            }
            self.shared.now = Instant::now();
            for event in events.iter().filter(|_| polled) {
                self.ready(event.token().0, event.is_readable() || event.is_read_closed() || event.is_error());
            }
            if !self.take_messages() {
                return;
            }
            self.tick();
            self.iteration(tables);
            if !self.leaving.is_empty() {
                self.give_back();
            }
        }
    }

    /// How long this loop sleeps without events; `None`: until there is one.
    fn sleep(&self) -> Option<Duration> {
        match (self.queue.is_empty(), &self.settled) {
            (false, _) => Some(Duration::ZERO),
            (true, Some(_)) => Some(SNAPSHOT_KEPT),
            (true, None) if self.count > 0 || self.shared.metrics.commands > 0 => Some(TICK),
            (true, None) => None,
        }
    }

    /// The waker's token has no slot.
    fn ready(&mut self, slot: usize, readable: bool) {
        if let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) {
            connection.readable |= readable;
            if !std::mem::replace(&mut connection.queued, true) {
                self.queue.push_back(slot);
            }
        }
    }

    /// Whether the first loop is still there.
    fn take_messages(&mut self) -> bool {
        loop {
            match self.inbox.try_recv() {
                Ok(ToReader::Rules(rules)) => {
                    let Rules { options, users } = *rules;
                    (self.shared.options, self.shared.users) = (options, users);
                }
                Ok(ToReader::Serve(connection)) => self.begin(connection),
                Ok(ToReader::Recall) => {
                    for slot in 0..self.connections.len() {
                        if let Some(connection) = self.connections[slot].take() {
                            self.leave(connection);
                        }
                    }
                    self.queue.clear();
                    // The first loop may be short of the space behind the version.
                    self.drop_version();
                    let (leaving, report) = (std::mem::take(&mut self.leaving), self.report());
                    let _ = self.home.send(FromReader::Recalled(self.index, leaving, report));
                    // The first loop waits: nothing wakes it.
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Takes a connection that was lent.
    fn begin(&mut self, mut connection: Box<Connection>) {
        let (slot, interest) = (connection.client.slot, Interest::READABLE | Interest::WRITABLE);
        connection.client.lent_reads = 0;
        if self.poll.registry().register(&mut connection.stream, Token(slot), interest).is_err() {
            self.leaving.push(connection);
            return;
        }
        if self.connections.len() <= slot {
            self.connections.resize_with(slot + 1, || None);
        }
        self.connections[slot] = Some(connection);
        self.count += 1;
        self.ready(slot, true); // bytes may have come since the first loop has looked
    }

    /// A connection goes back with this iteration. It is no longer in its slot.
    fn leave(&mut self, mut connection: Box<Connection>) {
        // One that the poll does not know was closed: the first loop finds out by reading.
        let _ = self.poll.registry().deregister(&mut connection.stream);
        (connection.queued, connection.readable) = (false, true);
        self.count -= 1;
        self.leaving.push(connection);
    }

    fn give_back(&mut self) {
        let leaving = std::mem::take(&mut self.leaving);
        // It fails only when the first loop is gone.
        let _ = self.home.send(FromReader::Back(self.index, leaving));
        let _ = self.first.wake();
    }

    /// Counters since the last report.
    fn report(&mut self) -> Box<Report> {
        let metrics = std::mem::replace(&mut self.shared.metrics, crate::metrics::Metrics::new());
        let (slowlog, latency) = (&mut self.shared.slowlog, &mut self.shared.latency);
        Box::new(Report { metrics, slowlog: std::mem::take(slowlog), latency: std::mem::take(latency) })
    }

    /// About once a second: reports, and gives back connections that are idle, or take nothing.
    fn tick(&mut self) {
        let now = self.shared.now;
        if now.saturating_duration_since(self.ticked) < TICK {
            return;
        }
        self.ticked = now;
        if self.shared.metrics.commands > 0 {
            let report = self.report();
            let _ = self.home.send(FromReader::Report(report));
        }
        for slot in 0..self.connections.len() {
            let is_old = |then: Instant| now.saturating_duration_since(then) >= TICK;
            let idle = |one: &mut Box<Connection>| is_old(one.client.active) && !one.queued;
            if let Some(connection) = self.connections[slot].take_if(|one| idle(one)) {
                self.leave(connection);
            }
        }
    }

    fn iteration(&mut self, tables: &Tables) {
        let count = self.queue.len();
        if count == 0 {
            return;
        }
        for index in 0..count {
            let slot = self.queue[index];
            if let Some(mut connection) = self.connections[slot].take() {
                self.receive(&mut connection);
                self.connections[slot] = Some(connection);
            }
        }
        // LOOP-2: behind what was received.
        let now = self.shared.clock();
        let (settled, is_new) = self.newest(tables);
        let remembered = self.remembered.take().expect("it is put back below");
        let mut keys = Keyspace::reading(tables, remembered, now, settled);
        // Damage shows in the first loop.
        let broken = is_new && keys.read_spaces().is_err();
        let mut left = COMMANDS_MAX;
        for _ in 0..count {
            let Some(slot) = self.queue.pop_front() else { break };
            let Some(mut connection) = self.connections[slot].take() else { continue };
            connection.queued = false;
            let place = if broken { Place::Leaves } else { self.serve(&mut connection, &mut keys, &mut left) };
            if place == Place::Leaves {
                self.leave(connection);
                continue;
            }
            let more = connection.unread && connection.out.is_empty() || connection.readable;
            self.connections[slot] = Some(connection);
            if more {
                self.ready(slot, false);
            }
        }
        let (remembered, settled) = keys.into_reading();
        (self.remembered, self.settled) = (Some(remembered), settled.filter(|_| !broken));
    }

    /// The newest settled version, and whether it is another one than before.
    fn newest(&mut self, tables: &Tables) -> (Settled, bool) {
        match self.settled.take() {
            Some(settled) if settled.is_newest() || seeded("server-loop-old-version") => (settled, false),
            _ => {
                self.shared.metrics.loop_shared_writes += 1;
                (Settled::new(tables.kv.snapshot()), true)
            }
        }
    }

    fn drop_version(&mut self) {
        self.settled.take_if(|_| !seeded("server-loop-old-version"));
    }

    fn receive(&mut self, connection: &mut Connection) {
        let is_full = connection.out.pending() > self.shared.options.output_size_soft;
        if !connection.readable || connection.ended || connection.unread || is_full {
            return;
        }
        let count = match connection.read(&mut self.pool) {
            Ok(ReadEnd::Gone) | Err(_) => {
                connection.ended = true;
                0
            }
            Ok(ReadEnd::More(count)) => count,
            Ok(ReadEnd::Drained(count)) => {
                connection.readable = false;
                count
            }
        };
        self.shared.metrics.input_bytes += count as u64;
        connection.unread |= count > 0;
        if count > 0 {
            connection.client.active = self.shared.now;
        }
    }

    /// Answers what a connection has sent.
    fn serve(&mut self, connection: &mut Connection, keys: &mut Keyspace<'_>, left: &mut usize) -> Place {
        let mut place = Place::Stays;
        self.pool.lend(&mut connection.out);
        self.shared.mark = Instant::now();
        while connection.unread && *left > 0 && connection.out.pending() <= self.shared.options.output_size_soft {
            match connection.next(false) {
                Ok(Some(used)) => {
                    if !self.answer(connection, keys) {
                        connection.postpone(); // the first loop begins with it (CONN-2)
                        place = Place::Leaves;
                        break;
                    }
                    connection.advance(used);
                    connection.client.lent_reads = connection.client.lent_reads.saturating_add(1);
                    *left -= 1;
                }
                Ok(None) => connection.unread = false,
                Err(_) => {
                    place = Place::Leaves;
                    break;
                }
            }
        }
        connection.client.input_size = connection.input_size();
        connection.settle_input(&mut self.pool);
        if self.send(connection).is_err() {
            connection.client.closing = Closing::Now;
            return Place::Leaves;
        }
        let options = &self.shared.options;
        let waiting = connection.out.pending();
        let limited = options.reply_size_max > 0 || options.reply_soft.size > 0;
        let grows = waiting > options.output_size_soft
            || waiting > 0 && limited
            || !connection.unread && connection.input_size() > INCOMPLETE_MAX;
        if grows || connection.ended && !connection.unread { Place::Leaves } else { place }
    }

    /// Answers a request; `false` if the first loop has to, and nothing has happened.
    fn answer(&mut self, connection: &mut Connection, keys: &mut Keyspace<'_>) -> bool {
        let (args, client, out) = connection.request();
        let Ok(index) = CommandTable::get().look_up(&args) else { return false };
        if !answers_plainly(index) {
            return false;
        }
        // ACL-1, by LOOP-3.
        let user = self.shared.users.get(client.user);
        let is_permitted = user.is_some_and(|user| user.check(index, &args, 0).is_ok());
        if !is_permitted && !seeded("server-loop-acl-unchecked") {
            return false;
        }
        assert!(!seeded("server-loop-panics"), "a seeded bug");
        let command = CommandTable::get().rows[index];
        let position = out.position();
        let metrics = &self.shared.metrics;
        let looked_up = (metrics.hits, metrics.misses);
        keys.begin_command(false);
        keys.select(client.database);
        let mut call =
            Call { args, out: &mut *out, client: &mut *client, others: &self.nobody, keys, shared: &mut self.shared };
        let outcome = (command.handler)(&mut call);
        keys.end_command(outcome.is_err());
        let met_expired = keys.take_met_expired();
        if outcome.is_err() || met_expired {
            out.cut(position);
            (self.shared.metrics.hits, self.shared.metrics.misses) = looked_up;
            return false;
        }
        client.command = command.name;
        self.shared.metrics.commands += 1;
        self.shared.metrics.loop_commands += 1;
        self.shared.metrics.by_command[index].calls += 1;
        self.shared.timed(index, command, client, &args);
        client.resp = if out.protocol == Protocol::Resp3 { 3 } else { 2 };
        true
    }

    /// Sends what the socket takes. All of it tells of settled versions (ITER-1).
    fn send(&mut self, connection: &mut Connection) -> std::io::Result<()> {
        let before = connection.out.pending();
        connection.out.send(&mut connection.stream)?;
        let sent = before - connection.out.pending();
        self.shared.metrics.output_bytes += sent as u64;
        if sent > 0 || connection.out.is_empty() {
            connection.progress = self.shared.now;
        }
        if connection.out.is_empty() {
            self.pool.reclaim(&mut connection.out);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use everbyte_kv::Kv;
    use everbyte_store::{CreateOptions, Store};
    use std::sync::mpsc::channel;

    /// A loop that the test runs by hand, and the first loop's side of it.
    struct TestReader {
        reader: Reader,
        to: Sender<ToReader>,
        from: Receiver<FromReader>,
        _first: Poll,
        _folder: tempfile::TempDir,
    }

    impl TestReader {
        fn new() -> TestReader {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::create(&folder.path().join("store"), &CreateOptions::default()).unwrap();
            let tables = Arc::new(Tables::open(Kv::open_or_create(&store, "kv").unwrap()).unwrap());
            let shared = ServerState::over(Options::default(), ([127, 0, 0, 1], 0).into(), tables);
            let (first, poll) = (Poll::new().unwrap(), Poll::new().unwrap());
            let waker = Arc::new(Waker::new(first.registry(), Token(0)).unwrap());
            let ((to, inbox), (home, from)) = (channel(), channel());
            let reader = Reader::new(0, poll, inbox, (home, waker), shared);
            TestReader { reader, to, from, _first: first, _folder: folder }
        }
    }

    /// Its connections have gone back with a request that the first loop answers.
    #[test]
    fn a_loop_without_connections_reports_its_counters() {
        let mut test = TestReader::new();
        assert_eq!(test.reader.sleep(), None);
        test.reader.shared.metrics.commands = 3;
        assert_eq!(test.reader.sleep(), Some(TICK));
        test.reader.tick();
        assert!(test.from.try_recv().is_err(), "a report a second");
        test.reader.shared.now += TICK;
        test.reader.tick();
        let Ok(FromReader::Report(report)) = test.from.try_recv() else { panic!("no report") };
        assert_eq!((report.metrics.commands, test.reader.sleep()), (3, None));
    }

    /// Else the version holds space that the first loop may need.
    #[test]
    fn a_recall_drops_the_version() {
        let mut test = TestReader::new();
        test.reader.settled = Some(Settled::new(test.reader.shared.kv.snapshot()));
        assert_eq!(test.reader.sleep(), Some(SNAPSHOT_KEPT));
        test.to.send(ToReader::Recall).unwrap();
        assert!(test.reader.take_messages());
        assert!(test.reader.settled.is_none());
        assert!(matches!(test.from.try_recv(), Ok(FromReader::Recalled(0, _, _))));
    }
}

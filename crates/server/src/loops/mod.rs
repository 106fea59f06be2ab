//! Further event loops, which read for connections that only read.
//!
//! The first loop is the whole server: it accepts, writes, settles, and knows every connection. It
//! *lends* a connection to another loop (`reader.rs`) once this has sent nothing but plain reads
//! for a while (`iteration/lend.rs`). The other loop answers further plain reads by itself, from
//! the newest settled version, and gives the connection back, its replies and all that it has sent
//! included, at the first request that is no such read. So one loop at a time owns a connection,
//! requests are answered in their order, and nothing but plain reads has a second implementation.
//!
//! Commands that look at other connections or change rules for them (those for operators, INFO)
//! first *recall* all lent connections: the first loop waits until the others have handed back
//! their connections and counters. Rules that changed are sent along with the next connection. So a
//! loop that reads needs no lock, and a right that was taken away is gone everywhere when the
//! command that took it is answered.
//!
//! Steps of a loan
//!   1. the first loop removes the socket from its poll and sends the connection
//!   2. the other loop adds it to its own poll, and serves it
//!   3. it removes the socket, sends the connection back, and wakes the first loop
//!
//! Invariants
//!   LOOP-1  One loop at a time owns a connection. It is lent only when nothing of its own is
//!           unsettled, queued, watched or subscribed to.
//!   LOOP-2  A loop that reads takes the version and the time that it answers from after it has
//!           received the request, so an answer is never older than one that its client may have
//!           heard of. The first loop takes the settled version in the same way.
//!   LOOP-3  While a connection is lent, the rules that its loop has are those of the first loop.
//!   LOOP-4  A plain read of single values writes nothing that another loop reads or writes.
//!           Snapshots and messages do; snapshots are counted. A read of a range counts references
//!           to parts of the store that loops share.
//!
//! Threads: the first loop calls; one thread for each further loop. Messages alone pass between
//! them, and no loop that reads waits for the first one.
//!
//! Design: docs/design/server-loops.md

#![expect(clippy::vec_box, reason = "a connection stays in its box as it moves")]

mod reader;

use crate::access::Users;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::keyspace::Tables;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::server_state::ServerState;
use crate::slowlog::{Latency, Slowlog};
use everbyte_media::museum::carried;
use mio::{Interest, Poll, Registry, Token, Waker};
use reader::Reader;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::thread::JoinHandle;

/// The loops of a server, at most.
pub(crate) const LOOPS_MAX: usize = 128;

/// The rules by which a loop answers.
struct Rules {
    options: Options,
    users: Users,
}

/// From the first loop.
enum ToReader {
    /// Rules for the connections to come.
    Rules(Box<Rules>),
    /// A connection to be served.
    Serve(Box<Connection>),
    /// All connections and counters are to come back, and no version is to be kept.
    Recall,
}

/// Counters of a loop since the last report.
struct Report {
    metrics: Metrics,
    slowlog: Slowlog,
    latency: Latency,
}

/// To the first loop, each with the number of the sender.
enum FromReader {
    /// Connections that are not for it any more.
    Back(usize, Vec<Box<Connection>>),
    /// Its counters.
    Report(Box<Report>),
    /// All its connections and its counters, as it was asked.
    Recalled(usize, Vec<Box<Connection>>, Box<Report>),
    /// It has panicked.
    Lost,
}

/// One further loop.
struct Other {
    /// `None` once it is to end.
    to: Option<Sender<ToReader>>,
    waker: Arc<Waker>,
    /// Connections that it has.
    lent: usize,
    /// Whether it may have connections, counters or a version.
    away: bool,
    /// Whether it has the present rules.
    informed: bool,
    thread: Option<JoinHandle<()>>,
}

/// See the head of this file.
pub(crate) struct Loops {
    others: Vec<Other>,
    from: Receiver<FromReader>,
    /// That of the first loop's poll.
    registry: Registry,
    /// A loop has panicked.
    lost: bool,
}

impl Loops {
    /// Starts `count - 1` further loops; `None` if that is none. They wake the first loop by
    /// `waker`.
    pub(crate) fn start(
        shared: &ServerState,
        registry: &Registry,
        waker: &Arc<Waker>,
        wake_token: Token,
    ) -> Result<Option<Loops>> {
        let count = shared.options.loops.clamp(1, LOOPS_MAX);
        if count == 1 {
            return Ok(None);
        }
        let system = |source| Error::System { action: "start an event loop", source };
        let registry = registry.try_clone().map_err(system)?;
        let (to_first, from) = channel();
        let mut loops = Loops { others: Vec::new(), from, registry, lost: false };
        for index in 0..count - 1 {
            let poll = Poll::new().map_err(system)?;
            let theirs = Arc::new(Waker::new(poll.registry(), wake_token).map_err(system)?);
            let (to, inbox) = channel();
            let (tables, options) = (Arc::clone(&shared.tables), shared.options.clone());
            let (home, first, address) = (to_first.clone(), Arc::clone(waker), shared.address);
            let body = carried(move || live(index, poll, inbox, home, first, (options, address), &tables));
            let thread = std::thread::Builder::new().name(format!("everbyte-loop-{}", index + 1));
            let thread = Some(thread.spawn(body).map_err(system)?);
            let (to, waker) = (Some(to), theirs);
            loops.others.push(Other { to, waker, lent: 0, away: false, informed: false, thread });
        }
        Ok(Some(loops))
    }

    /// The other loop with the fewest connections, and how many it has.
    pub(crate) fn least(&self) -> (usize, usize) {
        let counts = self.others.iter().enumerate().map(|(index, other)| (other.lent, index));
        counts.min().map_or((0, usize::MAX), |(lent, index)| (index, lent))
    }

    /// Connections that other loops have.
    pub(crate) fn lent(&self) -> usize {
        self.others.iter().map(|other| other.lent).sum()
    }

    /// Whether a loop has panicked: its connections are lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Sends a connection to another loop; it comes back at once if that cannot have it.
    pub(crate) fn lend(
        &mut self,
        index: usize,
        mut connection: Box<Connection>,
        shared: &ServerState,
    ) -> std::result::Result<(), Box<Connection>> {
        let other = &mut self.others[index];
        let Some(to) = &other.to else { return Err(connection) };
        if self.registry.deregister(&mut connection.stream).is_err() {
            return Err(connection);
        }
        if !other.informed {
            let rules = Rules { options: shared.options.clone(), users: shared.users.rules() };
            other.informed = to.send(ToReader::Rules(Box::new(rules))).is_ok();
        }
        match to.send(ToReader::Serve(connection)) {
            Ok(()) => {
                (other.lent, other.away) = (other.lent + 1, true);
                // A waker fails only when the loop is gone.
                let _ = other.waker.wake();
                Ok(())
            }
            Err(SendError(message)) => {
                self.lost = true;
                let ToReader::Serve(mut connection) = message else { unreachable!("it was a connection") };
                self.register(&mut connection);
                Err(connection)
            }
        }
    }

    /// Adds the socket of a connection that came back to the first loop's poll.
    fn register(&self, connection: &mut Connection) {
        let (token, interest) = (Token(connection.client.slot), Interest::READABLE | Interest::WRITABLE);
        if self.registry.register(&mut connection.stream, token, interest).is_err() {
            connection.client.closing = crate::clients::Closing::Now;
        }
    }

    /// Connections that have come back by themselves; counters are added to those of the server.
    pub(crate) fn come_back(&mut self, shared: &mut ServerState) -> Vec<Box<Connection>> {
        let mut back = Vec::new();
        while let Ok(message) = self.from.try_recv() {
            self.take(message, &mut back, shared);
        }
        back
    }

    /// All connections; waits until the other loops have sent them, and their counters.
    pub(crate) fn recall(&mut self, shared: &mut ServerState) -> Vec<Box<Connection>> {
        let (mut back, mut asked) = (Vec::new(), 0);
        for other in &mut self.others {
            // LOOP-3: rules may change now.
            other.informed = false;
            let sent = other.to.as_ref().is_some_and(|to| other.away && to.send(ToReader::Recall).is_ok());
            if sent {
                asked += 1;
                let _ = other.waker.wake();
            }
        }
        while asked > 0 && !self.lost {
            match self.from.recv() {
                Ok(message) => asked -= usize::from(self.take(message, &mut back, shared)),
                Err(_) => self.lost = true,
            }
        }
        back
    }

    /// Takes a message; whether it answers a recall.
    fn take(&mut self, message: FromReader, back: &mut Vec<Box<Connection>>, shared: &mut ServerState) -> bool {
        let (index, mut connections, is_recalled) = match message {
            FromReader::Report(report) => {
                absorb(shared, *report);
                return false;
            }
            FromReader::Lost => {
                self.lost = true;
                return false;
            }
            FromReader::Back(index, connections) => (index, connections, false),
            FromReader::Recalled(index, connections, report) => {
                absorb(shared, *report);
                (index, connections, true)
            }
        };
        self.others[index].lent -= connections.len();
        self.others[index].away &= !is_recalled;
        connections.iter_mut().for_each(|connection| self.register(connection));
        if !is_recalled {
            let first = shared.options.lend_after;
            connections.iter_mut().for_each(|connection| connection.client.has_come_back(first));
        }
        back.append(&mut connections);
        is_recalled
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for other in &mut self.others {
            other.to = None;
            let _ = other.waker.wake();
        }
        for thread in self.others.iter_mut().filter_map(|other| other.thread.take()) {
            // A panic was printed and has ended the server.
            let _ = thread.join();
        }
    }
}

/// Adds the counters of another loop to those of the server.
fn absorb(shared: &mut ServerState, report: Report) {
    shared.metrics.absorb(report.metrics);
    shared.slowlog.absorb(report.slowlog, shared.options.slowlog_len);
    shared.latency.absorb(report.latency);
}

/// Tells the first loop when this thread panics, which would else wait for it.
struct Alarm(Sender<FromReader>, Arc<Waker>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.send(FromReader::Lost);
            let _ = self.1.wake();
        }
    }
}

/// The life of a further loop's thread.
fn live(
    index: usize,
    poll: Poll,
    inbox: Receiver<ToReader>,
    home: Sender<FromReader>,
    first: Arc<Waker>,
    (options, address): (Options, SocketAddr),
    tables: &Arc<Tables>,
) {
    let _alarm = Alarm(home.clone(), Arc::clone(&first));
    let shared = ServerState::over(options, address, Arc::clone(tables));
    Reader::new(index, poll, inbox, (home, first), shared).run(tables);
}

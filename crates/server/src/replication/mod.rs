//! Replication: a primary, its replicas, and replicas of replicas.
//!
//! A server is a primary until REPLICAOF names one for it. A replica holds the keys that a version
//! of its primary had: it is sent the difference of two versions and applies it in one batch. It
//! refuses writes of its clients. Any server feeds the replicas that ask it.
//!
//! Positions and histories `position.rs`, versions that are kept for replicas `kept.rs`, a
//! replica's thread on the primary `feed.rs`, the replica's own `link.rs`, the bytes between them
//! `frame.rs`, applying `keyspace/replicated.rs`, the event loop's part `iteration/replicate.rs`.
//!
//! Invariants
//!   REPL-6  A server that hands over asks the replica to become a primary until that one, which is
//!           one then, has answered: after a restart, too. So a replica that was chosen becomes the
//!           primary, whichever of the two servers restarts.
//!
//! Design: docs/design/replication.md

mod feed;
mod frame;
mod kept;
mod link;
mod position;
mod recent;
#[cfg(test)]
mod tests;
mod transfer;
mod wire;

use crate::error::{Error, Result};
use crate::keyspace::{LOCAL, ReplicatedTables, Tables};
use everbyte_kv::Error as KvError;
use everbyte_media::{Damage, seeded};
use feed::Feed;
use mio::Waker;
use parking_lot::Mutex;
use recent::Recent;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) use frame::{Item, PROTOCOL, Plan};
pub(crate) use kept::KeptVersions;
pub(crate) use link::{LinkState, Patch, PrimaryLink, Target};
pub(crate) use position::{History, Position, ReplicaOrigin, RunId};
pub(crate) use transfer::patches_of;

/// The name of the record of a replica's origin in the table of replication.
pub(crate) const ORIGIN: &[u8] = kept::ORIGIN;
/// That of the history.
const HISTORY: &[u8] = b"history";
/// That of the primary's address.
const PRIMARY: &[u8] = b"primary";
/// That of a handover that has not been answered: the address of the replica that takes over.
const HANDOVER: &[u8] = b"handover";
/// That of the number of the table's format.
const FORMAT: &[u8] = b"format";
/// The format that this server writes.
const FORMAT_NOW: &[u8] = &[2];

/// A record of the table of replication is none that a server has written.
fn damaged() -> KvError {
    let detail = "a record of the server's table of replication is malformed".into();
    KvError::from(Damage { detail, ..Damage::default() })
}

/// Whether a version is a mixture of two versions of a primary.
pub(crate) fn is_mixed(kv: &everbyte_kv::Kv, version: &everbyte_kv::Snapshot) -> bool {
    let local = kv.open_table(LOCAL);
    local.is_ok_and(|local| kept::origin_of(version, &local).is_ok_and(|origin| origin.is_between()))
}

/// A primary's host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrimaryAddress {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl PrimaryAddress {
    /// Reads `HOST:PORT`.
    pub(crate) fn parse(text: &str) -> Option<PrimaryAddress> {
        let (host, port) = text.rsplit_once([':', ' '])?;
        let host = host.trim().trim_start_matches('[').trim_end_matches(']');
        let port = port.trim().parse().ok()?;
        (!host.is_empty()).then(|| PrimaryAddress { host: host.into(), port })
    }
}

/// A replica that is connected here.
pub(crate) struct Replica {
    /// Its connection's number.
    pub client: u64,
    /// Its connection's slot.
    pub slot: usize,
    /// Its address.
    pub host: String,
    /// The port on which it listens.
    pub port: u16,
    /// Its thread's handover.
    pub feed: Arc<Feed>,
    thread: JoinHandle<()>,
    /// The version that it has acknowledged.
    acknowledged: u64,
    /// When it last sent something.
    pub seen_at: Instant,
}

impl Replica {
    /// The version of this store that it has settled; 0: none.
    pub(crate) fn settled(&self) -> u64 {
        self.acknowledged.max(self.feed.found())
    }

    /// Whether it listens there.
    pub(crate) fn is_at(&self, address: &PrimaryAddress) -> bool {
        let host = if address.host == "localhost" { "127.0.0.1" } else { &address.host };
        self.host == host && self.port == address.port
    }
}

/// See [`Replication::aim`].
pub(crate) struct Aim {
    primary: Option<PrimaryAddress>,
    requests: Vec<Request>,
    again: Vec<Request>,
    failover: Option<Failover>,
}

/// A primary is about to hand its part over.
#[derive(Clone)]
pub(crate) struct Failover {
    /// The replica; `None`: the first that has everything.
    pub to: Option<PrimaryAddress>,
    /// Whether the replica takes over at the deadline whatever it lacks.
    pub force: bool,
    /// Milliseconds since 1970 at which it is given up.
    pub deadline: Option<u64>,
}

/// A thing to be done between two iterations, when there is no batch.
#[derive(Clone)]
pub(crate) enum Request {
    /// A client asks for the stream.
    Attach {
        /// Its number and slot.
        client: (u64, usize),
        /// Its address.
        host: String,
        /// The port on which it listens.
        port: u16,
        /// The source of its keys.
        origin: ReplicaOrigin,
        /// Whether it has asked this server to become a primary first.
        hands_over: bool,
    },
    /// This server becomes a replica; it asks the primary to become one if the flag is set.
    Follow(PrimaryAddress, bool),
    /// This server becomes a primary.
    Promote,
}

/// See the head of this file.
pub(crate) struct Replication {
    tables: Arc<Tables>,
    /// This run.
    pub run: RunId,
    /// The version that this run has found.
    found: u64,
    history: History,
    /// The source of the keys.
    pub origin: ReplicaOrigin,
    /// Patches that lead to a mixture and are not settled.
    mixed_unsettled: usize,
    /// The position of the keys that this server's last run has left, as long as the version after
    /// it is the newest.
    left: Option<(Position, u64)>,
    kept: Option<Arc<KeptVersions>>,
    /// The changes of the newest commits.
    recent: Arc<Recent>,
    /// The servers above this one.
    above: Arc<Mutex<Vec<RunId>>>,
    /// The event loop.
    pub waker: Option<Arc<Waker>>,
    /// The primary, if this server is a replica or about to be one.
    pub primary: Option<PrimaryAddress>,
    /// The replica that this server, its primary until now, asks to take over, until it answers.
    pub handover: Option<PrimaryAddress>,
    /// The way to it.
    pub link: Option<PrimaryLink>,
    /// Those that are connected here.
    pub replicas: Vec<Replica>,
    /// Threads of those that have left.
    ending: Vec<JoinHandle<()>>,
    /// To be done before the next iteration.
    pub requests: Vec<Request>,
    /// Those that have failed, for the next tick.
    pub again: Vec<Request>,
    /// Whether the origin has to be read again: a patch was lost.
    pub reloads: bool,
    /// The part of the primary is about to be handed over.
    pub failover: Option<Failover>,
    /// Patches of a script, beside a link.
    pub injected: VecDeque<Patch>,
    /// The source of the keys that are settled, since this server is a replica.
    pub settled_origin: Option<ReplicaOrigin>,
    /// The version of the last commit of the event loop.
    pub committed: u64,
}

impl Replication {
    /// Of a server that opens these tables, before [`Replication::load`].
    pub(crate) fn new(tables: &Arc<Tables>) -> Replication {
        Replication {
            tables: Arc::clone(tables),
            run: RunId::random(),
            found: 0,
            history: History::default(),
            origin: ReplicaOrigin::Own,
            mixed_unsettled: 0,
            left: None,
            kept: None,
            recent: Arc::default(),
            above: Arc::default(),
            waker: None,
            primary: None,
            handover: None,
            link: None,
            replicas: Vec::new(),
            ending: Vec::new(),
            requests: Vec::new(),
            again: Vec::new(),
            reloads: false,
            failover: None,
            injected: VecDeque::new(),
            settled_origin: None,
            committed: 0,
        }
    }

    /// Reads the records of the last run, and adds this one to the history if there is one.
    pub(crate) fn load(&mut self) -> Result<()> {
        self.read().map_err(|source| Error::Open { source })
    }

    fn read(&mut self) -> everbyte_kv::Result<()> {
        let tables = Arc::clone(&self.tables);
        self.found = tables.kv.newest_version()?.get();
        let Some(local) = tables.local() else { return Ok(()) };
        let parse = |bytes: Vec<u8>| History::parse(&bytes).ok_or_else(damaged);
        self.history = local.get(HISTORY)?.map(parse).transpose()?.unwrap_or_default();
        self.origin = self.stored_origin()?;
        let address = |bytes: Vec<u8>| PrimaryAddress::parse(&String::from_utf8_lossy(&bytes));
        self.primary = local.get(PRIMARY)?.and_then(address);
        if !seeded("server-handover-forgotten") {
            self.handover = local.get(HANDOVER)?.and_then(address);
        }
        match local.get(FORMAT)?.as_deref() {
            Some(FORMAT_NOW) => {}
            None => kept::remove_old_names(&tables.kv)?,
            Some(_) => return Err(damaged()),
        }
        if let Some((run, _)) = self.history.0.last().copied() {
            let kept = KeptVersions::open(&tables.kv, local, &self.recent)?;
            let version = self.found.saturating_sub(1);
            let last = Position { run, version };
            let is_marked = matches!(kept.find(&last, &self.history), kept::Found::At(_));
            self.add_run()?;
            self.left = is_marked.then_some((last, self.found + 1));
            self.kept = Some(Arc::new(kept));
        }
        Ok(())
    }

    /// Makes the table of replication if there is none. The caller has no batch.
    pub(crate) fn make_table(&self) -> everbyte_kv::Result<()> {
        self.tables.make_local().map(drop)
    }

    fn stored_origin(&self) -> everbyte_kv::Result<ReplicaOrigin> {
        let Some(local) = self.tables.local() else { return Ok(ReplicaOrigin::Own) };
        let mut batch = self.tables.kv.batch();
        let value = batch.table(local)?.get(ORIGIN)?;
        value.map_or(Ok(ReplicaOrigin::Own), |bytes| ReplicaOrigin::parse(&bytes).ok_or_else(damaged))
    }

    /// Writes records of the table of replication; `None` removes one. Settled on return.
    fn store(&self, records: &[(&[u8], Option<Vec<u8>>)]) -> everbyte_kv::Result<()> {
        let (kv, local) = (&self.tables.kv, self.tables.make_local()?);
        let mut batch = kv.batch();
        for (name, value) in records {
            match value {
                Some(value) => batch.table(local)?.put(name, value)?,
                None => batch.table(local)?.delete(name)?,
            };
        }
        let before = batch.follows();
        let commit = batch.commit()?;
        if commit.version() > before {
            self.recent.add(commit.version().get(), Vec::new());
        }
        kv.settle(commit)
    }

    /// Adds this run to the history, once: callers try again after an error.
    fn add_run(&mut self) -> everbyte_kv::Result<()> {
        if self.history.0.last().is_some_and(|(run, _)| *run == self.run) {
            return Ok(());
        }
        let mut history = self.history.clone();
        history.add(self.run, self.found);
        self.store(&[(HISTORY, Some(history.bytes())), (FORMAT, Some(FORMAT_NOW.to_vec()))])?;
        self.history = history;
        Ok(())
    }

    /// The kept versions; from now on there is a history.
    fn kept(&mut self) -> everbyte_kv::Result<Arc<KeptVersions>> {
        if let Some(kept) = &self.kept {
            return Ok(Arc::clone(kept));
        }
        self.add_run()?;
        let kept = Arc::new(KeptVersions::open(&self.tables.kv, self.tables.make_local()?, &self.recent)?);
        self.kept = Some(Arc::clone(&kept));
        Ok(kept)
    }

    /// Whether this server takes no writes from clients.
    pub(crate) fn is_replica(&self) -> bool {
        self.primary.is_some()
    }

    /// Whether the keys that a client would see, in the newest version or in the one that is
    /// settled, may be a mixture of two versions of the primary.
    pub(crate) fn is_mixed(&self) -> bool {
        let settled_mixed = self.settled_origin.as_ref().is_some_and(ReplicaOrigin::is_between);
        self.origin.is_between() || self.mixed_unsettled > 0 || settled_mixed
    }

    /// A patch was applied, and is not settled.
    pub(crate) fn applied(&mut self, origin: &ReplicaOrigin) {
        self.origin = origin.clone();
        self.mixed_unsettled += usize::from(origin.is_between());
    }

    /// A patch that was applied is settled.
    pub(crate) fn settled(&mut self, origin: ReplicaOrigin) {
        self.mixed_unsettled = self.mixed_unsettled.saturating_sub(usize::from(origin.is_between()));
        self.settled_origin = Some(origin);
    }

    /// This server is to become a replica, by the request that is given. Earlier requests to become
    /// one, or a primary, no longer count.
    pub(crate) fn ask_to_follow(&mut self, address: PrimaryAddress, takes_over: bool) {
        self.drop_requests();
        self.primary = Some(address.clone());
        self.requests.push(Request::Follow(address, takes_over));
    }

    /// A replica is to become a primary; it stays a replica, which refuses writes, until it has.
    pub(crate) fn ask_to_promote(&mut self) {
        self.drop_requests();
        if self.is_replica() {
            self.requests.push(Request::Promote);
        }
    }

    /// Whether this server follows an address, and is not about to do anything else.
    pub(crate) fn follows(&self, address: &PrimaryAddress) -> bool {
        let promotes = self.requests.iter().chain(&self.again).any(|request| matches!(request, Request::Promote));
        self.primary.as_ref() == Some(address) && !promotes
    }

    /// The part that this server plays, or is about to.
    pub(crate) fn aim(&self) -> Aim {
        Aim {
            primary: self.primary.clone(),
            requests: self.requests.clone(),
            again: self.again.clone(),
            failover: self.failover.clone(),
        }
    }

    /// Takes back what a transaction has asked for: nothing of it has been done yet.
    pub(crate) fn set_aim(&mut self, aim: Aim) {
        (self.primary, self.requests, self.again, self.failover) = (aim.primary, aim.requests, aim.again, aim.failover);
    }

    fn drop_requests(&mut self) {
        for list in [&mut self.requests, &mut self.again] {
            list.retain(|request| matches!(request, Request::Attach { .. }));
        }
    }

    /// Begins to feed a client. The caller has no batch.
    pub(crate) fn attach(
        &mut self,
        client: (u64, usize),
        host: String,
        port: u16,
        origin: ReplicaOrigin,
        keep: Duration,
    ) -> Result<()> {
        let kept = self.kept().map_err(|source| Error::Store { source })?;
        let feed = feed::start(feed::Start {
            kept,
            tables: ReplicatedTables(Arc::clone(&self.tables)),
            recent: Arc::clone(&self.recent),
            history: self.history.clone(),
            run: self.run,
            above: Arc::clone(&self.above),
            origin,
            address: (host.clone(), port),
            keep,
            waker: self.waker.clone(),
        });
        let failed = |source| Error::System { action: "start the feed of a replica", source };
        let ((feed, thread), (client, slot)) = (feed.map_err(failed)?, client);
        let seen_at = Instant::now();
        self.replicas.push(Replica { client, slot, host, port, feed, thread, acknowledged: 0, seen_at });
        Ok(())
    }

    /// A connection has ended.
    pub(crate) fn forget(&mut self, client: u64) {
        for replica in self.replicas.extract_if(.., |replica| replica.client == client) {
            replica.feed.close();
            self.ending.push(replica.thread);
        }
        self.ending.retain(|thread| !thread.is_finished());
    }

    /// This server becomes a replica of another one, or of the same one again. The caller has no
    /// batch.
    pub(crate) fn follow(&mut self, target: Target) -> Result<()> {
        let store = |source| Error::Store { source };
        self.link = None;
        self.kept().map_err(store)?;
        self.reload().map_err(store)?;
        if self.origin == ReplicaOrigin::Own
            && let Some(position) = self.own_position().map_err(store)?
        {
            self.origin = ReplicaOrigin::At(position);
        }
        let address = PrimaryAddress { host: target.host.clone(), port: target.port };
        let text = format!("{}:{}", address.host, address.port).into_bytes();
        // REPL-6
        let handover = target.takes_over.then(|| text.clone());
        let records = [(ORIGIN, Some(self.origin.bytes())), (PRIMARY, Some(text)), (HANDOVER, handover)];
        self.store(&records).map_err(store)?;
        self.handover = target.takes_over.then(|| address.clone());
        self.primary = Some(address);
        self.left = None;
        self.settled_origin = Some(self.origin.clone());
        let (above, waker) = (Arc::clone(&self.above), self.waker.clone());
        let link = PrimaryLink::start(target, self.origin.clone(), self.run, above, waker);
        self.link = Some(link.map_err(|source| Error::System { action: "start the link to the primary", source })?);
        Ok(())
    }

    /// The position of the keys of a server that was no replica.
    fn own_position(&mut self) -> everbyte_kv::Result<Option<Position>> {
        let newest = self.tables.kv.newest_version()?.get();
        if let Some((position, after)) = self.left
            && after == newest
        {
            return Ok(Some(position));
        }
        let held = self.kept()?.newest(Duration::MAX, None)?;
        Ok(held.map(|held| Position { run: self.run, version: held.version() }))
    }

    /// Reads the source of the keys of the newest version.
    fn reload(&mut self) -> everbyte_kv::Result<()> {
        self.origin = self.stored_origin()?;
        Ok(())
    }

    /// The same after a patch was lost, when everything is settled.
    pub(crate) fn reload_settled(&mut self) -> everbyte_kv::Result<()> {
        self.reload()?;
        (self.settled_origin, self.mixed_unsettled) = (Some(self.origin.clone()), 0);
        Ok(())
    }

    /// This server becomes a primary: its keys are its own from now on. Replicas of its primary
    /// that are at the same position may go on from here. Whether it has: while the keys are a
    /// mixture it stays a replica, and its link goes on. The caller has no batch.
    ///
    /// # Errors
    /// The store cannot settle; the server is still a replica.
    pub(crate) fn promote(&mut self, keep: Duration) -> Result<bool> {
        let store = |source| Error::Store { source };
        self.reload().map_err(store)?;
        if self.origin.is_between() {
            return Ok(false);
        }
        if self.origin != ReplicaOrigin::Own {
            let kept = self.kept().map_err(store)?;
            kept.leave(kept.newest(keep, Some(&self.origin)).map_err(store)?, None);
        }
        self.store(&[(ORIGIN, None), (PRIMARY, None), (HANDOVER, None)]).map_err(store)?;
        (self.link, self.primary, self.handover) = (None, None, None);
        (self.origin, self.settled_origin) = (ReplicaOrigin::Own, None);
        self.above.lock().clear();
        Ok(true)
    }

    /// Forgets a handover that was answered: the replica is a primary. The caller has no batch.
    pub(crate) fn end_handover(&mut self) -> everbyte_kv::Result<()> {
        let is_over = self.handover.is_some() && self.link.as_ref().is_some_and(PrimaryLink::took_over);
        if is_over {
            self.store(&[(HANDOVER, None)])?;
            self.handover = None;
        }
        Ok(())
    }

    /// A replica has settled a position; whether it is one of this server's.
    pub(crate) fn acknowledge(&mut self, client: u64, position: Position, now: Instant) -> bool {
        let Some(replica) = self.replicas.iter_mut().find(|replica| replica.client == client) else { return false };
        replica.seen_at = now;
        // A version is settled before it is sent (REPL-1); a greater number is not of this server.
        let newest = self.tables.kv.snapshot().version().get();
        if self.history.relation(&position, newest) == position::Relation::Past {
            replica.acknowledged = replica.acknowledged.max(position.version);
        }
        replica.feed.acknowledge(position);
        true
    }

    /// The position of a replica's keys.
    pub(crate) fn position(&self) -> Option<Position> {
        match &self.origin {
            ReplicaOrigin::At(position) => Some(*position),
            ReplicaOrigin::Own | ReplicaOrigin::Between { .. } => None,
        }
    }

    /// The replica that takes over in a failover: one that has everything, or the one that was
    /// asked for, whatever it lacks. The caller has no batch.
    pub(crate) fn successor(&self, force: bool) -> everbyte_kv::Result<Option<PrimaryAddress>> {
        let Some(failover) = &self.failover else { return Ok(None) };
        let newest = self.tables.kv.newest_version()?.get();
        // The commit behind a kept version is the one that gives it its name.
        let is_newest = |version: u64| version.saturating_add(1) >= newest || self.recent.is_nothing(version, newest);
        let has_all = |replica: &&Replica| replica.settled() > 0 && is_newest(replica.settled());
        let wanted = |replica: &&Replica| failover.to.as_ref().is_none_or(|to| replica.is_at(to));
        let found = self.replicas.iter().filter(wanted).find(|replica| force || has_all(replica));
        Ok(found.map(|replica| PrimaryAddress { host: replica.host.clone(), port: replica.port }))
    }

    /// Versions of replicas that have been away for too long lose their names. The caller has no
    /// batch.
    pub(crate) fn prune(&self, keep: Duration) -> everbyte_kv::Result<()> {
        self.kept.as_ref().map_or(Ok(()), |kept| kept.prune(keep))
    }

    /// How many versions are kept for replicas that are away.
    pub(crate) fn away_count(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.away_count())
    }

    /// Whether there are replicas here.
    pub(crate) fn has_replicas(&self) -> bool {
        !self.replicas.is_empty()
    }

    /// The event loop has committed up to a version, with these changes.
    pub(crate) fn committed(&mut self, version: u64, commits: Vec<(u64, Option<Vec<Item>>)>) {
        self.committed = version;
        for (version, items) in commits {
            if let Some(items) = items {
                self.recent.add(version, items);
            }
        }
    }

    /// The replicas that have settled a version.
    pub(crate) fn settled_count(&self, version: u64) -> usize {
        self.replicas.iter().filter(|replica| replica.settled() >= version).count()
    }
}

impl Drop for Replication {
    fn drop(&mut self) {
        self.replicas.iter().for_each(|replica| replica.feed.close());
        // The threads hold the store.
        let threads = self.replicas.drain(..).map(|replica| replica.thread);
        for thread in threads.chain(self.ending.drain(..)) {
            let _ = thread.join(); // it catches its panics
        }
    }
}

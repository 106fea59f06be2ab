//! Feeds without a network: what a replica has after each transfer, wherever it began. `link` has
//! the replica's side.

mod link;

use super::feed::{self, Feed, Start};
use super::frame::{Frame, Item, Plan};
use super::kept::KeptVersions;
use super::link::{Assembly, Patch, find_frame};
use super::position::{History, Position, Relation, ReplicaOrigin, RunId};
use super::recent::Recent;
use super::transfer::Walk;
use super::{Failover, Replication};
use crate::error::Error;
use crate::keyspace::{ReplicatedTables, Tables};
use everbyte_kv::Kv;
use everbyte_store::{CreateOptions, Store};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A primary's store.
pub(super) struct Primary {
    kv: Kv,
    tables: Arc<Tables>,
    recent: Arc<Recent>,
    kept: Arc<KeptVersions>,
    history: History,
    pub(super) run: RunId,
    _folder: tempfile::TempDir,
}

impl Primary {
    pub(super) fn new() -> Primary {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let store = Store::create(&folder.path().join("store"), &CreateOptions::default()).unwrap();
        let kv = Kv::open_or_create(&store, "kv").unwrap();
        let tables = Arc::new(Tables::open(kv.clone()).unwrap());
        let recent = Arc::new(Recent::default());
        let kept = Arc::new(KeptVersions::open(&kv, tables.make_local().unwrap(), &recent).unwrap());
        let run = RunId::random();
        let mut history = History::default();
        history.add(run, 0);
        Primary { kv, tables, recent, kept, history, run, _folder: folder }
    }

    /// The position of the newest version, which is kept.
    fn keep(&self) -> Position {
        let kept = self.kept.newest(Duration::MAX, None).unwrap().unwrap();
        // As a replica that has left.
        self.kept.leave([Arc::clone(&kept)], None);
        Position { run: self.run, version: kept.version() }
    }

    fn pairs(&self) -> Pairs {
        let (tables, snapshot) = (ReplicatedTables(Arc::clone(&self.tables)), self.kv.snapshot());
        let mut all = Pairs::new();
        for place in 0..ReplicatedTables::COUNT {
            for pair in tables.entries(place, &snapshot, std::ops::Bound::Unbounded).unwrap() {
                let (key, value) = pair.unwrap();
                all.insert([&[place], &key[..]].concat(), value);
            }
        }
        all
    }

    pub(super) fn start(&self, origin: ReplicaOrigin, port: u16) -> Start {
        Start {
            kept: Arc::clone(&self.kept),
            tables: ReplicatedTables(Arc::clone(&self.tables)),
            recent: Arc::clone(&self.recent),
            history: self.history.clone(),
            run: self.run,
            above: Arc::default(),
            origin,
            address: ("127.0.0.1".into(), port),
            keep: Duration::MAX,
            waker: None,
        }
    }

    fn feed(&self, origin: ReplicaOrigin, port: u16) -> (Arc<Feed>, JoinHandle<()>) {
        feed::start(self.start(origin, port)).unwrap()
    }
}

/// A replica that applies what a feed sends.
struct Replica {
    feed: Arc<Feed>,
    thread: JoinHandle<()>,
    assembly: Assembly,
    pairs: Pairs,
    origin: ReplicaOrigin,
    plan: Option<Plan>,
}

impl Replica {
    fn new(primary: &Primary, origin: ReplicaOrigin, pairs: Pairs) -> Replica {
        Replica::at(primary, 1, origin, pairs)
    }

    fn at(primary: &Primary, port: u16, origin: ReplicaOrigin, pairs: Pairs) -> Replica {
        let (feed, thread) = primary.feed(origin.clone(), port);
        Replica { feed, thread, assembly: Assembly::new(origin.clone(), 1 << 20), pairs, origin, plan: None }
    }

    fn apply(&mut self, patch: Patch) {
        for item in patch.items {
            match item {
                Item::Put(key, value) => drop(self.pairs.insert(key, value)),
                Item::Delete(key) => drop(self.pairs.remove(&key)),
                Item::Clear(from, to) => self.pairs.retain(|key, _| *key < from || *key >= to),
            }
        }
        self.origin = patch.origin;
    }

    /// Takes frames to the end of a transfer, and acknowledges it.
    fn transfer(&mut self) {
        let end = Instant::now() + Duration::from_secs(300);
        self.feed.poke();
        loop {
            let Some(bytes) = self.feed.take() else {
                assert!(Instant::now() < end && !self.feed.is_closed(), "a transfer ends");
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            let (frame, rest) = find_frame(&bytes).unwrap();
            assert!(rest.is_empty());
            if let Ok(Frame::Greeting { plan, .. }) = Frame::parse(frame, 0) {
                self.plan = Some(plan);
            }
            if let Some(patch) = self.assembly.take(frame).unwrap() {
                self.apply(patch);
                let ReplicaOrigin::At(position) = self.origin else { panic!("a small transfer is one patch") };
                return self.feed.acknowledge(position);
            }
        }
    }

    fn end(self) {
        self.feed.close();
        self.thread.join().unwrap();
    }
}

/// Keys of 0 to 99, of which some change with the round.
fn write(kv: &Kv, round: u8) {
    let mut batch = kv.batch();
    for key in (0..100).filter(|key| key % (round + 2) == 0) {
        batch.put(&[b'k', key], &[round; 40]).unwrap();
    }
    batch.delete(&[b'k', 6 * round]).unwrap();
    batch.put(&[b'n', round], b"new").unwrap();
    let commit = batch.commit().unwrap();
    kv.settle(commit).unwrap();
}

#[test]
fn a_transfer_that_was_cut_goes_on_behind_its_cursor() {
    let primary = Primary::new();
    write(&primary.kv, 1);
    let (base, before) = (primary.keep(), primary.pairs());
    write(&primary.kv, 2);
    let (target, after) = (primary.keep(), primary.pairs());
    // The first parts of the transfer from the one to the other, or of a copy.
    for base in [Some(base), None] {
        let snapshot = |position: &Position| match primary.kept.find(position, &primary.history) {
            super::kept::Found::At(kept) => kept.snapshot.clone(),
            super::kept::Found::Nothing(relation) => panic!("{relation:?}"),
        };
        let (tables, from, to) =
            (ReplicatedTables(Arc::clone(&primary.tables)), base.as_ref().map(snapshot), snapshot(&target));
        let walk = Walk { tables: &tables, base: from.as_ref(), target: &to, part_size: 500 };
        let mut parts = Vec::new();
        walk.run(&[], &mut |part| {
            parts.push(part);
            Some(())
        })
        .unwrap();
        assert!(parts.len() > 3);
        for count in [1, parts.len() - 1] {
            let mut replica = Replica::new(&primary, ReplicaOrigin::Own, before.clone());
            replica.feed.close();
            let mut cut = Vec::new();
            for part in &parts[..count] {
                let Frame::Part { items, cursor } = part else { panic!("a part") };
                cut.clone_from(cursor);
                replica.apply(Patch { items: items.clone(), from: ReplicaOrigin::Own, origin: ReplicaOrigin::Own });
            }
            let pairs = std::mem::take(&mut replica.pairs);
            replica.end();
            let mut replica = Replica::new(&primary, ReplicaOrigin::Between { target, base, cursor: cut }, pairs);
            replica.transfer();
            assert_eq!(replica.plan, Some(Plan::Rest));
            assert_eq!((&replica.pairs, &replica.origin), (&after, &ReplicaOrigin::At(target)));
            // And then on to the newest version.
            write(&primary.kv, 3);
            primary.kv.put(b"and", b"more").unwrap();
            replica.transfer();
            assert_eq!(replica.pairs, primary.pairs());
            replica.end();
        }
    }
}

/// A replica is sent the difference if its version is kept, and everything if not; never the
/// difference from another version.
#[test]
fn the_answer_follows_from_the_history() {
    let mut primary = Primary::new();
    write(&primary.kv, 1);
    let (known, before) = (primary.keep(), primary.pairs());
    let forgotten = Position { version: known.version - 1, ..known };
    let lost = Position { version: known.version + 100, ..known };
    let stranger = Position { run: RunId::random(), ..known };
    let garbage = Pairs::from([(b"\0own".to_vec(), b"of another history".to_vec())]);
    for (origin, pairs, plan) in [
        (ReplicaOrigin::At(known), &before, Plan::Difference),
        (ReplicaOrigin::At(forgotten), &garbage, Plan::WholeGone),
        (ReplicaOrigin::At(lost), &garbage, Plan::WholeDiverged),
        (ReplicaOrigin::At(stranger), &garbage, Plan::WholeUnknown),
        (ReplicaOrigin::Own, &garbage, Plan::WholeUnknown),
        (
            ReplicaOrigin::Between { target: lost, base: Some(known), cursor: b"\0k".into() },
            &garbage,
            Plan::WholeDiverged,
        ),
        (
            ReplicaOrigin::Between { target: known, base: Some(forgotten), cursor: b"\0k".into() },
            &garbage,
            Plan::WholeGone,
        ),
    ] {
        write(&primary.kv, 2);
        let mut replica = Replica::new(&primary, origin, pairs.clone());
        replica.transfer();
        assert_eq!(replica.plan, Some(plan));
        assert_eq!(replica.pairs, primary.pairs(), "{plan:?}");
        replica.end();
    }
    // The next run has found an older version than the replica has: a number that was given twice.
    let run = RunId::random();
    primary.history.add(run, known.version - 2);
    primary.run = run;
    let mut replica = Replica::new(&primary, ReplicaOrigin::At(known), before);
    replica.transfer();
    assert_eq!((replica.plan, &replica.pairs), (Some(Plan::WholeDiverged), &primary.pairs()));
    replica.end();
}

/// A replica that comes with the newest keys has settled them, though it is sent nothing.
#[test]
fn a_replica_that_has_everything_counts_at_once() {
    let primary = Primary::new();
    write(&primary.kv, 1);
    let position = primary.keep();
    for (origin, found) in [(ReplicaOrigin::At(position), position.version), (ReplicaOrigin::Own, 0)] {
        let (feed, thread) = primary.feed(origin, 1);
        let end = Instant::now() + Duration::from_secs(300);
        while feed.take().is_none() {
            assert!(Instant::now() < end, "it is greeted");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(feed.found(), found);
        feed.close();
        thread.join().unwrap();
    }
}

/// A replica that ends its transfer to a position of another run has settled that of this store.
#[test]
fn a_rest_of_another_run_counts_once_it_is_acknowledged() {
    let primary = Primary::new();
    write(&primary.kv, 1);
    let foreign = Position { run: RunId::random(), version: 7 };
    let mut batch = primary.kv.batch();
    let local = primary.tables.local().unwrap();
    batch.table(local).unwrap().put(super::ORIGIN, &ReplicaOrigin::At(foreign).bytes()).unwrap();
    let commit = batch.commit().unwrap();
    primary.kv.settle(commit).unwrap();
    let (here, cursor) = (primary.keep(), b"\0k".to_vec());
    let origin = ReplicaOrigin::Between { target: foreign, base: None, cursor };
    let mut replica = Replica::new(&primary, origin, Pairs::new());
    assert_eq!(replica.feed.found(), 0);
    replica.transfer();
    assert_eq!((replica.plan, &replica.origin), (Some(Plan::Rest), &ReplicaOrigin::At(foreign)));
    let end = Instant::now() + Duration::from_secs(20);
    while replica.feed.found() != here.version {
        assert!(Instant::now() < end, "{} is found, not {}", replica.feed.found(), here.version);
        std::thread::sleep(Duration::from_millis(1));
    }
    replica.end();
}

/// Replicas come while the store has no room for the record of the run: it is added once, and
/// positions of the run count when there is room.
#[test]
fn a_run_that_could_not_be_stored_is_added_once() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let options = CreateOptions { max: 16 << 20, ..Default::default() };
    let store = Store::create(&folder.path().join("store"), &options).unwrap();
    let kv = Kv::open_or_create(&store, "kv").unwrap();
    let mut replication = Replication::new(&Arc::new(Tables::open(kv.clone()).unwrap()));
    replication.load().unwrap();
    let mut numbers = 0u64..;
    for size in [1 << 20, 1 << 10, 1] {
        while kv.put(&numbers.next().unwrap().to_be_bytes(), &vec![7; size]).is_ok() {}
    }
    let mut attach = || replication.attach((1, 0), "127.0.0.1".into(), 1, ReplicaOrigin::Own, Duration::MAX);
    for _ in 0..3 {
        assert!(matches!(attach(), Err(Error::Store { .. })));
    }
    store.grow(64 << 20).unwrap();
    attach().unwrap();

    kv.put(b"and", b"more").unwrap();
    let version = kv.newest_version().unwrap().get();
    let position = Position { run: replication.run, version };
    assert_eq!(replication.history.relation(&position, version), Relation::Past);
    for version in [version + 1, u64::MAX] {
        assert!(replication.acknowledge(1, Position { version, ..position }, Instant::now()));
        assert_eq!(replication.settled_count(1), 0, "the store has no version {version}");
    }
    assert!(replication.acknowledge(1, position, Instant::now()));
    assert_eq!(replication.settled_count(version), 1);
}

/// The event loop asks for figures while it has a batch, for which a feed may wait.
#[test]
fn the_list_is_free_while_a_name_waits_for_the_writer() {
    let primary = Primary::new();
    write(&primary.kv, 1);
    let position = primary.keep();
    write(&primary.kv, 2);
    let mut batch = primary.kv.batch();
    batch.put(b"of", b"the loop").unwrap();
    let (kept, history) = (Arc::clone(&primary.kept), primary.history.clone());
    let naming = std::thread::spawn({
        let kept = Arc::clone(&kept);
        move || kept.newest(Duration::MAX, None).unwrap().is_some()
    });
    std::thread::sleep(Duration::from_millis(50));
    let (sender, receiver) = std::sync::mpsc::channel();
    let asking = std::thread::spawn(move || {
        kept.leave([], None);
        let found = matches!(kept.find(&position, &history), super::kept::Found::At(_));
        sender.send((found, kept.away_count())).unwrap();
    });
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok((true, 1)), "no lock is held");
    let commit = batch.commit().unwrap();
    primary.kv.settle(commit).unwrap();
    assert!(naming.join().unwrap());
    asking.join().unwrap();
}

/// A server that is promoted keeps its keys under the last position of its primary, and not under
/// an earlier one with the same keys.
#[test]
fn the_same_keys_are_kept_under_each_position_that_is_asked_for() {
    let primary = Primary::new();
    write(&primary.kv, 1);
    let kept = [5, 6].map(|version| {
        let position = Position { run: RunId([9; 20]), version };
        let origin = ReplicaOrigin::At(position);
        let mut batch = primary.kv.batch();
        let local = primary.tables.local().unwrap();
        batch.table(local).unwrap().put(super::ORIGIN, &origin.bytes()).unwrap();
        let commit = batch.commit().unwrap();
        primary.recent.add(commit.version().get(), Vec::new());
        primary.kv.settle(commit).unwrap();
        let held = primary.kept.newest(Duration::MAX, Some(&origin)).unwrap().unwrap();
        let found = primary.kept.find(&position, &primary.history);
        assert!(matches!(found, super::kept::Found::At(found) if Arc::ptr_eq(&found, &held)), "position {version}");
        held
    });
    // A feed takes any of them.
    let any = primary.kept.newest(Duration::MAX, None).unwrap().unwrap();
    assert!(kept.iter().any(|held| Arc::ptr_eq(held, &any)));
}

/// The commit behind the version that a replica has settled may be the one that names it; behind a
/// further one the replica lacks something, and takes over by force alone.
#[test]
fn a_replica_that_lacks_a_commit_takes_over_by_force_alone() {
    let (one, other) = (Primary::new(), Primary::new());
    write(&one.kv, 1);
    let mut replication = Replication::new(&one.tables);
    let (feed, thread) = other.feed(ReplicaOrigin::Own, 1);
    let acknowledged = one.kv.newest_version().unwrap().get();
    let (host, seen_at) = ("127.0.0.1".to_string(), Instant::now());
    replication.replicas.push(super::Replica {
        client: 1,
        slot: 0,
        host,
        port: 7,
        feed,
        thread,
        acknowledged,
        seen_at,
    });
    replication.failover = Some(Failover { to: None, force: true, deadline: None });
    for has_all in [true, true, false, false] {
        assert_eq!(replication.successor(false).unwrap().is_some(), has_all);
        assert!(replication.successor(true).unwrap().is_some());
        one.kv.put(b"and", b"more").unwrap();
    }
}

/// The versions of replicas that do not come back are released without a next one.
#[test]
fn versions_of_replicas_that_stay_away_lose_their_names() {
    let primary = Primary::new();
    write(&primary.kv, 1);
    let position = primary.keep();
    [Duration::from_secs(3600), Duration::ZERO].into_iter().for_each(|keep| primary.kept.prune(keep).unwrap());
    assert_eq!((primary.kept.away_count(), primary.kv.versions().unwrap().len()), (1, 1));
    let held = primary.kept.newest(Duration::MAX, None).unwrap();
    primary.kept.prune(Duration::from_nanos(1)).unwrap();
    assert_eq!((primary.kept.away_count(), primary.kv.versions().unwrap().len()), (0, 1), "a feed holds it");
    primary.kept.leave(held.clone(), None);
    primary.kept.leave(held, None);
    assert_eq!(primary.kept.away_count(), 1, "one version");
    primary.kept.prune(Duration::from_nanos(1)).unwrap();
    assert_eq!((primary.kept.away_count(), primary.kv.versions().unwrap().len()), (0, 0));
    assert!(matches!(primary.kept.find(&position, &primary.history), super::kept::Found::Nothing(_)));
}

/// Of too many replicas that are away those that left first are copied whole.
#[test]
fn the_replicas_that_left_first_are_forgotten_first() {
    let primary = Primary::new();
    let keep = |round| {
        write(&primary.kv, round);
        primary.keep()
    };
    let positions: Vec<Position> = (0..20).map(keep).collect();
    let found = |position| matches!(primary.kept.find(position, &primary.history), super::kept::Found::At(_));
    let kept: Vec<bool> = positions.iter().map(found).collect();
    assert!(!kept[0] && kept[10..].iter().all(|kept| *kept), "{kept:?}");
}

/// Of a replica that is back, and has settled a newer version, nothing is kept but its last
/// versions.
#[test]
fn a_replica_that_comes_and_goes_pushes_out_no_other() {
    let primary = Primary::new();
    write(&primary.kv, 1);
    let mut away = Replica::at(&primary, 1, ReplicaOrigin::Own, Pairs::new());
    away.transfer();
    let (left_at, left_with) = (away.origin.clone(), away.pairs.clone());
    away.end();
    let (mut origin, mut pairs) = (ReplicaOrigin::Own, Pairs::new());
    for round in 1..12 {
        let mut replica = Replica::at(&primary, 2, origin, pairs);
        for number in [2 * round, 2 * round + 1] {
            write(&primary.kv, number);
            replica.transfer(); // begins when the one before is acknowledged
        }
        (origin, pairs) = (replica.origin.clone(), replica.pairs.clone());
        replica.end();
    }
    assert!(primary.kept.away_count() <= 3, "{}", primary.kept.away_count());
    let mut back = Replica::at(&primary, 1, left_at, left_with);
    back.transfer();
    assert_eq!((back.plan, &back.pairs), (Some(Plan::Difference), &primary.pairs()));
    back.end();
}

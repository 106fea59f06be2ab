//! Versions that a primary keeps for its replicas, under names of the store.
//!
//! A primary sends a replica the difference of two kept versions, and nothing else is ever its
//! position. A version is settled under a name before it is sent, so after a crash of either side
//! the primary still holds the version that the replica has. All replicas share them. A version
//! whose replica is away is kept for a time, or until that replica has settled a newer one; then
//! its name goes, and with it the reason to keep its space.
//!
//! Invariants
//!   REPL-1  A version is sent only after it has a settled name, and keeps the name as long as a
//!           replica that is connected may be at it.
//!
//! Giving a name waits for the store's writer, which may be the event loop with its batch, and for
//! the medium. `naming` is held meanwhile; the lock of the list is not, and the event loop takes
//! neither while it has a batch.
//!
//! Threads: those of the feeds (`feed.rs`); the event loop while it has no batch. `away_count` at
//! any time.
//!
//! Design: docs/design/replication.md

use super::position::{History, Position, Relation, ReplicaOrigin};
use super::recent::Recent;
use everbyte_kv::raw::{remove_reserved_version, rename_reserved_versions};
use everbyte_kv::{Kv, KvTable, Result, Snapshot};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The beginning of every kept version's name.
const PREFIX: &str = "server/replica/";
/// That of names in tables without the record `format`.
const OLD_PREFIX: &str = "replica/";
/// Versions of replicas that are away, at most.
const AWAY_MAX: usize = 16;
/// The name of the record of a replica's origin.
pub(super) const ORIGIN: &[u8] = b"origin";

/// See the head of this file.
pub(crate) struct KeptVersion {
    name: String,
    /// The version, held for reading.
    pub snapshot: Snapshot,
    /// The source of the keys of this version.
    origin: ReplicaOrigin,
}

impl KeptVersion {
    /// Its number.
    pub(crate) fn version(&self) -> u64 {
        self.snapshot.version().get()
    }
}

/// All kept versions of a store.
pub(crate) struct KeptVersions {
    kv: Kv,
    /// The table of replication.
    local: KvTable,
    /// The commits that give names change nothing else.
    recent: Arc<Recent>,
    /// The number of the next name. Held until that name is settled.
    naming: Mutex<u64>,
    /// Never held across a batch or a barrier.
    list: Mutex<List>,
    /// Versions of replicas that have left.
    away_count: AtomicUsize,
}

#[derive(Default)]
struct List {
    kept: Vec<Arc<KeptVersion>>,
    /// Those of replicas that have left.
    away: Vec<Away>,
}

/// The host and the port of a replica.
pub(super) type ReplicaAddress = (String, u16);

/// A version of a replica that has left.
struct Away {
    version: Arc<KeptVersion>,
    since: Instant,
    /// The replica; `None`: unknown, as after a start of the server.
    of: Option<ReplicaAddress>,
}

impl List {
    /// Forgets replicas that have been away for longer than `keep`, and those that left first if
    /// they are too many.
    fn drop_away(&mut self, keep: Duration) {
        self.away.retain(|away| !is_over(away.since, keep));
        while self.away_count() > AWAY_MAX {
            self.away.remove(0);
        }
    }

    /// How many versions are kept for replicas that are away: several may be at one.
    fn away_count(&self) -> usize {
        let versions: BTreeSet<u64> = self.away.iter().map(|away| away.version.version()).collect();
        versions.len()
    }

    /// Takes out the versions that no replica needs.
    fn take_unused(&mut self) -> Vec<Arc<KeptVersion>> {
        self.kept.extract_if(.., |held| Arc::strong_count(held) == 1).collect()
    }
}

/// How a replica goes on.
pub(crate) enum Found {
    /// From this kept version.
    At(Arc<KeptVersion>),
    /// Not: the position is of this relation to the history.
    Nothing(Relation),
}

/// The record of the origin in a version.
pub(crate) fn origin_of(snapshot: &Snapshot, local: &KvTable) -> Result<ReplicaOrigin> {
    let value = snapshot.table(local)?.get(ORIGIN)?;
    value.map_or(Ok(ReplicaOrigin::Own), |bytes| ReplicaOrigin::parse(&bytes).ok_or_else(super::damaged))
}

/// Whether a replica has been away for longer than `keep`; never, if that is zero, as in Redis.
fn is_over(since: Instant, keep: Duration) -> bool {
    !keep.is_zero() && since.elapsed() >= keep
}

/// Removes names that were given before names began with [`PREFIX`]. Their replicas are copied
/// whole.
pub(super) fn remove_old_names(kv: &Kv) -> Result<()> {
    let is_old = |name: &str| {
        let number = name.strip_prefix(OLD_PREFIX).unwrap_or_default();
        number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    for found in kv.versions()?.into_iter().filter(|found| is_old(&found.name)) {
        kv.remove_version(&found.name)?;
    }
    Ok(())
}

impl KeptVersions {
    /// The versions that a server left behind, as of replicas that have just left.
    pub(crate) fn open(kv: &Kv, local: &KvTable, recent: &Arc<Recent>) -> Result<KeptVersions> {
        let (mut list, mut next) = (List::default(), 0u64);
        for found in kv.versions()?.into_iter().filter(|found| found.name.starts_with(PREFIX)) {
            let snapshot = kv.open_version(&found.name)?;
            // One of before the table was made is no position of any replica.
            let Ok(origin) = origin_of(&snapshot, local) else { continue };
            let number = u64::from_str_radix(&found.name[PREFIX.len()..], 16).unwrap_or_default();
            next = next.max(number.saturating_add(1));
            let held = Arc::new(KeptVersion { name: found.name, snapshot, origin });
            list.kept.push(Arc::clone(&held));
            list.away.push(Away { version: held, since: Instant::now(), of: None });
        }
        Ok(KeptVersions {
            kv: kv.clone(),
            local: local.clone(),
            recent: Arc::clone(recent),
            naming: Mutex::new(next),
            away_count: AtomicUsize::new(list.away_count()),
            list: Mutex::new(list),
        })
    }

    /// Whether clients of the settled version may see its keys.
    pub(crate) fn is_sendable(&self) -> Result<bool> {
        Ok(!origin_of(&self.kv.snapshot(), &self.local)?.is_between())
    }

    /// The newest settled version has something that `held` has not.
    pub(crate) fn is_behind(&self, held: &KeptVersion) -> bool {
        // The commit that gave the kept version its name is the next one.
        let newest = self.kv.snapshot().version().get();
        newest > held.version() + 1 && !self.recent.is_nothing(held.version(), newest)
    }

    /// The newest version, kept; it gets a name only if it has none. Versions that no replica needs
    /// lose their names with the same commit. `None`: the version is a mixture.
    /// Its source is of no account, unless an origin is given.
    pub(crate) fn newest(&self, keep: Duration, of: Option<&ReplicaOrigin>) -> Result<Option<Arc<KeptVersion>>> {
        let mut next = self.naming.lock();
        let newest = self.kv.newest_version()?.get();
        let is_newest = |held: &&Arc<KeptVersion>| {
            let same = held.version() + 1 == newest || self.recent.is_nothing(held.version(), newest);
            same && of.is_none_or(|origin| held.origin == *origin)
        };
        let old = {
            let mut list = self.list.lock();
            if let Some(held) = list.kept.iter().find(is_newest) {
                return Ok((!held.origin.is_between()).then(|| Arc::clone(held)));
            }
            list.drop_away(keep);
            self.away_count.store(list.away_count(), Relaxed);
            list.take_unused()
        };
        let name = format!("{PREFIX}{:016x}", *next);
        let names: Vec<&str> = old.iter().map(|held| held.name.as_str()).collect();
        let snapshot = match rename_reserved_versions(&self.kv, &names, &name) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                self.list.lock().kept.extend(old);
                return Err(error);
            }
        };
        *next += 1;
        // No other thread has committed between the two.
        self.recent.add(snapshot.version().get() + 1, Vec::new());
        let origin = origin_of(&snapshot, &self.local)?;
        let held = Arc::new(KeptVersion { name, snapshot, origin });
        self.list.lock().kept.push(Arc::clone(&held));
        Ok((!held.origin.is_between()).then_some(held))
    }

    /// Removes the names of versions whose replicas have been away for longer than `keep`. The
    /// caller has no batch.
    pub(crate) fn prune(&self, keep: Duration) -> Result<()> {
        // A thread that gives a name removes them with it.
        let Some(_naming) = self.naming.try_lock() else { return Ok(()) };
        let mut old = {
            let mut list = self.list.lock();
            if list.away.iter().all(|away| !is_over(away.since, keep)) {
                return Ok(());
            }
            list.drop_away(keep);
            self.away_count.store(list.away_count(), Relaxed);
            list.take_unused()
        };
        while let Some(held) = old.pop() {
            if let Err(error) = remove_reserved_version(&self.kv, &held.name) {
                old.push(held);
                self.list.lock().kept.extend(old);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The version of a position: a version of this store, or one whose keys are exactly
    /// those of a position of the same primary.
    pub(crate) fn find(&self, position: &Position, history: &History) -> Found {
        let newest = self.kv.snapshot().version().get();
        let list = self.list.lock();
        let relation = history.relation(position, newest);
        let own = relation == Relation::Past;
        let is_it = |held: &&Arc<KeptVersion>| match own {
            true => held.version() == position.version,
            false => held.origin == ReplicaOrigin::At(*position),
        };
        match list.kept.iter().find(is_it) {
            Some(held) => Found::At(Arc::clone(held)),
            None => Found::Nothing(relation),
        }
    }

    /// A replica that may be at these versions has left.
    pub(crate) fn leave(&self, versions: impl IntoIterator<Item = Arc<KeptVersion>>, of: Option<&ReplicaAddress>) {
        let since = Instant::now();
        let mut list = self.list.lock();
        for version in versions {
            list.away.retain(|away| !(Arc::ptr_eq(&away.version, &version) && away.of.as_ref() == of));
            list.away.push(Away { version, since, of: of.cloned() });
        }
        self.away_count.store(list.away_count(), Relaxed);
    }

    /// A replica is back and has settled a newer version: it needs none of those that it left at.
    pub(super) fn is_back(&self, of: &ReplicaAddress) {
        let mut list = self.list.lock();
        list.away.retain(|away| away.of.as_ref() != Some(of));
        self.away_count.store(list.away_count(), Relaxed);
    }

    /// How many versions are kept for replicas that are away.
    pub(crate) fn away_count(&self) -> usize {
        self.away_count.load(Relaxed)
    }
}

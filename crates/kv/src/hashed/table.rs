//! [`HashTable`]: the versioned hash table of one object, its readers and its one writer.
//!
//! A version, step by step (`HashBatch::commit`):
//!   1. new entries stored to blocks that nothing leads to; the other state, and a ledger: heap
//!      operations and words that are to be stored
//!   2. fence
//!   3. the commit word (v and which state counts) stored and flushed
//!   4. fence, and a barrier where fences do not settle
//!   5. the ledger applied: bits of the heap, links, end stamps; flushed, ordered by the fence of
//!      the next version; v is published and readers see it
//!
//! Invariants
//!   HASH-1  Before its commit a version stores only to blocks that nothing leads to, to the state
//!           that does not count and to that state's ledger.
//!   HASH-2  A ledger is replayed only for the version it belongs to: the effects of earlier ones
//!           were flushed before the fence of step 2 of the version after them. A fence orders what
//!           its own thread flushed: a thread that begins a version after a ledger which another
//!           thread applied flushes those words again.
//!   HASH-3  An entry is unlinked and freed, in one version, once its end is at or below the oldest
//!           version that is published or pinned. Its block is handed out when no crash replays
//!           that version any more.
//!   HASH-4  A chain holds the entries of all versions that may be read, and each is in the bucket
//!           of its hash by the newest number of buckets: readers of any version look there.
//!
//! Threads: any number of readers, which wait only while a ledger is applied; one writer, by a
//! mutex.

use crate::Kv;
use crate::error::{Error, Result};
use crate::hashed::batch::HashBatch;
use crate::hashed::chain::{Chains, Changes};
use crate::hashed::layout::HASH_FINGERPRINT;
use crate::hashed::shape::Shape;
use crate::hashed::snapshot::HashSnapshot;
use crate::hashed::{format, open};
use crate::tree::{Version, thread};
use everbyte_heap::{Block, Heap, Op};
use everbyte_media::lock_order::{RankedMutex, RankedRwLock, rank};
use everbyte_media::{Media, seeded};
use everbyte_store::raw::AsStore;
use everbyte_store::{Claim, Finding};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A key-value store without an order of keys inside a [`Store`](everbyte_store::Store). Cheap to
/// clone; clones are one table, usable from any thread.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("everbyte.store");
/// use everbyte_kv::HashTable;
/// use everbyte_store::{CreateOptions, Store};
///
/// let store = Store::create(&path, &CreateOptions::default())?;
/// let table = HashTable::open_or_create(&store, "sessions")?;
/// table.put(b"4711", b"Ada")?; // durable when it returns
/// let before = table.snapshot();
/// table.put(b"4711", b"Grace")?;
/// assert_eq!(table.get(b"4711")?.as_deref(), Some(&b"Grace"[..]));
/// assert_eq!(before.get(b"4711")?.as_deref(), Some(&b"Ada"[..]));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct HashTable {
    pub(crate) shared: Arc<OpenHash>,
}

// A caught panic leaves what was committed.
impl std::panic::UnwindSafe for HashTable {}
impl std::panic::RefUnwindSafe for HashTable {}

/// An open table.
pub(crate) struct OpenHash {
    pub heap: Heap,
    pub media: Media,
    /// Offset of the table's page.
    pub page: u64,
    /// Offset of the two ledgers.
    pub area: u64,
    pub seed: [u64; 2],
    /// The newest settled version. The lock is held alone while a ledger is applied.
    pub seen: RankedRwLock<{ rank::ENGINE }, Seen>,
    /// Versions that snapshots hold, and how many each.
    pub pins: Mutex<BTreeMap<u64, usize>>,
    pub writer: RankedMutex<{ rank::ENGINE }, Writer>,
    /// The thread that has a batch.
    pub holder: AtomicU64,
    /// The object is this table's alone until it is dropped.
    pub _claim: Claim,
}

/// The newest settled version, and where its entries are found.
pub(crate) struct Seen {
    pub shape: Shape,
    pub version: Version,
    pub keys: u64,
}

/// The writer's volatile state between batches.
pub(crate) struct Writer {
    /// Which of the two states counts.
    pub state: usize,
    /// Ledgers too long for the area, kept reserved while their state counts.
    pub long_ledgers: [Option<Block>; 2],
    /// Heap operations of the ledger in force.
    pub unfinished: Vec<Op>,
    /// Words of the ledger in force.
    pub applied: Vec<u64>,
    /// The thread that applied it (HASH-2).
    pub applied_by: u64,
    /// Entries that have ended, in the order of their ends.
    pub graves: VecDeque<Grave>,
    /// The bucket at which the search for entries that ended before the table was opened goes on.
    pub sweep: Option<u64>,
    /// A commit that was made and could not be settled: the next batch settles and applies it
    /// first.
    pub unsettled: Option<Committed>,
}

/// The part of a commit that follows when it is settled.
pub(crate) struct Committed {
    pub shape: Shape,
    pub version: Version,
    pub keys: u64,
    /// The stores of its ledger.
    pub changes: Changes,
    /// Entries that it ends.
    pub graves: Vec<Grave>,
}

/// An entry that has ended, by its chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grave {
    pub end: Version,
    pub hash: u64,
}

/// Figures of a hash table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashStats {
    /// Live keys of the newest settled version.
    pub keys: u64,
    /// The newest settled version.
    pub version: Version,
    /// The oldest version that some snapshot holds.
    pub oldest: u64,
    /// Buckets.
    pub buckets: u64,
}

impl HashTable {
    /// Creates the table `name`. A crash leaves it whole or absent.
    ///
    /// # Errors
    /// An object of that name exists; out of space.
    pub fn create(store: &impl AsStore, name: &str) -> Result<HashTable> {
        let store = store.as_store();
        Kv::create_object(store, name, HASH_FINGERPRINT, &mut format::format)?;
        HashTable::open(store, name)
    }

    /// Opens the table `name`. The cost does not depend on its size.
    ///
    /// # Errors
    /// No such object, one of another engine, a table with an order ([`Kv`]), damage.
    pub fn open(store: &impl AsStore, name: &str) -> Result<HashTable> {
        let shared = open::open(store.as_store().object(name)?)?;
        Ok(HashTable { shared: Arc::new(shared) })
    }

    /// Opens the table `name`, and creates it if it is absent.
    ///
    /// # Errors
    /// As [`HashTable::open`] and [`HashTable::create`].
    pub fn open_or_create(store: &impl AsStore, name: &str) -> Result<HashTable> {
        match HashTable::open(store, name) {
            Err(Error::Store(error)) if matches!(*error, everbyte_store::Error::NotFound { .. }) => {
                HashTable::create(store, name)
            }
            other => other,
        }
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        self.shared.heap.object().name()
    }

    /// The value of `key` in the newest settled version.
    ///
    /// # Errors
    /// Damage.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let seen = self.shared.seen.read();
        self.shared.get(&seen.shape, None, seen.version, key)
    }

    /// Binds `value` to `key`. Durable on return.
    ///
    /// # Errors
    /// Out of space, limits, damage, a batch of this table in this thread: nothing changed.
    /// Otherwise as [`HashBatch::commit`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = self.begin()?;
        batch.put(key, value)?;
        batch.commit()
    }

    /// Removes `key`; returns whether it existed. Durable on return.
    ///
    /// # Errors
    /// As [`HashTable::put`].
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        let mut batch = self.begin()?;
        let found = batch.delete(key)?;
        batch.commit()?;
        Ok(found)
    }

    /// Takes the writer's lock and begins a batch. Until it is committed or dropped, every other
    /// writer of the table waits.
    ///
    /// # Errors
    /// This thread has a batch of this table already: it would wait for itself. A poisoned store.
    pub fn begin(&self) -> Result<HashBatch<'_>> {
        if self.shared.holder.load(Relaxed) == thread::current() {
            return Err(Error::OwnBatch);
        }
        HashBatch::begin(&self.shared)
    }

    /// The newest settled version, held for reading.
    pub fn snapshot(&self) -> HashSnapshot {
        HashSnapshot::new(&self.shared)
    }

    /// The number of keys.
    pub fn len(&self) -> u64 {
        self.shared.seen.read().keys
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Figures.
    pub fn stats(&self) -> HashStats {
        let oldest = self.shared.oldest();
        let seen = self.shared.seen.read();
        HashStats { keys: seen.keys, version: seen.version, oldest, buckets: seen.shape.buckets }
    }

    /// Gives space back: what ended before the oldest snapshot, some entries at a time. Returns
    /// whether there is more. Writes do it as well.
    ///
    /// # Errors
    /// As [`HashTable::put`].
    pub fn reclaim(&self) -> Result<bool> {
        let mut batch = self.begin()?;
        batch.reclaims = true;
        let oldest = self.shared.oldest();
        batch.commit()?;
        let writer = self.shared.writer.lock();
        Ok(writer.sweep.is_some() || writer.graves.front().is_some_and(|grave| grave.end <= oldest))
    }

    /// Verifies chains, sums, stamps and the ownership of blocks. The cost is that of reading
    /// everything.
    ///
    /// # Panics
    /// If this thread has a batch of this table: it would wait for itself.
    pub fn check(&self) -> Vec<Finding> {
        assert!(self.shared.holder.load(Relaxed) != thread::current(), "{}", Error::OwnBatch);
        self.shared.check()
    }
}

impl OpenHash {
    /// The value of `key` that `version` sees.
    #[inline]
    pub(crate) fn get(
        &self,
        shape: &Shape,
        changes: Option<&Changes>,
        version: Version,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let chains = Chains { table: self, shape, changes };
        let found = chains.find(version, self.hash(key), key)?;
        found.map(|entry| self.value(&entry, key)).transpose()
    }

    /// The oldest version that a reader may see.
    pub(crate) fn oldest(&self) -> u64 {
        let pins = self.pins.lock();
        let pinned = pins.keys().next().copied().filter(|_| !seeded("hashed-forgets-pins"));
        let published = self.seen.read().version.get();
        pinned.map_or(published, |pinned| pinned.min(published))
    }

    /// The name of the object, for messages.
    pub(crate) fn name(&self) -> String {
        self.heap.object().name().to_string()
    }
}

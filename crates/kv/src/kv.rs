//! [`Kv`]: one named key-value store of a store: its main table, and tables with names.

use crate::batch::Batch;
use crate::catalogue::{self, Tables};
use crate::range::{self, Bounds};
use crate::reads::reads;
use crate::tree::{Commit, Stats, TableNumber, Tree};
use crate::{Clock, Error, KvTable, Result, Snapshot};
use everbyte_store::Error::NoSpan;
use everbyte_store::raw::AsStore;
use everbyte_store::{Engine, Finding, Object, ObjectOptions, Store};
use std::num::NonZeroU64;
use std::ops::RangeBounds;
use std::sync::Arc;

/// An ordered key-value store inside a [`Store`]. Cheap to clone; clones are one store, usable from
/// any thread.
#[derive(Clone)]
pub struct Kv {
    pub(crate) tree: Tree,
    pub(crate) tables: Arc<Tables>,
    pub(crate) store: Store,
    name: Arc<str>,
}

// A caught panic leaves what was committed. So transactions of typed objects may capture one.
impl std::panic::UnwindSafe for Kv {}
impl std::panic::RefUnwindSafe for Kv {}

/// The fingerprint of objects that hold a tree.
pub(crate) const TREE_FINGERPRINT: u64 = 0;
/// The smallest span of a table.
const SPAN_MIN: u64 = 64 << 10;

impl Kv {
    /// Creates the table `name`. A crash leaves it whole or absent. The first three tables may each
    /// grow to the store's maximum; each further one has half of the addresses of the one before.
    ///
    /// # Errors
    /// An object of that name exists; out of space.
    pub fn create(store: &impl AsStore, name: &str) -> Result<Kv> {
        let store = store.as_store();
        Kv::create_filled(store, name, &mut Tree::format)?;
        Kv::open(store, name)
    }

    /// Makes the object `name`, which `fill` formats and may fill.
    pub(crate) fn create_filled(store: &Store, name: &str, fill: &mut dyn FnMut(&Object) -> Result<()>) -> Result<()> {
        Kv::create_object(store, name, TREE_FINGERPRINT, fill)
    }

    /// As [`Kv::create_filled`], of an object with this fingerprint.
    pub(crate) fn create_object(
        store: &Store,
        name: &str,
        fingerprint: u64,
        fill: &mut dyn FnMut(&Object) -> Result<()>,
    ) -> Result<()> {
        if store.is_read_only() {
            return Err(Error::ReadOnly { object: name.into() });
        }
        // An unused span costs nothing: it covers the store's maximum if addresses are left for it.
        let (max, addresses) = (store.max(), store.media().max());
        let most = if addresses > max.get() { max.get().next_power_of_two() } else { max / 4 };
        let mut span = 1 << most.max(SPAN_MIN).ilog2();
        loop {
            let options = ObjectOptions { engine: Engine::Cdds, fingerprint, span: Some(span) };
            match store.create_object(name, options, &mut *fill) {
                Err(Error::Store(error))
                    if matches!(*error, NoSpan { .. }) && addresses > max.get() && span > SPAN_MIN =>
                {
                    span /= 2;
                }
                made => return made.map(drop),
            }
        }
    }

    /// Opens the table `name`. The cost does not depend on its size.
    ///
    /// # Errors
    /// No such object, one of another engine, damage.
    pub fn open(store: &impl AsStore, name: &str) -> Result<Kv> {
        Kv::open_by(store.as_store(), name, Tree::open)
    }

    /// As [`Kv::open`]; `open` opens the tree.
    pub(crate) fn open_by(store: &Store, name: &str, open: fn(Object) -> Result<Tree>) -> Result<Kv> {
        let object = store.object(name)?;
        object.require_engine(Engine::Cdds)?;
        object.require_fingerprint(TREE_FINGERPRINT)?;
        Ok(Kv { tree: open(object)?, tables: Arc::default(), store: store.clone(), name: name.into() })
    }

    /// Opens the table `name`, and creates it if it is absent.
    ///
    /// # Errors
    /// As [`Kv::open`] and [`Kv::create`].
    pub fn open_or_create(store: &impl AsStore, name: &str) -> Result<Kv> {
        match Kv::open(store, name) {
            Err(Error::Store(error)) if matches!(*error, everbyte_store::Error::NotFound { .. }) => {
                Kv::create(store, name)
            }
            other => other,
        }
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    reads!(". Takes no lock; sees settled data only.");

    #[inline]
    fn tree(&self) -> &Tree {
        &self.tree
    }

    #[inline]
    fn reading(&self) -> Result<TableNumber> {
        Ok(TableNumber::MAIN)
    }

    /// Binds `value` to `key`. Durable on return. Threads that write at the same time share one
    /// sync.
    ///
    /// # Errors
    /// Out of space, limits, damage, a batch of this table in this thread: nothing changed.
    /// A poisoned store: the outcome is unknown until it is reopened.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = self.tree.begin()?;
        batch.put(TableNumber::MAIN, key, value)?;
        let commit = batch.commit()?;
        self.tree.settle(commit)
    }

    /// Removes `key`; returns whether it existed. Durable on return.
    ///
    /// # Errors
    /// As [`Kv::put`].
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        let mut batch = self.tree.begin()?;
        let found = batch.delete(TableNumber::MAIN, key)?;
        let commit = batch.commit()?;
        self.tree.settle(commit)?;
        Ok(found)
    }

    /// The entries of a range of the newest settled version, in key order; `rev()` walks from the
    /// end.
    pub fn range<K: AsRef<[u8]> + ?Sized>(&self, range: impl RangeBounds<K>) -> range::Range<'static> {
        self.snapshot().range(range)
    }

    /// The entries whose keys begin with `prefix`, in key order.
    pub fn prefix(&self, prefix: &[u8]) -> range::Range<'static> {
        self.snapshot().prefix(prefix)
    }

    /// Pins the newest settled version for reading.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { tree: self.tree.snapshot() }
    }

    /// Takes the writer's lock and begins a batch. Until it is committed or dropped, every
    /// other writer of the table waits, and a `put` or `delete` of this thread that does not go
    /// through the batch is an error.
    ///
    /// # Panics
    /// If this thread has a batch of this table already: it would deadlock.
    pub fn batch(&self) -> Batch<'_> {
        Batch::new(self, self.tree.batch())
    }

    /// As [`Kv::batch`].
    ///
    /// # Errors
    /// This thread has a batch of this table already.
    pub(crate) fn begin(&self) -> Result<Batch<'_>> {
        Ok(Batch::new(self, self.tree.begin()?))
    }

    /// Opens the table `name`. Settled on return.
    ///
    /// # Errors
    /// There is none; damage; a batch in this thread (use [`Batch::open_table`]). A poisoned store,
    /// if the table is not known to be durable.
    pub fn open_table(&self, name: &str) -> Result<KvTable> {
        let batch = self.begin()?;
        let table = batch.open_table(name)?;
        self.settle_tables(batch, [&table])?;
        Ok(table)
    }

    /// Ends a batch that has opened `tables` and done nothing else. Settles the commits that made
    /// them, if the newest settled version does not see all of them.
    pub(crate) fn settle_tables<const N: usize>(&self, batch: Batch<'_>, tables: [&KvTable; N]) -> Result<()> {
        let newest = self.tree.snapshot();
        if newest.version() >= batch.follows() || tables.iter().all(|table| table.require_seen_by(&newest).is_ok()) {
            return Ok(());
        }
        let commit = batch.commit()?;
        self.settle(commit)
    }

    /// Makes the table `name`. Settled on return.
    ///
    /// # Errors
    /// As [`Batch::create_table`].
    pub fn create_table(&self, name: &str) -> Result<KvTable> {
        let mut batch = self.begin()?;
        let table = batch.create_table(name)?;
        let commit = batch.commit()?;
        self.settle(commit)?;
        Ok(table)
    }

    /// Opens the table `name`, and makes it if there is none. Settled on return.
    ///
    /// # Errors
    /// As [`Kv::open_table`] and [`Kv::create_table`].
    pub fn open_or_create_table(&self, name: &str) -> Result<KvTable> {
        let mut batch = self.begin()?;
        match batch.open_table(name) {
            Err(Error::NoTable { .. }) => {}
            found => {
                let table = found?;
                self.settle_tables(batch, [&table])?;
                return Ok(table);
            }
        }
        let table = batch.create_table(name)?;
        let commit = batch.commit()?;
        self.settle(commit)?;
        Ok(table)
    }

    /// Removes the table `name` with all its keys. Settled on return. Snapshots keep what they see;
    /// every other use of the table is an error from now on. The time is that of counting the keys.
    ///
    /// # Errors
    /// As [`Batch::drop_table`].
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let mut batch = self.begin()?;
        batch.drop_table(name)?;
        let commit = batch.commit()?;
        self.settle(commit)
    }

    /// The names of the tables, in the order of their bytes.
    ///
    /// # Errors
    /// Damage.
    pub fn tables(&self) -> Result<Vec<String>> {
        self.snapshot().tables()
    }

    /// Makes a committed batch, and all before it, durable and visible to readers.
    ///
    /// # Errors
    /// A poisoned store: the outcome is unknown until it is reopened. A batch of another table:
    /// nothing is settled.
    pub fn settle(&self, commit: Commit) -> Result<()> {
        self.tree.settle(commit)
    }

    /// Copies the entries of the newest settled version to the new table `name` of `store`, this
    /// one or another; each is verified. `progress` receives the bytes of every entry. Settled on
    /// return; a crash leaves the copy whole or absent.
    ///
    /// # Errors
    /// Damage; an object of that name exists; out of space.
    pub fn copy_to(&self, store: &impl AsStore, name: &str, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let (tree, object) = (self.tree.snapshot(), self.tree.heap().object());
        let entries = range::Range::new(tree.cursor(), Bounds::everything());
        let least = 2 * (object.backed().get() - object.prime().get());
        let fill = |copy: &Object| {
            Tree::format(copy)?;
            fill(&Tree::open(copy.clone())?, entries, progress)
        };
        store.as_store().create_copy(name, object, least.next_power_of_two(), fill).map(drop)
    }

    /// Sets how many commits behind the newest version a snapshot or a range may be; `None`, as
    /// after opening: any number. Commits before this call do not count. The next commit gives the
    /// space of what only older readers see back, and every read of such a reader is
    /// [`Error::Expired`] from then on. Versions with names are not concerned.
    pub fn set_reader_limit(&self, commits: Option<NonZeroU64>) {
        self.tree.set_reader_limit(commits.map_or(0, NonZeroU64::get));
    }

    /// Sets the clock by which [`Stats::oldest_age`] is told; until then, the machine's.
    pub fn set_clock(&self, clock: impl Clock + 'static) {
        self.tree.set_clock(Arc::new(clock));
    }

    /// Gives space back: one step, as a commit does it, for a table that is not written to. Returns
    /// whether there is more to do now. Snapshots, ranges and named versions keep their entries. A
    /// step looks at some 64 entries or nodes and costs at most three fences; settled on return.
    ///
    /// # Errors
    /// As [`Kv::put`].
    pub fn reclaim(&self) -> Result<bool> {
        let mut batch = self.tree.begin()?;
        if !batch.has_garbage() {
            return Ok(false);
        }
        batch.set_reclaims();
        let commit = batch.commit()?;
        self.tree.settle(commit)?;
        Ok(self.tree.begin()?.has_garbage())
    }

    /// The number of keys, kept as a count.
    pub fn len(&self) -> u64 {
        self.tree.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Figures since opening.
    pub fn stats(&self) -> Stats {
        self.tree.stats()
    }

    /// Verifies the tree and its heap: damage, leaks, double use, with offsets. Reads everything;
    /// writers wait.
    ///
    /// # Panics
    /// If this thread has a batch of this table: it would deadlock.
    pub fn check(&self) -> Vec<Finding> {
        let mut findings = self.tree.check();
        if findings.is_empty() {
            findings.extend(catalogue::check(&self.tree.batch()));
        }
        findings
    }

    /// Frees the blocks that [`Kv::check`] reports as leaked, all or none, and returns them. No
    /// crash leaks blocks: this repairs the effect of a bug. Settled on return.
    ///
    /// # Errors
    /// Damage or double use anywhere in the table: nothing changed. Otherwise as [`Kv::put`].
    pub fn free_leaks(&self) -> Result<Vec<Finding>> {
        self.tree.free_leaks()
    }
}

/// Puts every entry into a tree that no other thread uses yet, a few megabytes at a time.
fn fill(tree: &Tree, mut entries: range::Range<'_>, progress: &mut dyn FnMut(u64)) -> Result<()> {
    const BATCH: u64 = 4 << 20;
    let mut more = true;
    while more {
        let (mut batch, mut bytes) = (tree.batch(), 0);
        let mut load = batch.load()?;
        while more && bytes < BATCH {
            match entries.next_entry()? {
                // The copy has one version, and none with a name.
                Some(entry) if entry.table() == TableNumber::VERSIONS => {}
                Some(entry) => {
                    let (table, (key, value)) = (entry.table(), entry.read()?);
                    load.push(table, key, value)?;
                    bytes += (key.len() + value.len()) as u64;
                }
                None => more = false,
            }
        }
        load.finish()?;
        tree.settle(batch.commit()?)?;
        progress(bytes);
    }
    Ok(())
}

//! [`KvTable`]: one of the named tables of a [`Kv`].

use crate::catalogue::{self, OpenTable};
use crate::range::{Bounds, Range};
use crate::reads::reads;
use crate::tree::{TableNumber, Tree, TreeSnapshot};
use crate::{Error, Kv, Result, Snapshot};
use std::ops::RangeBounds;
use std::sync::Arc;

/// A named table of a [`Kv`]: an ordered map with keys of its own. Cheap to clone, usable from any
/// thread.
///
/// All tables of a `Kv` change together: a [`Batch`] writes to several, and a [`Snapshot`] sees all
/// of them at one version.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
/// use everbyte_kv::Kv;
///
/// let kv = Kv::open_or_create(&store, "shop")?;
/// let (orders, stock) = (kv.open_or_create_table("orders")?, kv.open_or_create_table("stock")?);
/// let mut batch = kv.batch();
/// batch.table(&orders)?.put(b"order 1", b"3 apples")?;
/// batch.table(&stock)?.put(b"apples", b"97")?;
/// kv.settle(batch.commit()?)?; // both or none, whatever crashes
/// assert_eq!(stock.get(b"apples")?.as_deref(), Some(&b"97"[..]));
/// # Ok(()) }
/// ```
///
/// [`Batch`]: crate::Batch
#[derive(Clone)]
pub struct KvTable {
    pub(crate) kv: Kv,
    pub(crate) open: Arc<OpenTable>,
    pub(crate) name: Arc<str>,
}

impl KvTable {
    /// The table's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    reads!(". Takes no lock; sees settled data only.");

    #[inline]
    fn tree(&self) -> &Tree {
        &self.kv.tree
    }

    #[inline]
    fn reading(&self) -> Result<TableNumber> {
        if self.open.is_live() { Ok(self.open.number) } else { Err(self.gone()) }
    }

    /// Whether `version` has this very table under its name: not another one, dropped or restored
    /// meanwhile.
    pub(crate) fn require_seen_by(&self, version: &TreeSnapshot) -> Result<()> {
        let value = version.get(TableNumber::CATALOGUE, self.name.as_bytes())?;
        let record = value.as_deref().map(catalogue::parse).transpose()?;
        match record.filter(|record| self.open.is_of(record)) {
            Some(_) => Ok(()),
            None => Err(self.gone()),
        }
    }

    pub(crate) fn gone(&self) -> Error {
        Error::TableGone { name: self.name.to_string() }
    }

    /// Binds `value` to `key`. Durable on return. Threads that write at the same time share one
    /// sync.
    ///
    /// # Errors
    /// The table was dropped; otherwise as [`Kv::put`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = self.kv.begin()?;
        batch.table(self)?.put(key, value)?;
        let commit = batch.commit()?;
        self.kv.settle(commit)
    }

    /// Removes `key`; returns whether it existed. Durable on return.
    ///
    /// # Errors
    /// As [`KvTable::put`].
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        let mut batch = self.kv.begin()?;
        let found = batch.table(self)?.delete(key)?;
        let commit = batch.commit()?;
        self.kv.settle(commit)?;
        Ok(found)
    }

    /// The newest settled version of this table, held for reading.
    ///
    /// # Errors
    /// The table was dropped.
    pub fn snapshot(&self) -> Result<TableSnapshot> {
        self.kv.snapshot().table(self)
    }

    /// The entries of a range of the newest settled version, in key order; `rev()` walks from the
    /// end.
    ///
    /// # Errors
    /// The table was dropped.
    pub fn range<K: AsRef<[u8]> + ?Sized>(&self, range: impl RangeBounds<K>) -> Result<Range<'static>> {
        Ok(self.snapshot()?.range(range))
    }

    /// The entries whose keys begin with `prefix`, in key order.
    ///
    /// # Errors
    /// The table was dropped.
    pub fn prefix(&self, prefix: &[u8]) -> Result<Range<'static>> {
        Ok(self.snapshot()?.prefix(prefix))
    }

    /// The number of keys. The first call of a process reads all of the table to count them; then
    /// the count is kept.
    ///
    /// # Errors
    /// The table was dropped; damage.
    pub fn len(&self) -> Result<u64> {
        self.snapshot()?.len()
    }

    /// Whether the table is empty. The cost is that of finding the first key.
    ///
    /// # Errors
    /// The table was dropped; damage.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.prefix(b"")?.next_entry()?.is_none())
    }
}

/// One table at one version: it stays as it is, whatever is written or dropped meanwhile.
#[derive(Clone)]
pub struct TableSnapshot {
    pub(crate) tree: TreeSnapshot,
    pub(crate) open: Arc<OpenTable>,
}

impl TableSnapshot {
    reads!(", at this version.");

    #[inline]
    fn tree(&self) -> &TreeSnapshot {
        &self.tree
    }

    #[inline]
    fn reading(&self) -> Result<TableNumber> {
        Ok(self.open.number)
    }

    /// The entries of a range, in key order; `rev()` walks from the end. The range keeps the
    /// version by itself.
    pub fn range<K: AsRef<[u8]> + ?Sized>(&self, range: impl RangeBounds<K>) -> Range<'static> {
        Range::new(self.tree.cursor(), Bounds::of(self.open.number, &range))
    }

    /// The entries whose keys begin with `prefix`, in key order.
    pub fn prefix(&self, prefix: &[u8]) -> Range<'static> {
        Range::new(self.tree.cursor(), Bounds::prefix(self.open.number, prefix))
    }

    /// The number of keys. See [`KvTable::len`].
    ///
    /// # Errors
    /// Damage.
    pub fn len(&self) -> Result<u64> {
        let len = self.open.len(self.tree.version(), || self.prefix(b"").count_entries());
        self.tree.require_kept()?;
        len
    }

    /// Whether there is no key.
    ///
    /// # Errors
    /// Damage.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.prefix(b"").next_entry()?.is_none())
    }
}

impl Snapshot {
    /// `table` at this version.
    ///
    /// # Errors
    /// The table is newer than this version, was dropped before it, or is of another store.
    pub fn table(&self, table: &KvTable) -> Result<TableSnapshot> {
        if !self.tree.is_of(&table.kv.tree) {
            return Err(Error::OtherStore { name: table.name.to_string() });
        }
        table.require_seen_by(&self.tree)?;
        Ok(TableSnapshot { tree: self.tree.clone(), open: Arc::clone(&table.open) })
    }
}

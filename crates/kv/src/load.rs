//! [`BulkLoad`]: entries in the order of their keys, written as whole leaves.

use crate::tree::{TableNumber, TreeLoad};
use crate::{Batch, BatchTable, Result};

/// A load of one table by a batch: entries in ascending order of their keys, into a range in which
/// the table has none. Each entry is written once, to leaves that are full, so a load takes less
/// time and space than puts, and no fence more than its batch.
///
/// Leaves hold up to 48 entries and 8 KiB, without room for more: the first put to such a leaf
/// writes it anew. Nodes above have room for an eighth more. A load also writes the nodes from the
/// root to the range anew, so it is for many entries.
///
/// The load happens with its batch, which sees it after [`BulkLoad::finish`]. One that is dropped
/// before has not happened, and leaves the batch as it was.
pub struct BulkLoad<'b, 'k> {
    tree: TreeLoad<'b, 'k>,
    table: TableNumber,
}

impl BulkLoad<'_, '_> {
    /// Adds an entry behind the last one.
    ///
    /// # Errors
    /// The key is not larger than the last one ([`Error::Unsorted`]); the table has a key in the
    /// range ([`Error::RangeNotEmpty`]); limits: the entry is not added, and the load can go on.
    /// Out of space, damage: the load cannot be finished.
    ///
    /// [`Error::Unsorted`]: crate::Error::Unsorted
    /// [`Error::RangeNotEmpty`]: crate::Error::RangeNotEmpty
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.tree.push(self.table, key, value)
    }

    /// Adds the load to its batch; returns how many entries it has.
    ///
    /// # Errors
    /// An earlier error in the middle, out of space, damage: the load has not happened, and the
    /// batch is as it was before.
    pub fn finish(self) -> Result<u64> {
        self.tree.finish()
    }

    fn all<K: AsRef<[u8]>, V: AsRef<[u8]>>(mut self, entries: impl IntoIterator<Item = (K, V)>) -> Result<u64> {
        for (key, value) in entries {
            self.push(key.as_ref(), value.as_ref())?;
        }
        self.finish()
    }
}

impl<'k> Batch<'k> {
    /// Loads entries, in ascending order of their keys, into a range in which the main table has
    /// none; returns how many. They fill whole leaves: see [`BulkLoad`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
    /// # let kv = everbyte_kv::Kv::open_or_create(&store, "kv")?;
    /// let mut batch = kv.batch();
    /// batch.load((0..1000_u32).map(|number| (number.to_be_bytes(), b"value")))?;
    /// kv.settle(batch.commit()?)?;
    /// assert_eq!(kv.len(), 1000);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A key that is not larger than the one before it ([`Error::Unsorted`]); a key that the table
    /// has in this range ([`Error::RangeNotEmpty`]); out of space, limits, damage. Nothing is
    /// loaded then, and the batch is as it was before.
    ///
    /// [`Error::Unsorted`]: crate::Error::Unsorted
    /// [`Error::RangeNotEmpty`]: crate::Error::RangeNotEmpty
    pub fn load<K, V>(&mut self, entries: impl IntoIterator<Item = (K, V)>) -> Result<u64>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        self.begin_load()?.all(entries)
    }

    /// Begins a load of the main table, for entries that come one by one.
    ///
    /// # Errors
    /// An earlier error has spoiled the batch; it has as many savepoints and loads as it may have.
    pub fn begin_load(&mut self) -> Result<BulkLoad<'_, 'k>> {
        Ok(BulkLoad { tree: self.tree_mut().load()?, table: TableNumber::MAIN })
    }
}

impl<'k> BatchTable<'_, 'k> {
    /// As [`Batch::load`], for this table.
    ///
    /// # Errors
    /// As [`Batch::load`].
    pub fn load<K, V>(&mut self, entries: impl IntoIterator<Item = (K, V)>) -> Result<u64>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        self.begin_load()?.all(entries)
    }

    /// As [`Batch::begin_load`], for this table.
    ///
    /// # Errors
    /// As [`Batch::begin_load`].
    pub fn begin_load(&mut self) -> Result<BulkLoad<'_, 'k>> {
        let (batch, table) = self.parts();
        let table = table.open.number;
        Ok(BulkLoad { tree: batch.tree_mut().load()?, table })
    }
}

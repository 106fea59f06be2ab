//! [`Batch`]: several writes that happen together, in one table or in several.

use crate::catalogue::{self, OpenTable};
use crate::range::{Bounds, Range};
use crate::reads::reads;
use crate::tree::{Commit, TableNumber, TreeBatch, TreeSavepoint};
use crate::{Error, Kv, KvTable, Result};
use everbyte_media::museum::unless;
use std::ops::RangeBounds;
use std::sync::Arc;

/// Several writes that happen together or not at all. No other thread sees them before the commit.
/// Dropping the batch undoes them.
///
/// Its own methods are those of the main table; [`Batch::table`] leads to the others.
pub struct Batch<'k> {
    kv: &'k Kv,
    tree: TreeBatch<'k>,
    /// Tables made by this batch.
    made: Vec<Arc<OpenTable>>,
    /// Numbers of tables dropped by this batch.
    dropped: Vec<TableNumber>,
}

/// A place in a batch to which it can go back: see [`Batch::savepoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    tree: TreeSavepoint,
    made: usize,
    dropped: usize,
}

impl<'k> Batch<'k> {
    pub(crate) fn new(kv: &'k Kv, tree: TreeBatch<'k>) -> Batch<'k> {
        Batch { kv, tree, made: Vec::new(), dropped: Vec::new() }
    }

    reads!(", this batch's writes included.");

    #[inline]
    pub(crate) fn tree(&self) -> &TreeBatch<'k> {
        &self.tree
    }

    pub(crate) fn kv(&self) -> &'k Kv {
        self.kv
    }

    pub(crate) fn tree_mut(&mut self) -> &mut TreeBatch<'k> {
        &mut self.tree
    }

    /// Takes the steps of a write that follow its first one: an error among them would leave half
    /// of the write, so the batch cannot be committed.
    pub(crate) fn go_on<T>(&mut self, steps: impl FnOnce(&mut Batch<'k>) -> Result<T>) -> Result<T> {
        let result = steps(self);
        if result.is_err() {
            self.tree.doom();
        }
        result
    }

    /// The table of this number is dropped when the batch commits.
    pub(crate) fn note_dropped(&mut self, number: TableNumber) {
        self.dropped.push(number);
    }

    #[inline]
    fn reading(&self) -> Result<TableNumber> {
        Ok(TableNumber::MAIN)
    }

    /// Binds `value` to `key`; returns whether the key existed.
    ///
    /// # Errors
    /// Out of space, limits, damage. After an error in its middle the batch cannot be committed.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.tree.put(TableNumber::MAIN, key, value)
    }

    /// Prefetches the memory for the next puts of `keys`, in that order, for all of them at once. A
    /// hint: it changes only the time the puts take.
    ///
    /// # Errors
    /// Damage, which the puts would report too.
    pub fn prefetch<'a>(&mut self, keys: impl IntoIterator<Item = &'a [u8]>) -> Result<()> {
        self.tree.prefetch(TableNumber::MAIN, keys)
    }

    /// Removes `key`; returns whether it existed.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.tree.delete(TableNumber::MAIN, key)
    }

    /// The entries of a range, this batch's writes included.
    pub fn range<K: AsRef<[u8]> + ?Sized>(&self, range: impl RangeBounds<K>) -> Range<'_> {
        Range::new(self.tree.cursor(), Bounds::of(TableNumber::MAIN, &range))
    }

    /// The entries whose keys begin with `prefix`, this batch's writes included.
    pub fn prefix(&self, prefix: &[u8]) -> Range<'_> {
        Range::new(self.tree.cursor(), Bounds::prefix(TableNumber::MAIN, prefix))
    }

    /// The version that this batch follows: one that wrote nothing commits as that version.
    pub fn follows(&self) -> crate::tree::Version {
        self.tree.follows().version
    }

    /// Whether an error in the middle of a write has spoiled this batch: it cannot be committed.
    /// Errors that come before anything was changed (a key that is too long) leave a batch as it
    /// was.
    pub fn is_doomed(&self) -> bool {
        self.tree.is_doomed()
    }

    /// Removes every key of the main table at once; the following commits free the space. Where
    /// there are other tables, the time is that of counting the keys.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn clear(&mut self) -> Result<()> {
        if self.tree.has_one_table() {
            return self.tree.clear();
        }
        let all = Bounds::prefix(TableNumber::MAIN, b"");
        self.tree.delete_range(&all.low, &all.high()).map(drop)
    }

    /// Removes the keys of a range; returns how many there were. Whole subtrees end with one store
    /// each, so a range of any size costs as many fences as a put; the time is that of counting the
    /// keys. The following commits free the space.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete_range<K: AsRef<[u8]> + ?Sized>(&mut self, range: impl RangeBounds<K>) -> Result<u64> {
        let bounds = Bounds::of(TableNumber::MAIN, &range);
        self.tree.delete_range(&bounds.low, &bounds.high())
    }

    /// How many keys there are, this batch's writes included.
    pub fn len(&self) -> u64 {
        self.tree.len()
    }

    /// Whether the main table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `table` in this batch.
    ///
    /// # Errors
    /// The table was dropped, by this batch or before; it was made by another batch that is not
    /// committed; it is of another store.
    pub fn table<'b>(&'b mut self, table: &'b KvTable) -> Result<BatchTable<'b, 'k>> {
        self.require(table)?;
        Ok(BatchTable { batch: self, table })
    }

    /// The entries of a range of `table`, this batch's writes included. Ranges of several tables
    /// may be walked side by side.
    ///
    /// # Errors
    /// As [`Batch::table`].
    pub fn range_of<K: AsRef<[u8]> + ?Sized>(&self, table: &KvTable, range: impl RangeBounds<K>) -> Result<Range<'_>> {
        self.require(table)?;
        Ok(Range::new(self.tree.cursor(), Bounds::of(table.open.number, &range)))
    }

    fn require(&self, table: &KvTable) -> Result<()> {
        if !self.kv.tree.is_same(&table.kv.tree) {
            return Err(Error::OtherStore { name: table.name.to_string() });
        }
        let there = table.open.is_live() || self.made.iter().any(|made| Arc::ptr_eq(made, &table.open));
        if !there || self.dropped.contains(&table.open.number) {
            return Err(table.gone());
        }
        Ok(())
    }

    /// The table `name`, of this batch or made before.
    ///
    /// # Errors
    /// There is none; damage.
    pub fn open_table(&self, name: &str) -> Result<KvTable> {
        let Some(record) = catalogue::find(&self.tree, name)? else {
            return Err(Error::NoTable { object: self.kv.name().into(), name: name.into() });
        };
        let made = self.made.iter().find(|made| made.number.0 == record.number);
        let open = made.cloned().unwrap_or_else(|| self.kv.tables.open(&record, self.tree.follows().version));
        Ok(KvTable { kv: self.kv.clone(), open, name: name.into() })
    }

    /// Makes the table `name`. Others can use it once the batch is committed.
    ///
    /// # Errors
    /// A table of that name exists; the name is empty or longer than [`TABLE_NAME_MAX`]; otherwise
    /// as [`Batch::put`].
    ///
    /// [`TABLE_NAME_MAX`]: crate::TABLE_NAME_MAX
    pub fn create_table(&mut self, name: &str) -> Result<KvTable> {
        catalogue::check_name(name)?;
        if catalogue::find(&self.tree, name)?.is_some() {
            return Err(Error::TableExists { object: self.kv.name().into(), name: name.into() });
        }
        let record = catalogue::add(&mut self.tree, name, &self.dropped)?;
        let open = Arc::new(OpenTable::pending(&record));
        self.made.push(Arc::clone(&open));
        Ok(KvTable { kv: self.kv.clone(), open, name: name.into() })
    }

    /// Removes the table `name` with all its keys. Snapshots and ranges keep what they see.
    ///
    /// # Errors
    /// There is none; otherwise as [`Batch::put`].
    pub fn drop_table(&mut self, name: &str) -> Result<()> {
        let Some(record) = catalogue::find(&self.tree, name)? else {
            return Err(Error::NoTable { object: self.kv.name().into(), name: name.into() });
        };
        let number = TableNumber(record.number);
        let all = Bounds::prefix(number, b"");
        unless("kv-dropped-table-keeps-keys", || self.tree.delete_range(&all.low, &all.high()).map(drop))?;
        self.tree.delete(TableNumber::CATALOGUE, name.as_bytes())?;
        self.dropped.push(number);
        Ok(())
    }

    /// Marks this place, to which [`Batch::roll_back`] goes back. Costs no fence.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
    /// # let kv = everbyte_kv::Kv::open_or_create(&store, "kv")?;
    /// let mut batch = kv.batch();
    /// batch.put(b"kept", b"1")?;
    /// let here = batch.savepoint()?;
    /// batch.put(b"not kept", b"2")?;
    /// batch.roll_back(here)?;
    /// kv.settle(batch.commit()?)?;
    /// assert!(kv.contains(b"kept")? && !kv.contains(b"not kept")?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// An earlier error has spoiled the batch; it has 65,535 savepoints.
    pub fn savepoint(&mut self) -> Result<Savepoint> {
        let tree = self.tree.savepoint()?;
        Ok(Savepoint { tree, made: self.made.len(), dropped: self.dropped.len() })
    }

    /// Goes back to a savepoint: what was written behind it has not happened, an error that spoiled
    /// the batch behind it neither. The savepoint stays, later ones go.
    ///
    /// # Errors
    /// The savepoint is of another batch, or the batch has gone back to an earlier one.
    pub fn roll_back(&mut self, savepoint: Savepoint) -> Result<()> {
        self.tree.roll_back(savepoint.tree)?;
        self.made.truncate(savepoint.made);
        self.dropped.truncate(savepoint.dropped);
        Ok(())
    }

    /// Commits: ordered before all later writes. Durable and visible once [`Kv::settle`] has
    /// returned, or earlier: at once on media whose fences settle.
    ///
    /// # Errors
    /// Out of space, an earlier error of this batch: nothing happened.
    pub fn commit(self) -> Result<Commit> {
        let Batch { kv, tree, made, dropped } = self;
        tree.commit_with(|version, gained, oldest| {
            for table in made.iter().filter(|made| !dropped.contains(&made.number)) {
                kv.tables.add(table);
            }
            for &number in &dropped {
                kv.tables.remove(number);
            }
            for &(number, gained) in gained {
                if let Some(table) = kv.tables.get(number) {
                    table.gain(version, gained, oldest());
                }
            }
        })
    }

    /// Gives the batch up: nothing happened.
    pub fn abort(self) {
        self.tree.abort();
    }
}

/// One table in a [`Batch`].
pub struct BatchTable<'b, 'k> {
    batch: &'b mut Batch<'k>,
    table: &'b KvTable,
}

impl<'k> BatchTable<'_, 'k> {
    /// The batch and the table.
    pub(crate) fn parts(&mut self) -> (&mut Batch<'k>, &KvTable) {
        (self.batch, self.table)
    }

    reads!(", this batch's writes included.");

    #[inline]
    fn tree(&self) -> &TreeBatch<'k> {
        &self.batch.tree
    }

    #[inline]
    fn reading(&self) -> Result<TableNumber> {
        Ok(self.table.open.number)
    }

    /// Binds `value` to `key`; returns whether the key existed.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.batch.tree.put(self.table.open.number, key, value)
    }

    /// As [`Batch::prefetch`].
    ///
    /// # Errors
    /// Damage, which the puts would report too.
    pub fn prefetch<'a>(&mut self, keys: impl IntoIterator<Item = &'a [u8]>) -> Result<()> {
        self.batch.tree.prefetch(self.table.open.number, keys)
    }

    /// Removes `key`; returns whether it existed.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.batch.tree.delete(self.table.open.number, key)
    }

    /// As [`Batch::delete_range`].
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete_range<K: AsRef<[u8]> + ?Sized>(&mut self, range: impl RangeBounds<K>) -> Result<u64> {
        let bounds = Bounds::of(self.table.open.number, &range);
        self.batch.tree.delete_range(&bounds.low, &bounds.high())
    }

    /// The entries of a range, this batch's writes included.
    pub fn range<K: AsRef<[u8]> + ?Sized>(&self, range: impl RangeBounds<K>) -> Range<'_> {
        Range::new(self.batch.tree.cursor(), Bounds::of(self.table.open.number, &range))
    }

    /// The entries whose keys begin with `prefix`, this batch's writes included.
    pub fn prefix(&self, prefix: &[u8]) -> Range<'_> {
        Range::new(self.batch.tree.cursor(), Bounds::prefix(self.table.open.number, prefix))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Error, ExpiringTable, Kv, SystemClock, TableTypes};
    use everbyte_media::{ErrorInfo, ErrorKind, Media, Options};
    use everbyte_store::{FormatOptions, Store};
    use std::time::Duration;

    type Four<T> = (T, T, T, T);
    type Many = Four<Four<Four<(String, u64, Vec<u8>, bool)>>>;

    /// Reserves all blocks above `least` bytes.
    fn fill(kv: &Kv, least: u64) {
        for size in (0..21).rev().map(|shift| 1 << shift).filter(|&size| size > least).chain([least]) {
            while kv.tree.heap().reserve(size).is_ok() {}
        }
    }

    /// A write of several steps that runs out of space behind the first leaves no half of it.
    #[test]
    fn half_a_write_is_not_committed() {
        let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let kv = Kv::create(&store, "kv").unwrap();
        let expiring = ExpiringTable::open_or_create(&kv, "sessions", SystemClock).unwrap();
        assert!(TableTypes::of::<Many, Many>().to_bytes().unwrap().len() > 512);
        fill(&kv, 257);
        let full = |error: Error| assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        let mut batch = kv.batch();
        full(batch.create_typed::<Many, Many>("typed").map(drop).unwrap_err());
        assert!(batch.is_doomed() && matches!(batch.commit(), Err(Error::Doomed)));
        assert!(matches!(kv.open_typed::<Many, Many>("typed").map(drop), Err(Error::NoTable { .. })));
        let mut batch = kv.batch();
        let mut sessions = expiring.in_batch(&mut batch).unwrap();
        full(sessions.put_for(&[7; 250], b"", Duration::from_secs(60)).unwrap_err());
        assert!(batch.is_doomed() && matches!(batch.commit(), Err(Error::Doomed)));
        assert_eq!((expiring.check().unwrap(), kv.check()), (vec![], vec![]));
        // An error of the first step leaves the batch as it was.
        let mut batch = kv.batch();
        let mut sessions = expiring.in_batch(&mut batch).unwrap();
        full(sessions.put_for(&[7; 20], &[7; 5000], Duration::from_secs(60)).unwrap_err());
        sessions.put_for(&[7; 20], b"", Duration::from_secs(60)).unwrap();
        kv.settle(batch.commit().unwrap()).unwrap();
        assert_eq!((expiring.len().unwrap(), expiring.check().unwrap()), (1, vec![]));
    }
}

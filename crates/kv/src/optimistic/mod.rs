//! [`Transaction`]: reads at one version, private writes, and a commit that validates the reads.
//!
//! Steps
//!   1. the newest settled version is pinned; no lock
//!   2. reads see that version and the transaction's own writes, and are noted (`reads.rs`): keys,
//!      the parts of ranges that were walked, counts of keys; writes are kept in memory
//!      (`writes.rs`)
//!   3. the commit takes the writer's lock, validates that every noted read has the same result at
//!      the newest committed version, and applies the writes as one batch
//!
//! So a transaction that wrote has read what it would have read at its commit, alone: transactions
//! are serialisable in the order of their commits. One that only read has its place at its
//! version.
//!
//! Invariants
//!   OPT-1  A read is noted before its result is returned.
//!   OPT-2  Between validation and commit no other thread writes: both happen under the writer's
//!          lock.
//!
//! Design: docs/design/optimistic.md

mod range;
mod reads;
mod table;
mod writes;

use crate::range::Bounds;
use crate::tree::{Commit, TableNumber, TreeSnapshot, Version};
use crate::{Error, Kv, KvTable, Result};
use reads::Reads;
use std::cell::RefCell;
use std::num::NonZeroU32;
use std::ops::RangeBounds;
use writes::Writes;

pub use range::TransactionRange;
pub use table::TransactionTable;
pub use writes::TransactionSavepoint;

/// How often [`Kv::transact`] runs a transaction that meets conflicts.
pub const TRANSACT_ATTEMPTS: NonZeroU32 = NonZeroU32::new(32).expect("not zero");

/// Reads at one version and writes kept in memory until the commit, which validates the reads. No
/// lock is held meanwhile: any number of threads have transactions at once.
///
/// A read sees the version at which the transaction began, and the transaction's own writes. The
/// commit fails with [`Error::Conflict`] if a read would have another result at the newest version;
/// then nothing happened. Dropping the transaction gives it up.
///
/// Its own methods are those of the main table; [`Transaction::table`] leads to the others. Tables
/// are made and dropped through [`crate::Batch`] only.
///
/// Memory grows with the keys read, the ranges read, and the writes. The version that it reads is
/// pinned, as by a [`crate::Snapshot`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
/// # let kv = everbyte_kv::Kv::open_or_create(&store, "kv")?;
/// use everbyte_kv::Error;
///
/// let mut transaction = kv.transaction();
/// assert_eq!(transaction.get(b"seat 7")?, None);
/// transaction.put(b"seat 7", b"Ada")?;
/// kv.put(b"seat 7", b"Grace")?; // another thread is faster
/// assert!(matches!(transaction.commit(), Err(Error::Conflict { key, .. }) if key == b"seat 7"));
/// # Ok(()) }
/// ```
pub struct Transaction {
    kv: Kv,
    tree: TreeSnapshot,
    /// Tables other than the main one that were used.
    tables: Vec<KvTable>,
    reads: RefCell<Reads>,
    writes: Writes,
}

impl Kv {
    /// Begins a transaction at the newest settled version. Takes no lock.
    pub fn transaction(&self) -> Transaction {
        let (kv, tree) = (self.clone(), self.tree.snapshot());
        Transaction { kv, tree, tables: Vec::new(), reads: RefCell::default(), writes: Writes::default() }
    }

    /// Runs `body` in a transaction, commits and settles it; again, at most [`TRANSACT_ATTEMPTS`]
    /// times, while another thread's commit is in conflict with it. `body` must have no effect but
    /// through its transaction. Durable on return.
    ///
    /// Each conflict means that another transaction has committed: all threads together always get
    /// on.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
    /// # let kv = everbyte_kv::Kv::open_or_create(&store, "kv")?;
    /// # let orders = kv.create_table("orders")?;
    /// kv.put(b"apples", b"3")?;
    /// let left = kv.transact(|transaction| -> everbyte_kv::Result<u64> {
    ///     let stock = transaction.get(b"apples")?.unwrap_or_default();
    ///     let left = String::from_utf8_lossy(&stock).parse().unwrap_or(0_u64).saturating_sub(1);
    ///     transaction.put(b"apples", left.to_string().as_bytes())?;
    ///     transaction.table(&orders)?.put(b"order 1", b"1 apple")?;
    ///     Ok(left)
    /// })?;
    /// assert_eq!((left, orders.len()?), (2, 1));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of `body`: nothing happened. [`Error::Conflict`] of the last attempt. Otherwise as
    /// [`Transaction::commit`] and [`Kv::settle`].
    pub fn transact<T, E: From<Error>>(&self, body: impl FnMut(&mut Transaction) -> Result<T, E>) -> Result<T, E> {
        self.transact_at_most(TRANSACT_ATTEMPTS, body)
    }

    /// As [`Kv::transact`], with another bound of attempts.
    ///
    /// # Errors
    /// As [`Kv::transact`].
    pub fn transact_at_most<T, E: From<Error>>(
        &self,
        attempts: NonZeroU32,
        mut body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut left = attempts.get();
        loop {
            let mut transaction = self.transaction();
            let value = body(&mut transaction)?;
            left -= 1;
            match transaction.commit() {
                Ok(commit) => {
                    self.settle(commit)?;
                    return Ok(value);
                }
                // The next attempt begins at a settled version: the one in conflict may not be.
                Err(Error::Conflict { .. }) if left > 0 => self.settle_newest()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Settles all that is committed.
    pub(crate) fn settle_newest(&self) -> Result<()> {
        let commit = self.tree.begin()?.commit()?;
        self.settle(commit)
    }
}

impl Transaction {
    /// The value of `key`.
    ///
    /// # Errors
    /// Damage; [`Error::Expired`] behind a reader limit.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_in(TableNumber::MAIN, key)
    }

    /// Whether `key` is there, without its value.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.len_of(key)?.is_some())
    }

    /// The length of the value of `key`, without the value.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn len_of(&self, key: &[u8]) -> Result<Option<u64>> {
        self.len_of_in(TableNumber::MAIN, key)
    }

    /// The entries of a range, in key order; `rev()` walks from the end. The part that is
    /// walked counts as read, its gaps too; the part behind does not.
    pub fn range<K: AsRef<[u8]> + ?Sized>(&self, range: impl RangeBounds<K>) -> TransactionRange<'_> {
        self.range_in(Bounds::of(TableNumber::MAIN, &range))
    }

    /// The entries whose keys begin with `prefix`. As [`Transaction::range`].
    pub fn prefix(&self, prefix: &[u8]) -> TransactionRange<'_> {
        self.range_in(Bounds::prefix(TableNumber::MAIN, prefix))
    }

    /// How many keys the main table has. Only their number counts as read.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn len(&self) -> Result<u64> {
        self.len_in(TableNumber::MAIN, self.tree.len())
    }

    /// Whether the main table is empty. As [`Transaction::len`].
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Binds `value` to `key` when the transaction commits. Reads nothing.
    ///
    /// # Errors
    /// The key or the value is too long.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.writes.put(TableNumber::MAIN, key, value)
    }

    /// Removes `key` when the transaction commits. Reads nothing.
    ///
    /// # Errors
    /// The key is too long.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.writes.delete(TableNumber::MAIN, key)
    }

    /// Removes the keys of a range when the transaction commits; returns how many there are. The
    /// whole range counts as read.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn delete_range<K: AsRef<[u8]> + ?Sized>(&mut self, range: impl RangeBounds<K>) -> Result<u64> {
        self.delete_range_in(Bounds::of(TableNumber::MAIN, &range))
    }

    /// `table` in this transaction.
    ///
    /// # Errors
    /// The table is newer than the transaction, was dropped, or is of another store.
    pub fn table<'t>(&'t mut self, table: &KvTable) -> Result<TransactionTable<'t>> {
        if !self.kv.tree.is_same(&table.kv.tree) {
            return Err(Error::OtherStore { name: table.name.to_string() });
        }
        let known = self.tables.iter().position(|known| std::sync::Arc::ptr_eq(&known.open, &table.open));
        let index = match known {
            Some(index) => index,
            None => {
                table.require_seen_by(&self.tree)?;
                self.tables.push(table.clone());
                self.tables.len() - 1
            }
        };
        Ok(TransactionTable::new(self, index))
    }

    /// Marks this place, to which [`Transaction::roll_back`] goes back.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
    /// # let kv = everbyte_kv::Kv::open_or_create(&store, "kv")?;
    /// let mut transaction = kv.transaction();
    /// transaction.put(b"kept", b"1")?;
    /// let here = transaction.savepoint();
    /// transaction.put(b"not kept", b"2")?;
    /// transaction.roll_back(here)?;
    /// kv.settle(transaction.commit()?)?;
    /// assert!(kv.contains(b"kept")? && !kv.contains(b"not kept")?);
    /// # Ok(()) }
    /// ```
    pub fn savepoint(&mut self) -> TransactionSavepoint {
        self.writes.savepoint()
    }

    /// Goes back to a savepoint: later writes are forgotten. Later reads still count, because the
    /// writes that stay may depend on them. The savepoint stays,
    /// later ones go.
    ///
    /// # Errors
    /// The savepoint is of another transaction, or this one has gone back to an earlier one.
    pub fn roll_back(&mut self, savepoint: TransactionSavepoint) -> Result<()> {
        self.writes.roll_back(savepoint)
    }

    /// The number of the version that the transaction reads.
    pub fn version(&self) -> Version {
        self.tree.version()
    }

    /// Validates the reads and commits the writes, as one batch over all tables. Durable and
    /// visible once [`Kv::settle`] has returned, as with [`crate::Batch::commit`].
    ///
    /// Validation looks at each key that was read and at the stamps of each range. It costs nothing
    /// if no other thread has committed since the transaction began, or if it wrote nothing.
    ///
    /// # Errors
    /// [`Error::Conflict`]: another thread has changed `key` of `table`, which was read; run the
    /// transaction again. A table that was used was dropped. Otherwise as [`crate::Batch::commit`].
    /// Nothing happened.
    pub fn commit(self) -> Result<Commit> {
        let Transaction { kv, tree, tables, reads, writes } = self;
        if writes.is_empty() {
            return Ok(tree.commit());
        }
        let mut batch = kv.begin()?;
        for table in &tables {
            batch.table(table)?;
        }
        if batch.tree().follows().version != tree.version() {
            reads.into_inner().validate(&kv, &batch, &tree, &tables)?;
        }
        writes.apply(&mut batch)?;
        batch.commit()
    }

    /// Gives the transaction up: nothing happened.
    pub fn abort(self) {}

    fn get_in(&self, table: TableNumber, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(own) = self.writes.find(table, key) {
            return Ok(own.map(<[u8]>::to_vec));
        }
        self.note_key(table, key)?;
        self.tree.get(table, key)
    }

    fn len_of_in(&self, table: TableNumber, key: &[u8]) -> Result<Option<u64>> {
        if let Some(own) = self.writes.find(table, key) {
            return Ok(own.map(|value| value.len() as u64));
        }
        self.note_key(table, key)?;
        self.tree.len_of(table, key)
    }

    /// Notes a key as read (OPT-1); returns whether the transaction's version sees it.
    fn note_key(&self, table: TableNumber, key: &[u8]) -> Result<bool> {
        let start = self.tree.start_of(table, key)?;
        self.reads.borrow_mut().add_key(table, key, start);
        Ok(start.is_some())
    }

    fn range_in(&self, bounds: Bounds) -> TransactionRange<'_> {
        TransactionRange::new(self, bounds)
    }

    /// The keys of a table: `seen` of them at the version, changed by the writes.
    fn len_in(&self, table: TableNumber, seen: u64) -> Result<u64> {
        self.reads.borrow_mut().add_count(table, seen);
        let mut keys = seen - self.writes.cut_in(table);
        for (key, value) in self.writes.pairs_of(table) {
            let is_old = !self.writes.is_cut(&[&table.bytes(), key].concat()) && self.note_key(table, key)?;
            keys = keys + u64::from(value.is_some()) - u64::from(is_old);
        }
        Ok(keys)
    }

    fn delete_range_in(&mut self, bounds: Bounds) -> Result<u64> {
        let (low, high) = (bounds.low.clone(), bounds.high());
        if low >= high {
            return Ok(0);
        }
        self.reads.borrow_mut().add_range(low.clone(), high.clone());
        let (mut hidden, mut gone) = (0, 0);
        let mut cursor = self.tree.cursor();
        cursor.seek(&low)?;
        while let Some(entry) = cursor.next()? {
            if entry.compare(&high)?.is_ge() {
                break;
            }
            let Some(key) = cursor.last_key()? else { break };
            if !self.writes.is_cut(&key) {
                hidden += 1;
                gone += u64::from(!self.writes.has(&key));
            }
        }
        gone += self.writes.cut(low, high, hidden);
        Ok(gone)
    }
}

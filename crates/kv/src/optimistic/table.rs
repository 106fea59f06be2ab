//! [`TransactionTable`]: one of the named tables in a transaction.

use crate::Result;
use crate::optimistic::{Transaction, TransactionRange};
use crate::range::Bounds;
use crate::tree::TableNumber;
use std::ops::RangeBounds;

/// One table in a [`Transaction`]. Its methods are those of [`Transaction`].
pub struct TransactionTable<'t> {
    transaction: &'t mut Transaction,
    /// Its place in the transaction's list.
    index: usize,
}

impl<'t> TransactionTable<'t> {
    pub(super) fn new(transaction: &'t mut Transaction, index: usize) -> TransactionTable<'t> {
        TransactionTable { transaction, index }
    }

    fn number(&self) -> TableNumber {
        self.transaction.tables[self.index].open.number
    }

    /// As [`Transaction::get`].
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.transaction.get_in(self.number(), key)
    }

    /// As [`Transaction::contains`].
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.len_of(key)?.is_some())
    }

    /// As [`Transaction::len_of`].
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn len_of(&self, key: &[u8]) -> Result<Option<u64>> {
        self.transaction.len_of_in(self.number(), key)
    }

    /// As [`Transaction::range`].
    pub fn range<K: AsRef<[u8]> + ?Sized>(&self, range: impl RangeBounds<K>) -> TransactionRange<'_> {
        self.transaction.range_in(Bounds::of(self.number(), &range))
    }

    /// As [`Transaction::prefix`].
    pub fn prefix(&self, prefix: &[u8]) -> TransactionRange<'_> {
        self.transaction.range_in(Bounds::prefix(self.number(), prefix))
    }

    /// As [`Transaction::len`]. The first count of a table in a process reads all of it.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn len(&self) -> Result<u64> {
        let table = &self.transaction.tables[self.index];
        let seen = crate::TableSnapshot { tree: self.transaction.tree.clone(), open: table.open.clone() };
        self.transaction.len_in(self.number(), seen.len()?)
    }

    /// As [`Transaction::is_empty`].
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// As [`Transaction::put`].
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let table = self.number();
        self.transaction.writes.put(table, key, value)
    }

    /// As [`Transaction::delete`].
    ///
    /// # Errors
    /// As [`Transaction::delete`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        let table = self.number();
        self.transaction.writes.delete(table, key)
    }

    /// As [`Transaction::delete_range`].
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn delete_range<K: AsRef<[u8]> + ?Sized>(&mut self, range: impl RangeBounds<K>) -> Result<u64> {
        let bounds = Bounds::of(self.number(), &range);
        self.transaction.delete_range_in(bounds)
    }
}

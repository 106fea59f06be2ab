//! The writes of a transaction that has not committed: pairs over ranges that were deleted.
//!
//! A pair hides the version's entry of its key. A deleted range (a *cut*) hides the version's
//! entries in it, and took the earlier pairs in it away: so the commit applies all cuts first and
//! then all pairs.

use crate::batch::Batch;
use crate::tree::{KEY_MAX, TABLE_LEN, TableNumber, VALUE_MAX};
use crate::{Error, Result};
use everbyte_media::museum::unless;
use std::collections::BTreeMap;
use std::collections::btree_map;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// By full key. `None`: deleted.
type Pairs = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A place in a transaction to which it can go back: see [`crate::Transaction::savepoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionSavepoint {
    /// No other savepoint of the process has it.
    serial: u64,
}

/// A deleted range of full keys.
#[derive(Debug)]
struct Cut {
    low: Vec<u8>,
    high: Vec<u8>,
    /// Entries of the version that it hides and no earlier cut does.
    hidden: u64,
}

/// The way back from a write.
#[derive(Debug)]
enum Undo {
    /// The pair of this key before.
    Pair(Vec<u8>, Option<Option<Vec<u8>>>),
    /// A cut was added, which took these pairs away.
    Cut(Pairs),
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Writes {
    pairs: Pairs,
    cuts: Vec<Cut>,
    /// Filled once there is a savepoint.
    undo: Vec<Undo>,
    /// Savepoints, and how long `undo` was.
    marks: Vec<(TransactionSavepoint, usize)>,
}

fn full(table: TableNumber, key: &[u8]) -> Vec<u8> {
    [&table.bytes(), key].concat()
}

impl Writes {
    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.cuts.is_empty()
    }

    pub(super) fn put(&mut self, table: TableNumber, key: &[u8], value: &[u8]) -> Result<()> {
        if value.len() as u64 > VALUE_MAX {
            return Err(Error::ValueTooLong { len: value.len() as u64, max: VALUE_MAX });
        }
        self.write(table, key, Some(value.to_vec()))
    }

    pub(super) fn delete(&mut self, table: TableNumber, key: &[u8]) -> Result<()> {
        self.write(table, key, None)
    }

    fn write(&mut self, table: TableNumber, key: &[u8], value: Option<Vec<u8>>) -> Result<()> {
        if key.len() > KEY_MAX {
            return Err(Error::KeyTooLong { len: key.len(), max: KEY_MAX });
        }
        let key = full(table, key);
        if self.marks.is_empty() {
            self.pairs.insert(key, value);
        } else {
            let before = self.pairs.insert(key.clone(), value);
            self.undo.push(Undo::Pair(key, before));
        }
        Ok(())
    }

    /// Removes the full keys `low..high`, of which the version sees `hidden` that no earlier cut
    /// hides. Returns how many pairs with a value go.
    pub(super) fn cut(&mut self, low: Vec<u8>, high: Vec<u8>, hidden: u64) -> u64 {
        let mut taken = self.pairs.split_off(&low);
        self.pairs.append(&mut taken.split_off(&high));
        let gone = taken.values().filter(|value| value.is_some()).count() as u64;
        self.cuts.push(Cut { low, high, hidden });
        if !self.marks.is_empty() {
            self.undo.push(Undo::Cut(taken));
        }
        gone
    }

    /// The transaction's own value of a key: `None` if it has none, and the version's counts.
    pub(super) fn find(&self, table: TableNumber, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.is_empty() {
            return None;
        }
        let key = full(table, key);
        match self.pairs.get(&key) {
            Some(value) => Some(value.as_deref()),
            None => self.is_cut(&key).then_some(None),
        }
    }

    /// Whether there is a pair of this full key.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.pairs.contains_key(key)
    }

    /// Whether a cut hides the version's entry of this full key.
    pub(super) fn is_cut(&self, key: &[u8]) -> bool {
        self.cuts.iter().any(|cut| &*cut.low <= key && key < &*cut.high)
    }

    /// Entries of a table that cuts hide. A cut lies in one table.
    pub(super) fn cut_in(&self, table: TableNumber) -> u64 {
        self.cuts.iter().filter(|cut| cut.low.starts_with(&table.bytes())).map(|cut| cut.hidden).sum()
    }

    /// The pairs of a range of full keys.
    pub(super) fn range(&self, low: &[u8], high: &[u8]) -> btree_map::Range<'_, Vec<u8>, Option<Vec<u8>>> {
        use std::ops::Bound::{Excluded, Included};
        // An empty range of a map panics where its ends cross.
        let high = if low < high { high } else { low };
        self.pairs.range::<[u8], _>((Included(low), Excluded(high)))
    }

    /// The pairs of a table, their keys without its number.
    pub(super) fn pairs_of(&self, table: TableNumber) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let pairs = self.range(&table.bytes(), &TableNumber(table.0 + 1).bytes());
        pairs.map(|(key, value)| (&key[TABLE_LEN..], value.as_deref()))
    }

    pub(super) fn savepoint(&mut self) -> TransactionSavepoint {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let savepoint = TransactionSavepoint { serial: NEXT.fetch_add(1, Relaxed) };
        self.marks.push((savepoint, self.undo.len()));
        savepoint
    }

    pub(super) fn roll_back(&mut self, savepoint: TransactionSavepoint) -> Result<()> {
        let Some(index) = self.marks.iter().position(|(mark, _)| *mark == savepoint) else {
            return Err(Error::NoSavepoint);
        };
        self.marks.truncate(index + 1);
        for undo in self.undo.drain(self.marks[index].1..).rev() {
            match undo {
                Undo::Pair(key, Some(before)) => drop(self.pairs.insert(key, before)),
                Undo::Pair(key, None) => drop(self.pairs.remove(&key)),
                Undo::Cut(mut taken) => {
                    unless("kv-optimistic-keeps-cuts", || drop(self.cuts.pop()));
                    self.pairs.append(&mut taken);
                }
            }
        }
        Ok(())
    }

    /// Writes everything to a batch.
    pub(super) fn apply(self, batch: &mut Batch<'_>) -> Result<()> {
        for cut in &self.cuts {
            batch.tree_mut().delete_range(&cut.low, &cut.high)?;
        }
        for (full, value) in &self.pairs {
            let Some((number, key)) = full.split_first_chunk() else { continue };
            let table = TableNumber(u32::from_be_bytes(*number));
            match value {
                Some(value) => batch.tree_mut().put(table, key, value)?,
                None => batch.tree_mut().delete(table, key)?,
            };
        }
        Ok(())
    }
}

//! The reads of a transaction, and their validation.
//!
//! An entry keeps the version that made it (its *start*) for as long as it lives, wherever the tree
//! moves it: so a key has the value that was read if and only if its start is the one that was
//! seen. A range is compared by the difference of both versions, which passes over leaves without a
//! newer stamp. Neither needs a list of recent commits, so a transaction may be of any age.

use crate::batch::Batch;
use crate::tree::{TableNumber, TreeChanges, TreeSnapshot, Version};
use crate::{Error, Kv, KvTable, Result};
use everbyte_media::seeded;
use std::collections::BTreeMap;

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Full keys, and the start that was seen; `None`: the key was not there.
    keys: BTreeMap<Vec<u8>, Option<Version>>,
    /// Full keys `low..high`.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// How many keys tables had.
    counts: Vec<(TableNumber, u64)>,
}

impl Reads {
    pub(super) fn add_key(&mut self, table: TableNumber, key: &[u8], start: Option<Version>) {
        self.keys.insert([&table.bytes(), key].concat(), start);
    }

    /// Returns the place of the range, for [`Reads::extend`].
    pub(super) fn add_range(&mut self, low: Vec<u8>, high: Vec<u8>) -> usize {
        self.ranges.push((low, high));
        self.ranges.len() - 1
    }

    /// A range that was added goes up to this full key, itself included.
    pub(super) fn extend_to(&mut self, index: usize, key: &[u8]) {
        let high = &mut self.ranges[index].1;
        high.clear();
        high.extend_from_slice(key);
        high.push(0);
    }

    /// A range that was added ends before this full key.
    pub(super) fn set_high(&mut self, index: usize, high: &[u8]) {
        self.ranges[index].1 = high.to_vec();
    }

    /// A range that was added begins at this full key.
    pub(super) fn extend_from(&mut self, index: usize, key: &[u8]) {
        let low = &mut self.ranges[index].0;
        low.clear();
        low.extend_from_slice(key);
    }

    pub(super) fn add_count(&mut self, table: TableNumber, keys: u64) {
        if !self.counts.contains(&(table, keys)) {
            self.counts.push((table, keys));
        }
    }

    /// Compares every read at the version before `batch` with the transaction's version.
    ///
    /// # Errors
    /// [`Error::Conflict`] of the first that differs; damage.
    pub(super) fn validate(self, kv: &Kv, batch: &Batch<'_>, then: &TreeSnapshot, tables: &[KvTable]) -> Result<()> {
        let conflict = |full: &[u8]| Err(conflict(full, tables));
        let keys = if seeded("kv-optimistic-keys-unvalidated") { BTreeMap::new() } else { self.keys };
        for (full, start) in &keys {
            let Some((number, key)) = full.split_first_chunk() else { continue };
            if batch.tree().start_of(TableNumber(u32::from_be_bytes(*number)), key)? != *start {
                return conflict(full);
            }
        }
        if self.ranges.is_empty() && self.counts.is_empty() {
            return Ok(());
        }
        let now = kv.tree.snapshot_of(batch.tree().follows());
        let ranges = if seeded("kv-optimistic-ranges-unvalidated") { Vec::new() } else { self.ranges };
        for (low, high) in ranges {
            if let Some(full) = first_change(then, &now, &low, &high)? {
                return conflict(&full);
            }
        }
        let counts = if seeded("kv-optimistic-counts-unvalidated") { Vec::new() } else { self.counts };
        for (table, keys) in counts {
            let found = match tables.iter().find(|open| open.open.number == table) {
                Some(table) => crate::TableSnapshot { tree: now.clone(), open: table.open.clone() }.len()?,
                None => now.len(),
            };
            if found != keys {
                let high = TableNumber(table.0 + 1).bytes();
                let key = first_change(then, &now, &table.bytes(), &high)?;
                return conflict(&key.unwrap_or_else(|| table.bytes().to_vec()));
            }
        }
        Ok(())
    }
}

/// The first full key of `low..high` that differs.
fn first_change(then: &TreeSnapshot, now: &TreeSnapshot, low: &[u8], high: &[u8]) -> Result<Option<Vec<u8>>> {
    if low >= high {
        return Ok(None);
    }
    let change = TreeChanges::new(then, now, low, high)?.next()?;
    Ok(change.map(|change| [&change.table.bytes()[..], &change.key].concat()))
}

fn conflict(full: &[u8], tables: &[KvTable]) -> Error {
    let (number, key) = full.split_first_chunk().unwrap_or((&[0; 4], full));
    let number = TableNumber(u32::from_be_bytes(*number));
    let name = tables.iter().find(|table| table.open.number == number).map(|table| table.name.to_string());
    Error::Conflict { table: name.unwrap_or_default(), key: key.to_vec() }
}

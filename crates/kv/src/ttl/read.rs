//! Reads of entries with deadlines.

use super::{DEADLINE_LEN, NEVER};
use crate::error::damaged;
use crate::range::Range;
use crate::{Result, TableSnapshot};
use std::ops::RangeBounds;

/// The deadline at the head of a value.
pub(super) fn deadline_of(value: Option<&[u8]>) -> Result<Option<u64>> {
    match value.map(<[u8]>::first_chunk::<DEADLINE_LEN>) {
        None => Ok(None),
        Some(Some(deadline)) => Ok(Some(u64::from_le_bytes(*deadline))),
        Some(None) => damaged(0, "a value of an expiring table has no deadline"),
    }
}

/// The value behind its deadline; `None` if it has expired (TTL-1).
pub(super) fn visible(mut value: Vec<u8>, now: u64) -> Result<Option<Vec<u8>>> {
    let is_visible = deadline_of(Some(&value))?.is_some_and(|deadline| is_before(now, deadline));
    value.drain(..DEADLINE_LEN);
    Ok(is_visible.then_some(value))
}

/// Whether an entry with this deadline is there at `now`.
pub(super) fn is_before(now: u64, deadline: u64) -> bool {
    now < deadline
}

/// The key in the index: the deadline, the highest byte first, and the key.
pub(super) fn index_key(deadline: u64, key: &[u8]) -> Vec<u8> {
    [&deadline.to_be_bytes(), key].concat()
}

/// The deadline and the key of an entry of the index.
pub(super) fn indexed(entry: &[u8]) -> Result<(u64, &[u8])> {
    match entry.split_first_chunk() {
        Some((deadline, key)) => Ok((u64::from_be_bytes(*deadline), key)),
        None => damaged(0, "an entry of an index of deadlines has no deadline"),
    }
}

/// An expiring table at one version and one time: entries that had expired by then are not there,
/// and none expires later.
#[derive(Clone)]
pub struct ExpiringSnapshot {
    pub(super) table: TableSnapshot,
    pub(super) index: TableSnapshot,
    moment: u64,
}

impl ExpiringSnapshot {
    pub(super) fn new(table: TableSnapshot, index: TableSnapshot, moment: u64) -> ExpiringSnapshot {
        ExpiringSnapshot { table, index, moment }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// Damage.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.table.get(key)?.map_or(Ok(None), |value| visible(value, self.moment))
    }

    /// The entries of a range, in key order; `rev()` walks from the end.
    pub fn range<K: AsRef<[u8]> + ?Sized>(&self, range: impl RangeBounds<K>) -> ExpiringRange {
        ExpiringRange::new(self.table.range(range), self.moment)
    }

    /// The entries whose keys begin with `prefix`, in key order.
    pub fn prefix(&self, prefix: &[u8]) -> ExpiringRange {
        ExpiringRange::new(self.table.prefix(prefix), self.moment)
    }

    /// How many keys there are. Counts those that had expired and were not removed.
    ///
    /// # Errors
    /// Damage.
    pub fn len(&self) -> Result<u64> {
        let end = self.moment.saturating_add(1).to_be_bytes();
        let expired = self.index.range(..&end[..]).count_entries()?;
        Ok(self.table.len()?.saturating_sub(expired))
    }

    /// Whether there is no key.
    ///
    /// # Errors
    /// Damage.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.range::<[u8]>(..).next().transpose()?.is_none())
    }
}

/// Entries of an expiring table in key order, at the time at which the range was made;
/// [`DoubleEndedIterator`] walks them from the end.
pub struct ExpiringRange {
    range: Range<'static>,
    moment: u64,
}

impl ExpiringRange {
    pub(super) fn new(range: Range<'static>, moment: u64) -> ExpiringRange {
        ExpiringRange { range, moment }
    }
}

type Pair = Result<(Vec<u8>, Vec<u8>)>;

/// The pair without its deadline, if it has not expired.
fn shown(pair: Pair, moment: u64) -> Option<Pair> {
    let (key, value) = match pair {
        Ok(pair) => pair,
        Err(error) => return Some(Err(error)),
    };
    visible(value, moment).map(|value| value.map(|value| (key, value))).transpose()
}

impl Iterator for ExpiringRange {
    type Item = Pair;

    fn next(&mut self) -> Option<Pair> {
        self.range.by_ref().find_map(|pair| shown(pair, self.moment))
    }
}

impl DoubleEndedIterator for ExpiringRange {
    fn next_back(&mut self) -> Option<Pair> {
        self.range.by_ref().rev().find_map(|pair| shown(pair, self.moment))
    }
}

/// The deadline that an entry of the index has, if it is to have one.
pub(super) fn listed(deadline: u64) -> Option<u64> {
    (deadline != NEVER).then_some(deadline)
}

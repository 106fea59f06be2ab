//! Iterating over a range of keys, from both ends.

use crate::Result;
use crate::tree::{self, Cursor, TableNumber};
use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

/// A range of full keys of one table, as `low..high`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) low: Vec<u8>,
    pub(crate) high: Vec<u8>,
}

/// The smallest key behind `key`.
fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl Bounds {
    pub(crate) fn of<K: AsRef<[u8]> + ?Sized>(table: TableNumber, range: &impl RangeBounds<K>) -> Bounds {
        let low = match range.start_bound() {
            Bound::Included(low) => low.as_ref().to_vec(),
            Bound::Excluded(low) => behind(low.as_ref()),
            Bound::Unbounded => Vec::new(),
        };
        let high = match range.end_bound() {
            Bound::Included(high) => Some(behind(high.as_ref())),
            Bound::Excluded(high) => Some(high.as_ref().to_vec()),
            Bound::Unbounded => None,
        };
        Bounds::new(table, low, high)
    }

    /// The keys of all tables.
    pub(crate) fn everything() -> Bounds {
        Bounds { low: Vec::new(), high: TableNumber(TableNumber::CATALOGUE.0 + 1).bytes().to_vec() }
    }

    /// Without `high` to the end of the table.
    fn new(table: TableNumber, low: Vec<u8>, high: Option<Vec<u8>>) -> Bounds {
        let full = |key: Vec<u8>| [&table.bytes()[..], &key].concat();
        let end = || TableNumber(table.0 + 1).bytes().to_vec();
        Bounds { low: full(low), high: high.map_or_else(end, full) }
    }

    /// All keys that begin with `prefix`.
    pub(crate) fn prefix(table: TableNumber, prefix: &[u8]) -> Bounds {
        // Behind them all: the last byte that can grow, grown. If none can, nothing is behind.
        let last = prefix.iter().rposition(|&byte| byte != 0xff);
        let high = last.map(|last| {
            let mut high = prefix[..=last].to_vec();
            high[last] += 1;
            high
        });
        Bounds::new(table, prefix.to_vec(), high)
    }
}

/// An entry that a [`Range`] has come to. Nothing of it has been fetched but its lengths.
pub struct Entry<'r>(tree::Entry<'r>);

impl<'r> Entry<'r> {
    pub(crate) fn table(&self) -> TableNumber {
        self.0.table()
    }

    /// Bytes of the key.
    #[inline]
    pub fn key_len(&self) -> usize {
        self.0.key_len()
    }

    /// Bytes of the value.
    #[inline]
    pub fn value_len(&self) -> u64 {
        self.0.value_len()
    }

    /// The key alone, verified by its own sum. Nothing of the value is fetched.
    ///
    /// # Errors
    /// Damage of this entry. The range can go on behind it.
    pub fn key(self) -> Result<&'r [u8]> {
        self.0.key()
    }

    /// Key and value, verified against their checksum; lent until the range moves.
    ///
    /// # Errors
    /// Damage of this entry. The range can go on behind it.
    #[inline]
    pub fn read(self) -> Result<(&'r [u8], &'r [u8])> {
        self.0.read()
    }
}

/// Entries in key order; [`DoubleEndedIterator`] walks them from the end. A damaged entry is an
/// error in its place; after damage that hides where to go on, the range ends.
pub struct Range<'a> {
    bounds: Bounds,
    start: Option<Cursor<'a>>,
    front: Option<Cursor<'a>>,
    back: Option<Cursor<'a>>,
    done: bool,
}

impl<'a> Range<'a> {
    pub(crate) fn new(cursor: Cursor<'a>, bounds: Bounds) -> Range<'a> {
        Range { bounds, start: Some(cursor), front: None, back: None, done: false }
    }

    /// A cursor for one end: the first end takes the one given, the second a copy.
    fn cursor(&mut self) -> Cursor<'a> {
        let other = self.front.as_ref().or(self.back.as_ref()).map(Cursor::again);
        other.or_else(|| self.start.take()).expect("one of the three is there")
    }

    /// The next entry, of which nothing is fetched yet: the fast way to pass over many, or to read
    /// some.
    ///
    /// # Errors
    /// Damage. The range ends then.
    #[inline]
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>> {
        // Anything but an entry handed out ends the range.
        if std::mem::replace(&mut self.done, true) {
            return Ok(None);
        }
        if self.front.is_none() {
            let mut cursor = self.cursor();
            cursor.seek(&self.bounds.low)?;
            self.front = Some(cursor);
        }
        let Some(entry) = self.front.as_mut().expect("set above").next()? else { return Ok(None) };
        if entry.compare(&self.bounds.high)? != Ordering::Less {
            return Ok(None);
        }
        // The ends never cross.
        if let Some(back) = &self.back
            && let Some(key) = back.last_key()?
            && entry.compare(&key)? != Ordering::Less
        {
            return Ok(None);
        }
        self.done = false;
        Ok(Some(Entry(entry)))
    }

    /// As [`Range::next_entry`], from the end.
    ///
    /// # Errors
    /// Damage. The range ends then.
    pub fn next_back_entry(&mut self) -> Result<Option<Entry<'_>>> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(None);
        }
        if self.back.is_none() {
            let mut cursor = self.cursor();
            cursor.seek(&self.bounds.high)?;
            self.back = Some(cursor);
        }
        let Some(entry) = self.back.as_mut().expect("set above").prev()? else { return Ok(None) };
        if entry.compare(&self.bounds.low)? == Ordering::Less {
            return Ok(None);
        }
        if let Some(front) = &self.front
            && let Some(key) = front.last_key()?
            && entry.compare(&key)? != Ordering::Greater
        {
            return Ok(None);
        }
        self.done = false;
        Ok(Some(Entry(entry)))
    }

    /// The next entry's key and value, verified, lent until the next call.
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.next_entry()?.map(Entry::read).transpose()
    }

    /// As [`Range::next_ref`], from the end.
    ///
    /// # Errors
    /// Damage.
    pub fn next_back_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.next_back_entry()?.map(Entry::read).transpose()
    }
}

fn owned(entry: Result<Option<(&[u8], &[u8])>>) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
    entry.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec()))).transpose()
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        owned(self.next_ref())
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        owned(self.next_back_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_the_next_one_begins() {
        let high = |prefix: &[u8]| Bounds::prefix(TableNumber(7), prefix).high;
        assert_eq!(high(b"ab"), b"\0\0\0\x07ac");
        assert_eq!(high(b"a\xff\xff"), b"\0\0\0\x07b");
        assert_eq!(high(b"\xff\xff"), [0, 0, 0, 8]);
        assert_eq!(high(b""), [0, 0, 0, 8]);
    }
}

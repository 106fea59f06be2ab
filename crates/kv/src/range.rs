//! Iterating over a range of keys, from both ends.

use crate::Result;
use crate::tree::{self, Cursor, TABLE_LEN, TableNumber};
use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

/// A range of full keys, as `low..high`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) low: Vec<u8>,
    end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// Behind the last key of this table.
    Of(TableNumber),
    /// Before this full key.
    Before(Vec<u8>),
}

/// A full key.
fn full(table: TableNumber, key: &[u8]) -> Vec<u8> {
    [&table.bytes(), key].concat()
}

/// The smallest full key behind `key`.
fn behind(table: TableNumber, key: &[u8]) -> Vec<u8> {
    [&table.bytes(), key, &[0]].concat()
}

impl Bounds {
    pub(crate) fn of<K: AsRef<[u8]> + ?Sized>(table: TableNumber, range: &impl RangeBounds<K>) -> Bounds {
        let low = match range.start_bound() {
            Bound::Included(low) => full(table, low.as_ref()),
            Bound::Excluded(low) => behind(table, low.as_ref()),
            Bound::Unbounded => full(table, &[]),
        };
        let end = match range.end_bound() {
            Bound::Included(high) => End::Before(behind(table, high.as_ref())),
            Bound::Excluded(high) => End::Before(full(table, high.as_ref())),
            Bound::Unbounded => End::Of(table),
        };
        Bounds { low, end }
    }

    /// The keys of all tables.
    pub(crate) fn everything() -> Bounds {
        Bounds { low: Vec::new(), end: End::Of(TableNumber::CATALOGUE) }
    }

    /// All keys that begin with `prefix`.
    pub(crate) fn prefix(table: TableNumber, prefix: &[u8]) -> Bounds {
        // Behind them all: the last byte that can grow, grown. If none can, nothing is behind.
        let end = match prefix.iter().rposition(|&byte| byte != 0xff) {
            None => End::Of(table),
            Some(last) => {
                let mut high = full(table, &prefix[..=last]);
                high[TABLE_LEN + last] += 1;
                End::Before(high)
            }
        };
        Bounds { low: full(table, prefix), end }
    }

    /// The first full key behind the range.
    pub(crate) fn high(&self) -> Vec<u8> {
        match &self.end {
            End::Of(table) => TableNumber(table.0 + 1).bytes().to_vec(),
            End::Before(high) => high.clone(),
        }
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

    #[inline]
    fn open_front(&mut self) -> Result<()> {
        if self.front.is_none() {
            let mut cursor = self.cursor();
            cursor.seek(&self.bounds.low)?;
            self.front = Some(cursor);
        }
        Ok(())
    }

    #[inline]
    fn open_back(&mut self) -> Result<()> {
        if self.back.is_none() {
            let mut cursor = self.cursor();
            cursor.seek(&self.bounds.high())?;
            self.back = Some(cursor);
        }
        Ok(())
    }

    /// Passes over up to `count` entries, leaf by leaf: none of them is looked at.
    ///
    /// # Errors
    /// Damage. The range ends then.
    pub fn skip_entries(&mut self, count: u64) -> Result<()> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(());
        }
        self.open_front()?;
        self.done = !self.front.as_mut().expect("set above").skip(count)?;
        Ok(())
    }

    /// As [`Range::skip_entries`], from the end.
    ///
    /// # Errors
    /// Damage. The range ends then.
    pub fn skip_back_entries(&mut self, count: u64) -> Result<()> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(());
        }
        self.open_back()?;
        self.done = !self.back.as_mut().expect("set above").skip_back(count)?;
        Ok(())
    }

    /// How many entries are left. Looks at one entry of each leaf: linear in the entries, tens of
    /// nanoseconds each. After a walk from the end, at each entry.
    ///
    /// # Errors
    /// Damage.
    pub fn count_entries(mut self) -> Result<u64> {
        let mut count = 0;
        if self.back.is_some() {
            while self.next_entry()?.is_some() {
                count += 1;
            }
        } else if !self.done && self.bounds.low < self.bounds.high() {
            self.open_front()?;
            count = self.front.as_mut().expect("set above").pass(&self.bounds.high())?;
        }
        Ok(count)
    }

    /// Counts entries as [`Range::count_entries`] does, and passes over them, within one leaf; and
    /// whether there may be more. For counts that may be given up. There was no walk from the end.
    ///
    /// # Errors
    /// Damage. The range ends then.
    pub fn count_part(&mut self) -> Result<(u64, bool)> {
        let high = self.bounds.high();
        if std::mem::replace(&mut self.done, true) || self.bounds.low >= high {
            return Ok((0, false));
        }
        self.open_front()?;
        let (count, more) = self.front.as_mut().expect("set above").pass_part(&high)?;
        self.done = !more;
        Ok((count, more))
    }

    /// The key of a random entry of the range, wherever the range stands. Costs one way down the
    /// tree. An entry is met with a chance that depends on the shape of the tree; beside the key is
    /// the chance's inverse, by which draws can be weighed: its mean is the number of entries.
    /// `None`: the leaf that was met has no entry of the range; its weight is 0.
    ///
    /// # Errors
    /// Damage.
    pub fn sample(&self, random: &mut dyn FnMut() -> u64) -> Result<Option<(u64, Vec<u8>)>> {
        let (low, high) = (&self.bounds.low, self.bounds.high());
        let given = self.front.as_ref().or(self.back.as_ref()).or(self.start.as_ref());
        let Some(mut cursor) = given.map(Cursor::again).filter(|_| *low < high) else { return Ok(None) };
        let drawn = cursor.sample(low, &high, random)?;
        drawn.map(|(weight, entry)| Ok((weight, entry.key()?.to_vec()))).transpose()
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
        self.open_front()?;
        let Some(entry) = self.front.as_mut().expect("set above").next()? else { return Ok(None) };
        // At the end of the table its number alone is looked at: nothing of the entry is fetched.
        let within = match &self.bounds.end {
            End::Of(table) => entry.table() <= *table,
            End::Before(high) => entry.compare(high)? == Ordering::Less,
        };
        if !within {
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
        self.open_back()?;
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
        let high = |prefix: &[u8]| Bounds::prefix(TableNumber(7), prefix).high();
        assert_eq!(high(b"ab"), b"\0\0\0\x07ac");
        assert_eq!(high(b"a\xff\xff"), b"\0\0\0\x07b");
        assert_eq!(high(b"\xff\xff"), [0, 0, 0, 8]);
        assert_eq!(high(b""), [0, 0, 0, 8]);
    }
}

//! Iterating over a range of keys, from both ends.

use crate::Result;
use everbyte_cdds::Cursor;
use std::ops::{Bound, RangeBounds};

/// A range of keys as `low..high`; without a high bound it goes to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

/// The smallest key behind `key`.
fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl Bounds {
    pub(crate) fn of<K: AsRef<[u8]> + ?Sized>(range: &impl RangeBounds<K>) -> Bounds {
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
        Bounds { low, high }
    }

    /// All keys that begin with `prefix`.
    pub(crate) fn prefix(prefix: &[u8]) -> Bounds {
        // Behind them all: the last byte that can grow, grown. If none can, nothing is behind.
        let last = prefix.iter().rposition(|&byte| byte != 0xff);
        let high = last.map(|last| {
            let mut high = prefix[..=last].to_vec();
            high[last] += 1;
            high
        });
        Bounds { low: prefix.to_vec(), high }
    }
}

/// Entries in key order; [`DoubleEndedIterator`] walks them from the end. After an error it ends.
pub struct Range<'a> {
    bounds: Bounds,
    start: Option<Cursor<'a>>,
    front: Option<Cursor<'a>>,
    back: Option<Cursor<'a>>,
    /// Whether anything was handed out at either end: the ends never cross.
    front_moved: bool,
    back_moved: bool,
    done: bool,
}

impl<'a> Range<'a> {
    pub(crate) fn new(cursor: Cursor<'a>, bounds: Bounds) -> Range<'a> {
        Range {
            bounds,
            start: Some(cursor),
            front: None,
            back: None,
            front_moved: false,
            back_moved: false,
            done: false,
        }
    }

    /// A cursor for one end: the first end takes the one given, the second a copy.
    fn cursor(&mut self) -> Cursor<'a> {
        let other = self.front.as_ref().or(self.back.as_ref()).map(Cursor::again);
        other.or_else(|| self.start.take()).expect("one of the three is there")
    }

    /// The next entry, lent until the next call: the fast way through many.
    ///
    /// # Errors
    /// Damage. The range ends then.
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.done {
            return Ok(None);
        }
        // Anything but an entry handed out ends the range.
        self.done = true;
        if self.front.is_none() {
            let mut cursor = self.cursor();
            cursor.seek(&self.bounds.low)?;
            self.front = Some(cursor);
        }
        let back = self.back.as_ref().filter(|_| self.back_moved).map(Cursor::last_key);
        let Some((key, value)) = self.front.as_mut().expect("set above").next()? else { return Ok(None) };
        let beyond = self.bounds.high.as_deref().is_some_and(|high| key >= high);
        if beyond || back.is_some_and(|back| key >= back) {
            return Ok(None);
        }
        self.front_moved = true;
        self.done = false;
        Ok(Some((key, value)))
    }

    /// As [`Range::next_ref`], from the end.
    ///
    /// # Errors
    /// Damage. The range ends then.
    pub fn next_back_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.done {
            return Ok(None);
        }
        self.done = true;
        if self.back.is_none() {
            let mut cursor = self.cursor();
            match &self.bounds.high {
                Some(high) => cursor.seek(high)?,
                None => cursor.seek_end()?,
            }
            self.back = Some(cursor);
        }
        let front = self.front.as_ref().filter(|_| self.front_moved).map(Cursor::last_key);
        let Some((key, value)) = self.back.as_mut().expect("set above").prev()? else { return Ok(None) };
        if key < &*self.bounds.low || front.is_some_and(|front| key <= front) {
            return Ok(None);
        }
        self.back_moved = true;
        self.done = false;
        Ok(Some((key, value)))
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
        let high = |prefix: &[u8]| Bounds::prefix(prefix).high;
        assert_eq!(high(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(high(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(high(b"\xff\xff"), None);
        assert_eq!(high(b""), None);
    }
}

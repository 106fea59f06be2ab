//! Lists: elements by place.
//!
//! An element lies under its place, 8 bytes big-endian; the collection's record has the place of
//! the first one, and the others follow without gaps. The first element of a new list is at 1 <<
//! 63, so that either end grows.
//!
//! An element in the middle is inserted or removed by moving the shorter side, piece by piece.
//!
//! Invariants
//!   LIST-1  The places of a list are `first..first + count`, without gaps.

use super::record::{Collection, damaged};
use super::{ElementSpan, Keyspace};
use everbyte_kv::Result;
use everbyte_media::seeded;
use std::ops::{Bound, Range};

/// Bytes of elements that are moved together.
const TOGETHER: usize = 256 << 10;
/// Bytes that an element costs beside its own.
const EACH: usize = 32;

/// One end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The first element.
    Head,
    /// The last element.
    Tail,
}

fn place(list: &Collection, index: u64) -> [u8; 8] {
    list.first.wrapping_add(index).to_be_bytes()
}

impl Keyspace<'_> {
    /// The element at an index below the count.
    pub(crate) fn list_element(&mut self, list: &Collection, index: u64) -> Result<Vec<u8>> {
        self.element(list, &place(list, index))?.ok_or_else(damaged)
    }

    /// Replaces the element at an index below the count.
    pub(crate) fn set_list_element(&mut self, list: &Collection, index: u64, value: &[u8]) -> Result<()> {
        self.put_element(list, &place(list, index), value).map(drop)
    }

    /// Visits the elements at `indexes` while `each` says `true`.
    pub(crate) fn visit_list(
        &mut self,
        list: &Collection,
        indexes: Range<u64>,
        backwards: bool,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        if indexes.is_empty() {
            return Ok(());
        }
        let (from, last) = (place(list, indexes.start), place(list, indexes.end - 1));
        let span = ElementSpan { from: Bound::Included(&from), to: Bound::Included(&last), backwards };
        self.visit_elements(list, span, &mut |_, value| each(value))
    }

    /// Adds an element at an end. The list has to be stored afterwards.
    pub(crate) fn push_list(&mut self, list: &mut Collection, end: End, value: &[u8]) -> Result<()> {
        if end == End::Head {
            list.first = list.first.wrapping_sub(1);
        }
        let index = if end == End::Head { 0 } else { list.count };
        list.count += 1;
        self.set_list_element(list, index, value)
    }

    /// Removes `count` elements, at most all, from an end. The list has to be stored afterwards.
    pub(crate) fn cut_list(&mut self, list: &mut Collection, end: End, count: u64) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let start = if end == End::Head { 0 } else { list.count - count };
        let (from, last) = (place(list, start), place(list, start + count - 1));
        if count == 1 {
            self.remove_element(list, &from)?;
        } else {
            let span = ElementSpan { from: Bound::Included(&from), to: Bound::Included(&last), backwards: false };
            self.remove_span(list, span)?;
        }
        list.count -= count;
        if end == End::Head && !seeded("server-list-first") {
            list.first = list.first.wrapping_add(count);
        }
        Ok(())
    }

    /// The next elements of `left`, from its end if `backwards`, as many as are moved together.
    fn list_piece(&mut self, list: &Collection, left: Range<u64>, backwards: bool) -> Result<Vec<Vec<u8>>> {
        let (mut piece, mut size) = (Vec::new(), 0);
        self.visit_list(list, left, backwards, &mut |value| {
            piece.push(value.to_vec());
            size += value.len() + EACH;
            size < TOGETHER
        })?;
        if piece.is_empty() { Err(damaged()) } else { Ok(piece) }
    }

    /// Inserts an element before the one at `index`, at most the count. The list has to be stored
    /// afterwards.
    pub(crate) fn insert_in_list(&mut self, list: &mut Collection, index: u64, value: &[u8]) -> Result<()> {
        let towards_head = index < list.count - index;
        let mut left = if towards_head { 0..index } else { index..list.count };
        while !left.is_empty() {
            for moved in self.list_piece(list, left.clone(), !towards_head)? {
                if towards_head {
                    self.set_list_element(list, left.start.wrapping_sub(1), &moved)?;
                    left.start += 1;
                } else {
                    self.set_list_element(list, left.end, &moved)?;
                    left.end -= 1;
                }
            }
        }
        if towards_head {
            list.first = list.first.wrapping_sub(1);
        }
        list.count += 1;
        self.set_list_element(list, index, value)
    }

    /// Removes the elements equal to `value`: the first `limit` from an end; returns how many. The
    /// list has to be stored afterwards if there were any.
    pub(crate) fn remove_from_list(
        &mut self,
        list: &mut Collection,
        value: &[u8],
        end: End,
        limit: u64,
    ) -> Result<u64> {
        let (mut at, mut found, mut low, mut high) = (0, 0, u64::MAX, 0);
        let count = list.count;
        self.visit_list(list, 0..count, end == End::Tail, &mut |element| {
            let index = if end == End::Tail { count - 1 - at } else { at };
            at += 1;
            if element == value {
                found += 1;
                (low, high) = (low.min(index), high.max(index));
            }
            found < limit
        })?;
        if found == 0 || found == count {
            list.count -= found; // without elements the list goes, and they with it
            return Ok(found);
        }
        let goes = |index: u64, element: &[u8]| (low..=high).contains(&index) && element == value;
        if count - low <= high + 1 {
            let (mut left, mut kept) = (low..count, low);
            while !left.is_empty() {
                for element in self.list_piece(list, left.clone(), false)? {
                    if !goes(left.start, &element) {
                        if kept != left.start {
                            self.set_list_element(list, kept, &element)?;
                        }
                        kept += 1;
                    }
                    left.start += 1;
                }
            }
            self.cut_list(list, End::Tail, count - kept)?;
        } else {
            let (mut left, mut kept) = (0..high + 1, high + 1);
            while !left.is_empty() {
                for element in self.list_piece(list, left.clone(), true)? {
                    left.end -= 1;
                    if !goes(left.end, &element) {
                        kept -= 1;
                        if kept != left.end && !seeded("server-list-head") {
                            self.set_list_element(list, kept, &element)?;
                        }
                    }
                }
            }
            self.cut_list(list, End::Head, kept)?;
        }
        Ok(found)
    }
}

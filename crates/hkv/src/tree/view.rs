//! [`View`]: a node on media, for the way down: none of it is copied.
//!
//! Threads: the caller holds the store's lock, so that no thread changes the node.

use super::node::{Node, prefix, slot_at};
use super::order::Order;
use crate::Result;
use crate::base::Base;
use crate::layout::{NODE, Node as Bytes, NodeSlot, PLACE_AT, PREFIX_AT, SLOTS_AT};
use crate::record::Record;
use everbyte_media::Window;
use std::cmp::Ordering;
use std::ops::Range;
use zerocopy::transmute;

/// Offset of the word of a node's level, of which `skip` is the upper half.
const LEVEL_AT: usize = std::mem::offset_of!(Bytes, level);

/// A node of which only the part for a search is verified: its order names existing slots only.
pub(super) struct View<'b> {
    base: &'b Base,
    window: Window<'b>,
    pub at: u64,
    pub order: Order,
    pub level: u32,
    pub skip: u32,
}

impl<'b> View<'b> {
    /// The node at `at`, which may be any number, at the expected level.
    #[inline(always)]
    pub(super) fn of(base: &'b Base, at: u64, level: Option<u32>) -> Result<View<'b>> {
        // together with the first
        (64..NODE).step_by(64).for_each(|line| base.media().prefetch(at.wrapping_add(line)));
        let window = Some(at).filter(|at| at.is_multiple_of(64) && base.heap().encloses(*at, NODE));
        let Some(window) = window.and_then(|at| base.media().window(at, NODE)) else {
            return Err(base.damaged(at, "no node can lie there"));
        };
        let (order, head) = (Order(window.load(0)), window.load(LEVEL_AT));
        let view = View { base, window, at, order, level: head as u32, skip: (head >> 32) as u32 };
        if !order.is_readable() || level.is_some_and(|level| view.level != level) {
            return Err(base.damaged(at, "what lies there is no node of its level"));
        }
        if view.level > 0 && order.count() == 0 {
            return Err(base.damaged(at, "an inner node without a child"));
        }
        Ok(view)
    }

    /// The number of slots with keys less than `key`, and the record of that key, if it is next.
    /// The first slot of an inner node stands for all keys before the second.
    #[inline(always)]
    pub(super) fn rank(&self, key: &[u8]) -> Result<(usize, Option<Record>)> {
        let first = usize::from(self.level > 0);
        let same = self.order.rank(first, prefix(key, self.skip), |slot| self.word(slot, PREFIX_AT));
        if same.is_empty() { Ok((same.start, None)) } else { self.rank_among(same, key) }
    }

    /// [`View::rank`] among slots whose prefix is that of `key`.
    fn rank_among(&self, same: Range<usize>, key: &[u8]) -> Result<(usize, Option<Record>)> {
        let (heap, Range { start: mut less, mut end }) = (self.base.heap(), same);
        while less < end {
            let middle = (less + end) / 2;
            let record = if self.level == 0 {
                Record::expect(heap, self.place(middle));
                Record::read(heap, self.place(middle))?
            } else {
                self.read()?.record(self.base, middle)?
            };
            match record.compare(heap, key) {
                Ordering::Equal => return Ok((middle, Some(record))),
                Ordering::Less => less = middle + 1,
                Ordering::Greater => end = middle,
            }
        }
        Ok((less, None))
    }

    /// The child for keys like `key`.
    #[inline(always)]
    pub(super) fn child_of(&self, key: &[u8]) -> Result<usize> {
        let (less, equal) = self.rank(key)?;
        Ok(if equal.is_some() { less } else { less - 1 })
    }

    /// The child at `index`.
    #[inline(always)]
    pub(super) fn child(&self, index: usize) -> Result<View<'b>> {
        View::of(self.base, self.place(index), Some(self.level - 1))
    }

    /// Offset of the slot at `index`; at the count, of the first unused one.
    pub(super) fn slot_at(&self, index: usize) -> u64 {
        slot_at(self.at, self.order.slot(index))
    }

    /// Verifies the rest, which a search does not need and a change does.
    pub(super) fn verify(&self) -> Result<()> {
        match self.order.is_whole() && self.base.heap().may_hold_blocks(self.at, NODE) {
            true => Ok(()),
            false => Err(self.base.damaged(self.at, "what lies there is no node of its level")),
        }
    }

    /// The node, copied and verified.
    pub(super) fn read(&self) -> Result<Node> {
        self.verify()?;
        Ok(Node { at: self.at, bytes: transmute!(self.window.words::<{ NODE as usize / 8 }>(0)) })
    }

    #[inline(always)]
    fn place(&self, index: usize) -> u64 {
        self.word(self.order.slot(index), PLACE_AT)
    }

    /// A word of a slot.
    #[inline(always)]
    fn word(&self, slot: usize, at: u64) -> u64 {
        self.window.load(SLOTS_AT as usize + slot * size_of::<NodeSlot>() + at as usize)
    }
}

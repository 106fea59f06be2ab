//! Maps under a [`HeapWalk`]: their blocks, for both kinds of walkers.
//!
//! A hash map is one block, whose entries are looked at in rows, from one free place to the next.
//! The nodes of an ordered map are blocks that lead to each other. Ahead of its root its end is put
//! on the list: all its nodes have been looked at when that is taken off again, and so have all
//! maps that were met meanwhile. Thus one list of trees, the innermost last, is enough to count
//! their entries.

use crate::description::node_shape::NodeShape;
use crate::types::hash_map::tags;
use crate::verify::deep::report::FaultKind;
use crate::verify::deep::walk::{BlockForm, HeapWalk, Owner, TURN, Visit};
use std::ops::Range;

/// An ordered map whose nodes are being looked at.
#[derive(Debug)]
pub(crate) struct Tree {
    shape: NodeShape,
    /// Entries that it says it has.
    len: u64,
    /// Entries in its nodes so far.
    found: u64,
}

impl<V: Copy> HeapWalk<'_, V> {
    /// The hash map at `from`, with entries of `size` bytes.
    pub(crate) fn table(&mut self, from: u64, size: u64, what: V) {
        let [word, groups, len, left] =
            [(0, 8), (8, 4), (16, 8), (24, 8)].map(|(at, bytes)| self.number(from + at, bytes));
        if word == 0 {
            if (groups, len, left) != (0, 0, 0) {
                self.fault(FaultKind::Value, from, "a hash map that has entries and no block".into());
            }
            return;
        }
        let Some(bytes) = tags::bytes(groups, size).filter(|_| groups.is_power_of_two()) else {
            return self.fault(FaultKind::Value, from, "a hash map whose groups are no power of two".into());
        };
        if !self.pointer(from, word, bytes, Owner::Alone, BlockForm::Places(groups), what) {
            return;
        }
        let table = self.place(word);
        let mut words = (0..groups).map(|group| self.number(table + group * tags::GROUP, 8));
        let counts = words.try_fold((0, 0), |sum, word| {
            let (entries, empties) = tags::count(word)?;
            Some((sum.0 + entries, sum.1 + empties))
        });
        if left.checked_add(groups).is_none_or(|empties| counts != Some((len, empties))) {
            let detail = format!("a hash map of {len} entries and {left} free places, whose tags say otherwise");
            self.fault(FaultKind::Value, from, detail);
        }
    }

    /// The next entries in a row of the table at `at`, from place `done` on.
    pub(super) fn row(&self, at: u64, groups: u64, done: u64) -> Range<u64> {
        let all = groups * tags::GROUP;
        let is_entry = |place: &u64| tags::is_entry(self.number(at + place, 1) as u8);
        let start = (done..all).find(is_entry).unwrap_or(all);
        let most = all.min(start + TURN);
        start..(start..most).find(|place| !is_entry(place)).unwrap_or(most)
    }

    /// The ordered map at `from`, whose nodes are of that shape.
    pub(crate) fn tree(&mut self, from: u64, shape: NodeShape, what: V) {
        let (root, len) = (self.number(from, 8), self.number(from + 8, 8));
        self.trees.push(Tree { shape, len, found: 0 });
        self.later(from, BlockForm::End, what);
        if root != 0 {
            self.pointer(from, root, shape.leaf(), Owner::Alone, BlockForm::Node(None), what);
        }
    }

    /// The end of the ordered map at `from`.
    pub(super) fn end(&mut self, from: u64) {
        let Tree { len, found, .. } = self.trees.pop().expect("an end is that of the innermost tree");
        if len != found {
            let detail = format!("an ordered map of {len} entries has {found}");
            self.fault(FaultKind::Value, from, detail);
        }
    }

    /// The node at `at`, which must be of this level: its edges are followed, and its entries are
    /// to be looked at.
    pub(super) fn node(&mut self, at: u64, level: Option<u64>, what: V) -> Visit<V> {
        let [len, here] = [0, 4].map(|word| self.number(at + word, 4));
        let tree = self.trees.last_mut().expect("a node is one of the innermost tree");
        let shape = tree.shape;
        let fits = here == 0 || self.heap.size_of(at).is_ok_and(|size| size >= shape.inner());
        if !fits || level.is_some_and(|level| level != here) || !(1..=shape.most).contains(&len) {
            let detail = format!("a node of {len} entries in level {here} of an ordered map");
            self.fault(FaultKind::Value, at, detail);
            return Visit { at, elements: Some(0..0), what };
        }
        tree.found += len;
        for edge in (0..=len).filter(|_| here > 0) {
            let from = at + shape.edges + edge * 8;
            self.trail.enter_index(edge);
            self.pointer(from, self.number(from, 8), shape.leaf(), Owner::Alone, BlockForm::Node(Some(here - 1)), what);
            self.trail.leave();
        }
        Visit { at: at + shape.entries, elements: Some(0..len), what }
    }
}

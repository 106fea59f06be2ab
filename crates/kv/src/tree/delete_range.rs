//! Deleting a range of keys: subtrees inside it end as a whole.
//!
//! An entry of an inner node whose subtree lies inside the range gets an end stamp and the flag
//! WHOLE: everything below is freed with it, a little with each later commit. Only the leaves at
//! the two borders lose single entries. So a range of any size costs the stores of two paths, and
//! like every batch two fences. The time is that of counting what is deleted.
//!
//! Invariant CUT-1: the flag counts on an entry that has ended alone. A batch that is given up
//! leaves it on a live one; an end without the flag takes it off first ([`TreeBatch::bury`]), and a
//! copy of a live entry has none.

use crate::error::Result;
use crate::tree::batch::TreeBatch;
use crate::tree::key::{TABLE_LEN, TableNumber};
use crate::tree::layout::*;
use crate::tree::node::{Node, below};
use crate::tree::writer::Grave;
use everbyte_media::seeded;
use std::cmp::Ordering;

/// A range of full keys. `None`: no border on this side.
#[derive(Clone, Copy)]
struct KeySpan<'k> {
    low: Option<&'k [u8]>,
    high: Option<&'k [u8]>,
}

impl TreeBatch<'_> {
    /// Removes the full keys `low..high`; returns how many there were.
    ///
    /// # Errors
    /// Damage, out of space. After an error the batch cannot be committed.
    pub(crate) fn delete_range(&mut self, low: &[u8], high: &[u8]) -> Result<u64> {
        if self.doomed {
            return Err(crate::Error::Doomed);
        }
        let gone = self.count_range(low, high)?;
        let deleted = gone.iter().map(|&(_, keys)| keys).sum::<u64>();
        if deleted == 0 {
            return Ok(0);
        }
        if deleted == self.keys.all {
            self.clear()?;
            self.keys.all = deleted;
            self.keys.main = gone.iter().filter(|gone| gone.0 == TableNumber::MAIN).map(|gone| gone.1).sum();
        } else {
            self.writer.prefetched.clear();
            self.guarded(|batch| {
                let root = Node::open(&batch.shared.media, batch.root)?;
                let span = KeySpan { low: Some(low), high: Some(high) };
                batch.cut_below(&root, KeySpan { low: None, high: None }, span)
            })?;
            self.note_borders(low, high);
        }
        for (table, keys) in gone {
            self.count(table, -(keys as i64));
        }
        Ok(deleted)
    }

    /// The keys of each table in a range.
    fn count_range(&self, low: &[u8], high: &[u8]) -> Result<Vec<(TableNumber, u64)>> {
        let mut counts: Vec<(TableNumber, u64)> = Vec::new();
        let mut cursor = self.cursor();
        cursor.seek(low)?;
        while let Some(entry) = cursor.next()? {
            if entry.compare(high)?.is_ge() {
                break;
            }
            match counts.last_mut() {
                Some((table, keys)) if *table == entry.table() => *keys += 1,
                _ => counts.push((entry.table(), 1)),
            }
        }
        Ok(counts)
    }

    /// Ends what lies in `span` below `node`, whose keys lie in `within`. Returns whether nothing
    /// is left there.
    fn cut_below(&mut self, node: &Node<'_>, within: KeySpan<'_>, span: KeySpan<'_>) -> Result<bool> {
        let mut visible = Vec::new();
        node.require_sealed()?;
        node.visible(&self.view, &mut visible)?;
        self.list_dead(node);
        if node.is_leaf() {
            return self.cut_leaf(node, &visible, span);
        }
        let mut separators = Vec::with_capacity(visible.len());
        for &index in &visible {
            let mut key = Vec::new();
            node.full_key_into(&node.slot(index.into()), &mut key)?;
            separators.push(key);
        }
        let mut left = visible.len();
        for (place, index) in visible.iter().map(|&index| usize::from(index)).enumerate() {
            // The first child covers everything from the node's own lower border.
            let low = if place == 0 { within.low } else { Some(&*separators[place]) };
            let high = separators.get(place + 1).map(|next| &**next).or(within.high);
            let child = KeySpan { low, high };
            if !overlap(child, span) {
                continue;
            }
            if contains(span, child) {
                self.end_whole(node, index);
                left -= 1;
                continue;
            }
            let below = below(&self.shared.media, node, node.child(index))?;
            if self.cut_below(&below, child, span)? {
                // Its entries have ended one by one.
                self.bury(node, index);
                left -= 1;
            }
        }
        Ok(left == 0)
    }

    fn cut_leaf(&mut self, leaf: &Node<'_>, visible: &[u16], span: KeySpan<'_>) -> Result<bool> {
        let mut left = visible.len();
        for index in visible.iter().map(|&index| usize::from(index)) {
            let slot = leaf.slot(index);
            let low = span.low.map(|low| leaf.compare(&slot, low)).transpose()?;
            let high = span.high.map(|high| leaf.compare(&slot, high)).transpose()?;
            if low.is_none_or(Ordering::is_ge) && high.is_none_or(Ordering::is_lt) {
                self.end_entry(leaf, index, &slot)?;
                left -= 1;
            }
        }
        leaf.require_readable()?;
        Ok(left == 0)
    }

    /// Ends an entry of an inner node, and with it everything below (CUT-1).
    fn end_whole(&mut self, node: &Node<'_>, index: usize) {
        let (at, slot) = (node.slot_at(index), node.slot(index));
        self.touch(node, at);
        if !seeded("tree-range-ends-not-whole") {
            self.store(at + PLACE_AT, slot.place | WHOLE);
        }
        self.store(at + END_AT, self.view.version.get());
        self.graves.push(Grave { end: self.view.version, node: node.at, index });
    }
}

/// Whether two spans have a key in common.
fn overlap(one: KeySpan<'_>, other: KeySpan<'_>) -> bool {
    let before =
        |high: Option<&[u8]>, low: Option<&[u8]>| matches!((high, low), (Some(high), Some(low)) if high <= low);
    !before(one.high, other.low) && !before(other.high, one.low)
}

/// Whether all keys of `inner` are in `outer`.
fn contains(outer: KeySpan<'_>, inner: KeySpan<'_>) -> bool {
    let low = match (outer.low, inner.low) {
        (Some(outer), Some(inner)) => outer <= inner,
        // No key is smaller than the table's number in front of it.
        (Some(outer), None) => outer.len() <= TABLE_LEN && outer.iter().all(|&byte| byte == 0),
        (None, _) => true,
    };
    let high = match (outer.high, inner.high) {
        (Some(outer), Some(inner)) => inner <= outer,
        (outer, _) => outer.is_none(),
    };
    low && high
}

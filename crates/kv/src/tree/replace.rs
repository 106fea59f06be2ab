//! Replacement of a full node: one or two new nodes, and the changes in the nodes above.
//!
//! The old node is not touched (CDDS: it gets only end stamps; here one, on its entry in the
//! parent). The new ones are written whole, past the cache, before anything points to them, and
//! their entries in the parent carry this version as their start: until it commits no reader
//! follows them.
//!
//! The root is always an inner node, and a new root carries the old one as a dead entry: so
//! whatever dies has exactly one dead entry that owns it (TREE-4), and a crash leaks nothing.
//!
//! Invariant CROWD-1: an inner node is written with at most [`INNER_BASE_LIMIT`] entries. A cut
//! leaves at most [`INNER_BASE_MAX`] in a node, unless nearly all are dead ones of this batch,
//! which stay with a live one. After an operation that wrote such a node the batch goes on under a
//! new number: the next copy of the node carries none of its dead entries (SAVE-2).

use crate::error::{Error, Result};
use crate::tree::batch::{NewRecord, Path, TreeBatch};
use crate::tree::build::{Item, Items, fits_leaf, image, leaf_size, separator, size_for};
use crate::tree::hash::OffsetMap;
use crate::tree::key::TableNumber;
use crate::tree::layout::*;
use crate::tree::node::{Node, extend_from};
use crate::tree::number::Version;
use crate::tree::pins::KeyCounts;
use crate::tree::savepoint::NUMBERS_MAX;
use crate::tree::sum::sum;
use crate::tree::writer::Grave;
use everbyte_media::{LINE, seeded};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use zerocopy::FromBytes;

/// A new child for a parent: the smallest key it may hold, and where it is.
pub(crate) struct Child {
    pub separator: Vec<u8>,
    pub at: u64,
}

impl<'t> TreeBatch<'t> {
    /// Replaces a full leaf by one or two that hold its live entries and the new one.
    pub(crate) fn rebuild_leaf(&mut self, path: Path<'t>, leaf: Node<'t>, key: &[u8], record: NewRecord) -> Result<()> {
        self.writer.prefetched.forget(leaf.at);
        let mut items = std::mem::take(&mut self.writer.items);
        items.clear();
        let place = self.gather(&leaf, key, &mut items)?;
        let item = self.item(&mut items, &record);
        items.list.insert(place, item);
        let result = self.replace(path, leaf, &items, place + 1 == items.list.len());
        self.writer.items = items;
        result
    }

    pub(crate) fn item(&self, items: &mut Items, record: &NewRecord) -> Item {
        let begin = items.bytes.len();
        items.bytes.extend_from_slice(&record.bytes);
        Item {
            start: self.view.version,
            end: Version::NONE,
            flags: record.flags,
            table: record.table,
            key_len: record.key_len,
            value: record.value,
            record: begin..items.bytes.len(),
            key_sum: record.key_sum,
        }
    }

    /// Collects what the new nodes take over from `node`; returns where `key` belongs among it.
    ///
    /// That is what is live, and, from a node that this batch itself made, also what this batch has
    /// ended in it: the node vanishes without a dead entry of its own, so its dead entries must go
    /// on owning.
    pub(crate) fn gather(&mut self, node: &Node<'_>, key: &[u8], items: &mut Items) -> Result<usize> {
        node.require_sealed()?;
        let (view, own) = (&self.view, node.birth() == self.view.version.get());
        let mut indexes = Vec::with_capacity(64);
        node.select(&mut indexes, |start, end| {
            view.sees(start, end) || (own && view.born(start) && end == view.version.get())
        })?;
        let head = node.query_head(key);
        let mut place = None;
        for index in indexes.iter().map(|&index| usize::from(index)) {
            let slot = node.slot(index);
            if slot.end == self.view.version && node.is_leaf() && !slot.has(KEY_OUT | VALUE_OUT) {
                continue; // owns nothing
            }
            if place.is_none() && node.order_against(index, key, head)? == Ordering::Greater {
                place = Some(items.list.len());
            }
            items.copy(node, index)?;
            if slot.end != view.version {
                // An end that a void version left means live; the copy says so plainly.
                let copy = items.list.last_mut().expect("just copied");
                (copy.end, copy.flags) = (Version::NONE, copy.flags & !WHOLE); // CUT-1
            }
        }
        Ok(place.unwrap_or(items.list.len()))
    }

    /// Writes `items` as one or two nodes in the place of `old` and tells the parent. `ascending`:
    /// the newest entry is the last, as when keys arrive in order; then the left node is left
    /// nearly full, and a left leaf without room.
    fn replace(&mut self, mut path: Path<'t>, old: Node<'t>, items: &Items, ascending: bool) -> Result<()> {
        self.shared.counts.rebuilds.fetch_add(1, Relaxed);
        let ranges = self.cut(&old, items, ascending);
        if old.birth() == self.view.version.get() {
            self.forget_graves(old.at);
        }
        let is_root = path.is_empty();
        let children = if is_root && ranges.len() == 1 {
            let (items, range) = self.with_old_root(&old, items, ranges[0].clone())?;
            vec![Child { separator: Vec::new(), at: self.write_node(old.level, &items, range)? }]
        } else {
            self.write_children(&old, items, &ranges, ascending)?
        };
        if ranges.len() == 2 {
            self.shared.counts.splits.fetch_add(1, Relaxed);
        }
        let root = match path.pop() {
            Some((parent, index)) => {
                self.discard_own(&old)?;
                return self.replace_child(path, parent, index, children);
            }
            None if ranges.len() == 1 => children[0].at,
            None => {
                let mut items = Items::default();
                if old.birth() != self.view.version.get() {
                    self.push_inner(&mut items, b"", old.at, old.birth().max(Version::new(1)), self.view.version, 0)?;
                }
                for child in &children {
                    self.push_inner(&mut items, &child.separator, child.at, self.view.version, Version::NONE, 0)?;
                }
                let count = items.list.len();
                self.write_node(old.level + 1, &items, 0..count)?
            }
        };
        self.discard_own(&old)?;
        self.root = root;
        Ok(())
    }

    /// Writes each range of `items` as a node of the level of `old`. `ascending`: the first of two
    /// leaves gets no room.
    pub(crate) fn write_children(
        &mut self,
        old: &Node<'_>,
        items: &Items,
        ranges: &[Range<usize>],
        ascending: bool,
    ) -> Result<Vec<Child>> {
        let mut children = Vec::with_capacity(2);
        for range in ranges {
            let separator = match (range.start, old.is_leaf()) {
                (0, _) => Vec::new(),
                (first, true) => {
                    let [left, right] = [first - 1, first].map(|index| self.full_key(0, items, index));
                    separator(&left, &right).to_vec()
                }
                // Of the first live entry: what a dead one covered may now be covered by the entry
                // before it, in the left node.
                (_, false) => {
                    let is_live = |&index: &usize| is_live(&items.list[index]) || seeded("tree-split-at-dead-entry");
                    let first = range.clone().find(is_live).unwrap_or(range.start);
                    self.full_key(old.level, items, first)
                }
            };
            let at = if ascending && old.is_leaf() && range.end < items.list.len() {
                let size = leaf_size(range.len(), items.record_bytes(range.clone()));
                self.write_sized_node(0, items, range.clone(), size)?
            } else {
                self.write_node(old.level, items, range.clone())?
            };
            children.push(Child { separator, at });
        }
        Ok(children)
    }

    /// The entries of a new root, with the old root as a dead entry in front (unless this batch
    /// made it).
    pub(crate) fn with_old_root(
        &mut self,
        old: &Node<'_>,
        items: &Items,
        range: Range<usize>,
    ) -> Result<(Items, Range<usize>)> {
        let mut all = Items { list: items.list[range].to_vec(), bytes: items.bytes.clone() };
        let birth = old.birth();
        if birth != self.view.version.get() {
            self.push_inner(&mut all, b"", old.at, birth.max(Version::new(1)), self.view.version, 0)?;
            let dead = all.list.pop().expect("just pushed");
            all.list.insert(0, dead);
        }
        let count = all.list.len();
        Ok((all, 0..count))
    }

    /// The dead entries of the node at `at` go with it: none of the graves until now counts.
    pub(crate) fn forget_graves(&mut self, at: u64) {
        self.gone.push((at, self.graves.len()));
    }

    /// Whether graves that count are of the node at `at`.
    pub(crate) fn has_graves(&self, at: u64) -> bool {
        let from = self.gone.iter().rev().find(|gone| gone.0 == at).map_or(0, |gone| gone.1);
        self.graves[from..].iter().any(|grave| grave.node == at)
    }

    /// Removes the graves that count no more, all in one pass. No mark is left that has a place
    /// among them.
    pub(crate) fn sift_graves(&mut self) {
        // Of several nodes at one address the last counts: its place is behind all their graves.
        let gone: OffsetMap<usize> = self.gone.drain(..).collect();
        if gone.is_empty() {
            return;
        }
        let mut place = 0;
        self.graves.retain(|grave| {
            place += 1;
            gone.get(&grave.node).is_none_or(|&until| place > until)
        });
    }

    /// A node that this batch made and no longer needs is gone at once (BATCH-2).
    pub(crate) fn discard_own(&mut self, old: &Node<'_>) -> Result<()> {
        if old.birth() == self.view.version.get() { self.release(old.at) } else { Ok(()) }
    }

    /// The position of the cut: none, or into two when more are live than a new node may start with
    /// (CDDS: 4 m of capacity 5 m).
    #[allow(clippy::single_range_in_vec_init)] // one piece: the whole
    pub(crate) fn cut(&self, old: &Node<'_>, items: &Items, ascending: bool) -> Vec<Range<usize>> {
        let count = items.list.len();
        let most = if old.is_leaf() { LEAF_BASE_MAX } else { INNER_BASE_MAX - 2 };
        let bytes = items.record_bytes(0..count);
        let bytes_most = if old.is_leaf() { LEAF_BYTES } else { NODE_MAX / 4 };
        if count <= most && (bytes <= bytes_most || count < 4) {
            return vec![0..count];
        }
        let mut middle = if ascending { (count - count / 8 - 1).min(most) } else { count / 2 };
        // A leaf to which nothing more comes fills its block.
        while ascending && old.is_leaf() && middle > count / 2 && !fits_leaf(middle, items.record_bytes(0..middle)) {
            middle -= 1;
        }
        // Entries with equal keys (a dead one and its successor) stay together; downwards, so that
        // `most` holds.
        while middle > 0 && self.full_key(old.level, items, middle - 1) == self.full_key(old.level, items, middle) {
            middle -= 1;
        }
        if !old.is_leaf() {
            middle = between_live(items, middle);
        }
        if middle == 0 { vec![0..count] } else { vec![0..middle, middle..count] }
    }

    /// The full key of an item of a node of `level`.
    pub(crate) fn full_key(&self, level: u8, items: &Items, index: usize) -> Vec<u8> {
        let item = &items.list[index];
        let mut full = if level == 0 { item.table.bytes().to_vec() } else { Vec::new() };
        if item.flags & KEY_OUT == 0 {
            full.extend_from_slice(items.key_head(item));
            return full;
        }
        let key = &items.bytes[item.record.clone()][RECORD_KEY_AT..];
        let (LongKey { block, .. }, _) = LongKey::read_from_prefix(key).expect("a long key");
        // A page that cannot be read refuses the commit.
        let _ = extend_from(&self.shared.media, block.get(), item.key_len, &mut full);
        full
    }

    pub(crate) fn write_node(&mut self, level: u8, items: &Items, range: Range<usize>) -> Result<u64> {
        let (size, room) = size_for(level, range.len(), items.record_bytes(range.clone()));
        // The smaller block where three appended entries are lost by it at most.
        let least = self.shared.heap.block_bytes((size - room / 5) as u64) as usize;
        let size = if level == 0 { size.min(least) } else { size };
        self.write_sized_node(level, items, range, size)
    }

    /// Writes a node to a block of at least `size` bytes.
    pub(crate) fn write_sized_node(
        &mut self,
        level: u8,
        items: &Items,
        range: Range<usize>,
        size: usize,
    ) -> Result<u64> {
        if level > 0 && range.len() > INNER_BASE_MAX {
            if range.len() > INNER_BASE_LIMIT {
                // The batch had no number left.
                return Err(Error::SavepointsExhausted { max: NUMBERS_MAX - 1 });
            }
            self.is_crowded = true; // CROWD-1
        }
        let block = self.reserve(size as u64)?;
        // Bytes that the heap gives beyond the request are free for appends.
        let most = if level == 0 { LEAF_MAX } else { NODE_MAX };
        let usable = (block.size.get() as usize & !(LINE as usize - 1)).min(most);
        let bytes = image(level, self.view.version, usable, items, range.clone());
        self.shared.fill(block.at, &bytes);
        for (index, item) in items.list[range].iter().enumerate() {
            if item.end == self.view.version.get() {
                self.graves.push(Grave { end: item.end, node: block.at.get(), index });
            }
        }
        Ok(block.at.get())
    }

    /// Ends the entry of a replaced child and adds those of its successors.
    pub(crate) fn replace_child(
        &mut self,
        path: Path<'t>,
        parent: Node<'t>,
        index: usize,
        mut children: Vec<Child>,
    ) -> Result<()> {
        parent.require_sealed()?;
        self.list_dead(&parent);
        let slot = parent.slot(index);
        // The first child covers everything below it; its successor says so outright, since it may
        // by now hold keys below the separator it once had.
        let mut visible = Vec::new();
        parent.visible(&self.view, &mut visible)?;
        if visible.first().map(|&first| usize::from(first)) != Some(index) {
            parent.key_into(&slot, &mut children[0].separator)?;
        }
        self.end_entry(&parent, index, &slot)?;
        for done in 0..children.len() {
            let record = self.inner_record(&children[done])?;
            if !self.append(&parent, &children[done].separator, &record)? {
                return self.rebuild_inner(path, parent, record, &children[done..]);
            }
        }
        Ok(())
    }

    fn inner_record(&mut self, child: &Child) -> Result<NewRecord> {
        let (mut bytes, mut flags) = (u64::from(sum(&child.separator)).to_le_bytes().to_vec(), 0);
        self.key_part(&child.separator, &mut bytes, &mut flags)?;
        Ok(NewRecord {
            bytes,
            flags,
            table: TableNumber::MAIN,
            key_len: child.separator.len(),
            value: child.at,
            key_sum: 0,
        })
    }

    /// Replaces a full inner node; the first of `children` already has its record.
    fn rebuild_inner(&mut self, path: Path<'t>, node: Node<'t>, first: NewRecord, children: &[Child]) -> Result<()> {
        let mut items = Items::default();
        let mut place = self.gather(&node, &children[0].separator, &mut items)?;
        let ascending = place == items.list.len();
        let item = self.item(&mut items, &first);
        items.list.insert(place, item);
        for child in &children[1..] {
            place += 1;
            let record = self.inner_record(child)?;
            let item = self.item(&mut items, &record);
            items.list.insert(place, item);
        }
        self.replace(path, node, &items, ascending)
    }

    pub(crate) fn push_inner(
        &mut self,
        items: &mut Items,
        key: &[u8],
        child: u64,
        start: Version,
        end: Version,
        flags: u64,
    ) -> Result<()> {
        let record = self.inner_record(&Child { separator: key.to_vec(), at: child })?;
        let mut item = self.item(items, &record);
        (item.start, item.end) = (start, end);
        item.flags |= flags;
        items.list.push(item);
        Ok(())
    }

    /// Takes an empty leaf, and inner nodes that it leaves without a child, out of the tree. The
    /// last leaf stays.
    pub(crate) fn unlink(&mut self, path: &Path<'t>) -> Result<()> {
        let mut visible = Vec::new();
        for (depth, (node, _)) in path.iter().enumerate().rev() {
            node.visible(&self.view, &mut visible)?;
            if visible.len() < 2 {
                continue;
            }
            // Deepest first: in the graveyard a node's dead entries precede the node's own.
            for (node, index) in path[depth..].iter().rev() {
                node.require_sealed()?;
                self.list_dead(node);
                self.bury(node, *index);
            }
            return Ok(());
        }
        Ok(())
    }

    /// Removes every key: a new, empty tree whose root carries the old one as a dead entry, freed
    /// bit by bit.
    ///
    /// # Errors
    /// Out of space. After an error the batch cannot be committed.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.writer.prefetched.clear();
        self.guarded(|batch| {
            let items = Items::default();
            let leaf = batch.write_node(0, &items, 0..0)?;
            let mut items = Items::default();
            let birth = batch
                .view
                .version
                .min(Version::new((Node::open(&batch.shared.media, batch.root)?.birth()).get()))
                .max(Version::new(1));
            batch.push_inner(&mut items, b"", batch.root, birth, batch.view.version, WHOLE)?;
            batch.push_inner(&mut items, b"", leaf, batch.view.version, Version::NONE, 0)?;
            batch.root = batch.write_node(1, &items, 0..2)?;
            batch.keys = KeyCounts::default();
            Ok(())
        })
    }
}

fn is_live(item: &Item) -> bool {
    item.end == Version::NONE
}

/// The cut at `middle` of an inner node's items, moved so far that both parts have a live one. 0:
/// there is at most one.
fn between_live(items: &Items, middle: usize) -> usize {
    let first = items.list.iter().position(is_live);
    let last = items.list.iter().rposition(is_live);
    match (first, last) {
        (Some(first), Some(last)) if first < last => middle.clamp(first + 1, last),
        _ => 0,
    }
}

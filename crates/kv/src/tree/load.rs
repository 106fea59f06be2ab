//! Bulk load: entries in the order of their keys fill whole leaves, and inner nodes above them.
//!
//! Steps
//!   1. a number of the batch begins (`savepoint.rs`); a load that stays below [`FEW`] entries puts
//!      them, and that is all
//!   2. the leaf of the first key is found, and its entries before that key are the first of the
//!      load; entries gather, and whenever more are there than a leaf takes, one is written, past
//!      the cache
//!   3. the entries behind the last key, in its leaf, are the last of the load
//!   4. level by level, the nodes on the way to both leaves are written anew, as many as it takes,
//!      with the new children between the old ones; the entries on the way end
//!   5. the new root carries the old one as a dead entry
//!
//! So a load writes each of its entries once, and costs no fence: the commit of the batch has two.
//! A node that an earlier number of the batch has made is replaced like a committed one (SAVE-2).
//!
//! Invariants
//!   BULK-1  A load adds keys to a gap: no key of the tree lies between its first and its last one.
//!   BULK-2  Nothing leads to what a load writes before its last step. A load that is not finished
//!           is taken back alone, whatever its batch has done before.
//!
//! Design: docs/design/tree.md

use crate::error::{Error, Result};
use crate::tree::TreeBatch;
use crate::tree::batch::{NewRecord, Path};
use crate::tree::build::{Item, Items, LEAF_FILL, fits_leaf, leaf_size, separator};
use crate::tree::key::{TABLE_LEN, TableNumber};
use crate::tree::layout::*;
use crate::tree::node::{Node, Query};
use crate::tree::number::Version;
use crate::tree::replace::Child;
use everbyte_media::seeded;
use std::ops::Range;

/// Most entries of an inner node that a load writes: an eighth of it is left for splits below.
const INNER_FILL: usize = INNER_BASE_MAX / 8 * 7;
/// A load of fewer entries puts them: it would write the nodes up to the root for them.
const FEW: usize = LEAF_BASE_MAX;

/// A load that has begun. Dropped before [`TreeLoad::finish`], it has not happened.
pub(crate) struct TreeLoad<'b, 't> {
    batch: &'b mut TreeBatch<'t>,
    /// The first entries, with their full keys; empty once there are more than [`FEW`].
    few: Vec<(Vec<u8>, NewRecord)>,
    /// Entries that are not yet written: at most those of two leaves.
    items: Items,
    /// Leaves that are written.
    leaves: Vec<Child>,
    /// The last key of the last of them.
    border: Vec<u8>,
    range: Option<LoadRange>,
    /// Keys that tables gain.
    gained: Vec<(TableNumber, u64)>,
    /// An error has come in the middle.
    failed: bool,
    done: bool,
}

/// Full keys of a load.
struct LoadRange {
    first: Vec<u8>,
    last: Vec<u8>,
    /// The first key behind the gap.
    bound: Option<Vec<u8>>,
    /// More than [`FEW`] entries have come.
    is_bulk: bool,
}

impl<'t> TreeBatch<'t> {
    /// Begins a load.
    ///
    /// # Errors
    /// The batch is spoiled, or has no number left.
    pub(crate) fn load(&mut self) -> Result<TreeLoad<'_, 't>> {
        if self.is_doomed() {
            return Err(Error::Doomed);
        }
        if !self.try_number() {
            return Err(Error::SavepointsExhausted { max: crate::tree::savepoint::NUMBERS_MAX - 1 });
        }
        self.writer.prefetched.clear();
        Ok(TreeLoad {
            batch: self,
            few: Vec::new(),
            items: Items::default(),
            leaves: Vec::new(),
            border: Vec::new(),
            range: None,
            gained: Vec::new(),
            failed: false,
            done: false,
        })
    }

    /// The live entries `indexes` of `node`, as items.
    fn copy_live(&self, node: &Node<'_>, indexes: &[u16], items: &mut Items) -> Result<()> {
        for &index in indexes {
            items.copy(node, index.into())?;
            let copy = items.list.last_mut().expect("just copied");
            (copy.end, copy.flags) = (Version::NONE, copy.flags & !WHOLE); // CUT-1
        }
        Ok(())
    }

    /// Puts `children` in the place of the subtrees to which both ways lead, and of what is between
    /// them.
    pub(crate) fn graft(&mut self, left: &Path<'t>, right: &Path<'t>, mut children: Vec<Child>) -> Result<()> {
        let root = Node::open(&self.shared.media, self.root)?;
        let mut visible = Vec::new();
        for (&(node, index), &(other, last)) in left.iter().zip(right).rev() {
            let mut items = Items::default();
            node.require_sealed()?;
            other.require_sealed()?;
            node.visible(&self.view, &mut visible)?;
            let before = place_of(&node, &visible, index)?;
            // As in `replace_child`: the first child covers everything below it.
            let key = &mut children[0].separator;
            key.clear();
            if before > 0 {
                node.key_into(&node.slot(index), key)?;
            }
            self.copy_live(&node, &visible[..before], &mut items)?;
            for child in &children {
                self.push_inner(&mut items, &child.separator, child.at, self.view.version, Version::NONE, 0)?;
            }
            self.list_dead(&node);
            if !seeded("tree-load-forgets-old") {
                self.bury(&node, index);
            }
            other.visible(&self.view, &mut visible)?;
            if other.at != node.at || last != index {
                let behind = place_of(&other, &visible, last)?;
                // BULK-1: their leaves are neighbours.
                if if other.at == node.at { behind != before } else { behind != 0 } {
                    return other.damaged("a leaf without entries lies between others");
                }
                self.list_dead(&other);
                self.bury(&other, last);
                self.copy_live(&other, &visible[behind + 1..], &mut items)?;
            } else {
                self.copy_live(&other, &visible[before..], &mut items)?;
            }
            children = self.write_level(&root, node.level, &items)?;
        }
        let mut level = root.level;
        while children.len() > 1 {
            let mut items = Items::default();
            level += 1;
            for child in &children {
                self.push_inner(&mut items, &child.separator, child.at, self.view.version, Version::NONE, 0)?;
            }
            children = self.write_level(&root, level, &items)?;
        }
        self.root = children[0].at;
        Ok(())
    }

    /// Writes all live entries of a level as nodes. A single one from the root's level on is a new
    /// root.
    pub(crate) fn write_level(&mut self, root: &Node<'_>, level: u8, items: &Items) -> Result<Vec<Child>> {
        let ranges = filled(items, INNER_FILL, NODE_MAX / 4, &|_, _| true);
        if let [range] = &*ranges
            && level >= root.level
        {
            let (items, range) = self.with_old_root(root, items, range.clone())?;
            return Ok(vec![Child { separator: Vec::new(), at: self.write_node(level, &items, range)? }]);
        }
        ranges
            .into_iter()
            .map(|range| {
                let separator = self.full_key(level, items, range.start);
                Ok(Child { separator, at: self.write_node(level, items, range)? })
            })
            .collect()
    }
}

/// The place of slot `index` among the visible ones.
fn place_of(node: &Node<'_>, visible: &[u16], index: usize) -> Result<usize> {
    match visible.iter().position(|&at| usize::from(at) == index) {
        Some(place) => Ok(place),
        None => node.damaged("the order of a node's entries contradicts itself"),
    }
}

/// Nodes of at most so many entries and bytes: each but the last two as full as it may be, and the
/// last two of equal size if the last one would have less than a quarter.
pub(crate) fn filled(
    items: &Items,
    most: usize,
    most_bytes: usize,
    fits: &dyn Fn(usize, usize) -> bool,
) -> Vec<Range<usize>> {
    let len = |index: usize| items.list[index].record.len();
    let fit = |count: usize, bytes: usize| count == 1 || (count <= most && bytes <= most_bytes && fits(count, bytes));
    let (mut ranges, mut start, mut bytes) = (Vec::new(), 0, 0);
    for index in 0..items.list.len() {
        bytes += len(index);
        if !fit(index + 1 - start, bytes) {
            ranges.push(start..index);
            (start, bytes) = (index, len(index));
        }
    }
    ranges.push(start..items.list.len());
    if let [.., before, last] = &mut *ranges
        && last.len() * 4 < before.len()
    {
        while last.len() + 1 < before.len() && fit(last.len() + 1, bytes + len(last.start - 1)) {
            (before.end, last.start) = (before.end - 1, last.start - 1);
            bytes += len(last.start);
        }
    }
    ranges
}

impl TreeLoad<'_, '_> {
    /// Adds an entry behind the last one.
    ///
    /// # Errors
    /// The key is not larger than the last one; the tree has a key in this range; limits: the entry
    /// is not added, and the load can go on. Out of space, damage: the load cannot be finished.
    pub(crate) fn push(&mut self, table: TableNumber, key: &[u8], value: &[u8]) -> Result<()> {
        if self.failed {
            return Err(Error::Doomed);
        }
        self.batch.check_limits(key, value)?;
        let query = Query::new(table, key);
        let full = &*query.full;
        match &self.range {
            Some(range) if *range.last >= *full => {
                return Err(Error::Unsorted { key: key.into(), last: range.last[TABLE_LEN..].into() });
            }
            Some(LoadRange { bound: Some(bound), .. }) if **bound <= *full => {
                return Err(Error::RangeNotEmpty { key: bound[TABLE_LEN..].into() });
            }
            Some(_) => {}
            None => self.begin(full)?,
        }
        self.failed = true;
        let record = self.batch.record(&query, value)?;
        let range = self.range.as_mut().expect("it has begun");
        if range.is_bulk {
            let item = self.batch.item(&mut self.items, &record);
            self.items.list.push(item);
        } else {
            self.few.push((full.to_vec(), record));
        }
        range.last.clear();
        range.last.extend_from_slice(full);
        match self.gained.last_mut() {
            Some((last, keys)) if *last == table => *keys += 1,
            _ => self.gained.push((table, 1)),
        }
        if self.few.len() >= FEW {
            self.begin_bulk()?;
        }
        self.flush()?;
        self.failed = false;
        Ok(())
    }

    /// Looks at the range that the first key begins.
    fn begin(&mut self, first: &[u8]) -> Result<()> {
        let mut cursor = self.batch.cursor();
        cursor.seek(first)?;
        let bound = match cursor.next()? {
            None => None,
            Some(entry) => {
                let table = entry.table();
                Some([&table.bytes(), entry.key()?].concat())
            }
        };
        if bound.as_deref() == Some(first) {
            return Err(Error::RangeNotEmpty { key: first[TABLE_LEN..].into() });
        }
        self.range = Some(LoadRange { first: first.to_vec(), last: first.to_vec(), bound, is_bulk: false });
        Ok(())
    }

    /// Begins step 2.
    fn begin_bulk(&mut self) -> Result<()> {
        let range = self.range.as_mut().expect("it has begun");
        range.is_bulk = true;
        let (_, leaf) = self.batch.descend(&range.first)?;
        let place = self.batch.gather(&leaf, &range.first, &mut self.items)?;
        self.items.list.truncate(place);
        if seeded("tree-load-overtakes") {
            self.items.clear();
        }
        for (_, record) in std::mem::take(&mut self.few) {
            let item = self.batch.item(&mut self.items, &record);
            self.items.list.push(item);
        }
        Ok(())
    }

    /// Puts the entries of a short load.
    fn put_few(&mut self) -> Result<()> {
        for (key, record) in std::mem::take(&mut self.few) {
            let (path, leaf) = self.batch.descend(&key)?;
            if !self.batch.append(&leaf, &key, &record)? {
                self.batch.rebuild_leaf(path, leaf, &key, record)?;
            }
        }
        Ok(())
    }

    /// Step 2: writes the first leaf's worth of items once another one is there.
    fn flush(&mut self) -> Result<()> {
        let count = self.items.list.len();
        if count < 2 * LEAF_BASE_MAX && self.items.bytes.len() < 2 * LEAF_FILL {
            return Ok(());
        }
        let ranges = filled(&self.items, LEAF_BASE_MAX, LEAF_BYTES, &fits_leaf);
        if let [first, _, ..] = &*ranges {
            let kept = first.end;
            self.write_leaf(first.clone())?;
            self.keep_from(kept);
        }
        Ok(())
    }

    /// Drops the items before `kept`.
    fn keep_from(&mut self, kept: usize) {
        let Items { list, bytes } = &mut self.items;
        list.drain(..kept);
        let mut rest = Vec::with_capacity(bytes.len());
        for item in list {
            let begin = rest.len();
            rest.extend_from_slice(&bytes[item.record.clone()]);
            item.record = begin..rest.len();
        }
        *bytes = rest;
    }

    fn write_leaf(&mut self, range: Range<usize>) -> Result<()> {
        let first = self.batch.full_key(0, &self.items, range.start);
        let border = self.batch.full_key(0, &self.items, range.end - 1);
        let separator = separator(&self.border, &first).to_vec();
        let size = leaf_size(range.len(), self.items.record_bytes(range.clone()));
        let at = self.batch.write_sized_node(0, &self.items, range, size)?;
        self.leaves.push(Child { separator, at });
        self.border = border;
        Ok(())
    }

    /// Adds the load to its batch; returns how many entries it has.
    ///
    /// # Errors
    /// An earlier error in the middle, out of space, damage: the load has not happened, and the
    /// batch is as it was before.
    pub(crate) fn finish(mut self) -> Result<u64> {
        if self.failed {
            return Err(Error::Doomed);
        }
        let Some(LoadRange { first, last, is_bulk, .. }) = self.range.take() else { return Ok(0) };
        if is_bulk {
            self.write_rest(&first, &last)?
        } else {
            self.put_few()?
        }
        let mut loaded = 0;
        for (table, keys) in std::mem::take(&mut self.gained) {
            loaded += keys;
            if !seeded("tree-load-uncounted") {
                self.batch.count(table, keys as i64);
            }
        }
        self.batch.keep_number();
        self.done = true;
        Ok(loaded)
    }

    /// Steps 3 to 5.
    fn write_rest(&mut self, first: &[u8], last: &[u8]) -> Result<()> {
        let (left, _) = self.batch.descend(first)?;
        let (right, leaf) = self.batch.descend(last)?;
        let mut rest = Items::default();
        let place = self.batch.gather(&leaf, last, &mut rest)?;
        for item in &rest.list[place..] {
            let begin = self.items.bytes.len();
            self.items.bytes.extend_from_slice(&rest.bytes[item.record.clone()]);
            self.items.list.push(Item { record: begin..self.items.bytes.len(), ..item.clone() });
        }
        for range in filled(&self.items, LEAF_BASE_MAX, LEAF_BYTES, &fits_leaf) {
            self.write_leaf(range)?;
        }
        let leaves = std::mem::take(&mut self.leaves);
        self.batch.graft(&left, &right, leaves)
    }
}

impl Drop for TreeLoad<'_, '_> {
    fn drop(&mut self) {
        if !self.done {
            if seeded("tree-load-keeps-blocks") {
                self.batch.keep_number();
                return;
            }
            self.batch.leave_mark(); // BULK-2
        }
    }
}

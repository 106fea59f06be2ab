//! Compaction: thinly filled leaves are written anew as full ones, the children of one node of
//! level 1 at a time.
//!
//! Steps, in a batch of their own
//!   1. the live entries of all leaves below the node are gathered, and cut as a bulk load cuts
//!      them
//!   2. the new leaves are written if their blocks take at least [`SAVED`] of the old ones less
//!   3. the old leaves' entries end; the node and those above it are written anew (`load.rs`)
//!   4. the node is noted if few children are left to it: the commit merges it (`merge.rs`)
//!
//! What it replaces is given back as after any commit (`reclaim.rs`). A second pass finds leaves
//! that take no less, and writes nothing. An error takes the step back alone (SAVE-1).

use crate::error::{Error, Result};
use crate::tree::TreeBatch;
use crate::tree::build::{Items, fits_leaf, leaf_size, separator};
use crate::tree::layout::*;
use crate::tree::load::filled;
use crate::tree::node::{Node, below};
use crate::tree::number::Version;
use crate::tree::replace::Child;
use everbyte_media::seeded;
use std::ops::Range;

/// One in so many of the old leaves' bytes is saved, or the leaves stay.
const SAVED: u64 = 16;

/// A step of compaction that a batch has done.
pub(crate) struct CompactStep {
    /// Live entries of the leaves that it has looked at.
    pub entries: u64,
    /// Leaves that it has replaced.
    pub replaced: u64,
    /// Leaves in their place.
    pub written: u64,
    /// The full key at which the next step begins; `None`: this was the last one.
    pub next: Option<Vec<u8>>,
}

impl TreeBatch<'_> {
    /// Compacts the leaves below the node of level 1 that covers the full key `from`.
    ///
    /// # Errors
    /// Damage, out of space: the batch is as it was before.
    pub(crate) fn compact_at(&mut self, from: &[u8]) -> Result<CompactStep> {
        let mut step = CompactStep { entries: 0, replaced: 0, written: 0, next: self.next_node(from)? };
        let (mut path, _) = self.descend(from)?;
        let Some((parent, _)) = path.pop() else { return Ok(step) };
        parent.require_sealed()?;
        let (mut items, mut old_bytes, mut visible) = (Items::default(), 0, Vec::new());
        parent.visible(&self.view, &mut visible)?;
        for &index in &visible {
            let leaf = below(&self.shared.media, &parent, parent.child(index.into()))?;
            old_bytes += self.shared.heap.size_of(leaf.at)?;
            self.gather(&leaf, b"", &mut items)?;
        }
        step.entries = items.list.len() as u64;
        if items.list.is_empty() {
            return Ok(step);
        }
        let ranges = filled(&items, LEAF_BASE_MAX, LEAF_BYTES, &fits_leaf);
        let leaf_bytes = |range: &Range<usize>| leaf_size(range.len(), items.record_bytes(range.clone())) as u64;
        let block_bytes = |range| self.shared.heap.block_bytes(leaf_bytes(range));
        let new_bytes: u64 = ranges.iter().map(block_bytes).sum();
        if new_bytes > old_bytes - old_bytes / SAVED {
            return Ok(step);
        }
        if !self.try_number() {
            return Err(Error::SavepointsExhausted { max: crate::tree::savepoint::NUMBERS_MAX - 1 });
        }
        self.writer.prefetched.clear();
        let done = self.guarded(|batch| {
            let children = batch.write_full(&items, &ranges)?;
            batch.list_dead(&parent);
            let kept = usize::from(seeded("tree-compact-keeps-leaf"));
            for &index in visible.iter().skip(kept) {
                batch.bury(&parent, index.into());
            }
            let root = Node::open(&batch.shared.media, batch.root)?;
            let mut entries = Items::default();
            for child in &children {
                batch.push_inner(&mut entries, &child.separator, child.at, batch.view.version, Version::NONE, 0)?;
            }
            let nodes = batch.write_level(&root, parent.level, &entries)?;
            batch.graft(&path, &path, nodes)
        });
        if let Err(error) = done {
            self.leave_mark();
            return Err(error);
        }
        self.keep_number();
        (step.replaced, step.written) = (visible.len() as u64, ranges.len() as u64);
        if ranges.len() < INNER_BASE_MAX / 4 && !path.is_empty() {
            self.poor.push(from.to_vec());
        }
        Ok(step)
    }

    /// Writes each range of `items` as a leaf without room for more.
    fn write_full(&mut self, items: &Items, ranges: &[Range<usize>]) -> Result<Vec<Child>> {
        let mut children = Vec::with_capacity(ranges.len());
        for range in ranges {
            let mut first = Vec::new();
            if let Some(before) = range.start.checked_sub(1) {
                let [left, right] = [before, range.start].map(|index| self.full_key(0, items, index));
                first = separator(&left, &right).to_vec();
            }
            let size = leaf_size(range.len(), items.record_bytes(range.clone()));
            let at = self.write_sized_node(0, items, range.clone(), size)?;
            children.push(Child { separator: first, at });
        }
        Ok(children)
    }

    /// The lower border of the node of level 1 behind the one that covers the full key `from`.
    fn next_node(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let (path, _) = self.descend(from)?;
        let mut visible = Vec::new();
        for (node, index) in path.iter().rev().skip(1) {
            node.visible(&self.view, &mut visible)?;
            let place = visible.iter().position(|&seen| usize::from(seen) == *index);
            if let Some(&next) = place.and_then(|place| visible.get(place + 1)) {
                let mut key = Vec::new();
                node.key_into(&node.slot(next.into()), &mut key)?;
                // A separator that does not lead on is damage.
                return Ok(Some(key).filter(|key| key.as_slice() > from));
            }
        }
        Ok(None)
    }
}

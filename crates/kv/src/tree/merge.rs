//! Underflow: a node with few entries is merged with its neighbour, or takes some of it.
//!
//! Steps, for a leaf that a delete has thinned out, and then for the nodes above it
//!   1. fewer than a quarter of the entries that a new node may have, and of the bytes: the node
//!      and its neighbour below the same parent are written anew, as one node if they fit one, else
//!      as two of equal size
//!   2. both entries in the parent end, those of the new nodes begin
//!   3. a root with a single child, which is an inner node too, is replaced by one with the entries
//!      of the child: the tree loses a level
//!
//! So two neighbours hold, together, more than one node may start with, or each a quarter of it:
//! the space of a tree is bounded by its keys, also where a range was thinned out and left alone.
//!
//! The old nodes are not touched, as with a split. A delete only notes its key. The places are
//! mended together, before the commit, under a number of their own (`savepoint.rs`): so all nodes
//! of the batch can be merged, and where that fails, for a full store or a damaged neighbour, it is
//! taken back alone, and the batch commits without it.
//!
//! An inner node that a round of mending has made itself is left to the next round, [`ROUNDS`] for
//! a commit, and then to later commits, [`AGAIN`] places each: its dead entries would have to be
//! sorted among those of the neighbour.
//!
//! Invariant MERGE-1: a node that a round of mending has made and merges again has no dead entries.
//! It is a leaf, which the round wrote with live entries alone, and a round ends none in a leaf.

use crate::error::Result;
use crate::tree::batch::{Path, TreeBatch};
use crate::tree::build::Items;
use crate::tree::layout::*;
use crate::tree::node::{Node, below};
use crate::tree::number::Version;
use crate::tree::version::View;
use everbyte_media::seeded;
use std::sync::atomic::Ordering::Relaxed;

/// Rounds of mending before a commit.
const ROUNDS: usize = 4;
/// Places at which one commit mends what earlier ones have left.
const AGAIN: usize = 2;
/// Places that one round mends at most: a batch with more has several.
const ROUND_MAX: usize = 1024;
/// Places that stay noted for later commits.
pub(crate) const NOTED_MAX: usize = 256;

impl<'t> TreeBatch<'t> {
    /// Notes that a delete has thinned out the leaf of the full key `key`, to which `path` leads.
    pub(crate) fn note_poor(&mut self, path: &Path<'t>, key: &[u8]) {
        let mut children = Vec::new();
        if let [(root, _)] = &**path
            && root.visible(&self.view, &mut children).is_ok()
            && children.len() == 1
        {
            return; // the only leaf
        }
        self.poor.push(key.to_vec());
        if self.poor.len() >= ROUND_MAX {
            self.mend_round();
            self.overflow();
        }
    }

    /// Notes the borders of a deleted range.
    pub(crate) fn note_borders(&mut self, low: &[u8], high: &[u8]) {
        self.poor.extend([low.to_vec(), high.to_vec()]);
    }

    /// Before the commit: mends what this batch has noted, and a little of what was left before.
    pub(crate) fn mend(&mut self) {
        let kept = self.writer.poor.len().saturating_sub(AGAIN);
        self.mended = self.writer.poor.split_off(kept);
        self.poor.extend(self.mended.iter().cloned());
        for _ in 0..ROUNDS {
            if self.poor.is_empty() {
                return;
            }
            if !self.mend_round() {
                self.writer.cannot_mend = true;
                break;
            }
        }
        self.overflow();
    }

    /// Forgets places that are too many: a sweep over the leaves (`reclaim.rs`) finds them again.
    fn overflow(&mut self) {
        if self.poor.len() > NOTED_MAX {
            self.poor.truncate(NOTED_MAX);
            self.writer.missed = true;
        }
    }

    /// After the commit: the writer takes over what is still to be mended.
    pub(crate) fn hand_over_poor(&mut self) {
        self.writer.poor.append(&mut self.poor);
        if self.writer.poor.len() > NOTED_MAX {
            self.writer.poor.truncate(NOTED_MAX);
            self.writer.missed = true;
        }
        self.writer.cannot_mend &= self.freed == 0;
        if self.may_sweep_again() && !self.writer.cannot_mend {
            self.writer.sweep = Some(Vec::new());
            self.writer.missed = false;
            self.writer.merges_before = self.shared.counts.merges.load(Relaxed);
        }
    }

    /// Whether a sweep is to find places that were forgotten: those noted are mended, and merging
    /// still helps.
    pub(crate) fn may_sweep_again(&self) -> bool {
        let merges = self.shared.counts.merges.load(Relaxed);
        let writer = &*self.writer;
        writer.missed && writer.sweep.is_none() && writer.poor.len() <= AGAIN && merges > writer.merges_before
    }

    /// Mends the places that are noted, or, where that fails, the first half of them, and so on;
    /// afterwards those are noted that it leaves to another round. `false`: it can mend none, and
    /// nothing has changed.
    fn mend_round(&mut self) -> bool {
        let (mut places, mut rest) = (std::mem::take(&mut self.poor), Vec::new());
        let mut has_mended = false;
        while !has_mended && !places.is_empty() && !self.doomed && self.try_number() {
            has_mended = places.iter().try_for_each(|key| self.guarded(|batch| batch.mend_way(key))).is_ok();
            if !has_mended {
                self.leave_mark();
                self.poor.clear();
                rest.extend(places.drain(places.len() / 2..));
            } else if self.allocated.is_empty() {
                self.leave_mark(); // nothing was written: the number is free again
            } else {
                self.keep_number();
            }
        }
        if !has_mended {
            rest.append(&mut places);
        }
        self.poor.append(&mut rest);
        has_mended
    }

    /// Mends underflow on the way to the full key `key`, from its leaf to the root.
    fn mend_way(&mut self, key: &[u8]) -> Result<()> {
        for level in 0_u8.. {
            let (path, node) = self.descend_to(key, level)?;
            if path.is_empty() {
                return self.lose_level(&node, key);
            }
            if self.is_poor(&node)? {
                self.merge(path, node, key)?;
            }
        }
        Ok(())
    }

    /// As [`TreeBatch::descend`], to the node of `level`.
    fn descend_to(&self, key: &[u8], level: u8) -> Result<(Path<'t>, Node<'t>)> {
        let media = &self.shared.media;
        let mut path = Path::with_capacity(8);
        let mut node = Node::open(media, self.root)?;
        while node.level > level {
            let (index, child) = node.child_for(&self.view, key)?;
            path.push((node, index));
            node = below(media, &node, child)?;
        }
        Ok((path, node))
    }

    /// Notes a leaf that the sweep has come to, if an earlier process or a full list left it poor.
    pub(crate) fn note_swept(&mut self, leaf: &Node<'_>, key: &[u8]) -> Result<()> {
        if self.is_poor(leaf)? {
            match self.writer.poor.len() + self.poor.len() {
                0..NOTED_MAX => self.poor.push(key.to_vec()),
                _ => self.writer.missed = true,
            }
        }
        Ok(())
    }

    /// Whether a node has less than a quarter of what a new one may have.
    fn is_poor(&self, node: &Node<'_>) -> Result<bool> {
        let mut visible = Vec::new();
        node.visible(&self.view, &mut visible)?;
        let (most, bytes_most) = if node.is_leaf() { (LEAF_BASE_MAX, LEAF_BYTES) } else { (INNER_BASE_MAX, NODE_MAX) };
        if visible.len() >= most / 4 {
            return Ok(false);
        }
        let record = |&index: &u16| node.slot(index.into()).record_bytes(node.is_leaf());
        Ok(visible.iter().map(record).sum::<u64>() < bytes_most as u64 / 4)
    }

    /// Writes `node` and a neighbour anew, as one node or two.
    fn merge(&mut self, mut path: Path<'t>, node: Node<'t>, key: &[u8]) -> Result<()> {
        let Some((parent, index)) = path.pop() else { return Ok(()) };
        parent.require_sealed()?;
        let mut visible = Vec::new();
        parent.visible(&self.view, &mut visible)?;
        let Some(place) = visible.iter().position(|&seen| usize::from(seen) == index) else { return Ok(()) };
        let pair = match (visible.get(place + 1), place.checked_sub(1)) {
            (Some(&right), _) => [index, right.into()],
            (None, Some(left)) => [visible[left].into(), index],
            (None, None) => return Ok(()),
        };
        let media = &self.shared.media;
        let left = below(media, &parent, parent.child(pair[0]))?;
        let right = below(media, &parent, parent.child(pair[1]))?;
        let version = self.view.version;
        let own = |node: &Node<'_>| node.birth() == version;
        if !node.is_leaf() && (own(&left) || own(&right)) {
            self.poor.push(key.to_vec());
            return Ok(());
        }
        if !node.is_leaf() && begins_with_long_key(&right, &self.view)? {
            return Ok(());
        }
        let mut items = Items::default();
        self.gather(&left, b"", &mut items)?;
        let first = items.list.len();
        self.gather(&right, b"", &mut items)?;
        if !node.is_leaf() && first < items.list.len() && !seeded("tree-merge-keeps-separator") {
            // The right node's first child covers everything from the node's own lower border.
            let mut low = Vec::new();
            parent.key_into(&parent.slot(pair[1]), &mut low)?;
            self.separate(&mut items, first, &low)?;
        }
        for node in [&left, &right] {
            self.writer.prefetched.forget(node.at);
            debug_assert!(!own(node) || !self.has_graves(node.at), "MERGE-1: {:#x}", node.at);
        }
        let ranges = self.cut(&left, &items, false);
        let children = self.write_children(&left, &items, &ranges, false)?;
        self.list_dead(&parent);
        if !seeded("tree-merge-keeps-neighbour") {
            self.end_entry(&parent, pair[1], &parent.slot(pair[1]))?;
        }
        self.discard_own(&left)?;
        self.discard_own(&right)?;
        self.replace_child(path, parent, pair[0], children)?;
        self.shared.counts.merges.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Replaces a root that has a single child.
    fn lose_level(&mut self, root: &Node<'t>, key: &[u8]) -> Result<()> {
        let mut visible = Vec::new();
        root.visible(&self.view, &mut visible)?;
        let &[index] = &*visible else { return Ok(()) };
        let index = usize::from(index);
        let child = below(&self.shared.media, root, root.child(index))?;
        let own = |node: &Node<'_>| node.birth() == self.view.version;
        if child.is_leaf() {
            return Ok(());
        }
        if own(root) || own(&child) {
            self.poor.push(key.to_vec());
            return Ok(());
        }
        let mut items = Items::default();
        self.gather(&child, b"", &mut items)?;
        let count = items.list.len();
        if count == 0 || count > INNER_BASE_MAX - 2 {
            return Ok(());
        }
        root.require_sealed()?;
        // In this order: a node's dead entries precede the node's own (`reclaim.rs`).
        self.list_dead(root);
        if !seeded("tree-lost-level-leaks") {
            self.bury(root, index);
        }
        let (items, range) = self.with_old_root(root, &items, 0..count)?;
        self.root = self.write_node(child.level, &items, range)?;
        Ok(())
    }

    /// Gives the item at `place` of an inner node another separator.
    fn separate(&mut self, items: &mut Items, place: usize, key: &[u8]) -> Result<()> {
        let (value, start) = (items.list[place].value, items.list[place].start);
        self.push_inner(items, key, value, start, Version::NONE, 0)?;
        items.list.swap_remove(place);
        Ok(())
    }
}

/// Whether the separator of the first entry lies in a block of its own, which would have no owner
/// if the entry got another one.
fn begins_with_long_key(node: &Node<'_>, view: &View) -> Result<bool> {
    let mut visible = Vec::new();
    node.visible(view, &mut visible)?;
    Ok(visible.first().is_some_and(|&first| node.slot(first.into()).has(KEY_OUT)))
}

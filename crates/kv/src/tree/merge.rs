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
//! The old nodes are not touched, as with a split. Inner nodes of this batch are not merged: their
//! dead entries have to stay in order among the others. The writer notes the place, and the commits
//! of later batches do it, [`AGAIN`] places each.

use crate::error::Result;
use crate::tree::batch::{Path, TreeBatch};
use crate::tree::build::Items;
use crate::tree::layout::*;
use crate::tree::node::{Node, below};
use crate::tree::number::Version;
use crate::tree::version::View;
use everbyte_media::seeded;
use std::sync::atomic::Ordering::Relaxed;

/// Places at which one commit mends what earlier batches had to leave.
const AGAIN: usize = 2;
/// Places that are noted at most.
pub(crate) const NOTED_MAX: usize = 256;

impl<'t> TreeBatch<'t> {
    /// Before the commit: merges what an earlier batch could not, because it had made the nodes.
    pub(crate) fn mend_noted(&mut self) -> Result<()> {
        for _ in 0..AGAIN {
            let Some(key) = self.writer.poor.pop() else { return Ok(()) };
            self.mended.push(key.clone());
            self.guarded(|batch| batch.mend_underflow(&key, 1))?;
        }
        Ok(())
    }

    /// Notes the way to `key` for a later batch.
    fn note_poor(&mut self, key: &[u8]) {
        if self.poor.len() < NOTED_MAX && self.poor.last().is_none_or(|last| last != key) {
            self.poor.push(key.to_vec());
        }
    }

    /// Mends underflow on the way to the full key `key`, from the node of `level` upwards.
    pub(crate) fn mend_underflow(&mut self, key: &[u8], mut level: u8) -> Result<()> {
        loop {
            let (path, node) = self.descend_to(key, level)?;
            if path.is_empty() {
                return self.lose_level(&node, key);
            }
            if !self.is_poor(&node)? {
                return Ok(());
            }
            self.merge(path, node, key)?;
            level += 1;
        }
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
        let own = |node: &Node<'_>| node.birth() == self.view.version;
        if !node.is_leaf() && (own(&left) || own(&right)) {
            self.note_poor(key);
            return Ok(());
        }
        if !node.is_leaf() && begins_with_long_key(&right, &self.view)? {
            return Ok(());
        }
        self.shared.counts.merges.fetch_add(1, Relaxed);
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
            if node.birth() == self.view.version {
                self.graves.retain(|grave| grave.node != node.at);
            }
        }
        let ranges = self.cut(&left, &items, false);
        let children = self.write_children(&left, &items, &ranges)?;
        self.list_dead(&parent);
        if !seeded("tree-merge-keeps-neighbour") {
            self.end_entry(&parent, pair[1], &parent.slot(pair[1]))?;
        }
        self.discard_own(&left)?;
        self.discard_own(&right)?;
        self.replace_child(path, parent, pair[0], children)
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
            self.note_poor(key);
            return Ok(());
        }
        let mut items = Items::default();
        self.gather(&child, b"", &mut items)?;
        let count = items.list.len();
        if count == 0 || count > INNER_BASE_MAX - 2 {
            return Ok(());
        }
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

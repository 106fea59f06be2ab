//! Growing and shrinking: nodes are split and joined, and the topmost one is put under another or taken away, each in a
//! transaction of its own.

use super::node::{Draft, Node, common, prefix};
use super::path::{Goal, Path};
use super::{State, Tree};
use crate::base::set_all;
use crate::layout::{FAN_OUT, NodeSlot, PLACE_AT, TOP_AT};
use crate::record;
use crate::{Error, Result};
use everbyte_media::seeded;
use everbyte_tx::Tx;

/// Neighbours with so many slots in all become one node.
const JOINED_MAX: usize = 10;

/// Whether a node with so many slots is to be joined with a neighbour, if that has few enough.
pub(super) fn is_sparse(count: usize) -> bool {
    count <= JOINED_MAX / 2
}

impl Tree {
    /// Splits a node on the way to the full leaf of `key`: the leaf, or what above it must be split first.
    pub(super) fn split(&self, state: &mut State, key: &[u8]) -> Result<()> {
        let path = self.path(state, Goal::At(key))?;
        match path.0.iter().rposition(|step| !step.node.order().is_full()) {
            Some(depth) => self.split_below(state, &path, depth),
            None => self.grow(state, &path.0[0].node),
        }
    }

    /// Puts a node above the topmost one.
    fn grow(&self, state: &mut State, top: &Node) -> Result<()> {
        let slots = vec![NodeSlot { prefix: 0, place: top.at }];
        let above = Draft { level: top.level() + 1, skip: 0, low: 0, slots };
        state.top = self.base.run(&mut state.past, |tx| {
            let above = above.make(tx)?;
            set_all(tx, &[(self.base.root + TOP_AT, above)])?;
            Ok(above)
        })?;
        Ok(())
    }

    /// Splits the child, which is full, of the node at `depth`, which is not.
    fn split_below(&self, state: &mut State, path: &Path, depth: usize) -> Result<()> {
        let (parent, child) = (&path.0[depth], &path.0[depth + 1]);
        let (above, node) = (&parent.node, &child.node);
        // At the end if the key goes there: keys that come in order leave full leaves.
        let cut = if child.index >= FAN_OUT - 1 { FAN_OUT - 1 } else { FAN_OUT / 2 };
        let separator = self.separator(node, cut)?;
        let (low, high) = (self.bound(node.low())?, self.high(path, depth + 1, 0)?);
        let half = |low, skip| Draft { level: node.level(), skip, low, slots: Vec::with_capacity(FAN_OUT) };
        let left = half(node.low(), common(low.as_deref(), Some(&separator))).take(&self.base, node, 0..cut)?;
        let right = half(0, common(Some(&separator), high.as_deref())).take(&self.base, node, cut..FAN_OUT)?;
        self.base.run(&mut state.past, |tx| {
            let low = match node.level() {
                0 => record::Draft::new(0, &separator, b"")?.make(tx)?, // HKV-6
                _ => node.record_at(&self.base, cut)?,
            };
            let right = Draft { low, ..right }.make(tx)?;
            let (free, _) = above.slot(above.count());
            tx.overwrite(free, size_of::<NodeSlot>() as u64)?;
            tx.media().put(free, &NodeSlot { prefix: prefix(&separator, above.skip()), place: right });
            swing(tx, above, parent.index, left.make(tx)?, above.order().with(parent.index + 1).0)?;
            Ok(tx.free(node.at)?)
        })
    }

    /// The least key of what a node has from `cut` on; of a leaf, the shortest that tells it from what is before.
    fn separator(&self, node: &Node, cut: usize) -> Result<Vec<u8>> {
        let key = |index| Ok::<_, Error>(node.record(&self.base, index)?.key(self.heap()));
        let mut right = key(cut)?;
        if node.level() == 0 {
            right.truncate(common(Some(&key(cut - 1)?), Some(&right)) as usize + 1);
        }
        Ok(right)
    }

    /// Joins what has become sparse on the way to `key`, as long as there is something to join. Without room nothing
    /// happens.
    pub(super) fn join(&self, state: &mut State, key: &[u8]) -> Result<()> {
        loop {
            let path = self.path(state, Goal::At(key))?;
            let top = &path.0[0].node;
            let done = if top.level() > 0 && top.count() == 1 {
                self.shrink(state, top)
            } else if let Some((depth, right)) = self.joinable(&path)? {
                self.join_pair(state, &path, depth, right)
            } else {
                return Ok(());
            };
            match done {
                Err(error) if error.is_full() => return Ok(()),
                done => done?,
            }
        }
    }

    /// Takes the topmost node away, which has one child.
    fn shrink(&self, state: &mut State, top: &Node) -> Result<()> {
        let below = top.place(0);
        self.base.run(&mut state.past, |tx| {
            set_all(tx, &[(self.base.root + TOP_AT, below)])?;
            Ok(tx.free(top.at)?)
        })?;
        state.top = below;
        Ok(())
    }

    /// A node of the way that fits into one with its neighbour: its depth, and the index of the right one of the two.
    fn joinable(&self, path: &Path) -> Result<Option<(usize, usize)>> {
        for depth in (1..path.0.len()).rev() {
            let (node, parent) = (&path.0[depth].node, &path.0[depth - 1]);
            if !is_sparse(node.count()) {
                continue;
            }
            for (other, right) in [(parent.index + 1, parent.index + 1), (parent.index.wrapping_sub(1), parent.index)] {
                if other >= parent.node.count() {
                    continue;
                }
                let other = parent.node.child(&self.base, other)?.count();
                if node.count() + other <= JOINED_MAX || node.count() == 0 {
                    return Ok(Some((depth, right)));
                }
            }
        }
        Ok(None)
    }

    /// Joins the child at `right`, of the parent of the node at `depth`, with the one before.
    fn join_pair(&self, state: &mut State, path: &Path, depth: usize, right: usize) -> Result<()> {
        let Path(steps) = path;
        let parent = &steps[depth - 1];
        let (one, two) = (parent.node.child(&self.base, right - 1)?, parent.node.child(&self.base, right)?);
        let (low, high) = (self.bound(one.low())?, self.high(path, depth, right - parent.index)?);
        let skip = common(low.as_deref(), high.as_deref());
        let joined = Draft { level: one.level(), skip, low: one.low(), slots: Vec::with_capacity(FAN_OUT) };
        let joined = joined.take(&self.base, &one, 0..one.count())?.take(&self.base, &two, 0..two.count())?;
        self.base.run(&mut state.past, |tx| {
            swing(tx, &parent.node, right - 1, joined.make(tx)?, parent.node.order().without(right).0)?;
            if two.level() == 0 {
                tx.free(two.low())?; // HKV-6
            }
            tx.free(one.at)?;
            Ok(tx.free(two.at)?)
        })
    }
}

/// Puts a new child in the place of the one at `index`, and gives the node a new order.
fn swing(tx: &Tx<'_>, node: &Node, index: usize, child: u64, order: u64) -> Result<()> {
    let place = node.slot(index).0 + PLACE_AT;
    if seeded("hkv-tree-child-unnoted") {
        tx.overwrite(place, 8)?;
    }
    set_all(tx, &[(place, child), (node.at, order)])
}

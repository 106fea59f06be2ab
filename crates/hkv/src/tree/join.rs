//! Shrinking: nodes are joined, and the topmost one is taken away, each in a transaction of its own.

use super::node::{Draft, Node, common};
use super::path::{Goal, Path};
use super::{State, Tree};
use crate::Result;
use crate::base::set_all;
use crate::layout::{FAN_OUT, TOP_AT};

/// Neighbours with so many slots in all become one node.
const JOINED_MAX: usize = 10;

/// Whether a node with so many slots is to be joined with a neighbour, if that has few enough.
pub(super) fn is_sparse(count: usize) -> bool {
    count <= JOINED_MAX / 2
}

impl Tree {
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
            parent.node.swing(tx, right - 1, joined.make(tx)?, parent.node.order().without(right))?;
            if two.level() == 0 {
                tx.free(two.low())?; // HKV-6
            }
            tx.free(one.at)?;
            Ok(tx.free(two.at)?)
        })
    }
}

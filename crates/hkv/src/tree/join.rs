//! Shrinking: nodes are joined, and the topmost one is removed.
//!
//! A log record joins two nodes, with one fence:
//!   1. the slots of the right one are copied to slots that the left one does not use
//!   2. after the fence, the left one's order names them, and the parent's order drops the right
//!      one, which is freed
//!
//! This requires that the left one's `skip` is true for the keys of both (HKV-5). Otherwise a new
//! node replaces the two, in a transaction.
//!
//! Invariants
//!   HKV-12 A log record that joins nodes is valid by the slots that its order names: these are
//!          written before the next fence.

use super::node::{Draft, Node, common};
use super::order::Order;
use super::path::{Goal, Path};
use super::{Tree, TreeState};
use crate::Result;
use crate::base::{Base, set_all};
use crate::layout::{FAN_OUT, NODE, NodeSlot, TOP_AT};
use everbyte_media::Flusher;
use zerocopy::IntoBytes;

/// Neighbours with at most this many slots in all become one node.
const JOINED_MAX: usize = 10;

/// Whether a node with so many slots is joined with a neighbour that has few enough.
pub(super) fn is_sparse(count: usize) -> bool {
    count <= JOINED_MAX / 2
}

impl Tree {
    /// Joins sparse nodes on the way to `key`, until none is left. Without free space it does
    /// nothing.
    pub(super) fn join(&self, state: &mut TreeState, key: &[u8]) -> Result<()> {
        loop {
            let path = self.path(state, Goal::At(key))?;
            let top = &path.0[0].node;
            let (done, left_above) = if top.level() > 0 && top.count() == 1 {
                (self.shrink(state, top), 0)
            } else if let Some((depth, right)) = self.joinable(&path)? {
                (self.join_pair(state, &path, depth, right), path.0[depth - 1].node.count() - 1)
            } else {
                return Ok(());
            };
            match done {
                Err(error) if error.is_full() => return Ok(()),
                done => done?,
            }
            if !is_sparse(left_above) {
                return Ok(());
            }
        }
    }

    /// Removes the topmost node, which has one child.
    fn shrink(&self, state: &mut TreeState, top: &Node) -> Result<()> {
        let below = top.place(0);
        self.base.run(&mut state.log, |tx| {
            set_all(tx, &[(self.base.root + TOP_AT, below)])?;
            Ok(tx.free(top.at)?)
        })?;
        state.top = below;
        Ok(())
    }

    /// A node on the path that fits into one with its neighbour: its depth, and the index of the
    /// right one of the two.
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

    /// Joins the child at `right`, of the parent of the node at `depth`, with the child before it.
    fn join_pair(&self, state: &mut TreeState, path: &Path, depth: usize, right: usize) -> Result<()> {
        let Path(steps) = path;
        let parent = &steps[depth - 1];
        let (one, two) = (parent.node.child(&self.base, right - 1)?, parent.node.child(&self.base, right)?);
        let skip = match one.skip() {
            0 => 0, // for any bounds
            _ => {
                let (low, high) = (self.bound(one.low())?, self.high(path, depth, right - parent.index)?);
                common(low.as_deref(), high.as_deref())
            }
        };
        if one.skip() <= skip {
            return self.append(state, &parent.node, &one, right, &two);
        }
        let joined = Draft { level: one.level(), skip, low: one.low(), slots: Vec::with_capacity(FAN_OUT) };
        let joined = joined.take(&self.base, &one, 0..one.count())?.take(&self.base, &two, 0..two.count())?;
        self.base.run(&mut state.log, |tx| {
            parent.node.swing(tx, right - 1, joined.make(tx)?, parent.node.order().without(right))?;
            if two.level() == 0 {
                tx.free(two.low())?; // HKV-6
            }
            tx.free(one.at)?;
            Ok(tx.free(two.at)?)
        })
    }

    /// Appends to `one`, a child of `parent`, the slots of the next child, which lies at `right`.
    fn append(&self, state: &mut TreeState, parent: &Node, one: &Node, right: usize, two: &Node) -> Result<()> {
        let (heap, media) = (self.heap(), self.base.media());
        let more = Draft { level: one.level(), skip: one.skip(), low: 0, slots: Vec::with_capacity(FAN_OUT) };
        let more = more.take(&self.base, two, 0..two.count())?;
        let mut ops = vec![heap.op_free(two.at)?];
        if two.level() == 0 {
            ops.push(heap.op_free(two.low()).inspect_err(|_| heap.abandon(&ops))?); // HKV-6
        }
        let _section = media.section();
        let joined = more.slots.iter().fold(*one, |joined, &slot| joined.with(slot));
        let mut flusher = Flusher::new(media);
        for (at, slot) in (one.count()..joined.count()).map(|index| joined.slot(index)) {
            media.put(at, &slot);
            flusher.touch(at, size_of::<NodeSlot>() as u64);
        }
        flusher.finish_unless("hkv-joined-unflushed");
        let words = [(parent.at, parent.order().without(right).0), (joined.at, joined.order().0)];
        self.base.write_log_record(&mut state.log, &ops, &words, sum(&joined));
        Ok(())
    }
}

/// The checksum of the slots in use.
fn sum(node: &Node) -> u32 {
    (0..node.count()).fold(0, |sum, index| crc32c::crc32c_append(sum, node.slot(index).1.as_bytes()))
}

/// The checksum of the bytes written for a log record that joins nodes: the second word is the
/// order of the one that stays.
pub(crate) fn checksum(base: &Base, [_, (at, order)]: [(u64, u64); 2]) -> Option<u32> {
    let joined = Node::read(base, at, None).ok()?.with_order(Order(order))?;
    base.media().reflush(at, NODE);
    Some(sum(&joined))
}

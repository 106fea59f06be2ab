//! Shrinking: nodes are joined, and the topmost one is taken away.
//!
//! Two nodes are joined by a note, with one fence:
//!   1. what the right one has is copied to slots that the left one does not use
//!   2. after the fence, the left one's order names them, and the parent's forgets the right one,
//!      which is freed
//!
//! So it is while the left one's `skip` stays true for keys of both (HKV-5). Else a new node takes
//! the place of the two, in a transaction.
//!
//! Invariants
//!   HKV-12 A note that joins nodes counts by what the slots hold that its order names: these are
//!   written before the next fence.

use super::node::{Draft, Node, common};
use super::order::Order;
use super::path::{Goal, Path};
use super::{State, Tree};
use crate::Result;
use crate::base::{Base, set_all};
use crate::layout::{FAN_OUT, NODE, NodeSlot, TOP_AT};
use everbyte_media::Flusher;
use zerocopy::IntoBytes;

/// Neighbours with so many slots in all become one node.
const JOINED_MAX: usize = 10;

/// Whether a node with so many slots is to be joined with a neighbour, if that has few enough.
pub(super) fn is_sparse(count: usize) -> bool {
    count <= JOINED_MAX / 2
}

impl Tree {
    /// Joins what has become sparse on the way to `key`, as long as there is something to join.
    /// Without room nothing happens.
    pub(super) fn join(&self, state: &mut State, key: &[u8]) -> Result<()> {
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

    /// A node of the way that fits into one with its neighbour: its depth, and the index of the
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

    /// Joins the child at `right`, of the parent of the node at `depth`, with the one before.
    fn join_pair(&self, state: &mut State, path: &Path, depth: usize, right: usize) -> Result<()> {
        let Path(steps) = path;
        let parent = &steps[depth - 1];
        let (one, two) = (parent.node.child(&self.base, right - 1)?, parent.node.child(&self.base, right)?);
        let skip = match one.skip() {
            0 => 0, // whatever the bounds are
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
        self.base.run(&mut state.past, |tx| {
            parent.node.swing(tx, right - 1, joined.make(tx)?, parent.node.order().without(right))?;
            if two.level() == 0 {
                tx.free(two.low())?; // HKV-6
            }
            tx.free(one.at)?;
            Ok(tx.free(two.at)?)
        })
    }

    /// Gives `one`, a child of `parent`, what the next one has, which lies at `right`.
    fn append(&self, state: &mut State, parent: &Node, one: &Node, right: usize, two: &Node) -> Result<()> {
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
        self.base.note(&mut state.past, &ops, &words, sum(&joined));
        Ok(())
    }
}

/// Of the slots in use.
fn sum(node: &Node) -> u32 {
    (0..node.count()).fold(0, |sum, index| crc32c::crc32c_append(sum, node.slot(index).1.as_bytes()))
}

/// The checksum of what was written for a note that joins nodes: the second word is the order of
/// the one that stays.
pub(crate) fn checksum(base: &Base, [_, (at, order)]: [(u64, u64); 2]) -> Option<u32> {
    let joined = Node::read(base, at, None).ok()?.with_order(Order(order))?;
    base.media().reflush(at, NODE);
    Some(sum(&joined))
}

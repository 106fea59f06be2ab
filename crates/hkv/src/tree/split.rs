//! Growing: full nodes are split, and the topmost one is put under another.
//!
//! A log record halves a node, with one fence:
//!   1. its upper half is copied to a new node, and an unused slot of its parent leads there
//!   2. after the fence, its own order drops that half, and its parent's order names the slot
//!
//! The old node keeps its `skip`, which stays true (HKV-5), while the prefixes behind it tell its
//! keys apart. Otherwise two new nodes replace it, in a transaction.
//!
//! Invariants
//!   HKV-11 A log record that halves a node is valid by the bytes of the new node and its slot,
//!          free slots left out: these are written before the next fence.

use super::node::{Draft, Node, common, prefix};
use super::order::Order;
use super::path::{Goal, Path, Step};
use super::{Tree, TreeState};
use crate::base::{Base, set_all};
use crate::layout::{FAN_OUT, NODE, NodeSlot, TOP_AT};
use crate::record;
use crate::{Error, Result};
use everbyte_media::Offset;
use zerocopy::IntoBytes;

impl Tree {
    /// Splits a node on the way to the full leaf of `key`: the leaf, or a full node above it first.
    pub(super) fn split(&self, state: &mut TreeState, key: &[u8]) -> Result<()> {
        let path = self.path(state, Goal::At(key))?;
        match path.0.iter().rposition(|step| !step.node.order().is_full()) {
            Some(depth) => self.split_below(state, &path, depth),
            None => self.grow(state, &path.0[0].node),
        }
    }

    /// Puts a node above the topmost one.
    fn grow(&self, state: &mut TreeState, top: &Node) -> Result<()> {
        let slots = vec![NodeSlot { prefix: 0, place: Offset::new(top.at) }];
        let above = Draft { level: top.level() + 1, skip: 0, low: 0, slots };
        state.top = self.base.run(&mut state.log, |tx| {
            let above = above.make(tx)?;
            set_all(tx, &[(self.base.root + TOP_AT, above)])?;
            Ok(above)
        })?;
        Ok(())
    }

    /// Splits the child, which is full, of the node at `depth`, which is not.
    fn split_below(&self, state: &mut TreeState, path: &Path, depth: usize) -> Result<()> {
        let (parent, child) = (&path.0[depth], &path.0[depth + 1]);
        let (above, node) = (&parent.node, &child.node);
        // At the end if the key belongs there: keys that come in order leave full leaves.
        let cut = if child.index >= FAN_OUT - 1 { FAN_OUT - 1 } else { FAN_OUT / 2 };
        let separator = self.separator(node, cut)?;
        let high = self.high(path, depth + 1, 0)?;
        let half = |low, skip| Draft { level: node.level(), skip, low, slots: Vec::with_capacity(FAN_OUT) };
        let skip = if node.tells_apart(cut..FAN_OUT) { node.skip() } else { common(Some(&separator), high.as_deref()) };
        let right = half(0, skip).take(&self.base, node, cut..FAN_OUT)?;
        if node.tells_apart(0..cut) {
            return self.halve(state, parent, node, cut, &separator, right);
        }
        let low = self.bound(node.low())?;
        let left = half(node.low(), common(low.as_deref(), Some(&separator))).take(&self.base, node, 0..cut)?;
        self.base.run(&mut state.log, |tx| {
            let low = match node.level() {
                0 => record::Draft::new(0, &separator, b"")?.make(tx)?, // HKV-6
                _ => node.record_at(&self.base, cut)?,
            };
            let right = Draft { low, ..right }.make(tx)?;
            let (free, _) = above.slot(above.count());
            tx.overwrite(free, size_of::<NodeSlot>() as u64)?;
            tx.media().put(free, &NodeSlot { prefix: prefix(&separator, above.skip()), place: Offset::new(right) });
            above.swing(tx, parent.index, left.make(tx)?, above.order().with(parent.index + 1))?;
            Ok(tx.free(node.at)?)
        })
    }

    /// Leaves a node its slots before `cut`; `right` is the rest, without the least key, which is
    /// `separator`.
    fn halve(
        &self,
        state: &mut TreeState,
        parent: &Step,
        node: &Node,
        cut: usize,
        separator: &[u8],
        right: Draft,
    ) -> Result<()> {
        let (heap, media, log, above) = (self.heap(), self.base.media(), &mut state.log, &parent.node);
        // HKV-6
        let least = if node.level() == 0 { Some(record::Draft::new(0, separator, b"")?) } else { None };
        let low = if least.is_none() { node.record_at(&self.base, cut)? } else { 0 };
        let block = self.base.reserve(log, NODE)?;
        let mut blocks = vec![block];
        if let Some(least) = &least {
            blocks.push(self.base.reserve(log, least.len()).inspect_err(|_| heap.cancel(block))?);
        }
        let _section = media.section();
        if let (Some(least), [_, record]) = (&least, &blocks[..]) {
            least.write(media, record.at.get());
        }
        let bytes = Draft { low: blocks.get(1).map_or(low, |record| record.at.get()), ..right }.bytes();
        media.put(block.at, &bytes);
        media.flush_unless("hkv-half-unflushed", block.at, NODE);
        let (free, _) = above.slot(above.count());
        let slot = NodeSlot { prefix: prefix(separator, above.skip()), place: block.at };
        media.put(free, &slot);
        media.flush(free, size_of::<NodeSlot>() as u64);
        let ops: Vec<_> = blocks.iter().map(|block| heap.op_allocate(block)).collect();
        let words = [(above.at, above.order().with(parent.index + 1).0), (node.at, node.order().first(cut).0)];
        let sum = sum(&slot, &Node { at: block.at.get(), bytes }, least.map_or(0, |least| least.checksum()));
        self.base.write_log_record(log, &ops, &words, sum);
        Ok(())
    }

    /// The least key of a node's slots from `cut` on; of a leaf, the shortest prefix that tells it
    /// from the key before.
    fn separator(&self, node: &Node, cut: usize) -> Result<Vec<u8>> {
        let key = |index| Ok::<_, Error>(node.record(&self.base, index)?.key(self.heap()));
        let mut right = key(cut)?;
        if node.level() == 0 {
            right.truncate(common(Some(&key(cut - 1)?), Some(&right)) as usize + 1);
        }
        Ok(right)
    }
}

/// The checksum of a slot, the node that it leads to, and the record of that node's least key, if
/// the node owns it.
fn sum(slot: &NodeSlot, node: &Node, least: u32) -> u32 {
    let used = node.used();
    [slot.as_bytes(), used, least.as_bytes()].into_iter().fold(0, crc32c::crc32c_append)
}

/// The checksum of the bytes written for a log record that halves a node: the words are the orders
/// of its parent and of itself.
pub(crate) fn checksum(base: &Base, [(parent, order), (halved, _)]: [(u64, u64); 2]) -> Option<u32> {
    let above = Node::read(base, parent, None).ok()?.with_order(Order(order))?;
    let left = (0..above.count()).find(|&index| above.place(index) == halved)?;
    let (at, slot) = above.slot(Some(left + 1).filter(|&right| right < above.count())?);
    let node = Node::read(base, slot.place.get(), Some(above.level().checked_sub(1)?)).ok()?;
    let least = if node.level() == 0 { base.record_checksum(node.low())? } else { 0 };
    base.media().reflush(at, size_of::<NodeSlot>() as u64);
    base.media().reflush(node.at, NODE);
    Some(sum(&slot, &node, least))
}

//! What becomes of the dead: entries that ended at or below every version in use are emptied, and what they own is freed,
//! in the ledger of a later version. A few at a time, so that no single commit pays for a whole subtree.

use crate::batch::{Batch, Grave, owned_blocks};
use crate::error::Result;
use crate::hash::OffsetSet;
use crate::layout::*;
use crate::node::Node;
use std::sync::atomic::Ordering::Relaxed;

/// Nodes and entries looked at for one commit, at least; twice as many as it buries if that is more, so that the
/// graveyard cannot grow for ever.
const BUDGET: usize = 64;

/// One commit's share of reclaiming.
struct Work {
    left: usize,
    /// Slots that this commit's ledger empties.
    dropped: OffsetSet,
}

impl Batch<'_> {
    /// Works through the front of the graveyard: frees and drops go into this batch's ledger.
    pub(crate) fn reclaim(&mut self) -> Result<()> {
        let mut work = Work { left: BUDGET.max(2 * self.graves.len()), dropped: OffsetSet::default() };
        // In the order of ends: a node's dead entries come before the node's own (see `replace.rs`).
        while let Some(&Grave { end, node, index }) = self.writer.graveyard.front() {
            if work.left == 0 || !self.past(end) {
                break;
            }
            let dug =
                Node::open(&self.shared.media, node).and_then(|node| self.bury_deep(&node, index, false, &mut work));
            match dug {
                Ok(true) => {}
                Ok(false) => break,
                // Damage below a dead entry costs its space, which `check` reports, not the ability to write.
                Err(crate::Error::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
            // Kept: should this version become void, it is still to be done.
            self.reclaimed.extend(self.writer.graveyard.pop_front());
        }
        Ok(())
    }

    /// Frees what slot `index` owns and lists the slot to be emptied. `false`: the budget ran out, come back later.
    fn bury_deep(&mut self, node: &Node<'_>, index: usize, whole: bool, work: &mut Work) -> Result<bool> {
        let (at, slot) = (node.slot_at(index), node.slot(index));
        if slot.start == 0 || work.dropped.contains(&at) {
            return Ok(true);
        }
        if !node.is_leaf() && !self.free_subtree(slot.value, whole || slot.has(WHOLE), work)? {
            return Ok(false);
        }
        for block in owned_blocks(node, &slot)?.into_iter().flatten() {
            self.free(block)?;
        }
        work.left = work.left.saturating_sub(1);
        work.dropped.insert(at);
        self.drops.push(at);
        Ok(true)
    }

    /// Frees a node and what its entries own: the dead ones always, the live ones only if nothing moved (`whole`).
    fn free_subtree(&mut self, at: u64, whole: bool, work: &mut Work) -> Result<bool> {
        let node = Node::open(&self.shared.media, at)?;
        for index in 0..node.count() {
            let slot = node.slot(index);
            let ended = self.view.ended(slot.end);
            if !self.view.born(slot.start) || !(ended || whole) || work.dropped.contains(&node.slot_at(index)) {
                continue;
            }
            if node.is_leaf() {
                for block in owned_blocks(&node, &slot)?.into_iter().flatten() {
                    self.free(block)?;
                }
            } else {
                if work.left == 0 {
                    return Ok(false);
                }
                // Below a live entry of a whole subtree everything goes; below a dead one, what its own flag says.
                if !self.bury_deep(&node, index, whole && !ended, work)? {
                    return Ok(false);
                }
            }
        }
        work.left = work.left.saturating_sub(1);
        self.free(at)?;
        Ok(true)
    }

    fn free(&mut self, block: u64) -> Result<()> {
        self.shared.counts.freed.fetch_add(1, Relaxed);
        self.release(block)
    }

    /// Lists the dead entries of a node that an earlier process left behind, once.
    pub(crate) fn list_dead(&mut self, node: &Node<'_>) {
        if node.birth() > self.writer.opened || !self.writer.scanned.insert(node.at) {
            return;
        }
        for index in 0..node.count() {
            let slot = node.slot(index);
            if self.view.born(slot.start) && self.view.ended(slot.end) && slot.end <= self.writer.opened {
                self.writer.graveyard.push_back(Grave { end: slot.end, node: node.at, index });
            }
        }
    }
}

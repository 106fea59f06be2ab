//! Dead entries: those that ended at or below every version in use are emptied, and what they own
//! is freed, in the ledger of a later version. A few at a time, so that no single commit pays for a
//! whole subtree.
//!
//! Nodes below a dead entry are freed bottom-up. A root that was replaced hangs below the root that
//! replaced it, so while a snapshot is held dead entries form chains as long as there are versions.
//! No step here recurses:
//!   1. `Writer::digging` is the way down from the grave in front of the graveyard to the entry to
//!      be freed next
//!   2. a commit goes on where the last one stopped: one step looks at one node and goes one level
//!      down or frees it
//!   3. when the budget of a commit is spent, the way stays for the next one
//!
//! Invariants
//!   DIG-1  A frame leaves `digging` in the batch whose ledger empties its slot. A batch that is
//!          given up puts back the frames it took.
//!   DIG-2  Reclaiming makes no ledger too long for its area, unless the batch itself takes more
//!          than half of the area: a commit that gives space back needs none (`ledger_room`).
//!   SWEEP-1  The sweep of a batch that is given up begins again where it began: the batch may have
//!            replaced a leaf that it passed, and the old leaf, whose dead entries no grave names,
//!            is in force again.
//!
//! A process that opens a tree knows no graves. It lists the dead entries of the root at once,
//! those of other nodes when a write comes by, and those of the rest by a sweep over the keys, a
//! leaf or two for each commit.

use crate::error::{Error, Result};
use crate::tree::batch::{TreeBatch, owned_blocks};
use crate::tree::hash::OffsetSet;
use crate::tree::layout::*;
use crate::tree::ledger::ledger_room;
use crate::tree::node::{Node, below};
use crate::tree::walk::Walk;
use crate::tree::writer::{Frame, Grave};
use everbyte_media::seeded;
use std::sync::atomic::Ordering::Relaxed;

/// Nodes and entries looked at for one commit, at least; twice as many as it buries if that is
/// more, so that the graveyard cannot grow for ever.
const BUDGET: usize = 64;
/// Most words of a ledger that one dead entry takes: its node or its value, its key, its slot.
const ENTRY_WORDS: usize = 3;
/// For each leaf of the sweep, so many entries that the batch buries.
const SWEEP_SHARE: usize = 8;

/// One commit's share of reclaiming.
struct Work {
    left: usize,
    /// Words that its ledger may have (DIG-2).
    room: usize,
    /// Slots that this commit's ledger empties.
    dropped: OffsetSet,
    /// The entry dug last: of its node, those before it need no second look in this commit.
    last: (u64, usize),
}

impl TreeBatch<'_> {
    /// Whether there is space that a commit can give back now: dead entries that no version in use
    /// sees, nodes to be merged, or a part of the tree that was not yet searched for dead entries.
    pub(crate) fn has_garbage(&mut self) -> bool {
        let front = self.writer.graveyard.front().map(|grave| grave.end);
        let can_mend = !self.writer.cannot_mend && (!self.writer.poor.is_empty() || self.may_sweep_again());
        self.writer.sweep.is_some() || can_mend || front.is_some_and(|end| self.past(end))
    }

    /// Works through the front of the graveyard: frees and drops go into this batch's ledger.
    pub(crate) fn reclaim(&mut self) -> Result<()> {
        self.shared.pins.expire();
        self.swept.clone_from(&self.writer.sweep);
        let before = self.frees.len();
        for _ in 0..=self.graves.len() / SWEEP_SHARE {
            self.sweep();
        }
        let left = BUDGET.max(2 * self.graves.len());
        let mut work =
            Work { left, room: ledger_room(self.ledger_words()), dropped: OffsetSet::default(), last: (0, 0) };
        // In the order of ends: a node's dead entries come before the node's own (see
        // `replace.rs`).
        while let Some(&Grave { end, node, index }) = self.writer.graveyard.front() {
            if work.left == 0 || !self.past(end) {
                break;
            }
            if self.writer.digging.is_empty() {
                self.writer.digging.push(Frame { node, index: index as u16, whole: false });
            }
            let mut freed = self.frees.len();
            match self.dig(&mut work, &mut freed) {
                Ok(true) => {}
                Ok(false) => break,
                // Damage below a dead entry costs its space, which `check` reports, not the ability
                // to write. The entry stays: the next process finds it again, so nothing of it may
                // be freed now.
                Err(Error::Damaged { .. } | Error::Heap(_)) => {
                    self.shared.heap.abandon(&self.frees[freed..]);
                    self.frees.truncate(freed);
                    while !self.writer.digging.is_empty() {
                        self.climb();
                    }
                }
                Err(error) => return Err(error),
            }
            // Kept: should this batch be given up, it is still to be done.
            self.reclaimed.extend(self.writer.graveyard.pop_front());
        }
        self.freed = (self.frees.len() - before) as u64;
        Ok(())
    }

    /// Words of this batch's ledger as it stands.
    fn ledger_words(&self) -> usize {
        self.allocated.len() + self.frees.len() + self.drops.len()
    }

    /// Goes on digging at the deepest frame. `false`: the budget ran out, come back with the next
    /// commit. After an error the frees from `freed` on belong to an entry that stays.
    fn dig(&mut self, work: &mut Work, freed: &mut usize) -> Result<bool> {
        let media = &self.shared.media;
        while let Some(&frame) = self.writer.digging.last() {
            *freed = self.frees.len();
            let node = Node::open(media, frame.node)?;
            node.require_sealed()?;
            let index = usize::from(frame.index);
            if index >= node.count() {
                return crate::error::damaged(frame.node, "a node has changed its size");
            }
            let (at, slot) = (node.slot_at(index), node.slot(index));
            if slot.start == 0 || work.dropped.contains(&at) {
                self.climb();
                continue;
            }
            let room = work.room.saturating_sub(self.ledger_words());
            if room < ENTRY_WORDS {
                return Ok(false);
            }
            if !node.is_leaf() {
                // Before anything is opened below: how deep it goes is the data's choice.
                if work.left == 0 {
                    return Ok(false);
                }
                work.left -= 1;
                let child = Node::open(media, slot.value)?;
                child.require_sealed()?;
                // A leaf's values and keys are freed at once.
                if child.is_leaf() && room < ENTRY_WORDS + 2 * child.count() {
                    return Ok(false);
                }
                if let Some(deeper) = self.deeper(&child, frame.whole || slot.has(WHOLE), work)? {
                    self.writer.digging.push(deeper);
                    continue;
                }
                self.release(child.at)?;
            }
            for block in owned_blocks(&node, &slot)?.into_iter().flatten() {
                self.release(block)?;
            }
            work.left = work.left.saturating_sub(1);
            // Of a node that was entered from above only: a grave names an entry in the middle of
            // its node.
            if self.writer.digging.len() > 1 {
                work.last = (node.at, index);
            }
            work.dropped.insert(at);
            self.drops.push(at);
            self.climb();
        }
        Ok(true)
    }

    /// The next entry of the dead node `child` that owns a subtree: the dead ones always, the live
    /// ones only if nothing moved (`whole`). `None`: there is none, and what a leaf's entries own
    /// is freed.
    fn deeper(&mut self, child: &Node<'_>, whole: bool, work: &Work) -> Result<Option<Frame>> {
        let depth = self.writer.digging.len();
        // Damaged pointers may lead in a circle: a frame at a power of two is met again soon after
        // the circle is entered.
        let landmark = self.writer.digging[(1 << depth.ilog2()) - 1];
        if depth > 1 && landmark.node == child.at {
            return crate::error::damaged(child.at, "dead entries lead in a circle");
        }
        let first = if work.last.0 == child.at { work.last.1 } else { 0 };
        for index in first..child.count() {
            let slot = child.slot(index);
            let ended = self.view.ended(slot.end);
            if !self.view.born(slot.start) || !(ended || whole) || work.dropped.contains(&child.slot_at(index)) {
                continue;
            }
            if !child.is_leaf() {
                // Below a live entry of a whole subtree everything goes; below a dead one, what its
                // own flag says.
                return Ok(Some(Frame { node: child.at, index: index as u16, whole: whole && !ended }));
            }
            for block in owned_blocks(child, &slot)?.into_iter().flatten() {
                self.release(block)?;
            }
        }
        Ok(None)
    }

    /// Leaves the deepest frame (DIG-1).
    fn climb(&mut self) {
        let Some(frame) = self.writer.digging.pop() else { return };
        if self.writer.digging.len() < self.undug {
            self.undug = self.writer.digging.len();
            self.dug.push(frame);
        }
    }

    /// Lists the dead entries of a node that an earlier process left behind, once: those that own
    /// something.
    #[cold]
    pub(crate) fn list_dead(&mut self, node: &Node<'_>) {
        if node.birth() > self.writer.unlisted || !self.writer.scanned.insert(node.at) {
            return;
        }
        for index in 0..node.count() {
            let slot = node.slot(index);
            let owns = !node.is_leaf() || slot.has(KEY_OUT | VALUE_OUT);
            if owns && self.view.born(slot.start) && self.view.ended(slot.end) && slot.end <= self.writer.opened {
                self.writer.graveyard.push_back(Grave { end: slot.end, node: node.at, index });
            }
        }
    }

    /// Lists the dead entries on the way to the leaf at which the sweep has arrived, and goes on to
    /// the next one.
    fn sweep(&mut self) {
        let Some(from) = self.writer.sweep.take() else { return };
        if seeded("tree-no-sweep") {
            return;
        }
        // Damage ends the sweep: it costs space, which `check` reports.
        self.writer.sweep = self.sweep_leaf(&from).unwrap_or_default();
    }

    /// After the commit: the sweep has gone as far as it went in this batch, and what was freed is
    /// freed (SWEEP-1).
    pub(crate) fn reclaimed(&mut self) {
        self.shared.counts.freed.fetch_add(self.freed, Relaxed);
        if self.writer.sweep.is_none() && self.writer.unlisted > 0 {
            self.writer.unlisted = 0;
            self.writer.scanned = OffsetSet::default();
        }
    }

    /// As [`TreeBatch::sweep`]; the first key of the next leaf.
    fn sweep_leaf(&mut self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let media = &self.shared.media;
        let mut next = None;
        let mut node = Node::open(media, self.root)?;
        while !node.is_leaf() {
            self.list_dead(&node);
            let mut place = Walk::behind(&node, &self.view, from)?;
            if let Some(index) = place.next(&node, &self.view)? {
                let mut key = Vec::new();
                node.full_key_into(&node.slot(index), &mut key)?;
                next = Some(key);
            }
            let (_, child) = node.child_for(&self.view, from)?;
            node = below(media, &node, child)?;
        }
        self.list_dead(&node);
        if !from.is_empty() || next.is_some() {
            self.note_swept(&node, from)?; // not the only leaf
        }
        // A separator that does not lead on is damage.
        Ok(next.filter(|next| next.as_slice() > from))
    }
}

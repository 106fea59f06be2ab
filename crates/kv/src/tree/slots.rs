//! Slots of a node that are filled after the node was written: which are free, and their reuse.

use crate::error::Result;
use crate::tree::batch::{NewRecord, TreeBatch};
use crate::tree::layout::*;
use crate::tree::node::{Node, order_indexes};
use crate::tree::number::Version;
use std::cmp::Ordering;

impl TreeBatch<'_> {
    /// Puts a record into an empty slot of `node`. `false`: there is no room.
    pub(crate) fn append(&mut self, node: &Node<'_>, key: &[u8], record: &NewRecord, start: Version) -> Result<bool> {
        if node.birth() <= self.writer.unlisted {
            self.list_dead(node);
        }
        if self.writer.suspicious && node.birth() <= self.writer.opened && self.writer.adopted.insert(node.at) {
            self.adopt_empty(node);
        }
        let order = node.order();
        let need = record.bytes.len() as u64;
        let mut top = u64::from(node.base_end);
        let mut vacant = None;
        let mut taken = [(0, 0); APPENDS];
        let mut dead = [0_usize; APPENDS];
        let mut dying = 0;
        // the number of the slot is what all else follows from
        #[allow(clippy::needless_range_loop)]
        for append in 0..APPENDS {
            let index = node.base() + append;
            let (at, slot) = (node.slot_at(index), node.slot(index));
            // A slot that a crash tore may claim anything. An offset outside fills the node, and it
            // is rebuilt.
            let room = slot.record_bytes(node.is_leaf());
            let used = if slot.place == 0 { 0 } else { slot.record().saturating_add(room) };
            top = top.max(used);
            // BATCH-3 spares fresh slots the search.
            let fresh = slot.place == 0 || !self.emptied.contains(&at) && !self.writer.recent.contains(&at);
            if slot.start == 0 && fresh {
                vacant = vacant.or(Some((index, None)));
                if slot.place != 0
                    && room >= need
                    && slot.record() >= u64::from(node.base_end)
                    && used <= u64::from(node.size)
                {
                    vacant = Some((index, Some(slot.record())));
                }
                continue;
            }
            taken[append] = (slot.record(), used);
            if slot.place == 0 {
                continue; // torn: left to the rebuild (BATCH-3)
            }
            if slot.start != 0 && !self.view.born(slot.start)
                || (node.is_leaf()
                    && self.view.ended(slot.end)
                    && slot.end != self.view.version
                    && !slot.has(KEY_OUT | VALUE_OUT))
            {
                dead[dying] = index;
                dying += 1;
            }
        }
        // Dead entries that own nothing need no ledger: empty them now, for the next version to
        // reuse.
        for &index in &dead[..dying] {
            let (at, slot) = (node.slot_at(index), node.slot(index));
            if slot.start != 0 && (!self.view.born(slot.start) || self.past(slot.end)) {
                self.store(at + START_AT, 0);
                self.emptied.insert(at);
            }
        }
        let Some((index, place)) = vacant else { return Ok(false) };
        let offset = match place {
            // Its old place, unless a torn claim overlaps what another slot holds.
            Some(offset) if taken.iter().all(|&(from, to)| to <= offset || offset + need <= from) => offset,
            _ if top + need <= u64::from(node.size) => top,
            _ => return Ok(false),
        };
        self.fill(node, index, offset, key, record, start);
        self.insert_order(node, index, key, order)?;
        Ok(true)
    }

    /// Flushes the emptiness of empty slots, for the next version to reuse them (TREE-2).
    fn adopt_empty(&mut self, node: &Node<'_>) {
        // BATCH-3
        let empty = |index: &usize| node.start(*index) == 0 && node.slot(*index).place != 0;
        for at in (node.base()..node.count()).filter(empty).map(|index| node.slot_at(index)) {
            self.shared.media.reflush(at, 8);
            self.emptied.insert(at);
        }
    }

    /// Writes slot `index`, its start last.
    fn fill(&mut self, node: &Node<'_>, index: usize, offset: u64, key: &[u8], record: &NewRecord, start: Version) {
        let at = node.slot_at(index);
        let head = node.query_head(key);
        self.touch(node, at);
        self.write(node.at + offset, &record.bytes);
        self.store(at + END_AT, 0);
        self.store(at + PLACE_AT, Slot::place(offset as usize, record.key_len, record.flags, record.table));
        self.store(at + VALUE_AT, record.value);
        self.store(node.head_at(index), head);
        if node.is_leaf() {
            let byte = node.at + (FINGERPRINTS_AT + index) as u64;
            let shift = byte % 8 * 8;
            let word = self.shared.media.load(byte & !7) & !(0xff << shift) | u64::from(record.key_sum) << shift;
            self.store(byte & !7, word);
        }
        self.store(at + START_AT, start.get());
    }

    /// Puts `index` at its place in the permutation word and leaves out what is empty or void
    /// (NODE-3).
    fn insert_order(&mut self, node: &Node<'_>, index: usize, key: &[u8], order: u64) -> Result<()> {
        let head = node.query_head(key);
        let (mut next, mut count, mut placed) = (0_u64, 0, false);
        let mut push = |append: usize| {
            next |= (append as u64) << (4 + 4 * count);
            count += 1;
        };
        for append in order_indexes(order) {
            let other = node.base() + append;
            if append >= APPENDS || other == index || !self.view.born(node.start(other)) {
                continue;
            }
            if !placed && node.order_against(other, key, head)? == Ordering::Greater {
                push(index - node.base());
                placed = true;
            }
            push(append);
        }
        if !placed {
            push(index - node.base());
        }
        self.store(node.at + ORDER_AT as u64, next | count as u64);
        Ok(())
    }
}

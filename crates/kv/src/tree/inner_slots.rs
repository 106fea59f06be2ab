//! Appended slots of an inner node.

use crate::tree::batch::{NewRecord, TreeBatch};
use crate::tree::layout::*;
use crate::tree::node::Node;

impl TreeBatch<'_> {
    /// Fills a slot of an inner node. `None`: there is no room.
    pub(crate) fn append_to_inner(&mut self, node: &Node<'_>, key: &[u8], record: &NewRecord) -> Option<usize> {
        let need = record.bytes.len() as u64;
        let mut top = u64::from(node.base_end);
        let mut vacant = None;
        let (mut taken, mut void) = (Vec::with_capacity(APPENDS), Vec::new());
        for index in node.base()..node.count() {
            let (at, slot) = (node.slot_at(index), node.slot(index));
            // A slot that a crash tore may claim anything. An offset outside fills the node, and it
            // is rebuilt.
            let room = slot.record_bytes(false);
            let used = if slot.place == 0 { 0 } else { slot.record().saturating_add(room) };
            top = top.max(used);
            // BATCH-3 spares fresh slots the search.
            if slot.start == 0 && (slot.place == 0 || self.is_reusable(at)) {
                let is_old_place = slot.place != 0
                    && room >= need
                    && slot.record() >= u64::from(node.base_end)
                    && used <= u64::from(node.size);
                match is_old_place {
                    true => vacant = Some((index, Some(slot.record()))),
                    false => vacant = vacant.or(Some((index, None))),
                }
                continue;
            }
            taken.push((slot.record(), used));
            // Without a place: torn, and left to the rebuild (BATCH-3).
            if slot.place != 0 && slot.start != 0 && !self.view.born(slot.start) {
                void.push(at);
            }
        }
        for at in void {
            self.store(at + START_AT, 0);
            self.emptied.insert(at);
        }
        let (index, place) = vacant?;
        let offset = match place {
            // Its old place, unless a torn claim overlaps what another slot holds.
            Some(offset) if taken.iter().all(|&(from, to)| to <= offset || offset + need <= from) => offset,
            _ if top + need <= u64::from(node.size) => top,
            _ => return None,
        };
        self.fill_inner(node, index, offset, key, record);
        Some(index)
    }

    /// Writes slot `index`, its start last.
    fn fill_inner(&mut self, node: &Node<'_>, index: usize, offset: u64, key: &[u8], record: &NewRecord) {
        let at = node.slot_at(index);
        self.touch(node, at);
        self.write(node.at + offset, &record.bytes);
        self.store(at + END_AT, 0);
        self.store(at + PLACE_AT, Slot::place(offset as usize, record.key_len, record.flags, record.table));
        self.store(at + VALUE_AT, record.value);
        self.store(node.head_at(index), node.query_head(key));
        self.store(at + START_AT, self.view.version.get());
    }
}

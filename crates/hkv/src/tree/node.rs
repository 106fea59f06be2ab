//! Nodes: reading, searching and making them.

use super::order::Order;
use super::view::View;
use crate::Result;
use crate::base::{Base, set_all};
use crate::layout::{LOW_AT, NODE, Node as Bytes, NodeSlot, PLACE_AT, SLOTS_AT};
use crate::record::Record;
use everbyte_media::Offset;
use everbyte_media::museum::misplaced;
use everbyte_tx::Tx;
use std::ops::Range;
use zerocopy::{FromZeros, IntoBytes};

/// A node, copied from media.
#[derive(Clone, Copy)]
pub(super) struct Node {
    pub at: u64,
    pub bytes: Bytes,
}

/// Offset of a slot of the node at `node`.
pub(super) fn slot_at(node: u64, slot: usize) -> u64 {
    node + SLOTS_AT + slot as u64 * size_of::<NodeSlot>() as u64
}

/// Eight bytes of a key behind the first `skip`, as a number with the same order.
pub(super) fn prefix(key: &[u8], skip: u32) -> u64 {
    let rest = key.get(skip as usize..).unwrap_or_default();
    if let Some(whole) = rest.first_chunk() {
        return u64::from_be_bytes(*whole);
    }
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(bytes)
}

/// Bytes that keys from `low` to below `high` have in common; `None`: no bound.
pub(super) fn common(low: Option<&[u8]>, high: Option<&[u8]>) -> u32 {
    let (Some(low), Some(high)) = (low, high) else { return 0 };
    low.iter().zip(high).take_while(|(one, two)| one == two).count() as u32
}

impl Node {
    /// The node at `at`, which may be any number, at the expected level: verified, so that it may
    /// be changed.
    pub(super) fn read(base: &Base, at: u64, level: Option<u32>) -> Result<Node> {
        View::of(base, at, level)?.read()
    }

    pub(super) fn order(&self) -> Order {
        Order(self.bytes.order)
    }

    pub(super) fn count(&self) -> usize {
        self.order().count()
    }

    pub(super) fn level(&self) -> u32 {
        self.bytes.level
    }

    pub(super) fn skip(&self) -> u32 {
        self.bytes.skip
    }

    pub(super) fn low(&self) -> u64 {
        self.bytes.low.get()
    }

    /// The slot at `index`, and its offset.
    pub(super) fn slot(&self, index: usize) -> (u64, NodeSlot) {
        let slot = self.order().slot(index);
        (slot_at(self.at, slot), self.bytes.slots[slot])
    }

    /// The node with another order; `None` if that is not valid.
    pub(super) fn with_order(mut self, order: Order) -> Option<Node> {
        self.bytes.order = order.0;
        order.is_whole().then_some(self)
    }

    /// The node with this slot behind its last one, in the first unused slot.
    pub(super) fn with(mut self, slot: NodeSlot) -> Node {
        let (order, count) = (self.order(), self.count());
        self.bytes.slots[order.slot(count)] = slot;
        self.bytes.order = order.with(count).0;
        self
    }

    /// The bytes in use of a newly made node: its slots are used in the order of their offsets.
    pub(super) fn used(&self) -> &[u8] {
        &self.bytes.as_bytes()[..SLOTS_AT as usize + self.count() * size_of::<NodeSlot>()]
    }

    /// Whether prefixes alone tell the keys of these slots apart.
    pub(super) fn tells_apart(&self, range: Range<usize>) -> bool {
        let first = usize::from(self.level() > 0); // has no prefix
        let prefix = |index| self.slot(index).1.prefix;
        (range.start.max(first) + 1..range.end).all(|index| prefix(index - 1) < prefix(index))
    }

    /// Replaces the child at `index` by a new one, and gives the node a new order.
    pub(super) fn swing(&self, tx: &Tx<'_>, index: usize, child: u64, order: Order) -> Result<()> {
        let place = self.slot(index).0 + PLACE_AT;
        misplaced("hkv-tree-child-unnoted", || tx.overwrite(place, 8))?;
        set_all(tx, &[(place, child), (self.at, order.0)])
    }

    /// Offset of the slot's record, or child.
    pub(super) fn place(&self, index: usize) -> u64 {
        self.slot(index).1.place.get()
    }

    /// Offset of the record with the key of the slot at `index`; 0: the slot stands for all keys
    /// before the next.
    pub(super) fn record_at(&self, base: &Base, index: usize) -> Result<u64> {
        let place = self.place(index);
        match self.level() {
            0 => Ok(place),
            _ if base.heap().may_hold_blocks(place, NODE) && place.is_multiple_of(8) => {
                Ok(base.media().load(place + LOW_AT))
            }
            _ => Err(base.damaged(self.at, "a slot leads outside the heap")),
        }
    }

    /// The record with the key of the slot at `index`.
    pub(super) fn record(&self, base: &Base, index: usize) -> Result<Record> {
        Record::read(base.heap(), self.record_at(base, index)?)
    }

    /// Reads the child at `index`.
    pub(super) fn child(&self, base: &Base, index: usize) -> Result<Node> {
        Node::read(base, self.place(index), Some(self.level() - 1))
    }
}

/// The slots of a new node.
pub(super) struct Draft {
    pub level: u32,
    pub skip: u32,
    /// The record of its least key.
    pub low: u64,
    pub slots: Vec<NodeSlot>,
}

impl Draft {
    /// Adds slots of another node.
    pub(super) fn take(mut self, base: &Base, node: &Node, range: Range<usize>) -> Result<Draft> {
        for index in range {
            let (_, mut slot) = node.slot(index);
            let has_prefix = self.level == 0 || index > 0; // the first child has no prefix
            if self.skip != node.skip() || !has_prefix {
                slot.prefix = match node.record_at(base, index)? {
                    0 => 0,
                    at => prefix(&Record::read(base.heap(), at)?.key(base.heap()), self.skip),
                };
            }
            self.slots.push(slot);
        }
        Ok(self)
    }

    /// The bytes of the node.
    pub(super) fn bytes(&self) -> Bytes {
        let Draft { level, skip, low, ref slots } = *self;
        let order = Order::of(slots.len()).0;
        let mut bytes = Bytes { order, level, skip, low: Offset::new(low), ..Bytes::new_zeroed() };
        bytes.slots[..slots.len()].copy_from_slice(slots);
        bytes
    }

    /// Writes the node to a block of the transaction's own.
    pub(super) fn make(&self, tx: &Tx<'_>) -> Result<u64> {
        let block = tx.allocate(NODE)?;
        tx.media().put(block.at, &self.bytes());
        Ok(block.at.get())
    }
}

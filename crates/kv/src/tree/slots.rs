//! Slots of a node that are filled after the node was written. Which one is filled, and where its
//! record lies, differs: `leaf_slots.rs`, `inner_slots.rs`.

use crate::error::Result;
use crate::tree::batch::{NewRecord, TreeBatch};
use crate::tree::layout::*;
use crate::tree::node::{Node, order_indexes};
use everbyte_media::{Checked, seeded};
use std::cmp::Ordering;

impl Node<'_> {
    /// Refuses a header of which a bit has flipped: asked before a write (NODE-6).
    #[inline]
    pub(crate) fn require_sealed(&self) -> Result<()> {
        let header: NodeHeader = self.media().get(self.at);
        if header.checksum_agrees() { Ok(()) } else { self.damaged("a node's header fails its checksum") }
    }
}

impl TreeBatch<'_> {
    /// Puts a record into an empty slot of `node`. `false`: there is no room.
    pub(crate) fn append(&mut self, node: &Node<'_>, key: &[u8], record: &NewRecord) -> Result<bool> {
        if node.birth() <= self.writer.unlisted {
            self.list_dead(node);
        }
        if self.writer.suspicious && node.birth() <= self.writer.opened && self.writer.adopted.insert(node.at) {
            self.adopt_empty(node);
        }
        let filled = match node.is_leaf() {
            true => self.append_to_leaf(node, key, record),
            false => self.append_to_inner(node, key, record),
        };
        let Some(index) = filled else { return Ok(false) };
        self.insert_order(node, index, key)?;
        Ok(true)
    }

    /// Flushes the emptiness of empty slots, for the next version to reuse them (TREE-2).
    fn adopt_empty(&mut self, node: &Node<'_>) {
        let claims = node.is_leaf().then(|| node.claims());
        for append in 0..APPENDS {
            let (index, at) = (node.base() + append, node.slot_at(node.base() + append));
            // BATCH-3
            let was_filled = match claims {
                Some(claims) => claims.get(append).at != 0,
                None => node.slot(index).place != 0,
            };
            if node.start(index) == 0 && was_filled {
                self.shared.media.reflush(at, 8);
                self.emptied.insert(at);
            }
        }
    }

    /// Whether the emptiness of the slot at `at` is ordered before what this batch stores (TREE-2).
    pub(crate) fn is_reusable(&self, at: u64) -> bool {
        (!self.emptied.contains(&at) && !self.writer.recent.contains(&at)) || seeded("tree-slot-reused-at-once")
    }

    /// Puts `index` at its place in the permutation word (NODE-3).
    fn insert_order(&mut self, node: &Node<'_>, index: usize, key: &[u8]) -> Result<()> {
        let (head, order) = (node.query_head(key), node.order());
        let quick = if node.is_leaf() { by_heads(node, index, head, order) } else { None };
        let next = match quick {
            Some(next) => next,
            None => self.by_keys(node, index, key, head, order)?,
        };
        self.store(node.order_at(), next);
        Ok(())
    }

    /// The permutation word with `index`, and without what is empty or void.
    fn by_keys(&self, node: &Node<'_>, index: usize, key: &[u8], head: u64, order: u64) -> Result<u64> {
        let (mut next, mut placed) = (OrderWord::default(), false);
        for append in order_indexes(order) {
            let other = node.base() + append;
            if append >= APPENDS || other == index || !self.view.born(node.start(other)) {
                continue;
            }
            if !placed && node.order_against(other, key, head)? == Ordering::Greater {
                next.push(index - node.base());
                placed = true;
            }
            next.push(append);
        }
        if !placed {
            next.push(index - node.base());
        }
        Ok(next.word())
    }
}

/// The permutation word of a leaf with `index`, if the heads alone decide: if they ascend and none
/// is the new one. Then it does not matter which entries are empty or void.
fn by_heads(node: &Node<'_>, index: usize, head: u64, order: u64) -> Option<u64> {
    let (mut next, mut placed, mut before, mut seen) = (OrderWord::default(), false, None, 0_u16);
    for append in order_indexes(order) {
        if append >= APPENDS || seen & 1 << append != 0 {
            return None;
        }
        seen |= 1 << append;
        let other = node.base() + append;
        if other == index {
            continue;
        }
        let its = node.head(other);
        // A crash may have left the number of an entry here and not its head.
        if its == head || before.is_some_and(|before| before >= its) {
            return None;
        }
        before = Some(its);
        if !placed && its > head {
            next.push(index - node.base());
            placed = true;
        }
        next.push(append);
    }
    if !placed {
        next.push(index - node.base());
    }
    Some(next.word())
}

/// A permutation word in the making.
#[derive(Default)]
struct OrderWord {
    named: u64,
    count: u64,
}

impl OrderWord {
    fn push(&mut self, append: usize) {
        self.named |= (append as u64) << (4 + 4 * self.count);
        self.count += 1;
    }

    fn word(&self) -> u64 {
        self.named | self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::build::{Items, image};
    use crate::tree::number::Version;

    #[test]
    fn heads_decide_only_where_they_ascend() {
        let media = everbyte_media::Media::anonymous(1 << 16, &Default::default()).unwrap();
        media.write(4096, &image(0, Version::new(1), 4096, &Items::default(), 0..0));
        let node = Node::open(&media, 4096).unwrap();
        let heads = [50, 10, 90, 30];
        (0..).zip(heads).for_each(|(index, head)| media.store(node.head_at(index), head));
        let of = |order: &[usize]| {
            let mut word = OrderWord::default();
            order.iter().for_each(|&append| word.push(append));
            word.word()
        };
        assert_eq!(by_heads(&node, 4, 20, of(&[])), Some(of(&[4])));
        assert_eq!(by_heads(&node, 4, 20, of(&[1, 3, 0, 2])), Some(of(&[1, 4, 3, 0, 2])));
        assert_eq!(by_heads(&node, 4, 99, of(&[1, 3, 0, 2])), Some(of(&[1, 3, 0, 2, 4])));
        assert_eq!(by_heads(&node, 3, 60, of(&[1, 3, 0, 2])), Some(of(&[1, 0, 3, 2])), "its old place goes");
        assert_eq!(by_heads(&node, 4, 30, of(&[1, 3, 0, 2])), None, "an equal head: keys decide");
        assert_eq!(by_heads(&node, 4, 20, of(&[2, 1, 3])), None, "a head out of order");
        assert_eq!(by_heads(&node, 4, 20, of(&[1, 1, 3])), None, "named twice");
        assert_eq!(by_heads(&node, 4, 20, of(&[1, 15])), None, "no such slot");
    }
}

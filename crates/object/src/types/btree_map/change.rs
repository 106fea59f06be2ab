//! Entries that come and go: nodes that are split, filled up from their neighbours, joined.
//!
//! An entry comes, from its leaf upwards:
//!   1. a node with room takes it; done
//!   2. a full one is split: its middle entry goes up, with a new node of the entries behind it
//!   3. a root that was split gets a root above it
//!
//! An entry goes:
//!   1. its leaf gives it up; an entry above the leaves is replaced by the one before it, which a
//!      leaf gives up
//!   2. upwards, a node with too few entries is joined with its neighbour, or shares with it
//!   3. a root without entries goes
//!
//! Each step logs what it changes, with one fence, and changes it then; in between nothing can
//! fail.

use super::PBTreeMap;
use super::node::{Node, Pair};
use super::path::{Path, Step};
use crate::transaction::running::Running;
use crate::types::entry::MapEntry;
use crate::{Journal, MemPool, PSafe};

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> PBTreeMap<K, V, P> {
    /// Adds an entry in a gap; answers where it lies.
    pub(super) fn add(&mut self, gap: Path<K, V, P>, entry: MapEntry<K, V>, j: &Journal<P>) -> *mut MapEntry<K, V> {
        let running = j.running();
        let is_last = gap.is_last();
        let mut pair = Pair { entry, edge: 0 };
        let mut place = None;
        for step in gap.steps.into_iter().rev() {
            let (at, above) = step.add(pair, is_last, running);
            let place = *place.get_or_insert(at);
            match above {
                Some(above) => pair = above,
                None => {
                    self.header.len += 1;
                    return place;
                }
            }
        }
        let root = self.root().map_or_else(|| Node::make(0, running), |root| root.above(running));
        root.put(0, pair, running);
        self.header.root = root.offset();
        self.header.len += 1;
        place.unwrap_or(root.entry(0))
    }

    /// Takes the entry out that a path leads to.
    pub(super) fn take_out(&mut self, mut path: Path<K, V, P>, j: &Journal<P>) -> MapEntry<K, V> {
        let running = j.running();
        let place = path.place();
        let above = path.steps.last().is_some_and(|step| step.node.level() > 0);
        if above {
            path.step_back();
            path.seek_previous();
        }
        let Step { node: leaf, index } = path.steps.pop().expect("a path to an entry has a step");
        let replaced = above.then_some((place.cast(), MapEntry::<K, V>::SIZE));
        running.log_all(leaf.from(index).into_iter().chain(replaced));
        let mut entry = leaf.take(index);
        if above {
            // SAFETY: an entry, logged; it changes places with the one before it, which no node
            // holds.
            std::mem::swap(&mut entry, unsafe { &mut *place });
        }
        self.header.len -= 1;
        self.balance(leaf, path, running);
        entry
    }

    /// After `node` has lost an entry: sees to it and to those above it.
    fn balance(&mut self, mut node: Node<K, V, P>, mut path: Path<K, V, P>, running: &Running) {
        while let Some(step) = path.steps.pop() {
            if node.len() >= Node::<K, V, P>::POOR {
                return;
            }
            step.node.share(step.index.saturating_sub(1), running);
            node = step.node;
        }
        if node.len() == 0 {
            self.header.root = if node.level() == 0 { 0 } else { node.child(0).offset() };
            running.free(node.offset());
        }
    }
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Step<K, V, P> {
    /// Adds a pair; returns the place of its entry, and the pair that goes up if the node was full.
    /// `is_last`: no entry of the map is larger, so probably the next one will be, and the node
    /// stays full.
    fn add(self, pair: Pair<K, V>, is_last: bool, running: &Running) -> (*mut MapEntry<K, V>, Option<Pair<K, V>>) {
        let (Step { node, index }, cap) = (self, Node::<K, V, P>::CAP);
        if node.len() < cap {
            running.log_all(node.from(index).into_iter());
            node.put(index, pair, running);
            return (node.entry(index), None);
        }
        let behind = Node::make(node.level(), running);
        running.log_all(node.whole().into_iter());
        let keep = if is_last { cap - 1 } else { cap / 2 };
        let mut contents = node.unload();
        let (entry, mut rest) = contents.split(keep);
        let place = if index <= keep {
            contents.insert(index, pair);
            node.entry(index)
        } else {
            rest.insert(index - keep - 1, pair);
            behind.entry(index - keep - 1)
        };
        node.load(contents, running);
        behind.load(rest, running);
        (place, Some(Pair { entry, edge: behind.offset() }))
    }
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Node<K, V, P> {
    /// Joins the children before and behind entry `index`, or divides their entries between them.
    fn share(self, index: usize, running: &Running) {
        let (before, behind) = (self.child(index), self.child(index + 1));
        let whole = before.whole().into_iter().chain(behind.whole());
        running.log_all(self.from(index).into_iter().chain(whole));
        let mut contents = before.unload();
        contents.join(self.take(index), behind.unload());
        if contents.entries.len() <= Self::CAP {
            before.load(contents, running);
            return running.free(behind.offset());
        }
        let (entry, rest) = contents.split(contents.entries.len() / 2);
        before.load(contents, running);
        behind.load(rest, running);
        self.put(index, Pair { entry, edge: behind.offset() }, running);
    }
}

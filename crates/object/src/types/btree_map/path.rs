//! [`Path`]: a way from the root down, to an entry or to a gap between two.

use super::node::Node;
use crate::types::entry::MapEntry;
use crate::{MemPool, PSafe};
use std::cmp::Ordering;

/// A node, and the edge that was followed from it; at the end of a path: an entry, or the gap
/// before one.
pub(super) struct Step<K, V, P> {
    pub node: Node<K, V, P>,
    pub index: usize,
}

/// From the root to a gap in a leaf, where every key between two entries belongs, or to an entry in
/// any node.
pub(super) struct Path<K, V, P> {
    pub steps: Vec<Step<K, V, P>>,
}

impl<K, V, P> Clone for Step<K, V, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V, P> Copy for Step<K, V, P> {}

impl<K, V, P> Clone for Path<K, V, P> {
    fn clone(&self) -> Self {
        Path { steps: self.steps.clone() }
    }
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Path<K, V, P> {
    /// The path to the entry that `order` calls equal, or else to the gap where it would lie.
    pub(super) fn search(
        root: Option<Node<K, V, P>>,
        order: impl Fn(&K) -> Ordering,
    ) -> Result<Path<K, V, P>, Path<K, V, P>> {
        let (mut path, mut next) = (Path { steps: Vec::new() }, root);
        while let Some(node) = next {
            let found = node.search(&order);
            path.steps.push(Step { node, index: found.unwrap_or_else(|gap| gap) });
            if found.is_ok() {
                return Ok(path);
            }
            next = path.below();
        }
        Err(path)
    }

    /// The path to the gap between the keys for which `before` is true and the others.
    pub(super) fn gap(root: Option<Node<K, V, P>>, before: impl Fn(&K) -> bool) -> Path<K, V, P> {
        let order = |key: &K| if before(key) { Ordering::Less } else { Ordering::Greater };
        Path::search(root, order).unwrap_or_else(|path| path)
    }

    /// The node behind the last step's edge.
    fn below(&self) -> Option<Node<K, V, P>> {
        let Step { node, index } = *self.steps.last()?;
        (node.level() > 0).then(|| node.child(index))
    }

    /// The entry that the path leads to.
    pub(super) fn place(&self) -> *mut MapEntry<K, V> {
        let Step { node, index } = self.steps.last().expect("a path to an entry has a step");
        node.entry(*index)
    }

    /// Whether no entry lies behind the gap.
    pub(super) fn is_last(&self) -> bool {
        self.steps.iter().all(|step| step.index == step.node.len())
    }

    /// Goes from a gap to the entry behind it; `false` if there is none.
    pub(super) fn seek_next(&mut self) -> bool {
        let Some(depth) = self.steps.iter().rposition(|step| step.index < step.node.len()) else { return false };
        self.steps.truncate(depth + 1);
        true
    }

    /// Goes from an entry to the gap behind it.
    pub(super) fn step_over(&mut self) {
        self.steps.last_mut().expect("a path to an entry has a step").index += 1;
        while let Some(node) = self.below() {
            self.steps.push(Step { node, index: 0 });
        }
    }

    /// Goes from a gap to the entry before it; `false` if there is none.
    pub(super) fn seek_previous(&mut self) -> bool {
        let Some(depth) = self.steps.iter().rposition(|step| step.index > 0) else { return false };
        self.steps.truncate(depth + 1);
        self.steps[depth].index -= 1;
        true
    }

    /// Goes from an entry to the gap before it.
    pub(super) fn step_back(&mut self) {
        while let Some(node) = self.below() {
            self.steps.push(Step { node, index: node.len() });
        }
    }

    /// Whether both end at one gap.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let (one, other) = (self.steps.last(), other.steps.last());
        one.map(|step| (step.node, step.index)) == other.map(|step| (step.node, step.index))
    }

    /// Whether this gap lies behind the other one.
    pub(super) fn is_behind(&self, other: &Self) -> bool {
        self.steps.iter().map(|step| step.index).gt(other.steps.iter().map(|step| step.index))
    }
}

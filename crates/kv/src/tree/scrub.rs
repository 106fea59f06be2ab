//! Taking the stamps of void versions out of a tree, so that the list of them can begin anew.

use crate::tree::handle::OpenTree;
use crate::tree::hash::OffsetSet;
use crate::tree::layout::*;
use crate::tree::node::Node;
use crate::tree::number::Version;
use crate::tree::version::{Held, Life, View, Voids};
use std::sync::Arc;

/// Takes the stamps of void versions out of the whole tree. Readers see the same before and after.
///
/// The walk needs no order and keeps what is still to be visited in a list: dead entries form
/// chains of any length. A damaged node is passed over. It cannot be opened later either, so what
/// it holds is never taken for anything.
pub(crate) fn scrub(shared: &OpenTree, voids: &Voids) {
    let view = View::new(Version::new(u64::MAX >> 2), Held::Owned(Arc::new(voids.clone())));
    // Damaged pointers may lead in a circle: no inner node is visited twice.
    let (mut seen, mut rest) = (OffsetSet::default(), vec![(shared.root_in_force(), Life::Live)]);
    while let Some((at, life)) = rest.pop() {
        if let Ok(node) = Node::open(&shared.media, at)
            && (node.is_leaf() || seen.insert(at))
        {
            scrub_node(shared, &view, &node, life, &mut rest);
        }
    }
    shared.media.fence();
}

/// Takes the stamps of void versions out of one node; `rest` receives its children.
fn scrub_node(shared: &OpenTree, view: &View, node: &Node<'_>, life: Life, rest: &mut Vec<(u64, Life)>) {
    let media = &shared.media;
    // A stamp that a dead process already took out, but did not flush, must be out for good before
    // the list forgets it.
    media.reflush(node.slots(), node.count() as u64 * SLOT);
    for index in 0..node.count() {
        let (slot_at, slot) = (node.slot_at(index), node.slot(index));
        if slot.start == 0 {
            continue;
        }
        if view.void(slot.start) {
            media.store(slot_at + START_AT, 0);
            media.flush(slot_at + START_AT, 8);
            continue;
        }
        if view.void(slot.end) {
            media.store(slot_at + END_AT, 0);
            media.flush(slot_at + END_AT, 8);
        }
        if let (false, Some(life)) = (node.is_leaf(), life.below(view, &slot)) {
            rest.push((slot.value, life));
        }
    }
}

impl OpenTree {
    /// The root in force, for callers that may hold the writer's lock themselves.
    fn root_in_force(&self) -> u64 {
        let commit = self.media.load(self.header + COMMIT_AT);
        (self.media.get::<State>(self.header + STATES_AT[(commit & 1) as usize]).root).get()
    }
}

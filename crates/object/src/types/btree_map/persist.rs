//! [`PBTreeMap`] as a persistent type: dropped, described, traced.

use super::node::Node;
use super::path::Path;
use super::{MapEntry, PBTreeMap};
use crate::description::schema::{Schema, Shape, TypeName};
use crate::migrate::{Moving, PartId, Planner, Refusal};
use crate::transaction::running::{self, Running};
use crate::{MemPool, Niche, PSafe, Tracer};

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Drop for PBTreeMap<K, V, P> {
    fn drop(&mut self) {
        let Some(root) = self.root() else { return };
        running::with_current::<P::Tag, _>(|running| {
            if let Some(running) = running {
                root.drop(running);
            }
        });
    }
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Node<K, V, P> {
    /// This node and those below.
    fn each(self, look: &dyn Fn(Self)) {
        (0..self.edges()).for_each(|index| self.child(index).each(look));
        look(self);
    }

    /// Frees this node and those below, whose entries have other owners.
    pub(super) fn free(self, running: &Running) {
        (0..self.edges()).for_each(|index| self.child(index).free(running));
        running.free(self.offset());
    }

    /// Drops the entries, drops the nodes below, and frees them: a map in a map in a map does not
    /// overflow the stack.
    fn drop(self, running: &Running) {
        if self.level() == 0 && !std::mem::needs_drop::<MapEntry<K, V>>() {
            return running.free(self.offset());
        }
        // SAFETY: a node whose only owner is going.
        unsafe { running.drop_block(self.offset(), 1, contents::<K, V, P>) }
    }
}

/// Drops the entries of the node at an address.
unsafe fn contents<K: PSafe<P>, V: PSafe<P>, P: MemPool>(at: *mut u8, _: u64) {
    running::with_current::<P::Tag, _>(|running| {
        let Some(running) = running else { return };
        let node = Node::<K, V, P>::at(at);
        (0..node.edges()).for_each(|index| node.child(index).drop(running));
        // SAFETY: entries, whose only owner is going.
        (0..node.len()).for_each(|index| unsafe { node.entry(index).drop_in_place() });
    });
}

// SAFETY: an offset in the same pool and a number; `At` differs in the brand.
unsafe impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> PSafe<P> for PBTreeMap<K, V, P> {
    type At<'x> = PBTreeMap<K::At<'x>, V::At<'x>, P::At<'x>>;
    type Outside = PBTreeMap<K::Outside, V::Outside, P::Outside>;
    const CELLS: u8 = 0;
    const NICHE: Niche = Niche::None;

    fn describe(schema: &mut Schema) -> TypeName {
        schema.map::<Self, K, V, P>("PBTreeMap", |schema, name| {
            let align = align_of::<MapEntry<K, V>>().max(8);
            let node = Shape::of_node(&Node::<K, V, P>::SHAPE, align, &format!("{name}::Entry"));
            schema.part(format!("{name}::Node"), node);
        })
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        tracer.tree::<K, V, P>(this.cast(), Node::<K, V, P>::SHAPE);
    }

    fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
        planner.map::<Self, K, V>(stored, "PBTreeMap", Some(Node::<K, V, P>::SHAPE))
    }

    /// Entries keep their order: the keys of the new type must have that of the old one.
    unsafe fn moved(from: *const u8, part: PartId, moving: &Moving<'_, P>) -> Self {
        let stored = moving.stored_entries(from, part);
        let mut map = PBTreeMap::new();
        for (_, from) in stored.entries {
            // SAFETY: an entry that the plan describes (MOVE-5), whose key is read once.
            let key = unsafe { moving.field(from, stored.part, 0) };
            // SAFETY: as above, for its value.
            let value = unsafe { moving.field(from, stored.part, 1) };
            let end = Path::gap(map.root(), |_| true);
            map.add(end, MapEntry { key, value }, moving.journal());
        }
        if let Some(root) = map.root() {
            root.each(&|node| moving.count_made(node.offset()));
        }
        stored.blocks.into_iter().for_each(|block| moving.journal().running().free(block));
        map
    }
}

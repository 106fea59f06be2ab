//! Entities: an index, which is used again, and a generation, which tells one use from the next.

use everbyte::{Journal, MemPool, PSafe, PVec};

/// The name of an entity. It names nothing any more when the entity is dead.
#[derive(PSafe, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub(super) struct Entity {
    pub index: u32,
    generation: u32,
}

/// The entities that are alive.
#[derive(PSafe, Default)]
#[repr(C)]
pub(super) struct Entities<P: MemPool> {
    /// By index: odd while an entity is alive.
    generations: PVec<u32, P>,
    /// Indices without an entity.
    free: PVec<u32, P>,
}

impl<P: MemPool> Entities<P> {
    pub(super) fn len(&self) -> usize {
        self.generations.len() - self.free.len()
    }

    pub(super) fn is_alive(&self, entity: Entity) -> bool {
        self.generations[entity.index as usize] == entity.generation
    }

    /// Those alive, by index.
    pub(super) fn iter(&self) -> impl Iterator<Item = Entity> {
        let all = self.generations.iter().zip(0..).map(|(&generation, index)| Entity { index, generation });
        all.filter(|entity| entity.generation % 2 == 1)
    }

    pub(super) fn spawn(&mut self, j: &Journal<P>) -> Entity {
        let index = self.free.pop(j).unwrap_or_else(|| {
            self.generations.push(0, j);
            self.generations.len() as u32 - 1
        });
        let generation = &mut self.generations[index as usize];
        *generation += 1;
        Entity { index, generation: *generation }
    }

    pub(super) fn despawn(&mut self, entity: Entity, j: &Journal<P>) {
        debug_assert!(self.is_alive(entity));
        self.generations[entity.index as usize] += 1;
        self.free.push(entity.index, j);
    }
}

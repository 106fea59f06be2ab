//! The checksum of a world: equal worlds have equal ones, in every pool and in every run.

use super::{World, entities::Entity};
use everbyte::{Journal, MemPool};
use std::hash::{DefaultHasher, Hash, Hasher};

impl<P: MemPool> World<P> {
    /// The checksum of everything that the rules read.
    ///
    /// # Panics
    /// If an item lies in one bag and points to another.
    pub fn checksum(&self, j: &Journal<P>) -> u64 {
        let mut hasher = DefaultHasher::new(); // the same in every run
        (self.tick, self.random, self.timers_set).hash(&mut hasher);
        for entity in self.entities.iter() {
            (entity, self.bodies[entity.index as usize]).hash(&mut hasher);
        }
        // The order of a hash map is another one in each pool.
        let mut owners: Vec<&Entity> = self.bags.keys().collect();
        owners.sort();
        for owner in owners {
            self.bags[owner].each(|item| {
                assert_eq!(item.owner(j), Some(*owner));
                (owner, item.power).hash(&mut hasher);
            });
        }
        self.events.hash(&mut hasher);
        let mut timers = self.timers.as_slice().to_vec();
        timers.sort();
        timers.hash(&mut hasher);
        hasher.finish()
    }
}

//! A world of entities that is its own save state: each tick is one transaction.
//!
//! Invariants
//!   WORLD-1  A component belongs to the entity of its index; a dead entity has none.
//!   WORLD-2  The world that follows depends on the world alone: random numbers come from a state
//!            in the pool, and no rule follows the order of a hash map.
//!
//! Elsewhere: entities (`entities.rs`), bags and items (`bags.rs`), the rules (`rules.rs`), the
//! checksum (`checksum.rs`), the program (`bin/game.rs`).

mod bags;
mod checksum;
mod entities;
mod rules;

use bags::Bag;
use entities::{Entities, Entity};
use everbyte::{MemPool, PBinaryHeap, PHashMap, PSafe, PVec, PVecDeque, Prc};
use std::cmp::Reverse;

/// Places of the map in each direction.
const SIDE: i32 = 12;

/// A component: a place on the map, and life.
#[derive(PSafe, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
struct Body {
    x: i32,
    y: i32,
    life: u32,
}

/// Something that a rule has decided and the next tick does.
#[derive(PSafe, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
enum Event {
    /// An entity comes into the world, and the next one is planned.
    Birth,
    /// One entity hits another.
    Hit { by: Entity, target: Entity },
    /// An entity gets older.
    Age(Entity),
}

/// An event of a later tick.
#[derive(PSafe, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
struct Timer {
    tick: u64,
    /// Timers of one tick go off in the order in which they were set.
    number: u64,
    event: Event,
}

/// The world.
#[derive(PSafe)]
#[repr(C)]
pub struct World<P: MemPool> {
    tick: u64,
    random: u64,
    timers_set: u64,
    entities: Entities<P>,
    /// By index.
    bodies: PVec<Option<Body>, P>,
    bags: PHashMap<Entity, Prc<Bag<P>, P>, P>,
    events: PVecDeque<Event, P>,
    timers: PBinaryHeap<Reverse<Timer>, P>,
}

impl<P: MemPool> World<P> {
    /// An empty world, in which births will happen.
    pub fn new(seed: u64, j: &everbyte::Journal<P>) -> World<P> {
        World {
            tick: 0,
            random: seed,
            timers_set: 0,
            entities: Entities::default(),
            bodies: PVec::new(),
            bags: PHashMap::new(),
            events: PVecDeque::from([Event::Birth; 8], j),
            timers: PBinaryHeap::new(),
        }
    }

    /// Ticks since the beginning.
    pub fn tick(&self) -> u64 {
        self.tick
    }

    /// Entities that are alive.
    pub fn population(&self) -> usize {
        self.entities.len()
    }
}

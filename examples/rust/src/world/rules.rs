//! The rules: how a tick changes the world.
//!
//! A tick:
//!   1. timers of this tick become events
//!   2. events happen, in order; those that they cause happen in the next tick
//!   3. every body takes a step; two bodies that meet hit each other in the next tick

use super::bags::{Bag, Item};
use super::entities::Entity;
use super::{Body, Event, SIDE, Timer, World};
use everbyte::{Journal, MemPool};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A random number below `end`, from a state (SplitMix64).
fn below(state: &mut u64, end: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % end
}

impl<P: MemPool> World<P> {
    /// The next tick.
    pub fn advance(&mut self, j: &Journal<P>) {
        self.tick += 1;
        while let Some(&Reverse(timer)) = self.timers.peek()
            && timer.tick <= self.tick
        {
            self.timers.pop(j);
            self.events.push_back(timer.event, j);
        }
        for event in self.events.drain(.., j) {
            self.happen(event, j);
        }
        self.step(j);
    }

    fn happen(&mut self, event: Event, j: &Journal<P>) {
        match event {
            Event::Birth => {
                self.birth(j);
                self.plan(6, Event::Birth, j);
            }
            Event::Age(entity) if self.entities.is_alive(entity) => {
                self.hurt(entity, 1, j);
                self.plan(9, event, j);
            }
            Event::Hit { by, target } if self.entities.is_alive(by) && self.entities.is_alive(target) => {
                let power = self.bags[&by].power();
                if self.hurt(target, power, j) {
                    return;
                }
                // The stronger one takes what it can use.
                let (winner, loser) = (&self.bags[&by], &self.bags[&target]);
                if power > loser.power() {
                    Bag::take_from(winner, loser, power / 2, j);
                }
            }
            Event::Age(_) | Event::Hit { .. } => {} // of the dead
        }
    }

    fn birth(&mut self, j: &Journal<P>) {
        let entity = self.entities.spawn(j);
        let mut place = || below(&mut self.random, SIDE as u64) as i32;
        let body = Body { x: place(), y: place(), life: 20 };
        if self.bodies.len() <= entity.index as usize {
            self.bodies.resize(entity.index as usize + 1, &None, j);
        }
        self.bodies[entity.index as usize] = Some(body);
        let bag = Bag::new(entity, j);
        for _ in 0..=below(&mut self.random, 3) {
            Bag::put(&bag, Item::new(1 + below(&mut self.random, 9) as u32, j), j);
        }
        self.bags.insert(entity, bag, j);
        self.plan(9, Event::Age(entity), j);
    }

    /// Takes life from an entity; whether it dies of that.
    fn hurt(&mut self, entity: Entity, damage: u32, j: &Journal<P>) -> bool {
        let body = self.bodies[entity.index as usize].as_mut().expect("WORLD-1");
        body.life = body.life.saturating_sub(damage);
        if body.life > 0 {
            return false;
        }
        let body = self.bodies[entity.index as usize].take().expect("WORLD-1");
        let bag = self.bags.remove(&entity, j).expect("WORLD-1");
        self.entities.despawn(entity, j);
        // The nearest one gets the bag's items; without one they are gone.
        let distance = |other: &Entity| {
            let other = self.bodies[other.index as usize].expect("WORLD-1");
            (other.x - body.x).abs() + (other.y - body.y).abs()
        };
        if let Some(heir) = self.entities.iter().min_by_key(distance) {
            Bag::take_from(&self.bags[&heir], &bag, 0, j);
        }
        true
    }

    fn step(&mut self, j: &Journal<P>) {
        let random = &mut self.random;
        let mut place = |at: i32| (at + below(random, 3) as i32 - 1).rem_euclid(SIDE);
        for body in self.bodies.iter_mut(j).flatten() {
            (body.x, body.y) = (place(body.x), place(body.y));
        }
        let mut met: BTreeMap<(i32, i32), Entity> = BTreeMap::new();
        for by in self.entities.iter() {
            let body = self.bodies[by.index as usize].expect("WORLD-1");
            if let Some(target) = met.insert((body.x, body.y), by) {
                self.events.push_back(Event::Hit { by, target }, j);
                self.events.push_back(Event::Hit { by: target, target: by }, j);
            }
        }
    }

    /// Lets `event` happen in 1 to `within` ticks.
    fn plan(&mut self, within: u64, event: Event, j: &Journal<P>) {
        let tick = self.tick + 1 + below(&mut self.random, within);
        self.timers_set += 1;
        self.timers.push(Reverse(Timer { tick, number: self.timers_set, event }), j);
    }
}

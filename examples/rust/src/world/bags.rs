//! Bags and the items in them, which know their bag by a weak pointer.

use super::entities::Entity;
use everbyte::{Journal, MemPool, PRefCell, PSafe, PVec, Prc, prc};

/// The things that an entity carries.
#[derive(PSafe)]
#[repr(C)]
pub(super) struct Bag<P: MemPool> {
    pub owner: Entity,
    items: PRefCell<PVec<Prc<Item<P>, P>, P>, P>,
}

/// A thing.
#[derive(PSafe)]
#[repr(C)]
pub(super) struct Item<P: MemPool> {
    pub power: u32,
    bag: PRefCell<Option<prc::PWeak<Bag<P>, P>>, P>,
}

impl<P: MemPool> Item<P> {
    pub(super) fn new(power: u32, j: &Journal<P>) -> Prc<Item<P>, P> {
        Prc::new(Item { power, bag: PRefCell::new(None) }, j)
    }

    /// The entity that carries it.
    pub(super) fn owner(&self, j: &Journal<P>) -> Option<Entity> {
        Some(self.bag.borrow().as_ref()?.upgrade(j)?.owner)
    }
}

impl<P: MemPool> Bag<P> {
    pub(super) fn new(owner: Entity, j: &Journal<P>) -> Prc<Bag<P>, P> {
        Prc::new(Bag { owner, items: PRefCell::new(PVec::new()) }, j)
    }

    /// Puts `item` in, the strongest first.
    pub(super) fn put(this: &Prc<Bag<P>, P>, item: Prc<Item<P>, P>, j: &Journal<P>) {
        *item.bag.borrow_mut(j) = Some(this.downgrade(j));
        let mut items = this.items.borrow_mut(j);
        items.push(item, j);
        items.sort_by_key(|item| std::cmp::Reverse(item.power), j);
    }

    /// Moves the items of `other` that are as strong as `least` into the bag `this`.
    pub(super) fn take_from(this: &Prc<Bag<P>, P>, other: &Bag<P>, least: u32, j: &Journal<P>) {
        let mut theirs = other.items.borrow_mut(j);
        let kept = theirs.partition_point(|item| item.power >= least);
        let taken = theirs.drain(..kept, j);
        drop(theirs);
        taken.into_iter().for_each(|item| Bag::put(this, item, j));
    }

    /// The power of the strongest item.
    pub(super) fn power(&self) -> u32 {
        self.items.borrow().first().map_or(0, |item| item.power)
    }

    /// Visits the items, the strongest first.
    pub(super) fn each(&self, visit: impl FnMut(&Prc<Item<P>, P>)) {
        self.items.borrow().iter().for_each(visit);
    }
}

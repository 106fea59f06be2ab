//! A second library for C++ programs that are linked with it and with `stock`: shelves of numbers.

use everbyte_bridge::{Extern, export, library};
use everbyte_object::{Journal, MemPool, PRefCell, PSafe, PVec, pool};

pool!(pub Stall);

/// Numbers in the order in which they came.
#[derive(PSafe, Extern)]
#[repr(C)]
pub struct Shelf<P: MemPool> {
    numbers: PRefCell<PVec<u64, P>, P>,
}

#[export]
impl<P: MemPool> Shelf<P> {
    /// Empty.
    pub fn new(_: &Journal<P>) -> Self {
        Shelf { numbers: PRefCell::new(PVec::new()) }
    }

    /// How many numbers there are.
    pub fn size(&self) -> usize {
        self.numbers.borrow().len()
    }

    /// The number at a place.
    pub fn at(&self, place: usize) -> u64 {
        self.numbers.borrow()[place]
    }

    /// Adds a number at the end.
    pub fn put(&self, number: u64, j: &Journal<P>) {
        self.numbers.borrow_mut(j).push(number, j);
    }
}

library! {
    name depot;
    pool Stall { Shelf }
}

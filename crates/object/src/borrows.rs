//! Who has borrowed which cell: a table of this thread's, by the cell's address.
//!
//! Flags on media would be swapped with the values, would have to be reset after a crash, and would store to pages
//! outside of transactions. A [`crate::PRefCell`] is therefore as large as its value, and its flag lives here, while it
//! is borrowed. Cells are not shared by threads.
//!
//! Most borrows find the one slot where they belong free: an array of this thread's, without a destructor, so that
//! reaching it is one instruction. Who finds another there spills into an open-addressed table behind it, which holds
//! what is borrowed at the moment, no more.
//!
//! Invariants
//!   BORROW-1  A borrowed cell is in its slot or in the table behind, not in both; `spilled` says how many are there.

use std::cell::{Cell, RefCell};

/// Shared borrows are counted up, a mutable one is this.
const MUTABLE: u32 = u32::MAX;
/// Slots: far more than borrows nest, so that few meet.
const SLOTS: usize = 256;

struct Slots {
    /// Address and flag; address 0 is free.
    all: [Cell<(usize, u32)>; SLOTS],
    spilled: Cell<usize>,
}

thread_local! {
    static SLOTS_HERE: Slots = const { Slots { all: [const { Cell::new((0, 0)) }; SLOTS], spilled: Cell::new(0) } };
    static BEHIND: RefCell<Table> = const { RefCell::new(Table { slots: Vec::new(), used: 0 }) };
}

impl Slots {
    #[inline(always)]
    fn slot(&self, at: usize) -> &Cell<(usize, u32)> {
        &self.all[home(at) % SLOTS]
    }

    /// Calls `change` with the flag of a cell that has no slot of its own and cannot have one.
    #[cold]
    #[inline(never)]
    fn behind(&self, at: usize, change: impl FnOnce(&mut u32) -> bool) -> bool {
        BEHIND.with_borrow_mut(|table| {
            let done = change(table.flag(at));
            table.tidy(at);
            self.spilled.set(table.used);
            done
        })
    }

    /// Changes the flag of `at`, 0 if it is not borrowed; `change` answers whether it did.
    #[inline(always)]
    fn change(&self, at: usize, change: impl FnOnce(&mut u32) -> bool) -> bool {
        let slot = self.slot(at);
        let (here, mut flag) = slot.get();
        if here == at || here == 0 && self.spilled.get() == 0 {
            let done = change(&mut flag);
            slot.set(if flag == 0 { (0, 0) } else { (at, flag) });
            return done;
        }
        self.change_spilled(at, change)
    }

    /// Where something is spilled, or is to be.
    #[cold]
    #[inline(never)]
    fn change_spilled(&self, at: usize, change: impl FnOnce(&mut u32) -> bool) -> bool {
        let slot = self.slot(at);
        if slot.get().0 == 0 && !BEHIND.with_borrow_mut(|table| table.holds(at)) {
            let mut flag = 0;
            let done = change(&mut flag);
            slot.set(if flag == 0 { (0, 0) } else { (at, flag) });
            return done;
        }
        self.behind(at, change)
    }
}

#[derive(Default)]
struct Table {
    /// Address and flag; address 0 is free. A power of two, at most half full.
    slots: Vec<(usize, u32)>,
    used: usize,
}

impl Table {
    fn holds(&mut self, at: usize) -> bool {
        self.used > 0 && {
            let index = self.find(at);
            self.slots[index].0 == at
        }
    }

    /// The slot of `at`, or the free one where it belongs.
    fn find(&mut self, at: usize) -> usize {
        let mask = self.slots.len() - 1;
        let mut index = home(at) & mask;
        while self.slots[index].0 != 0 && self.slots[index].0 != at {
            index = (index + 1) & mask;
        }
        index
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![(0, 0); (old.len() * 2).max(32)];
        for slot in old.into_iter().filter(|slot| slot.0 != 0) {
            let index = self.find(slot.0);
            self.slots[index] = slot;
        }
    }

    fn flag(&mut self, at: usize) -> &mut u32 {
        if self.slots.len() <= self.used * 2 {
            self.grow();
        }
        let index = self.find(at);
        if self.slots[index].0 == 0 {
            self.slots[index] = (at, 0);
            self.used += 1;
        }
        &mut self.slots[index].1
    }

    /// Removes `at` if it is not borrowed any more.
    fn tidy(&mut self, at: usize) {
        let index = self.find(at);
        if self.slots[index].1 == 0 {
            self.remove(index);
        }
    }

    /// Empties a slot and moves those behind it that would not be found any more.
    fn remove(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        self.used -= 1;
        let mut index = hole;
        loop {
            self.slots[hole] = (0, 0);
            loop {
                index = (index + 1) & mask;
                let at = self.slots[index].0;
                if at == 0 {
                    return;
                }
                // It may move to the hole unless its home lies behind the hole, on the way to where it is.
                if (index.wrapping_sub(home(at)) & mask) >= (index.wrapping_sub(hole) & mask) {
                    break;
                }
            }
            self.slots[hole] = self.slots[index];
            hole = index;
        }
    }
}

#[inline(always)]
fn home(at: usize) -> usize {
    (at as u64 ^ at as u64 >> 44) // the level and the opening lie in the upper bits
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(20) as usize
}

/// A borrow of the cell at an address; it ends when this is dropped.
pub(crate) struct Borrow(usize);

impl Borrow {
    /// A shared borrow; `None` if there is a mutable one.
    #[inline(always)]
    pub(crate) fn shared(at: usize) -> Option<Borrow> {
        Borrow::noted(at, |flag| {
            let free = *flag < MUTABLE - 1;
            *flag += u32::from(free);
            free
        })
    }

    /// A mutable borrow; `None` if there is any.
    #[inline(always)]
    pub(crate) fn mutable(at: usize) -> Option<Borrow> {
        Borrow::noted(at, |flag| {
            let free = *flag == 0;
            if free {
                *flag = MUTABLE;
            }
            free
        })
    }

    #[inline(always)]
    fn noted(at: usize, change: impl FnOnce(&mut u32) -> bool) -> Option<Borrow> {
        SLOTS_HERE.with(|slots| slots.change(at, change)).then(|| Borrow(at))
    }
}

impl Drop for Borrow {
    #[inline(always)]
    fn drop(&mut self) {
        SLOTS_HERE.with(|slots| {
            slots.change(self.0, |flag| {
                *flag = if *flag == MUTABLE { 0 } else { *flag - 1 };
                true
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Borrowed cells, wherever they are noted.
    fn used() -> usize {
        SLOTS_HERE.with(|slots| {
            assert_eq!(slots.spilled.get(), BEHIND.with_borrow(|table| table.used), "BORROW-1");
            slots.spilled.get() + slots.all.iter().filter(|slot| slot.get().0 != 0).count()
        })
    }

    proptest! {
        /// Against a plain map: borrow rules, and that what ends leaves nothing behind.
        #[test]
        fn borrows_are_counted_by_address(steps in prop::collection::vec((1usize..600, 0u8..3), 1..2000)) {
            // The borrows of each cell, and whether the newest is a mutable one.
            let mut model = std::collections::HashMap::<usize, (Vec<Borrow>, bool)>::new();
            for (at, what) in steps {
                let at = at * 8;
                let (borrows, is_mutable) = model.entry(at).or_default();
                if what == 2 {
                    drop(borrows.pop());
                } else {
                    let free = borrows.is_empty() || what == 0 && !*is_mutable;
                    let borrow = if what == 0 { Borrow::shared(at) } else { Borrow::mutable(at) };
                    prop_assert_eq!(borrow.is_some(), free);
                    if let Some(borrow) = borrow {
                        borrows.push(borrow);
                        *is_mutable = what == 1;
                    }
                }
                let borrowed = model.values().filter(|(borrows, _)| !borrows.is_empty()).count();
                prop_assert_eq!(used(), borrowed);
            }
            drop(model);
            prop_assert_eq!(used(), 0);
        }
    }
}

//! Who has borrowed which cell: a table of this thread's, by the cell's address.
//!
//! Flags on media would be swapped with the values, would have to be reset after a crash, and would store to pages
//! outside of transactions. A [`crate::PRefCell`] is therefore as large as its value, and its flag lives here, while it
//! is borrowed. Cells are not shared by threads.
//!
//! The table is open-addressed with linear probing and holds what is borrowed at the moment, no more.

use std::cell::RefCell;

/// Shared borrows are counted up, a mutable one is this.
const MUTABLE: u32 = u32::MAX;

#[derive(Default)]
struct Table {
    /// Address and flag; address 0 is free. A power of two, at most half full.
    slots: Vec<(usize, u32)>,
    used: usize,
}

thread_local! {
    static TABLE: RefCell<Table> = const { RefCell::new(Table { slots: Vec::new(), used: 0 }) };
}

impl Table {
    /// The slot of `at`, or the free one where it belongs.
    #[inline]
    fn find(&mut self, at: usize) -> usize {
        let mask = self.slots.len() - 1;
        let mut index = home(at) & mask;
        while self.slots[index].0 != 0 && self.slots[index].0 != at {
            index = (index + 1) & mask;
        }
        index
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![(0, 0); (old.len() * 2).max(32)];
        for slot in old.into_iter().filter(|slot| slot.0 != 0) {
            let index = self.find(slot.0);
            self.slots[index] = slot;
        }
    }

    #[inline]
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

    /// Empties a slot and moves those behind it that would not be found any more.
    #[inline]
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
    (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20) as usize
}

/// Notes a shared borrow; `false` if there is a mutable one.
#[inline]
pub(crate) fn share(at: usize) -> bool {
    TABLE.with_borrow_mut(|table| {
        let flag = table.flag(at);
        let free = *flag < MUTABLE - 1;
        *flag += u32::from(free);
        free
    })
}

/// Notes a mutable borrow; `false` if there is any.
#[inline]
pub(crate) fn seize(at: usize) -> bool {
    TABLE.with_borrow_mut(|table| {
        let flag = table.flag(at);
        let free = *flag == 0;
        if free {
            *flag = MUTABLE;
        }
        free
    })
}

/// Ends one borrow.
#[inline]
pub(crate) fn release(at: usize) {
    TABLE.with_borrow_mut(|table| {
        let index = table.find(at);
        let flag = &mut table.slots[index].1;
        *flag = if *flag == MUTABLE { 0 } else { *flag - 1 };
        if *flag == 0 {
            table.remove(index);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain map: borrow rules, and that what ends leaves nothing behind.
        #[test]
        fn borrows_are_counted_by_address(steps in prop::collection::vec((1usize..60, 0u8..3), 1..300)) {
            let mut model = std::collections::HashMap::<usize, i64>::new();
            for (at, what) in steps {
                let at = at * 8;
                let flag = model.entry(at).or_insert(0);
                match what {
                    0 => {
                        prop_assert_eq!(share(at), *flag >= 0);
                        if *flag >= 0 { *flag += 1 }
                    }
                    1 => {
                        prop_assert_eq!(seize(at), *flag == 0);
                        if *flag == 0 { *flag = -1 }
                    }
                    _ if *flag != 0 => {
                        release(at);
                        *flag = if *flag < 0 { 0 } else { *flag - 1 };
                    }
                    _ => {}
                }
                let used = model.values().filter(|flag| **flag != 0).count();
                prop_assert_eq!(TABLE.with_borrow(|table| table.used), used);
            }
            for (at, flag) in model {
                (0..flag.abs()).for_each(|_| release(at));
            }
            prop_assert_eq!(TABLE.with_borrow(|table| table.used), 0);
        }
    }
}

//! Who has borrowed which cell: this thread's borrows, by the cell's address.
//!
//! Flags on media would be swapped with the values, would have to be reset after a crash, and would store to pages
//! outside of transactions. A [`crate::PRefCell`] is therefore as large as its value, and its flag lives here, while it
//! is borrowed. Cells are not shared by threads.
//!
//! Borrows nest: the newest is nearly always the next to end, and few live at a time. So they are a stack, which is
//! searched where one of them can matter: for a mutable borrow, and for a shared one while a mutable one lives. It has no
//! destructor, so that reaching it is one instruction. Deeper recursions go on in an open-addressed table behind it.
//!
//! Invariants
//!   BORROW-1  A borrow that lives is an entry of the stack or is counted in the table; `spilled` says how many cells are
//!             there. Which of a cell's shared borrows is which does not matter.

use std::cell::{Cell, RefCell};

/// Shared borrows are counted up in the table, a mutable one is this.
const MUTABLE: u32 = u32::MAX;
/// Entries of the stack: one bit each in `mutable`.
const DEEP: usize = u64::BITS as usize;

struct Stack {
    /// Addresses of cells; those before `len` count.
    cells: [Cell<usize>; DEEP],
    len: Cell<usize>,
    /// Which of them are borrowed mutably.
    mutable: Cell<u64>,
    spilled: Cell<usize>,
}

thread_local! {
    static HERE: Stack = const {
        Stack { cells: [const { Cell::new(0) }; DEEP], len: Cell::new(0), mutable: Cell::new(0), spilled: Cell::new(0) }
    };
    static BEHIND: RefCell<Table> = const { RefCell::new(Table { slots: Vec::new(), used: 0 }) };
}

impl Stack {
    #[inline(always)]
    fn share(&self, at: usize) -> bool {
        let len = self.len.get();
        if self.mutable.get() != 0 || self.spilled.get() != 0 || len == DEEP {
            return self.share_slowly(at);
        }
        self.cells[len].set(at);
        self.len.set(len + 1);
        true
    }

    /// Where a mutable borrow lives, perhaps of this very cell, or the stack is full.
    #[inline(never)]
    fn share_slowly(&self, at: usize) -> bool {
        let (len, mut mutable) = (self.len.get(), self.mutable.get());
        while mutable != 0 {
            if self.cells[mutable.trailing_zeros() as usize].get() == at {
                return false;
            }
            mutable &= mutable - 1;
        }
        if len == DEEP || self.spilled.get() != 0 {
            return self.share_behind(at);
        }
        self.cells[len].set(at);
        self.len.set(len + 1);
        true
    }

    #[cold]
    fn share_behind(&self, at: usize) -> bool {
        self.behind(at, |flag| {
            let free = *flag < MUTABLE - 1;
            *flag += u32::from(free);
            free
        })
    }

    #[inline(always)]
    fn take(&self, at: usize) -> bool {
        let len = self.len.get();
        // All of them, without a branch each.
        if self.living().iter().fold(false, |found, cell| found | (cell.get() == at)) {
            return false;
        }
        if len == DEEP || self.spilled.get() != 0 {
            return self.take_behind(at);
        }
        self.cells[len].set(at);
        self.mutable.set(self.mutable.get() | 1 << len);
        self.len.set(len + 1);
        true
    }

    #[cold]
    fn take_behind(&self, at: usize) -> bool {
        self.behind(at, |flag| {
            let free = *flag == 0;
            if free {
                *flag = MUTABLE;
            }
            free
        })
    }

    /// Ends a borrow of `at`.
    #[inline(always)]
    fn end(&self, at: usize) {
        let len = self.len.get();
        if len == 0 || self.cells[len - 1].get() != at {
            return self.end_slowly(at);
        }
        self.len.set(len - 1);
        if self.mutable.get() != 0 {
            self.mutable.set(self.mutable.get() & !(1 << (len - 1)));
        }
    }

    /// Not the newest: the newest takes its place.
    #[cold]
    #[inline(never)]
    fn end_slowly(&self, at: usize) {
        let Some(place) = self.living().iter().rposition(|cell| cell.get() == at) else {
            self.behind(at, |flag| {
                *flag = if *flag == MUTABLE { 0 } else { *flag - 1 };
                true
            });
            return;
        };
        let (last, mutable) = (self.len.get() - 1, self.mutable.get());
        self.cells[place].set(self.cells[last].get());
        self.mutable.set(mutable & !(1 << place) & !(1 << last) | (mutable >> last & 1) << place);
        self.len.set(last);
    }

    #[inline(always)]
    fn living(&self) -> &[Cell<usize>] {
        &self.cells[..self.len.get()]
    }

    /// Calls `change` with the flag of a cell in the table, 0 if it is not there; `change` answers whether it did.
    fn behind(&self, at: usize, change: impl FnOnce(&mut u32) -> bool) -> bool {
        BEHIND.with_borrow_mut(|table| {
            let done = change(table.flag(at));
            table.tidy(at);
            self.spilled.set(table.used);
            done
        })
    }
}

#[derive(Default)]
struct Table {
    /// Address and flag; address 0 is free. A power of two, at most half full.
    slots: Vec<(usize, u32)>,
    used: usize,
}

impl Table {
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
        HERE.with(|stack| stack.share(at)).then(|| Borrow(at))
    }

    /// A mutable borrow; `None` if there is any.
    #[inline(always)]
    pub(crate) fn mutable(at: usize) -> Option<Borrow> {
        HERE.with(|stack| stack.take(at)).then(|| Borrow(at))
    }
}

impl Drop for Borrow {
    #[inline(always)]
    fn drop(&mut self) {
        HERE.with(|stack| stack.end(self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Borrows that live, wherever they are noted.
    fn living() -> usize {
        HERE.with(|stack| {
            BEHIND.with_borrow(|table| {
                assert_eq!(stack.spilled.get(), table.used, "BORROW-1");
                let flags = table.slots.iter().map(|slot| if slot.1 == MUTABLE { 1 } else { slot.1 as usize });
                stack.len.get() + flags.sum::<usize>()
            })
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
                prop_assert_eq!(living(), model.values().map(|(borrows, _)| borrows.len()).sum::<usize>());
            }
            drop(model);
            prop_assert_eq!(living(), 0);
        }
    }
}

//! The borrowed cells: this thread's borrows, by the cell's address and the opening of its pool.
//!
//! Flags on media would be swapped with the values, would have to be reset after a crash, and would
//! store to pages outside of transactions. A [`crate::PRefCell`] is therefore as large as its
//! value, and its flag lives here, while it is borrowed. Cells are not shared by threads.
//!
//! Borrows nest: the newest is nearly always the next to end, and few live at a time. So they are a
//! stack, which is searched where one of them can matter: for a mutable borrow, and for a shared
//! one while a mutable one lives. It has no destructor, so that an access is one instruction.
//! Deeper recursions go on in an open-addressed table behind it.
//!
//! A guard that is leaked (`mem::forget`) leaves its entry. No guard outlives the opening of its
//! pool, so such an entry ends with the opening: it is stale, and is removed where a borrow of a
//! later opening meets it.
//!
//! Invariants
//!   BORROW-1  A borrow that lives is an entry of the stack or is counted in the table; `spilled`
//!             says how many cells are there. The shared borrows of a cell are interchangeable.
//!   BORROW-2  Openings are numbered in the order in which the process has made them, and no number
//!             is used twice. All entries of a cell that are not of the newest opening that borrows
//!             it are stale.

use std::cell::{Cell, RefCell};

/// Shared borrows are counted up in the table, a mutable one is this.
const MUTABLE: u32 = u32::MAX;
/// Entries of the stack: one bit each in `mutable`.
const DEEP: usize = u64::BITS as usize;

struct Stack {
    /// Addresses of cells; those before `len` count.
    cells: [Cell<usize>; DEEP],
    /// The openings that they were borrowed in.
    openings: [Cell<u64>; DEEP],
    len: Cell<usize>,
    /// Which of them are borrowed mutably.
    mutable: Cell<u64>,
    spilled: Cell<usize>,
}

thread_local! {
    static HERE: Stack = const {
        Stack {
            cells: [const { Cell::new(0) }; DEEP],
            openings: [const { Cell::new(0) }; DEEP],
            len: Cell::new(0),
            mutable: Cell::new(0),
            spilled: Cell::new(0),
        }
    };
    static BEHIND: RefCell<BorrowTable> = const { RefCell::new(BorrowTable { slots: Vec::new(), used: 0 }) };
}

impl Stack {
    #[inline(always)]
    fn share(&self, at: usize, opening: u64) -> bool {
        let len = self.len.get();
        if self.mutable.get() != 0 || self.spilled.get() != 0 || len == DEEP {
            return self.share_slowly(at, opening);
        }
        self.push(len, at, opening);
        true
    }

    #[inline(always)]
    fn push(&self, len: usize, at: usize, opening: u64) {
        self.cells[len].set(at);
        self.openings[len].set(opening);
        self.len.set(len + 1);
    }

    /// A mutable borrow lives, perhaps of this very cell, or the stack is full.
    #[inline(never)]
    fn share_slowly(&self, at: usize, opening: u64) -> bool {
        let mut mutable = self.mutable.get();
        while mutable != 0 {
            if self.cells[mutable.trailing_zeros() as usize].get() == at {
                if self.is_borrowed(at, opening) {
                    return false;
                }
                break; // all entries of the cell were stale
            }
            mutable &= mutable - 1;
        }
        let len = self.len.get();
        if len == DEEP || self.spilled.get() != 0 {
            return self.share_behind(at, opening);
        }
        self.push(len, at, opening);
        true
    }

    /// Whether an entry of the cell is of that opening. Removes those that are not (BORROW-2).
    #[cold]
    #[inline(never)]
    fn is_borrowed(&self, at: usize, opening: u64) -> bool {
        let mut index = self.len.get();
        while index > 0 {
            index -= 1;
            if self.cells[index].get() == at && self.openings[index].get() != opening {
                self.remove(index); // the last, which was looked at, takes its place
            }
        }
        self.living().iter().any(|cell| cell.get() == at)
    }

    #[cold]
    fn share_behind(&self, at: usize, opening: u64) -> bool {
        self.behind(at, opening, |flag| {
            let free = *flag < MUTABLE - 1;
            *flag += u32::from(free);
            free
        })
    }

    #[inline(always)]
    fn take(&self, at: usize, opening: u64) -> bool {
        // All of them, without a branch each.
        let is_met = self.living().iter().fold(false, |found, cell| found | (cell.get() == at));
        if is_met && self.is_borrowed(at, opening) {
            return false;
        }
        let len = self.len.get();
        if len == DEEP || self.spilled.get() != 0 {
            return self.take_behind(at, opening);
        }
        self.push(len, at, opening);
        self.mutable.set(self.mutable.get() | 1 << len);
        true
    }

    #[cold]
    fn take_behind(&self, at: usize, opening: u64) -> bool {
        self.behind(at, opening, |flag| {
            let free = *flag == 0;
            if free {
                *flag = MUTABLE;
            }
            free
        })
    }

    /// Ends a borrow of `at`.
    #[inline(always)]
    fn end(&self, at: usize, opening: u64) {
        let len = self.len.get();
        if len == 0 || self.cells[len - 1].get() != at || self.openings[len - 1].get() != opening {
            return self.end_slowly(at, opening);
        }
        self.len.set(len - 1);
        if self.mutable.get() != 0 {
            self.mutable.set(self.mutable.get() & !(1 << (len - 1)));
        }
    }

    /// Not the newest: the newest takes its place.
    #[cold]
    #[inline(never)]
    fn end_slowly(&self, at: usize, opening: u64) {
        let is_it = |&index: &usize| self.cells[index].get() == at && self.openings[index].get() == opening;
        let Some(place) = (0..self.len.get()).rev().find(is_it) else {
            self.behind(at, opening, |flag| {
                *flag = if *flag == MUTABLE { 0 } else { flag.saturating_sub(1) };
                true
            });
            return;
        };
        self.remove(place);
    }

    /// Lets the newest take a place.
    fn remove(&self, place: usize) {
        let (last, mutable) = (self.len.get() - 1, self.mutable.get());
        self.cells[place].set(self.cells[last].get());
        self.openings[place].set(self.openings[last].get());
        self.mutable.set((mutable & !(1 << place) | (mutable >> last & 1) << place) & !(1 << last));
        self.len.set(last);
    }

    #[inline(always)]
    fn living(&self) -> &[Cell<usize>] {
        &self.cells[..self.len.get()]
    }

    /// Calls `change` with the flag of a cell in the table, 0 if it is not there; `change` answers
    /// whether it did.
    fn behind(&self, at: usize, opening: u64, change: impl FnOnce(&mut u32) -> bool) -> bool {
        BEHIND.with_borrow_mut(|table| {
            let done = change(table.flag(at, opening));
            table.tidy(at);
            self.spilled.set(table.used);
            done
        })
    }
}

#[derive(Default)]
struct BorrowTable {
    /// Address, flag and opening; address 0 is free. A power of two, at most half full.
    slots: Vec<(usize, u32, u64)>,
    used: usize,
}

impl BorrowTable {
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
        self.slots = vec![(0, 0, 0); (old.len() * 2).max(32)];
        for slot in old.into_iter().filter(|slot| slot.0 != 0) {
            let index = self.find(slot.0);
            self.slots[index] = slot;
        }
    }

    /// The flag of a cell in that opening.
    fn flag(&mut self, at: usize, opening: u64) -> &mut u32 {
        if self.slots.len() <= self.used * 2 {
            self.grow();
        }
        let index = self.find(at);
        let slot = &mut self.slots[index];
        if slot.0 == 0 {
            *slot = (at, 0, opening);
            self.used += 1;
        } else if slot.2 != opening {
            *slot = (at, 0, opening); // BORROW-2
        }
        &mut slot.1
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
            self.slots[hole] = (0, 0, 0);
            loop {
                index = (index + 1) & mask;
                let at = self.slots[index].0;
                if at == 0 {
                    return;
                }
                // It may move to the hole unless its home lies behind the hole, on the way to where
                // it is.
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
    (at as u64 ^ at as u64 >> 44) // the level and a part of the opening lie in the upper bits
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(20) as usize
}

/// A borrow of the cell at an address, in an opening of its pool; it ends when this is dropped.
/// Address 0: one that is not checked, and has no entry.
pub(crate) struct Borrow(usize, u64);

impl Borrow {
    /// One that is not checked.
    #[inline(always)]
    pub(crate) fn unchecked() -> Borrow {
        Borrow(0, 0)
    }

    /// A shared borrow; `None` if there is a mutable one.
    #[inline(always)]
    pub(crate) fn shared((at, opening): (usize, u64)) -> Option<Borrow> {
        HERE.with(|stack| stack.share(at, opening)).then(|| Borrow(at, opening))
    }

    /// A mutable borrow; `None` if there is any.
    #[inline(always)]
    pub(crate) fn mutable((at, opening): (usize, u64)) -> Option<Borrow> {
        HERE.with(|stack| stack.take(at, opening)).then(|| Borrow(at, opening))
    }
}

impl Drop for Borrow {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0 == 0 {
            return;
        }
        HERE.with(|stack| stack.end(self.0, self.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Borrows that live, in every table.
    fn living() -> usize {
        HERE.with(|stack| {
            BEHIND.with_borrow(|table| {
                assert_eq!(stack.spilled.get(), table.used, "BORROW-1");
                let flags = table.slots.iter().map(|slot| if slot.1 == MUTABLE { 1 } else { slot.1 as usize });
                stack.len.get() + flags.sum::<usize>()
            })
        })
    }

    /// The newest entry is stale and mutable: the entry that takes its place is what it says.
    #[test]
    fn a_stale_mutable_borrow_leaves_no_mark_on_the_next_one() {
        std::mem::forget(Borrow::mutable((8, 1)));
        let first = Borrow::shared((8, 2));
        assert!(first.is_some(), "the forgotten guard ended with its opening");
        assert!(Borrow::shared((8, 2)).is_some(), "shared borrows do not exclude each other");
        drop(first);
        assert_eq!(living(), 0);
    }

    proptest! {
        /// Against a plain map: borrow rules, and that ended borrows leave no entry.
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
                    let borrow = if what == 0 { Borrow::shared((at, 1)) } else { Borrow::mutable((at, 1)) };
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

        /// Openings one after another, in each of which some guards are forgotten: only the guards
        /// of the same opening keep a cell borrowed.
        #[test]
        fn forgotten_guards_end_with_their_opening(
            openings in prop::collection::vec(prop::collection::vec((1usize..120, 0u8..4), 1..300), 1..6),
        ) {
            for (opening, steps) in (1..).zip(openings) {
                let mut model = std::collections::HashMap::<usize, (Vec<Borrow>, usize, bool)>::new();
                for (at, what) in steps {
                    let key = (at * 8, opening);
                    let (borrows, forgotten, is_mutable) = model.entry(at).or_default();
                    match what {
                        2 => drop(borrows.pop()),
                        3 => {
                            *forgotten += borrows.len();
                            borrows.drain(..).for_each(std::mem::forget);
                        }
                        _ => {
                            let is_free = borrows.is_empty() && *forgotten == 0 || what == 0 && !*is_mutable;
                            let borrow = if what == 0 { Borrow::shared(key) } else { Borrow::mutable(key) };
                            prop_assert_eq!(borrow.is_some(), is_free);
                            if let Some(borrow) = borrow {
                                borrows.push(borrow);
                                *is_mutable = what == 1;
                            }
                        }
                    }
                }
            }
            HERE.with(|stack| {
                stack.len.set(0); // for other tests in this thread
                stack.mutable.set(0);
                stack.spilled.set(0);
                BEHIND.set(BorrowTable::default());
            });
        }
    }
}

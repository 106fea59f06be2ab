//! [`PRefCell`]: a value that is borrowed while the program runs.
//!
//! Invariants
//!   CELL-1  While a [`PRefMut`] of a cell lives there is no other guard of that cell; the flag
//!           says so (`borrows`), or the program vouches for it
//!           (`#[persist(unsafe(unchecked_borrows))]` of its pool type).

use crate::description::psafe::level;
use crate::transaction::borrows::Borrow;
use crate::transaction::guard::{Exclusive, exclusive};
use crate::transaction::pool::{is_uncommitted, require_committed};
use crate::types::wrapper::wrapper;
use crate::{Journal, MemPool, PSafe, PoolTag, transaction::pool};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// As `RefCell`: [`PRefCell::borrow`] to read, [`PRefCell::borrow_mut`] with a journal to change.
/// As large as its value.
///
/// A borrow that the rules forbid panics, which inside a transaction rolls it back. Cells are told
/// apart by their places: two cells without bytes that lie at one place, such as those of a
/// `[PRefCell<(), P>; 2]`, are borrowed as one. A pool type that is declared without checks
/// ([`pool!`](crate::pool)) has no flags: there a forbidden borrow is undefined behaviour.
#[repr(transparent)]
pub struct PRefCell<T, P: MemPool> {
    value: UnsafeCell<T>,
    marker: PhantomData<P>,
}

wrapper!(PRefCell, cells: 1);

impl<T: PSafe<P>, P: MemPool> PRefCell<T, P> {
    /// Borrows the value for reading, until the guard is dropped.
    ///
    /// # Panics
    /// While it is borrowed mutably; and inside of a transaction, if the cell was not got from it
    /// (POOL-3).
    #[inline]
    #[track_caller]
    pub fn borrow(&self) -> PRef<'_, T> {
        self.try_borrow().unwrap_or_else(|| panic!("this PRefCell is already mutably borrowed"))
    }

    /// [`PRefCell::borrow`]; `None` while it is borrowed mutably.
    ///
    /// # Panics
    /// Inside of a transaction, if the cell was not got from it (POOL-3).
    #[inline]
    #[track_caller]
    pub fn try_borrow(&self) -> Option<PRef<'_, T>> {
        let value = self.value.get();
        require_committed::<P>(value.cast());
        let borrow = match P::Tag::CHECKS_BORROWS {
            true => Borrow::shared(key::<T, P>(value))?,
            false => Borrow::unchecked(),
        };
        Some(PRef { value, borrow, marker: PhantomData })
    }

    /// Borrows the value for changing, until the guard is dropped. The first mutable dereference
    /// logs the old value.
    ///
    /// # Panics
    /// While it is borrowed.
    #[inline]
    #[track_caller]
    pub fn borrow_mut<'b>(&'b self, j: &'b Journal<P>) -> PRefMut<'b, T, P> {
        self.try_borrow_mut(j).unwrap_or_else(|| panic!("this PRefCell is already borrowed"))
    }

    /// [`PRefCell::borrow_mut`]; `None` while it is borrowed.
    #[inline]
    pub fn try_borrow_mut<'b>(&'b self, j: &'b Journal<P>) -> Option<PRefMut<'b, T, P>> {
        let value = self.value.get();
        let borrow = match P::Tag::CHECKS_BORROWS {
            true => Borrow::mutable(key::<T, P>(value))?,
            false => Borrow::unchecked(),
        };
        // SAFETY: borrowed for as long, and this is its only guard (CELL-1).
        let value = unsafe { Exclusive::new(value, j) };
        Some(PRefMut { value, borrow })
    }

    /// Replaces the value and answers the old one.
    ///
    /// # Panics
    /// While it is borrowed.
    #[track_caller]
    pub fn replace(&self, value: T, j: &Journal<P>) -> T {
        std::mem::replace(&mut *self.borrow_mut(j), value)
    }

    /// Takes the value out and leaves the default.
    ///
    /// # Panics
    /// While it is borrowed.
    #[track_caller]
    pub fn take(&self, j: &Journal<P>) -> T
    where
        T: Default,
    {
        self.replace(T::default(), j)
    }
}

/// The key of the cell in the table of borrows: its address, with its level, since a cell may lie
/// at the very start of a cell; and the opening of the pool, with which forgotten guards end.
/// Addresses of programs end below bit 48; the lowest bits of the opening keep apart most cells
/// without bytes that lie at one place outside of pools.
#[inline(always)]
fn key<T: PSafe<P>, P: MemPool>(value: *const T) -> (usize, u64) {
    let opening = pool::opening::<P>();
    (value as usize | (opening as u8 as usize) << 48 | (level::<T, P>() as usize) << 56, opening)
}

/// A borrowed value of a [`PRefCell`].
pub struct PRef<'b, T> {
    value: *const T,
    #[allow(dead_code)] // kept borrowed
    borrow: Borrow,
    marker: PhantomData<&'b T>,
}

impl<'b, T> PRef<'b, T> {
    /// A guard of a part of the value.
    pub fn map<U>(this: PRef<'b, T>, part: impl FnOnce(&T) -> &U) -> PRefPart<'b, T, U> {
        let value: *const U = part(&this);
        PRefPart { value, whole: this }
    }
}

impl<T> Deref for PRef<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the cell is borrowed for as long, and no mutable guard lives (CELL-1).
        unsafe { &*self.value }
    }
}

/// A part of a borrowed value; see [`PRef::map`].
pub struct PRefPart<'b, T, U> {
    value: *const U,
    #[allow(dead_code)] // kept borrowed
    whole: PRef<'b, T>,
}

impl<T, U> Deref for PRefPart<'_, T, U> {
    type Target = U;

    fn deref(&self) -> &U {
        // SAFETY: a part of what `whole` keeps borrowed.
        unsafe { &*self.value }
    }
}

/// A value of a [`PRefCell`], borrowed to be changed.
pub struct PRefMut<'b, T, P: MemPool> {
    value: Exclusive<'b, T, P>,
    #[allow(dead_code)] // kept borrowed
    borrow: Borrow,
}

exclusive!(PRefMut);

impl<'b, T, P: MemPool> PRefMut<'b, T, P> {
    /// A guard of a part of the value, to be changed. All of the value is logged.
    pub fn map<U>(mut this: PRefMut<'b, T, P>, part: impl FnOnce(&mut T) -> &mut U) -> PRefMutPart<'b, T, U, P> {
        let value: *mut U = part(&mut this);
        PRefMutPart { value, whole: this }
    }
}

/// A part of a value that is borrowed to be changed; see [`PRefMut::map`].
pub struct PRefMutPart<'b, T, U, P: MemPool> {
    value: *mut U,
    #[allow(dead_code)] // kept borrowed
    whole: PRefMut<'b, T, P>,
}

impl<T, U, P: MemPool> Deref for PRefMutPart<'_, T, U, P> {
    type Target = U;

    fn deref(&self) -> &U {
        // SAFETY: a part of what `whole` keeps borrowed.
        unsafe { &*self.value }
    }
}

impl<T, U, P: MemPool> DerefMut for PRefMutPart<'_, T, U, P> {
    fn deref_mut(&mut self) -> &mut U {
        // SAFETY: a part of what `whole` keeps borrowed alone, and has logged.
        unsafe { &mut *self.value }
    }
}

impl<T: PSafe<P> + fmt::Debug, P: MemPool> fmt::Debug for PRefCell<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_uncommitted::<P>(self.value.get().cast()) {
            return f.write_str("PRefCell(<of the running transaction>)");
        }
        match self.try_borrow() {
            Some(value) => f.debug_tuple("PRefCell").field(&*value).finish(),
            None => f.write_str("PRefCell(<borrowed>)"),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for PRef<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

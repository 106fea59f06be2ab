//! [`PVecDeque`]: a queue with two ends in a ring of places in a block of the pool.
//!
//! Invariants
//!   DEQUE-1  Places that held elements before the transaction are logged before they change; the
//!            other ones are unused and are overwritten without a log entry. Which they were is
//!            kept by buffer ([`Running::held`]) from the first change on.
//!   DEQUE-2  `len <= cap`, `first < cap`, and the block holds `cap` places; element `index` lies
//!            at place `(first + index) % cap`. Without a block all are 0.
//!
//! Elsewhere: every `&mut PVecDeque` of the pool comes from a loan that has logged its four words
//! (OBJ-1).

mod persist;
mod whole;

use crate::transaction::running::{self, Ring, Running};
use crate::{Journal, MemPool, PSafe, transaction::pool};
use everbyte_media::seeded;
use std::fmt;
use std::iter::{Chain, FusedIterator};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::panic::RefUnwindSafe;
use std::ptr;
use std::slice::Iter;

/// As `VecDeque`: elements are added and taken out at both ends, each in constant time. Methods
/// that change it take a journal.
///
/// Adding and taking out log the queue's four words, and a place only if it held an element before
/// the transaction.
#[repr(C)]
pub struct PVecDeque<T: PSafe<P>, P: MemPool> {
    /// From the pool's base; 0: no block, as for elements without bytes.
    offset: u64,
    len: u64,
    cap: u64,
    /// The place of the first element.
    first: u64,
    marker: PhantomData<(T, P)>,
    local: PhantomData<*mut ()>,
}

// SAFETY: as `VecDeque`: `&PVecDeque` gives `&T`.
unsafe impl<T: PSafe<P> + Sync, P: MemPool> Sync for PVecDeque<T, P> {}
// SAFETY: as `VecDeque`, for elements in the pool (a static brand).
unsafe impl<T: PSafe<crate::Out<G>> + Send, G: crate::PoolTag> Send for PVecDeque<T, crate::Out<G>> {}
impl<T: PSafe<P>, P: MemPool> RefUnwindSafe for PVecDeque<T, P> {}

impl<T: PSafe<P>, P: MemPool> PVecDeque<T, P> {
    const SIZE: usize = {
        assert!(align_of::<T>() <= 16, "types of a pool are aligned to 16 bytes at most");
        size_of::<T>()
    };

    /// Places for elements without bytes.
    const UNBOUNDED: u64 = u64::MAX >> 1;

    /// An empty queue; allocates nothing.
    pub const fn new() -> PVecDeque<T, P> {
        PVecDeque { offset: 0, len: 0, cap: 0, first: 0, marker: PhantomData, local: PhantomData }
    }

    /// An empty queue with space for `count` elements.
    pub fn with_capacity(count: usize, j: &Journal<P>) -> PVecDeque<T, P> {
        let mut all = PVecDeque::new();
        all.reserve(count, j);
        all
    }

    /// A queue of the elements of `items`.
    pub fn from(items: impl IntoIterator<Item = T>, j: &Journal<P>) -> PVecDeque<T, P> {
        PVecDeque::from_iter(items, j)
    }

    /// A queue of the elements of `items`.
    pub fn from_iter(items: impl IntoIterator<Item = T>, j: &Journal<P>) -> PVecDeque<T, P> {
        let mut all = PVecDeque::new();
        all.extend(items, j);
        all
    }

    /// A queue with clones of the elements.
    pub fn pclone(&self, j: &Journal<P>) -> PVecDeque<T, P>
    where
        T: Clone,
    {
        PVecDeque::from_iter(self.iter().cloned(), j)
    }

    /// How many elements there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Elements that fit without a larger block.
    pub fn capacity(&self) -> usize {
        self.cap as usize
    }

    /// Element `index`, counted from the front.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        // SAFETY:
        // - in bounds and valid: an element (DEQUE-2);
        // - alive: the pool is open (POOL-2), and the block is freed with its only owner;
        // - no writer: a change of it borrows `self` mutably.
        ((index as u64) < self.len).then(|| unsafe { &*self.element(index as u64) })
    }

    /// Element `index`, to be changed. It alone is logged.
    #[inline]
    pub fn get_mut<'s>(&'s mut self, index: usize, j: &'s Journal<P>) -> Option<&'s mut T> {
        if index as u64 >= self.len {
            return None;
        }
        let at = self.element(index as u64);
        j.running().log(at.cast(), Self::SIZE);
        // SAFETY: as in `get`; borrowed mutably, and logged (OBJ-1).
        Some(unsafe { &mut *at })
    }

    /// The first element.
    pub fn front(&self) -> Option<&T> {
        self.get(0)
    }

    /// The last element.
    pub fn back(&self) -> Option<&T> {
        self.get(self.len().checked_sub(1)?)
    }

    /// The first element, to be changed. It alone is logged.
    pub fn front_mut<'s>(&'s mut self, j: &'s Journal<P>) -> Option<&'s mut T> {
        self.get_mut(0, j)
    }

    /// The last element, to be changed. It alone is logged.
    pub fn back_mut<'s>(&'s mut self, j: &'s Journal<P>) -> Option<&'s mut T> {
        self.get_mut(self.len().checked_sub(1)?, j)
    }

    /// The elements in order, as two slices: up to the end of the ring, and from its beginning.
    pub fn as_slices(&self) -> (&[T], &[T]) {
        let ahead = self.len.min(self.cap - self.first);
        let behind = self.len - ahead;
        // SAFETY: as in `get`: elements that lie one behind the other (DEQUE-2).
        let one = unsafe { std::slice::from_raw_parts(self.place(self.first), ahead as usize) };
        // SAFETY: as above, from the beginning of the ring.
        let two = unsafe { std::slice::from_raw_parts(self.place(0), behind as usize) };
        (one, two)
    }

    /// The elements from front to back.
    pub fn iter(&self) -> DequeItems<'_, T> {
        let (one, two) = self.as_slices();
        DequeItems(one.iter().chain(two.iter()))
    }

    /// The elements one after the other, to be changed; each is logged when it is reached.
    pub fn iter_mut<'s>(
        &'s mut self,
        j: &'s Journal<P>,
    ) -> impl DoubleEndedIterator<Item = &'s mut T> + ExactSizeIterator {
        let this = &*self;
        (0..this.len()).map(move |index| {
            let at = this.element(index as u64);
            j.running().log(at.cast(), Self::SIZE);
            // SAFETY: each element once, as in `get_mut`; `self` stays borrowed mutably.
            unsafe { &mut *at }
        })
    }

    /// Adds an element behind the last one.
    pub fn push_back(&mut self, value: T, j: &Journal<P>) {
        self.reserve(1, j);
        self.put(self.wrapped(self.first + self.len), value, j);
        self.len += 1;
    }

    /// Adds an element before the first one.
    pub fn push_front(&mut self, value: T, j: &Journal<P>) {
        self.reserve(1, j);
        let place = self.wrapped(self.first + self.cap - 1);
        self.put(place, value, j);
        self.first = place;
        self.len += 1;
    }

    /// Takes the first element out.
    pub fn pop_front(&mut self, j: &Journal<P>) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        self.ring(j.running());
        // SAFETY: an element, which is not read again.
        let value = unsafe { self.element(0).read() };
        self.first = self.wrapped(self.first + 1);
        self.len -= 1;
        Some(value)
    }

    /// Takes the last element out.
    pub fn pop_back(&mut self, j: &Journal<P>) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        self.ring(j.running());
        self.len -= 1;
        // SAFETY: an element, which is not read again.
        Some(unsafe { self.element(self.len).read() })
    }

    /// Whether an element is equal to `item`.
    pub fn contains(&self, item: &T) -> bool
    where
        T: PartialEq,
    {
        self.iter().any(|other| other == item)
    }

    /// Puts an element before element `index`; those behind it are moved and logged.
    ///
    /// # Panics
    /// If `index` lies behind the end.
    #[track_caller]
    pub fn insert(&mut self, index: usize, value: T, j: &Journal<P>) {
        assert!(index <= self.len(), "insertion at {index} of {}", self.len);
        self.push_back(value, j);
        (index + 1..self.len()).rev().for_each(|behind| self.swap(behind - 1, behind, j));
    }

    /// Takes element `index` out, if there is one; those behind it are moved and logged.
    pub fn remove(&mut self, index: usize, j: &Journal<P>) -> Option<T> {
        if index >= self.len() {
            return None;
        }
        (index + 1..self.len()).for_each(|behind| self.swap(behind - 1, behind, j));
        self.pop_back(j)
    }

    /// Exchanges two elements. They alone are logged.
    ///
    /// # Panics
    /// If one of them is not there.
    #[track_caller]
    pub fn swap(&mut self, one: usize, other: usize, j: &Journal<P>) {
        let len = self.len();
        assert!(one < len && other < len, "exchange of elements {one} and {other} of {len}");
        let places = [one, other].map(|index| self.element(index as u64));
        places.iter().for_each(|at| j.running().log(at.cast(), Self::SIZE));
        // SAFETY: two elements, or one twice, borrowed mutably and logged.
        unsafe { ptr::swap(places[0], places[1]) };
    }

    /// Adds the elements of `items` at the end.
    pub fn extend(&mut self, items: impl IntoIterator<Item = T>, j: &Journal<P>) {
        let items = items.into_iter();
        self.reserve(items.size_hint().0, j);
        items.for_each(|item| self.push_back(item, j));
    }

    /// Makes space for `more` elements.
    pub fn reserve(&mut self, more: usize, j: &Journal<P>) {
        if self.capacity() - self.len() < more {
            self.grow(more, j);
        }
    }

    /// The place of the element `index`.
    #[inline(always)]
    fn element(&self, index: u64) -> *mut T {
        self.place(self.wrapped(self.first + index))
    }

    #[inline(always)]
    fn wrapped(&self, place: u64) -> u64 {
        if place >= self.cap { place - self.cap } else { place }
    }

    #[inline(always)]
    fn place(&self, place: u64) -> *mut T {
        let base = if self.offset == 0 { ptr::dangling_mut::<T>().cast() } else { pool::base::<P>() };
        base.wrapping_add(self.offset as usize + place as usize * Self::SIZE).cast()
    }

    /// Stores an element to a place that holds none (DEQUE-1).
    fn put(&mut self, place: u64, value: T, j: &Journal<P>) {
        let (ring, running) = (self.ring(j.running()), j.running());
        let at = self.place(place);
        if ring.held(place, self.cap) && !seeded("object-deque-overwrites") {
            running.log(at.cast(), Self::SIZE);
        } else if Self::SIZE > 0 {
            running.overwrite(self.offset + place * Self::SIZE as u64, Self::SIZE as u64);
        }
        // SAFETY: a place of the block without an element, logged or unused.
        unsafe { at.write(value) };
    }

    /// DEQUE-1: the places that held elements before the transaction. To be asked before they
    /// change.
    fn ring(&self, running: &Running) -> Ring {
        if Self::SIZE == 0 || running.owns(self.offset, 1) {
            return Ring::default();
        }
        *running.held.borrow_mut().entry(self.offset).or_insert(Ring { first: self.first, len: self.len })
    }

    /// Moves the elements to a larger block, the first one to its beginning.
    #[cold]
    fn grow(&mut self, more: usize, j: &Journal<P>) {
        let running = j.running();
        let wanted = self.len().checked_add(more).expect("a length beyond usize");
        let wanted = wanted.max(self.capacity().saturating_mul(2)).max(4);
        if Self::SIZE == 0 {
            self.cap = Self::UNBOUNDED;
            return;
        }
        let bytes = wanted.checked_mul(Self::SIZE).filter(|&bytes| bytes <= isize::MAX as usize);
        let (offset, size) = running.allocate_sized(bytes.expect("more bytes than there are addresses"));
        let to = pool::base::<P>().wrapping_add(offset as usize).cast::<T>();
        let (one, two) = self.as_slices();
        // SAFETY: elements, into a block of this transaction's own that is larger; the old ones are
        // not read again.
        unsafe { ptr::copy_nonoverlapping(one.as_ptr(), to, one.len()) };
        // SAFETY: as above, behind those.
        unsafe { ptr::copy_nonoverlapping(two.as_ptr(), to.wrapping_add(one.len()), two.len()) };
        self.free_block();
        (self.offset, self.cap, self.first) = (offset, size / Self::SIZE as u64, 0);
    }

    /// Frees the block of a queue whose elements have other owners.
    fn free_block(&self) {
        if self.offset != 0 {
            running::with_current::<P::Tag, _>(|running| running.map(|running| running.free(self.offset)));
        }
    }
}

/// The elements of a [`PVecDeque`], from front to back.
#[derive(Clone, Debug)]
pub struct DequeItems<'s, T>(Chain<Iter<'s, T>, Iter<'s, T>>);

impl<'s, T> Iterator for DequeItems<'s, T> {
    type Item = &'s T;

    #[inline]
    fn next(&mut self) -> Option<&'s T> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<'s, T> DoubleEndedIterator for DequeItems<'s, T> {
    fn next_back(&mut self) -> Option<&'s T> {
        self.0.next_back()
    }
}

impl<T> ExactSizeIterator for DequeItems<'_, T> {}
impl<T> FusedIterator for DequeItems<'_, T> {}

impl<T: PSafe<P>, P: MemPool> Index<usize> for PVecDeque<T, P> {
    type Output = T;

    /// # Panics
    /// If there is no such element.
    fn index(&self, index: usize) -> &T {
        self.get(index).unwrap_or_else(|| panic!("element {index} of {}", self.len))
    }
}

/// An element, to be changed: as [`PVecDeque::get_mut`], by the transaction that runs.
impl<T: PSafe<P>, P: MemPool> IndexMut<usize> for PVecDeque<T, P> {
    /// # Panics
    /// If there is no such element.
    fn index_mut(&mut self, index: usize) -> &mut T {
        assert!(index < self.len(), "element {index} of {}", self.len);
        let at = self.element(index as u64);
        running::with_current::<P::Tag, _>(|running| {
            // A `&mut` to a queue with elements is lent by a transaction of its pool, which runs.
            running.expect("a transaction runs").log(at.cast(), Self::SIZE);
        });
        // SAFETY: as in `get`; borrowed mutably, and logged (OBJ-1).
        unsafe { &mut *at }
    }
}

impl<'s, T: PSafe<P>, P: MemPool> IntoIterator for &'s PVecDeque<T, P> {
    type Item = &'s T;
    type IntoIter = DequeItems<'s, T>;

    fn into_iter(self) -> DequeItems<'s, T> {
        self.iter()
    }
}

impl<T: PSafe<P>, P: MemPool> Default for PVecDeque<T, P> {
    fn default() -> Self {
        PVecDeque::new()
    }
}

impl<T: PSafe<P> + fmt::Debug, P: MemPool> fmt::Debug for PVecDeque<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<T: PSafe<P> + PartialEq, P: MemPool> PartialEq for PVecDeque<T, P> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other)
    }
}

impl<T: PSafe<P> + Eq, P: MemPool> Eq for PVecDeque<T, P> {}

impl<T: PSafe<P> + PartialOrd, P: MemPool> PartialOrd for PVecDeque<T, P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.iter().partial_cmp(other)
    }
}

impl<T: PSafe<P> + Ord, P: MemPool> Ord for PVecDeque<T, P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.iter().cmp(other)
    }
}

impl<T: PSafe<P> + std::hash::Hash, P: MemPool> std::hash::Hash for PVecDeque<T, P> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_usize(self.len());
        self.iter().for_each(|item| item.hash(state));
    }
}

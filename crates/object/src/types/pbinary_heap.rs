//! [`PBinaryHeap`]: a priority queue in a [`PVec`].
//!
//! Invariants
//!   PHEAP-1  No element is larger than its parent, the one at `(index - 1) / 2`.
//!
//! An element moves along its path by exchanges, each logged before it is done. A comparison that
//! panics leaves every element in the heap once, in some order.

use crate::description::schema::{Schema, TypeName};
use crate::migrate::{Moving, PartId, Planner, Refusal};
use crate::{Journal, MemPool, Niche, PSafe, PVec, Tracer};
use std::fmt;

/// As `BinaryHeap`: [`PBinaryHeap::pop`] takes the largest element out. Methods that change it take
/// a journal. On media it is its vector.
///
/// A change of `n` elements logs the exchanged ones: at most one on each level of the heap.
#[repr(transparent)]
pub struct PBinaryHeap<T: PSafe<P>, P: MemPool> {
    items: PVec<T, P>,
}

impl<T: PSafe<P>, P: MemPool> PBinaryHeap<T, P> {
    /// An empty heap; allocates nothing.
    pub const fn new() -> PBinaryHeap<T, P> {
        PBinaryHeap { items: PVec::new() }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The largest element.
    pub fn peek(&self) -> Option<&T> {
        self.items.first()
    }

    /// The elements, in no order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    /// The elements, in no order.
    pub fn as_slice(&self) -> &[T] {
        &self.items
    }

    /// The elements, in no order, as a vector.
    pub fn into_vec(self) -> PVec<T, P> {
        self.items
    }

    /// Drops all elements; the block stays.
    pub fn clear(&mut self, j: &Journal<P>) {
        self.items.clear(j);
    }

    /// Takes all elements out, in no order.
    pub fn drain(&mut self, j: &Journal<P>) -> Vec<T> {
        self.items.drain(.., j)
    }
}

impl<T: PSafe<P> + Ord, P: MemPool> PBinaryHeap<T, P> {
    /// A heap of `items`.
    pub fn from(items: impl IntoIterator<Item = T>, j: &Journal<P>) -> PBinaryHeap<T, P> {
        PBinaryHeap::from_iter(items, j)
    }

    /// A heap of `items`, in linear time.
    pub fn from_iter(items: impl IntoIterator<Item = T>, j: &Journal<P>) -> PBinaryHeap<T, P> {
        PBinaryHeap::from_vec(PVec::from_iter(items, j), j)
    }

    /// A heap of the elements of a vector, in linear time.
    pub fn from_vec(items: PVec<T, P>, j: &Journal<P>) -> PBinaryHeap<T, P> {
        let mut heap = PBinaryHeap { items };
        (0..heap.len() / 2).rev().for_each(|index| heap.sink(index, heap.len(), j));
        heap
    }

    /// Adds an element.
    pub fn push(&mut self, item: T, j: &Journal<P>) {
        self.items.push(item, j);
        self.rise(self.len() - 1, j);
    }

    /// Takes the largest element out.
    pub fn pop(&mut self, j: &Journal<P>) -> Option<T> {
        let last = self.len().checked_sub(1)?;
        if last > 0 {
            self.items.swap(0, last, j);
            self.sink(0, last, j);
        }
        self.items.pop(j)
    }

    /// Adds `items`.
    pub fn extend(&mut self, items: impl IntoIterator<Item = T>, j: &Journal<P>) {
        items.into_iter().for_each(|item| self.push(item, j));
    }

    /// Moves all elements of `other` into this heap.
    pub fn append(&mut self, other: &mut PBinaryHeap<T, P>, j: &Journal<P>) {
        let before = self.len();
        self.items.append(&mut other.items, j);
        (before..self.len()).for_each(|index| self.rise(index, j));
    }

    /// Keeps the elements for which `keep` is true.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool, j: &Journal<P>) {
        let len = self.len();
        self.items.retain(keep, j);
        if self.len() < len {
            (0..self.len() / 2).rev().for_each(|index| self.sink(index, self.len(), j));
        }
    }

    /// The elements in ascending order, as a vector.
    pub fn into_sorted_vec(self, j: &Journal<P>) -> PVec<T, P> {
        let mut items = self.items;
        items.sort(j);
        items
    }

    /// Moves the element at `index` up while it is larger than its parent.
    fn rise(&mut self, mut index: usize, j: &Journal<P>) {
        while index > 0 && self.items[index] > self.items[(index - 1) / 2] {
            self.items.swap(index, (index - 1) / 2, j);
            index = (index - 1) / 2;
        }
    }

    /// Moves the element at `index` down while a child is larger, among the first `len` ones.
    fn sink(&mut self, mut index: usize, len: usize, j: &Journal<P>) {
        while 2 * index + 1 < len {
            let left = 2 * index + 1;
            let right = left + 1;
            let larger = if right < len && self.items[right] > self.items[left] { right } else { left };
            if self.items[larger] <= self.items[index] {
                return;
            }
            self.items.swap(index, larger, j);
            index = larger;
        }
    }
}

impl<T: PSafe<P>, P: MemPool> Default for PBinaryHeap<T, P> {
    fn default() -> Self {
        PBinaryHeap::new()
    }
}

impl<'s, T: PSafe<P>, P: MemPool> IntoIterator for &'s PBinaryHeap<T, P> {
    type Item = &'s T;
    type IntoIter = std::slice::Iter<'s, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: PSafe<P>, P: MemPool> IntoIterator for PBinaryHeap<T, P> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<T: PSafe<P> + fmt::Debug, P: MemPool> fmt::Debug for PBinaryHeap<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

// SAFETY: its vector, in every respect.
unsafe impl<T: PSafe<P>, P: MemPool> PSafe<P> for PBinaryHeap<T, P> {
    type At<'x> = PBinaryHeap<T::At<'x>, P::At<'x>>;
    type Outside = PBinaryHeap<T::Outside, P::Outside>;
    const CELLS: u8 = 0;
    const NICHE: Niche = Niche::None;

    fn describe(schema: &mut Schema) -> TypeName {
        PVec::<T, P>::describe(schema)
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        // SAFETY: the caller's.
        unsafe { PVec::<T, P>::trace(this.cast(), tracer) }
    }

    fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
        PVec::<T, P>::plan(planner, stored)
    }

    unsafe fn moved(from: *const u8, part: PartId, moving: &Moving<'_, P>) -> Self {
        // SAFETY: the caller's.
        PBinaryHeap { items: unsafe { PVec::moved(from, part, moving) } }
    }
}

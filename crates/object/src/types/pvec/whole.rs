//! Methods of [`PVec`] that change many elements: sorted, joined, divided, without duplicates.
//!
//! Closures and comparisons of the program run before anything is changed, or on a slice whose
//! elements are all logged: after a panic every element is there once, in some order.

use super::{PVec, bounds};
use crate::{Journal, MemPool, PSafe};
use std::cmp::Ordering;
use std::mem::ManuallyDrop;
use std::ops::RangeBounds;
use std::ptr;

impl<T: PSafe<P>, P: MemPool> PVec<T, P> {
    /// Elements of a range, to be changed. They alone are logged.
    ///
    /// # Panics
    /// If the range does not lie inside.
    #[track_caller]
    pub fn slice_mut<'s>(&'s mut self, range: impl RangeBounds<usize>, j: &'s Journal<P>) -> &'s mut [T] {
        let range = bounds(&range, self.len());
        self.log_elements(j, range.start as u64, range.len() as u64);
        // SAFETY: elements, as in `as_slice`; borrowed mutably, and logged (OBJ-1).
        unsafe { std::slice::from_raw_parts_mut(self.address(range.start as u64), range.len()) }
    }

    /// The first element, to be changed. It alone is logged.
    pub fn first_mut<'s>(&'s mut self, j: &'s Journal<P>) -> Option<&'s mut T> {
        self.get_mut(0, j)
    }

    /// The last element, to be changed. It alone is logged.
    pub fn last_mut<'s>(&'s mut self, j: &'s Journal<P>) -> Option<&'s mut T> {
        self.get_mut(self.len().checked_sub(1)?, j)
    }

    /// Exchanges two elements. They alone are logged.
    ///
    /// # Panics
    /// If one of them is not there.
    #[track_caller]
    pub fn swap(&mut self, one: usize, other: usize, j: &Journal<P>) {
        let len = self.len();
        assert!(one < len && other < len, "exchange of elements {one} and {other} of {len}");
        self.log_elements(j, one as u64, 1);
        self.log_elements(j, other as u64, 1);
        // SAFETY: two elements, or one twice, borrowed mutably and logged.
        unsafe { ptr::swap(self.address(one as u64), self.address(other as u64)) };
    }

    /// Puts the elements into the opposite order.
    pub fn reverse(&mut self, j: &Journal<P>) {
        if self.len() > 1 {
            self.as_mut_slice(j).reverse();
        }
    }

    /// Moves the first `count` elements behind the others.
    ///
    /// # Panics
    /// If there are fewer.
    #[track_caller]
    pub fn rotate_left(&mut self, count: usize, j: &Journal<P>) {
        assert!(count <= self.len(), "a rotation by {count} of {}", self.len());
        if !count.is_multiple_of(self.len().max(1)) {
            self.as_mut_slice(j).rotate_left(count);
        }
    }

    /// Sorts the elements; equal ones keep their order. All are logged, each line once, unless they
    /// are sorted already.
    ///
    /// # Panics
    /// As `slice::sort`, if the order contradicts itself: the elements are in some order.
    pub fn sort(&mut self, j: &Journal<P>)
    where
        T: Ord,
    {
        self.sort_by(T::cmp, j);
    }

    /// [`PVec::sort`] by a comparison.
    ///
    /// # Panics
    /// As [`PVec::sort`].
    pub fn sort_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering, j: &Journal<P>) {
        if !self.is_sorted_by(|one, other| compare(one, other).is_le()) {
            self.as_mut_slice(j).sort_by(compare);
        }
    }

    /// [`PVec::sort`] by a key of the elements.
    ///
    /// # Panics
    /// As [`PVec::sort`].
    pub fn sort_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K, j: &Journal<P>) {
        self.sort_by(|one, other| key(one).cmp(&key(other)), j);
    }

    /// [`PVec::sort_by_key`] that computes each key once.
    ///
    /// # Panics
    /// As [`PVec::sort`].
    pub fn sort_by_cached_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K, j: &Journal<P>) {
        if self.len() > 1 {
            self.as_mut_slice(j).sort_by_cached_key(key);
        }
    }

    /// [`PVec::sort`], in place and faster; equal elements may change places.
    ///
    /// # Panics
    /// As [`PVec::sort`].
    pub fn sort_unstable(&mut self, j: &Journal<P>)
    where
        T: Ord,
    {
        self.sort_unstable_by(T::cmp, j);
    }

    /// [`PVec::sort_unstable`] by a comparison.
    ///
    /// # Panics
    /// As [`PVec::sort`].
    pub fn sort_unstable_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering, j: &Journal<P>) {
        if !self.is_sorted_by(|one, other| compare(one, other).is_le()) {
            self.as_mut_slice(j).sort_unstable_by(compare);
        }
    }

    /// [`PVec::sort_unstable`] by a key of the elements.
    ///
    /// # Panics
    /// As [`PVec::sort`].
    pub fn sort_unstable_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K, j: &Journal<P>) {
        self.sort_unstable_by(|one, other| key(one).cmp(&key(other)), j);
    }

    /// Keeps the elements for which `keep` is true. All are asked before the first one goes.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool, j: &Journal<P>) {
        let kept: Vec<bool> = self.iter().map(keep).collect();
        self.keep(&kept, j);
    }

    /// Drops each element that is equal to the one before it.
    pub fn dedup(&mut self, j: &Journal<P>)
    where
        T: PartialEq,
    {
        self.dedup_by(|one, before| one == before, j);
    }

    /// Drops each element whose key is equal to that of the one before it.
    pub fn dedup_by_key<K: PartialEq>(&mut self, mut key: impl FnMut(&T) -> K, j: &Journal<P>) {
        self.dedup_by(|one, before| key(one) == key(before), j);
    }

    /// Drops each element for which `same` of it and the last one kept before it is true. All are
    /// asked before the first one goes.
    pub fn dedup_by(&mut self, mut same: impl FnMut(&T, &T) -> bool, j: &Journal<P>) {
        let mut last = 0;
        let mut kept = vec![true; self.len()];
        for index in 1..self.len() {
            kept[index] = !same(&self[index], &self[last]);
            last = if kept[index] { index } else { last };
        }
        self.keep(&kept, j);
    }

    /// Keeps the elements that `kept` says.
    fn keep(&mut self, kept: &[bool], j: &Journal<P>) {
        let Some(first) = kept.iter().position(|keep| !keep) else { return };
        self.floor(j.running());
        self.log_elements(j, first as u64, self.len - first as u64);
        let (mut to, len) = (first as u64, self.len);
        // Meanwhile the vector ends before the first gap.
        self.len = first as u64;
        for index in first as u64..len {
            if kept[index as usize] {
                // SAFETY: logged elements; `to` is one that was moved or dropped before.
                unsafe { ptr::copy(self.address(index), self.address(to), 1) };
                to += 1;
            } else {
                // SAFETY: an element that is overwritten or behind the end from here on.
                unsafe { self.address(index).drop_in_place() };
            }
        }
        self.len = to;
    }

    /// Takes the elements from `at` on out, as a vector of their own.
    ///
    /// # Panics
    /// If `at` lies behind the end.
    #[track_caller]
    pub fn split_off(&mut self, at: usize, j: &Journal<P>) -> PVec<T, P> {
        assert!(at <= self.len(), "a split at {at} of {}", self.len());
        let mut rest = PVec::new();
        let count = self.len() - at;
        if count > 0 {
            rest.reserve(count, j);
            self.floor(j.running());
            rest.take_over(self.address(at as u64), count, j);
            self.len = at as u64;
        }
        rest
    }

    /// Moves all elements of `other` to the end.
    pub fn append(&mut self, other: &mut PVec<T, P>, j: &Journal<P>) {
        let count = other.len();
        if count > 0 {
            self.reserve(count, j);
            other.floor(j.running());
            self.take_over(other.address(0), count, j);
            other.len = 0;
        }
    }

    /// Adds `count` elements that lie at `from` and whose owner gives them up; there is room for
    /// them.
    fn take_over(&mut self, from: *const T, count: usize, j: &Journal<P>) {
        self.open_all(j.running(), count as u64);
        // SAFETY: elements of another vector, into the block behind the last element: logged or
        // unused (VEC-1). The caller ends the other vector before them.
        unsafe { ptr::copy_nonoverlapping(from, self.address(self.len), count) };
        self.len += count as u64;
    }

    /// Makes the vector `len` elements long: drops some, or adds results of `make`.
    pub fn resize_with(&mut self, len: usize, mut make: impl FnMut() -> T, j: &Journal<P>) {
        self.truncate(len, j);
        self.open_room(len - self.len().min(len), j);
        while self.len() < len {
            self.push(make(), j);
        }
    }

    /// [`PVec::resize_with`] clones of `value`.
    pub fn resize(&mut self, len: usize, value: &T, j: &Journal<P>)
    where
        T: Clone,
    {
        self.resize_with(len, || value.clone(), j);
    }

    /// Moves the elements to a block of their size, if that is smaller.
    pub fn shrink_to_fit(&mut self, j: &Journal<P>) {
        if self.is_empty() && self.cap > 0 {
            *self = PVec::new();
        } else if self.len < self.cap {
            let mut fit = PVec::new();
            fit.with_block(self.len(), j);
            if fit.cap < self.cap {
                fit.append(self, j);
                *self = fit;
            }
        }
    }
}

/// The elements are read out one after the other and the block is freed at once; what is not taken
/// from the iterator is dropped with it.
impl<T: PSafe<P>, P: MemPool> IntoIterator for PVec<T, P> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> std::vec::IntoIter<T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: elements, each read once; their owner is gone.
        let all: Vec<T> = (0..this.len).map(|index| unsafe { this.address(index).read() }).collect();
        this.free_block();
        all.into_iter()
    }
}

//! Methods of [`PVecDeque`] that take many elements out or move them.
//!
//! Closures of the program run before anything is changed.

use super::PVecDeque;
use crate::types::pvec::bounds;
use crate::{Journal, MemPool, PSafe};
use everbyte_media::seeded;
use std::mem::ManuallyDrop;
use std::ops::{Range, RangeBounds};
use std::ptr;

impl<T: PSafe<P>, P: MemPool> PVecDeque<T, P> {
    /// Drops the elements from `len` on.
    pub fn truncate(&mut self, len: usize, j: &Journal<P>) {
        while self.len() > len {
            drop(self.pop_back(j));
        }
    }

    /// Drops all elements; the block stays.
    pub fn clear(&mut self, j: &Journal<P>) {
        self.truncate(0, j);
    }

    /// Takes the elements of a range out, in time linear in those taken and those moved: the ones
    /// before it or the ones behind it, whichever are fewer.
    ///
    /// # Panics
    /// If the range does not lie inside.
    #[track_caller]
    pub fn drain(&mut self, range: impl RangeBounds<usize>, j: &Journal<P>) -> Vec<T> {
        let range = bounds(&range, self.len());
        let (start, end, count) = (range.start as u64, range.end as u64, range.len() as u64);
        if count == 0 {
            return Vec::new();
        }
        let (before, behind) = (start, self.len - end);
        self.ring(j.running());
        if !seeded("object-deque-drain-unlogged") {
            let moved = if before <= behind { end - before..end } else { start..start + behind };
            self.log_elements(moved, j);
        }
        // SAFETY: elements, each read once; from here on their places are overwritten or unused.
        let out = (start..end).map(|index| unsafe { self.element(index).read() }).collect();
        if before <= behind {
            for index in (0..before).rev() {
                // SAFETY: an element, to a logged place whose own was read or has moved.
                unsafe { ptr::copy_nonoverlapping(self.element(index), self.element(index + count), 1) };
            }
            self.first = self.wrapped(self.first + count);
        } else {
            for index in end..self.len {
                // SAFETY: as above.
                unsafe { ptr::copy_nonoverlapping(self.element(index), self.element(index - count), 1) };
            }
        }
        self.len -= count;
        out
    }

    /// Keeps the elements for which `keep` is true. All are asked before the first one goes.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool, j: &Journal<P>) {
        let kept: Vec<bool> = self.iter().map(keep).collect();
        if kept.contains(&false) {
            let all = std::mem::take(self).into_iter().zip(kept);
            self.extend(all.filter(|(_, keep)| *keep).map(|(item, _)| item), j);
        }
    }

    /// Takes the elements from `at` on out, as a queue of their own.
    ///
    /// # Panics
    /// If `at` lies behind the end.
    #[track_caller]
    pub fn split_off(&mut self, at: usize, j: &Journal<P>) -> PVecDeque<T, P> {
        assert!(at <= self.len(), "a split at {at} of {}", self.len());
        let mut rest = PVecDeque::with_capacity(self.len() - at, j);
        while self.len() > at {
            rest.push_front(self.pop_back(j).expect("not empty"), j);
        }
        rest
    }

    /// Moves all elements of `other` to the end.
    pub fn append(&mut self, other: &mut PVecDeque<T, P>, j: &Journal<P>) {
        self.extend(std::mem::take(other), j);
    }

    /// Logs the places of elements that are about to change: up to the end of the ring, and from
    /// its beginning, under one fence.
    fn log_elements(&self, range: Range<u64>, j: &Journal<P>) {
        if Self::SIZE > 0 && !range.is_empty() {
            let (count, place) = (range.end - range.start, self.wrapped(self.first + range.start));
            let ahead = count.min(self.cap - place);
            let parts = [(place, ahead), (0, count - ahead)];
            let parts = parts.map(|(place, count)| (self.place(place).cast(), count as usize * Self::SIZE));
            j.running().log_all(parts.into_iter());
        }
    }
}

/// The elements are read out and the block is freed at once.
impl<T: PSafe<P>, P: MemPool> IntoIterator for PVecDeque<T, P> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> std::vec::IntoIter<T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: elements, each read once; their owner is gone.
        let all: Vec<T> = (0..this.len).map(|index| unsafe { this.element(index).read() }).collect();
        this.free_block();
        all.into_iter()
    }
}

//! Iterating over a [`PBTreeMap`], in the order of its keys or against it.

use super::PBTreeMap;
use super::path::Path;
use crate::types::entry::MapEntry;
use crate::{MemPool, PSafe};
use std::iter::FusedIterator;
use std::marker::PhantomData;

/// The range of entries between two gaps. The first gap is not behind the second one.
pub(super) struct Places<K, V, P> {
    pub front: Path<K, V, P>,
    pub back: Path<K, V, P>,
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Iterator for Places<K, V, P> {
    type Item = *mut MapEntry<K, V>;

    #[inline]
    fn next(&mut self) -> Option<*mut MapEntry<K, V>> {
        if self.front.meets(&self.back) || !self.front.seek_next() {
            return None;
        }
        let place = self.front.place();
        self.front.step_over();
        Some(place)
    }
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> DoubleEndedIterator for Places<K, V, P> {
    #[inline]
    fn next_back(&mut self) -> Option<*mut MapEntry<K, V>> {
        if self.front.meets(&self.back) || !self.back.seek_previous() {
            return None;
        }
        let place = self.back.place();
        self.back.step_back();
        Some(place)
    }
}

/// Some of the entries of a [`PBTreeMap`], in order; see [`PBTreeMap::range`].
pub struct Range<'s, K: PSafe<P>, V: PSafe<P>, P: MemPool> {
    places: Places<K, V, P>,
    marker: PhantomData<&'s PBTreeMap<K, V, P>>,
}

/// All entries of a [`PBTreeMap`], in order.
pub struct Iter<'s, K: PSafe<P>, V: PSafe<P>, P: MemPool> {
    range: Range<'s, K, V, P>,
    left: usize,
}

// SAFETY: it lends what a shared map does, which may be sent where it is `Sync`.
unsafe impl<K: PSafe<P> + Sync, V: PSafe<P> + Sync, P: MemPool> Send for Range<'_, K, V, P> {}
// SAFETY: a shared iterator lends nothing.
unsafe impl<K: PSafe<P> + Sync, V: PSafe<P> + Sync, P: MemPool> Sync for Range<'_, K, V, P> {}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Range<'_, K, V, P> {
    /// `places` are those of a map that is borrowed for as long.
    pub(super) fn new(places: Places<K, V, P>) -> Self {
        Range { places, marker: PhantomData }
    }
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Iter<'_, K, V, P> {
    /// `places` are those of a map of `left` entries that is borrowed for as long.
    pub(super) fn new(places: Places<K, V, P>, left: usize) -> Self {
        Iter { range: Range::new(places), left }
    }
}

/// An entry of a map that is borrowed for `'s`.
fn lend<'s, K, V>(entry: *mut MapEntry<K, V>) -> (&'s K, &'s V) {
    // SAFETY: an entry of a map that is borrowed for as long.
    let entry = unsafe { &*entry };
    (&entry.key, &entry.value)
}

impl<'s, K: PSafe<P>, V: PSafe<P>, P: MemPool> Iterator for Range<'s, K, V, P> {
    type Item = (&'s K, &'s V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.places.next().map(lend)
    }
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> DoubleEndedIterator for Range<'_, K, V, P> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.places.next_back().map(lend)
    }
}

impl<'s, K: PSafe<P>, V: PSafe<P>, P: MemPool> Iterator for Iter<'s, K, V, P> {
    type Item = (&'s K, &'s V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let next = self.range.next()?;
        self.left -= 1;
        Some(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> DoubleEndedIterator for Iter<'_, K, V, P> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let next = self.range.next_back()?;
        self.left -= 1;
        Some(next)
    }
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> ExactSizeIterator for Iter<'_, K, V, P> {}
impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> FusedIterator for Iter<'_, K, V, P> {}
impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> FusedIterator for Range<'_, K, V, P> {}

impl<K, V, P> Clone for Places<K, V, P> {
    fn clone(&self) -> Self {
        Places { front: self.front.clone(), back: self.back.clone() }
    }
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Clone for Range<'_, K, V, P> {
    fn clone(&self) -> Self {
        Range::new(self.places.clone())
    }
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Clone for Iter<'_, K, V, P> {
    fn clone(&self) -> Self {
        Iter { range: self.range.clone(), left: self.left }
    }
}

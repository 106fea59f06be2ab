//! Iterating over a [`PHashMap`].

use super::{EntryTable, PHashMap, Places};
use crate::{MemPool, PSafe};
use std::iter::FusedIterator;
use std::marker::PhantomData;

/// The entries of a [`PHashMap`], in no order.
pub struct Iter<'s, K: PSafe<P>, V: PSafe<P>, P: MemPool> {
    table: EntryTable<K, V>,
    places: Places<K, V>,
    left: usize,
    marker: PhantomData<&'s PHashMap<K, V, P>>,
}

// SAFETY: it lends what a shared map does, which may be sent where it is `Sync`.
unsafe impl<K: PSafe<P> + Sync, V: PSafe<P> + Sync, P: MemPool> Send for Iter<'_, K, V, P> {}
// SAFETY: a shared iterator lends nothing.
unsafe impl<K: PSafe<P> + Sync, V: PSafe<P> + Sync, P: MemPool> Sync for Iter<'_, K, V, P> {}

impl<'s, K: PSafe<P>, V: PSafe<P>, P: MemPool> Iter<'s, K, V, P> {
    /// `table` has `left` entries, and is borrowed for `'s`.
    #[inline]
    pub(super) fn new(table: EntryTable<K, V>, left: usize) -> Self {
        Iter { table, places: table.places(), left, marker: PhantomData }
    }
}

impl<'s, K: PSafe<P>, V: PSafe<P>, P: MemPool> Iterator for Iter<'s, K, V, P> {
    type Item = (&'s K, &'s V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.table.entry(self.places.next()?);
        self.left -= 1;
        // SAFETY: an entry of a map that is borrowed for as long.
        let entry = unsafe { &*entry };
        Some((&entry.key, &entry.value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> ExactSizeIterator for Iter<'_, K, V, P> {}
impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> FusedIterator for Iter<'_, K, V, P> {}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Clone for Iter<'_, K, V, P> {
    fn clone(&self) -> Self {
        Iter { places: self.places.clone(), ..*self }
    }
}

//! Iterating over a [`PHashMap`](super::PHashMap).

use super::table::{Places, Table};
use std::iter::FusedIterator;
use std::marker::PhantomData;

/// The entries of a [`PHashMap`](crate::PHashMap), in no order.
pub struct Iter<'s, K, V> {
    table: Table<K, V>,
    places: Places<K, V>,
    left: usize,
    marker: PhantomData<&'s (K, V)>,
}

impl<'s, K, V> Iter<'s, K, V> {
    /// `table` has `left` entries, and is borrowed for `'s`.
    #[inline]
    pub(super) fn new(table: Table<K, V>, left: usize) -> Iter<'s, K, V> {
        Iter { table, places: table.places(), left, marker: PhantomData }
    }
}

impl<'s, K, V> Iterator for Iter<'s, K, V> {
    type Item = (&'s K, &'s V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let slot = self.table.slot(self.places.next()?);
        self.left -= 1;
        // SAFETY: an entry of a map that is borrowed for as long.
        let slot = unsafe { &*slot };
        Some((&slot.key, &slot.value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K, V> ExactSizeIterator for Iter<'_, K, V> {}
impl<K, V> FusedIterator for Iter<'_, K, V> {}

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Iter { places: self.places.clone(), ..*self }
    }
}

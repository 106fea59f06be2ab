//! [`PHashSet`] and [`PBTreeSet`]: maps whose values have no bytes.
//!
//! A set is its map, also on media: descriptions call it `PHashMap<T, ()>`.

use crate::FoundBy;
use crate::description::schema::{Schema, TypeName};
use crate::migrate::{Moving, PartId, Planner, Refusal};
use crate::{Journal, MemPool, Niche, PBTreeMap, PHashMap, PSafe, Tracer, btree_map, hash_map};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::RangeBounds;

/// The set `Set` in the map `Map` with such iterators, whose elements must be `bound`.
macro_rules! set {
    ($(#[$doc:meta])* $Set:ident, $Items:ident, $Map:ident, $module:ident: $($bound:ident),+) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $Set<T: PSafe<P>, P: MemPool> {
            map: $Map<T, (), P>,
        }

        /// The elements of a set.
        pub struct $Items<'s, T: PSafe<P>, P: MemPool>($module::Iter<'s, T, (), P>);

        impl<T: PSafe<P>, P: MemPool> $Set<T, P> {
            /// An empty set; allocates nothing.
            pub const fn new() -> $Set<T, P> {
                $Set { map: $Map::new() }
            }

            /// How many elements there are.
            pub fn len(&self) -> usize {
                self.map.len()
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.map.is_empty()
            }

            /// The elements.
            pub fn iter(&self) -> $Items<'_, T, P> {
                $Items(self.map.iter())
            }

            /// Drops all elements and frees the set's blocks.
            pub fn clear(&mut self, j: &Journal<P>) {
                self.map.clear(j);
            }

            /// Takes all elements out.
            pub fn drain(&mut self, _: &Journal<P>) -> std::vec::IntoIter<T> {
                std::mem::take(self).into_iter()
            }
        }

        impl<T: PSafe<P> $(+ $bound)+, P: MemPool> $Set<T, P> {
            /// A set of `items`; of equal ones the first stays.
            pub fn from(items: impl IntoIterator<Item = T>, j: &Journal<P>) -> $Set<T, P> {
                $Set::from_iter(items, j)
            }

            /// A set of `items`; of equal ones the first stays.
            pub fn from_iter(items: impl IntoIterator<Item = T>, j: &Journal<P>) -> $Set<T, P> {
                let mut set = $Set::new();
                set.extend(items, j);
                set
            }

            /// A set with clones of the elements.
            pub fn pclone(&self, j: &Journal<P>) -> $Set<T, P>
            where
                T: Clone,
            {
                $Set::from_iter(self.iter().cloned(), j)
            }

            /// Whether `item` is an element.
            pub fn contains<Q: ?Sized $(+ $bound)+>(&self, item: &Q) -> bool
            where
                T: FoundBy<Q>,
            {
                self.map.contains_key(item)
            }

            /// The element that is equal to `item`.
            pub fn get<Q: ?Sized $(+ $bound)+>(&self, item: &Q) -> Option<&T>
            where
                T: FoundBy<Q>,
            {
                self.map.get_key_value(item).map(|(item, ())| item)
            }

            /// Adds `item`, unless an equal element is there; whether it was added.
            pub fn insert(&mut self, item: T, j: &Journal<P>) -> bool {
                self.map.insert(item, (), j).is_none()
            }

            /// Adds `item`; answers the equal element that it replaces.
            pub fn replace(&mut self, item: T, j: &Journal<P>) -> Option<T> {
                self.map.replace_entry(item, (), j).map(|(old, ())| old)
            }

            /// Removes `item`; whether it was an element.
            pub fn remove<Q: ?Sized $(+ $bound)+>(&mut self, item: &Q, j: &Journal<P>) -> bool
            where
                T: FoundBy<Q>,
            {
                self.take(item, j).is_some()
            }

            /// Takes the element out that is equal to `item`.
            pub fn take<Q: ?Sized $(+ $bound)+>(&mut self, item: &Q, j: &Journal<P>) -> Option<T>
            where
                T: FoundBy<Q>,
            {
                self.map.remove_entry(item, j).map(|(item, ())| item)
            }

            /// Adds `items`; of equal ones the first stays.
            pub fn extend(&mut self, items: impl IntoIterator<Item = T>, j: &Journal<P>) {
                self.map.extend(items.into_iter().map(|item| (item, ())), j);
            }

            /// Moves all elements of `other` into this set.
            pub fn append(&mut self, other: &mut $Set<T, P>, j: &Journal<P>) {
                self.map.append(&mut other.map, j);
            }

            /// Keeps the elements for which `keep` is true.
            pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool, j: &Journal<P>) {
                self.map.retain(|item, ()| keep(item), j);
            }

            /// The elements of this set that `other` has, too.
            pub fn intersection<'s>(&'s self, other: &'s $Set<T, P>) -> impl Iterator<Item = &'s T> {
                self.iter().filter(|item| other.contains(*item))
            }

            /// The elements of this set that `other` has not.
            pub fn difference<'s>(&'s self, other: &'s $Set<T, P>) -> impl Iterator<Item = &'s T> {
                self.iter().filter(|item| !other.contains(*item))
            }

            /// The elements of this set, and those of `other` that it has not.
            pub fn union<'s>(&'s self, other: &'s $Set<T, P>) -> impl Iterator<Item = &'s T> {
                self.iter().chain(other.difference(self))
            }

            /// The elements that one of the sets has, and the other has not.
            pub fn symmetric_difference<'s>(&'s self, other: &'s $Set<T, P>) -> impl Iterator<Item = &'s T> {
                self.difference(other).chain(other.difference(self))
            }

            /// Whether `other` has every element of this set.
            pub fn is_subset(&self, other: &$Set<T, P>) -> bool {
                self.len() <= other.len() && self.iter().all(|item| other.contains(item))
            }

            /// Whether this set has every element of `other`.
            pub fn is_superset(&self, other: &$Set<T, P>) -> bool {
                other.is_subset(self)
            }

            /// Whether no element is in both.
            pub fn is_disjoint(&self, other: &$Set<T, P>) -> bool {
                self.intersection(other).next().is_none()
            }
        }

        impl<T: PSafe<P>, P: MemPool> Default for $Set<T, P> {
            fn default() -> Self {
                $Set::new()
            }
        }

        impl<'s, T: PSafe<P>, P: MemPool> IntoIterator for &'s $Set<T, P> {
            type Item = &'s T;
            type IntoIter = $Items<'s, T, P>;

            fn into_iter(self) -> $Items<'s, T, P> {
                self.iter()
            }
        }

        /// The elements are read out and the blocks freed at once.
        impl<T: PSafe<P>, P: MemPool> IntoIterator for $Set<T, P> {
            type Item = T;
            type IntoIter = std::vec::IntoIter<T>;

            fn into_iter(self) -> std::vec::IntoIter<T> {
                self.map.into_iter().map(|(item, ())| item).collect::<Vec<_>>().into_iter()
            }
        }

        impl<'s, T: PSafe<P>, P: MemPool> Iterator for $Items<'s, T, P> {
            type Item = &'s T;

            #[inline]
            fn next(&mut self) -> Option<&'s T> {
                self.0.next().map(|(item, ())| item)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }
        }

        impl<T: PSafe<P>, P: MemPool> ExactSizeIterator for $Items<'_, T, P> {}
        impl<T: PSafe<P>, P: MemPool> std::iter::FusedIterator for $Items<'_, T, P> {}

        impl<T: PSafe<P>, P: MemPool> Clone for $Items<'_, T, P> {
            fn clone(&self) -> Self {
                $Items(self.0.clone())
            }
        }

        impl<T: PSafe<P> + fmt::Debug, P: MemPool> fmt::Debug for $Set<T, P> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_set().entries(self).finish()
            }
        }

        impl<T: PSafe<P> $(+ $bound)+, P: MemPool> PartialEq for $Set<T, P> {
            fn eq(&self, other: &Self) -> bool {
                self.map == other.map
            }
        }

        impl<T: PSafe<P> $(+ $bound)+, P: MemPool> Eq for $Set<T, P> {}

        // SAFETY: its map, in every respect.
        unsafe impl<T: PSafe<P>, P: MemPool> PSafe<P> for $Set<T, P> {
            type At<'x> = $Set<T::At<'x>, P::At<'x>>;
            type Outside = $Set<T::Outside, P::Outside>;
            const CELLS: u8 = 0;
            const NICHE: Niche = Niche::None;

            fn describe(schema: &mut Schema) -> TypeName {
                $Map::<T, (), P>::describe(schema)
            }

            unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
                // SAFETY: the caller's.
                unsafe { $Map::<T, (), P>::trace(this.cast(), tracer) }
            }

            fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
                $Map::<T, (), P>::plan(planner, stored)
            }

            unsafe fn moved(from: *const u8, part: PartId, moving: &Moving<'_, P>) -> Self {
                // SAFETY: the caller's.
                $Set { map: unsafe { $Map::moved(from, part, moving) } }
            }
        }
    };
}

set!(
    /// As `HashSet`: a [`PHashMap`] without values. Methods that change it take a journal.
    PHashSet, HashItems, PHashMap, hash_map: Hash, Eq
);
set!(
    /// As `BTreeSet`: a [`PBTreeMap`] without values. Methods that change it take a journal.
    PBTreeSet, TreeItems, PBTreeMap, btree_map: Ord
);

impl<T: PSafe<P> + Hash + Eq, P: MemPool> PHashSet<T, P> {
    /// The elements behind `item`, as [`PHashMap::iter_after`].
    pub fn iter_after<Q: Hash + Eq + ?Sized>(&self, item: &Q) -> impl Iterator<Item = &T>
    where
        T: FoundBy<Q>,
    {
        self.map.iter_after(item).map(|(item, ())| item)
    }

    /// An empty set with space for `count` elements.
    pub fn with_capacity(count: usize, j: &Journal<P>) -> PHashSet<T, P> {
        PHashSet { map: PHashMap::with_capacity(count, j) }
    }

    /// Makes space for `more` elements.
    pub fn reserve(&mut self, more: usize, j: &Journal<P>) {
        self.map.reserve(more, j);
    }
}

impl<T: PSafe<P> + Ord, P: MemPool> PBTreeSet<T, P> {
    /// The elements of a range, in order.
    ///
    /// # Panics
    /// As [`PBTreeMap::range`].
    pub fn range<Q: Ord + ?Sized, R: RangeBounds<Q>>(&self, range: R) -> impl DoubleEndedIterator<Item = &T>
    where
        T: FoundBy<Q>,
    {
        self.map.range(range).map(|(item, ())| item)
    }

    /// Takes the elements from `item` on out, as a set of their own.
    pub fn split_off<Q: Ord + ?Sized>(&mut self, item: &Q, j: &Journal<P>) -> PBTreeSet<T, P>
    where
        T: FoundBy<Q>,
    {
        PBTreeSet { map: self.map.split_off(item, j) }
    }
}

impl<T: PSafe<P>, P: MemPool> PBTreeSet<T, P> {
    /// The smallest element.
    pub fn first(&self) -> Option<&T> {
        self.map.first_key_value().map(|(item, ())| item)
    }

    /// The largest element.
    pub fn last(&self) -> Option<&T> {
        self.map.last_key_value().map(|(item, ())| item)
    }

    /// Takes the smallest element out.
    pub fn pop_first(&mut self, j: &Journal<P>) -> Option<T> {
        self.map.pop_first(j).map(|(item, ())| item)
    }

    /// Takes the largest element out.
    pub fn pop_last(&mut self, j: &Journal<P>) -> Option<T> {
        self.map.pop_last(j).map(|(item, ())| item)
    }
}

impl<'s, T: PSafe<P>, P: MemPool> DoubleEndedIterator for TreeItems<'s, T, P> {
    fn next_back(&mut self) -> Option<&'s T> {
        self.0.next_back().map(|(item, ())| item)
    }
}

impl<T: PSafe<P> + Ord, P: MemPool> PartialOrd for PBTreeSet<T, P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: PSafe<P> + Ord, P: MemPool> Ord for PBTreeSet<T, P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.map.cmp(&other.map)
    }
}

impl<T: PSafe<P> + Ord + Hash, P: MemPool> Hash for PBTreeSet<T, P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.map.hash(state);
    }
}

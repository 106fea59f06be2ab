//! Code that hash maps and ordered maps share.
//!
//! A map has a `header` with its `len`, and finds keys: `find`, `locate` (or where one belongs),
//! `add`, `remove_entry`, `iter`, `extend`. The macro adds the methods that follow from these.

/// The map `Map`, whose keys must be `bound`.
macro_rules! map {
    ($Map:ident: $($bound:ident),+) => {
        use crate::types::entry::MapEntry;
        use crate::{Out, Journal, MemPool, PSafe, PoolTag};
        use std::borrow::Borrow;

        // SAFETY: as in the standard library: a shared map gives `&K` and `&V`.
        unsafe impl<K: PSafe<P> + Sync, V: PSafe<P> + Sync, P: MemPool> Sync for $Map<K, V, P> {}
        // SAFETY: as in the standard library, for values in the pool (a static brand).
        unsafe impl<K, V, G: PoolTag> Send for $Map<K, V, Out<G>>
        where
            K: PSafe<Out<G>> + Send,
            V: PSafe<Out<G>> + Send,
        {
        }
        impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> std::panic::RefUnwindSafe for $Map<K, V, P> {}

        impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> $Map<K, V, P> {
            /// How many entries there are.
            #[inline]
            pub fn len(&self) -> usize {
                self.header.len as usize
            }

            /// Whether there are none.
            #[inline]
            pub fn is_empty(&self) -> bool {
                self.header.len == 0
            }

            /// Drops all entries and frees the map's blocks.
            pub fn clear(&mut self, _: &Journal<P>) {
                drop(std::mem::take(self));
            }

            /// An entry of this map.
            #[inline(always)]
            fn lend(&self, entry: *mut MapEntry<K, V>) -> &MapEntry<K, V> {
                // SAFETY:
                // - in bounds and valid: an entry lies there;
                // - alive: the pool is open (POOL-2), and blocks are freed with their only owner;
                // - no writer: a change of entries borrows `self` mutably.
                unsafe { &*entry }
            }

            /// The value of an entry of this map, to be changed. It alone is logged.
            #[inline]
            fn lend_value<'s>(&'s mut self, entry: *mut MapEntry<K, V>, j: &'s Journal<P>) -> &'s mut V {
                let value = MapEntry::value(entry);
                j.running().log(value.cast(), size_of::<V>());
                // SAFETY: as in `lend`; borrowed mutably, and logged (OBJ-1).
                unsafe { &mut *value }
            }
        }

        impl<K: PSafe<P> $(+ $bound)+, V: PSafe<P>, P: MemPool> $Map<K, V, P> {
            /// A map of the entries of `items`; of equal keys the last value counts.
            pub fn from_iter(items: impl IntoIterator<Item = (K, V)>, j: &Journal<P>) -> $Map<K, V, P> {
                let mut map = $Map::new();
                map.extend(items, j);
                map
            }

            /// A map with clones of the entries.
            pub fn pclone(&self, j: &Journal<P>) -> $Map<K, V, P>
            where
                K: Clone,
                V: Clone,
            {
                $Map::from_iter(self.iter().map(|(key, value)| (key.clone(), value.clone())), j)
            }

            /// The value of `key`.
            #[inline]
            pub fn get<Q: ?Sized $(+ $bound)+>(&self, key: &Q) -> Option<&V>
            where
                K: Borrow<Q>,
            {
                self.find(key).map(|entry| &self.lend(entry).value)
            }

            /// The key and the value of `key`.
            pub fn get_key_value<Q: ?Sized $(+ $bound)+>(&self, key: &Q) -> Option<(&K, &V)>
            where
                K: Borrow<Q>,
            {
                self.find(key).map(|entry| self.lend(entry)).map(|entry| (&entry.key, &entry.value))
            }

            /// Whether `key` has a value.
            pub fn contains_key<Q: ?Sized $(+ $bound)+>(&self, key: &Q) -> bool
            where
                K: Borrow<Q>,
            {
                self.find(key).is_some()
            }

            /// The value of `key`, to be changed. It alone is logged.
            #[inline]
            pub fn get_mut<'s, Q: ?Sized $(+ $bound)+>(&'s mut self, key: &Q, j: &'s Journal<P>) -> Option<&'s mut V>
            where
                K: Borrow<Q>,
            {
                self.find(key).map(|entry| self.lend_value(entry, j))
            }

            /// Sets the value of `key` and answers the old one. An equal key that is there stays.
            #[inline]
            pub fn insert(&mut self, key: K, value: V, j: &Journal<P>) -> Option<V> {
                match self.locate(&key) {
                    Ok(entry) => Some(std::mem::replace(self.lend_value(entry, j), value)),
                    Err(spot) => {
                        self.add(spot, MapEntry { key, value }, j);
                        None
                    }
                }
            }

            /// The value of `key`, to be changed; a missing one is set to the result of `make`.
            pub fn get_or_insert_with<'s>(
                &'s mut self,
                key: K,
                make: impl FnOnce() -> V,
                j: &'s Journal<P>,
            ) -> &'s mut V {
                let entry = match self.locate(&key) {
                    Ok(entry) => entry,
                    Err(spot) => self.add(spot, MapEntry { key, value: make() }, j),
                };
                self.lend_value(entry, j)
            }

            /// Takes the value of `key` out.
            pub fn remove<Q: ?Sized $(+ $bound)+>(&mut self, key: &Q, j: &Journal<P>) -> Option<V>
            where
                K: Borrow<Q>,
            {
                self.remove_entry(key, j).map(|(_, value)| value)
            }
        }

        impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Default for $Map<K, V, P> {
            fn default() -> Self {
                $Map::new()
            }
        }

        impl<'s, K: PSafe<P>, V: PSafe<P>, P: MemPool> IntoIterator for &'s $Map<K, V, P> {
            type Item = (&'s K, &'s V);
            type IntoIter = Iter<'s, K, V, P>;

            fn into_iter(self) -> Iter<'s, K, V, P> {
                self.iter()
            }
        }

        impl<K, V, Q: ?Sized $(+ $bound)+, P: MemPool> std::ops::Index<&Q> for $Map<K, V, P>
        where
            K: PSafe<P> + Borrow<Q> $(+ $bound)+,
            V: PSafe<P>,
        {
            type Output = V;

            /// # Panics
            /// If `key` has no value.
            fn index(&self, key: &Q) -> &V {
                self.get(key).expect("no entry found for key")
            }
        }

        impl<K: PSafe<P> + std::fmt::Debug, V: PSafe<P> + std::fmt::Debug, P: MemPool> std::fmt::Debug for $Map<K, V, P> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_map().entries(self).finish()
            }
        }

        impl<K: PSafe<P> $(+ $bound)+, V: PSafe<P> + PartialEq, P: MemPool> PartialEq for $Map<K, V, P> {
            fn eq(&self, other: &Self) -> bool {
                self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
            }
        }

        impl<K: PSafe<P> $(+ $bound)+, V: PSafe<P> + Eq, P: MemPool> Eq for $Map<K, V, P> {}
    };
}
pub(crate) use map;

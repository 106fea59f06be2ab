//! Code that hash maps and ordered maps share.
//!
//! A map has a `header` with its `len`, and finds keys: `find`, `locate` (the `Found` entry, or the
//! `Spot` where one belongs), `entry_at`, `add`, `take_found`, `unload`, `remove_entry`, `iter`,
//! `extend`. The macro adds the methods that follow from these.

/// The map `Map`, whose keys must be `bound`, with its `Found`, its `Spot`, and their entries.
macro_rules! map {
    ($Map:ident: $($bound:ident),+) => {
        use crate::types::entry::MapEntry;
        use crate::{Out, Journal, MemPool, PSafe, PoolTag};
        use crate::FoundBy;

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
                K: FoundBy<Q>,
            {
                self.find(key).map(|entry| &self.lend(entry).value)
            }

            /// The key and the value of `key`.
            pub fn get_key_value<Q: ?Sized $(+ $bound)+>(&self, key: &Q) -> Option<(&K, &V)>
            where
                K: FoundBy<Q>,
            {
                self.find(key).map(|entry| self.lend(entry)).map(|entry| (&entry.key, &entry.value))
            }

            /// Whether `key` has a value.
            pub fn contains_key<Q: ?Sized $(+ $bound)+>(&self, key: &Q) -> bool
            where
                K: FoundBy<Q>,
            {
                self.find(key).is_some()
            }

            /// The value of `key`, to be changed. It alone is logged.
            #[inline]
            pub fn get_mut<'s, Q: ?Sized $(+ $bound)+>(&'s mut self, key: &Q, j: &'s Journal<P>) -> Option<&'s mut V>
            where
                K: FoundBy<Q>,
            {
                self.find(key).map(|entry| self.lend_value(entry, j))
            }

            /// Sets the value of `key` and answers the old one. An equal key that is there stays.
            #[inline]
            pub fn insert(&mut self, key: K, value: V, j: &Journal<P>) -> Option<V> {
                match self.locate(&key) {
                    Ok(found) => Some(std::mem::replace(self.lend_value(self.entry_at(&found), j), value)),
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
                    Ok(found) => self.entry_at(&found),
                    Err(spot) => self.add(spot, MapEntry { key, value: make() }, j),
                };
                self.lend_value(entry, j)
            }

            /// The entry of `key`, to be read, changed or removed; or the place for one.
            pub fn entry<'s>(&'s mut self, key: K, j: &'s Journal<P>) -> Entry<'s, K, V, P> {
                match self.locate(&key) {
                    Ok(found) => Entry::Occupied(OccupiedEntry { map: self, found, j }),
                    Err(spot) => Entry::Vacant(VacantEntry { map: self, spot, key, j }),
                }
            }

            /// Adds an entry in place of the one with an equal key, which it answers.
            pub(crate) fn replace_entry(&mut self, key: K, value: V, j: &Journal<P>) -> Option<(K, V)> {
                match self.locate(&key) {
                    Ok(found) => {
                        let entry = self.entry_at(&found);
                        j.running().log(entry.cast(), MapEntry::<K, V>::SIZE);
                        // SAFETY: as in `lend`; borrowed mutably, and logged (OBJ-1).
                        let old = std::mem::replace(unsafe { &mut *entry }, MapEntry { key, value });
                        Some((old.key, old.value))
                    }
                    Err(spot) => {
                        self.add(spot, MapEntry { key, value }, j);
                        None
                    }
                }
            }

            /// Moves all entries of `other` into this map; of equal keys its values count. After a
            /// panic in the code of a key, those that were not moved yet are dropped.
            pub fn append(&mut self, other: &mut $Map<K, V, P>, j: &Journal<P>) {
                self.extend(std::mem::take(other), j);
            }

            /// Takes the value of `key` out.
            pub fn remove<Q: ?Sized $(+ $bound)+>(&mut self, key: &Q, j: &Journal<P>) -> Option<V>
            where
                K: FoundBy<Q>,
            {
                self.remove_entry(key, j).map(|(_, value)| value)
            }
        }

        impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> $Map<K, V, P> {
            /// Takes all entries out.
            pub fn drain(&mut self, _: &Journal<P>) -> std::vec::IntoIter<(K, V)> {
                std::mem::take(self).into_iter()
            }

            /// Takes the map apart and answers its keys.
            pub fn into_keys(self) -> impl ExactSizeIterator<Item = K> + DoubleEndedIterator {
                self.into_iter().map(|(key, _)| key)
            }

            /// Takes the map apart and answers its values.
            pub fn into_values(self) -> impl ExactSizeIterator<Item = V> + DoubleEndedIterator {
                self.into_iter().map(|(_, value)| value)
            }
        }

        /// The entries are read out and the blocks freed at once; an entry that is not taken from
        /// the iterator is dropped with it.
        impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> IntoIterator for $Map<K, V, P> {
            type Item = (K, V);
            type IntoIter = std::vec::IntoIter<(K, V)>;

            fn into_iter(self) -> std::vec::IntoIter<(K, V)> {
                let entries = std::mem::ManuallyDrop::new(self).unload();
                entries.into_iter().map(|MapEntry { key, value }| (key, value)).collect::<Vec<_>>().into_iter()
            }
        }

        /// An entry of a map, or the place for one.
        pub enum Entry<'s, K: PSafe<P>, V: PSafe<P>, P: MemPool> {
            /// The key has a value.
            Occupied(OccupiedEntry<'s, K, V, P>),
            /// It has none.
            Vacant(VacantEntry<'s, K, V, P>),
        }

        /// An entry of a map that is there.
        pub struct OccupiedEntry<'s, K: PSafe<P>, V: PSafe<P>, P: MemPool> {
            map: &'s mut $Map<K, V, P>,
            found: Found<K, V, P>,
            j: &'s Journal<P>,
        }

        /// The place for an entry of a map.
        pub struct VacantEntry<'s, K: PSafe<P>, V: PSafe<P>, P: MemPool> {
            map: &'s mut $Map<K, V, P>,
            spot: Spot<K, V, P>,
            key: K,
            j: &'s Journal<P>,
        }

        impl<'s, K: PSafe<P> $(+ $bound)+, V: PSafe<P>, P: MemPool> Entry<'s, K, V, P> {
            /// The value, to be changed; `value` if there is none.
            pub fn or_insert(self, value: V) -> &'s mut V {
                self.or_insert_with(|| value)
            }

            /// The value, to be changed; the result of `make` if there is none.
            pub fn or_insert_with(self, make: impl FnOnce() -> V) -> &'s mut V {
                self.or_insert_with_key(|_| make())
            }

            /// [`Entry::or_insert_with`] of the key.
            pub fn or_insert_with_key(self, make: impl FnOnce(&K) -> V) -> &'s mut V {
                match self {
                    Entry::Occupied(entry) => entry.into_mut(),
                    Entry::Vacant(entry) => {
                        let value = make(&entry.key);
                        entry.insert(value)
                    }
                }
            }

            /// The value, to be changed; the default if there is none.
            pub fn or_default(self) -> &'s mut V
            where
                V: Default,
            {
                self.or_insert_with(V::default)
            }

            /// Changes the value, if there is one.
            #[must_use]
            pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
                if let Entry::Occupied(entry) = &mut self {
                    change(entry.get_mut());
                }
                self
            }

            /// Sets the value, and answers it, to be changed.
            pub fn set(self, value: V) -> &'s mut V {
                match self {
                    Entry::Occupied(mut entry) => {
                        entry.insert(value);
                        entry.into_mut()
                    }
                    Entry::Vacant(entry) => entry.insert(value),
                }
            }

            /// The key.
            pub fn key(&self) -> &K {
                match self {
                    Entry::Occupied(entry) => entry.key(),
                    Entry::Vacant(entry) => entry.key(),
                }
            }
        }

        impl<'s, K: PSafe<P> $(+ $bound)+, V: PSafe<P>, P: MemPool> OccupiedEntry<'s, K, V, P> {
            /// The key that the map has.
            pub fn key(&self) -> &K {
                &self.map.lend(self.map.entry_at(&self.found)).key
            }

            /// The value.
            pub fn get(&self) -> &V {
                &self.map.lend(self.map.entry_at(&self.found)).value
            }

            /// The value, to be changed. It alone is logged.
            pub fn get_mut(&mut self) -> &mut V {
                self.map.lend_value(self.map.entry_at(&self.found), self.j)
            }

            /// The value, to be changed, for as long as the map is borrowed.
            pub fn into_mut(self) -> &'s mut V {
                let entry = self.map.entry_at(&self.found);
                self.map.lend_value(entry, self.j)
            }

            /// Replaces the value and answers the old one.
            pub fn insert(&mut self, value: V) -> V {
                std::mem::replace(self.get_mut(), value)
            }

            /// Takes the value out of the map.
            pub fn remove(self) -> V {
                self.remove_entry().1
            }

            /// Takes key and value out of the map.
            pub fn remove_entry(self) -> (K, V) {
                let MapEntry { key, value } = self.map.take_found(self.found, self.j);
                (key, value)
            }
        }

        impl<'s, K: PSafe<P> $(+ $bound)+, V: PSafe<P>, P: MemPool> VacantEntry<'s, K, V, P> {
            /// The key.
            pub fn key(&self) -> &K {
                &self.key
            }

            /// Takes the key back.
            pub fn into_key(self) -> K {
                self.key
            }

            /// Adds the entry, and answers its value.
            pub fn insert(self, value: V) -> &'s mut V {
                let VacantEntry { map, spot, key, j } = self;
                let entry = map.add(spot, MapEntry { key, value }, j);
                map.lend_value(entry, j)
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
            K: PSafe<P> + FoundBy<Q> $(+ $bound)+,
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

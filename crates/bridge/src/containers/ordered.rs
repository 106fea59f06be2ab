//! Keys in their order: `std::map` and `std::set`.

use super::keys::{Functions, Key, KeyBytes, with};
use crate::{ByteArray, CppClass, Extern, Gen, Lent, LentPair, Order, export};
use everbyte_object::{Journal, MemPool, PBTreeMap, PBTreeSet, PRefCell, PSafe};
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Values by keys, in the order of the keys.
#[derive(PSafe, Extern)]
#[persist(marker = K, marker = V)]
#[repr(C)]
pub struct Map<K: CppClass, V: CppClass, P: MemPool> {
    #[allow(clippy::type_complexity, reason = "the format in one place")]
    entries: PRefCell<PBTreeMap<Key<K, P>, ByteArray<V, P>, P>, P>,
}

#[export]
impl<K: CppClass, V: CppClass, P: MemPool> Map<K, V, P> {
    /// Empty.
    pub fn new(_: &Journal<P>) -> Self {
        Map { entries: PRefCell::new(PBTreeMap::new()) }
    }

    /// How many entries there are.
    pub fn count_all(&self) -> usize {
        self.entries.borrow().len()
    }

    /// The entry of a key.
    pub fn look(&self, key: Gen<'_, K>, order: Order<'_, K>) -> LentPair<K, V> {
        let entries = self.entries.borrow();
        LentPair::of(with(Functions::order(order), || entries.get_key_value(KeyBytes::of(key.bytes))))
    }

    /// The first entry.
    pub fn first(&self) -> LentPair<K, V> {
        LentPair::of(self.entries.borrow().iter().next())
    }

    /// The entry behind that of a key.
    pub fn after(&self, key: Gen<'_, K>, order: Order<'_, K>) -> LentPair<K, V> {
        let entries = self.entries.borrow();
        LentPair::of(with(Functions::order(order), || {
            entries.range::<KeyBytes, _>((Excluded(KeyBytes::of(key.bytes)), Unbounded)).next()
        }))
    }

    /// The last entry.
    pub fn last(&self) -> LentPair<K, V> {
        LentPair::of(self.entries.borrow().iter().next_back())
    }

    /// The entry before that of a key.
    pub fn before(&self, key: Gen<'_, K>, order: Order<'_, K>) -> LentPair<K, V> {
        let entries = self.entries.borrow();
        LentPair::of(with(Functions::order(order), || {
            entries.range::<KeyBytes, _>((Unbounded, Excluded(KeyBytes::of(key.bytes)))).next_back()
        }))
    }

    /// The first entry that does not lie before a key.
    pub fn from(&self, key: Gen<'_, K>, order: Order<'_, K>) -> LentPair<K, V> {
        let entries = self.entries.borrow();
        LentPair::of(with(Functions::order(order), || {
            entries.range::<KeyBytes, _>((Included(KeyBytes::of(key.bytes)), Unbounded)).next()
        }))
    }

    /// Adds an entry, or, if that is asked for, replaces the value; returns whether the key is new.
    pub fn put(&self, j: &Journal<P>, key: Gen<'_, K>, value: Gen<'_, V>, is_set: bool, order: Order<'_, K>) -> bool {
        let mut entries = self.entries.borrow_mut(j);
        with(Functions::order(order), || {
            let found = match is_set {
                true => entries.get_mut(KeyBytes::of(key.bytes), j).map(|old| old.update(value, j)),
                false => entries.get(KeyBytes::of(key.bytes)).map(|_| ()),
            };
            if found.is_none() {
                entries.insert(Key::from(key, j), ByteArray::from(value, j), j);
            }
            found.is_none()
        })
    }

    /// Removes an entry; returns whether it was there.
    pub fn cut(&self, j: &Journal<P>, key: Gen<'_, K>, order: Order<'_, K>) -> bool {
        let mut entries = self.entries.borrow_mut(j);
        with(Functions::order(order), || entries.remove(KeyBytes::of(key.bytes), j).is_some())
    }

    /// Removes all entries.
    pub fn empty_out(&self, j: &Journal<P>) {
        self.entries.borrow_mut(j).clear(j);
    }
}

/// Keys in their order.
#[derive(PSafe, Extern)]
#[persist(marker = K)]
#[repr(C)]
pub struct Set<K: CppClass, P: MemPool> {
    keys: PRefCell<PBTreeSet<Key<K, P>, P>, P>,
}

#[export]
impl<K: CppClass, P: MemPool> Set<K, P> {
    /// Empty.
    pub fn new(_: &Journal<P>) -> Self {
        Set { keys: PRefCell::new(PBTreeSet::new()) }
    }

    /// How many keys there are.
    pub fn count_all(&self) -> usize {
        self.keys.borrow().len()
    }

    /// A key of the set.
    pub fn look(&self, key: Gen<'_, K>, order: Order<'_, K>) -> Lent<K> {
        let keys = self.keys.borrow();
        Lent::of(with(Functions::order(order), || keys.get(KeyBytes::of(key.bytes))))
    }

    /// The first key.
    pub fn first(&self) -> Lent<K> {
        Lent::of(self.keys.borrow().iter().next())
    }

    /// The key behind another one.
    pub fn after(&self, key: Gen<'_, K>, order: Order<'_, K>) -> Lent<K> {
        let keys = self.keys.borrow();
        Lent::of(with(Functions::order(order), || {
            keys.range::<KeyBytes, _>((Excluded(KeyBytes::of(key.bytes)), Unbounded)).next()
        }))
    }

    /// The last key.
    pub fn last(&self) -> Lent<K> {
        Lent::of(self.keys.borrow().iter().next_back())
    }

    /// The key before another one.
    pub fn before(&self, key: Gen<'_, K>, order: Order<'_, K>) -> Lent<K> {
        let keys = self.keys.borrow();
        Lent::of(with(Functions::order(order), || {
            keys.range::<KeyBytes, _>((Unbounded, Excluded(KeyBytes::of(key.bytes)))).next_back()
        }))
    }

    /// The first key that does not lie before a key.
    pub fn from(&self, key: Gen<'_, K>, order: Order<'_, K>) -> Lent<K> {
        let keys = self.keys.borrow();
        Lent::of(with(Functions::order(order), || {
            keys.range::<KeyBytes, _>((Included(KeyBytes::of(key.bytes)), Unbounded)).next()
        }))
    }

    /// Adds a key; returns whether it is new.
    pub fn put(&self, j: &Journal<P>, key: Gen<'_, K>, order: Order<'_, K>) -> bool {
        let mut keys = self.keys.borrow_mut(j);
        with(Functions::order(order), || !keys.contains(KeyBytes::of(key.bytes)) && keys.insert(Key::from(key, j), j))
    }

    /// Removes a key; returns whether it was there.
    pub fn cut(&self, j: &Journal<P>, key: Gen<'_, K>, order: Order<'_, K>) -> bool {
        let mut keys = self.keys.borrow_mut(j);
        with(Functions::order(order), || keys.remove(KeyBytes::of(key.bytes), j))
    }

    /// Removes all keys.
    pub fn empty_out(&self, j: &Journal<P>) {
        self.keys.borrow_mut(j).clear(j);
    }
}

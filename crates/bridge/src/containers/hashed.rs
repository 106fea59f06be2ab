//! Keys by their hash: `std::unordered_map` and `std::unordered_set`.

use super::keys::{Functions, Key, KeyBytes, with};
use crate::{ByteArray, CppClass, Equal, Extern, Gen, Hash, Lent, LentPair, export};
use everbyte_object::{Journal, MemPool, PHashMap, PHashSet, PRefCell, PSafe};

/// Values by keys, in no order.
#[derive(PSafe, Extern)]
#[persist(marker = K, marker = V)]
#[repr(C)]
pub struct HashMap<K: CppClass, V: CppClass, P: MemPool> {
    #[allow(clippy::type_complexity, reason = "the format in one place")]
    entries: PRefCell<PHashMap<Key<K, P>, ByteArray<V, P>, P>, P>,
}

#[export]
impl<K: CppClass, V: CppClass, P: MemPool> HashMap<K, V, P> {
    /// Empty.
    pub fn new(_: &Journal<P>) -> Self {
        HashMap { entries: PRefCell::new(PHashMap::new()) }
    }

    /// How many entries there are.
    pub fn count_all(&self) -> usize {
        self.entries.borrow().len()
    }

    /// The entry of a key.
    pub fn look(&self, key: Gen<'_, K>, hash: Hash<'_, K>, equal: Equal<'_, K>) -> LentPair<K, V> {
        let entries = self.entries.borrow();
        LentPair::of(with(Functions::hash(hash, equal), || entries.get_key_value(KeyBytes::of(key.bytes))))
    }

    /// The first entry.
    pub fn first(&self) -> LentPair<K, V> {
        LentPair::of(self.entries.borrow().iter().next())
    }

    /// The entry behind that of a key.
    pub fn after(&self, key: Gen<'_, K>, hash: Hash<'_, K>, equal: Equal<'_, K>) -> LentPair<K, V> {
        let entries = self.entries.borrow();
        LentPair::of(with(Functions::hash(hash, equal), || entries.iter_after(KeyBytes::of(key.bytes)).next()))
    }

    /// Adds an entry, or, if that is asked for, replaces the value; returns whether the key is new.
    pub fn put(
        &self,
        j: &Journal<P>,
        key: Gen<'_, K>,
        value: Gen<'_, V>,
        is_set: bool,
        hash: Hash<'_, K>,
        equal: Equal<'_, K>,
    ) -> bool {
        let mut entries = self.entries.borrow_mut(j);
        with(Functions::hash(hash, equal), || {
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
    pub fn cut(&self, j: &Journal<P>, key: Gen<'_, K>, hash: Hash<'_, K>, equal: Equal<'_, K>) -> bool {
        let mut entries = self.entries.borrow_mut(j);
        with(Functions::hash(hash, equal), || entries.remove(KeyBytes::of(key.bytes), j).is_some())
    }

    /// Removes all entries.
    pub fn empty_out(&self, j: &Journal<P>) {
        self.entries.borrow_mut(j).clear(j);
    }
}

/// Keys in no order.
#[derive(PSafe, Extern)]
#[persist(marker = K)]
#[repr(C)]
pub struct HashSet<K: CppClass, P: MemPool> {
    keys: PRefCell<PHashSet<Key<K, P>, P>, P>,
}

#[export]
impl<K: CppClass, P: MemPool> HashSet<K, P> {
    /// Empty.
    pub fn new(_: &Journal<P>) -> Self {
        HashSet { keys: PRefCell::new(PHashSet::new()) }
    }

    /// How many keys there are.
    pub fn count_all(&self) -> usize {
        self.keys.borrow().len()
    }

    /// A key of the set.
    pub fn look(&self, key: Gen<'_, K>, hash: Hash<'_, K>, equal: Equal<'_, K>) -> Lent<K> {
        let keys = self.keys.borrow();
        Lent::of(with(Functions::hash(hash, equal), || keys.get(KeyBytes::of(key.bytes))))
    }

    /// The first key.
    pub fn first(&self) -> Lent<K> {
        Lent::of(self.keys.borrow().iter().next())
    }

    /// The key behind another one.
    pub fn after(&self, key: Gen<'_, K>, hash: Hash<'_, K>, equal: Equal<'_, K>) -> Lent<K> {
        let keys = self.keys.borrow();
        Lent::of(with(Functions::hash(hash, equal), || keys.iter_after(KeyBytes::of(key.bytes)).next()))
    }

    /// Adds a key; returns whether it is new.
    pub fn put(&self, j: &Journal<P>, key: Gen<'_, K>, hash: Hash<'_, K>, equal: Equal<'_, K>) -> bool {
        let mut keys = self.keys.borrow_mut(j);
        with(Functions::hash(hash, equal), || {
            !keys.contains(KeyBytes::of(key.bytes)) && keys.insert(Key::from(key, j), j)
        })
    }

    /// Removes a key; returns whether it was there.
    pub fn cut(&self, j: &Journal<P>, key: Gen<'_, K>, hash: Hash<'_, K>, equal: Equal<'_, K>) -> bool {
        let mut keys = self.keys.borrow_mut(j);
        with(Functions::hash(hash, equal), || keys.remove(KeyBytes::of(key.bytes), j))
    }

    /// Removes all keys.
    pub fn empty_out(&self, j: &Journal<P>) {
        self.keys.borrow_mut(j).clear(j);
    }
}

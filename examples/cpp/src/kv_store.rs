//! A hash table over classes that only C++ knows: ten buckets of keys, each with the place of its
//! value.

use everbyte_bridge::{ByteArray, Copied, CppClass, Equal, Extern, Gen, Hash, Visit, export};
use everbyte_object::{Journal, MemPool, PRefCell, PSafe, PVec};

const BUCKETS: usize = 10;

/// A key, and where its value is.
#[derive(PSafe)]
#[persist(marker = K)]
#[repr(C)]
pub struct Slot<K: CppClass, P: MemPool> {
    key: ByteArray<K, P>,
    index: u64,
}

type Bucket<K, P> = PRefCell<PVec<Slot<K, P>, P>, P>;

/// Values by keys, of any two classes.
#[derive(PSafe, Extern)]
#[persist(marker = K, marker = V)]
#[repr(C)]
pub struct KvStore<K: CppClass, V: CppClass, P: MemPool> {
    buckets: PVec<Bucket<K, P>, P>,
    values: PRefCell<PVec<ByteArray<V, P>, P>, P>,
}

#[export]
impl<K: CppClass, V: CppClass, P: MemPool> KvStore<K, V, P> {
    /// Empty.
    pub fn new(j: &Journal<P>) -> Self {
        let buckets = (0..BUCKETS).map(|_| PRefCell::new(PVec::new()));
        KvStore { buckets: PVec::from_iter(buckets, j), values: PRefCell::new(PVec::new()) }
    }

    /// How many keys there are.
    pub fn size(&self) -> usize {
        self.values.borrow().len()
    }

    /// The value of a key.
    pub fn get(&self, key: Gen<'_, K>, hash: Hash<'_, K>, equal: Equal<'_, K>) -> Option<Copied<V>> {
        let index = self.find(key, hash, equal)?;
        Some(self.values.borrow()[index].copied())
    }

    /// Sets the value of a key; returns whether the key is new.
    pub fn put(
        &self,
        j: &Journal<P>,
        key: Gen<'_, K>,
        value: Gen<'_, V>,
        hash: Hash<'_, K>,
        equal: Equal<'_, K>,
    ) -> bool {
        let mut values = self.values.borrow_mut(j);
        if let Some(index) = self.find(key, hash, equal) {
            values.get_mut(index, j).expect("a value for each key").update(value, j);
            return false;
        }
        let slot = Slot { key: ByteArray::from(key, j), index: values.len() as u64 };
        values.push(ByteArray::from(value, j), j);
        self.bucket(key, hash).borrow_mut(j).push(slot, j);
        true
    }

    /// Calls a function for each key with its value.
    pub fn each(&self, visit: Visit<'_, K, V>) {
        let values = self.values.borrow();
        for bucket in self.buckets.iter() {
            bucket.borrow().iter().for_each(|slot| visit.call(&slot.key, &values[slot.index as usize]));
        }
    }

    /// Removes everything.
    pub fn clear(&self, j: &Journal<P>) {
        self.values.borrow_mut(j).clear(j);
        self.buckets.iter().for_each(|bucket| bucket.borrow_mut(j).clear(j));
    }

    fn bucket(&self, key: Gen<'_, K>, hash: Hash<'_, K>) -> &Bucket<K, P> {
        &self.buckets[(hash.of(&key) % BUCKETS as u64) as usize]
    }

    fn find(&self, key: Gen<'_, K>, hash: Hash<'_, K>, equal: Equal<'_, K>) -> Option<usize> {
        let bucket = self.bucket(key, hash).borrow();
        bucket.iter().find(|slot| equal.of(&slot.key, &key)).map(|slot| slot.index as usize)
    }
}

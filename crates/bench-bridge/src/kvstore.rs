//! A hash table with chains and values of 64 bytes.

use everbyte_object::{Journal, MemPool, PCell, PRefCell, PSafe, PVec, Pbox};

/// The buckets.
pub type RecordTable<P> = PVec<Link<P>, P>;
type Link<P> = PRefCell<Option<Pbox<Entry<P>, P>>, P>;

/// A key and its value.
#[derive(PSafe)]
#[repr(C)]
pub struct Entry<P: MemPool> {
    key: u64,
    value: PCell<[u64; 8], P>,
    next: Link<P>,
}

/// An empty table.
pub fn new<P: MemPool>(buckets: usize, j: &Journal<P>) -> RecordTable<P> {
    PVec::from_iter((0..buckets).map(|_| PRefCell::new(None)), j)
}

#[inline]
fn bucket<P: MemPool>(table: &RecordTable<P>, key: u64) -> &Link<P> {
    &table[(key % table.len() as u64) as usize]
}

/// The sum of the words of the value of `key`, or 0.
pub fn get<P: MemPool>(table: &RecordTable<P>, key: u64) -> u64 {
    fn find<P: MemPool>(link: &Link<P>, key: u64) -> u64 {
        match &*link.borrow() {
            None => 0,
            Some(entry) if entry.key == key => entry.value.get().iter().fold(0, |sum, word| sum.wrapping_add(*word)),
            Some(entry) => find(&entry.next, key),
        }
    }
    find(bucket(table, key), key)
}

/// Puts a value made from a word; 1 if the key is new.
pub fn put<P: MemPool>(table: &RecordTable<P>, key: u64, word: u64, j: &Journal<P>) -> u64 {
    fn put_in<P: MemPool>(link: &Link<P>, key: u64, value: [u64; 8], j: &Journal<P>) -> u64 {
        let mut here = link.borrow_mut(j);
        match &*here {
            Some(entry) if entry.key == key => {
                entry.value.set(value, j);
                0
            }
            Some(entry) => put_in(&entry.next, key, value, j),
            None => {
                *here = Some(Pbox::new(Entry { key, value: PCell::new(value), next: PRefCell::new(None) }, j));
                1
            }
        }
    }
    put_in(bucket(table, key), key, std::array::from_fn(|index| word.wrapping_add(index as u64)), j)
}

/// Removes a key; 1 if it was there.
pub fn remove<P: MemPool>(table: &RecordTable<P>, key: u64, j: &Journal<P>) -> u64 {
    fn remove_from<P: MemPool>(link: &Link<P>, key: u64, j: &Journal<P>) -> u64 {
        let mut here = link.borrow_mut(j);
        match &*here {
            None => 0,
            Some(entry) if entry.key != key => remove_from(&entry.next, key, j),
            Some(_) => {
                let gone = here.take().expect("found").into_inner(j);
                *here = gone.next.into_inner();
                1
            }
        }
    }
    remove_from(bucket(table, key), key, j)
}

//! [`PHashMap`]: entries by the hash of their keys, in one block of the pool.
//!
//! Invariants
//!   MAP-1  A place that held an entry before the transaction and holds none now is noted. So a free place can be stored
//!          to unnoted: what an undo leaves there is nobody's, or is put back.
//!   MAP-2  Between the first store of a change and the last one no code of the program runs, and nothing can fail: the
//!          map is whole whenever a `Hash`, an `Eq` or a closure panics.
//!   MAP-3  `len` tags say entry; `left` more places may be used, and as many and one for each group are empty. Without a
//!          block all are 0.
//!
//! A larger table is built in a fresh block, which is not logged, while the old one stays as it is.
//!
//! Elsewhere: tags and places (`table`), the hash (`hasher`). Whoever lends a `&mut PHashMap` of the pool has noted its
//! six words (OBJ-1).

mod hasher;
mod iter;
mod table;
mod traits;

pub use iter::Iter;

use crate::{Journal, MemPool, PSafe, pool};
use everbyte_media::seeded;
use hasher::{KeyHasher, dialect};
use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::panic::RefUnwindSafe;
use table::{GROUP, Places, Slot, Table, USED};

/// As `HashMap`: what changes it takes a journal; values are changed with [`PHashMap::get_mut`]. Keys are hashed by
/// SipHash under a random key of the map's own, kept with it.
///
/// ```
/// # use everbyte_media::{Media, Options};
/// # use everbyte_store::{FormatOptions, Store};
/// use everbyte_object::{PHashMap, PRefCell, PString, Pool, pool};
/// pool!(P);
/// # let store = Store::format(Media::anonymous(16 << 20, &Options::default())?, &FormatOptions::default())?;
/// let stock = P::create::<PRefCell<PHashMap<PString<P>, u64, P>, P>>(&store, "stock", |_| PRefCell::default())?;
/// stock.tx(|j, stock| {
///     let mut stock = stock.borrow_mut(j);
///     stock.insert(PString::from_str("bread", j), 320, j);
///     *stock.get_or_insert_with(PString::from_str("milk", j), || 0, j) += 90;
/// })?;
/// assert_eq!(stock.borrow().get("bread"), Some(&320));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A key whose hash or equality changes while it is in a map, by a cell inside of it, is a mistake that loses the entry
/// for lookups, and nothing else: it is still iterated over and dropped with the map.
#[repr(C)]
pub struct PHashMap<K: PSafe<P>, V: PSafe<P>, P: MemPool> {
    header: Header,
    marker: PhantomData<(K, V, P)>,
    local: PhantomData<*mut ()>,
}

/// The bytes of a map.
#[derive(Clone, Copy)]
#[repr(C)]
struct Header {
    /// Of its block, from the pool's base; 0: none.
    offset: u64,
    /// Groups of the block: a power of two.
    groups: u32,
    /// How keys were fed to the hash when the table was built.
    dialect: u32,
    len: u64,
    /// Empty places that may still be used.
    left: u64,
    /// The hash's key; zeros until there is a block.
    seed: [u64; 2],
}

// SAFETY: as `HashMap`: `&PHashMap` gives `&K` and `&V`.
unsafe impl<K: PSafe<P> + Sync, V: PSafe<P> + Sync, P: MemPool> Sync for PHashMap<K, V, P> {}
// SAFETY: as `HashMap`, for what lies in the pool (a static brand).
unsafe impl<K, V, G: crate::PoolTag> Send for PHashMap<K, V, crate::In<'static, G>>
where
    K: PSafe<crate::In<'static, G>> + Send,
    V: PSafe<crate::In<'static, G>> + Send,
{
}
impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> RefUnwindSafe for PHashMap<K, V, P> {}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> PHashMap<K, V, P> {
    /// An empty map; allocates nothing.
    pub const fn new() -> PHashMap<K, V, P> {
        let header = Header { offset: 0, groups: 0, dialect: 0, len: 0, left: 0, seed: [0; 2] };
        PHashMap { header, marker: PhantomData, local: PhantomData }
    }

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

    /// Entries that fit without a larger block.
    pub fn capacity(&self) -> usize {
        (self.header.len + self.header.left) as usize
    }

    /// Drops all entries and frees the block.
    pub fn clear(&mut self, _: &Journal<P>) {
        drop(std::mem::take(self));
    }

    #[inline(always)]
    fn table(&self) -> Table<K, V> {
        let block = pool::base::<P>().wrapping_add(self.header.offset as usize);
        Table::new(block, u64::from(self.header.groups))
    }

    /// The places of entries.
    #[inline]
    fn places(&self) -> Places<K, V> {
        self.table().places()
    }

    #[inline(always)]
    fn key(&self, place: u64) -> &K {
        // SAFETY:
        // - in bounds and valid: the place holds an entry (MAP-3);
        // - alive: the pool is open (POOL-2), and the block is freed with its only owner;
        // - no writer: whoever changes entries borrows `self` mutably.
        unsafe { &(*self.table().slot(place)).key }
    }

    #[inline(always)]
    fn value(&self, place: u64) -> &V {
        // SAFETY: as in `key`.
        unsafe { &(*self.table().slot(place)).value }
    }

    /// The value at a place, to be changed. It alone is noted.
    #[inline]
    fn value_mut<'s>(&'s mut self, place: u64, j: &'s Journal<P>) -> &'s mut V {
        let value = self.table().value(place);
        j.running().log(value.cast(), size_of::<V>());
        // SAFETY: as in `key`; borrowed mutably, and noted (OBJ-1).
        unsafe { &mut *value }
    }

    /// The entries, in no order.
    #[inline]
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter::new(self.table(), self.len())
    }

    /// The keys, in no order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// The values, in no order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The entries, values to be changed; each value is noted when it is reached.
    pub fn iter_mut<'s>(&'s mut self, j: &'s Journal<P>) -> impl Iterator<Item = (&'s K, &'s mut V)> {
        let table = self.table();
        table.places().map(move |place| {
            let (slot, value) = (table.slot(place), table.value(place));
            j.running().log(value.cast(), size_of::<V>());
            // SAFETY: as in `key`; only values are lent to be changed.
            let key = unsafe { &(*slot).key };
            // SAFETY: as in `value_mut`: `self` stays borrowed mutably, and each place is reached once.
            (key, unsafe { &mut *value })
        })
    }

    /// The values, to be changed; each is noted when it is reached.
    pub fn values_mut<'s>(&'s mut self, j: &'s Journal<P>) -> impl Iterator<Item = &'s mut V> {
        self.iter_mut(j).map(|(_, value)| value)
    }

    /// Keeps the entries for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool, j: &Journal<P>) {
        let gone: Vec<u64> = self.places().filter(|&place| !keep(self.key(place), self.value(place))).collect();
        self.note(&gone, j);
        gone.into_iter().for_each(|place| drop(self.take_out(place)));
    }

    /// Notes places that will be free, and their tags (MAP-1).
    fn note(&self, places: &[u64], j: &Journal<P>) {
        let table = self.table();
        let slots = places.iter().map(|&place| (table.slot(place).cast(), size_of::<Slot<K, V>>()));
        let tags = places.iter().map(|&place| (table.tags(place / GROUP).cast(), GROUP as usize));
        let skipped = if seeded("object-map-place-unnoted") { places.len() } else { 0 };
        j.running().log_all(slots.skip(skipped).chain(tags));
    }

    /// The entry of a place that is noted.
    fn take_out(&mut self, place: u64) -> Slot<K, V> {
        let table = self.table();
        self.header.left += u64::from(table.give_back(place));
        self.header.len -= 1;
        // SAFETY: it held an entry, and nobody reads it there again.
        unsafe { table.slot(place).read() }
    }
}

impl<K: PSafe<P> + Hash + Eq, V: PSafe<P>, P: MemPool> PHashMap<K, V, P> {
    /// An empty map with room for `count` entries.
    pub fn with_capacity(count: usize, j: &Journal<P>) -> PHashMap<K, V, P> {
        let mut map = PHashMap::new();
        map.reserve(count, j);
        map
    }

    /// A map of what `items` yields; of equal keys the last value counts.
    pub fn from_iter(items: impl IntoIterator<Item = (K, V)>, j: &Journal<P>) -> PHashMap<K, V, P> {
        let mut map = PHashMap::new();
        map.extend(items, j);
        map
    }

    /// The value of `key`.
    #[inline]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.find(key).map(|place| self.value(place))
    }

    /// The key and the value of `key`.
    pub fn get_key_value<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.find(key).map(|place| (self.key(place), self.value(place)))
    }

    /// Whether `key` has a value.
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_some()
    }

    /// The value of `key`, to be changed. It alone is noted.
    #[inline]
    pub fn get_mut<'s, Q: Hash + Eq + ?Sized>(&'s mut self, key: &Q, j: &'s Journal<P>) -> Option<&'s mut V>
    where
        K: Borrow<Q>,
    {
        self.find(key).map(|place| self.value_mut(place, j))
    }

    /// Sets the value of `key` and answers the old one. An equal key that is there stays.
    #[inline]
    pub fn insert(&mut self, key: K, value: V, j: &Journal<P>) -> Option<V> {
        if let Some(place) = self.find(&key) {
            return Some(std::mem::replace(self.value_mut(place, j), value));
        }
        self.add(key, value, j);
        None
    }

    /// The value of `key`, to be changed; set to what `make` returns if there was none.
    pub fn get_or_insert_with<'s>(&'s mut self, key: K, make: impl FnOnce() -> V, j: &'s Journal<P>) -> &'s mut V {
        let place = match self.find(&key) {
            Some(place) => place,
            None => self.add(key, make(), j),
        };
        self.value_mut(place, j)
    }

    /// Takes the value of `key` out.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q, j: &Journal<P>) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.remove_entry(key, j).map(|(_, value)| value)
    }

    /// Takes `key` and its value out.
    pub fn remove_entry<Q: Hash + Eq + ?Sized>(&mut self, key: &Q, j: &Journal<P>) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        let place = self.find(key)?;
        self.note(&[place], j);
        let Slot { key, value } = self.take_out(place);
        Some((key, value))
    }

    /// Adds what `items` yields; of equal keys the last value counts.
    pub fn extend(&mut self, items: impl IntoIterator<Item = (K, V)>, j: &Journal<P>) {
        let items = items.into_iter();
        self.reserve(items.size_hint().0, j);
        items.for_each(|(key, value)| drop(self.insert(key, value, j)));
    }

    /// Makes room for `more` entries.
    pub fn reserve(&mut self, more: usize, j: &Journal<P>) {
        if (self.header.left as usize) < more {
            self.rebuild(more, j);
        }
    }

    #[inline]
    fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        let mut hasher = KeyHasher::new(self.header.seed);
        key.hash(&mut hasher);
        hasher.finish()
    }

    /// The place of `key`.
    #[inline]
    fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<u64>
    where
        K: Borrow<Q>,
    {
        if self.is_empty() {
            return None;
        }
        if self.header.dialect != dialect() {
            return self.places().find(|&place| self.key(place).borrow() == key);
        }
        let table = self.table();
        // SAFETY: a place that holds an entry, as in `key`.
        table.find(self.hash(key), |slot| unsafe { &(*slot).key }.borrow() == key)
    }

    /// Adds an entry whose key is not there; answers its place.
    #[inline]
    fn add(&mut self, key: K, value: V, j: &Journal<P>) -> u64 {
        if self.header.left == 0 || self.header.dialect != dialect() {
            self.rebuild(1, j);
        }
        let hash = self.hash(&key);
        let table = self.table();
        let (place, was_empty) = table.free(hash);
        let running = j.running();
        running.log(table.tags(place / GROUP).cast(), GROUP as usize);
        running.overwrite(running.offset_of(table.slot(place)), size_of::<Slot<K, V>>() as u64); // MAP-1
        // SAFETY: a free place of the block.
        unsafe { table.slot(place).write(Slot { key, value }) };
        table.take(place, hash);
        self.header.len += 1;
        self.header.left -= u64::from(was_empty);
        place
    }

    /// Moves the entries to a fresh block with room for `more`: one of the same size if half of it is enough.
    #[cold]
    fn rebuild(&mut self, more: usize, j: &Journal<P>) {
        let running = j.running();
        let hashes: Vec<u64> = self.places().map(|place| self.hash(self.key(place))).collect(); // MAP-2
        let wanted = self.header.len.checked_add(more as u64).expect("more entries than there are numbers");
        let all = u64::from(self.header.groups) * USED;
        let fits = wanted <= all / 2 || self.header.left >= more as u64;
        let room = if fits { all } else { wanted.max(all + 1) };
        let groups = room.div_ceil(USED).checked_next_power_of_two().and_then(|groups| u32::try_from(groups).ok());
        let groups = groups.expect("more entries than a table can have");
        let bytes = Table::<K, V>::bytes(groups.into()).expect("more bytes than there are addresses");
        let (offset, _) = running.allocate_sized(bytes);
        let to = Table::new(pool::base::<P>().wrapping_add(offset as usize), groups.into());
        to.clear();
        let from = self.table();
        for (place, hash) in self.places().zip(hashes) {
            let (free, _) = to.free(hash);
            to.take(free, hash);
            // SAFETY: an entry, to a free place of a block of this transaction's own; nobody reads the old one again.
            unsafe { to.slot(free).copy_from_nonoverlapping(from.slot(place), 1) };
        }
        if self.header.offset != 0 {
            running.free(self.header.offset);
        } else {
            self.header.seed = hasher::seed(running, offset);
        }
        let left = u64::from(groups) * USED - self.header.len;
        self.header = Header { offset, groups, dialect: dialect(), left, ..self.header };
    }
}

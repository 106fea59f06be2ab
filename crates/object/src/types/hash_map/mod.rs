//! [`PHashMap`]: entries by the hash of their keys, in one block of the pool.
//!
//! Invariants
//!   HMAP-1  A place that held an entry before the transaction and holds none now is logged. So a
//!           free place can be stored to without a log entry: after an undo its bytes are unused,
//!           or are put back.
//!   HMAP-2  Between the first store of a change and the last one no code of the program runs, and
//!           nothing can fail: the map is whole whenever a `Hash`, an `Eq` or a closure panics.
//!   HMAP-3  `len` tags say entry; `left` more places may be used, and as many and one for each
//!           group are empty. Without a block all are 0.
//!
//! A larger table is built in a fresh block, which is not logged, while the old one stays as it is.
//!
//! Elsewhere: tags and places (`table`), the hash (`hasher`). Every `&mut PHashMap` of the pool
//! comes from a loan that has logged its six words (OBJ-1).

mod hasher;
mod iter;
mod persist;
mod table;
pub(crate) mod tags;

pub use iter::Iter;

use crate::{transaction::pool, transaction::running, types::map::map};
use everbyte_media::seeded;
use hasher::KeyHasher;
pub(crate) use hasher::dialect;
pub(crate) use hasher::seed_of;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use table::{EntryTable, Places};
use tags::{GROUP, USED};

map!(PHashMap: Hash, Eq);

/// The place of an entry.
type Found<K, V, P> = OfMap<u64, K, V, P>;
/// Nothing: a place is searched when the entry is added.
type Spot<K, V, P> = OfMap<(), K, V, P>;

/// A position in a map of that type.
struct OfMap<T, K, V, P>(T, PhantomData<(K, V, P)>);

/// As `HashMap`: methods that change it take a journal; values are changed with
/// [`PHashMap::get_mut`]. Keys are hashed by SipHash under a random key of the map's own, kept with
/// it.
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
/// A key whose hash or equality changes while it is in a map, by a cell inside of it, is a mistake
/// that loses the entry for lookups, and nothing else: it is still iterated over and dropped with
/// the map.
#[repr(C)]
pub struct PHashMap<K: PSafe<P>, V: PSafe<P>, P: MemPool> {
    header: HashMapHeader,
    marker: PhantomData<(K, V, P)>,
    local: PhantomData<*mut ()>,
}

/// The bytes of a map.
#[derive(Clone, Copy)]
#[repr(C)]
struct HashMapHeader {
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

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> PHashMap<K, V, P> {
    /// An empty map; allocates nothing.
    pub const fn new() -> PHashMap<K, V, P> {
        let header = HashMapHeader { offset: 0, groups: 0, dialect: 0, len: 0, left: 0, seed: [0; 2] };
        PHashMap { header, marker: PhantomData, local: PhantomData }
    }

    /// Entries that fit without a larger block.
    pub fn capacity(&self) -> usize {
        (self.header.len + self.header.left) as usize
    }

    #[inline(always)]
    fn table(&self) -> EntryTable<K, V> {
        let block = pool::base::<P>().wrapping_add(self.header.offset as usize);
        EntryTable::new(block, u64::from(self.header.groups))
    }

    /// The entries, in no order.
    #[inline]
    pub fn iter(&self) -> Iter<'_, K, V, P> {
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

    /// The entries, values to be changed; each value is logged when it is reached.
    pub fn iter_mut<'s>(&'s mut self, j: &'s Journal<P>) -> impl Iterator<Item = (&'s K, &'s mut V)> {
        let table = self.table();
        table.places().map(move |place| {
            let value = MapEntry::value(table.entry(place));
            j.running().log(value.cast(), size_of::<V>());
            // SAFETY: as in `lend`; of entries only values are lent to be changed.
            let key = unsafe { &(*table.entry(place)).key };
            // SAFETY: as in `lend_value`: `self` stays borrowed mutably, and each place is reached
            // once.
            (key, unsafe { &mut *value })
        })
    }

    /// The values, to be changed; each is logged when it is reached.
    pub fn values_mut<'s>(&'s mut self, j: &'s Journal<P>) -> impl Iterator<Item = &'s mut V> {
        self.iter_mut(j).map(|(_, value)| value)
    }

    /// Keeps the entries for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool, j: &Journal<P>) {
        let table = self.table();
        let goes = |place: &u64| {
            let entry = self.lend(table.entry(*place));
            !keep(&entry.key, &entry.value)
        };
        let gone: Vec<u64> = table.places().filter(goes).collect();
        self.log_places(&gone, j);
        gone.into_iter().for_each(|place| drop(self.take_out(place)));
    }

    /// Notes places that will be free, and their tags (HMAP-1).
    fn log_places(&self, places: &[u64], j: &Journal<P>) {
        let table = self.table();
        let entries = places.iter().map(|&place| (table.entry(place).cast(), MapEntry::<K, V>::SIZE));
        let tags = places.iter().map(|&place| (table.tags(place / GROUP).cast(), GROUP as usize));
        let skipped = if seeded("object-map-place-unnoted") { places.len() } else { 0 };
        j.running().log_all(entries.skip(skipped).chain(tags));
    }

    #[inline]
    fn entry_at(&self, found: &Found<K, V, P>) -> *mut MapEntry<K, V> {
        self.table().entry(found.0)
    }

    /// Takes an entry out.
    fn take_found(&mut self, found: Found<K, V, P>, j: &Journal<P>) -> MapEntry<K, V> {
        self.log_places(&[found.0], j);
        self.take_out(found.0)
    }

    /// All entries, whose owner is gone; the block is freed.
    fn unload(&self) -> Vec<MapEntry<K, V>> {
        let table = self.table();
        // SAFETY: entries, each read once.
        let all = table.places().map(|place| unsafe { table.entry(place).read() }).collect();
        if self.header.offset != 0 {
            running::with_current::<P::Tag, _>(|running| running.map(|running| running.free(self.header.offset)));
        }
        all
    }

    /// The entry of a place that is logged.
    fn take_out(&mut self, place: u64) -> MapEntry<K, V> {
        let table = self.table();
        self.header.left += u64::from(table.give_back(place));
        self.header.len -= 1;
        // SAFETY: it held an entry, which is not read there again.
        unsafe { table.entry(place).read() }
    }
}

impl<K: PSafe<P> + Hash + Eq, V: PSafe<P>, P: MemPool> PHashMap<K, V, P> {
    /// An empty map with space for `count` entries.
    pub fn with_capacity(count: usize, j: &Journal<P>) -> PHashMap<K, V, P> {
        let mut map = PHashMap::new();
        map.reserve(count, j);
        map
    }

    /// Takes `key` and its value out.
    pub fn remove_entry<Q: Hash + Eq + ?Sized>(&mut self, key: &Q, j: &Journal<P>) -> Option<(K, V)>
    where
        K: FoundBy<Q>,
    {
        let place = self.place(key)?;
        self.log_places(&[place], j);
        let MapEntry { key, value } = self.take_out(place);
        Some((key, value))
    }

    /// Adds the entries of `items`; of equal keys the last value counts.
    pub fn extend(&mut self, items: impl IntoIterator<Item = (K, V)>, j: &Journal<P>) {
        let items = items.into_iter();
        self.reserve(items.size_hint().0, j);
        items.for_each(|(key, value)| drop(self.insert(key, value, j)));
    }

    /// The entries behind the one of `key`, in the order of [`PHashMap::iter`]; none if `key` has
    /// no value. A walk that cannot hold an iterator goes on by it. The order changes when the map
    /// makes space.
    pub fn iter_after<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> impl Iterator<Item = (&K, &V)>
    where
        K: FoundBy<Q>,
    {
        let table = self.table();
        let places = self.place(key).map(|place| table.places_after(place));
        places.into_iter().flatten().map(move |place| {
            let entry = self.lend(table.entry(place));
            (&entry.key, &entry.value)
        })
    }

    /// Makes space for `more` entries.
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
    fn place<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<u64>
    where
        K: FoundBy<Q>,
    {
        if self.is_empty() {
            return None;
        }
        let table = self.table();
        let is = |place: &u64| self.lend(table.entry(*place)).key.borrow() == key;
        match self.header.dialect == dialect() {
            true => table.find(self.hash(key), is),
            false => table.places().find(is),
        }
    }

    /// The place of the entry of `key`.
    #[inline]
    fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<*mut MapEntry<K, V>>
    where
        K: FoundBy<Q>,
    {
        self.place(key).map(|place| self.table().entry(place))
    }

    /// The place of the entry of `key`, or that there is none.
    #[inline]
    fn locate(&self, key: &K) -> Result<Found<K, V, P>, Spot<K, V, P>> {
        self.place(key).map(|place| OfMap(place, PhantomData)).ok_or(OfMap((), PhantomData))
    }

    /// Adds an entry whose key is not there; answers where it lies.
    #[inline]
    fn add(&mut self, _: Spot<K, V, P>, entry: MapEntry<K, V>, j: &Journal<P>) -> *mut MapEntry<K, V> {
        if self.header.left == 0 || self.header.dialect != dialect() {
            self.rebuild(1, j);
        }
        let hash = self.hash(&entry.key);
        let table = self.table();
        let (place, was_empty) = table.free(hash);
        let (at, running) = (table.entry(place), j.running());
        running.log(table.tags(place / GROUP).cast(), GROUP as usize);
        running.overwrite(running.offset_of(at), MapEntry::<K, V>::SIZE as u64); // HMAP-1
        // SAFETY: a free place of the block.
        unsafe { at.write(entry) };
        table.take(place, hash);
        self.header.len += 1;
        self.header.left -= u64::from(was_empty);
        at
    }

    /// Moves the entries to a new block with space for `more`: one of the same size if half of it
    /// is enough.
    #[cold]
    fn rebuild(&mut self, more: usize, j: &Journal<P>) {
        let running = j.running();
        let from = self.table();
        let key = |place| &self.lend(from.entry(place)).key;
        let hashes: Vec<u64> = from.places().map(|place| self.hash(key(place))).collect(); // HMAP-2
        let wanted = self.header.len.checked_add(more as u64).expect("more entries than there are numbers");
        let all = u64::from(self.header.groups) * USED;
        let fits = wanted <= all / 2 || self.header.left >= more as u64;
        let room = if fits { all } else { wanted.max(all + 1) };
        let groups = room.div_ceil(USED).checked_next_power_of_two().and_then(|groups| u32::try_from(groups).ok());
        let groups = groups.expect("more entries than a table can have");
        let bytes =
            tags::bytes(groups.into(), MapEntry::<K, V>::SIZE as u64).expect("more bytes than there are addresses");
        let (offset, _) = running.allocate_sized(bytes as usize);
        let to = EntryTable::new(pool::base::<P>().wrapping_add(offset as usize), groups.into());
        to.clear();
        for (place, hash) in from.places().zip(hashes) {
            let (free, _) = to.free(hash);
            to.take(free, hash);
            // SAFETY: an entry, to a free place of a block of this transaction's own; the old one
            // is not read again.
            unsafe { to.entry(free).copy_from_nonoverlapping(from.entry(place), 1) };
        }
        if self.header.offset != 0 {
            running.free(self.header.offset);
        } else {
            self.header.seed = hasher::seed(running, offset);
        }
        let left = u64::from(groups) * USED - self.header.len;
        self.header = HashMapHeader { offset, groups, dialect: dialect(), left, ..self.header };
    }
}

/// The hash of a key.
#[cfg(feature = "serde")]
pub(crate) fn hash_of(seed: [u64; 2], key: &impl Hash) -> u64 {
    let mut hasher = KeyHasher::new(seed);
    key.hash(&mut hasher);
    hasher.finish()
}

/// The tags of a table of so many groups that keys with these hashes are put into, and the place of
/// each; at most seven for each group.
#[cfg(feature = "serde")]
pub(crate) fn places(groups: u64, hashes: impl Iterator<Item = u64>) -> (Vec<u64>, Vec<u64>) {
    let mut words = vec![0u64; groups as usize];
    let table = EntryTable::<(), ()>::new(words.as_mut_ptr().cast(), groups);
    let put = |hash| {
        let (place, _) = table.free(hash);
        table.take(place, hash);
        place
    };
    let places = hashes.map(put).collect();
    (words, places)
}

//! [`PBTreeMap`]: entries in the order of their keys, in a B-tree of small nodes.
//!
//! Invariants
//!   BTREE-1  All leaves are equally deep; every node has entries, and between two of them, before
//!            the first and behind the last one, a node above the leaves has an edge. `len` entries
//!            are in all nodes together.
//!   BTREE-2  Code of the program runs while the tree is searched or between two changes, never
//!            inside one: the map is whole whenever an `Ord` or a closure panics.
//!
//! A comparison that contradicts itself leads to wrong answers, and to nothing else: a path stays
//! in the tree, and the ends of a range are looked at before it is lent out.
//!
//! Elsewhere: nodes (`node`), paths through them (`path`), changes (`change`). Every `&mut
//! PBTreeMap` of the pool comes from a loan that has logged its two words (OBJ-1).

mod change;
mod iter;
mod node;
mod path;
mod persist;

pub use iter::{Iter, Range};

use crate::transaction::running;
use crate::types::map::map;
use iter::Places;
use node::Node;
use path::Path;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

map!(PBTreeMap: Ord);

/// The path to an entry.
type Found<K, V, P> = Path<K, V, P>;
/// The path to the gap where an entry belongs.
type Spot<K, V, P> = Path<K, V, P>;

/// As `BTreeMap`: methods that change it take a journal; values are changed with
/// [`PBTreeMap::get_mut`].
///
/// ```
/// # use everbyte_media::{Media, Options};
/// # use everbyte_store::{FormatOptions, Store};
/// use everbyte_object::{PBTreeMap, PRefCell, PString, Pool, pool};
/// use std::ops::Bound::{Excluded, Unbounded};
/// pool!(P);
/// # let store = Store::format(Media::anonymous(16 << 20, &Options::default())?, &FormatOptions::default())?;
/// let prices = P::create::<PRefCell<PBTreeMap<PString<P>, u64, P>, P>>(&store, "prices", |_| PRefCell::default())?;
/// prices.tx(|j, prices| {
///     let mut prices = prices.borrow_mut(j);
///     for (name, price) in [("milk", 90), ("bread", 320), ("salt", 40)] {
///         prices.insert(PString::from_str(name, j), price, j);
///     }
/// })?;
/// let prices = prices.borrow();
/// let names: Vec<&str> = prices.iter().filter(|(_, price)| **price < 100).map(|(name, _)| name.as_str()).collect();
/// assert_eq!(names, ["milk", "salt"]);
/// assert_eq!(prices.range::<str, _>((Excluded("milk"), Unbounded)).next().unwrap().1, &40);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A key whose order changes while it is in a map, by a cell inside of it, is a mistake that may
/// lose entries for lookups, and nothing else: they are still iterated over and dropped with the
/// map.
#[repr(C)]
pub struct PBTreeMap<K: PSafe<P>, V: PSafe<P>, P: MemPool> {
    header: TreeHeader,
    marker: PhantomData<(K, V, P)>,
    local: PhantomData<*mut ()>,
}

/// The bytes of a map.
#[derive(Clone, Copy)]
#[repr(C)]
struct TreeHeader {
    /// Of its root, from the pool's base; 0: none.
    root: u64,
    len: u64,
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> PBTreeMap<K, V, P> {
    /// An empty map; allocates nothing.
    pub const fn new() -> PBTreeMap<K, V, P> {
        PBTreeMap { header: TreeHeader { root: 0, len: 0 }, marker: PhantomData, local: PhantomData }
    }

    #[inline(always)]
    fn root(&self) -> Option<Node<K, V, P>> {
        (self.header.root != 0).then(|| Node::new(self.header.root))
    }

    /// The range of all entries.
    fn places(&self) -> Places<K, V, P> {
        Places { front: Path::gap(self.root(), |_| false), back: Path::gap(self.root(), |_| true) }
    }

    /// The entries, in the order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V, P> {
        Iter::new(self.places(), self.len())
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> + DoubleEndedIterator {
        self.iter().map(|(key, _)| key)
    }

    /// The values, in the order of their keys.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> + DoubleEndedIterator {
        self.iter().map(|(_, value)| value)
    }

    /// The entries in order, values to be changed; each value is logged when it is reached.
    pub fn iter_mut<'s>(&'s mut self, j: &'s Journal<P>) -> impl DoubleEndedIterator<Item = (&'s K, &'s mut V)> {
        self.lend_each(self.places(), j)
    }

    /// The values in the order of their keys, to be changed; each is logged when it is reached.
    pub fn values_mut<'s>(&'s mut self, j: &'s Journal<P>) -> impl DoubleEndedIterator<Item = &'s mut V> {
        self.iter_mut(j).map(|(_, value)| value)
    }

    fn lend_each<'s>(
        &'s mut self,
        places: Places<K, V, P>,
        j: &'s Journal<P>,
    ) -> impl DoubleEndedIterator<Item = (&'s K, &'s mut V)> {
        places.map(move |entry| {
            let value = MapEntry::value(entry);
            j.running().log(value.cast(), size_of::<V>());
            // SAFETY: as in `lend`; of entries only values are lent to be changed.
            let key = unsafe { &(*entry).key };
            // SAFETY: as in `lend_value`: `self` stays borrowed mutably, and each place is reached
            // once.
            (key, unsafe { &mut *value })
        })
    }

    /// The entry with the smallest key.
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// The entry with the largest key.
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next_back()
    }

    /// Takes the entry with the smallest key out.
    pub fn pop_first(&mut self, j: &Journal<P>) -> Option<(K, V)> {
        let mut path = Path::gap(self.root(), |_| false);
        path.seek_next().then(|| self.take_out(path, j)).map(|entry| (entry.key, entry.value))
    }

    /// Takes the entry with the largest key out.
    pub fn pop_last(&mut self, j: &Journal<P>) -> Option<(K, V)> {
        let mut path = Path::gap(self.root(), |_| true);
        path.seek_previous().then(|| self.take_out(path, j)).map(|entry| (entry.key, entry.value))
    }
}

impl<K: PSafe<P> + Ord, V: PSafe<P>, P: MemPool> PBTreeMap<K, V, P> {
    /// Takes `key` and its value out.
    pub fn remove_entry<Q: Ord + ?Sized>(&mut self, key: &Q, j: &Journal<P>) -> Option<(K, V)>
    where
        K: FoundBy<Q>,
    {
        let path = Path::search(self.root(), |other: &K| other.borrow().cmp(key)).ok()?;
        let MapEntry { key, value } = self.take_out(path, j);
        Some((key, value))
    }

    /// Takes the entries from `key` on out, as a map of their own.
    pub fn split_off<Q: Ord + ?Sized>(&mut self, key: &Q, j: &Journal<P>) -> PBTreeMap<K, V, P>
    where
        K: FoundBy<Q>,
    {
        // Keys are compared here; from then on nothing of the program is called.
        let count = self.places_in((Bound::Included(key), Bound::Unbounded)).count();
        let entries: Vec<_> = (0..count).filter_map(|_| self.pop_last(j)).collect();
        let mut rest = PBTreeMap::new();
        for (key, value) in entries.into_iter().rev() {
            rest.add(Path::gap(rest.root(), |_| true), MapEntry { key, value }, j);
        }
        rest
    }

    /// The entry with the smallest key.
    pub fn first_entry<'s>(&'s mut self, j: &'s Journal<P>) -> Option<OccupiedEntry<'s, K, V, P>> {
        let mut path = Path::gap(self.root(), |_| false);
        path.seek_next().then_some(OccupiedEntry { map: self, found: path, j })
    }

    /// The entry with the largest key.
    pub fn last_entry<'s>(&'s mut self, j: &'s Journal<P>) -> Option<OccupiedEntry<'s, K, V, P>> {
        let mut path = Path::gap(self.root(), |_| true);
        path.seek_previous().then_some(OccupiedEntry { map: self, found: path, j })
    }

    /// Adds the entries of `items`; of equal keys the last value counts.
    pub fn extend(&mut self, items: impl IntoIterator<Item = (K, V)>, j: &Journal<P>) {
        items.into_iter().for_each(|(key, value)| drop(self.insert(key, value, j)));
    }

    /// Keeps the entries for which `keep` is true; they are visited in order.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool, j: &Journal<P>) {
        let mut path = Path::gap(self.root(), |_| false);
        while path.seek_next() {
            let entry = self.lend(path.place());
            if keep(&entry.key, &entry.value) {
                path.step_over();
            } else {
                let gone = self.take_out(path, j);
                path = Path::gap(self.root(), |key| key.cmp(&gone.key).is_lt());
            }
        }
    }

    /// The entries whose keys lie in a range, in order.
    ///
    /// # Panics
    /// If its end lies before its start, or both are the same key, excluded.
    pub fn range<Q: Ord + ?Sized, R: RangeBounds<Q>>(&self, range: R) -> Range<'_, K, V, P>
    where
        K: FoundBy<Q>,
    {
        Range::new(self.places_in(range))
    }

    /// [`PBTreeMap::range`], values to be changed; each is logged when it is reached.
    ///
    /// # Panics
    /// As [`PBTreeMap::range`].
    pub fn range_mut<'s, Q: Ord + ?Sized, R: RangeBounds<Q>>(
        &'s mut self,
        range: R,
        j: &'s Journal<P>,
    ) -> impl DoubleEndedIterator<Item = (&'s K, &'s mut V)>
    where
        K: FoundBy<Q>,
    {
        self.lend_each(self.places_in(range), j)
    }

    fn places_in<Q: Ord + ?Sized>(&self, range: impl RangeBounds<Q>) -> Places<K, V, P>
    where
        K: FoundBy<Q>,
    {
        use Bound::{Excluded, Included, Unbounded};
        let (start, end) = (range.start_bound(), range.end_bound());
        match (start, end) {
            (Excluded(start), Excluded(end)) if start.cmp(end).is_eq() => {
                panic!("a range from a key to itself, excluded")
            }
            (Included(start) | Excluded(start), Included(end) | Excluded(end)) => {
                assert!(start.cmp(end).is_le(), "a range whose end lies before its start");
            }
            _ => {}
        }
        let front = Path::gap(self.root(), |key: &K| match start {
            Included(start) => key.borrow().cmp(start).is_lt(),
            Excluded(start) => key.borrow().cmp(start).is_le(),
            Unbounded => false,
        });
        let back = Path::gap(self.root(), |key: &K| match end {
            Included(end) => key.borrow().cmp(end).is_le(),
            Excluded(end) => key.borrow().cmp(end).is_lt(),
            Unbounded => true,
        });
        assert!(!front.is_behind(&back), "keys whose order contradicts itself");
        Places { front, back }
    }

    /// The position of the entry of `key`.
    #[inline]
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Option<*mut MapEntry<K, V>>
    where
        K: FoundBy<Q>,
    {
        let mut node = self.root()?;
        loop {
            match node.search(|other: &K| other.borrow().cmp(key)) {
                Ok(index) => return Some(node.entry(index)),
                Err(_) if node.level() == 0 => return None,
                Err(gap) => node = node.child(gap),
            }
        }
    }

    /// The path to the entry of `key`, or to the gap that it belongs in.
    #[inline]
    fn locate(&self, key: &K) -> Result<Found<K, V, P>, Spot<K, V, P>> {
        Path::search(self.root(), |other: &K| other.cmp(key))
    }
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> PBTreeMap<K, V, P> {
    #[inline]
    fn entry_at(&self, found: &Found<K, V, P>) -> *mut MapEntry<K, V> {
        found.place()
    }

    /// Takes an entry out.
    fn take_found(&mut self, found: Found<K, V, P>, j: &Journal<P>) -> MapEntry<K, V> {
        self.take_out(found, j)
    }

    /// All entries in order, whose owner is gone; the nodes are freed.
    fn unload(&self) -> Vec<MapEntry<K, V>> {
        // SAFETY: entries, each read once.
        let all = self.places().map(|entry| unsafe { entry.read() }).collect();
        running::with_current::<P::Tag, _>(|running| {
            if let (Some(root), Some(running)) = (self.root(), running) {
                root.free(running);
            }
        });
        all
    }
}

impl<K: PSafe<P> + Ord, V: PSafe<P> + PartialOrd, P: MemPool> PartialOrd for PBTreeMap<K, V, P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.iter().partial_cmp(other.iter())
    }
}

impl<K: PSafe<P> + Ord, V: PSafe<P> + Ord, P: MemPool> Ord for PBTreeMap<K, V, P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.iter().cmp(other.iter())
    }
}

impl<K: PSafe<P> + Ord + Hash, V: PSafe<P> + Hash, P: MemPool> Hash for PBTreeMap<K, V, P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.len());
        self.iter().for_each(|entry| entry.hash(state));
    }
}

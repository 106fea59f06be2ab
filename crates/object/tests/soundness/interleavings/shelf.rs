//! The pool of the random programs, and its twin.

use everbyte_object::{
    Journal, MemPool, PBTreeMap, PCell, PHashMap, PMutex, POnceCell, PRefCell, PRwLock, PSafe, PString, PVec, Parc,
    Pbox, VCell, parc,
};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::panic::resume_unwind;

thread_local! {
    /// How many calls of the program's own code are left; none to go: a panic.
    pub static FUSE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The payload with which a fuse panics.
pub(super) struct Burnt;

/// A call of the program's own code.
pub(super) fn burn() {
    if let Some(left) = FUSE.get() {
        FUSE.set(left.checked_sub(1));
        if left == 0 {
            resume_unwind(Box::new(Burnt)); // without a message
        }
    }
}

/// A key whose every method may panic.
#[derive(PSafe)]
#[repr(C)]
pub(super) struct Key<P: MemPool>(PString<P>);

impl<P: MemPool> Key<P> {
    pub(super) fn new(key: u64, j: &Journal<P>) -> Key<P> {
        Key(PString::from_str(&name(key), j))
    }
}

/// Fixed width: texts are in the order of numbers.
fn name(key: u64) -> String {
    format!("{key:04}")
}

impl<P: MemPool> PartialEq for Key<P> {
    fn eq(&self, other: &Self) -> bool {
        burn();
        *self.0 == *other.0
    }
}

impl<P: MemPool> Eq for Key<P> {}

impl<P: MemPool> Hash for Key<P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        burn();
        self.0.hash(state);
    }
}

impl<P: MemPool> PartialOrd for Key<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P: MemPool> Ord for Key<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        burn();
        self.0.cmp(&other.0)
    }
}

/// A value whose clone may panic.
#[derive(PSafe)]
#[repr(C)]
pub(super) struct Copied<P: MemPool>(pub u64, PCell<(), P>);

impl<P: MemPool> Copied<P> {
    pub(super) fn new(number: u64) -> Copied<P> {
        Copied(number, PCell::new(()))
    }
}

impl<P: MemPool> Clone for Copied<P> {
    fn clone(&self) -> Self {
        burn();
        Copied::new(self.0)
    }
}

/// A value with two blocks of its own.
#[derive(PSafe)]
#[repr(C)]
pub(super) struct Item<P: MemPool> {
    number: Pbox<u64, P>,
    text: PString<P>,
}

impl<P: MemPool> Item<P> {
    pub(super) fn new(number: u64, j: &Journal<P>) -> Item<P> {
        Item { number: Pbox::new(number, j), text: PString::from_str(&number.to_string(), j) }
    }

    pub(super) fn number(&self) -> u64 {
        assert_eq!(*self.text, *self.number.to_string());
        *self.number
    }
}

#[derive(PSafe)]
#[repr(C)]
pub(super) struct Link<P: MemPool> {
    pub number: u64,
    pub next: Option<Pbox<Link<P>, P>>,
}

#[derive(PSafe)]
#[repr(C)]
pub(super) struct Shelf<P: MemPool> {
    pub boxed: PRefCell<Option<Pbox<[u64; 4], P>>, P>,
    pub list: PRefCell<PVec<Item<P>, P>, P>,
    pub hashed: PRefCell<PHashMap<Key<P>, Item<P>, P>, P>,
    pub ordered: PRefCell<PBTreeMap<Key<P>, Item<P>, P>, P>,
    pub copies: PRefCell<PVec<Copied<P>, P>, P>,
    pub chain: PRefCell<Option<Pbox<Link<P>, P>>, P>,
    pub shared: PRefCell<PVec<Parc<u64, P>, P>, P>,
    pub weak: PRefCell<PVec<parc::PWeak<u64, P>, P>, P>,
    pub many: PRefCell<PVec<Pbox<[u64; 8], P>, P>, P>,
    pub filling: PRefCell<PVec<PVec<u8, P>, P>, P>,
    pub once: POnceCell<PString<P>, P>,
    pub volatile: VCell<u64, P>,
    pub number: PCell<u64, P>,
    pub locked: PMutex<PVec<u64, P>, P>,
    pub lock: PRwLock<u64, P>,
}

/// The numbers of the cells that are borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Boxed,
    List,
    Hashed,
    Ordered,
    Copies,
    Chain,
    Shared,
    Weak,
    Many,
    Filling,
}

pub(super) const PLACES: usize = Place::Filling as usize + 1;

impl<P: MemPool> Shelf<P> {
    pub(super) fn new() -> Shelf<P> {
        Shelf {
            boxed: PRefCell::default(),
            list: PRefCell::default(),
            hashed: PRefCell::default(),
            ordered: PRefCell::default(),
            copies: PRefCell::default(),
            chain: PRefCell::default(),
            shared: PRefCell::default(),
            weak: PRefCell::default(),
            many: PRefCell::default(),
            filling: PRefCell::default(),
            once: POnceCell::new(),
            volatile: VCell::new(),
            number: PCell::new(0),
            locked: PMutex::default(),
            lock: PRwLock::new(0),
        }
    }
}

/// The contents of the pool, in plain values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Twin {
    pub boxed: Option<[u64; 4]>,
    pub list: Vec<u64>,
    pub hashed: BTreeMap<u64, u64>,
    pub ordered: BTreeMap<u64, u64>,
    pub copies: Vec<u64>,
    /// The newest link first.
    pub chain: Vec<u64>,
    pub shared: Vec<u64>,
    /// Of objects that may be gone.
    pub weak: Vec<u64>,
    pub many: u64,
    pub filling: Vec<usize>,
    pub once: Option<String>,
    pub volatile: Option<u64>,
    pub number: u64,
    pub locked: Vec<u64>,
    pub lock: u64,
}

impl Twin {
    /// The contents of the pool, read in a transaction. For a cell that cannot be borrowed the
    /// value is taken from `known`.
    pub(super) fn read<P: MemPool>(shelf: &Shelf<P>, j: &Journal<P>, known: &Twin) -> Twin {
        macro_rules! read {
            ($cell:ident, |$value:ident| $read:expr) => {
                match shelf.$cell.try_borrow() {
                    Some($value) => $read,
                    None => known.$cell.clone(),
                }
            };
        }
        let pair = |(key, item): (&Key<P>, &Item<P>)| (key.0.parse().expect("a number"), item.number());
        Twin {
            boxed: read!(boxed, |boxed| boxed.as_ref().map(|boxed| **boxed)),
            list: read!(list, |list| list.iter().map(Item::number).collect()),
            hashed: read!(hashed, |map| {
                assert_eq!(map.iter().count(), map.len());
                map.iter().map(pair).collect()
            }),
            ordered: read!(ordered, |map| {
                assert!(map.keys().is_sorted_by_key(|key| &*key.0), "the order of keys");
                map.iter().map(pair).collect()
            }),
            copies: read!(copies, |copies| copies.iter().map(|copied| copied.0).collect()),
            chain: read!(chain, |chain| {
                let first = chain.as_ref().map(|link| &**link);
                std::iter::successors(first, |link| link.next.as_deref()).map(|link| link.number).collect()
            }),
            shared: read!(shared, |shared| shared.iter().map(|shared| **shared).collect()),
            weak: read!(weak, |weak| {
                assert_eq!(weak.len(), known.weak.len());
                let alive = weak.iter().map(|weak| weak.upgrade(j).map(|strong| *strong));
                let met = alive.zip(&known.weak).map(|(found, &number)| {
                    assert_eq!(found.is_some(), known.shared.contains(&number), "a weak pointer to {number}");
                    found.unwrap_or(number)
                });
                met.collect()
            }),
            many: read!(many, |many| {
                assert!(many.iter().enumerate().all(|(index, number)| **number == [index as u64; 8]));
                many.len() as u64
            }),
            filling: read!(filling, |filling| filling.iter().map(|bytes| bytes.len()).collect()),
            once: shelf.once.get().map(|text| text.to_string()),
            volatile: shelf.volatile.get(),
            number: shelf.number.get(),
            locked: shelf.locked.lock(j).to_vec(),
            lock: *shelf.lock.read(j),
        }
    }
}

//! A library for C++ programs: a counter, an inventory of goods, a series of numbers, a list, a
//! search tree, a B+tree, a word count, and a hash table over classes of C++, which may be the
//! roots of two pools.
//!
//! `everbyte bridge build` makes its headers; `programs/` holds C++ programs that use them.

use everbyte_bridge::{Extern, Passed, Returned, export, library};
use everbyte_object::{Journal, MemPool, PBTreeMap, PCell, PRefCell, PSafe, PString, PVec, pool};

mod btree;
mod kv_store;
mod list;
mod search_tree;
mod word_count;

pub use btree::{Btree, BtreeNode};
pub use kv_store::{KvStore, Slot};
pub use list::{Link, List, Tally};
pub use search_tree::{SearchTree, TreeNode};
pub use word_count::WordCount;

pool!(pub Shop, pub Archive);

/// Counts events.
#[derive(PSafe, Extern)]
#[repr(C)]
pub struct Counter<P: MemPool> {
    count: PCell<i64, P>,
}

#[export]
impl<P: MemPool> Counter<P> {
    /// Begins at 0.
    pub fn new(_: &Journal<P>) -> Self {
        Counter { count: PCell::new(0) }
    }

    /// The number of events.
    pub fn value(&self) -> i64 {
        self.count.get()
    }

    /// Adds events; returns their number.
    pub fn add(&self, by: i64, j: &Journal<P>) -> i64 {
        let value = self.count.get().checked_add(by).expect("too many events");
        self.count.set(value, j);
        value
    }
}

/// Goods by name, and how many there are of each.
#[derive(PSafe, Extern)]
#[repr(C)]
pub struct Inventory<P: MemPool> {
    goods: PRefCell<PBTreeMap<PString<P>, u64, P>, P>,
}

/// There is less of it than is to be taken.
#[derive(Debug)]
pub struct TooFew {
    left: u64,
}

impl std::fmt::Display for TooFew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "only {} are left", self.left)
    }
}

#[export]
impl<P: MemPool> Inventory<P> {
    /// Empty.
    pub fn new(_: &Journal<P>) -> Self {
        Inventory { goods: PRefCell::new(PBTreeMap::new()) }
    }

    /// How many kinds of goods there are.
    pub fn kinds(&self) -> usize {
        self.goods.borrow().len()
    }

    /// How many there are, if that name is known.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.goods.borrow().get(name).copied()
    }

    /// The first name, or an empty text.
    pub fn first(&self) -> String {
        self.goods.borrow().iter().next().map(|(name, _)| name.as_str().to_string()).unwrap_or_default()
    }

    /// Adds goods.
    pub fn put(&self, j: &Journal<P>, name: &str, count: u64) {
        let mut goods = self.goods.borrow_mut(j);
        let old = goods.get(name).copied().unwrap_or(0);
        goods.insert(PString::from(name, j), old + count, j);
    }

    /// Takes goods out; returns how many are left.
    pub fn take(&self, j: &Journal<P>, name: &str, count: u64) -> Result<u64, TooFew> {
        let mut goods = self.goods.borrow_mut(j);
        let old = goods.get(name).copied().unwrap_or(0);
        let left = old.checked_sub(count).ok_or(TooFew { left: old })?;
        goods.insert(PString::from(name, j), left, j);
        Ok(left)
    }
}

/// A series of numbers: one compiled form for each type that `library!` names.
#[derive(PSafe, Extern)]
#[repr(C)]
pub struct Series<T: PSafe<P>, P: MemPool> {
    items: PRefCell<PVec<T, P>, P>,
}

#[export(instances)]
impl<T: PSafe<P> + Passed + Returned + Copy, P: MemPool> Series<T, P>
where
    Option<T>: Returned,
{
    /// Empty.
    pub fn new(_: &Journal<P>) -> Self {
        Series { items: PRefCell::new(PVec::new()) }
    }

    /// How many numbers there are.
    pub fn size(&self) -> usize {
        self.items.borrow().len()
    }

    /// A number.
    pub fn at(&self, index: usize) -> T {
        self.items.borrow()[index]
    }

    /// The number that was added last.
    pub fn last(&self) -> Option<T> {
        self.items.borrow().last().copied()
    }

    /// Adds a number at the end.
    pub fn push(&self, value: T, j: &Journal<P>) {
        self.items.borrow_mut(j).push(value, j);
    }
}

/// A place, declared in both languages: an instance of a series holds it as it is.
#[derive(Clone, Copy, PSafe, Passed)]
#[repr(C)]
pub struct Place {
    /// To the east.
    pub east: f64,
    /// A number of the shelf.
    pub shelf: u16,
    /// To the north.
    pub north: f32,
}

library! {
    name stock;
    pool Shop {
        Counter, Inventory, Series<f64> as prices, Series<u32> as visits, Series<Place> as places,
        Series<f32> as weights,
        SearchTree, Btree<u64, u64, 8> as btree8, WordCount, template<K> List<K>, Tally,
        template<K, V> KvStore<K, V>, std
    }
    pool Archive { Counter, Series<f64> as prices }
}

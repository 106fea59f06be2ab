//! # everbyte-bench-bridge: structures of the benches, in Rust and for C++
//!
//! The structures are those of crates/bench-rivals/c/workloads.c, written as a program would write
//! them: a transaction for each operation. The exported types let a C++ program
//! (crates/bench/cpp/bridge.cpp) do the same through the bridge that the case `bridge` does
//! directly.
//!
//! Both compile from this source; the difference between them is the way to it.

pub mod bst;
pub mod btree8;
pub mod kvstore;
pub mod words;

use everbyte_bridge::{Extern, export, library};
use everbyte_object::{Journal, MemPool, PCell, PSafe, pool, raw};
pub use words::WordCounts;

pool!(
    /// The pool of the C++ program.
    pub Bridged
);

pool!(
    /// A pool whose cells have no borrow flags; the C++ program borrows as Rust allows.
    #[persist(unsafe(unchecked_borrows))]
    pub Unchecked
);

/// Buckets of the hash table.
pub const BUCKETS: usize = 1 << 16;

/// A number; and the counters of the media that it lies on.
#[derive(PSafe, Extern)]
#[repr(C)]
pub struct Counter<P: MemPool> {
    value: PCell<u64, P>,
}

#[export]
impl<P: MemPool> Counter<P> {
    /// Begins at 0.
    pub fn new(_: &Journal<P>) -> Self {
        Counter { value: PCell::new(0) }
    }

    /// The number.
    pub fn value(&self) -> u64 {
        self.value.get()
    }

    /// Adds to the number; returns it.
    pub fn add(&self, by: u64, j: &Journal<P>) -> u64 {
        let value = self.value.get().wrapping_add(by);
        self.value.set(value, j);
        value
    }

    /// Lines that were written back since the media was opened.
    pub fn lines(&self, j: &Journal<P>) -> u64 {
        raw::counts(j).lines
    }

    /// Fences since the media was opened.
    pub fn fences(&self, j: &Journal<P>) -> u64 {
        raw::counts(j).fences
    }
}

macro_rules! map {
    ($(#[$about:meta])* $Name:ident, $module:ident, $Map:ty, |$j:ident| $empty:expr) => {
        $(#[$about])*
        #[derive(PSafe, Extern)]
        #[repr(C)]
        pub struct $Name<P: MemPool> {
            map: $Map,
        }

        #[export]
        impl<P: MemPool> $Name<P> {
            /// Empty.
            pub fn new($j: &Journal<P>) -> Self {
                $Name { map: $empty }
            }

            /// The value of a key as the structure returns it, or 0.
            pub fn get(&self, key: u64) -> u64 {
                $module::get(&self.map, key)
            }

            /// Puts a value; 1 if the key is new.
            pub fn put(&self, key: u64, value: u64, j: &Journal<P>) -> u64 {
                $module::put(&self.map, key, value, j)
            }

            /// Removes a key; what the structure finds, or 0.
            pub fn remove(&self, key: u64, j: &Journal<P>) -> u64 {
                $module::remove(&self.map, key, j)
            }
        }
    };
}

map!(
    /// The binary tree.
    Bst, bst, bst::Link<P>, |_j| Default::default()
);
map!(
    /// The hash table.
    KvStore, kvstore, kvstore::RecordTable<P>, |j| kvstore::new(BUCKETS, j)
);
map!(
    /// The B+tree.
    Btree8, btree8, btree8::Tree<P>, |_j| Default::default()
);

library! {
    name measured;
    pool Bridged { Counter, Bst, KvStore, Btree8, WordCounts, std }
    pool Unchecked { Btree8, WordCounts }
}

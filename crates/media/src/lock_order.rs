//! The order of locks, asserted in debug builds.
//!
//! Each lock has a rank from [`rank`]. A thread takes locks in ascending ranks; a debug build keeps
//! the ranks that a thread holds and panics at a lock of a lower or equal one. So every run of a
//! test checks the order, whether or not two threads meet. A release build keeps nothing: the
//! wrappers are the locks of `parking_lot`, and [`HeldRank`] is empty.
//!
//! docs/design/locks.md lists all locks, the data that each guards, and the calls that are allowed
//! under each.
//!
//! Invariants
//!   RANK-1  A thread that holds a rank takes higher ranks only. A lock that its holder may take
//!           again is exempt ([`HeldRank::again`]), and so are two locks of [`rank::ENGINE`]. A
//!           thread that holds the store's shared lock takes locks of an engine and a heap: only
//!           while it creates their object, which no other thread has.

use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::ops::{Deref, DerefMut};

/// The ranks of locks; docs/design/locks.md explains each.
pub mod rank {
    /// An object's shared lock.
    pub const OBJECT: u8 = 16;
    /// The writer of a table, or the structure of a store of pairs. A thread may hold those of
    /// several objects, in an order that its program chooses.
    pub const ENGINE: u8 = 17;
    /// A slot of a heap's atomic operations.
    pub const HEAP_SLOT: u8 = 18;
    /// A shard of a heap.
    pub const HEAP_SHARD: u8 = 20;
    /// The pool of a heap.
    pub const HEAP_POOL: u8 = 22;
    /// The store's shared lock.
    pub const STORE: u8 = 24;
    /// The growth of one object.
    pub const GROWTH: u8 = 28;
    /// The count of a user's clusters.
    pub const QUOTA: u8 = 30;
    /// The catalogue.
    pub const CATALOGUE: u8 = 32;
    /// The open objects.
    pub const OPEN_OBJECTS: u8 = 34;
    /// The objects that this process has attached in a shared store.
    pub const ATTACHED: u8 = 36;
    /// Clusters are being backed.
    pub const BACKING: u8 = 38;
    /// The superblock in use.
    pub const SUPERBLOCK: u8 = 40;
    /// The words beside the superblock.
    pub const WORDS: u8 = 42;
    /// The identity that a store holds.
    pub const IDENTITY: u8 = 44;
    /// The identities that this process has open.
    pub const IDENTITIES: u8 = 46;
    /// The state of the background thread.
    pub const BACKGROUND: u8 = 48;
    /// The handle of the background thread.
    pub const BACKGROUND_THREAD: u8 = 50;
    /// The cold clusters of an object.
    pub const COLD: u8 = 52;
    /// The range whose clusters are examined before use.
    pub const SUSPECT: u8 = 54;
    /// The states of clusters in memory.
    pub const CLUSTERS: u8 = 56;

    /// The name of a rank, for the message of the assertion.
    pub fn name(rank: u8) -> &'static str {
        match rank {
            OBJECT => "the shared lock of an object",
            ENGINE => "the lock of an engine",
            HEAP_SLOT => "a slot of a heap",
            HEAP_SHARD => "a shard of a heap",
            HEAP_POOL => "the pool of a heap",
            STORE => "the shared lock of the store",
            GROWTH => "the growth of an object",
            QUOTA => "the count of a user's clusters",
            CATALOGUE => "the catalogue",
            OPEN_OBJECTS => "the open objects",
            ATTACHED => "the attached objects",
            BACKING => "the backing of clusters",
            SUPERBLOCK => "the superblock",
            WORDS => "the words of the superblock",
            IDENTITY => "the identity of a store",
            IDENTITIES => "the identities of this process",
            BACKGROUND => "the background thread",
            BACKGROUND_THREAD => "the handle of the background thread",
            COLD => "the cold clusters of an object",
            SUSPECT => "the suspect range",
            CLUSTERS => "the states of clusters",
            _ => "an unnamed lock",
        }
    }
}

#[cfg(debug_assertions)]
mod held {
    use super::rank;
    use std::cell::Cell;

    thread_local! {
        /// How often this thread holds each rank.
        static HELD: [Cell<u32>; 64] = const { [const { Cell::new(0) }; 64] };
    }

    /// A rank that this thread holds, until the value is dropped.
    #[derive(Debug)]
    pub struct HeldRank(u8);

    impl HeldRank {
        /// The rank of a lock that this thread is about to take.
        ///
        /// # Panics
        /// RANK-1: the thread holds this rank or a higher one.
        #[track_caller]
        pub fn new(rank: u8) -> HeldRank {
            HeldRank::above(rank, rank + u8::from(rank == rank::ENGINE))
        }

        /// The rank of a lock that its holder may take again.
        ///
        /// # Panics
        /// RANK-1: the thread holds a higher rank, and not this one.
        #[track_caller]
        pub fn again(rank: u8) -> HeldRank {
            let holds = HELD.try_with(|held| held[usize::from(rank)].get() > 0).unwrap_or(true);
            if holds { HeldRank::count(rank) } else { HeldRank::above(rank, rank) }
        }

        #[track_caller]
        fn above(rank: u8, least: u8) -> HeldRank {
            let exempt = |other: u8| other == rank::STORE && (rank::ENGINE..=rank::HEAP_POOL).contains(&rank);
            let highest = |held: &[Cell<u32>; 64]| {
                (least..64).rev().find(|&other| held[usize::from(other)].get() > 0 && !exempt(other))
            };
            if let Some(held) = HELD.try_with(highest).unwrap_or(None) {
                panic!("RANK-1: this thread takes {} while it holds {}", rank::name(rank), rank::name(held));
            }
            HeldRank::count(rank)
        }

        fn count(rank: u8) -> HeldRank {
            let _ = HELD.try_with(|held| held[usize::from(rank)].update(|count| count + 1));
            HeldRank(rank)
        }
    }

    impl Drop for HeldRank {
        fn drop(&mut self) {
            let _ = HELD.try_with(|held| held[usize::from(self.0)].update(|count| count - 1));
        }
    }
}

#[cfg(not(debug_assertions))]
mod held {
    /// A rank that this thread holds; nothing in a release build.
    #[derive(Debug)]
    pub struct HeldRank;

    impl HeldRank {
        /// The rank of a lock that this thread is about to take.
        #[inline(always)]
        pub fn new(_rank: u8) -> HeldRank {
            HeldRank
        }

        /// The rank of a lock that its holder may take again.
        #[inline(always)]
        pub fn again(_rank: u8) -> HeldRank {
            HeldRank
        }
    }
}

pub use held::HeldRank;

/// A mutex with a rank.
#[derive(Debug, Default)]
pub struct RankedMutex<const RANK: u8, T>(Mutex<T>);

/// A read-write lock with a rank.
#[derive(Debug, Default)]
pub struct RankedRwLock<const RANK: u8, T>(RwLock<T>);

/// The guard of a lock with a rank.
#[derive(Debug)]
pub struct RankedGuard<G> {
    guard: G, // dropped before the rank
    _rank: HeldRank,
}

/// The guard of a [`RankedMutex`].
pub type RankedMutexGuard<'l, T> = RankedGuard<MutexGuard<'l, T>>;

/// The guard of a [`RankedRwLock`] that is held alone.
pub type RankedWriteGuard<'l, T> = RankedGuard<RwLockWriteGuard<'l, T>>;

impl<const RANK: u8, T> RankedMutex<RANK, T> {
    /// A mutex over `value`.
    pub const fn new(value: T) -> RankedMutex<RANK, T> {
        RankedMutex(Mutex::new(value))
    }

    /// Waits for the mutex.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> RankedMutexGuard<'_, T> {
        let rank = HeldRank::new(RANK);
        RankedGuard { guard: self.0.lock(), _rank: rank }
    }

    /// The value, which this caller has alone.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    /// The mutex, if no thread holds it.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<RankedMutexGuard<'_, T>> {
        let rank = HeldRank::new(RANK);
        Some(RankedGuard { guard: self.0.try_lock()?, _rank: rank })
    }
}

impl<const RANK: u8, T> RankedRwLock<RANK, T> {
    /// A lock over `value`.
    pub const fn new(value: T) -> RankedRwLock<RANK, T> {
        RankedRwLock(RwLock::new(value))
    }

    /// Waits for a share of the lock.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RankedGuard<RwLockReadGuard<'_, T>> {
        let rank = HeldRank::new(RANK);
        RankedGuard { guard: self.0.read(), _rank: rank }
    }

    /// Waits for the whole lock.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RankedGuard<RwLockWriteGuard<'_, T>> {
        let rank = HeldRank::new(RANK);
        RankedGuard { guard: self.0.write(), _rank: rank }
    }
}

impl<T> RankedMutexGuard<'_, T> {
    /// Releases the mutex until `condvar` is notified, and takes it again.
    pub fn wait(&mut self, condvar: &Condvar) {
        condvar.wait(&mut self.guard);
    }
}

impl<G: Deref> Deref for RankedGuard<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for RankedGuard<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static LOWER: RankedMutex<{ rank::CATALOGUE }, u64> = RankedMutex::new(1);
    static HIGHER: RankedRwLock<{ rank::SUPERBLOCK }, u64> = RankedRwLock::new(2);

    #[test]
    fn locks_in_ascending_order_are_taken() {
        let lower = LOWER.lock();
        let higher = HIGHER.read();
        assert_eq!(*lower + *higher, 3);
        drop(lower); // in any order
        drop(higher);
        drop((LOWER.lock(), HIGHER.write()));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "RANK-1: this thread takes the catalogue while it holds the superblock")]
    fn two_locks_in_the_wrong_order_are_refused() {
        let _higher = HIGHER.read();
        let _lower = LOWER.lock();
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "RANK-1")]
    fn a_lock_is_not_taken_twice() {
        let _one = HIGHER.read();
        let _two = HIGHER.read();
    }

    #[test]
    fn a_lock_that_its_holder_may_take_again_is_taken_again() {
        let store = HeldRank::again(rank::STORE);
        let catalogue = LOWER.lock();
        drop((HeldRank::again(rank::STORE), catalogue, store));
    }
}

//! Pool types: each binds a type parameter to one open pool, and to the address of its mapping.
//!
//! Invariants
//!   POOL-1  A tag's slot holds at most one pool. `base` is that pool's address while it is open,
//!           and it stays mapped until the slot is emptied.
//!   POOL-2  A slot is emptied only when its [`Root`] is gone and no transaction runs on it: every
//!           reference into the pool borrows one of the two.
//!   POOL-3  While a transaction of a thread runs, the thread makes no reference into the pool that
//!           outlives it: from cells it gets them with the transaction's brand alone. A roll-back
//!           takes back the values that such a reference would see.
//!
//! Threads: any. Opening and closing exclude each other; dereferencing is one relaxed load, which
//! the opening happened before.

use crate::transaction::open_pool::OpenPool;
use crate::transaction::running;
use crate::transaction::running::Current;
use crate::transaction::sync::RwLock;
use crate::types::hash_map::seed_of;
use everbyte_media::seeded;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash, RandomState};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// The statics that [`crate::pool!`] makes for each pool type: they say which pool is open under
/// it.
///
/// # Safety
/// `slot` always returns the same slot, used by no other tag, and `current` the calling thread's
/// cell for it.
pub unsafe trait PoolTag: Copy + Debug + Default + Hash + Ord + 'static {
    /// The name of the pool type, for messages.
    const NAME: &'static str;
    /// Whether borrows of its [`PRefCell`](crate::PRefCell)s are checked.
    const CHECKS_BORROWS: bool = true;
    /// The tag's slot.
    #[doc(hidden)]
    fn slot() -> &'static Slot;
    /// Runs `with` on this thread's transaction under the tag.
    #[doc(hidden)]
    fn current<T>(with: impl FnOnce(&Current) -> T) -> T;
}

/// A pool type as a transaction's body sees it: `In<'tx, P1Tag>`, with a brand that no other
/// transaction has, so values made in a body stay in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct In<'tx, G: PoolTag>(PhantomData<fn(&'tx ()) -> &'tx ()>, PhantomData<fn() -> G>);

/// A pool type outside of transactions: `P1` is `Out<P1Tag>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Out<G: PoolTag>(PhantomData<fn() -> G>);

/// A pool type, as the parameter `P` of everything that lies in a pool. It has every trait that a
/// derive may ask of a parameter.
///
/// # Safety
/// Implemented by [`In`] and [`Out`] alone: `At` and `Outside` differ from `Self` in the brand
/// only.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a pool type",
    note = "declare one with `pool!(Name)`, or take `P: MemPool` as a parameter"
)]
pub unsafe trait MemPool: Copy + Debug + Default + Hash + Ord {
    /// The tag, which the brand leaves alone.
    type Tag: PoolTag;
    /// The same pool with another brand.
    type At<'x>: MemPool<Tag = Self::Tag> + 'x;
    /// The same pool as it is seen outside of transactions.
    type Outside: MemPool<Tag = Self::Tag>;
    /// Whether a reference with this brand ends with the transaction that it was got in (POOL-3).
    #[doc(hidden)]
    const INSIDE: bool;
}

// SAFETY: the brand is all that differs.
unsafe impl<G: PoolTag> MemPool for In<'_, G> {
    type Tag = G;
    type At<'x> = In<'x, G>;
    type Outside = Out<G>;
    const INSIDE: bool = true;
}

// SAFETY: as above.
unsafe impl<G: PoolTag> MemPool for Out<G> {
    type Tag = G;
    type At<'x> = In<'x, G>;
    type Outside = Out<G>;
    const INSIDE: bool = false;
}

/// POOL-3, before a cell at `at` lends a reference.
#[inline(always)]
#[track_caller]
pub(crate) fn require_committed<P: MemPool>(at: *const u8) {
    if !P::INSIDE && is_uncommitted::<P>(at) && !seeded("object-borrow-outside") {
        panic!(
            "this cell is read from outside of the running transaction: read it through the root that the body is given"
        );
    }
}

/// Whether the bytes at `at` may be rolled back while a reference with this brand, made now, lives
/// (POOL-3).
#[inline(always)]
pub(crate) fn is_uncommitted<P: MemPool>(at: *const u8) -> bool {
    !P::INSIDE && running::with_current::<P::Tag, _>(|running| running.is_some_and(|running| running.may_roll_back(at)))
}

/// Which pool is open under a tag.
#[doc(hidden)]
pub struct Slot {
    /// POOL-1. The address of the object's prime page; offsets of pointers count from it.
    base: AtomicPtr<u8>,
    /// Bytes from there to the end of the pool's span; 0 while none is open.
    len: AtomicUsize,
    /// The mark of this opening, for values on media that end with it.
    mark: AtomicU64,
    /// Its number among all openings of this process; 0 before the first.
    opening: AtomicU64,
    /// Read-locked by transactions that hold no root, write-locked to open and close.
    pub(crate) open: RwLock<Option<Arc<OpenPool>>>,
}

impl Slot {
    /// A slot without a pool.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Slot {
        Slot {
            base: AtomicPtr::new(ptr::null_mut()),
            len: AtomicUsize::new(0),
            mark: AtomicU64::new(0),
            opening: AtomicU64::new(0),
            open: RwLock::new(None),
        }
    }

    #[inline(always)]
    pub(crate) fn base(&self) -> *mut u8 {
        // Relaxed: every offset to dereference came from a root or a transaction, and so after the
        // opening.
        self.base.load(Ordering::Relaxed)
    }

    /// Whether `at..at+len` lies in the pool, behind its first `own` bytes.
    #[inline(always)]
    pub(crate) fn contains(&self, at: usize, len: usize, own: usize) -> bool {
        let offset = at.wrapping_sub(self.base().addr());
        // Relaxed: as above. While no pool is open nothing lies in it.
        let all = self.len.load(Ordering::Relaxed);
        offset >= own && offset < all && len <= all - offset
    }

    pub(crate) fn bind(&self, slot: &mut Option<Arc<OpenPool>>, inner: &Arc<OpenPool>) {
        static OPENINGS: AtomicU64 = AtomicU64::new(1);
        let opening = OPENINGS.fetch_add(1, Ordering::Relaxed);
        self.opening.store(opening, Ordering::Release);
        self.mark.store(mark_of(inner, opening), Ordering::Release);
        self.base.store(inner.base, Ordering::Release);
        self.len.store(inner.len, Ordering::Release);
        *slot = Some(Arc::clone(inner));
    }

    pub(crate) fn unbind(&self, slot: &mut Option<Arc<OpenPool>>) {
        self.len.store(0, Ordering::Release);
        self.base.store(ptr::null_mut(), Ordering::Release);
        *slot = None;
    }
}

/// The base address of the pool open under `P`'s tag.
#[inline(always)]
pub(crate) fn base<P: MemPool>() -> *mut u8 {
    P::Tag::slot().base()
}

/// A mark that no other opening has, of this process or another: a random one, since nothing on
/// media can say for certain which openings there were. On recorded media it follows from store
/// and generation, so a program that runs twice stores the same.
fn mark_of(inner: &OpenPool, opening: u64) -> u64 {
    let mark = seed_of(inner, 0)[0];
    if inner.media().is_recorded() { mark } else { RandomState::new().hash_one((mark, opening)) }
}

/// The mark of this opening of the pool under `P`'s tag.
#[inline(always)]
pub(crate) fn mark<P: MemPool>() -> u64 {
    P::Tag::slot().mark.load(Ordering::Relaxed)
}

/// The number of this opening among all of the process.
#[inline(always)]
pub(crate) fn opening<P: MemPool>() -> u64 {
    P::Tag::slot().opening.load(Ordering::Relaxed)
}

//! [`Pbox`]: a block of the pool with one owner.

use crate::description::schema::{Schema, TypeName};
use crate::migrate::{Moving, PartId, PartKind, Planner, Refusal};
use crate::{Journal, MemPool, Out, PSafe, PoolTag, Tracer, transaction::pool, transaction::running};
use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::ops::Deref;
use std::panic::RefUnwindSafe;

/// Owns a `T` in the pool, as `Box` does on the heap: freed with it, at the commit. One word, also
/// inside `Option`.
///
/// Dereferences for reading. [`Pbox::as_mut`] borrows the value mutably.
#[repr(transparent)]
pub struct Pbox<T: PSafe<P>, P: MemPool> {
    /// From the pool's base.
    offset: NonZeroU64,
    marker: PhantomData<(T, P)>,
    /// A block made by a running transaction belongs to its thread.
    local: PhantomData<*mut ()>,
}

// SAFETY: as `Box`: `&Pbox` gives `&T`.
unsafe impl<T: PSafe<P> + Sync, P: MemPool> Sync for Pbox<T, P> {}
// SAFETY: as `Box`, for values in the pool (a static brand). Pointers of a running transaction
// stay in its thread.
unsafe impl<T: PSafe<Out<G>> + Send, G: PoolTag> Send for Pbox<T, Out<G>> {}
impl<T: PSafe<P>, P: MemPool> RefUnwindSafe for Pbox<T, P> {}

impl<T: PSafe<P>, P: MemPool> Pbox<T, P> {
    /// Moves `value` into a new block of the pool. An abort or a crash before the commit takes the
    /// block back.
    ///
    /// If the pool is full the transaction ends with [`crate::Error::Store`], rolled back.
    #[inline]
    pub fn new(value: T, j: &Journal<P>) -> Pbox<T, P> {
        let offset = j.running().allocate(value);
        Pbox { offset: nonzero(offset), marker: PhantomData, local: PhantomData }
    }

    /// The value, to be changed. The old bytes are logged.
    #[inline]
    pub fn as_mut(&mut self, j: &Journal<P>) -> &mut T {
        let at = self.address();
        j.running().log(at.cast(), size_of::<T>());
        // SAFETY: as in `deref`; borrowed mutably with its only owner, and logged (OBJ-1).
        unsafe { &mut *at }
    }

    /// Takes the value out and frees the block.
    #[inline]
    pub fn into_inner(self, j: &Journal<P>) -> T {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: as in `deref`; it is not read through the pointer again, and its destructor will
        // not run there.
        let value = unsafe { this.address().read() };
        j.running().free(this.offset.get());
        value
    }

    /// Offset of the object in its pool: the same in every run.
    pub fn offset(&self) -> u64 {
        self.offset.get()
    }

    #[inline(always)]
    fn address(&self) -> *mut T {
        pool::base::<P>().wrapping_add(self.offset.get() as usize).cast()
    }
}

impl<T: PSafe<P> + Clone, P: MemPool> Pbox<T, P> {
    /// A new block with a clone of the value. For a value that holds pointers itself, `T` has a
    /// `pclone` of its own.
    pub fn pclone(&self, j: &Journal<P>) -> Pbox<T, P> {
        Pbox::new((**self).clone(), j)
    }
}

#[inline(always)]
pub(crate) fn nonzero(offset: u64) -> NonZeroU64 {
    NonZeroU64::new(offset).expect("no block lies at the base")
}

impl<T: PSafe<P>, P: MemPool> Deref for Pbox<T, P> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY:
        // - in bounds and valid: made from a block that holds a `T`, changed since by transactions
        //   alone;
        // - alive: the pool is open, since `self` is borrowed from its root or a transaction
        //   (POOL-2), and the block is freed with its only owner;
        // - no writer: a change of it borrows the owner mutably.
        unsafe { &*self.address() }
    }
}

impl<T: PSafe<P>, P: MemPool> Borrow<T> for Pbox<T, P> {
    fn borrow(&self) -> &T {
        self
    }
}

impl<T: PSafe<P>, P: MemPool> Drop for Pbox<T, P> {
    fn drop(&mut self) {
        unsafe fn contents<T>(at: *mut u8, _: u64) {
            // SAFETY: the block holds a `T` whose only owner is gone.
            unsafe { at.cast::<T>().drop_in_place() }
        }
        running::with_current::<P::Tag, _>(|running| {
            let Some(running) = running else { return };
            if std::mem::needs_drop::<T>() {
                // SAFETY: the block holds a `T`, and this was its only owner.
                unsafe { running.drop_block(self.offset.get(), 1, contents::<T>) }
            } else {
                running.free(self.offset.get());
            }
        });
    }
}

// SAFETY: an offset in the same pool; `At` differs in the brand.
unsafe impl<T: PSafe<P>, P: MemPool> PSafe<P> for Pbox<T, P> {
    type At<'x> = Pbox<T::At<'x>, P::At<'x>>;
    type Outside = Pbox<T::Outside, P::Outside>;

    const CELLS: u8 = 0;
    const NICHE: crate::Niche = crate::Niche::WORD;

    fn describe(schema: &mut Schema) -> TypeName {
        schema.pointer::<T, P>("Pbox")
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        // SAFETY: the caller's: `this` holds a word.
        unsafe { tracer.owned::<T, P>(this.cast()) };
    }

    fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
        planner.pointer::<Self, T>(stored, "Pbox", PartKind::Owned)
    }

    unsafe fn moved(from: *const u8, _: PartId, moving: &Moving<'_, P>) -> Self {
        // SAFETY: the caller's: `from` holds a word.
        let word = unsafe { from.cast::<u64>().read() };
        Pbox { offset: nonzero(moving.block(word)), marker: PhantomData, local: PhantomData }
    }
}

impl<T: PSafe<P> + fmt::Debug, P: MemPool> fmt::Debug for Pbox<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: PSafe<P> + fmt::Display, P: MemPool> fmt::Display for Pbox<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: PSafe<P> + PartialEq, P: MemPool> PartialEq for Pbox<T, P> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: PSafe<P> + Eq, P: MemPool> Eq for Pbox<T, P> {}

impl<T: PSafe<P> + PartialOrd, P: MemPool> PartialOrd for Pbox<T, P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<T: PSafe<P> + Ord, P: MemPool> Ord for Pbox<T, P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: PSafe<P> + std::hash::Hash, P: MemPool> std::hash::Hash for Pbox<T, P> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

//! The counted pointers, `Prc` and `Parc`, their weak pointers and their volatile weak pointers:
//! one text for both.

macro_rules! counted {
    ($(#[$about:meta])* $Name:ident, $shared:literal, $kind:literal) => {
        use crate::transaction::counts::Counted;
        use crate::verify::deep::walk::Owner;
        use crate::migrate::{PartKind, Moving, PartId, Planner, Refusal};
        use crate::types::pbox::nonzero;
        use crate::description::schema::{Schema, TypeName};
        use crate::{In, Out, Journal, MemPool, PSafe, PoolTag, Tracer, transaction::pool, transaction::running};
        use std::fmt;
        use std::marker::PhantomData;
        use std::num::NonZeroU64;
        use std::ops::Deref;
        use std::panic::{RefUnwindSafe, UnwindSafe};
        use std::sync::atomic::AtomicU64;

        $(#[$about])*
        #[repr(transparent)]
        pub struct $Name<T: PSafe<P>, P: MemPool> {
            /// From the pool's base.
            offset: NonZeroU64,
            marker: PhantomData<(T, P)>,
            local: PhantomData<*mut ()>,
        }

        /// A persistent weak pointer: it keeps the block, not the value. One word, also inside
        /// `Option`.
        #[repr(transparent)]
        pub struct PWeak<T: PSafe<P>, P: MemPool> {
            offset: NonZeroU64,
            marker: PhantomData<(T, P)>,
            local: PhantomData<*mut ()>,
        }

        /// A volatile weak pointer into a pool: it may be kept outside of transactions, counts
        /// nothing, and does not outlive the opening of the pool: promoted to a strong pointer
        /// while the object lives, and to `None` after that, after the pool was closed, and until
        /// the transaction that made the object has committed.
        pub struct VWeak<T: PSafe<P>, P: MemPool> {
            offset: u64,
            /// COUNT-3: used once in this process.
            number: u64,
            marker: PhantomData<(*const T, P)>,
        }

        impl<T: PSafe<P>, P: MemPool> RefUnwindSafe for $Name<T, P> {}
        impl<T: PSafe<P>, P: MemPool> RefUnwindSafe for PWeak<T, P> {}
        impl<T: PSafe<P>, P: MemPool> RefUnwindSafe for VWeak<T, P> {}
        impl<T: PSafe<P>, P: MemPool> UnwindSafe for VWeak<T, P> {}

        /// Drops the value in the block at `at`.
        unsafe fn contents<T>(at: *mut u8) {
            // SAFETY: the block holds a counted `T`.
            let value = unsafe { &raw mut (*at.cast::<Counted<T>>()).value };
            // SAFETY: the value is alive, and no strong pointer is left.
            unsafe { value.drop_in_place() }
        }

        impl<T: PSafe<P>, P: MemPool> $Name<T, P> {
            /// Moves `value` into a new block of the pool, with one pointer to it.
            #[inline]
            pub fn new(value: T, j: &Journal<P>) -> $Name<T, P> {
                let counted = Counted { strong: AtomicU64::new(1), weak: AtomicU64::new(0), value };
                $Name { offset: nonzero(j.running().allocate(counted)), marker: PhantomData, local: PhantomData }
            }

            /// Makes an object that holds a weak pointer to itself, given to `value`.
            pub fn new_cyclic(value: impl FnOnce(&PWeak<T, P>) -> T, j: &Journal<P>) -> $Name<T, P> {
                let running = j.running();
                let offset = running.allocate_for::<Counted<T>>();
                // nothing to upgrade to yet
                running.word(offset, 0).store(0, std::sync::atomic::Ordering::Relaxed);
                running.word(offset, 1).store(1, std::sync::atomic::Ordering::Relaxed);
                let weak = PWeak { offset: nonzero(offset), marker: PhantomData, local: PhantomData };
                let value = value(&weak);
                let at = pool::base::<P>().wrapping_add(offset as usize).cast::<Counted<T>>();
                // SAFETY: this transaction's own block, large enough; no pointer to the value
                // exists yet.
                unsafe { (&raw mut (*at).value).write(value) };
                running.word(offset, 0).store(1, std::sync::atomic::Ordering::Relaxed);
                drop(weak);
                $Name { offset: nonzero(offset), marker: PhantomData, local: PhantomData }
            }

            /// Another pointer to the same object.
            #[inline]
            pub fn pclone(&self, j: &Journal<P>) -> $Name<T, P> {
                j.running().count(self.offset.get(), 1, 0, contents::<T>, $shared);
                $Name { offset: self.offset, marker: PhantomData, local: PhantomData }
            }

            /// A weak pointer to the same object.
            #[inline]
            pub fn downgrade(&self, j: &Journal<P>) -> PWeak<T, P> {
                j.running().count(self.offset.get(), 0, 1, contents::<T>, $shared);
                PWeak { offset: self.offset, marker: PhantomData, local: PhantomData }
            }

            /// A volatile weak pointer to the same object.
            pub fn demote(&self, j: &Journal<P>) -> VWeak<T::Outside, P::Outside> {
                let number = j.running().number(self.offset.get());
                VWeak { offset: self.offset.get(), number, marker: PhantomData }
            }

            /// Pointers to the object, as this transaction will leave them: strong ones and weak
            /// ones.
            pub fn counts(&self, j: &Journal<P>) -> (u64, u64) {
                j.running().counts(self.offset.get(), $shared)
            }

            /// Whether both point to one object.
            pub fn ptr_eq(&self, other: &Self) -> bool {
                self.offset == other.offset
            }
        }

        impl<T: PSafe<P>, P: MemPool> $Name<T, P> {
            /// Offset of the object in its pool: the same in every run.
            pub fn offset(&self) -> u64 {
                self.offset.get()
            }
        }

        impl<T: PSafe<P>, P: MemPool> PWeak<T, P> {
            /// A strong pointer to the object, or `None` if it has been dropped.
            #[inline]
            pub fn upgrade(&self, j: &Journal<P>) -> Option<$Name<T, P>> {
                let there = j.running().upgrade(self.offset.get(), None, contents::<T>, $shared);
                there.then(|| $Name { offset: self.offset, marker: PhantomData, local: PhantomData })
            }

            /// Another weak pointer to the same object.
            pub fn pclone(&self, j: &Journal<P>) -> PWeak<T, P> {
                j.running().count(self.offset.get(), 0, 1, contents::<T>, $shared);
                PWeak { offset: self.offset, marker: PhantomData, local: PhantomData }
            }
        }

        impl<T: PSafe<Out<G>>, G: PoolTag> PWeak<T, Out<G>> {
            /// The object, or `None` if it has been dropped: outside of transactions, while none
            /// changes the pool ([`Root::read`](crate::Root::read)).
            pub fn get<'r>(&self, _: &'r crate::Reader<G>) -> Option<&'r T> {
                let at = pool::base::<Out<G>>().wrapping_add(self.offset.get() as usize).cast::<Counted<T>>();
                // SAFETY: a block that weak pointers keep, whose counts change in transactions
                // alone.
                let strong = unsafe { &(*at).strong }.load(std::sync::atomic::Ordering::Acquire);
                // SAFETY:
                // - in bounds, valid and alive: it has strong pointers, and no transaction drops
                //   one while the reader lives;
                // - no writer: there is no `&mut` to a counted value.
                (strong > 0).then(|| unsafe { &(*at).value })
            }
        }

        impl<T: PSafe<Out<G>>, G: PoolTag> VWeak<T, Out<G>> {
            /// A strong pointer to the object, or `None`.
            pub fn promote<'tx>(&self, j: &Journal<In<'tx, G>>) -> Option<$Name<T::At<'tx>, In<'tx, G>>> {
                let there = j.running().upgrade(self.offset, Some(self.number), contents::<T>, $shared);
                there.then(|| $Name { offset: nonzero(self.offset), marker: PhantomData, local: PhantomData })
            }
        }

        impl<T: PSafe<P>, P: MemPool> Clone for VWeak<T, P> {
            fn clone(&self) -> Self {
                VWeak { offset: self.offset, number: self.number, marker: PhantomData }
            }
        }

        impl<T: PSafe<P>, P: MemPool> Deref for $Name<T, P> {
            type Target = T;

            #[inline(always)]
            fn deref(&self) -> &T {
                let at = pool::base::<P>().wrapping_add(self.offset.get() as usize).cast::<Counted<T>>();
                // SAFETY:
                // - in bounds and valid: made from a block that holds a counted `T`;
                // - alive: the pool is open (POOL-2), and the value is dropped after its last
                //   strong pointer (COUNT-2);
                // - no writer: there is no `&mut` to a counted value.
                unsafe { &(*at).value }
            }
        }

        impl<T: PSafe<P>, P: MemPool> Drop for $Name<T, P> {
            #[inline]
            fn drop(&mut self) {
                running::with_current::<P::Tag, _>(|running| {
                    if let Some(running) = running {
                        running.count(self.offset.get(), -1, 0, contents::<T>, $shared);
                    }
                });
            }
        }

        impl<T: PSafe<P>, P: MemPool> Drop for PWeak<T, P> {
            #[inline]
            fn drop(&mut self) {
                running::with_current::<P::Tag, _>(|running| {
                    if let Some(running) = running {
                        running.count(self.offset.get(), 0, -1, contents::<T>, $shared);
                    }
                });
            }
        }

        // SAFETY: an offset in the same pool; `At` differs in the brand.
        unsafe impl<T: PSafe<P>, P: MemPool> PSafe<P> for $Name<T, P> {
            type At<'x> = $Name<T::At<'x>, P::At<'x>>;
            type Outside = $Name<T::Outside, P::Outside>;
            const CELLS: u8 = 0;
            const NICHE: crate::Niche = crate::Niche::WORD;

            fn describe(schema: &mut Schema) -> TypeName {
                schema.pointer::<T, P>($kind)
            }

            unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
                // SAFETY: the caller's: `this` holds a word.
                unsafe { tracer.counted::<T, P>(this.cast(), $kind, Owner::Strong) };
            }

            fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
                planner.pointer::<Self, T>(stored, $kind, PartKind::Counted)
            }

            unsafe fn moved(from: *const u8, _: PartId, moving: &Moving<'_, P>) -> Self {
                // SAFETY: the caller's: `from` holds a word.
                let word = unsafe { from.cast::<u64>().read() };
                $Name { offset: nonzero(moving.block(word)), marker: PhantomData, local: PhantomData }
            }
        }

        // SAFETY: an offset in the same pool; `At` differs in the brand.
        unsafe impl<T: PSafe<P>, P: MemPool> PSafe<P> for PWeak<T, P> {
            type At<'x> = PWeak<T::At<'x>, P::At<'x>>;
            type Outside = PWeak<T::Outside, P::Outside>;
            const CELLS: u8 = 0;
            const NICHE: crate::Niche = crate::Niche::WORD;

            fn describe(schema: &mut Schema) -> TypeName {
                schema.pointer::<T, P>(concat!($kind, "Weak"))
            }

            unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
                // SAFETY: the caller's: `this` holds a word.
                unsafe { tracer.counted::<T, P>(this.cast(), concat!($kind, "Weak"), Owner::Weak) };
            }

            fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
                planner.pointer::<Self, T>(stored, concat!($kind, "Weak"), PartKind::Weak)
            }

            unsafe fn moved(from: *const u8, _: PartId, moving: &Moving<'_, P>) -> Self {
                // SAFETY: the caller's: `from` holds a word.
                let word = unsafe { from.cast::<u64>().read() };
                PWeak { offset: nonzero(moving.block(word)), marker: PhantomData, local: PhantomData }
            }
        }

        impl<T: PSafe<P> + fmt::Debug, P: MemPool> fmt::Debug for $Name<T, P> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: PSafe<P>, P: MemPool> fmt::Debug for PWeak<T, P> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("(PWeak)")
            }
        }

        impl<T: PSafe<P>, P: MemPool> fmt::Debug for VWeak<T, P> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("(VWeak)")
            }
        }

        impl<T: PSafe<P> + PartialEq, P: MemPool> PartialEq for $Name<T, P> {
            fn eq(&self, other: &Self) -> bool {
                **self == **other
            }
        }

        impl<T: PSafe<P> + Eq, P: MemPool> Eq for $Name<T, P> {}
    };
}

/// Counted pointers of one thread.
pub mod prc {
    counted!(
        /// As `Rc`: shares a `T` of the pool among owners of one thread. Counts change at the
        /// commit.
        Prc, false, "Prc"
    );
}

/// Counted pointers that threads share.
pub mod parc {
    counted!(
        /// As `Arc`: shares a `T` of the pool among owners in several threads. Counts change at the
        /// commit.
        Parc, true, "Parc"
    );

    // SAFETY: as `Arc`: `&Parc` gives `&T`, and a clone, which may be the last to go.
    unsafe impl<T: PSafe<P> + Sync + Send, P: MemPool> Sync for Parc<T, P> {}
    // SAFETY: as `Arc`, for values in the pool (a static brand).
    unsafe impl<T: PSafe<Out<G>> + Sync + Send, G: PoolTag> Send for Parc<T, Out<G>> {}
    // SAFETY: as `Weak`.
    unsafe impl<T: PSafe<P> + Sync + Send, P: MemPool> Sync for PWeak<T, P> {}
    // SAFETY: as `Weak`, for values in the pool.
    unsafe impl<T: PSafe<Out<G>> + Sync + Send, G: PoolTag> Send for PWeak<T, Out<G>> {}
    // SAFETY: two numbers; promoted as `Weak` is upgraded.
    unsafe impl<T: PSafe<P> + Send + Sync, P: MemPool> Send for VWeak<T, P> {}
    // SAFETY: as above.
    unsafe impl<T: PSafe<P> + Send + Sync, P: MemPool> Sync for VWeak<T, P> {}
}

//! [`VCell`]: a volatile value inside a persistent object.

use crate::description::schema::{Schema, TypeName};
use crate::migrate::{Moving, PartId, Planner, Refusal};
use crate::transaction::counts::Spread;
use crate::{Journal, MemPool, PSafe, Tracer, transaction::pool};
use std::any::TypeId;
use std::cell::UnsafeCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::panic::RefUnwindSafe;

/// A cell whose value is forgotten when the pool is opened again: handles, caches, statistics of
/// this run. Any `Copy` type will do, also one that may not persist.
///
/// It is set in a transaction, and rolled back with it.
#[repr(C)]
pub struct VCell<T: Copy, P: MemPool> {
    inside: UnsafeCell<Inside<T>>,
    marker: PhantomData<P>,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Inside<T: Copy> {
    /// The mark of the opening in which `value` was set, and of its type; 0: none.
    mark: u64,
    value: std::mem::MaybeUninit<T>,
}

// SAFETY: as `Cell`, which it is while the pool is open.
unsafe impl<T: Copy + Send, P: MemPool> Send for VCell<T, P> {}
impl<T: Copy, P: MemPool> RefUnwindSafe for VCell<T, P> {}

impl<T: Copy + 'static, P: MemPool> VCell<T, P> {
    /// A cell that holds nothing.
    pub const fn new() -> VCell<T, P> {
        let inside = Inside { mark: 0, value: std::mem::MaybeUninit::uninit() };
        VCell { inside: UnsafeCell::new(inside), marker: PhantomData }
    }

    /// The value set since the pool was opened.
    #[inline]
    pub fn get(&self) -> Option<T> {
        // SAFETY: a cell hands out no references and is not shared by threads, so no other code is
        // changing it.
        let inside = unsafe { *self.inside.get() };
        let set = inside.mark != 0 && inside.mark == Self::mark();
        // SAFETY: set in this opening of the pool, so in this process, by a cell of this type.
        set.then(|| unsafe { inside.value.assume_init() })
    }

    /// Sets the value, to the end of the opening.
    #[inline]
    pub fn set(&self, value: T, j: &Journal<P>) {
        self.put(Self::mark(), value, j);
    }

    /// The mark of values that are set now. The type is a part of it: an earlier program may have
    /// shared one cell between pointers that are of cells of two types in this one.
    #[inline]
    fn mark() -> u64 {
        let mut hasher = Spread::default();
        TypeId::of::<T>().hash(&mut hasher);
        pool::mark::<P>() ^ hasher.finish()
    }

    /// Forgets the value.
    pub fn clear(&self, j: &Journal<P>) {
        if let Some(value) = self.get() {
            self.put(0, value, j);
        }
    }

    fn put(&self, mark: u64, value: T, j: &Journal<P>) {
        j.running().log(self.inside.get().cast(), size_of::<Inside<T>>());
        let inside = Inside { mark, value: std::mem::MaybeUninit::new(value) };
        // SAFETY: logged (OBJ-1); a cell hands out no references and is not shared by threads.
        unsafe { self.inside.get().write(inside) }
    }
}

impl<T: Copy + 'static, P: MemPool> Default for VCell<T, P> {
    fn default() -> Self {
        VCell::new()
    }
}

// SAFETY: of any value only bytes persist, and no later opening reads them as one.
unsafe impl<T: Copy + 'static, P: MemPool> PSafe<P> for VCell<T, P> {
    type At<'x> = VCell<T, P::At<'x>>;
    type Outside = VCell<T, P::Outside>;
    const CELLS: u8 = 0;
    const NICHE: crate::Niche = crate::Niche::None;

    fn describe(_: &mut Schema) -> TypeName {
        format!("VCell<{} {}>", size_of::<T>(), align_of::<T>()).into()
    }

    unsafe fn trace(_: *const Self, _: &mut Tracer<'_>) {}

    fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
        planner.volatile::<Self>(stored)
    }

    unsafe fn moved(_: *const u8, _: PartId, _: &Moving<'_, P>) -> Self {
        VCell::new()
    }
}

impl<T: Copy + 'static + fmt::Debug, P: MemPool> fmt::Debug for VCell<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VCell").field(&self.get()).finish()
    }
}

//! [`POnceCell`]: a value that is set once.

use crate::description::schema::{Schema, TypeName};
use crate::migrate::{Moving, PartId, Planner, Refusal};
use crate::transaction::pool::{is_uncommitted, require_committed};
use crate::{Journal, MemPool, PSafe, Tracer};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::RefUnwindSafe;

/// As `OnceCell`: set once, in a transaction, and read by reference from then on.
#[repr(transparent)]
pub struct POnceCell<T, P: MemPool> {
    value: UnsafeCell<Option<T>>,
    marker: PhantomData<P>,
}

impl<T, P: MemPool> RefUnwindSafe for POnceCell<T, P> {}

impl<T: PSafe<P>, P: MemPool> POnceCell<T, P> {
    /// A cell that is not set.
    pub const fn new() -> POnceCell<T, P> {
        POnceCell { value: UnsafeCell::new(None), marker: PhantomData }
    }

    /// The value, if it is set.
    ///
    /// # Panics
    /// Inside of a transaction, if the cell was not got from it (POOL-3).
    #[inline]
    #[track_caller]
    pub fn get(&self) -> Option<&T> {
        require_committed::<P>(self.value.get().cast());
        // SAFETY: once set, the value is not changed behind `&self`, unless a roll-back takes it,
        // which no reference outlives (POOL-3); before, nothing has a reference to it.
        unsafe { (*self.value.get()).as_ref() }
    }

    /// Sets the value.
    ///
    /// # Errors
    /// `value` again, if there is one.
    pub fn set(&self, value: T, j: &Journal<P>) -> Result<(), T> {
        if self.get().is_some() {
            return Err(value);
        }
        j.running().log(self.value.get().cast(), size_of::<Option<T>>());
        // SAFETY: logged (OBJ-1); it is `None`, so no reference into it exists, and threads do not
        // share the cell.
        unsafe { *self.value.get() = Some(value) };
        Ok(())
    }

    /// The value; a missing one is set to the result of `init`.
    ///
    /// # Panics
    /// If `init` sets the cell itself.
    pub fn get_or_init(&self, init: impl FnOnce() -> T, j: &Journal<P>) -> &T {
        if self.get().is_none() {
            assert!(self.set(init(), j).is_ok(), "this POnceCell was set while it was being set");
        }
        self.get().expect("set just now")
    }

    /// Takes the value out, which leaves the cell as new.
    pub fn take(&mut self) -> Option<T> {
        self.value.get_mut().take()
    }

    /// Takes the cell apart.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }
}

impl<T: PSafe<P>, P: MemPool> Default for POnceCell<T, P> {
    fn default() -> Self {
        POnceCell::new()
    }
}

// SAFETY: as the value; setting it takes a journal of the pool.
unsafe impl<T: PSafe<P>, P: MemPool> PSafe<P> for POnceCell<T, P> {
    type At<'x> = POnceCell<T::At<'x>, P::At<'x>>;
    type Outside = POnceCell<T::Outside, P::Outside>;
    const CELLS: u8 = T::CELLS;
    const NICHE: crate::Niche = crate::Niche::None;

    fn describe(schema: &mut Schema) -> TypeName {
        schema.wrapper::<Option<T>, P>("POnceCell")
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        // SAFETY: the caller's; a cell is its value.
        unsafe { Option::<T>::trace(this.cast(), tracer) }
    }

    fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
        planner.wrapper::<Self, Option<T>>(stored, "POnceCell")
    }

    unsafe fn moved(from: *const u8, part: PartId, moving: &Moving<'_, P>) -> Self {
        // SAFETY: the caller's; a cell is its value.
        let value = unsafe { moving.field::<Option<T>>(from, part, 0) };
        POnceCell { value: UnsafeCell::new(value), marker: PhantomData }
    }
}

impl<T: PSafe<P> + fmt::Debug, P: MemPool> fmt::Debug for POnceCell<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_uncommitted::<P>(self.value.get().cast()) {
            return f.write_str("POnceCell(<of the running transaction>)");
        }
        f.debug_tuple("POnceCell").field(&self.get()).finish()
    }
}

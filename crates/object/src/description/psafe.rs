//! [`PSafe`]: the trait of types whose values may lie in a pool.

use crate::description::derived::Field;
use crate::description::schema::{Schema, TypeName};
use crate::migrate::{Moving, PartId, Planner, Refusal};
use crate::{MemPool, Niche, Tracer};

/// May lie in pool `P`: its bytes mean the same in every run, and changes behind a shared
/// reference happen in a transaction. Derived: `#[derive(PSafe)]` checks every field.
///
/// All bytes of a value persist, padding and the payload of an emptied `Option` included: they may
/// hold bytes of the stack.
///
/// # Safety
/// `At` and `Outside` are the same type with another brand: the same bytes. Values hold no
/// references, no pointers but this crate's, and no interior mutability but this crate's; the
/// layout does not depend on the build. `trace` visits every pointer. `moved` reads the parts that
/// `plan` has planned.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in a pool",
    label = "not persistent-safe",
    note = "only numbers, `bool`, `char`, arrays, tuples, `Option`, the P* types of the same pool and `#[derive(PSafe)]` types of these can",
    note = "in place of `Result`, `Bound`, `RangeInclusive`, `SocketAddr` use `PResult`, `PBound`, `PRangeInclusive`, `Stored<SocketAddr>`; a boxed slice is a `PVec<T, P>`",
    note = "in place of `String`, `Vec`, `Box`, `Rc`, `Arc`, `Mutex`, `Cell`, `RefCell` use `PString`, `PVec`, `Pbox`, `Prc`, `Parc`, `PMutex`, `PCell`, `PRefCell`",
    note = "what belongs to a pool lives in that pool alone: a derived type that holds some takes the pool as a parameter, `struct Name<P: MemPool>`, and gives it `P`"
)]
pub unsafe trait PSafe<P: MemPool>: Sized {
    /// The same type with another brand.
    type At<'x>: PSafe<P::At<'x>> + 'x;

    /// The same type as it is seen outside of transactions.
    type Outside: PSafe<P::Outside>;

    /// How deep cells nest in a value, pointers not followed: a cell is deeper by one than its
    /// value.
    #[doc(hidden)]
    const CELLS: u8;

    /// The spare values of the type, for [`Option`].
    #[doc(hidden)]
    const NICHE: Niche = Niche::Unknown;

    /// Adds this type, and the types it is made of, to a description of a root's layout; returns
    /// its name.
    fn describe(schema: &mut Schema) -> TypeName;

    /// Tells `tracer` every pointer in the value at `this`.
    ///
    /// # Safety
    /// `size_of::<Self>()` bytes at `this` can be read; they may hold anything.
    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>);

    /// The field of this type called `label`.
    #[doc(hidden)]
    fn as_field(label: &str, offset: usize) -> Field<P> {
        Field::new::<Self>(label, offset)
    }

    /// [`Moving::field`].
    ///
    /// # Safety
    /// As there.
    #[doc(hidden)]
    #[inline(never)] // bounds the code of fields of fields, which compilers would inline
    unsafe fn read_field(moving: &Moving<'_, P>, from: *const u8, part: PartId, index: usize) -> Self {
        // SAFETY: the caller's.
        unsafe { moving.field(from, part, index) }
    }

    /// [`Moving::variant_field`].
    ///
    /// # Safety
    /// As there.
    #[doc(hidden)]
    #[inline(never)]
    unsafe fn read_variant(
        moving: &Moving<'_, P>,
        from: *const u8,
        part: PartId,
        (variant, index): (usize, usize),
    ) -> Self {
        // SAFETY: the caller's.
        unsafe { moving.variant_field(from, part, variant, index) }
    }

    /// Plans a value of this type from the type that a description calls `stored`: by default both
    /// must be the same.
    #[doc(hidden)]
    fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
        planner.whole::<Self>(stored)
    }

    /// The value made from the stored value at `from`, if the bytes differ.
    ///
    /// # Safety
    /// As [`Moving::read`].
    #[doc(hidden)]
    unsafe fn moved(from: *const u8, part: PartId, moving: &Moving<'_, P>) -> Self {
        let _ = (from, part, moving);
        unreachable!("PLAN-1: planned to be the same")
    }
}

/// Distinguishes cells that lie at one address: the depth of cells in their values, and whether
/// these have bytes at all.
pub(crate) const fn level<T: PSafe<P>, P: MemPool>() -> u8 {
    if size_of::<T>() == 0 { T::CELLS | 0x80 } else { T::CELLS }
}

/// Implemented by everything that has a `Drop` of its own, and by the derive: so a type that has
/// both does not compile. A hand-written `drop(&mut self)` would change bytes of the pool unlogged.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "persistent types are dropped by their fields: remove the `Drop` implementation"
)]
pub trait PersistentTypesMustNotImplementDrop {}
#[allow(drop_bounds)]
impl<T: Drop> PersistentTypesMustNotImplementDrop for T {}

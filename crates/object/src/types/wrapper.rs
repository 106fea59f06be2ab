//! Code that cells and locks share: each is its value, and only this crate lends references to it.

/// A wrapper of one value: made, taken apart, persistent as its value is. `cells` is how much
/// deeper than its value it nests: 1 for what records guards by address.
macro_rules! wrapper {
    ($Wrapper:ident, cells: $cells:literal) => {
        impl<T, P: MemPool> std::panic::RefUnwindSafe for $Wrapper<T, P> {}

        impl<T: PSafe<P>, P: MemPool> $Wrapper<T, P> {
            /// Holds `value`.
            pub const fn new(value: T) -> $Wrapper<T, P> {
                $Wrapper { value: std::cell::UnsafeCell::new(value), marker: std::marker::PhantomData }
            }

            /// The value, to be changed: the caller borrows all of this mutably, so it is logged.
            pub fn get_mut(&mut self) -> &mut T {
                self.value.get_mut()
            }

            /// Takes the value out.
            pub fn into_inner(self) -> T {
                self.value.into_inner()
            }
        }

        impl<T: PSafe<P> + Default, P: MemPool> Default for $Wrapper<T, P> {
            fn default() -> Self {
                $Wrapper::new(T::default())
            }
        }

        // SAFETY: as the value; flags and locks are kept elsewhere, and changing it takes a journal
        // of the pool.
        unsafe impl<T: PSafe<P>, P: MemPool> PSafe<P> for $Wrapper<T, P> {
            type At<'x> = $Wrapper<T::At<'x>, P::At<'x>>;
            type Outside = $Wrapper<T::Outside, P::Outside>;
            const CELLS: u8 = T::CELLS + $cells;
            const NICHE: crate::Niche = crate::Niche::None;

            fn describe(schema: &mut crate::Schema) -> crate::TypeName {
                schema.wrapper::<T, P>(stringify!($Wrapper))
            }

            unsafe fn trace(this: *const Self, tracer: &mut crate::Tracer<'_>) {
                // SAFETY: the caller's; a wrapper is its value.
                unsafe { T::trace(this.cast(), tracer) }
            }

            fn plan(
                planner: &mut crate::migrate::Planner<P>,
                stored: &str,
            ) -> Result<crate::migrate::PartId, crate::migrate::Refusal> {
                planner.wrapper::<Self, T>(stored, stringify!($Wrapper))
            }

            unsafe fn moved(
                from: *const u8,
                part: crate::migrate::PartId,
                moving: &crate::migrate::Moving<'_, P>,
            ) -> Self {
                // SAFETY: the caller's; a wrapper is its value.
                $Wrapper::new(unsafe { moving.field::<T>(from, part, 0) })
            }
        }
    };
}
pub(crate) use wrapper;

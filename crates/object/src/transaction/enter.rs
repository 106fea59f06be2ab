//! [`Journal::enter`]: a reference from outside of a transaction, with the transaction's brand.

use crate::{In, Journal, Out, PSafe, PoolTag};

impl<'tx, G: PoolTag> Journal<In<'tx, G>> {
    /// A reference into the pool that was taken before the transaction, as the transaction sees it.
    ///
    /// # Panics
    /// If it does not point into the pool.
    pub fn enter<'s, T: PSafe<Out<G>>>(&'s self, object: &'s T) -> &'s T::At<'tx> {
        let at = (&raw const *object).cast::<u8>();
        assert!(self.running().contains(at, size_of::<T>()), "`enter` takes references into the pool");
        // SAFETY: in the pool, where `T` and `T::At<'tx>` are the same bytes (`PSafe`), borrowed
        // for as long.
        unsafe { &*at.cast::<T::At<'tx>>() }
    }
}

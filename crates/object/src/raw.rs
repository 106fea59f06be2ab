//! The way from an open pool to its store: for tools, and for tests that damage it.

use crate::{PSafe, PoolTag, Root};
use everbyte_store::Store;

/// Leads to the store, whose safe functions change any byte of it: see [`everbyte_store::raw`]. The
/// crate `everbyte` does not export this trait.
pub trait Raw {
    /// The store that the pool lies in.
    fn store(&self) -> &Store;
}

impl<R: PSafe<crate::Out<G>>, G: PoolTag> Raw for Root<R, crate::Out<G>> {
    fn store(&self) -> &Store {
        self.inner.object.store()
    }
}

//! [`Reader`]: the right to follow weak pointers and to look behind locks outside of transactions.

use crate::transaction::running;
use crate::{Out, PSafe, PoolTag, Result, Root};
use std::marker::PhantomData;

/// Given to a body of [`Root::read`]: while it lives no transaction changes the pool, so what weak
/// pointers lead to and what locks hold can be borrowed.
pub struct Reader<G: PoolTag> {
    /// Neither `Send` nor `Sync`: transactions of this thread alone are refused, those of others
    /// wait.
    marker: PhantomData<(G, *mut ())>,
}

impl<R: PSafe<Out<G>>, G: PoolTag> Root<R, Out<G>> {
    /// Runs `body` while no transaction of the pool runs: those of other threads wait, one of this
    /// thread is an error. Nothing is logged; costs a lock of each lane.
    ///
    /// ```
    /// # use everbyte_media::{Media, Options};
    /// # use everbyte_store::{FormatOptions, Store};
    /// use everbyte_object::{PMutex, PRefCell, PSafe, Pool, Prc, pool, prc::PWeak};
    /// pool!(P);
    ///
    /// #[derive(PSafe)]
    /// #[repr(C)]
    /// struct Graph<P: everbyte_object::MemPool> {
    ///     node: Prc<u64, P>,
    ///     back: PRefCell<Option<PWeak<u64, P>>, P>,
    ///     count: PMutex<u64, P>,
    /// }
    /// # let store = Store::format(Media::anonymous(16 << 20, &Options::default())?, &FormatOptions::default())?;
    /// let graph = P::create::<Graph<P>>(&store, "graph", |j| {
    ///     let node = Prc::new(7, j);
    ///     let back = PRefCell::new(Some(node.downgrade(j)));
    ///     Graph { node, back, count: PMutex::new(1) }
    /// })?;
    /// let sum = graph.read(|reader, graph| {
    ///     let back = graph.back.borrow();
    ///     back.as_ref().unwrap().get(reader).unwrap() + graph.count.get(reader)
    /// })?;
    /// assert_eq!(sum, 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Busy`] inside of a transaction of this thread and pool, or of another
    /// `read`; [`crate::Error::Panicked`] if `body` panics; [`crate::Error::Tx`] if the media
    /// failed.
    pub fn read<O>(&self, body: impl FnOnce(&Reader<G>, &R) -> O) -> Result<O> {
        running::alone::<G, _>(&self.inner, || body(&Reader { marker: PhantomData }, self))
    }
}

impl<G: PoolTag> std::fmt::Debug for Reader<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reader({})", G::NAME)
    }
}

//! [`Root`]: an open pool and its first object.

use crate::layout::HEADER;
use crate::transaction::open_pool::OpenPool;
use crate::types::hints::RootOfInside;
use crate::{
    In, InTx, Journal, MemPool, Migrated, Out, PSafe, PoolTag, RepairPlan, Report, Result, Token, TryError,
    transaction::pool, transaction::running, verify::check, verify::repair,
};
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// An open pool, seen from its root object. Dereferences to the root for reading; the pool is
/// closed when this is dropped, after the transactions that run on it.
pub struct Root<R: PSafe<P>, P: MemPool> {
    pub(crate) inner: Arc<OpenPool>,
    /// From the pool's base.
    pub(crate) offset: u64,
    pub(crate) migrated: Option<Box<Migrated>>,
    pub(crate) marker: PhantomData<(R, P)>,
}

// SAFETY: a root is a handle to `R`, which another thread may read (`Sync`) and change (`Send`);
// the rest is `Sync`. `Send` alone is not enough: a body that owns the root can change its cells
// and move it to a thread that would read them before the commit. A `Sync` root has its cells
// behind locks, held to the end of the transaction (POOL-3).
unsafe impl<R: PSafe<P> + Send + Sync, P: MemPool> Send for Root<R, P> {}
// SAFETY: as above; transactions of several threads reach `R` by `&R`.
unsafe impl<R: PSafe<P> + Sync, P: MemPool> Sync for Root<R, P> {}

// A captured root leads only to state in a pool, which a roll-back restores.
impl<R: PSafe<P>, P: MemPool> RefUnwindSafe for Root<R, P> {}
impl<R: PSafe<P>, P: MemPool> UnwindSafe for Root<R, P> {}

impl<R: PSafe<Out<G>>, G: PoolTag> Root<R, Out<G>> {
    /// Runs `body` as one transaction: all its changes or none, after any crash; settled on return.
    /// Commits whatever `body` returns. Inside another transaction of this thread and pool it is
    /// part of that one. Volatile state that the body changes is not rolled back:
    /// [`Root::tx_pure`] refuses it.
    ///
    /// # Errors
    /// [`crate::Error::Panicked`], [`crate::Error::Doomed`], [`crate::Error::Tx`], when the pool is
    /// full or its media failed: rolled back, unless that last error says otherwise.
    #[inline]
    pub fn tx<O, F>(&self, body: F) -> Result<O>
    where
        F: for<'tx> FnOnce(&'tx Journal<In<'tx, G>>, &'tx R::At<'tx>) -> O,
    {
        running::rooted::<G, _, _>(&self.inner, |running| Ok(body(&Journal::new(running), self.branded())))
            .map_err(TryError::failed)
    }

    /// [`Root::tx`] with a lint on what `body` captures: volatile state that it could change, which
    /// a roll-back would not undo, does not compile (see [`InTx`]).
    ///
    /// # Errors
    /// As [`Root::tx`].
    #[inline]
    pub fn tx_pure<O, F>(&self, body: F) -> Result<O>
    where
        F: for<'tx> FnOnce(&'tx Journal<In<'tx, G>>, &'tx R::At<'tx>) -> O + InTx,
    {
        self.tx(body)
    }

    /// [`Root::tx`] that rolls back if `body` returns an error. Volatile state that the body
    /// changes is not rolled back.
    ///
    /// # Errors
    /// [`TryError::Aborted`] with the body's own; [`TryError::Failed`] as [`Root::tx`].
    pub fn try_tx<O, E, F>(&self, body: F) -> Result<O, TryError<E>>
    where
        F: for<'tx> FnOnce(&'tx Journal<In<'tx, G>>, &'tx R::At<'tx>) -> Result<O, E>,
    {
        running::rooted::<G, _, _>(&self.inner, |running| body(&Journal::new(running), self.branded()))
    }

    /// [`Root::try_tx`] with the lint of [`Root::tx_pure`].
    ///
    /// # Errors
    /// As [`Root::try_tx`].
    pub fn try_tx_pure<O, E, F>(&self, body: F) -> Result<O, TryError<E>>
    where
        F: for<'tx> FnOnce(&'tx Journal<In<'tx, G>>, &'tx R::At<'tx>) -> Result<O, E> + InTx,
    {
        self.try_tx(body)
    }

    /// [`Root::try_tx`] with a body that returns any error, so that `?` needs no annotation in it:
    ///
    /// ```
    /// # use everbyte_media::{Media, Options};
    /// # use everbyte_store::{FormatOptions, Store};
    /// use everbyte_object::{PCell, Pool, pool};
    /// pool!(P);
    /// # let store = Store::format(Media::anonymous(16 << 20, &Options::default())?, &FormatOptions::default())?;
    /// let number = P::create::<PCell<u64, P>>(&store, "number", |_| PCell::new(0))?;
    /// let parse = |text: &str| {
    ///     number.attempt(|j, number| {
    ///         number.set(text.parse()?, j);
    ///         Ok(())
    ///     })
    /// };
    /// parse("17")?;
    /// assert!(parse("many").is_err());
    /// assert_eq!(number.get(), 17);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Root::try_tx`].
    pub fn attempt<O, F>(&self, body: F) -> Result<O, TryError<Box<dyn std::error::Error + Send + Sync>>>
    where
        F: for<'tx> FnOnce(
            &'tx Journal<In<'tx, G>>,
            &'tx R::At<'tx>,
        ) -> Result<O, Box<dyn std::error::Error + Send + Sync>>,
    {
        self.try_tx(body)
    }

    /// [`Root::tx`] that returns once its changes are ordered: a crash may still lose it, but only
    /// together with everything committed after it. [`Root::sync`] settles.
    ///
    /// # Errors
    /// As [`Root::tx`].
    pub fn tx_buffered<O, F>(&self, body: F) -> Result<O>
    where
        F: for<'tx> FnOnce(&'tx Journal<In<'tx, G>>, &'tx R::At<'tx>) -> O,
    {
        running::buffered::<G, _, _>(&self.inner, |running| Ok(body(&Journal::new(running), self.branded())))
            .map_err(TryError::failed)
    }

    /// Settles every transaction of this pool that has returned, in order.
    ///
    /// # Errors
    /// [`crate::Error::Tx`] if the media failed.
    pub fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    /// Closes the pool, as dropping the root does, and says whether everything is settled.
    ///
    /// # Errors
    /// As [`Root::sync`].
    pub fn close(self) -> Result<()> {
        self.sync()
    }

    /// The root as the running transaction sees it.
    ///
    /// # Panics
    /// If `j` belongs to a transaction of another pool that was open under this type before.
    pub fn at<'s, 'tx>(&'s self, j: &'s Journal<In<'tx, G>>) -> &'s R::At<'tx> {
        j.enter(&**self)
    }

    /// Checks the whole pool: every pointer that the root can reach, and that nothing is allocated
    /// besides. An empty list: all is well. Costs what the pool holds. Waits for the transactions
    /// of other threads that have changed something; those that come wait until it is done.
    /// [`Root::examine`] says more.
    ///
    /// # Errors
    /// [`crate::Error::Busy`] inside of a transaction of this thread and pool; [`crate::Error::Tx`]
    /// if the engine is poisoned.
    pub fn check(&self) -> Result<Vec<everbyte_store::Finding>> {
        Ok(self.examine(&|_| ())?.findings())
    }

    /// Reports reachable blocks, leaks and damage, each with the path from the root. `progress` is
    /// called now and then with the number of blocks met.
    ///
    /// # Errors
    /// As [`Root::check`].
    pub fn examine(&self, progress: &dyn Fn(u64)) -> Result<Report> {
        running::alone::<G, _>(&self.inner, || self.examine_without(&BTreeSet::new(), progress))
    }

    fn examine_without(&self, given_up: &BTreeSet<u64>, progress: &dyn Fn(u64)) -> Report {
        check::examine::<R, Out<G>>(&self.inner, self.offset, given_up, progress)
    }

    /// The changes that [`Root::repair`] would make: counts to mend, blocks to free.
    /// Nothing changes.
    ///
    /// # Errors
    /// [`crate::Error::Unrepairable`] if the pool is damaged or a block has two owners: then
    /// nothing is sure to have leaked. Otherwise as [`Root::check`].
    pub fn plan_repair(&self, progress: &dyn Fn(u64)) -> Result<RepairPlan> {
        running::alone::<G, _>(&self.inner, || self.plan(progress))?
    }

    fn plan(&self, progress: &dyn Fn(u64)) -> Result<RepairPlan> {
        let header = self.inner.media().get(self.inner.object.prime() + HEADER);
        repair::plan(&self.inner, &header, |given_up| self.examine_without(given_up, progress))
    }

    /// Does what the plan with this token says: mends counts, then frees what nothing leads to,
    /// cycles of strong pointers, too. The pool is walked again before, and answers what was done.
    /// Transactions of other threads wait until it is. A crash leaves a pool that is whole, and
    /// that another repair finishes.
    ///
    /// # Errors
    /// [`crate::Error::Changed`] if the pool is not as it was when that was planned: nothing has
    /// changed. [`crate::Error::Tx`] if the media failed: part of it may be done. Otherwise as
    /// [`Root::plan_repair`].
    ///
    /// # Panics
    /// Inside a transaction of this pool.
    pub fn repair(&mut self, token: Token, progress: &dyn Fn(u64)) -> Result<RepairPlan> {
        running::with_current::<G, _>(|current| assert!(current.is_none(), "a repair is no part of a transaction"));
        // `&mut self`: no transaction runs by the root, and no reference got by it lives
        let _alone = G::slot().open.write();
        self.inner.settle_ordered()?; // the result reports a state that must be settled
        running::barred::<G, _>(&self.inner, || repair::run(&self.inner, token, self.plan(progress)?))?
    }

    /// The pool's name in its store.
    pub fn name(&self) -> &str {
        self.inner.object.name()
    }

    /// The findings and mends of the opening.
    pub fn recovered(&self) -> &everbyte_tx::Recovered {
        self.inner.undo.recovered()
    }

    /// The result of [`crate::Pool::open_migrating`]; `None` if the pool was of this version.
    pub fn migrated(&self) -> Option<&Migrated> {
        self.migrated.as_deref()
    }

    /// Makes the root ready to move to another thread; [`Detached::attach`] makes it a root again.
    /// A root that is `Sync` moves without it.
    ///
    /// # Panics
    /// Inside a transaction of this thread and pool: the other thread would read what may be rolled
    /// back.
    #[must_use = "dropping it closes the pool"]
    #[track_caller]
    pub fn detach(self) -> Detached<R, Out<G>> {
        let is_inside = running::with_current::<G, _>(|current| current.is_some());
        assert!(!is_inside, "a root is not detached inside a transaction of its pool");
        Detached(self)
    }

    /// A number raised at every opening of the pool.
    pub fn generation(&self) -> u64 {
        self.inner.generation
    }

    #[inline(always)]
    fn branded<'s, 'tx>(&'s self) -> &'s R::At<'tx> {
        // SAFETY: `R` and `R::At<'tx>` are the same bytes (`PSafe`); the body that sees it is
        // shorter than `self`.
        unsafe { &*(&raw const **self).cast::<R::At<'tx>>() }
    }
}

/// An open pool on its way to another thread: see [`Root::detach`]. The pool is closed when this is
/// dropped.
pub struct Detached<R: PSafe<P>, P: MemPool>(Root<R, P>);

// SAFETY: no transaction of the thread that detached it has changed cells of `R` that are not
// committed, and it lends nothing before it is attached.
unsafe impl<R: PSafe<P> + Send, P: MemPool> Send for Detached<R, P> {}
// SAFETY: `&Detached` reaches nothing.
unsafe impl<R: PSafe<P> + Send, P: MemPool> Sync for Detached<R, P> {}

impl<R: PSafe<P>, P: MemPool> Detached<R, P> {
    /// The root, in the thread that calls this.
    pub fn attach(self) -> Root<R, P> {
        self.0
    }
}

impl<R: PSafe<P>, P: MemPool> std::fmt::Debug for Detached<R, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Detached({:?})", self.0)
    }
}

/// Refusals with a message: a root of the inside of a transaction does not exist.
#[doc(hidden)]
impl<'x, R: PSafe<In<'x, G>>, G: PoolTag> Root<R, In<'x, G>> {
    pub fn tx<O, F>(&self, _: F) -> Result<O>
    where
        F: for<'tx> FnOnce(&'tx Journal<In<'tx, G>>, &'tx R::At<'tx>) -> O,
        Root<R, In<'x, G>>: RootOfInside,
    {
        unreachable!("nothing implements `RootOfInside`")
    }

    pub fn try_tx<O, E, F>(&self, _: F) -> Result<O, TryError<E>>
    where
        F: for<'tx> FnOnce(&'tx Journal<In<'tx, G>>, &'tx R::At<'tx>) -> Result<O, E>,
        Root<R, In<'x, G>>: RootOfInside,
    {
        unreachable!("nothing implements `RootOfInside`")
    }
}

impl<R: PSafe<P>, P: MemPool> Deref for Root<R, P> {
    type Target = R;

    #[inline(always)]
    fn deref(&self) -> &R {
        let at = pool::base::<P>().wrapping_add(self.offset as usize);
        // SAFETY:
        // - in bounds and valid: opening checked the root's block and type, and transactions keep
        //   it so;
        // - alive: the slot is bound while `self` lives (POOL-2);
        // - other writers: what changes behind `&R` does so by the rules of `R`'s cells and locks.
        unsafe { &*at.cast::<R>() }
    }
}

impl<R: PSafe<P>, P: MemPool> Drop for Root<R, P> {
    fn drop(&mut self) {
        running::close::<P::Tag>(&self.inner);
    }
}

impl<R: PSafe<P>, P: MemPool> std::fmt::Debug for Root<R, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Root({}, {})", self.inner.object.name(), P::Tag::NAME)
    }
}

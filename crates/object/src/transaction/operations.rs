//! [`Pool`]: the operations of a pool type.

use crate::transaction::open;
use crate::transaction::running;
use crate::{
    Error, In, InTx, Journal, MemPool, Migrated, Out, PSafe, PoolOptions, PoolTag, Result, Root, TryError, migrate,
};
use everbyte_store::raw::AsStore;

/// Operations of a pool type: open and create pools, and run transactions.
///
/// One pool at a time is open under a pool type; a program declares as many types as it opens pools
/// at once.
pub trait Pool: MemPool {
    /// Makes a pool named `name` in `store` with the root that `init` returns. Settled on return: a
    /// crash before leaves no pool at all.
    ///
    /// # Errors
    /// [`Error::Bound`] if a pool is open under this type; [`Error::Store`] if the name is taken or
    /// there is no room; [`Error::Panicked`] if `init` panicked. The store is as before then.
    fn create<R: PSafe<Self>>(
        store: &impl AsStore,
        name: &str,
        init: impl for<'tx> FnOnce(&'tx Journal<Self::At<'tx>>) -> R::At<'tx>,
    ) -> Result<Root<R, Self>> {
        Self::create_with::<R>(store, name, &PoolOptions::default(), init)
    }

    /// [`Pool::create`] with options.
    ///
    /// # Errors
    /// As [`Pool::create`].
    fn create_with<R: PSafe<Self>>(
        store: &impl AsStore,
        name: &str,
        options: &PoolOptions,
        init: impl for<'tx> FnOnce(&'tx Journal<Self::At<'tx>>) -> R::At<'tx>,
    ) -> Result<Root<R, Self>>;

    /// Opens the pool named `name`: rolls back transactions that a crash interrupted, and verifies
    /// that the root is an `R`.
    ///
    /// # Errors
    /// [`Error::Bound`]; [`Error::Store`] if there is no such object; [`Error::NotTyped`],
    /// [`Error::WrongType`] if it is no pool, or one of another type; [`Error::OlderVersion`],
    /// [`Error::NewerVersion`] if it is of another version; [`Error::Tx`] if it cannot be
    /// recovered.
    fn open<R: PSafe<Self>>(store: &impl AsStore, name: &str) -> Result<Root<R, Self>>;

    /// [`Pool::open`] that also opens a pool of an older version, and makes it one of this version:
    /// whole or not at all, after any crash; settled on return. Programs of the older version
    /// refuse it from then on. [`Root::migrated`] reports the changes. Time and, until the
    /// commit, space grow with the bytes of the values that change. See [`crate::Migrate`].
    ///
    /// # Errors
    /// As [`Pool::open`]; [`Error::NoMigration`], [`Error::Circle`] if it cannot be migrated;
    /// [`Error::Panicked`] if a function of the program has panicked; [`Error::Store`],
    /// [`Error::Tx`] if there is no room. The pool is as before then.
    fn open_migrating<R: PSafe<Self>>(store: &impl AsStore, name: &str) -> Result<Root<R, Self>>;

    /// Does the migration of [`Pool::open_migrating`], reports it, and rolls it back.
    ///
    /// # Errors
    /// As [`Pool::open_migrating`].
    fn rehearse_migration<R: PSafe<Self>>(store: &impl AsStore, name: &str) -> Result<Migrated>;

    /// Opens the pool named `name`, or makes it if there is none.
    ///
    /// # Errors
    /// As [`Pool::open`] and [`Pool::create`].
    fn open_or_create<R: PSafe<Self>>(
        store: &impl AsStore,
        name: &str,
        init: impl for<'tx> FnOnce(&'tx Journal<Self::At<'tx>>) -> R::At<'tx>,
    ) -> Result<Root<R, Self>> {
        match Self::open::<R>(store, name) {
            Err(Error::Store(everbyte_store::Error::NotFound { .. })) => Self::create::<R>(store, name, init),
            opened => opened,
        }
    }

    /// Runs `body` as a transaction of the pool open under this type, without its root. See
    /// [`Root::tx`].
    ///
    /// # Errors
    /// As [`Root::tx`]; [`Error::Closed`] if no pool is open under this type.
    fn transaction<O, F: for<'tx> FnOnce(&'tx Journal<Self::At<'tx>>) -> O>(body: F) -> Result<O>;

    /// [`Pool::transaction`] with the lint of [`Root::tx_pure`] on what `body` captures.
    ///
    /// # Errors
    /// As [`Pool::transaction`].
    fn transaction_pure<O, F: for<'tx> FnOnce(&'tx Journal<Self::At<'tx>>) -> O + InTx>(body: F) -> Result<O> {
        Self::transaction(body)
    }

    /// [`Pool::transaction`] that rolls back if `body` returns an error.
    ///
    /// # Errors
    /// [`TryError::Aborted`] with the body's own; [`TryError::Failed`] as [`Pool::transaction`].
    fn try_transaction<O, E, F>(body: F) -> Result<O, TryError<E>>
    where
        F: for<'tx> FnOnce(&'tx Journal<Self::At<'tx>>) -> Result<O, E>;
}

impl<G: PoolTag> Pool for Out<G> {
    fn create_with<R: PSafe<Self>>(
        store: &impl AsStore,
        name: &str,
        options: &PoolOptions,
        init: impl for<'tx> FnOnce(&'tx Journal<In<'tx, G>>) -> R::At<'tx>,
    ) -> Result<Root<R, Self>> {
        open::create::<R, G>(store.as_store(), name, options, init)
    }

    fn open<R: PSafe<Self>>(store: &impl AsStore, name: &str) -> Result<Root<R, Self>> {
        open::open::<R, G>(store.as_store(), name)
    }

    fn open_migrating<R: PSafe<Self>>(store: &impl AsStore, name: &str) -> Result<Root<R, Self>> {
        migrate::open::<R, G>(store.as_store(), name)
    }

    fn rehearse_migration<R: PSafe<Self>>(store: &impl AsStore, name: &str) -> Result<Migrated> {
        migrate::rehearse::<R, G>(store.as_store(), name)
    }

    fn transaction<O, F: for<'tx> FnOnce(&'tx Journal<In<'tx, G>>) -> O>(body: F) -> Result<O> {
        running::unrooted::<G, _, _>(|running| Ok(body(&Journal::new(running)))).map_err(TryError::failed)
    }

    fn try_transaction<O, E, F>(body: F) -> Result<O, TryError<E>>
    where
        F: for<'tx> FnOnce(&'tx Journal<In<'tx, G>>) -> Result<O, E>,
    {
        running::unrooted::<G, _, _>(|running| body(&Journal::new(running)))
    }
}

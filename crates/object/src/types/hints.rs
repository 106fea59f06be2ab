//! Traits whose messages say what to write: bounds on calls that look right and cannot be.
//!
//! A type without `Clone` lets `#[derive(Clone)]` say that `Clone` is missing, and no more. With an
//! implementation that needs a trait of this crate, which nothing implements, the compiler says the
//! words of that trait. The program is refused either way.

use crate::{MemPool, PSafe};
use std::borrow::Borrow;

/// Implemented by nothing: allocating clones take a journal.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{T}` is not cloned without a journal",
    label = "`clone()` and `#[derive(Clone)]` do not say in which transaction they allocate",
    note = "write `pclone(j)`, and in place of `#[derive(Clone)]` a method `fn pclone(&self, j: &Journal<P>) -> Self` that calls it for each such field"
)]
pub trait CloneWithoutJournal<T> {}

/// Implemented by nothing: text grows by a journal.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`write!` into a `PString` needs a journal",
    label = "does not say in which transaction it allocates",
    note = "write `write!(text.writer(j), ..)`"
)]
pub trait WriteWithoutJournal {}

/// Implemented by nothing: a root is seen from outside of its transactions.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a root's type is never that of the inside of a transaction",
    label = "`In<'static, G>` is no pool type of a root",
    note = "write `Root<T, Out<G>>` with a `T: PSafe<Out<G>>`, for every `G: PoolTag`"
)]
pub trait RootOfInside {}

/// Keys that a map finds by a `Q`: those that borrow as one.
#[diagnostic::on_unimplemented(
    message = "keys of type `{Self}` are not found by a `{Q}`",
    label = "not what the keys borrow as",
    note = "a `PString` is found by a `&str`: write `key.as_str()`; a `PVec` by a slice: write `&key[..]`; others by a reference to such a key"
)]
pub trait FoundBy<Q: ?Sized>: Borrow<Q> {}

#[diagnostic::do_not_recommend]
impl<K: Borrow<Q>, Q: ?Sized> FoundBy<Q> for K {}

/// `Clone` for types that allocate, which refuses with a message.
macro_rules! clone_by_journal {
    ($($Type:ident<$($of:ident),*>;)*) => { $(
        #[doc(hidden)]
        impl<$($of: PSafe<P>,)* P: MemPool> Clone for crate::$Type<$($of,)* P>
        where
            // The compiler says the words of a bound whose type is not the one to be cloned.
            (): CloneWithoutJournal<crate::$Type<$($of,)* P>>,
        {
            fn clone(&self) -> Self {
                unreachable!("nothing implements `CloneWithoutJournal`")
            }
        }
    )* };
}

clone_by_journal! {
    PString<>;
    Pbox<T>;
    PVec<T>;
    PVecDeque<T>;
    PHashMap<K, V>;
    PBTreeMap<K, V>;
    PHashSet<T>;
    PBTreeSet<T>;
    Prc<T>;
    Parc<T>;
}

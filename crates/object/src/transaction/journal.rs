//! [`Journal`]: the right to change a pool, given to a transaction's body.

use crate::transaction::running::Running;
use crate::{In, MemPool, PoolTag};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::panic::UnwindSafe;

/// The journal of a running transaction. Every change of the pool takes a reference to it; it
/// exists only inside a transaction's body and cannot be stored, sent or captured by another
/// transaction.
pub struct Journal<P: MemPool> {
    /// Valid while the body runs, which no journal outlives: bodies get it by reference, with the
    /// brand's lifetime.
    running: *const Running,
    /// Neither `Send` nor `Sync` nor unwind-safe.
    marker: PhantomData<(P, *mut (), UnsafeCell<&'static mut ()>)>,
}

impl<P: MemPool> Journal<P> {
    #[inline(always)]
    pub(crate) fn new(running: &Running) -> Journal<P> {
        Journal { running, marker: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn running(&self) -> &Running {
        // SAFETY: made from a reference that outlives the body, and the body is all that sees
        // `self`.
        unsafe { &*self.running }
    }
}

impl<'tx, G: PoolTag> Journal<In<'tx, G>> {
    /// Runs `body` as a part of this transaction that fails alone with the outermost: a panic
    /// inside is returned as an error, and the outermost transaction will roll back even so.
    ///
    /// # Errors
    /// [`crate::Error::Panicked`].
    pub fn nested<O>(&'tx self, body: impl FnOnce(&'tx Journal<In<'tx, G>>) -> O) -> crate::Result<O> {
        self.running().nest(|| body(self))
    }
}

impl<P: MemPool> std::fmt::Debug for Journal<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Journal({})", P::Tag::NAME)
    }
}

/// Types that a body of [`Root::tx_pure`](crate::Root::tx_pure) may capture: a lint against
/// changing volatile state, which a roll-back would not undo.
///
/// Everything that is `UnwindSafe`. The lint also refuses harmless captures, such as `&dyn Fn`;
/// soundness rests on the brand, not on this, so [`Root::tx`](crate::Root::tx) does without it.
#[diagnostic::on_unimplemented(
    message = "this transaction's body captures volatile state that it could change",
    label = "captures `&mut` or a cell",
    note = "a roll-back would not undo that change: return the new value instead",
    note = "or use `tx`, or wrap the captured reference in `AssertUnwindSafe`, to accept it"
)]
pub trait InTx {}

#[diagnostic::do_not_recommend]
impl<F: UnwindSafe> InTx for F {}

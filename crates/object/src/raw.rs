//! Ways around the typed interface: from an open pool to its store, for tools and for tests that
//! damage it; and, for other languages, to addresses in a pool and to the running transaction.

use crate::description::described;
use crate::transaction::running::{self, Current};
use crate::{In, Journal, MemPool, PSafe, PoolTag, Result, Root, TryError};
use everbyte_store::Store;
use std::cell::Cell;

/// The number of this thread's running transaction under `G`, which no other transaction of the
/// process has or had; 0 if there is none.
pub fn running_number<G: PoolTag>() -> u64 {
    with_current::<G, _>(Current::number)
}

/// Runs `with` on the words that this thread keeps for its transactions under `G`. The thread's
/// variable is read once.
#[inline(always)]
pub fn with_current<G: PoolTag, O>(with: impl FnOnce(&Current) -> O) -> O {
    G::current(with)
}

/// The place of a running transaction on its thread's stack.
#[inline]
pub fn place_of<P: MemPool>(j: &Journal<P>) -> usize {
    j.running().id() as usize
}

/// A byte that the code of another language keeps with an outermost transaction; 0 at its
/// beginning.
#[inline]
pub fn mark<P: MemPool>(j: &Journal<P>) -> &Cell<u8> {
    &j.running().mark
}

/// Runs `body` as a part of this thread's running transaction under `G`, as a transaction inside of
/// it, if it has that number; `None`, and nothing is run, if not. `look` is as in [`inside_or`].
/// The thread's variable is read once.
#[inline]
pub fn part<G: PoolTag, O, E>(
    number: u64,
    look: impl FnOnce(usize),
    body: impl for<'tx> FnOnce(&'tx Journal<In<'tx, G>>) -> Result<O, E>,
) -> Option<Result<O, TryError<E>>> {
    running::part::<G, _, _>(number, look, |running| body(&Journal::new(running)))
}

/// Runs `inside` as a part of this thread's running transaction under `G`, or `outside` if there is
/// none. `look` gets the word [`Current::place`] before the transaction is read.
///
/// # Errors
/// [`crate::Error::Busy`] inside of a check; [`crate::Error::Panicked`] and the engine's errors, of
/// `inside`.
#[inline]
pub fn inside_or<G: PoolTag, O>(
    look: impl FnOnce(usize),
    inside: impl for<'tx> FnOnce(&'tx Journal<In<'tx, G>>) -> O,
    outside: impl FnOnce() -> O,
) -> Result<O> {
    running::either::<G, _>(look, |running| inside(&Journal::new(running)), outside)
}

/// The address from which the offsets of a pool's pointers count, while the pool is open.
pub fn base_of<R: PSafe<crate::Out<G>>, G: PoolTag>(root: &Root<R, crate::Out<G>>) -> *const u8 {
    root.inner.base
}

/// Whether `len` bytes at `at` lie in the pool that is open under the tag, where objects may lie:
/// behind its first page.
#[inline]
pub fn may_lie<P: MemPool>(at: *const u8, len: usize) -> bool {
    P::Tag::slot().contains(at.addr(), len, OWN_PAGE)
}

/// Logs `len` bytes at `at`, which code of another language is about to change in this transaction.
/// False, and nothing is logged, if no object can lie there: outside of the pool, or on its first
/// page.
#[must_use]
pub fn log<P: MemPool>(j: &Journal<P>, at: *const u8, len: usize) -> bool {
    let is_behind = (at as usize).wrapping_sub(j.running().base()) >= OWN_PAGE;
    let lies_inside = is_behind && j.running().contains(at, len);
    if lies_inside {
        j.running().log(at, len);
    }
    lies_inside
}

/// Refuses a child of fork that goes on with a transaction, or begins one: it sees the bytes of the
/// pool, and would change them beside its parent.
///
/// # Errors
/// As [`everbyte_media::Media::require_opener`].
#[inline]
pub fn require_opener<P: MemPool>(j: &Journal<P>) -> Result<()> {
    j.running().inner().media().require_opener().map_err(|error| everbyte_store::Error::from(error).into())
}

/// The cost of persistence so far, on the media of a transaction.
pub fn counts<P: MemPool>(j: &Journal<P>) -> everbyte_media::Counts {
    j.running().inner().media().counts()
}

/// Bytes from a pool's base that hold its header and the engines' words.
const OWN_PAGE: usize = 4096;
const _: () = assert!(OWN_PAGE >= crate::layout::HEADER as usize + size_of::<crate::layout::Header>());

/// The first difference between two descriptions of a root, the one that a pool has and the
/// program's.
pub fn difference(found: &str, wanted: &str) -> String {
    described::difference(found, wanted)
}

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

//! The common part of all exported methods.
//!
//! Invariants
//!   CALL-1  Nothing unwinds out of a function that C++ calls.
//!   CALL-2  A method that changes a pool runs inside of the transaction that the caller names,
//!           which is the running one of this thread.
//!   CALL-3  A child of fork changes nothing: it would do so beside its parent, in the same log.

use crate::fault::caught;
use crate::handle::require_around;
use crate::passed::require_place;
use crate::{Fault, Returned};
use everbyte_media::seeded;
use everbyte_object::raw::{self, require_opener, running_number, with_current};
use everbyte_object::{In, Journal, Out, PoolTag};
use std::marker::PhantomData;

/// A call without a result.
#[inline]
pub fn guarded(call: impl FnOnce() -> Result<(), Fault>) -> u32 {
    caught(call) // CALL-1
}

/// A method that takes a journal: `body`, as a part of the transaction `number`. A panic and an
/// error doom that transaction: the method may have changed a part of what it was to change.
///
/// # Safety
/// `out` may be written to, or PASS-2 refuses it.
#[inline]
pub unsafe fn changing<G: PoolTag, R: Returned>(
    number: u64,
    out: *mut R::Raw,
    body: impl for<'tx> FnOnce(&'tx Journal<In<'tx, G>>) -> Result<R, Fault>,
) -> u32 {
    guarded(|| {
        require_place(out, "a result")?;
        let raw = match seeded("bridge-refused-commits") {
            true => part::<G, _>(number, |j| Ok(body(j).and_then(R::into_raw)))??,
            false => part::<G, _>(number, |j| body(j)?.into_raw())?,
        };
        // SAFETY: the caller's.
        unsafe { out.write(raw) };
        Ok(())
    })
}

/// A method without a journal. Inside of a transaction it is run with its brand, so that it reads
/// what the transaction has changed.
///
/// # Safety
/// As [`changing`].
#[inline]
pub unsafe fn reading<G: PoolTag, R: Returned>(
    out: *mut R::Raw,
    inside: impl for<'tx> FnOnce(PhantomData<In<'tx, G>>) -> Result<R, Fault>,
    outside: impl FnOnce(PhantomData<Out<G>>) -> Result<R, Fault>,
) -> u32 {
    let here = 0u8;
    let here = (&raw const here).addr();
    guarded(|| {
        require_place(out, "a result")?;
        let look = |begun| require_around::<G>(begun, here); // HANDLE-6
        let ended = raw::inside_or::<G, _>(look, |j| inside(brand(j)), || outside(PhantomData));
        let raw = ended.map_err(Fault::from).flatten()?.into_raw()?;
        // SAFETY: the caller's.
        unsafe { out.write(raw) };
        Ok(())
    })
}

fn brand<'tx, G: PoolTag>(_: &'tx Journal<In<'tx, G>>) -> PhantomData<In<'tx, G>> {
    PhantomData
}

/// Runs `body` as a part of the transaction `number` (CALL-2, CALL-3), which a panic and an error
/// of it doom.
#[inline]
pub(crate) fn part<G: PoolTag, O>(
    number: u64,
    body: impl for<'tx> FnOnce(&'tx Journal<In<'tx, G>>) -> Result<O, Fault>,
) -> Result<O, Fault> {
    let number = if seeded("bridge-number-trusted") { running_number::<G>() } else { number };
    let here = 0u8;
    let here = (&raw const here).addr();
    let look = |begun| require_around::<G>(begun, here); // HANDLE-6
    let ended = raw::part::<G, _, _>(number, look, |j| {
        require_opener(j)?; // CALL-3
        body(j)
    });
    ended.ok_or_else(stale::<G>)?.map_err(Fault::of_transaction)
}

/// CALL-2.
#[inline]
pub(crate) fn require_running<G: PoolTag>(number: u64) -> Result<(), Fault> {
    let here = 0u8;
    let here = (&raw const here).addr();
    with_current::<G, _>(|current| {
        let is_running = number != 0 && number == current.number() || seeded("bridge-number-trusted");
        if !is_running {
            return Err(stale::<G>());
        }
        require_around::<G>(current.place().get(), here); // HANDLE-6
        Ok(())
    })
}

#[cold]
fn stale<G: PoolTag>() -> Fault {
    Fault::invalid(format!(
        "pool type `{}`: the transaction has ended, or belongs to another thread; use it inside of its lambda alone",
        G::NAME
    ))
}

//! Runs transactions: the outermost of a thread, the order of its end, and the settling that its
//! caller waits for.

use super::{Running, panicked};
use crate::transaction::open_pool::OpenPool;
use crate::transaction::sync::meanwhile;
use crate::{Error, PoolTag, Result, TryError};
use everbyte_media::museum::{misplaced, unless};
use everbyte_media::{Media, Unsettled, seeded};
use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// This thread's transaction under a tag, and what code of another language keeps with it
/// (`raw::with_current`). Neither word lies in the transaction, which `longjmp` may have freed.
pub struct Current {
    running: Cell<*const Running>,
    /// The number of the last transaction (OBJ-6).
    number: Cell<u64>,
    place: Cell<usize>,
}

impl Current {
    /// None.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Current {
        Current { running: Cell::new(ptr::null()), number: Cell::new(0), place: Cell::new(0) }
    }

    /// The number of the running transaction; 0 if there is none.
    #[inline(always)]
    pub fn number(&self) -> u64 {
        if self.running.get().is_null() { 0 } else { self.number.get() }
    }

    /// A word that the code of another language keeps from one transaction to the next.
    #[inline(always)]
    pub fn place(&self) -> &Cell<usize> {
        &self.place
    }

    /// Names a transaction, with a number of its own (OBJ-6).
    #[inline(always)]
    fn begin(&self, running: &Running) {
        self.number.set(number_after(self.number.get()));
        self.running.set(running);
    }
}

/// As many numbers as a thread takes at once for its transactions under a tag.
const NUMBERS: u64 = 1 << 20;

/// The number after a thread's last one, which is 0 at first.
#[inline(always)]
fn number_after(last: u64) -> u64 {
    1 + if last.is_multiple_of(NUMBERS) { more_numbers() } else { last }
}

/// The last number before those that a thread takes.
#[cold]
fn more_numbers() -> u64 {
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    TAKEN.fetch_add(NUMBERS, Ordering::Relaxed)
}

/// Makes a transaction the current one of its thread, and ends that (OBJ-2).
struct Named<'r, G: PoolTag>(PhantomData<(&'r Running, G)>);

impl<'r, G: PoolTag> Named<'r, G> {
    #[inline(always)]
    fn new(running: &'r Running) -> Named<'r, G> {
        G::current(|current| current.begin(running));
        Named(PhantomData)
    }
}

impl<G: PoolTag> Drop for Named<'_, G> {
    #[inline(always)]
    fn drop(&mut self) {
        G::current(|current| current.running.set(ptr::null()));
    }
}

/// Runs `with` on this thread's transaction under `G`, if there is one.
#[inline(always)]
pub(crate) fn with_current<G: PoolTag, O>(with: impl FnOnce(Option<&Running>) -> O) -> O {
    let running = G::current(|current| current.running.get());
    // SAFETY: named only while it lives (OBJ-2), and `with` cannot end it.
    with(unsafe { running.as_ref() })
}

/// An outermost transaction that has ended. The body's result, error or payload is still whole: its
/// destructor may panic, and by then nothing is to be left to do (OBJ-5).
struct Ended<O, E> {
    body: Result<Result<O, E>, Box<dyn Any + Send>>,
    /// The reason for which it was not committed, unless the body returned an error; boxed, since
    /// it is rare.
    failed: Option<Box<Error>>,
}

impl<O, E> Ended<O, E> {
    #[inline]
    fn is_committed(&self) -> bool {
        matches!(self.body, Ok(Ok(_))) && self.failed.is_none()
    }

    #[inline]
    fn outcome(self) -> Result<O, TryError<E>> {
        match (self.body, self.failed) {
            (Ok(Ok(value)), None) => Ok(value),
            (Ok(Err(error)), None) => Err(TryError::Aborted(error)),
            (Err(payload), None) => Err(TryError::Failed(panicked(payload))),
            (body, Some(error)) => {
                drop(body);
                Err(TryError::Failed(*error))
            }
        }
    }
}

/// Work left to do after an outermost transaction.
struct Left {
    /// Settled before the caller gets its result.
    done: Unsettled<()>,
    closing: bool,
}

impl Left {
    #[inline(always)]
    fn nothing() -> Left {
        Left { done: Unsettled::default(), closing: false }
    }
}

/// An outermost transaction: ordered on return.
#[inline]
fn outermost<G: PoolTag, O, E>(
    inner: &OpenPool,
    left: &mut Left,
    body: impl FnOnce(&Running) -> Result<O, E>,
) -> Ended<O, E> {
    let unreadable = Media::unreadable_count();
    let mut running = Running::new(inner);
    let named = Named::<G>::new(&running);
    let mut body = catch_unwind(AssertUnwindSafe(|| body(&running)));
    misplaced("object-payload-early", || {
        if let Err(payload) = &mut body {
            *payload = Box::new(()); // the old one's destructor may panic
        }
    });
    let mut failed = match &body {
        Ok(Ok(_)) if running.started.get().is_none() && !running.doomed.get() => None,
        Ok(Ok(_)) => running.finish().err(),
        Ok(Err(_)) => None,
        Err(payload) => running.stopped(&**payload).map(Box::new),
    };
    drop(named);
    if Media::unreadable_count() != 0 && matches!(body, Ok(Ok(_))) && failed.is_none() {
        failed = met_unreadable(inner, unreadable).map(Box::new);
    }
    left.closing = running.closing.get();
    if running.started.get().is_some() {
        running.tell();
        running.worked = true;
        match running.conclude(matches!(body, Ok(Ok(_))) && failed.is_none()) {
            Ok(done) => left.done = done,
            Err(error) => failed = Some(Box::new(error)),
        }
    }
    Ended { body, failed }
}

/// The reason for which a successful body must not commit or return: it may have read zeros of a
/// lost page.
#[cold]
fn met_unreadable(inner: &OpenPool, before: u64) -> Option<Error> {
    if seeded("object-answers-over-lost-page") {
        return None;
    }
    match inner.undo.heap().object().require_readable() {
        Err(error) => Some(error.into()),
        Ok(()) => (Media::unreadable_count() != before).then_some(Error::UnreadableElsewhere),
    }
}

impl Running {
    /// Ends the engine's transaction; ordered on return.
    fn conclude(&mut self, commit: bool) -> Result<Unsettled<()>> {
        let started = self.started.take().expect("it has been started");
        misplaced("object-lock-early", || self.release_locks());
        meanwhile();
        let done = if commit {
            let revert = || unless("object-failed-commit-counts", || self.revert_counts());
            started.commit(revert)?.result
        } else {
            self.revert_counts();
            started.rollback()?;
            Unsettled::default()
        };
        if !self.met.get() || seeded("object-answer-seen") {
            return Ok(done);
        }
        Ok(self.inner().with_newest(done)) // LOCK-4
    }
}

/// Runs `body` as a part of this thread's transaction under `G`; if there is none, `outermost` has
/// it.
#[inline(always)]
fn inside<G: PoolTag, O, E, B: FnOnce(&Running) -> Result<O, E>>(
    body: B,
    outermost: impl FnOnce(B) -> Result<O, TryError<E>>,
) -> Result<O, TryError<E>> {
    with_current::<G, _>(|current| match current {
        Some(running) if running.barred.get() => Err(TryError::Failed(Error::Busy { pool: G::NAME })),
        Some(running) => running.nest_try(body),
        None => outermost(body),
    })
}

/// A transaction of a caller that holds the root.
#[inline]
pub(crate) fn rooted<G: PoolTag, O, E>(
    inner: &OpenPool,
    body: impl FnOnce(&Running) -> Result<O, E>,
) -> Result<O, TryError<E>> {
    inside::<G, _, _, _>(body, |body| {
        let mut left = Left::nothing();
        let ended = outermost::<G, _, _>(inner, &mut left, body);
        if !left.done.is_nothing() || inner.is_buffered.load(Ordering::Relaxed) {
            // also when it was rolled back: its error may tell of what it saw
            inner.settle_all(left.done)?;
        }
        ended.outcome()
    })
}

/// [`rooted`] that does not wait for its own barrier.
pub(crate) fn buffered<G: PoolTag, O, E>(
    inner: &OpenPool,
    body: impl FnOnce(&Running) -> Result<O, E>,
) -> Result<O, TryError<E>> {
    inside::<G, _, _, _>(body, |body| {
        let mut left = Left::nothing();
        let ended = outermost::<G, _, _>(inner, &mut left, body);
        if ended.is_committed() {
            inner.add_buffered(left.done);
        }
        ended.outcome()
    })
}

/// A transaction of a caller that vouches for the open pool.
pub(crate) fn unrooted<G: PoolTag, O, E>(body: impl FnOnce(&Running) -> Result<O, E>) -> Result<O, TryError<E>> {
    inside::<G, _, _, _>(body, |body| {
        // Recursive: a transaction may wait for a thread of its own that starts one, while a
        // closing waits for both.
        let open = G::slot().open.read_recursive();
        let Some(inner) = &*open else { return Err(TryError::Failed(Error::Closed { pool: G::NAME })) };
        let mut left = Left::nothing();
        let ended = outermost::<G, _, _>(inner, &mut left, body);
        if left.done.is_nothing() && !left.closing && !inner.is_buffered.load(Ordering::Relaxed) {
            drop(open);
            return ended.outcome();
        }
        // Under the lock: once the pool is closed no thread holds its claim.
        let settled = inner.settle_all(left.done);
        let closing = left.closing.then(|| Arc::clone(inner));
        drop(open);
        if let Some(inner) = closing {
            close::<G>(&inner);
        }
        settled?;
        ended.outcome()
    })
}

/// Runs `body` as a part of the transaction of this thread under `G` that has this number; `None`
/// if that is not the running one. `look` is as in [`either`].
#[inline(always)]
pub(crate) fn part<G: PoolTag, O, E>(
    number: u64,
    look: impl FnOnce(usize),
    body: impl FnOnce(&Running) -> Result<O, E>,
) -> Option<Result<O, TryError<E>>> {
    let (running, its, place) =
        G::current(|current| (current.running.get(), current.number.get(), current.place.get()));
    if running.is_null() || its != number {
        return None;
    }
    look(place);
    // SAFETY: as in `with_current`.
    let running = unsafe { &*running };
    Some(match running.barred.get() {
        true => Err(TryError::Failed(Error::Busy { pool: G::NAME })),
        false => running.part(body),
    })
}

/// Runs `inside` as a part of this thread's transaction under `G`, or `outside` if there is none.
/// `look` gets the word that is kept with a transaction before that is read.
#[inline(always)]
pub(crate) fn either<G: PoolTag, O>(
    look: impl FnOnce(usize),
    inside: impl FnOnce(&Running) -> O,
    outside: impl FnOnce() -> O,
) -> Result<O> {
    let (running, place) = G::current(|current| (current.running.get(), current.place.get()));
    if running.is_null() {
        return Ok(outside());
    }
    look(place);
    // SAFETY: as in `with_current`.
    let running = unsafe { &*running };
    match running.barred.get() {
        true => Err(Error::Busy { pool: G::NAME }),
        false => running.caught(|| inside(running)),
    }
}

/// Runs `work`, which looks at the whole pool, while no transaction of the pool has changed
/// anything or does so: other threads wait with theirs. One of this thread is refused, inside and
/// around.
pub(crate) fn alone<G: PoolTag, O>(inner: &OpenPool, work: impl FnOnce() -> O) -> Result<O> {
    if with_current::<G, _>(|current| current.is_some()) {
        return Err(Error::Busy { pool: G::NAME });
    }
    inner.sync()?;
    let _quiet = inner.undo.quiesce()?;
    // also of transactions that have not returned: a check reports their state
    unless("object-check-unsettled", || inner.settle_ordered())?;
    barred::<G, _>(inner, work)
}

/// Runs `work` with every transaction of this thread refused.
pub(crate) fn barred<G: PoolTag, O>(inner: &OpenPool, work: impl FnOnce() -> O) -> Result<O> {
    let running = Running::new(inner);
    running.barred.set(true);
    let named = Named::<G>::new(&running);
    let done = catch_unwind(AssertUnwindSafe(work));
    drop(named);
    done.map_err(panicked)
}

/// The root has been dropped: closes the pool, now or at the end of the transaction that this
/// thread runs (POOL-2).
pub(crate) fn close<G: PoolTag>(inner: &Arc<OpenPool>) {
    let later = with_current::<G, _>(|current| current.map(|running| running.closing.set(true)).is_some());
    if !later {
        let _ = inner.sync(); // a failure has poisoned the media, and reopening tells what survived
        let slot = G::slot();
        slot.unbind(&mut slot.open.write());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OBJ-6, also where a thread takes more numbers.
    #[test]
    fn threads_have_numbers_of_their_own() {
        let [one, other] = [0, 0].map(number_after);
        let [last, last_of_other] = [one, other].map(|first| first + NUMBERS - 1);
        assert!(one > 0 && other > last || one > last_of_other, "{one} {other}");
        assert_eq!(number_after(last - 1), last);
        let next = number_after(last);
        assert!(next > last && next > last_of_other, "{next} after {last}");
    }
}

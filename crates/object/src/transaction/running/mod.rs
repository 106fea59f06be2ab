//! A running transaction of one thread and pool, below `Journal`, the pointers and the cells.
//!
//! One outermost transaction:
//!   1. a [`Running`] is made and named in the thread's [`Current`]; nested ones find it there
//!   2. the body runs; bytes that it changes are logged first ([`Running::log`]) or are new memory
//!   3. deferred drops and counts are done; the engine commits; ordered
//!   4. the mark is settled, unless the caller wants that later
//!
//! Invariants
//!   OBJ-1  A byte of the pool that existed before the transaction is logged before a `&mut` to it
//!          exists.
//!   OBJ-2  `Current` names a `Running` exactly while its body runs, and only in the thread that
//!          runs it. A body that `longjmp` leaves breaks this: the bridge finds that by the word of
//!          `Current`, before a `Running` is read.
//!   OBJ-3  A failure inside a nested transaction, caught or not, lets the outermost fail.
//!   OBJ-4  Nothing unwinds out of a destructor: a failure there dooms the transaction.
//!   OBJ-5  The result or the panic of a body is dropped after the end, so a panic there changes
//!          nothing of it. A transaction that ends without a commit reverts its counts before the
//!          engine puts anything back.
//!   OBJ-6  No two outermost transactions of a process have the same number, whatever their threads
//!          and tags, so that code of another language which has kept one is found out.
//!
//! Threads: an [`OpenPool`] is shared; a [`Running`] belongs to one thread.

mod run;

pub use run::Current;
pub(crate) use run::{alone, barred, buffered, close, either, part, rooted, unrooted, with_current};

use crate::transaction::counts::{ByPlace, Changes};
use crate::transaction::locks::Mine;
use crate::transaction::open_pool::OpenPool;
use crate::{Error, Result, TryError};
use everbyte_media::museum::unless;
use everbyte_media::seeded;
use everbyte_tx::{Started, Tx};
use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A running transaction.
pub(crate) struct Running {
    inner: *const OpenPool,
    /// The engine's transaction, started at the first change: a body without changes starts
    /// none.
    started: OnceCell<Started<'static>>,
    base: usize,
    len: usize,
    /// A nested transaction has failed (OBJ-3).
    doomed: Cell<bool>,
    /// The error that stopped the body, if the body did not stop itself.
    failure: RefCell<Option<Error>>,
    /// It is a check or a repair, inside of which no transaction may run.
    barred: Cell<bool>,
    /// The root was dropped inside: the pool closes at the end.
    closing: Cell<bool>,
    drops: RefCell<Drops>,
    pub changes: RefCell<Changes>,
    pub locks: RefCell<Vec<Mine>>,
    /// It has met other transactions: at a lock, a shared count, a volatile weak pointer
    /// (LOCK-4).
    pub met: Cell<bool>,
    /// By buffer of a vector or a queue: the places that held elements before the transaction; the
    /// other ones may be overwritten unlogged. One map for both, since a buffer that is older than
    /// the transaction keeps its type to the end of it, and each map costs an empty transaction.
    pub held: RefCell<ByPlace<u64, Ring>>,
    /// The engine's transaction was started: there may be something to release.
    worked: bool,
    /// Of the code of another language that runs it: `raw::mark`.
    pub mark: Cell<u8>,
}

/// Places of a ring, from `first` on, that go on at place 0 behind the last one. Those of a vector
/// begin at place 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ring {
    pub first: u64,
    pub len: u64,
}

impl Ring {
    /// Whether `place` of a ring of `cap` places is one of them.
    #[inline]
    pub(crate) fn held(self, place: u64, cap: u64) -> bool {
        let ahead = if place >= self.first { place - self.first } else { place + cap - self.first };
        ahead < self.len
    }
}

/// Blocks whose contents are to be dropped: instead of a recursion that a long list would turn into
/// a stack overflow.
#[derive(Default)]
struct Drops {
    depth: u32,
    /// Block, offset of the values, their number.
    waiting: Vec<(u64, u64, u64, Contents)>,
}

/// Drops the value at an address.
pub(crate) type Drop = unsafe fn(*mut u8);

/// Drops so many values in the block at an address.
pub(crate) type Contents = unsafe fn(*mut u8, u64);

/// How deep destructors may call each other.
const DROP_DEPTH: u32 = 64;

/// The payload that unwinds when the engine has failed; [`Running::failure`] gives the reason.
struct Stopped;

impl Running {
    #[inline(always)]
    fn new(inner: &OpenPool) -> Running {
        Running {
            inner,
            started: OnceCell::new(),
            base: inner.base as usize,
            len: inner.len,
            doomed: Cell::new(false),
            failure: RefCell::new(None),
            barred: Cell::new(false),
            closing: Cell::new(false),
            drops: RefCell::default(),
            changes: RefCell::default(),
            locks: RefCell::default(),
            met: Cell::new(false),
            held: RefCell::default(),
            worked: false,
            mark: Cell::new(0),
        }
    }

    /// A number that no other transaction has that runs at the same time: its address.
    pub(crate) fn id(&self) -> u64 {
        (&raw const *self) as u64
    }

    #[inline(always)]
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// Whether `at` lies in the pool, and this is a transaction: not a look at the whole pool,
    /// which changes nothing.
    #[inline]
    pub(crate) fn may_roll_back(&self, at: *const u8) -> bool {
        self.contains(at, 0) && !self.barred.get()
    }

    /// Whether the bytes lie in a block that this transaction has made.
    pub(crate) fn owns(&self, offset: u64, len: u64) -> bool {
        self.tx().owns(self.store_offset(offset), len)
    }

    /// Passes the stores so far to a recorder.
    #[inline]
    pub(crate) fn tell(&self) {
        self.tx().tell();
    }

    /// The first failure in a destructor, if any.
    pub(crate) fn failed(&self) -> Result<()> {
        self.failure.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// The store offset of a value in the pool.
    #[inline(always)]
    pub(crate) fn offset_of<T>(&self, at: *const T) -> u64 {
        (at as usize - self.base) as u64
    }

    /// Lets `len` bytes at `offset`, which hold nothing, be stored to unlogged.
    pub(crate) fn overwrite(&self, offset: u64, len: u64) {
        if let Err(error) = self.tx().overwrite(self.store_offset(offset), len) {
            self.stop(error.into());
        }
    }

    #[inline(always)]
    pub(crate) fn inner(&self) -> &OpenPool {
        // SAFETY: the runner of a transaction holds the pool until its end.
        unsafe { &*self.inner }
    }

    #[inline(always)]
    pub(crate) fn tx(&self) -> Tx<'_> {
        let start = || {
            let inner: *const OpenPool = self.inner;
            // SAFETY: the runner of a transaction holds the pool until its end, and `started` ends
            // with it.
            let inner: &'static OpenPool = unsafe { &*inner };
            inner.undo.start()
        };
        self.started.get_or_init(start).tx()
    }

    /// Whether `at..at+len` lies in the pool.
    #[inline(always)]
    pub(crate) fn contains(&self, at: *const u8, len: usize) -> bool {
        let offset = (at as usize).wrapping_sub(self.base);
        offset < self.len && len <= self.len - offset
    }

    /// OBJ-1 for `len` bytes at `at`, before they change. A value that has not been put into the
    /// pool yet, and is still on the stack or in volatile memory, needs nothing.
    #[inline]
    pub(crate) fn log(&self, at: *const u8, len: usize) {
        if self.contains(at, len) && len > 0 {
            self.log_bytes((at as usize - self.base) as u64, len as u64);
        }
    }

    /// [`Running::log`] for ranges in blocks of the pool, which share one fence.
    pub(crate) fn log_all(&self, parts: impl Iterator<Item = (*mut u8, usize)>) {
        let parts = parts.filter(|(_, len)| *len > 0);
        let ranges: Vec<(u64, u64)> =
            parts.map(|(at, len)| (self.store_offset(self.offset_of(at)), len as u64)).collect();
        self.tx().tell(); // as in `log_bytes`
        if let Err(error) = self.tx().name_ranges(&ranges) {
            self.stop(error.into());
        }
    }

    fn log_bytes(&self, offset: u64, len: u64) {
        if seeded("object-unlogged") {
            return;
        }
        self.tx().tell(); // what was stored so far may survive from the next fence on
        if let Err(error) = self.tx().log_range(self.store_offset(offset), len) {
            self.stop(error.into());
        }
    }

    #[inline(always)]
    pub(crate) fn store_offset(&self, offset: u64) -> u64 {
        (self.inner().object.prime() + offset).get()
    }

    /// Makes a block that holds `value`; returns its offset from the base.
    #[inline]
    pub(crate) fn allocate<T>(&self, value: T) -> u64 {
        let offset = self.allocate_for::<T>();
        let at = (self.base + offset as usize) as *mut T;
        // SAFETY:
        // - in bounds: a block of at least this size, backed by the heap;
        // - aligned: blocks are to 16 bytes;
        // - no other: the block is this transaction's own until it commits.
        unsafe { at.write(value) };
        offset
    }

    /// Makes a block for a `T`, which is not written yet; returns its offset. Every way to a block
    /// of a value goes through here:
    ///
    /// ```compile_fail,E0080
    /// use everbyte_object::{MemPool, PSafe, Prc, Pool, pool};
    ///
    /// #[derive(PSafe)]
    /// #[repr(C, align(64))]
    /// struct Line([u8; 64]);
    ///
    /// pool!(P1);
    /// P1::transaction(|j| drop(Prc::new_cyclic(|_| Line([0; 64]), j))).unwrap();
    /// ```
    #[inline]
    pub(crate) fn allocate_for<T>(&self) -> u64 {
        const { assert!(align_of::<T>() <= 16, "types of a pool are aligned to 16 bytes at most") };
        self.allocate_bytes(size_of::<T>())
    }

    /// Makes a block of at least `len` bytes; returns its offset.
    #[inline]
    pub(crate) fn allocate_bytes(&self, len: usize) -> u64 {
        match self.tx().allocate(len.max(1) as u64) {
            Ok(block) => (block.at - self.inner().object.prime()).get(),
            Err(error) => self.stop(error.into()),
        }
    }

    /// [`Running::allocate_bytes`] that also returns the size of the block.
    pub(crate) fn allocate_sized(&self, len: usize) -> (u64, u64) {
        match self.tx().allocate(len.max(1) as u64) {
            Ok(block) => ((block.at - self.inner().object.prime()).get(), block.size.get()),
            Err(error) => self.stop(error.into()),
        }
    }

    /// Frees a block at the commit. Never unwinds (OBJ-4).
    #[inline]
    pub(crate) fn free(&self, offset: u64) {
        if let Err(error) = self.tx().free(self.store_offset(offset)) {
            self.doom(error.into());
        }
    }

    /// Drops the value in the block at `offset`, then frees the block. `drop` may be called later,
    /// before the commit.
    ///
    /// # Safety
    /// `drop` may be called once on the block's address and this `count` before the transaction
    /// ends.
    #[inline]
    pub(crate) unsafe fn drop_block(&self, offset: u64, count: u64, drop: Contents) {
        // SAFETY: the caller's promise.
        unsafe { self.drop_part(offset, offset, count, drop) }
    }

    /// [`Running::drop_block`] for values that begin at the offset `from` of a block; without a
    /// block, `offset` 0, for values in a block that another call frees later.
    ///
    /// # Safety
    /// As [`Running::drop_block`], with the address at `from`.
    #[inline]
    pub(crate) unsafe fn drop_part(&self, offset: u64, from: u64, count: u64, drop: Contents) {
        {
            let mut drops = self.drops.borrow_mut();
            if drops.depth >= DROP_DEPTH && !seeded("object-drop-recurses") {
                return drops.waiting.push((offset, from, count, drop));
            }
            drops.depth += 1;
        }
        let mut next = Some((offset, from, count, drop));
        while let Some((offset, from, count, drop)) = next.take() {
            // SAFETY: the caller's promise, kept with the address.
            unsafe { drop((self.base + from as usize) as *mut u8, count) };
            if offset != 0 {
                self.free(offset);
            }
            let mut drops = self.drops.borrow_mut();
            if drops.depth == 1 && !seeded("object-drop-forgets") {
                next = drops.waiting.pop();
            }
        }
        self.drops.borrow_mut().depth -= 1;
    }

    /// Notes the first failure; the outermost transaction will roll back.
    #[cold]
    fn doom(&self, error: Error) {
        self.failure.borrow_mut().get_or_insert(error);
        self.doomed.set(true);
    }

    /// Leaves the body because the engine failed.
    #[cold]
    pub(crate) fn stop(&self, error: Error) -> ! {
        self.doom(error);
        resume_unwind(Box::new(Stopped)) // no message: it comes out as an error
    }

    /// The engine's error, if the engine has ended the body.
    #[cold]
    fn stopped(&self, payload: &(dyn Any + Send)) -> Option<Error> {
        payload.is::<Stopped>().then(|| self.failure.borrow_mut().take()).flatten()
    }

    /// A transaction inside this one.
    #[cold]
    pub(crate) fn nest<O>(&self, body: impl FnOnce() -> O) -> Result<O> {
        self.caught(body)
    }

    /// [`Running::nest`] where that is no exception.
    #[inline]
    fn caught<O>(&self, body: impl FnOnce() -> O) -> Result<O> {
        catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
            self.doomed.set(true); // OBJ-3
            self.stopped(&*payload).unwrap_or_else(|| panicked(payload))
        })
    }

    #[cold]
    fn nest_try<O, E>(&self, body: impl FnOnce(&Running) -> Result<O, E>) -> Result<O, TryError<E>> {
        self.part(body)
    }

    /// [`Running::nest_try`] where that is no exception.
    #[inline]
    fn part<O, E>(&self, body: impl FnOnce(&Running) -> Result<O, E>) -> Result<O, TryError<E>> {
        self.caught(|| body(self))?.map_err(|error| {
            self.doomed.set(true);
            TryError::Aborted(error)
        })
    }

    /// After a body that returned: what was left to the end.
    ///
    /// # Errors
    /// Why the transaction is to be rolled back.
    #[inline]
    fn finish(&self) -> Result<(), Box<Error>> {
        if self.doomed.get() {
            return Err(Box::new(self.failure.borrow_mut().take().unwrap_or(Error::Doomed)));
        }
        self.fold_counts()
    }
}

/// The error that a panic of the program becomes.
#[cold]
fn panicked(payload: Box<dyn Any + Send>) -> Error {
    let message = match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => match payload.downcast_ref::<&str>() {
            Some(message) => (*message).into(),
            None => "(a payload that is no text)".into(),
        },
    };
    Error::Panicked { message }
}

impl std::ops::Drop for Running {
    /// The transaction is ordered, or rolled back: what others wait for is theirs.
    #[inline]
    fn drop(&mut self) {
        if let Some(started) = self.started.take() {
            // a bug of ours is unwinding: rolled back before anything sees it
            unless("object-payload-early", || self.revert_counts());
            drop(started);
            self.worked = true;
        }
        if self.worked {
            self.release_counts();
            self.release_locks();
        }
    }
}

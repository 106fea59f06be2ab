//! [`Undo`]: lanes, and how transactions begin, nest and end.
//!
//! A lane is taken when a transaction first locks, logs or allocates, always before its first lock,
//! so that no thread waits for a lane while it holds a lock; it is given back at the end. Empty
//! transactions take none.
//!
//! Invariants
//!   TX-1  Nested transactions are part of the outermost. If one fails, by error or panic, the
//!         outermost rolls back, even if the error was handled.
//!   TX-2  A lane has one owner at a time, and between transactions it is retired and fenced.
//!
//! Threads: any number; more than there are lanes wait for one.

use crate::layout::{FORMAT, LANES_AT, MAGIC};
use crate::undo::context::{self, Context};
use crate::{Error, Recovered, Result, Tx, TxError, table, undo::recover};
use everbyte_heap::{Heap, Op};
use everbyte_log::Journal;
use everbyte_media::{Media, Offset, Section, Unsettled};
use everbyte_store::Object;
use parking_lot::{ArcMutexGuard, Mutex, RawMutex};
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The undo engine of an object. Cheap to clone; all clones are one engine. Open it once per
/// process.
#[derive(Clone)]
pub struct Undo {
    pub(crate) inner: Arc<UndoState>,
}

pub(crate) struct UndoState {
    pub heap: Heap,
    pub media: Media,
    /// Unlike any other engine's of this process.
    pub number: u64,
    pub lanes: Vec<Arc<Mutex<Lane>>>,
    /// The bytes that all lanes lie in.
    pub lane_bytes: Range<u64>,
    /// A lane is in a state that only recovery can judge.
    pub poisoned: AtomicBool,
    pub recovered: Recovered,
}

/// Keeps transactions from changing anything; see [`Undo::quiesce`].
pub struct Quiet(#[allow(dead_code)] Vec<ArcMutexGuard<RawMutex, Lane>>); // held

/// One lane.
pub(crate) struct Lane {
    pub journal: Journal,
    /// Operations of the running commit; kept to reuse its memory.
    pub ops: Vec<Op>,
    pub words: Vec<u64>,
}

thread_local! {
    /// The lane that this thread tries first.
    static FIRST: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Undo {
    /// Makes a heap and lanes in an object that is being created, with engine `Undo`: to be given
    /// to `Store::create_object`.
    ///
    /// # Errors
    /// [`Error::Heap`] if the span or the disk is too small.
    pub fn format(object: &Object) -> Result<()> {
        let span = object.span();
        let (lanes, lane_len) = if span.end - span.start >= 16 << 20 { (32, 8192) } else { (4, 4096) };
        Undo::format_with(object, lanes, lane_len)
    }

    /// [`Undo::format`] with so many lanes (1 to 1024) of `lane_len` bytes (multiples of 64, 256 at
    /// least). A lane that is too short for a transaction is extended by blocks of the heap while
    /// it runs.
    ///
    /// # Errors
    /// As [`Undo::format`].
    ///
    /// # Panics
    /// If the numbers are outside these bounds.
    pub fn format_with(object: &Object, lanes: u32, lane_len: u64) -> Result<()> {
        table::format(object, (MAGIC, FORMAT), (lanes, lane_len), Journal::format)
    }

    /// Opens the engine: opens the heap, rolls back interrupted transactions, and
    /// finishes committed ones. The cost grows with the bytes of the lanes in use.
    ///
    /// # Errors
    /// [`Error::NoLane`], [`Error::NewerFormat`], [`Error::Damaged`], [`Error::Heap`],
    /// [`Error::Log`].
    pub fn open(object: Object) -> Result<Undo> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let exclusive = object.exclusive()?;
        let heap = if exclusive.is_some() { Heap::join(object)? } else { Heap::open(object)? };
        let lanes = table::read(&heap, (MAGIC, FORMAT))?;
        let (journals, recovered) = match &exclusive {
            None => recover::recover(&heap)?,
            Some(_) => {
                let join = |lane| Journal::join(heap.media(), lane);
                (lanes.each().map(join).collect::<Result<_, _>>()?, Recovered::default())
            }
        };
        let lane = |journal| Arc::new(Mutex::new(Lane { journal, ops: Vec::new(), words: Vec::new() }));
        let inner = UndoState {
            media: heap.media().clone(),
            heap,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            lanes: journals.into_iter().map(lane).collect(),
            lane_bytes: lanes.bytes,
            poisoned: AtomicBool::new(false),
            recovered,
        };
        if let Some(exclusive) = &exclusive {
            inner.catch_up(exclusive)?;
        }
        Ok(Undo { inner: Arc::new(inner) })
    }

    /// Fills `copy` with the contents of this engine's object; blocks and lanes lie as far behind
    /// the prime page. The root word, and all other store offsets, are the caller's. To be called
    /// inside `Store::create_copy`'s `init`; no thread may run a transaction meanwhile.
    ///
    /// # Errors
    /// [`Error::Heap`] if the span or the disk is too small.
    pub fn copy_into(&self, copy: &Object, progress: &mut dyn FnMut(u64)) -> Result<()> {
        self.heap().copy_into(copy, progress)?;
        let lanes_at = self.lanes_at().get() - self.heap().object().prime().get() + copy.prime().get();
        let _section = copy.media().section();
        copy.media().store(copy.prime() + LANES_AT, lanes_at);
        copy.media().flush(copy.prime() + LANES_AT, 8);
        Ok(())
    }

    /// The heap that transactions allocate from. Blocks allocated or freed outside of transactions
    /// follow its own rules.
    pub fn heap(&self) -> &Heap {
        &self.inner.heap
    }

    /// Waits until no transaction has changed anything; while the answer lives, each that would
    /// change something waits.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn quiesce(&self) -> Result<Quiet> {
        self.inner.all_lanes().map(Quiet)
    }

    /// Start of the block of the lanes: the one block that is the engine's own.
    pub fn lanes_at(&self) -> Offset {
        Offset::new(self.media().load(self.heap().object().prime() + LANES_AT))
    }

    /// Bytes that transactions have stored to the lanes since the engine was opened. Waits for
    /// those under way. A lane whose rollback has failed counts no more.
    pub fn logged(&self) -> u64 {
        self.inner
            .lanes
            .iter()
            .filter_map(|lane| self.inner.wait_for(lane).ok())
            .map(|lane| lane.journal.written())
            .sum()
    }

    /// The media it lies on.
    #[inline(always)]
    pub fn media(&self) -> &Media {
        &self.inner.media
    }

    /// Findings and mends of the opening.
    pub fn recovered(&self) -> &Recovered {
        &self.inner.recovered
    }

    /// Runs `body` as one transaction: all its changes or none, whatever crashes; settled on
    /// return.
    ///
    /// Inside another transaction of this thread and engine it is part of that one and settles with
    /// it. An error or a panic rolls everything back, the outer transaction's changes included,
    /// even if the outer body catches it. Data that the body read under a lock is settled before
    /// the caller gets the error or the panic.
    ///
    /// # Errors
    /// [`TxError::Aborted`], [`TxError::Doomed`]: rolled back. [`TxError::Engine`] with
    /// [`Error::Media`]: unknown until the store is opened again.
    #[inline]
    pub fn run<T, E>(&self, body: impl FnOnce(&Tx<'_>) -> Result<T, E>) -> Result<T, TxError<E>> {
        let Committed { result, hooks } = self.run_ordered(body)?;
        let settled = result.settle_unless(&self.inner.media, "tx-answer-unsettled");
        let value = settled.map_err(|error| TxError::Engine(error.into()))?;
        hooks.into_iter().for_each(|hook| hook());
        Ok(value)
    }

    /// [`Undo::run`] that returns once the commit is ordered: other threads may see the state that
    /// the caller releases now, but it is not acknowledged before the result is settled. An error
    /// returns settled, as that of [`Undo::run`].
    ///
    /// # Errors
    /// As [`Undo::run`].
    #[inline]
    pub fn run_ordered<T, E>(&self, body: impl FnOnce(&Tx<'_>) -> Result<T, E>) -> Result<Committed<T>, TxError<E>> {
        let inner = &*self.inner;
        let context = context::mine(inner.number);
        let depth = context.depth.get();
        // Open until the changes are flushed, so that no page is given back that holds them only in
        // memory.
        let section = (depth == 0).then(|| inner.media.section());
        context.depth.set(depth + 1);
        let mut frame = Frame { inner, context: &context, section };
        let outcome = body(&Tx { inner, context: &context });
        let section = frame.section.take();
        std::mem::forget(frame); // from here on no code of the caller's can panic through us
        context.depth.set(depth);
        if depth > 0 {
            return match outcome {
                Ok(value) => Ok(Committed::nothing(value)),
                Err(error) => {
                    context.doomed.set(true);
                    Err(TxError::Aborted(error))
                }
            };
        }
        let committed = match outcome {
            // Nothing was done: not even what a commit answers is moved.
            Ok(value) if context.is_idle() => {
                return match inner.require_readable() {
                    Ok(()) => Ok(Committed::nothing(value)),
                    Err(error) => Err(TxError::Engine(error)),
                };
            }
            Ok(_) if context.doomed.replace(false) => {
                inner.rollback(&context).map_err(TxError::Engine).and(Err(TxError::Doomed))
            }
            Ok(value) => inner.commit(&context, || ()).map(|mark| (value, mark)).map_err(TxError::Engine),
            Err(error) => {
                context.doomed.set(false);
                inner.rollback(&context).map_err(TxError::Engine).and(Err(TxError::Aborted(error)))
            }
        };
        drop(section); // a disk may be waited for now
        let (value, committed) = match committed {
            Ok(committed) => committed,
            Err(error) => {
                inner.settle_owed(&context).map_err(TxError::Engine)?; // TX-5
                return Err(error);
            }
        };
        Ok(committed.with(value))
    }
}

/// A transaction that has committed, ordered and not settled; see [`Undo::run_ordered`].
#[must_use = "settle the result before it is acknowledged"]
pub struct Committed<T> {
    /// The body's result. Nothing of it waits if nothing was changed or seen that is not settled,
    /// or inside another transaction.
    pub result: Unsettled<T>,
    /// To be called once the result is settled.
    pub hooks: Vec<Box<dyn FnOnce()>>,
}

impl<T> Committed<T> {
    fn nothing(value: T) -> Committed<T> {
        Committed { result: Unsettled::nothing(value), hooks: Vec::new() }
    }

    fn with<U>(self, value: U) -> Committed<U> {
        Committed { result: self.result.with(value), hooks: self.hooks }
    }
}

/// A body is running; dropped only by a panic.
struct Frame<'t> {
    inner: &'t UndoState,
    context: &'t Context,
    /// The outermost transaction's: closed before the disk is waited for.
    section: Option<Section<'t>>,
}

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        let depth = self.context.depth.get() - 1;
        self.context.depth.set(depth);
        if depth > 0 {
            self.context.doomed.set(true); // TX-1
            return;
        }
        self.context.doomed.set(false);
        // The caller gets the panic; if rolling back or settling fails, the engine or
        // the media is poisoned.
        let _ = self.inner.rollback(self.context);
        self.section = None;
        let _ = self.inner.settle_owed(self.context); // TX-5: the panic may tell what the body read
    }
}

impl UndoState {
    pub(crate) fn name(&self) -> String {
        self.heap.object().name().into()
    }

    /// A free lane, or the first that becomes free.
    #[inline]
    pub(crate) fn take_lane(&self) -> Result<ArcMutexGuard<RawMutex, Lane>> {
        self.require_sound()?;
        self.heap.object().changing_exclusively()?; // TX-8
        let first = FIRST.get();
        if first != usize::MAX
            && let Some(lane) = self.lanes[first % self.lanes.len()].try_lock_arc()
        {
            return Ok(lane);
        }
        self.search_lane()
    }

    /// All lanes, in their order, so that two threads which take them do not wait for each other.
    fn all_lanes(&self) -> Result<Vec<ArcMutexGuard<RawMutex, Lane>>> {
        let taken = self.lanes.iter().map(|lane| self.wait_for(lane)).collect();
        self.require_sound().and(taken)
    }

    fn require_sound(&self) -> Result<()> {
        match self.poisoned.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(Error::Poisoned { object: self.name() }),
        }
    }

    /// Waits for a lane, or a lock of a transaction: a rollback that fails keeps them for ever.
    ///
    /// # Errors
    /// [`Error::Poisoned`]: it is not free, and may never be.
    #[cold]
    pub(crate) fn wait_for<T>(&self, lock: &Arc<Mutex<T>>) -> Result<ArcMutexGuard<RawMutex, T>> {
        loop {
            let sound = self.require_sound();
            let wait = if sound.is_ok() { Duration::from_millis(50) } else { Duration::ZERO };
            match lock.try_lock_arc_for(wait) {
                Some(guard) => return Ok(guard),
                None => sound?,
            }
        }
    }

    #[cold]
    fn search_lane(&self) -> Result<ArcMutexGuard<RawMutex, Lane>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if FIRST.get() == usize::MAX {
            FIRST.set(NEXT.fetch_add(1, Ordering::Relaxed) as usize & 0xffff);
        }
        let first = FIRST.get();
        for step in 0..self.lanes.len() {
            if let Some(lane) = self.lanes[(first + step) % self.lanes.len()].try_lock_arc() {
                FIRST.set((first + step) & 0xffff);
                return Ok(lane);
            }
        }
        self.wait_for(&self.lanes[first % self.lanes.len()])
    }
}

impl std::fmt::Debug for Undo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Undo({}, {} lanes)", self.inner.heap.object().name(), self.inner.lanes.len())
    }
}

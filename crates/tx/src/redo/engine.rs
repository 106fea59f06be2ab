//! [`Redo`]: the engine of an object, its word logs, and how they are made and opened.

use super::active::Active;
use super::layout::{ENGINE_END, FLOOR, FORMAT, MAGIC};
use super::locks::Locks;
use super::truncate::{Left, Truncation, Truncator};
use super::{Worker, recover};
use crate::{Error, Result, table};
use crossbeam_utils::CachePadded;
use everbyte_heap::Heap;
use everbyte_log::{Consumer, Form, Producer, WordLog};
use everbyte_media::sealed::seal_low;
use everbyte_media::{Latch, LatchGuard, Length, Media, Offset};
use everbyte_store::{Engine, Object};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The redo engine of an object. Cheap to clone; all clones are one engine. Open it once per
/// process.
#[derive(Clone)]
pub struct Redo {
    pub(super) inner: Arc<RedoState>,
}

/// Findings and mends of an opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Transactions that had committed and were stored again.
    pub transactions: u64,
    /// Words of them.
    pub words: u64,
}

pub(super) struct RedoState {
    pub heap: Heap,
    pub media: Media,
    /// Unlike any other engine's of this process.
    pub number: u64,
    pub logs: Vec<CachePadded<Log>>,
    /// The bytes that all logs lie in.
    pub log_bytes: Range<u64>,
    pub locks: Locks,
    /// The newest timestamp given out.
    pub clock: CachePadded<AtomicU64>,
    pub active: Active,
    pub truncator: Truncator,
    /// The outcome of a commit is unknown until the engine is opened again.
    pub poisoned: AtomicBool,
    replayed: Replayed,
    workers: AtomicU32,
}

/// One word log.
pub(super) struct Log {
    /// Taken by the transaction that commits, which waits for no lock and no log meanwhile.
    pub end: Latch<End>,
    pub consumer: Mutex<Consumer>,
    /// The clock before the transaction that commits took its timestamp; [`u64::MAX`]:
    /// none commits.
    pub committing: AtomicU64,
}

/// Growth of a log.
pub(super) struct End {
    pub producer: Producer,
    /// Commits through it that are not truncated.
    pub left: Left,
}

impl Redo {
    /// Makes a heap and logs in an object that is being created, with engine `Redo`: to be given to
    /// `Store::create_object`.
    ///
    /// # Errors
    /// [`Error::Heap`] if the span or the disk is too small.
    pub fn format(object: &Object) -> Result<()> {
        let span = object.span();
        let (logs, log_len) = if span.end - span.start >= 16 << 20 { (16, 64 << 10) } else { (4, 4096) };
        Redo::format_with(object, logs, log_len)
    }

    /// [`Redo::format`] with so many logs (1 to 1024) of `log_len` bytes (multiples of 64, 320 at
    /// least). A transaction that does not fit a log goes through blocks of the heap.
    ///
    /// # Errors
    /// As [`Redo::format`].
    ///
    /// # Panics
    /// If the numbers are outside these bounds.
    pub fn format_with(object: &Object, logs: u32, log_len: u64) -> Result<()> {
        assert!(log_len >= everbyte_log::ring::RING_BYTES_MIN, "word logs of {log_len} bytes");
        table::format(object, (MAGIC, FORMAT), (logs, log_len), |media, range, salt| {
            WordLog::format(media, range, Form::Torn, salt)
        })?;
        let (media, at) = (object.media(), object.prime() + FLOOR);
        let _section = media.section();
        media.store(at, seal_low(0));
        media.flush(at, 8);
        Ok(())
    }

    /// Opens the engine: opens the heap, and stores committed bytes again that may not have
    /// reached their place. The cost grows with the bytes of the logs.
    ///
    /// # Errors
    /// [`Error::Store`] for an object of another engine; [`Error::NoLane`], [`Error::NewerFormat`],
    /// [`Error::Damaged`], [`Error::Heap`], [`Error::Log`].
    pub fn open(object: Object) -> Result<Redo> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        object.require_engine(Engine::Redo)?;
        let heap = Heap::open(object)?;
        let found = recover::recover(&heap)?;
        let log = |log: WordLog| {
            let (producer, consumer) = log.split();
            let end = Latch::new(End { producer, left: Left::default() });
            CachePadded::new(Log { end, consumer: Mutex::new(consumer), committing: AtomicU64::new(u64::MAX) })
        };
        let inner = RedoState {
            media: heap.media().clone(),
            heap,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            logs: found.logs.into_iter().map(log).collect(),
            log_bytes: found.log_bytes,
            locks: Locks::new(),
            clock: CachePadded::new(AtomicU64::new(found.clock)),
            active: Active::default(),
            truncator: Truncator::default(),
            poisoned: AtomicBool::new(false),
            replayed: found.replayed,
            workers: AtomicU32::new(0),
        };
        Ok(Redo { inner: Arc::new(inner) })
    }

    /// The heap that transactions allocate from. Blocks allocated or freed outside of transactions
    /// follow its own rules.
    pub fn heap(&self) -> &Heap {
        &self.inner.heap
    }

    /// The media it lies on.
    #[inline(always)]
    pub fn media(&self) -> &Media {
        &self.inner.media
    }

    /// Start of the block of the logs: the one block that is the engine's own.
    pub fn logs_at(&self) -> Offset {
        Offset::new(self.inner.log_bytes.start)
    }

    /// Findings and mends of the opening.
    pub fn replayed(&self) -> Replayed {
        self.inner.replayed
    }

    /// Something that runs transactions, one after the other; each thread has its own.
    pub fn worker(&self) -> Worker {
        let number = self.inner.workers.fetch_add(1, Ordering::Relaxed) + 1;
        Worker::new(Arc::clone(&self.inner), number)
    }

    /// When records are truncated; synchronously unless this is called.
    pub fn set_truncation(&self, truncation: Truncation) {
        self.inner.truncator.set_mode(truncation);
    }

    /// Truncates all commits so far: their stores are flushed, and the logs drop their records.
    /// Waits for older commits of other threads that have not settled.
    pub fn truncate(&self) {
        self.inner.truncate_up_to(self.inner.clock.load(Ordering::Acquire));
    }

    /// Whether `at..at+len`, which may be any numbers, is what transactions of this engine may
    /// change.
    #[inline]
    pub fn may_change(&self, at: impl Into<Offset>, len: impl Into<Length>) -> bool {
        let (at, len) = (at.into().get(), len.into().get());
        self.inner.may_change(at, len)
    }
}

impl RedoState {
    pub(super) fn name(&self) -> String {
        self.heap.object().name().into()
    }

    #[inline]
    pub(super) fn may_change(&self, at: u64, len: u64) -> bool {
        table::holds_data(&self.heap, &self.log_bytes, ENGINE_END, at, len)
    }

    pub(super) fn require_sound(&self) -> Result<()> {
        match self.poisoned.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(Error::Poisoned { object: self.name() }),
        }
    }

    /// A log without a running commit, the worker's own if it can be; waits for one.
    #[inline]
    pub(super) fn take_log(&self, own: usize) -> (&Log, LatchGuard<'_, End>) {
        for log in self.logs[own..].iter().chain(&self.logs[..own]) {
            if let Some(end) = log.end.try_lock() {
                return (log, end);
            }
        }
        (&self.logs[own], self.logs[own].end.lock())
    }

    /// The clock, where no transaction has a timestamp that is not newer and a record that is not
    /// flushed.
    pub(super) fn settled_clock(&self) -> u64 {
        let clock = self.clock.load(Ordering::Acquire);
        let committing = self.logs.iter().map(|log| log.committing.load(Ordering::Acquire));
        committing.fold(clock, u64::min)
    }
}

impl std::fmt::Debug for Redo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redo({}, {} logs)", self.inner.name(), self.inner.logs.len())
    }
}

//! The `file` backend: what is right on persistent memory is right on any disk.
//!
//! The store is mapped privately. Flushed lines go to a log inside the store file (`log`), a
//! checkpoint moves them to their place (`checkpoint`), recovery replays what the log holds
//! (`replay`). Format: docs/formats/media.md; what survives what: docs/semantics/durability.md.
//!
//! Threads: any. Locks, in the order they may be taken: `checkpointing`, `head`, `log`.

mod allocate;
mod background;
mod batch;
mod checkpoint;
mod dirty_pages;
mod disk;
mod fork_mark;
mod layout;
mod log;
mod log_growth;
mod release_pages;
mod replay;

pub(crate) use allocate::require_length;
pub(crate) use disk::FileDisk;
pub use disk::{Disk, disk_alone};
pub(crate) use replay::{Pending, go_on, pending, raise_format, replay, resume, settle};

use crate::bytes::mapping::Mapping;
use crate::counters::Counters;
use crate::open::head::Head;
use crate::{Durability, Error, Mark, Options, Result, Section, Words, seeded};
use background::Keeper;
use fork_mark::ForkMark;
use log::Log;
use parking_lot::{Condvar, Mutex, RwLock};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

/// The smallest log that can be used.
pub(crate) const LOG_MIN: u64 = 16 << 10;
/// The largest: recovery reads the log into memory.
pub(crate) const LOG_MAX: u64 = 1 << 30;

/// One open store; shared by all clones of its media, and by its keeper.
pub(crate) struct FileBackend {
    shared: ManuallyDrop<Arc<Shared>>,
}

struct Shared {
    disk: Arc<dyn Disk>,
    mapping: Arc<Mapping>,
    counters: Arc<Counters>,
    path: PathBuf,
    durability: Durability,
    /// Where the log lies, and its length.
    log_place: (u64, u64),
    /// Of the records written from now on.
    incarnation: u64,
    head: Mutex<Head>,
    log: Mutex<Log>,
    /// A record has been written, or the store is poisoned.
    turn: Condvar,
    /// As many threads wait for a record as the newest one served.
    gathered: Condvar,
    /// The sequence of the record that holds, or will hold, the newest flushed line.
    appended: AtomicU64,
    /// The newest record given to the disk.
    written: AtomicU64,
    /// The newest record known to be on the medium, and with it all before.
    synced: AtomicU64,
    /// The newest record that a head on the medium has passed.
    passed: AtomicU64,
    /// The first failure.
    poison: OnceLock<String>,
    checkpointing: Mutex<checkpoint::Room>,
    /// Open sections read, giving pages back writes.
    gate: RwLock<()>,
    /// Whether every store is made inside a section, so that pages may be given back outside of
    /// them.
    gives_back: bool,
    keeper: Keeper,
    fork: ForkMark,
    /// Ranges were given back to the file system since its metadata was last synced.
    punched: AtomicBool,
    /// Set by tests: the end is not to be orderly.
    abandoned: AtomicBool,
}

impl FileBackend {
    /// Bytes of the log that are in use.
    pub fn log_room(&self) -> u64 {
        self.shared.log.lock().room
    }

    /// What a barrier waits for.
    pub fn durability(&self) -> Durability {
        self.shared.durability
    }

    /// Begins with an empty log, or goes on with what `resumed` has found in it, which is in the
    /// mapping already.
    pub(crate) fn start(
        disk: Arc<dyn Disk>,
        mapping: Arc<Mapping>,
        counters: Arc<Counters>,
        path: &Path,
        mut head: Head,
        resumed: Option<&Pending>,
        options: &Options,
    ) -> Result<FileBackend> {
        log_growth::prepare_log(&*disk, path, &mut head, options.log_room)?;
        let fork = ForkMark::new().map_err(|source| Error::Io { action: "map memory", path: path.into(), source })?;
        let interval = match options.durability {
            Durability::Interval(interval) => Some(interval),
            Durability::Always | Durability::Process => None,
        };
        let log = Log::new(&head, resumed);
        let (passed, newest) = (head.log_sequence - 1, log.sequence - 1);
        let shared = Arc::new_cyclic(|shared| Shared {
            disk,
            mapping,
            counters,
            path: path.into(),
            durability: options.durability,
            log_place: (head.log_at, head.log_len),
            incarnation: resumed.map_or(head.incarnation, |resumed| resumed.incarnation),
            log: Mutex::new(log),
            head: Mutex::new(head),
            turn: Condvar::new(),
            gathered: Condvar::new(),
            appended: newest.into(),
            written: newest.into(),
            synced: newest.into(),
            passed: passed.into(),
            poison: OnceLock::new(),
            checkpointing: Mutex::default(),
            gate: RwLock::new(()),
            gives_back: options.give_back,
            keeper: Keeper::new(shared.clone(), interval, options.background),
            fork,
            punched: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
        });
        Ok(FileBackend { shared: ManuallyDrop::new(shared) })
    }

    #[inline]
    pub(crate) fn flush(&self, at: u64, len: u64) -> u64 {
        self.shared.flush(at, len)
    }

    #[inline]
    pub(crate) fn flush_words(&self, list: &[Words]) {
        self.shared.flush_words(list);
    }

    /// Order among flushes is that of the log's lock. What is left to do: whoever sees a store that
    /// comes after this also sees, with an acquire fence, that the lock was held before.
    #[inline(always)]
    pub(crate) fn fence(&self) {
        fence(Ordering::AcqRel);
    }

    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        self.shared.mark()
    }

    #[inline]
    pub(crate) fn settle(&self, mark: Mark) -> Result<()> {
        self.shared.settle(mark)
    }

    /// Refuses a child of fork.
    #[inline]
    pub(crate) fn require_here(&self) -> Result<()> {
        match self.shared.fork.is_child() {
            true => Err(Error::Forked { owner: self.shared.fork.owner() }),
            false => Ok(()),
        }
    }

    pub(crate) fn checkpointed(&self, mark: Mark) -> bool {
        self.shared.passed.load(Ordering::Acquire) >= mark.0
    }

    #[inline]
    pub(crate) fn section(&self) -> Section<'_> {
        // Recursive: a section inside a section must not wait for a giver-back that waits for the
        // outer one. A forked child has no mapping to store to, and the lock may have been held at
        // the fork.
        Section { _gate: (!self.shared.fork.is_child()).then(|| self.shared.gate.read_recursive()) }
    }

    /// Backs a range; the log notes it, so that after a crash it is backed again before anything
    /// that relies on it.
    pub(crate) fn allocate(&self, at: u64, len: u64) -> Result<()> {
        self.shared.check_alive()?;
        let full = |source| Error::Io { action: "allocate space", path: self.shared.path.clone(), source };
        self.shared.disk.allocate(at, len).map_err(full)?;
        self.shared.log_allocation(at, len);
        self.shared.check_alive()
    }

    /// Frees places in the file. The log is passed first, by both copies of the head (CHUNK-6): the
    /// older one leads to records that the newer one has passed.
    pub(crate) fn free_chunks(&self, is_free: &dyn Fn(Range<u64>) -> bool) -> Result<u64> {
        let shared = &*self.shared;
        if !shared.disk.has_free_chunks(is_free) {
            return Ok(0);
        }
        if !seeded("media-chunk-free-logged") {
            shared.sync_log()?;
            shared.checkpoint_when(|_| true)?;
            shared.checkpoint_when(|_| true)?;
        }
        let mut freed = 0;
        shared
            .try_io("write the map of chunks", |shared| shared.disk.free_chunks(is_free).map(|bytes| freed = bytes))?;
        Ok(freed)
    }

    pub(crate) fn limit_room(&self, max: u64) {
        self.shared.disk.limit_room(max);
    }

    /// As [`Disk::data`]: what the file holds, without what is on its way to it.
    pub(crate) fn data(&self, at: u64, len: u64) -> Option<Vec<std::ops::Range<u64>>> {
        self.shared.disk.data(at, len)
    }

    /// Bytes of the file.
    pub(crate) fn file_len(&self) -> std::io::Result<u64> {
        self.shared.disk.file_len()
    }

    /// The parts of a range, each with its place in the file, if it has one.
    pub(crate) fn parts(&self, at: u64, len: u64) -> Vec<(Range<u64>, Option<u64>)> {
        self.shared.disk.parts(at, len)
    }

    pub(crate) fn punch(&self, at: u64, len: u64) {
        if self.shared.check_alive().is_ok() {
            self.shared.disk.punch(at, len);
            self.shared.punched.store(true, Ordering::Release);
            // Nobody needs the range, so the private copies of its whole pages may go too.
            // a refused growth reaches beyond what is mapped
            let end = (at + len).min(self.shared.mapping.limit());
            let (first, end) = (at.next_multiple_of(dirty_pages::PAGE), end & !(dirty_pages::PAGE - 1));
            if first < end {
                let _ = self.shared.mapping.give_back(first, end - first);
            }
        }
    }

    pub(crate) fn close(&self) -> Result<()> {
        self.shared.close()
    }

    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.shared.checkpoint()?;
        self.shared.give_back(true);
        Ok(())
    }

    /// For tests: the store ends as if the process had died.
    pub(crate) fn abandon(&self) {
        self.shared.abandoned.store(true, Ordering::Release);
    }
}

impl Drop for FileBackend {
    fn drop(&mut self) {
        // SAFETY: taken once, here, and `self` is not used afterwards.
        let shared = unsafe { ManuallyDrop::take(&mut self.shared) };
        if shared.fork.is_child() {
            // The parent's threads may have held locks at the fork, and its keeper is not here:
            // touch nothing. The descriptor is closed, which writes nothing.
            return std::mem::forget(shared.keeper.take_thread());
        }
        shared.keeper.stop();
        if !shared.abandoned.load(Ordering::Acquire) {
            let _ = shared.close(); // a failure poisons, and the next opening replays the log
        }
    }
}

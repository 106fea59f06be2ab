//! The `file` backend: a program that is right on persistent memory is right on any disk.
//!
//! The store is mapped privately. Flushed lines go to a log inside the store file (`group_commit`,
//! `record_writer`), a checkpoint moves them to their place (`checkpoint`), recovery replays the
//! log (`replay`). Format: docs/formats/media.md; durability: docs/semantics/durability.md.
//!
//! Threads: any; for the locks see `file_store`.
//!
//! Design: docs/design/file-log.md

mod allocate;
mod background;
mod batch;
mod checkpoint;
mod checkpoint_pages;
mod dirty_pages;
pub(crate) mod disk;
mod file_store;
mod fork_mark;
mod group_commit;
mod guarded_disk;
mod layout;
pub(crate) mod limits;
mod log;
mod log_growth;
mod record_writer;
mod release_pages;
pub(crate) mod replay;

pub use allocate::length_limit;
pub(crate) use allocate::require_length;
pub use disk::{Disk, disk_alone};

use crate::bytes::mapping::Mapping;
use crate::counters::Counters;
use crate::gate::Gate;
use crate::museum::carried;
use crate::open::layout::Head;
use crate::{Durability, Error, Mark, Options, Result, Words, seeded};
use background::{BackgroundTask, BackgroundTasks};
use file_store::{FileStore, Progress};
use guarded_disk::GuardedDisk;
use log::Log;
use parking_lot::{Condvar, Mutex};
use record_writer::RecordWriter;
use replay::LogContent;
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// One open store on a disk.
pub(crate) struct FileBackend {
    store: ManuallyDrop<Arc<FileStore>>,
}

/// The tasks of a background thread, which starts with the first of them and runs until
/// [`BackgroundTasks::stop`]. It may run on the CPUs of the thread that opens the store, this one,
/// and not only on those of the caller whose flush starts it.
fn tasks(
    store: &Weak<FileStore>,
    name: &'static str,
    of: fn(&FileStore) -> &BackgroundTasks,
    interval: Option<Duration>,
    enabled: bool,
) -> BackgroundTasks {
    let (store, cpus) = (store.clone(), sched_getaffinity(None));
    let start = move || {
        let store = store.upgrade().filter(|_| !seeded("media-no-thread"))?;
        let run = carried(move || {
            if let Ok(cpus) = &cpus {
                let _ = sched_setaffinity(None, cpus); // a refusal leaves the caller's CPUs
            }
            while let Some(task) = of(&store).next() {
                // A failure poisons the store: the next caller gets it.
                let _ = match task {
                    BackgroundTask::Record => store.write_early().map(|wrote| of(&store).looked(wrote)),
                    BackgroundTask::Checkpoint => {
                        store.checkpoint_when(Log::is_crowded).map(|()| store.release_pages(false))
                    }
                    BackgroundTask::Sync => store.sync_written(),
                };
            }
        });
        std::thread::Builder::new().name(name.into()).spawn(run).ok()
    };
    BackgroundTasks::new(interval, enabled, start)
}

impl FileBackend {
    /// Bytes of the log's ring.
    pub(crate) fn log_room(&self) -> u64 {
        self.store.log.lock().ring_len
    }

    /// The event that a barrier waits for.
    pub(crate) fn durability(&self) -> Durability {
        self.store.durability
    }

    /// Starts with an empty log, or continues behind the records of `resumed`, which are in the
    /// mapping already.
    pub(crate) fn start(
        disk: Arc<dyn Disk>,
        mapping: Arc<Mapping>,
        counters: Arc<Counters>,
        path: &Path,
        mut head: Head,
        resumed: Option<&LogContent>,
        options: &Options,
    ) -> Result<FileBackend> {
        log_growth::prepare_log(&*disk, path, &mut head, options.log_room)?;
        let disk = GuardedDisk::new(disk, counters, path)?;
        let interval = match options.durability {
            Durability::Interval(interval) => Some(interval),
            Durability::Always | Durability::Process => None,
        };
        let log = Log::new(&head, resumed);
        let newest = log.sequence - 1;
        let progress = Progress {
            appended: newest.into(),
            written: newest.into(),
            synced: newest.into(),
            passed: (head.log_sequence - 1).into(),
        };
        let syncs = options.durability == Durability::Always;
        let store = Arc::new_cyclic(|store: &Weak<FileStore>| FileStore {
            disk,
            mapping,
            durability: options.durability,
            incarnation: resumed.map_or(head.incarnation, |resumed| resumed.incarnation),
            writer: RecordWriter { log_at: head.log_at, log_len: head.log_len, syncs },
            log: Mutex::new(log),
            head: Mutex::new(head),
            record_done: Condvar::new(),
            gathered: Condvar::new(),
            progress,
            checkpointing: Mutex::default(),
            gate: Arc::new(Gate::new()),
            releases_pages: options.give_back,
            tasks: tasks(store, "everbyte-file", |store| &store.tasks, interval, options.background),
            early: tasks(store, "everbyte-log", |store| &store.early, None, options.background),
            punched: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
        });
        Ok(FileBackend { store: ManuallyDrop::new(store) })
    }

    #[inline]
    pub(crate) fn flush(&self, at: u64, len: u64) -> u64 {
        self.store.flush(at, len)
    }

    #[inline]
    pub(crate) fn flush_words(&self, list: &[Words]) {
        self.store.flush_words(list);
    }

    /// The log's lock orders flushes. The CPU fence makes a thread that sees a later store also
    /// see, with an acquire fence of its own, the lock's earlier release.
    #[inline(always)]
    pub(crate) fn fence(&self) {
        fence(Ordering::AcqRel);
    }

    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        self.store.mark()
    }

    #[inline]
    pub(crate) fn settle(&self, mark: Mark) -> Result<()> {
        self.store.settle(mark)
    }

    /// As [`FileBackend::settle`], in every durability mode.
    pub(crate) fn sync(&self, mark: Mark) -> Result<()> {
        self.store.sync_to(mark)
    }

    /// Refuses a forked child.
    #[inline]
    pub(crate) fn require_here(&self) -> Result<()> {
        self.store.disk.require_here()
    }

    pub(crate) fn checkpointed(&self, mark: Mark) -> bool {
        self.store.progress.passed.load(Ordering::Acquire) >= mark.0
    }

    /// The gate of its write sections.
    pub(crate) fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.store.gate)
    }

    /// Backs a range and records it in the log: after a crash the range is backed again before
    /// later records are replayed.
    pub(crate) fn allocate(&self, at: u64, len: u64) -> Result<()> {
        self.store.disk.check_alive()?;
        let full = |source| Error::Io { action: "allocate space", path: self.store.disk.path().into(), source };
        self.store.disk.disk().allocate(at, len).map_err(full)?;
        self.store.log_allocation(at, len);
        self.store.disk.check_alive()
    }

    /// Frees chunks of the file. First both copies of the head pass the log (CHUNK-6): the older
    /// copy leads to records that the newer one has passed.
    pub(crate) fn free_chunks(&self, is_free: &dyn Fn(Range<u64>) -> bool) -> Result<u64> {
        let store = &*self.store;
        if !store.disk.disk().has_free_chunks(is_free) {
            return Ok(0);
        }
        if !seeded("media-chunk-free-logged") {
            store.sync_log()?;
            store.checkpoint_when(|_| true)?;
            store.checkpoint_when(|_| true)?;
        }
        let mut freed = 0;
        store.try_io("write the map of chunks", |disk| disk.free_chunks(is_free).map(|bytes| freed = bytes))?;
        Ok(freed)
    }

    pub(crate) fn limit_room(&self, max: u64) {
        self.store.disk.disk().limit_room(max);
    }

    /// As [`Disk::data`], of the file: flushed lines that no checkpoint has written are not in it.
    pub(crate) fn data(&self, at: u64, len: u64) -> Option<Vec<Range<u64>>> {
        self.store.disk.disk().data(at, len)
    }

    /// Bytes of the file.
    pub(crate) fn file_len(&self) -> std::io::Result<u64> {
        self.store.disk.disk().file_len()
    }

    /// As [`Disk::parts`].
    pub(crate) fn parts(&self, at: u64, len: u64) -> Vec<(Range<u64>, Option<u64>)> {
        self.store.disk.disk().parts(at, len)
    }

    pub(crate) fn punch(&self, at: u64, len: u64) {
        if self.store.disk.check_alive().is_ok() {
            self.store.disk.disk().punch(at, len);
            self.store.punched.store(true, Ordering::Release);
            // The range has no content any more, so the private copies of its whole pages go, too.
            // After a refused growth the range ends beyond the mapping.
            let end = (at + len).min(self.store.mapping.limit());
            let (first, end) = (at.next_multiple_of(dirty_pages::PAGE), end & !(dirty_pages::PAGE - 1));
            if first < end {
                let _ = self.store.mapping.release_pages(first, end - first);
            }
        }
    }

    pub(crate) fn close(&self) -> Result<()> {
        self.store.close()
    }

    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.store.checkpoint()?;
        self.store.release_pages(true);
        Ok(())
    }

    /// For tests: [`FileStore::write_early`].
    pub(crate) fn write_early(&self) -> Result<()> {
        self.store.write_early().map(|_| ())
    }

    /// For tests: the store ends as if the process had died.
    pub(crate) fn abandon(&self) {
        self.store.abandoned.store(true, Ordering::Release);
    }
}

impl Drop for FileBackend {
    fn drop(&mut self) {
        // SAFETY:
        // - in bounds, alive: the value is taken once, here, and `self` is not used afterwards;
        // - no writer: `&mut self` is the only reference;
        // - valid: `start` initialised it.
        let store = unsafe { ManuallyDrop::take(&mut self.store) };
        if store.disk.is_child() {
            // The parent's threads may have held locks at the fork, and its background threads
            // do not exist here: no lock is taken. Closing the descriptor writes nothing.
            return std::mem::forget((store.early.take_thread(), store.tasks.take_thread()));
        }
        store.early.stop();
        store.tasks.stop();
        if !store.abandoned.load(Ordering::Acquire) {
            let _ = store.close(); // after a failure the next opening replays the log
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::media::Backend;
    use crate::{BackendChoice, Geometry, OpenOptions, Options, PublishWord};
    use std::sync::Barrier;
    use std::time::Duration;

    /// A page that is released between the store and the flush of a word would lose it.
    #[test]
    fn a_word_is_not_published_while_pages_are_released() {
        const AT: u64 = 64 << 10;
        let folder = tempfile::tempdir().unwrap();
        let options = Options { backend: BackendChoice::File, background: false, ..Options::default() };
        let geometry = Geometry { max: 1 << 20, len: 128 << 10, log_at: 16 << 10, log_len: 16 << 10 };
        let media = OpenOptions::new(folder.path().join("store")).create(geometry, &options).unwrap();
        let Backend::File(file) = &media.inner.backend else { panic!("the backend that was asked for") };
        let closed = file.store.gate.close_within(Duration::from_secs(20)).unwrap();
        let ready = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let ordered = media.fence_after(());
                ready.wait();
                PublishWord::new(AT.into()).publish(&media, 7, &ordered);
            });
            ready.wait();
            for _ in 0..10_000 {
                assert_eq!(media.load(AT), 0, "no store passes the closed gate");
                std::thread::yield_now();
            }
            drop(closed);
        });
        assert_eq!(media.load(AT), 7);
    }
}

//! [`FileStore`]: the state of one open store on backend `file`, and its writes that must not fail.
//!
//! Threads: any. Locks, in the order they may be taken: `checkpointing`, `head`, `log`.

use super::background::BackgroundTasks;
use super::checkpoint_pages::CheckpointPages;
use super::disk::Disk;
use super::guarded_disk::GuardedDisk;
use super::log::Log;
use super::record_writer::RecordWriter;
use crate::bytes::mapping::Mapping;
use crate::counters::Counter;
use crate::gate::Gate;
use crate::open::layout::{COPIES, Head};
use crate::{Durability, Result};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// One open store; shared by all clones of its media, and by its background threads.
pub(crate) struct FileStore {
    pub disk: GuardedDisk,
    pub mapping: Arc<Mapping>,
    pub durability: Durability,
    /// The incarnation of the records written from now on.
    pub incarnation: u64,
    pub head: Mutex<Head>,
    pub log: Mutex<Log>,
    pub writer: RecordWriter,
    /// A record has been written, or the store is poisoned.
    pub record_done: Condvar,
    /// As many threads wait for a record as the newest one served.
    pub gathered: Condvar,
    pub progress: Progress,
    pub checkpointing: Mutex<CheckpointPages>,
    /// Closed while pages are released.
    pub gate: Arc<Gate>,
    /// Whether every store is made inside a section, so that pages may be released outside of them.
    pub releases_pages: bool,
    /// Checkpoints, and syncs of `interval` mode.
    pub tasks: BackgroundTasks,
    /// Records that are written before a caller has to.
    pub early: BackgroundTasks,
    /// Ranges were released to the file system since its metadata was last synced.
    pub punched: AtomicBool,
    /// Set by tests: the store ends without an orderly close.
    pub abandoned: AtomicBool,
}

/// The sequences of the records that have reached each stage.
pub(crate) struct Progress {
    /// The record that holds, or will hold, the newest flushed line.
    pub appended: AtomicU64,
    /// The newest record given to the disk.
    pub written: AtomicU64,
    /// The newest record known to be on the medium, and with it all before.
    pub synced: AtomicU64,
    /// The newest record that a head on the medium has passed.
    pub passed: AtomicU64,
}

impl FileStore {
    /// Writes or syncs; a failure poisons the store and wakes the threads that wait for a record
    /// (FILE-4).
    pub(crate) fn try_io(&self, action: &str, io: impl FnOnce(&dyn Disk) -> io::Result<()>) -> Result<()> {
        self.disk.check_alive()?;
        self.disk.attempt(action, io).inspect_err(|_| self.wake_waiters())
    }

    /// Wakes the threads that wait for a record. Under the log's lock: a thread that has checked
    /// for poison under it is waiting by now.
    fn wake_waiters(&self) {
        let _log = self.log.lock();
        self.record_done.notify_all();
    }

    /// Changes the head and writes it to the medium.
    pub(crate) fn write_head(&self, change: impl FnOnce(&mut Head)) -> Result<()> {
        let mut head = self.head.lock();
        change(&mut head);
        self.put_head(&mut head)
    }

    /// Changes the head and writes both copies to the medium (HEAD-4).
    pub(crate) fn write_both_heads(&self, change: impl FnOnce(&mut Head)) -> Result<()> {
        let mut head = self.head.lock();
        change(&mut head);
        self.try_io("write the media head", |disk| head.write_both(disk))?;
        self.disk.count(Counter::Syncs, COPIES.len() as u64);
        Ok(())
    }

    /// As [`FileStore::write_head`], for callers that hold the head.
    pub(crate) fn put_head(&self, head: &mut Head) -> Result<()> {
        let (at, bytes) = head.next();
        self.try_io("write the media head", |disk| disk.write_sync_at(at, bytes))?;
        self.disk.count(Counter::Syncs, 1);
        Ok(())
    }
}

/// Work that other threads wait for or build on. The owner forgets the value when the work is done;
/// a panic drops it, which poisons the store.
pub(crate) struct Unfinished<'a> {
    pub store: &'a FileStore,
    pub what: &'static str,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.store.disk.poison(format!("could not {}: its thread panicked", self.what));
        self.store.wake_waiters();
    }
}

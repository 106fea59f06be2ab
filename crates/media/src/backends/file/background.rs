//! Tasks of the background threads. One checkpoints when the log is half full, and makes the syncs
//! of `interval` mode; the other writes an open batch that is half full, beside checkpoints. After
//! a record it looks at the open batch every millisecond for a while, so that a caller does not pay
//! for waking it each time.
//!
//! A thread starts with its first task, so a store that is only read, or written little, has none.
//! A failure to start it is harmless: a flush that finds the log or the batch full does the work
//! itself.
//!
//! Threads: one thread for each [`BackgroundTasks`], any number of callers.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time from one look at the open batch to the next.
const LOOK: Duration = Duration::from_millis(1);

/// Looks after the newest early record.
const LOOKS: u32 = 100;

pub(crate) struct BackgroundTasks {
    requests: Mutex<Requests>,
    changed: Condvar,
    /// The thread looks at the open batch by itself.
    looks: AtomicBool,
    /// Starts the thread, which runs [`BackgroundTasks::next`] until it answers `None`.
    start: Box<dyn Fn() -> Option<JoinHandle<()>> + Send + Sync>,
    interval: Option<Duration>,
    enabled: bool,
}

#[derive(Default)]
struct Requests {
    record: bool,
    checkpoint: bool,
    /// The time at which the written records must be synced.
    sync_at: Option<Instant>,
    /// The time of the next look at the open batch, and the looks that follow it.
    look_at: Option<Instant>,
    looks_left: u32,
    stop: bool,
    thread: Option<JoinHandle<()>>,
}

/// A task of the thread.
pub(crate) enum BackgroundTask {
    /// Write the open batch, if it is half full.
    Record,
    Checkpoint,
    Sync,
}

impl BackgroundTasks {
    pub(crate) fn new(
        interval: Option<Duration>,
        enabled: bool,
        start: impl Fn() -> Option<JoinHandle<()>> + Send + Sync + 'static,
    ) -> BackgroundTasks {
        let (requests, looks, start) = (Mutex::default(), AtomicBool::new(false), Box::new(start));
        BackgroundTasks { requests, changed: Condvar::new(), looks, start, interval, enabled }
    }

    pub(crate) fn want_checkpoint(&self) {
        if self.enabled {
            self.request(|requests| !std::mem::replace(&mut requests.checkpoint, true));
        }
    }

    pub(crate) fn want_record(&self) {
        if self.enabled {
            self.request(|requests| !std::mem::replace(&mut requests.record, true));
        }
    }

    /// Whether the thread looks at the open batch within a millisecond, without a request. The
    /// answer may be old: an unrequested record is written by a later flush or barrier.
    #[inline(always)]
    pub(crate) fn looks(&self) -> bool {
        self.looks.load(Relaxed)
    }

    /// Ends a look of the thread, which `wrote` a record or found the batch less than half full.
    pub(crate) fn looked(&self, wrote: bool) {
        let mut requests = self.requests.lock();
        requests.looks_left = if wrote { LOOKS } else { requests.looks_left.saturating_sub(1) };
        requests.look_at = (requests.looks_left > 0).then(|| Instant::now() + LOOK);
        self.looks.store(requests.looks_left > 0, Relaxed);
    }

    pub(crate) fn want_sync(&self) {
        let Some(interval) = self.interval else { return };
        self.request(|requests| {
            let first = requests.sync_at.is_none();
            requests.sync_at.get_or_insert_with(|| Instant::now() + interval);
            first
        });
    }

    /// Whether a sync is due, which the caller then does. For long tasks of the thread itself.
    pub(crate) fn take_due(&self) -> bool {
        let due = |at: &mut Instant| *at <= Instant::now();
        self.interval.is_some() && self.requests.lock().sync_at.take_if(due).is_some()
    }

    /// Wakes the thread if `change` says that the request is new.
    fn request(&self, change: impl FnOnce(&mut Requests) -> bool) {
        let mut requests = self.requests.lock();
        if requests.stop || !change(&mut requests) {
            return;
        }
        if requests.thread.is_none() {
            // Without a thread, the sync of `interval` mode waits for a checkpoint.
            requests.thread = (self.start)();
        }
        self.changed.notify_one();
    }

    /// Waits for the next task; `None` when the thread is to end.
    pub(crate) fn next(&self) -> Option<BackgroundTask> {
        let mut requests = self.requests.lock();
        loop {
            if requests.stop {
                return None;
            }
            if requests.sync_at.take_if(|at| *at <= Instant::now()).is_some() {
                return Some(BackgroundTask::Sync);
            }
            let looks = requests.look_at.take_if(|at| *at <= Instant::now()).is_some();
            if std::mem::take(&mut requests.record) || looks {
                return Some(BackgroundTask::Record);
            }
            if std::mem::take(&mut requests.checkpoint) {
                return Some(BackgroundTask::Checkpoint);
            }
            match requests.sync_at.into_iter().chain(requests.look_at).min() {
                Some(at) => drop(self.changed.wait_until(&mut requests, at)),
                None => self.changed.wait(&mut requests),
            }
        }
    }

    /// The handle of the thread, for a forked child, in which the thread does not exist. The lock
    /// may have been held at the fork.
    pub(crate) fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.requests.try_lock()?.thread.take()
    }

    /// Ends the thread after its present task.
    pub(crate) fn stop(&self) {
        let thread = {
            let mut requests = self.requests.lock();
            requests.stop = true;
            self.changed.notify_one();
            requests.thread.take()
        };
        if let Some(thread) = thread {
            // A panic in it has been printed, and has poisoned the store if it left work undone.
            let _ = thread.join();
        }
    }
}

//! Tasks of the background threads. One checkpoints when the log is half full, and makes the syncs
//! of `interval` mode; the other writes an open batch that is half full, beside checkpoints. After
//! a record it looks at the open batch every millisecond for a while, so that a caller does not pay
//! for waking it each time.
//!
//! A thread starts with its first task, so a store that is only read, or written little, has none.
//! If the system refuses to start it, the next request tries again. Meanwhile a flush that finds
//! the log or the batch full does the work itself, and a barrier does a sync that is due.
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

impl Requests {
    fn take_due(&mut self) -> bool {
        self.sync_at.take_if(|at| *at <= Instant::now()).is_some()
    }
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
        self.interval.is_some() && self.requests.lock().take_due()
    }

    /// As [`BackgroundTasks::take_due`], for callers: only if the thread could not start.
    pub(crate) fn take_due_alone(&self) -> bool {
        let mut requests = self.requests.lock();
        requests.thread.is_none() && requests.take_due()
    }

    /// Starts the thread, or wakes it if `change` says that the request is new.
    fn request(&self, change: impl FnOnce(&mut Requests) -> bool) {
        let mut requests = self.requests.lock();
        if requests.stop {
            return;
        }
        let is_new = change(&mut requests);
        if requests.thread.is_none() {
            requests.thread = (self.start)();
        } else if is_new {
            self.changed.notify_one();
        }
    }

    /// Waits for the next task; `None` when the thread is to end.
    pub(crate) fn next(&self) -> Option<BackgroundTask> {
        let mut requests = self.requests.lock();
        loop {
            if requests.stop {
                return None;
            }
            if requests.take_due() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Weak};

    /// Tasks whose thread the system refuses to start `refusals` times. The thread sends its tasks.
    fn tasks(refusals: usize) -> (Arc<BackgroundTasks>, std::sync::mpsc::Receiver<BackgroundTask>) {
        let (sender, receiver) = channel();
        let tasks = Arc::new_cyclic(|tasks: &Weak<BackgroundTasks>| {
            let (tasks, starts) = (tasks.clone(), AtomicUsize::new(0));
            BackgroundTasks::new(Some(Duration::ZERO), true, move || {
                if starts.fetch_add(1, Relaxed) < refusals {
                    return None;
                }
                let (tasks, sender) = (tasks.upgrade()?, sender.clone());
                Some(std::thread::spawn(move || {
                    while let Some(task) = tasks.next() {
                        sender.send(task).unwrap();
                    }
                }))
            })
        });
        (tasks, receiver)
    }

    #[test]
    fn a_thread_that_could_not_start_starts_at_the_next_request() {
        for ask in [BackgroundTasks::want_sync, BackgroundTasks::want_checkpoint, BackgroundTasks::want_record] {
            let (tasks, done) = tasks(1);
            ask(&tasks);
            assert!(tasks.requests.lock().thread.is_none());
            ask(&tasks);
            assert!(tasks.requests.lock().thread.is_some(), "the request is as old as before, and undone");
            done.recv().unwrap();
            assert!(!tasks.take_due_alone());
            tasks.stop();
        }
    }

    #[test]
    fn a_sync_that_is_due_without_a_thread_is_the_callers() {
        let (tasks, _done) = tasks(usize::MAX);
        assert!(!tasks.take_due_alone());
        tasks.want_sync();
        assert!(tasks.take_due_alone());
        assert!(!tasks.take_due_alone(), "it is one sync");
    }
}

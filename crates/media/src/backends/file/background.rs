//! The keeper: a thread that checkpoints when the log is half full and syncs in `interval` mode.
//!
//! It starts with its first task, so a store that is only read, or written little, has none.
//! Nothing depends on it: a flush that finds the log full checkpoints by itself.

use super::Shared;
use super::log::Log;
use parking_lot::{Condvar, Mutex};
use std::sync::Weak;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) struct Keeper {
    tasks: Mutex<Tasks>,
    changed: Condvar,
    /// What the thread works on; itself, through the store that owns it.
    shared: Weak<Shared>,
    interval: Option<Duration>,
    enabled: bool,
}

#[derive(Default)]
struct Tasks {
    checkpoint: bool,
    /// When what has been written must be synced.
    sync_at: Option<Instant>,
    stop: bool,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(crate) fn new(shared: Weak<Shared>, interval: Option<Duration>, enabled: bool) -> Keeper {
        Keeper { tasks: Mutex::default(), changed: Condvar::new(), shared, interval, enabled }
    }

    pub(crate) fn want_checkpoint(&self) {
        if self.enabled {
            self.ask(|tasks| !std::mem::replace(&mut tasks.checkpoint, true));
        }
    }

    pub(crate) fn want_sync(&self) {
        let Some(interval) = self.interval else { return };
        self.ask(|tasks| {
            let first = tasks.sync_at.is_none();
            tasks.sync_at.get_or_insert_with(|| Instant::now() + interval);
            first
        });
    }

    /// Whether a sync is due; the caller does it. For long tasks, which the thread of the keeper
    /// cannot leave.
    fn take_due(&self) -> bool {
        let due = |at: &mut Instant| *at <= Instant::now();
        self.interval.is_some() && self.tasks.lock().sync_at.take_if(due).is_some()
    }

    fn ask(&self, change: impl FnOnce(&mut Tasks) -> bool) {
        let mut tasks = self.tasks.lock();
        if tasks.stop || !change(&mut tasks) {
            return;
        }
        if tasks.thread.is_none()
            && let Some(shared) = self.shared.upgrade()
        {
            // Without a thread the log still works: see above. In `interval` mode the sync then
            // waits for a checkpoint.
            tasks.thread = std::thread::Builder::new().name("everbyte-file".into()).spawn(move || shared.keep()).ok();
        }
        self.changed.notify_one();
    }

    /// In a forked child, where the thread is not: its handle. The lock may have been held at the
    /// fork.
    pub(crate) fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.tasks.try_lock()?.thread.take()
    }

    /// Ends the thread, after the task it is at.
    pub(crate) fn stop(&self) {
        let thread = {
            let mut tasks = self.tasks.lock();
            tasks.stop = true;
            self.changed.notify_one();
            tasks.thread.take()
        };
        if let Some(thread) = thread {
            // a panic in it has been printed, and poisoned nothing that is not checked
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Between two pieces of a long task: syncs what is due. A failure poisons, which the next
    /// piece finds.
    pub(crate) fn sync_if_due(&self) {
        if self.keeper.take_due() {
            let _ = self.sync_written();
        }
    }
}

enum Task {
    Checkpoint,
    Sync,
}

impl Shared {
    /// The thread's life. Errors need no telling here: they poison, and whoever calls next hears.
    fn keep(&self) {
        while let Some(task) = self.keeper.next() {
            let _ = match task {
                Task::Checkpoint => self.checkpoint_when(Log::is_crowded).map(|()| self.give_back(false)),
                Task::Sync => self.sync_written(),
            };
        }
    }
}

impl Keeper {
    fn next(&self) -> Option<Task> {
        let mut tasks = self.tasks.lock();
        loop {
            if tasks.stop {
                return None;
            }
            if tasks.sync_at.take_if(|at| *at <= Instant::now()).is_some() {
                return Some(Task::Sync);
            }
            if std::mem::take(&mut tasks.checkpoint) {
                return Some(Task::Checkpoint);
            }
            match tasks.sync_at {
                Some(at) => drop(self.changed.wait_until(&mut tasks, at)),
                None => self.changed.wait(&mut tasks),
            }
        }
    }
}

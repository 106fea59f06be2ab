//! The settler: a thread that waits for the medium instead of the event loop.
//!
//! If a barrier waits for a disk, the loop hands it the iteration's commit and goes on reading and
//! executing for other clients; the replies of the iteration wait (`iteration.rs`). Only the newest
//! commit counts: settling it settles all before it, so iterations that end during one sync share
//! the next.
//!
//! Steps
//!   1. the loop asks for a commit and remembers its ticket
//!   2. the thread settles the newest requested commit, and publishes the newest settled ticket
//!   3. it wakes the loop, if that sleeps
//!
//! Invariant SETTLER-1: `settled` reaches a ticket only after its commit, and all before, have been
//! settled.
//!
//! Threads: the event loop calls, one thread settles. It ends when this is dropped, or when it has
//! failed: by an error of the medium, or by a panic. Then it wakes the loop, so that no client
//! waits for a reply in vain.

use crate::error::Error;
use everbyte_kv::{Commit, Kv};
use everbyte_media::seeded;
use mio::Waker;
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;

/// See the head of this file.
pub(crate) struct Settler {
    shared: Arc<Handoff>,
    thread: Option<JoinHandle<()>>,
    /// The newest ticket issued.
    ticket: u64,
}

struct Handoff {
    kv: Kv,
    waker: Arc<Waker>,
    task: Mutex<Task>,
    changed: Condvar,
    /// All tickets up to this one are settled.
    settled: AtomicU64,
    failed: AtomicBool,
    /// Whether the loop sleeps, or is about to: it reads `settled` once more after setting this.
    sleeps: AtomicBool,
}

#[derive(Default)]
struct Task {
    wanted: Option<(u64, Commit)>,
    stop: bool,
    error: Option<Error>,
}

impl Settler {
    /// Starts the thread; `None` if the system refuses one: the loop then settles by itself.
    pub(crate) fn start(kv: &Kv, waker: Arc<Waker>) -> Option<Settler> {
        let shared = Arc::new(Handoff {
            kv: kv.clone(),
            waker,
            task: Mutex::default(),
            changed: Condvar::new(),
            settled: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            sleeps: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&shared);
        // Unwind safe: after a panic nothing is settled any more.
        let life =
            move || catch_unwind(AssertUnwindSafe(|| theirs.live())).unwrap_or_else(|_| theirs.end(Error::Settler));
        let thread = std::thread::Builder::new().name("everbyte-settle".into()).spawn(life).ok()?;
        Some(Settler { shared, thread: Some(thread), ticket: 0 })
    }

    /// Asks for a commit to be settled, and with it all before.
    pub(crate) fn ask(&mut self, commit: Commit) {
        self.ticket += 1;
        self.shared.task.lock().wanted = Some((self.ticket, commit));
        self.shared.changed.notify_one();
    }

    /// The ticket that the next commit asked for will have.
    pub(crate) fn next_ticket(&self) -> u64 {
        self.ticket + 1
    }

    /// Whether everything asked for is settled.
    pub(crate) fn is_idle(&self) -> bool {
        self.settled() == self.ticket
    }

    /// The newest ticket that is settled.
    pub(crate) fn settled(&self) -> u64 {
        if seeded("server-landed-early") { self.ticket } else { self.shared.settled.load(SeqCst) }
    }

    /// The error that ended the settler; taken by the first call.
    pub(crate) fn error(&self) -> Option<Error> {
        if self.shared.failed.load(SeqCst) { self.shared.task.lock().error.take() } else { None }
    }

    /// Whether `ticket` is settled by now, or nothing will be. From here on a change wakes the
    /// loop.
    pub(crate) fn before_sleep(&self, ticket: u64) -> bool {
        self.shared.sleeps.store(true, SeqCst); // pairs with the swap in `wake`
        self.settled() >= ticket || self.shared.failed.load(SeqCst)
    }

    /// Called when the loop is awake; it reads `settled` before it sleeps again.
    pub(crate) fn after_sleep(&self) {
        self.shared.sleeps.store(false, SeqCst);
    }
}

impl Handoff {
    fn live(&self) {
        loop {
            let (ticket, commit) = {
                let mut task = self.task.lock();
                loop {
                    // A requested commit is settled even when the loop ends: a client may wait for
                    // it.
                    if let Some(wanted) = task.wanted.take() {
                        break wanted;
                    }
                    if task.stop {
                        return;
                    }
                    self.changed.wait(&mut task);
                }
            };
            if let Err(source) = self.kv.settle(commit) {
                return self.end(Error::Store { source });
            }
            self.settled.store(ticket, SeqCst); // SETTLER-1
            self.wake();
        }
    }

    /// Ends settling with an error.
    fn end(&self, error: Error) {
        self.task.lock().error = Some(error);
        self.failed.store(true, SeqCst);
        self.wake();
    }

    fn wake(&self) {
        if self.sleeps.swap(false, SeqCst) {
            // A waker fails only when the loop is gone.
            let _ = self.waker.wake();
        }
    }
}

impl Drop for Settler {
    fn drop(&mut self) {
        self.shared.task.lock().stop = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it catches its panics
        }
    }
}

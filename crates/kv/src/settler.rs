//! [`Settler`]: one thread that settles commits, for any number of waiters.
//!
//! Only the newest commit counts: settling it settles all before it, so commits that arrive during
//! one sync share the next. The server waits by tickets, other programs by futures.
//!
//! Steps
//!   1. a thread asks for a commit and gets its ticket
//!   2. the settler settles the newest requested commit, and publishes its ticket
//!   3. it wakes the futures up to that ticket, and calls the notification
//!
//! Invariants
//!   SETTLER-1  `settled` reaches a ticket only after its commit, and all before, have been
//!              settled.
//!   SETTLER-2  A ticket and its commit are handed over under one lock, so the newest commit has
//!              the newest ticket. A commit that is older than the one requested last is settled
//!              with it.
//!
//! Threads: any; one settles. It ends when the settler is dropped, after what was asked for, or
//! when it has failed. Then every future asks the store itself, and gets its error.

use crate::tree::Version;
use crate::{Commit, Error, Kv, Result};
use everbyte_media::museum::carried;
use everbyte_media::seeded;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

/// Settles commits in a thread of its own: writes return at once, and a future of each is resolved
/// when it is durable. One thread serves any number of futures. On media whose fences settle there
/// is no thread: every future is ready at once.
///
/// While the settler or a future of it lives, the key-value store is open.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
/// # let kv = everbyte_kv::Kv::open_or_create(&store, "kv")?;
/// let settler = everbyte_kv::Settler::start(&kv)?;
/// let (one, other) = (settler.put(b"a", b"1")?, settler.put(b"b", b"2")?);
/// // In an async function: `one.await?`. Elsewhere:
/// one.wait()?;
/// other.wait()?; // both durable, most likely by one sync
/// assert_eq!(kv.len(), 2);
/// # Ok(()) }
/// ```
pub struct Settler {
    shared: Arc<Handoff>,
    thread: Option<JoinHandle<()>>,
}

struct Handoff {
    kv: Kv,
    notify: Box<dyn Fn() + Send + Sync>,
    task: Mutex<Task>,
    changed: Condvar,
    /// All tickets up to this one are settled.
    settled: AtomicU64,
    failed: AtomicBool,
}

#[derive(Default)]
struct Task {
    /// The newest ticket issued.
    ticket: u64,
    wanted: Option<(u64, Commit)>,
    stop: bool,
    error: Option<Error>,
    /// Futures that wait, by ticket.
    waiting: BTreeMap<u64, Waker>,
}

impl Settler {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(kv: &Kv) -> std::io::Result<Settler> {
        Settler::start_with(kv, || {})
    }

    /// As [`Settler::start`]; `notify` is called in the thread whenever [`Settler::settled`] has
    /// grown, or the thread has failed.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start_with(kv: &Kv, notify: impl Fn() + Send + Sync + 'static) -> std::io::Result<Settler> {
        let shared = Arc::new(Handoff {
            kv: kv.clone(),
            notify: Box::new(notify),
            task: Mutex::default(),
            changed: Condvar::new(),
            settled: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        });
        if kv.tree.heap().object().media().fences_settle() {
            return Ok(Settler { shared, thread: None });
        }
        let theirs = Arc::clone(&shared);
        // Unwind safe: after a panic nothing is settled any more.
        let life =
            carried(move || catch_unwind(AssertUnwindSafe(|| theirs.live())).unwrap_or_else(|_| theirs.end(None)));
        let thread = std::thread::Builder::new().name("everbyte-settle".into()).spawn(life)?;
        Ok(Settler { shared, thread: Some(thread) })
    }

    /// Asks for a commit to be settled, and with it all before; returns its ticket. Tickets grow.
    ///
    /// # Errors
    /// A commit of another store, or of this one before it was opened again.
    pub fn ask(&self, commit: Commit) -> Result<u64> {
        self.shared.kv.tree.require_own(commit)?;
        let mut task = self.shared.task.lock();
        task.ticket += 1;
        let ticket = task.ticket;
        if self.thread.is_none() {
            self.shared.settled.store(ticket, SeqCst); // a fence has settled it
            return Ok(ticket);
        }
        // SETTLER-2: of two commits the newer one settles both.
        let newest = task.wanted.map(|(_, wanted)| wanted).filter(|wanted| wanted.version() > commit.version());
        task.wanted = Some((ticket, newest.unwrap_or(commit)));
        drop(task);
        self.shared.changed.notify_one();
        Ok(ticket)
    }

    /// The newest ticket that is settled.
    pub fn settled(&self) -> u64 {
        self.shared.settled.load(SeqCst)
    }

    /// Whether the thread has failed: nothing is settled by it any more.
    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(SeqCst)
    }

    /// The error of the store that ended the thread; taken by the first call. `None` after a panic.
    pub fn take_error(&self) -> Option<Error> {
        self.shared.task.lock().error.take()
    }

    /// A future that is resolved when `commit`, and all before, are durable and visible to readers.
    /// The commit is settled whether or not the future is polled. The future of a commit that
    /// [`Settler::ask`] refuses has the same error.
    pub fn future(&self, commit: Commit) -> Settled {
        let ticket = self.ask(commit).ok();
        Settled { shared: Arc::clone(&self.shared), commit, ticket }
    }

    /// Binds `value` to `key`. Returns when the put is ordered before all later writes; the future
    /// is resolved when it is durable. For tables with names and for several writes:
    /// [`Settler::future`] of a batch's commit.
    ///
    /// # Errors
    /// As [`Kv::put`]: nothing changed. The future's error: the outcome is unknown until the store
    /// is opened again.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<Settled> {
        let mut batch = self.shared.kv.begin()?;
        batch.put(key, value)?;
        Ok(self.future(batch.commit()?))
    }
}

impl Handoff {
    fn live(&self) {
        loop {
            let (ticket, commit) = {
                let mut task = self.task.lock();
                loop {
                    // A requested commit is settled also when the settler ends: a future may wait.
                    if let Some(wanted) = task.wanted.take() {
                        break wanted;
                    }
                    if task.stop {
                        return;
                    }
                    self.changed.wait(&mut task);
                }
            };
            if seeded("kv-settler-early") {
                self.publish(ticket);
            }
            if let Err(error) = self.kv.settle(commit) {
                return self.end(Some(error));
            }
            self.publish(ticket); // SETTLER-1
        }
    }

    /// All up to `ticket` is settled.
    fn publish(&self, ticket: u64) {
        let woken = {
            // Under the lock: a future that polls now is among those woken, or sees the ticket.
            let mut task = self.task.lock();
            self.settled.store(ticket, SeqCst);
            let later = task.waiting.split_off(&(ticket + 1));
            std::mem::replace(&mut task.waiting, later)
        };
        wake(woken);
        (self.notify)();
    }

    /// Ends settling.
    fn end(&self, error: Option<Error>) {
        let woken = {
            let mut task = self.task.lock();
            task.error = error;
            self.failed.store(true, SeqCst);
            std::mem::take(&mut task.waiting)
        };
        wake(woken);
        // It may be the one whose panic ended the thread.
        let _ = catch_unwind(AssertUnwindSafe(|| (self.notify)()));
    }
}

/// Wakes futures. The panic of a waker costs no other its wake-up.
fn wake(woken: BTreeMap<u64, Waker>) {
    for waker in woken.into_values() {
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
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

/// A commit on its way to the medium: see [`Settler::future`].
#[must_use = "a commit is durable only once this is resolved"]
pub struct Settled {
    shared: Arc<Handoff>,
    commit: Commit,
    /// `None`: it is of another store.
    ticket: Option<u64>,
}

impl Settled {
    /// The version of the commit.
    pub fn version(&self) -> Version {
        self.commit.version()
    }

    /// Waits until the commit is durable.
    ///
    /// # Errors
    /// As [`Kv::settle`].
    pub fn wait(self) -> Result<()> {
        self.shared.kv.settle(self.commit)
    }
}

impl Future for Settled {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(ticket) = self.ticket else { return Poll::Ready(self.shared.kv.settle(self.commit)) };
        let mut task = self.shared.task.lock();
        if self.shared.settled.load(SeqCst) >= ticket {
            return Poll::Ready(Ok(()));
        }
        if self.shared.failed.load(SeqCst) {
            drop(task);
            // The store is poisoned and says so; after a panic of the thread this settles.
            return Poll::Ready(self.shared.kv.settle(self.commit));
        }
        task.waiting.insert(ticket, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Settled {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.shared.task.lock().waiting.remove(&ticket);
        }
    }
}

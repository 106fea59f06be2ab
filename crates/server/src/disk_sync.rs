//! Syncs that WAITAOF and connections in the mode `always` ask for, on a store whose durability
//! mode does not sync each write: a thread of its own waits for the disk.
//!
//! Steps
//!   1. the loop asks, when the iteration has committed, with the newest position of the log
//!   2. the thread syncs it, publishes the ticket, and wakes the loop; requests that come meanwhile
//!      share the next sync
//!
//! Threads: the event loop asks; one thread syncs. It starts with the first request.

use everbyte_media::{Mark, Media, seeded};
use mio::Waker;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;

/// See the head of this file.
pub(crate) struct DiskSync {
    shared: Arc<Handoff>,
    thread: Option<JoinHandle<()>>,
    /// The newest ticket issued.
    ticket: u64,
}

struct Handoff {
    media: Media,
    waker: Option<Arc<Waker>>,
    task: Mutex<Task>,
    changed: Condvar,
    /// All tickets up to this one are synced.
    synced: AtomicU64,
}

#[derive(Default)]
struct Task {
    wanted: Option<(u64, Mark)>,
    stop: bool,
    /// The text of the error that ended the thread.
    error: Option<String>,
}

impl DiskSync {
    /// Starts the thread, which wakes the loop by `waker`.
    pub(crate) fn start(media: &Media, waker: Option<Arc<Waker>>) -> io::Result<DiskSync> {
        let (task, changed, synced) = (Mutex::default(), Condvar::new(), AtomicU64::new(0));
        let shared = Arc::new(Handoff { media: media.clone(), waker, task, changed, synced });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("everbyte-waitaof".into()).spawn(move || theirs.live())?;
        Ok(DiskSync { shared, thread: Some(thread), ticket: 0 })
    }

    /// Asks for all that fences have ordered so far; the ticket.
    pub(crate) fn ask(&mut self) -> u64 {
        self.ticket += 1;
        let mark = self.shared.media.mark();
        let mut task = self.shared.task.lock();
        task.wanted = Some((self.ticket, mark));
        if task.error.is_some() {
            // The thread has ended: else the loop would see the error at its next tick.
            self.shared.wake();
        }
        drop(task);
        self.shared.changed.notify_one();
        self.ticket
    }

    /// Whether a ticket is synced; an error is that of the store.
    pub(crate) fn is_synced(&self, ticket: u64) -> Result<bool, String> {
        if self.shared.synced.load(SeqCst) >= ticket || seeded("server-waitaof-early") {
            return Ok(true);
        }
        self.shared.task.lock().error.clone().map_or(Ok(false), Err)
    }
}

impl Handoff {
    fn live(&self) {
        loop {
            let (ticket, mark) = {
                let mut task = self.task.lock();
                loop {
                    if task.stop {
                        return;
                    }
                    if let Some(wanted) = task.wanted.take() {
                        break wanted;
                    }
                    self.changed.wait(&mut task);
                }
            };
            let done = self.media.sync(mark);
            match &done {
                Ok(()) => self.synced.store(ticket, SeqCst),
                Err(error) => self.task.lock().error = Some(error.to_string()),
            }
            self.wake();
            if done.is_err() {
                return;
            }
        }
    }

    fn wake(&self) {
        if let Some(waker) = &self.waker {
            let _ = waker.wake(); // it fails only when the loop is gone
        }
    }
}

#[cfg(test)]
impl DiskSync {
    /// Without a thread: syncs end as [`DiskSync::land`] and [`DiskSync::fail`] say.
    pub(crate) fn by_hand(media: &Media, waker: Option<Arc<Waker>>) -> DiskSync {
        let (task, changed, synced) = (Mutex::default(), Condvar::new(), AtomicU64::new(0));
        let shared = Arc::new(Handoff { media: media.clone(), waker, task, changed, synced });
        DiskSync { shared, thread: None, ticket: 0 }
    }

    /// All that was asked for is synced.
    pub(crate) fn land(&self) {
        self.shared.synced.store(self.ticket, SeqCst);
    }

    /// Later syncs fail.
    pub(crate) fn fail(&self) {
        self.shared.task.lock().error = Some("injected: the disk is gone".into());
    }
}

impl Drop for DiskSync {
    fn drop(&mut self) {
        self.shared.task.lock().stop = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_kv::Kv;
    use everbyte_media::{BackendChoice, Durability, Options};
    use everbyte_store::{CreateOptions, Store};

    fn store(dir: &tempfile::TempDir) -> Store {
        let media = Options {
            backend: BackendChoice::File,
            durability: Durability::Process,
            background: false,
            ..Options::default()
        };
        let options = CreateOptions { media, max: 64 << 20, ..CreateOptions::default() };
        Store::create(&dir.path().join("store"), &options).unwrap()
    }

    /// The thread has not come yet to the first request when the second one is made: the sync that
    /// answers both covers what was written between them.
    #[test]
    fn a_request_that_joins_another_covers_all_that_was_written_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir);
        let kv = Kv::create(&store, "kv").unwrap();
        let mut sync = DiskSync::by_hand(store.media(), None);
        let mut asked = |key: &[u8]| {
            kv.put(key, b"value").unwrap();
            let ticket = sync.ask();
            let wanted = sync.shared.task.lock().wanted;
            (ticket, wanted.unwrap())
        };
        let (first, one) = asked(b"one");
        let (second, other) = asked(b"other");
        assert_eq!((first, one.0, second, other.0), (1, 1, 2, 2));
        assert!(other.1 > one.1, "the second request has the mark of the first one");
    }

    /// The thread ends with the first failed sync: a later request itself wakes the loop, which
    /// then answers with the error.
    #[test]
    fn a_request_after_a_failed_sync_wakes_the_loop_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir);
        let mut poll = mio::Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let mut sync = DiskSync::by_hand(store.media(), Some(waker));
        let mut woken = || {
            let mut events = mio::Events::with_capacity(1);
            poll.poll(&mut events, Some(std::time::Duration::ZERO)).unwrap();
            !events.is_empty()
        };
        sync.ask();
        assert!(!woken(), "the thread wakes the loop when the sync has ended");
        sync.fail();
        let ticket = sync.ask();
        assert!(woken());
        assert!(sync.is_synced(ticket).is_err());
    }
}

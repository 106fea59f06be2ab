//! The settler of the event loop: a thread of the key-value store ([`everbyte_kv::Settler`]) waits
//! for the medium instead of the loop.
//!
//! If a barrier waits for a disk, the loop hands over the iteration's commit and goes on reading
//! and executing for other clients; the replies of the iteration wait (`iteration.rs`). Commits of
//! iterations that end during one sync share the next.
//!
//! Steps
//!   1. the loop asks for a commit and remembers its ticket
//!   2. the thread settles it and publishes the ticket (SETTLER-1 of the store)
//!   3. it wakes the loop, if that sleeps; also when it has failed, so that no client waits for a
//!      reply in vain
//!
//! Threads: the event loop calls.

use crate::error::Error;
use everbyte_kv::{Commit, Kv};
use everbyte_media::seeded;
use mio::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// See the head of this file.
pub(crate) struct Settler {
    worker: Worker,
    /// Whether the loop sleeps, or is about to: it reads `settled` once more after setting this.
    sleeps: Arc<AtomicBool>,
    /// The newest ticket issued.
    ticket: u64,
    /// Whether its error was taken.
    told: AtomicBool,
}

/// The part that waits for the medium.
enum Worker {
    /// A thread of the store.
    Thread(everbyte_kv::Settler),
    /// A script, by [`Settler::settle_by_hand`]: the newest commit asked for, and the newest ticket
    /// settled.
    Hand(Kv, Option<Commit>, u64),
}

impl Settler {
    /// Starts the thread; `None` if the system refuses one: the loop then settles by itself.
    pub(crate) fn start(kv: &Kv, waker: Arc<Waker>) -> Option<Settler> {
        let sleeps = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&sleeps);
        let wake = move || {
            if theirs.swap(false, SeqCst) {
                // A waker fails only when the loop is gone.
                let _ = waker.wake();
            }
        };
        let settler = everbyte_kv::Settler::start_with(kv, wake).ok()?;
        Some(Settler { worker: Worker::Thread(settler), sleeps, ticket: 0, told: AtomicBool::new(false) })
    }

    /// A settler without a thread: what it is asked for waits for [`Settler::settle_by_hand`].
    pub(crate) fn by_hand(kv: &Kv) -> Settler {
        let worker = Worker::Hand(kv.clone(), None, 0);
        Settler { worker, sleeps: Arc::default(), ticket: 0, told: AtomicBool::new(false) }
    }

    /// Settles what a settler without a thread was asked for.
    pub(crate) fn settle_by_hand(&mut self) -> Result<(), Error> {
        if let Worker::Hand(kv, commit, settled) = &mut self.worker
            && let Some(commit) = commit.take()
        {
            kv.settle(commit).map_err(|source| Error::Store { source })?;
            *settled = self.ticket;
        }
        Ok(())
    }

    /// Asks for a commit to be settled, and with it all before.
    pub(crate) fn ask(&mut self, commit: Commit) {
        self.ticket = match &mut self.worker {
            Worker::Thread(settler) => settler.ask(commit).expect("a commit of the server's own store"),
            Worker::Hand(_, asked, _) => {
                *asked = Some(commit);
                self.ticket + 1
            }
        };
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
        match &self.worker {
            _ if seeded("server-landed-early") => self.ticket,
            Worker::Thread(settler) => settler.settled(),
            Worker::Hand(_, _, settled) => *settled,
        }
    }

    fn has_failed(&self) -> bool {
        matches!(&self.worker, Worker::Thread(settler) if settler.has_failed())
    }

    /// The error that ended the settler; taken by the first call.
    pub(crate) fn error(&self) -> Option<Error> {
        let Worker::Thread(settler) = &self.worker else { return None };
        if !settler.has_failed() || self.told.swap(true, SeqCst) {
            return None;
        }
        Some(settler.take_error().map_or(Error::Settler, |source| Error::Store { source }))
    }

    /// Whether `ticket` is settled by now, or nothing will be. From here on a change wakes the
    /// loop.
    pub(crate) fn before_sleep(&self, ticket: u64) -> bool {
        self.sleeps.store(true, SeqCst); // pairs with the swap in the notification
        self.settled() >= ticket || self.has_failed()
    }

    /// Called when the loop is awake; it reads `settled` before it sleeps again.
    pub(crate) fn after_sleep(&self) {
        self.sleeps.store(false, SeqCst);
    }
}

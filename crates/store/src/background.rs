//! The thread that zeroes released clusters which the store keeps, and prepares new ones, so that
//! the next growth finds them ready.
//!
//! It starts when a MiB waits for it, or an object has grown by a MiB in small pieces ([`AFTER`]),
//! so a store that does little has none. No result depends on it: a thread that reserves a cluster
//! does the work that is left. A store keeps clusters only if one process has it alone, on a
//! backend whose stores other processes see: on `file` zeros would go through the log, and a shared
//! store's clusters may belong to other processes by the next acquisition of its lock.
//!
//! Threads: any. The thread ends when the store is closed or dropped, and the kept clusters go back
//! to the file system. A child of fork has no such thread, and leaves its parent's clusters alone.
//!
//! Design: docs/design/backing.md

use everbyte_media::lock_order::{RankedMutex, rank};
use everbyte_space::{PREPARE_STEP, PREPARED_MAX, Space};
use parking_lot::Condvar;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Waiting bytes that wake the thread.
const CALL: u64 = 1 << 20;
/// Bytes that an object has grown by, or new objects have begun with, in this session, before
/// clusters are prepared for the next growth.
pub(crate) const AFTER: u64 = 1 << 20;
/// The least and the most bytes that are prepared for an object that grows; in between as many as
/// it asked for last.
const ONE: (u64, u64) = (1 << 20, PREPARED_MAX / 4);

pub(crate) struct Background {
    space: Arc<Space>,
    /// Whether released clusters are kept.
    keeps: AtomicBool,
    /// For tests: no thread starts, and clusters are prepared from the first growth on.
    by_hand: AtomicBool,
    calls: Arc<Calls>,
    thread: RankedMutex<{ rank::BACKGROUND_THREAD }, Option<JoinHandle<()>>>,
    /// The process that has the thread.
    process: u32,
}

/// The growth of an object in this session.
#[derive(Default)]
pub(crate) struct GrowthHistory {
    /// Bytes.
    bytes: u64,
    /// The end of the range that was prepared.
    ahead: u64,
}

#[derive(Default)]
struct Calls {
    state: RankedMutex<{ rank::BACKGROUND }, ThreadState>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ThreadState {
    #[default]
    Idle,
    Called,
    Working,
    Stop,
}

impl Background {
    pub(crate) fn new(space: Arc<Space>) -> Background {
        let (keeps, by_hand, calls, thread) = Default::default();
        Background { space, keeps, by_hand, calls, thread, process: std::process::id() }
    }

    /// Sets whether released clusters are kept.
    pub(crate) fn keep(&self, keeps: bool) {
        self.keeps.store(keeps, Ordering::Relaxed);
    }

    /// Releases clusters; they are kept if the caller allows it and the store keeps clusters.
    pub(crate) fn release(&self, range: &Range<u64>, allowed: bool) {
        if !allowed || !self.keeps.load(Ordering::Relaxed) {
            self.space.release(range);
        } else if self.space.release_and_keep(range) >= CALL {
            self.call();
        }
    }

    /// For tests: [`Background::finish`] alone does the work, from the first growth on.
    pub(crate) fn by_hand(&self) {
        self.by_hand.store(true, Ordering::Relaxed);
    }

    /// Whether clusters are prepared for an owner that has asked for so many bytes by now.
    pub(crate) fn expects(&self, asked: u64) -> bool {
        self.keeps.load(Ordering::Relaxed) && (asked >= AFTER || self.by_hand.load(Ordering::Relaxed))
    }

    /// Requests the preparation of free clusters. The caller keeps other threads from reserving
    /// them meanwhile.
    pub(crate) fn prepare(&self, range: &Range<u64>) {
        if self.space.want(range) {
            self.call();
        }
    }

    /// Requests the preparation of clusters for an object that grew and has addresses up to `end`,
    /// before the prepared ones are used up. The caller keeps other threads from growing it.
    pub(crate) fn prepare_more(&self, history: &mut GrowthHistory, grown: &Range<u64>, end: u64) {
        let (before, len) = (history.bytes, grown.end - grown.start);
        history.bytes += len;
        let ahead = len.clamp(ONE.0, ONE.1);
        if self.expects(before) && history.ahead <= grown.end + ahead / 2 {
            history.ahead = end.min((grown.end + ahead).next_multiple_of(PREPARE_STEP));
            self.prepare(&(grown.end..history.ahead));
        }
    }

    fn call(&self) {
        let mut state = self.calls.state.lock();
        if *state != ThreadState::Idle || self.by_hand.load(Ordering::Relaxed) {
            return; // the thread looks for more work before it waits
        }
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (space, calls) = (Arc::clone(&self.space), Arc::clone(&self.calls));
            let named = std::thread::Builder::new().name("everbyte-clear".into());
            *thread = named.spawn(move || calls.serve(&space)).ok();
        }
        if thread.is_some() {
            *state = ThreadState::Called;
            self.calls.changed.notify_all();
        }
    }

    /// Returns when all clusters are zeroed that can be.
    pub(crate) fn finish(&self) {
        if !self.is_ours() {
            return; // the parent may have handed out clusters that this child remembers as free
        }
        let served = self.thread.lock().is_some();
        if served {
            self.call();
            let mut state = self.calls.state.lock();
            while matches!(*state, ThreadState::Called | ThreadState::Working) {
                state.wait(&self.calls.changed);
            }
        }
        // without a thread all of them, else those that were released at its last moment
        while self.space.zero_next() {}
    }

    fn is_ours(&self) -> bool {
        std::process::id() == self.process
    }

    /// Ends the thread, after its present cluster, and keeps no clusters any more.
    pub(crate) fn stop(&self) {
        if !self.is_ours() {
            return;
        }
        self.keep(false);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            *self.calls.state.lock() = ThreadState::Stop;
            self.calls.changed.notify_all();
            let _ = thread.join(); // a panic in it has been printed, and its cluster is free
        }
        self.space.give_back();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Calls {
    /// The loop of the thread.
    fn serve(&self, space: &Space) {
        while self.next() {
            while *self.state.lock() == ThreadState::Working && space.zero_next() {}
        }
    }

    /// Waits for a call. `false`: the thread has to end.
    fn next(&self) -> bool {
        let mut state = self.state.lock();
        if *state == ThreadState::Working {
            *state = ThreadState::Idle;
            self.changed.notify_all();
        }
        while *state == ThreadState::Idle {
            state.wait(&self.changed);
        }
        if *state == ThreadState::Called {
            *state = ThreadState::Working;
        }
        *state == ThreadState::Working
    }
}

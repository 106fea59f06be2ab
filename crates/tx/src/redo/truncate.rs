//! Truncation: the stores of committed transactions are flushed, and the logs drop their records.
//!
//! One pass, a fence between the lines:
//!   1. of every log, what was committed up to the settled clock; each line that was stored to is
//!      flushed once
//!   2. the floor is raised to that clock: recovery skips those records, in whatever log a crash
//!      leaves them
//!   3. the heads of the logs move; freed blocks become allocatable once no transaction can read
//!      them
//!
//! A transaction that truncates its own record at its commit does without the floor: it still holds
//! its locks, and no record that stores to the same bytes is left in any log.
//!
//! Invariants
//!   REDO-4  A record is truncated only together with all records of smaller timestamps, or under
//!           its locks while none waits.
//!   REDO-5  A record is truncated only after its stores are flushed and fenced.
//!   REDO-6  A block is allocatable again only after the record that freed it is truncated, and
//!           when no transaction runs that began before that commit.

use super::active::wait_until;
use super::engine::RedoState;
use super::layout::FLOOR;
use super::recover::raise_floor;
use everbyte_heap::{Block, Op};
use everbyte_log::ring::Position;
use everbyte_media::{LINE, seeded};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;

/// When records are truncated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Truncation {
    /// By the transaction, at its commit: its log is empty when it returns. Three fences.
    #[default]
    Synchronous,
    /// By a thread, when a log is half full. One fence, and lines that many transactions store to
    /// are flushed once.
    Asynchronous,
}

/// A commit whose record is left for a pass.
pub(super) struct Untruncated {
    pub timestamp: u64,
    /// End of its record.
    pub end: Position,
    /// None for most: a commit that only stores leaves three words.
    pub changes: Option<Box<Changes>>,
}

/// The changes of a commit in the heap.
pub(super) struct Changes {
    ops: Vec<Op>,
    /// Storage of the record, if not in the log.
    extents: Vec<Block>,
}

impl Changes {
    #[inline]
    pub(super) fn new(ops: Vec<Op>, extents: Vec<Block>) -> Option<Box<Changes>> {
        (!ops.is_empty() || !extents.is_empty()).then(|| Box::new(Changes { ops, extents }))
    }
}

/// Records of a log that are left for a pass, oldest first. Only recovery reads the log itself.
#[derive(Default)]
pub(super) struct Left {
    /// With each how many of the lines belong to it and to those before it.
    commits: Vec<(Untruncated, usize)>,
    /// Addresses that they stored to.
    lines: Vec<u64>,
}

impl Left {
    #[inline]
    fn push(&mut self, commit: Untruncated, lines: impl Iterator<Item = u64>) {
        self.lines.extend(lines);
        self.commits.push((commit, self.lines.len()));
    }

    /// Takes the commits up to a timestamp out, and their lines.
    fn take(&mut self, clock: u64) -> Left {
        let count = self.commits.partition_point(|(commit, _)| commit.timestamp <= clock);
        if count == self.commits.len() {
            // Records left for later need as much free space again.
            let empty = Left { commits: Vec::with_capacity(count), lines: Vec::with_capacity(self.lines.len()) };
            return std::mem::replace(self, empty);
        }
        let lines = count.checked_sub(1).map_or(0, |last| self.commits[last].1);
        self.commits[count..].iter_mut().for_each(|(_, end)| *end -= lines);
        Left { commits: self.commits.drain(..count).collect(), lines: self.lines.drain(..lines).collect() }
    }
}

#[derive(Default)]
pub(super) struct Truncator {
    asynchronous: AtomicBool,
    /// Whether records are left for a pass. Set by who has the end of a log, cleared by who has the
    /// ends of all.
    pub waiting: AtomicBool,
    /// One pass at a time.
    pass: Mutex<()>,
    /// Frees whose records are truncated, by timestamp (REDO-6).
    ripening: Mutex<VecDeque<(u64, Vec<Op>)>>,
    /// Whether there are any: seen by the thread that added them at the least; other threads may
    /// see it later.
    is_ripening: AtomicBool,
    thread: OnceLock<Thread>,
    called: AtomicBool,
}

impl Truncator {
    pub(super) fn set_mode(&self, truncation: Truncation) {
        self.asynchronous.store(truncation == Truncation::Asynchronous, Ordering::Release);
    }

    #[inline]
    pub(super) fn is_asynchronous(&self) -> bool {
        self.asynchronous.load(Ordering::Acquire)
    }

    /// Leaves a commit, through the log that `left` is of, for a pass.
    #[inline]
    pub(super) fn leave(&self, left: &mut Left, commit: Untruncated, lines: impl Iterator<Item = u64>) {
        left.push(commit, lines);
        if !self.waiting.load(Ordering::Acquire) {
            self.waiting.store(true, Ordering::Release);
        }
    }

    /// Frees that are truncated and not yet known to be unseen.
    pub(super) fn ripen(&self, timestamp: u64, ops: &[Op]) {
        let frees: Vec<Op> = ops.iter().copied().filter(|op| op.frees()).collect();
        if !frees.is_empty() {
            let mut ripening = self.ripening.lock();
            ripening.push_back((timestamp, frees));
            self.is_ripening.store(true, Ordering::Release);
        }
    }
}

impl RedoState {
    /// Truncates everything up to `timestamp`, and what has settled since. Waits until other
    /// commits up to there have settled (REDO-4). Not for a thread that commits.
    pub(super) fn truncate_up_to(&self, timestamp: u64) {
        wait_until(|| self.settled_clock() >= timestamp);
        self.truncate_settled(timestamp);
    }

    /// Truncates everything up to the settled clock. Not for a thread that holds the end of a log.
    pub(super) fn truncate(&self) {
        self.truncate_settled(0);
    }

    /// [`RedoState::truncate`] where the settled clock has once been `settled`: a commit that
    /// begins may set it back for a moment, to a clock that its thread has read before.
    fn truncate_settled(&self, settled: u64) {
        if !self.truncator.waiting.load(Ordering::Acquire) {
            return self.finish_ripe();
        }
        let _pass = self.truncator.pass.lock();
        let clock = self.settled_clock().max(settled);
        let left = self.logs.iter().map(|log| (log, log.end.lock().left.take(clock)));
        let left: Vec<_> = left.filter(|(_, left)| !left.commits.is_empty()).collect();
        if left.is_empty() {
            return self.finish_ripe();
        }
        let commits = left.iter().flat_map(|(_, left)| &left.commits);
        let changes = || commits.clone().filter_map(|(commit, _)| Some((commit.timestamp, commit.changes.as_deref()?)));
        {
            let _section = self.media.section();
            let mut lines: Vec<u64> = left.iter().flat_map(|(_, left)| &left.lines).copied().collect();
            lines.sort_unstable();
            lines.dedup();
            lines.iter().for_each(|&line| self.media.flush_unless("redo-not-flushed", line, LINE)); // 1
            changes().for_each(|(_, changes)| self.heap.flush(&changes.ops));
        }
        self.media.fence();
        if !seeded("redo-floor-forgotten") {
            raise_floor(&self.media, (self.heap.object().prime() + FLOOR).get(), clock); // 2
            self.media.fence();
        }
        for (log, left) in &left {
            let last = left.commits.last().map(|(commit, _)| commit.end);
            last.into_iter().for_each(|end| log.consumer.lock().truncate(end)); // 3
        }
        let all: Vec<_> = self.logs.iter().map(|log| log.end.lock()).collect();
        if all.iter().all(|end| end.left.commits.is_empty()) {
            self.truncator.waiting.store(false, Ordering::Release);
        }
        drop(all);
        for (timestamp, changes) in changes() {
            self.give_back(&changes.extents);
            self.truncator.ripen(timestamp, &changes.ops);
        }
        self.finish_ripe();
    }

    /// Makes freed blocks allocatable once no transaction can read them any more (REDO-6).
    #[inline]
    pub(super) fn finish_ripe(&self) {
        if self.truncator.is_ripening.load(Ordering::Acquire) {
            self.finish_frees();
        }
    }

    fn finish_frees(&self) {
        let mut ripening = self.truncator.ripening.lock();
        let oldest = self.active.oldest();
        ripening.retain(|(timestamp, frees)| {
            let ripe = *timestamp <= oldest;
            if ripe {
                self.heap.finish(frees);
            }
            !ripe
        });
        self.truncator.is_ripening.store(!ripening.is_empty(), Ordering::Release);
    }

    pub(super) fn give_back(&self, extents: &[Block]) {
        extents.iter().for_each(|block| self.heap.cancel(*block));
    }

    /// Has the thread truncate, for a log is half full.
    #[cold]
    pub(super) fn call_truncator(self: &Arc<RedoState>) {
        let called = &self.truncator.called;
        if !called.load(Ordering::Acquire) && !called.swap(true, Ordering::AcqRel) {
            let thread = self.truncator.thread.get_or_init(|| {
                let engine = Arc::downgrade(self);
                let named = std::thread::Builder::new().name("everbyte-truncate".into());
                // Without a thread, transactions that find their log full truncate themselves.
                named.spawn(move || serve(&engine)).map_or_else(|_| std::thread::current(), |it| it.thread().clone())
            });
            thread.unpark();
        }
    }
}

impl Drop for RedoState {
    fn drop(&mut self) {
        if let Some(thread) = self.truncator.thread.get() {
            thread.unpark(); // it finds that no owner is left
        }
    }
}

/// Truncates whenever it is called, as long as the engine is open.
fn serve(engine: &Weak<RedoState>) {
    while let Some(engine) = engine.upgrade() {
        if engine.truncator.called.swap(false, Ordering::AcqRel) {
            engine.truncate();
            continue;
        }
        drop(engine);
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Redo;
    use crate::redo::Worker;
    use everbyte_media::{Media, Options};
    use everbyte_sim::Image;
    use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};

    fn create() -> Redo {
        let media = Media::anonymous(8 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let options = ObjectOptions { engine: Engine::Redo, fingerprint: 0, span: Some(2 << 20) };
        let redo = Redo::open(store.create_object("test", options, Redo::format).unwrap()).unwrap();
        redo.set_truncation(Truncation::Asynchronous);
        redo
    }

    fn commit(redo: &Redo, worker: &mut Worker) {
        worker.begin().unwrap();
        worker.store(redo.heap().object().prime() + 3072, 1).unwrap();
        worker.commit().unwrap();
    }

    /// Transactions that an opening after a crash replays.
    fn replayed(redo: &Redo) -> u64 {
        let store = Store::attach(Image::of(redo.media()).media()).unwrap();
        Redo::open(store.object("test").unwrap()).unwrap().replayed().transactions
    }

    /// A log whose thread has a timestamp that is not settled holds back the passes, not a caller
    /// that has asked for the truncation of what it has committed.
    #[test]
    fn a_truncation_that_is_asked_for_waits_for_commits_under_way() {
        let redo = create();
        let (logs, mut worker) = (&redo.inner.logs, redo.worker());
        let other = &logs[(worker.log + 1) % logs.len()].committing;
        other.store(redo.inner.clock.load(Ordering::Acquire), Ordering::Release);
        commit(&redo, &mut worker);
        std::thread::scope(|threads| {
            let truncating = threads.spawn(|| redo.truncate());
            for _ in 0..200 {
                assert!(!truncating.is_finished(), "an older commit is not settled");
                std::thread::yield_now();
            }
            other.store(u64::MAX, Ordering::Release);
        });
        assert_eq!(replayed(&redo), 0);
    }

    /// A thread begins to commit that has read the clock long before.
    #[test]
    fn a_settled_clock_that_goes_back_keeps_no_record() {
        let redo = create();
        let (logs, mut worker) = (&redo.inner.logs, redo.worker());
        let before = redo.inner.clock.load(Ordering::Acquire);
        commit(&redo, &mut worker);
        let settled = redo.inner.settled_clock();
        logs[(worker.log + 1) % logs.len()].committing.store(before, Ordering::Release);
        redo.inner.truncate();
        assert_eq!(replayed(&redo), 1);
        redo.inner.truncate_settled(settled);
        assert_eq!(replayed(&redo), 0);
    }

    /// A pass that leaves a record behind leaves the mark that there is one.
    #[test]
    fn a_record_that_a_pass_leaves_is_truncated_by_the_next() {
        let redo = create();
        let (logs, mut worker) = (&redo.inner.logs, redo.worker());
        commit(&redo, &mut worker);
        let other = &logs[(worker.log + 1) % logs.len()].committing;
        other.store(redo.inner.clock.load(Ordering::Acquire), Ordering::Release);
        commit(&redo, &mut worker);
        redo.inner.truncate();
        assert_eq!(replayed(&redo), 1, "it is not settled, for what the pass knows");
        other.store(u64::MAX, Ordering::Release);
        redo.inner.truncate();
        assert_eq!(replayed(&redo), 0);
    }

    /// Records left of the time before truncation became synchronous go with the first commit
    /// after it, which may have stored to the same bytes; it waits for those that have not settled.
    #[test]
    fn the_first_synchronous_commit_truncates_what_was_left_before_it() {
        let redo = create();
        let (logs, mut before, mut after) = (&redo.inner.logs, redo.worker(), redo.worker());
        assert_ne!(before.log, after.log);
        commit(&redo, &mut before);
        redo.set_truncation(Truncation::Synchronous);
        let other = &logs[(after.log + 1) % logs.len()].committing;
        other.store(redo.inner.clock.load(Ordering::Acquire), Ordering::Release);
        std::thread::scope(|threads| {
            let committing = threads.spawn(|| commit(&redo, &mut after));
            for _ in 0..200 {
                assert!(!committing.is_finished(), "an older commit is not settled");
                std::thread::yield_now();
            }
            other.store(u64::MAX, Ordering::Release);
        });
        assert_eq!(replayed(&redo), 0);
    }

    /// A commit that is refused holds back no later truncation.
    #[test]
    fn a_commit_in_conflict_leaves_the_clock_to_settle() {
        let redo = create();
        let mut worker = redo.worker();
        let at = redo.heap().object().prime() + 3072;
        worker.begin().unwrap();
        worker.load(at).unwrap();
        worker.store(at + 512, 1).unwrap();
        std::thread::scope(|threads| {
            let other = threads.spawn(|| commit(&redo, &mut redo.worker())); // ends once this one has ended
            while redo.media().load(at) == 0 && !other.is_finished() {
                std::thread::yield_now();
            }
            let ended = worker.commit();
            worker.abort_to_retry();
            assert!(matches!(ended, Err(crate::Error::Conflict)));
        });
        assert_eq!(redo.inner.settled_clock(), redo.inner.clock.load(Ordering::Acquire));
    }

    /// Each pass takes the lines of the commits that it takes, also the second of two passes that
    /// leave some.
    #[test]
    fn lines_go_with_their_commits() {
        let end = create().inner.logs[0].end.lock().producer.flushed();
        let mut left = Left::default();
        for timestamp in 1..=4 {
            left.push(
                Untruncated { timestamp, end, changes: None },
                (0..timestamp).map(|line| timestamp * 1000 + line),
            );
        }
        for timestamp in 1..=4 {
            let taken = left.take(timestamp);
            assert_eq!(taken.commits.len(), 1);
            assert!(taken.lines.into_iter().eq((0..timestamp).map(|line| timestamp * 1000 + line)), "{timestamp}");
        }
    }
}

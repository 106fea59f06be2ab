//! The feed of one replica: a thread of the primary that turns versions into frames.
//!
//! Steps
//!   1. the greeting says how the replica goes on (`KeptVersions::find`)
//!   2. the difference of the replica's version and a newer one, or a copy of the newer one, is
//!      sent in parts
//!   3. the replica acknowledges the newer version once it has settled it; the older one is
//!      released, as are those that an earlier connection of the replica ended with
//!   4. the thread waits until there is something new
//!
//! At most one transfer is under way, so a replica is at its last version, at the one under way, or
//! between them. Writes meanwhile join the next transfer: a replica that is slow, or far
//! away, gets fewer and larger ones, and nothing is queued for it but [`QUEUE_SIZE`] bytes.
//!
//! The event loop takes the frames and writes them behind the connection's replies.
//!
//! Threads: one per replica, and the event loop.

use super::frame::{Frame, PROTOCOL, Plan};
use super::kept::{Found, KeptVersion, KeptVersions, ReplicaAddress};
use super::position::{History, Position, Relation, ReplicaOrigin, RunId};
use super::recent::Recent;
use super::transfer::Walk;
use crate::keyspace::ReplicatedTables;
use everbyte_kv::Result;
use everbyte_media::museum::carried;
use mio::Waker;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of frames that wait for the event loop at most, and one frame.
const QUEUE_SIZE: usize = 1 << 20;
/// Bytes of a part.
const PART_SIZE: usize = 128 << 10;
/// How often a replica is sent something.
const NEWS_EVERY: Duration = Duration::from_secs(1);
/// How often writes of other programs to the same tables are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The handover between the thread and the event loop.
pub(crate) struct Feed {
    state: Mutex<State>,
    changed: Condvar,
    waker: Option<Arc<Waker>>,
    /// The kept version whose keys the replica had when it came, or at the end of the transfer that
    /// it came in the middle of; 0: it had other keys.
    found: AtomicU64,
}

#[derive(Default)]
struct State {
    frames: VecDeque<Vec<u8>>,
    size: usize,
    closed: bool,
    acknowledged: Option<Position>,
    /// How often something may have changed.
    pokes: u64,
    /// Whether the thread waits for something new.
    awaits_news: bool,
}

impl Feed {
    fn new(waker: Option<Arc<Waker>>) -> Feed {
        Feed { state: Mutex::default(), changed: Condvar::new(), waker, found: AtomicU64::new(0) }
    }

    /// The version of this store that the replica has settled, by positions of other runs, too.
    pub(crate) fn found(&self) -> u64 {
        self.found.load(Relaxed)
    }

    /// The next frame to be sent.
    pub(crate) fn take(&self) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        let frame = state.frames.pop_front()?;
        state.size -= frame.len();
        drop(state);
        self.changed.notify_one();
        Some(frame)
    }

    /// The replica has settled a position.
    pub(crate) fn acknowledge(&self, position: Position) {
        let mut state = self.state.lock();
        state.acknowledged = Some(position);
        state.pokes += 1;
        self.changed.notify_one();
    }

    /// Something may be new.
    pub(crate) fn poke(&self) {
        let mut state = self.state.lock();
        state.pokes += 1;
        if state.awaits_news {
            self.changed.notify_one();
        }
    }

    /// The replica has disconnected: the thread ends.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_one();
    }

    /// Whether the thread has ended, or ends soon.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Hands a frame over; waits while too many bytes wait. `None`: the replica has left.
    fn send(&self, frame: Vec<u8>) -> Option<()> {
        let mut state = self.state.lock();
        while state.size > QUEUE_SIZE && !state.closed {
            self.changed.wait(&mut state);
        }
        if state.closed {
            return None;
        }
        state.size += frame.len();
        state.frames.push_back(frame);
        drop(state);
        if let Some(waker) = &self.waker {
            let _ = waker.wake(); // it fails only when the loop is gone
        }
        Some(())
    }

    /// How often something may have changed, and what the replica has acknowledged. `None`: it has
    /// left.
    fn look(&self) -> Option<(u64, Option<Position>)> {
        let state = self.state.lock();
        (!state.closed).then_some((state.pokes, state.acknowledged))
    }

    /// Waits a while for an acknowledgement, or for more pokes than were `seen` if anything new is
    /// awaited.
    fn wait(&self, seen: u64, awaits_news: bool, most: Duration) {
        let mut state = self.state.lock();
        if !state.closed && state.pokes == seen {
            state.awaits_news = awaits_news;
            self.changed.wait_for(&mut state, most);
            state.awaits_news = false;
        }
    }
}

/// Facts that a thread starts with.
pub(super) struct Start {
    pub kept: Arc<KeptVersions>,
    pub tables: ReplicatedTables,
    pub recent: Arc<Recent>,
    pub history: History,
    /// This server's run.
    pub run: RunId,
    /// The runs of the servers above this one.
    pub above: Arc<Mutex<Vec<RunId>>>,
    /// The source of the replica's keys.
    pub origin: ReplicaOrigin,
    /// The replica.
    pub address: ReplicaAddress,
    /// How long versions of a replica that has left are kept.
    pub keep: Duration,
    pub waker: Option<Arc<Waker>>,
}

/// Starts the thread of a replica.
///
/// # Errors
/// The system gives no thread.
pub(super) fn start(start: Start) -> std::io::Result<(Arc<Feed>, JoinHandle<()>)> {
    let feed = Arc::new(Feed::new(start.waker.clone()));
    let of_thread = Arc::clone(&feed);
    let run_feed = carried(move || {
        let mut feeder = Feeder {
            start,
            feed: of_thread,
            frames: 0,
            base: None,
            target: None,
            sent_at: Instant::now(),
            sent_chain: Vec::new(),
        };
        // A panic of the thread closes the feed as an error does.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| feeder.run()));
        if let Ok(Err(error)) = ended {
            eprintln!("everbyte: a replica is cut off, as the store cannot be read for it: {error}");
        }
        let kept = feeder.base.take().into_iter().chain(feeder.target.take());
        feeder.start.kept.leave(kept.map(|(held, _)| held), Some(&feeder.start.address));
        feeder.feed.close();
        if let Some(waker) = &feeder.feed.waker {
            let _ = waker.wake();
        }
    });
    let thread = std::thread::Builder::new().name("everbyte-feed".into()).spawn(run_feed)?;
    Ok((feed, thread))
}

struct Feeder {
    start: Start,
    feed: Arc<Feed>,
    /// Frames sent.
    frames: u64,
    /// The version that the replica is at, or from which a transfer is under way, and the position
    /// by which the replica knows it; `None`: a copy.
    base: Option<(Arc<KeptVersion>, Position)>,
    /// The version of the transfer under way, and its position.
    target: Option<(Arc<KeptVersion>, Position)>,
    /// When the replica was last sent something.
    sent_at: Instant,
    /// The runs above the replica that it was sent last.
    sent_chain: Vec<RunId>,
}

impl Feeder {
    fn chain(&self) -> Vec<RunId> {
        let mut chain = vec![self.start.run];
        chain.extend(self.start.above.lock().iter());
        chain
    }

    fn position(&self, held: &KeptVersion) -> Position {
        Position { run: self.start.run, version: held.version() }
    }

    fn send(&mut self, frame: &Frame) -> Option<()> {
        let bytes = frame.bytes(self.frames);
        self.frames += 1;
        self.sent_at = Instant::now();
        self.feed.send(bytes)
    }

    /// Until the replica leaves, or the store cannot be read.
    fn run(&mut self) -> Result<()> {
        let (plan, mut cursor) = self.plan();
        self.sent_chain = self.chain();
        let greeting = Frame::Greeting { protocol: PROTOCOL, plan, chain: self.sent_chain.clone() };
        let Some(()) = self.send(&greeting) else { return Ok(()) };
        let mut is_back = false;
        loop {
            // Before the next transfer: in a circle one would follow the other without end.
            let Some(()) = self.tell_news() else { return Ok(()) };
            if self.target.is_none() && !self.await_target()? {
                return Ok(());
            }
            let Some((target, position)) = self.target.clone() else { return Ok(()) };
            let Some(()) = self.transfer(&target, position, &std::mem::take(&mut cursor))? else { return Ok(()) };
            if !self.await_acknowledgement(position) {
                return Ok(());
            }
            if !is_back {
                self.start.kept.is_back(&self.start.address);
                is_back = true;
            }
            self.settles(position, target.version());
            self.base = self.target.take();
        }
    }

    /// The replica has settled a position, whose keys are those of a version of this store: the
    /// event loop knows which one only if the position is of a run of this store.
    fn settles(&self, position: Position, version: u64) {
        if position.run == self.start.run {
            return;
        }
        self.feed.found.fetch_max(version, Relaxed);
        if let Some(waker) = &self.feed.waker {
            let _ = waker.wake(); // it fails only when the loop is gone
        }
    }

    /// How the replica goes on, and from which key.
    fn plan(&mut self) -> (Plan, Vec<u8>) {
        let find = |position: &Position| match self.start.kept.find(position, &self.start.history) {
            Found::At(held) => Ok((held, *position)),
            Found::Nothing(Relation::Past) => Err(Plan::WholeGone),
            Found::Nothing(Relation::Diverged) => Err(Plan::WholeDiverged),
            Found::Nothing(Relation::Unknown) => Err(Plan::WholeUnknown),
        };
        let found = match &self.start.origin {
            ReplicaOrigin::Own => Err(Plan::WholeUnknown),
            ReplicaOrigin::At(position) => find(position).map(|base| (Plan::Difference, Some(base), None, Vec::new())),
            ReplicaOrigin::Between { target, base, cursor } => find(target).and_then(|target| {
                let base = base.as_ref().map(find).transpose()?;
                Ok((Plan::Rest, base, Some(target), cursor.clone()))
            }),
        };
        match found {
            Err(plan) => (plan, Vec::new()),
            Ok((plan, base, target, cursor)) => {
                if let (Plan::Difference, Some((held, _))) = (plan, &base) {
                    self.feed.found.store(held.version(), Relaxed);
                }
                (self.base, self.target) = (base, target);
                (plan, cursor)
            }
        }
    }

    /// Sends news if the replica was sent nothing for a while, or other servers are above it now.
    fn tell_news(&mut self) -> Option<()> {
        let chain = self.chain();
        if chain != self.sent_chain || self.sent_at.elapsed() >= NEWS_EVERY {
            self.sent_chain.clone_from(&chain);
            self.send(&Frame::News { chain })?;
        }
        Some(())
    }

    /// Waits for a version that the replica does not have; whether the replica is still there.
    fn await_target(&mut self) -> Result<bool> {
        let kept = Arc::clone(&self.start.kept);
        loop {
            let Some((seen, _)) = self.feed.look() else { return Ok(false) };
            let wanted = self.base.as_ref().is_none_or(|(base, _)| kept.is_behind(base));
            if wanted && kept.is_sendable()? {
                let newest = kept.newest(self.start.keep, None)?;
                self.target = newest.map(|held| (Arc::clone(&held), self.position(&held)));
                if self.target.is_some() {
                    return Ok(true);
                }
            }
            self.feed.wait(seen, true, LOOK_EVERY);
            if self.tell_news().is_none() {
                return Ok(false);
            }
        }
    }

    /// Waits until the replica has settled a position; whether it is still there.
    fn await_acknowledgement(&mut self, position: Position) -> bool {
        loop {
            let Some((seen, acknowledged)) = self.feed.look() else { return false };
            if acknowledged == Some(position) {
                return true;
            }
            self.feed.wait(seen, false, NEWS_EVERY);
            if self.tell_news().is_none() {
                return false;
            }
        }
    }

    /// Sends the difference of two versions, or a copy, behind a cursor. `None`: the replica has
    /// left.
    fn transfer(&mut self, target: &KeptVersion, position: Position, cursor: &[u8]) -> Result<Option<()>> {
        let (base, from) = self.base.clone().unzip();
        let begin = Frame::Begin { target: position, base: from, cursor: cursor.to_vec() };
        let Some(()) = self.send(&begin) else { return Ok(None) };
        let known = base
            .as_ref()
            .filter(|_| cursor.is_empty())
            .and_then(|base| self.start.recent.between(base.version(), target.version()));
        if let Some(items) = known {
            let Some(()) = self.send(&Frame::Part { items, cursor: vec![ReplicatedTables::COUNT] }) else {
                return Ok(None);
            };
            return Ok(self.send(&Frame::End));
        }
        let tables = self.start.tables.clone();
        let base = base.as_ref().map(|base| &base.snapshot);
        let walk = Walk { tables: &tables, base, target: &target.snapshot, part_size: PART_SIZE };
        let Some(()) = walk.run(cursor, &mut |part| self.send(&part))? else { return Ok(None) };
        Ok(self.send(&Frame::End))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Primary;
    use super::*;

    /// WAIT looks at the replicas in an iteration, so the loop is woken as a position of another
    /// run is settled.
    #[test]
    fn a_settled_position_of_another_run_wakes_the_loop() {
        let primary = Primary::new();
        let mut poll = mio::Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let feed = Arc::new(Feed::new(Some(waker)));
        let mut start = primary.start(ReplicaOrigin::Own, 1);
        start.waker.clone_from(&feed.waker);
        let feeder = Feeder {
            start,
            feed: Arc::clone(&feed),
            frames: 0,
            base: None,
            target: None,
            sent_at: Instant::now(),
            sent_chain: Vec::new(),
        };
        let mut woken = || {
            let mut events = mio::Events::with_capacity(1);
            poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            !events.is_empty()
        };
        for (version, run, wakes) in [(3, primary.run, false), (5, RunId([7; 20]), true)] {
            feeder.settles(Position { run, version: 1 }, version);
            assert_eq!((feed.found(), woken()), (if wakes { version } else { 0 }, wakes));
        }
    }
}

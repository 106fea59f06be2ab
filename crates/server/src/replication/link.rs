//! The link of a replica to its primary: a thread that reads the stream.
//!
//! Steps
//!   1. connect, give the password, ask for the stream from where the replica is
//!   2. frames are verified and gathered into patches: a transfer of at most [`PATCH_SIZE`] bytes
//!      is one patch; a larger one becomes several, and the keys are a mixture until the last
//!   3. the event loop applies each patch in one batch, with the origin that it leads to
//!   4. once a position is settled, it is acknowledged
//!
//! A link that is cut, silent, or wrong in any byte begins again at 1, with the origin that is
//! settled here. At most [`QUEUE_SIZE`] bytes of patches wait for the loop; the thread reads no
//! further meanwhile, so the primary waits.
//!
//! A patch that the loop could not apply breaks the link: the loop takes no further patch, reads
//! the origin that is settled, and hands it to the thread. The thread alone mends the link, after
//! it has dropped the patches that still wait.
//!
//! Invariants
//!   REPL-3  A patch and the origin that it leads to are in one batch.
//!   REPL-4  A patch is applied only to the origin that it was made from: the one that its stream
//!           began with, or the end of the patch before it. The patch names it, and the loop
//!           compares it with the origin of the keys. After a patch was lost none is applied until
//!           the stream has begun again.
//!   REPL-5  A position is acknowledged once it is settled here.
//!
//! Threads: one of the link's own; the event loop.

use super::frame::{self, Frame, Item, MALFORMED, PROTOCOL, Plan};
use super::position::{Position, ReplicaOrigin, RunId};
use super::wire::Wire;
use crate::tls::PrimaryTls;
use everbyte_media::museum::carried;
use mio::Waker;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of a patch above which it is applied though its transfer is not whole.
pub(crate) const PATCH_SIZE: usize = 4 << 20;
/// Bytes of patches that wait for the event loop at most, and one patch.
const QUEUE_SIZE: usize = 8 << 20;
/// Bytes of a frame at most: an entry of a stream, which one request brings
/// (`Options::input_size_max`), the keys around it, and more.
pub(super) const FRAME_SIZE_MAX: usize = (1 << 30) + (128 << 20);
/// How often the primary is sent something, and how long a read waits.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(1);
/// Bytes of memory for received bytes that stay with a link.
const INPUT_KEPT: usize = 1 << 20;
/// The wait after a failure.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Changes that are applied together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    /// The changes, in order.
    pub items: Vec<Item>,
    /// The source of the keys to which it may be applied (REPL-4).
    pub from: ReplicaOrigin,
    /// The source of the keys then.
    pub origin: ReplicaOrigin,
}

/// The state of a link, in the words of ROLE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// Not connected.
    #[default]
    Connect,
    /// Connected, and asking.
    Handshake,
    /// A whole copy, or a difference in several patches, is under way.
    Sync,
    /// The stream is read.
    Connected,
}

impl LinkState {
    /// Redis's word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LinkState::Connect => "connect",
            LinkState::Handshake => "connecting",
            LinkState::Sync => "sync",
            LinkState::Connected => "connected",
        }
    }
}

/// A primary and the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub host: String,
    pub port: u16,
    pub user: Option<String>,
    pub password: Option<Vec<u8>>,
    /// The port on which this server listens.
    pub own_port: u16,
    /// TLS of the connection; `None`: plain TCP.
    pub tls: Option<PrimaryTls>,
    /// A link over which nothing came for so long is cut.
    pub timeout: Duration,
    /// Whether the primary is to become one by this request: it is a replica until now.
    pub takes_over: bool,
}

/// See the head of this file.
pub(crate) struct PrimaryLink {
    shared: Arc<LinkShared>,
    thread: Option<JoinHandle<()>>,
}

struct LinkShared {
    target: Target,
    /// The next request asks the primary to become one. The first greeting clears it.
    takes_over: AtomicBool,
    /// This server's run.
    run: RunId,
    /// The runs of the servers above, for the feeds of this one.
    above: Arc<Mutex<Vec<RunId>>>,
    waker: Option<Arc<Waker>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    state: LinkState,
    wire: Option<Arc<Wire>>,
    patches: VecDeque<Patch>,
    size: usize,
    /// The origins to which the patches lead that the loop has taken and not yet settled or lost.
    taken: VecDeque<ReplicaOrigin>,
    /// A patch was lost: the loop takes none. The thread clears it, with no patch in the queue.
    broken: bool,
    /// The origin from which a broken link begins again, once the loop has read it.
    restart: Option<ReplicaOrigin>,
    /// The source of the keys that are settled here.
    settled: Option<ReplicaOrigin>,
    stop: bool,
    figures: LinkFigures,
}

/// Facts for INFO.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkFigures {
    /// When bytes of the primary last arrived.
    pub received_at: Option<Instant>,
    /// Why the link was cut last.
    pub error: String,
    /// How the primary last answered.
    pub plan: Option<Plan>,
    /// Streams that began with a whole copy.
    pub whole: u64,
    /// Of these, because the replica had what its primary had lost.
    pub diverged: u64,
    /// Streams that went on.
    pub partial: u64,
    /// Bytes received.
    pub bytes: u64,
}

impl PrimaryLink {
    /// Starts the thread; the keys of this server come from `origin`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(
        target: Target,
        origin: ReplicaOrigin,
        run: RunId,
        above: Arc<Mutex<Vec<RunId>>>,
        waker: Option<Arc<Waker>>,
    ) -> io::Result<PrimaryLink> {
        let state = Mutex::new(State { settled: Some(origin), ..State::default() });
        let takes_over = AtomicBool::new(target.takes_over);
        let shared = Arc::new(LinkShared { target, takes_over, run, above, waker, state, changed: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        let run_link = carried(move || of_thread.run());
        let thread = Some(std::thread::Builder::new().name("everbyte-link".into()).spawn(run_link)?);
        Ok(PrimaryLink { shared, thread })
    }

    /// The next patch to be applied.
    pub(crate) fn take(&self) -> Option<Patch> {
        let mut state = self.shared.state.lock();
        if state.broken {
            return None;
        }
        let patch = state.patches.pop_front()?;
        state.size -= size_of_items(&patch.items);
        state.taken.push_back(patch.origin.clone());
        drop(state);
        self.shared.changed.notify_one();
        Some(patch)
    }

    /// Whether a patch waits.
    pub(crate) fn has_patch(&self) -> bool {
        let state = self.shared.state.lock();
        !state.broken && !state.patches.is_empty()
    }

    /// A patch that was taken is settled.
    pub(crate) fn settled(&self, origin: ReplicaOrigin) {
        let mut state = self.shared.state.lock();
        if state.taken.front() != Some(&origin) {
            return; // a patch of the link before this one
        }
        state.taken.pop_front();
        state.settled = Some(origin);
        state.acknowledge();
        drop(state);
        self.shared.changed.notify_one();
    }

    /// A patch that was taken has not happened (REPL-4). The thread waits for
    /// [`PrimaryLink::begin_again`].
    pub(crate) fn lost(&self, why: &str) {
        let mut state = self.shared.state.lock();
        (state.broken, state.restart) = (true, None);
        state.figures.error = why.into();
        state.cut();
        drop(state);
        self.shared.changed.notify_one();
    }

    /// The stream of a broken link begins again, from the origin of the keys that are settled here.
    /// No patch that was taken is on its way to the store.
    pub(crate) fn begin_again(&self, origin: ReplicaOrigin) {
        let mut state = self.shared.state.lock();
        if state.broken {
            state.restart = Some(origin);
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Whether the primary was to become one by this link's request, and has answered.
    pub(crate) fn took_over(&self) -> bool {
        self.shared.target.takes_over && !self.shared.takes_over.load(Relaxed)
    }

    /// Its state and its figures.
    pub(crate) fn figures(&self) -> (LinkState, LinkFigures) {
        let state = self.shared.state.lock();
        (state.state, state.figures.clone())
    }
}

impl Drop for PrimaryLink {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state.lock();
            state.stop = true;
            state.cut();
        }
        self.shared.changed.notify_all();
        // The thread may be resolving a name: it ends by itself, and is not waited for.
        drop(self.thread.take());
    }
}

fn size_of_items(items: &[Item]) -> usize {
    items.iter().map(Item::size).sum()
}

impl State {
    /// Ends the connection.
    fn cut(&mut self) {
        if let Some(wire) = &self.wire {
            wire.cut();
        }
    }

    /// Tells the primary what is settled, if it is a position (REPL-5). A position that the socket
    /// does not take at once is sent with the next heartbeat.
    fn acknowledge(&mut self) {
        let (Some(ReplicaOrigin::At(position)), Some(wire)) = (&self.settled, &self.wire) else { return };
        if matches!(self.state, LinkState::Connect | LinkState::Handshake) {
            return; // there is no stream yet
        }
        let origin = ReplicaOrigin::At(*position).bytes();
        if wire.try_send(&request(&[b"EVERBYTE.ACK", &origin])).is_err() {
            self.cut();
        }
    }
}

/// A request as an array of byte strings.
fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// The end of a connection.
enum End {
    /// The link is given up.
    Stopped,
    /// For this reason.
    Cut(String),
}

impl<T: std::fmt::Display> From<T> for End {
    fn from(error: T) -> End {
        End::Cut(error.to_string())
    }
}

impl LinkShared {
    /// The thread: one connection after another.
    fn run(&self) {
        loop {
            let end = self.connection();
            let mut state = self.state.lock();
            state.wire = None;
            state.state = LinkState::Connect;
            if let End::Cut(why) = end
                && !state.broken
            {
                state.figures.error = why;
            }
            if !state.stop {
                self.changed.wait_for(&mut state, RETRY_AFTER);
            }
            // Patches that the loop has not taken are sent again; those that it has are waited for.
            (state.patches, state.size) = (VecDeque::new(), 0);
            while !state.stop && if state.broken { state.restart.is_none() } else { !state.taken.is_empty() } {
                self.changed.wait(&mut state);
            }
            if state.stop {
                return;
            }
            if let Some(origin) = state.restart.take() {
                // The loop has taken nothing since the loss: the link was broken until here.
                (state.settled, state.broken) = (Some(origin), false);
                state.taken.clear();
            }
        }
    }

    fn enter(&self, next: LinkState) -> Result<MutexGuard<'_, State>, End> {
        let mut state = self.state.lock();
        if state.stop {
            return Err(End::Stopped);
        }
        if state.broken {
            return Err(End::Cut(state.figures.error.clone()));
        }
        state.state = next;
        Ok(state)
    }

    /// Reads the stream of one connection until it ends.
    fn connection(&self) -> End {
        match self.stream() {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    fn stream(&self) -> Result<std::convert::Infallible, End> {
        let target = &self.target;
        drop(self.enter(LinkState::Connect)?);
        let mut last = End::Cut(format!("{} has no address", target.host));
        let mut found = None;
        for address in (target.host.as_str(), target.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, target.timeout) {
                Ok(stream) => found = found.or(Some(stream)),
                Err(error) => last = error.into(),
            }
            if found.is_some() {
                break;
            }
        }
        let Some(stream) = found else { return Err(last) };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(HEARTBEAT_EVERY))?;
        stream.set_write_timeout(Some(target.timeout))?;
        let wire = Arc::new(Wire::new(stream, target.tls.as_ref(), &target.host)?);
        let origin = {
            let mut state = self.enter(LinkState::Handshake)?;
            state.wire = Some(Arc::clone(&wire));
            state.figures.received_at = Some(Instant::now());
            state.settled.clone().unwrap_or(ReplicaOrigin::Own)
        };
        let mut reader = FrameReader { wire, input: Vec::new(), start: 0 };
        if let Some(password) = &target.password {
            let user = target.user.as_deref().map(str::as_bytes);
            let words: Vec<&[u8]> = [b"AUTH".as_slice()].into_iter().chain(user).chain([&password[..]]).collect();
            reader.wire.request(&request(&words))?;
            let line = self.read(&mut reader, FrameReader::line)?;
            if line != b"+OK" {
                return Err(End::Cut(format!("the primary refuses the password: {}", String::from_utf8_lossy(&line))));
            }
        }
        let (protocol, port) = (PROTOCOL.to_string(), target.own_port.to_string());
        let word: &[u8] = if self.takes_over.load(Relaxed) { b"FAILOVER" } else { b"REPLICA" };
        let bytes = origin.bytes();
        let asked: [&[u8]; 5] = [b"EVERBYTE.REPLICATE", protocol.as_bytes(), port.as_bytes(), word, &bytes];
        reader.wire.request(&request(&asked))?;
        let mut assembly = Assembly::new(origin, PATCH_SIZE);
        let mut signed = Instant::now();
        loop {
            let frame = self.read(&mut reader, FrameReader::frame)?;
            let before = assembly.frames;
            let patch = assembly.take(&frame).map_err(|why| End::Cut(why.into()))?;
            self.note(&assembly, before)?;
            if let Some(patch) = patch {
                self.hand_over(patch)?;
            }
            if signed.elapsed() >= HEARTBEAT_EVERY {
                signed = Instant::now();
                self.state.lock().acknowledge();
            }
        }
    }

    /// Reads something, and sends heartbeats meanwhile.
    fn read<T>(
        &self,
        reader: &mut FrameReader,
        what: fn(&mut FrameReader) -> Result<Option<T>, String>,
    ) -> Result<T, End> {
        loop {
            if let Some(found) = what(reader)? {
                return Ok(found);
            }
            match reader.fill() {
                Ok(0) => return Err(End::Cut("the primary has closed the connection".into())),
                Ok(count) => {
                    let mut state = self.state.lock();
                    state.figures.received_at = Some(Instant::now());
                    state.figures.bytes += count as u64;
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    let mut state = self.state.lock();
                    if state.stop {
                        return Err(End::Stopped);
                    }
                    if state.figures.received_at.is_some_and(|time| time.elapsed() > self.target.timeout) {
                        return Err(End::Cut("the primary is silent".into()));
                    }
                    state.acknowledge();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Keeps facts of a frame, and refuses a chain that leads back here.
    fn note(&self, assembly: &Assembly, before: u64) -> Result<(), End> {
        if assembly.chain.contains(&self.run) {
            return Err(End::Cut("the primary is a replica of this server, or this server itself".into()));
        }
        let state = if assembly.is_under_way() { LinkState::Sync } else { LinkState::Connected };
        // A link that was given up changes nothing any more.
        let mut state = self.enter(state)?;
        self.above.lock().clone_from(&assembly.chain);
        if before == 0 {
            self.takes_over.store(false, Relaxed);
            state.figures.error = String::new();
            state.figures.plan = assembly.plan;
            let plan = assembly.plan.unwrap_or(Plan::Difference);
            let figure = if plan.is_whole() { &mut state.figures.whole } else { &mut state.figures.partial };
            *figure += 1;
            state.figures.diverged += u64::from(plan == Plan::WholeDiverged);
        }
        Ok(())
    }

    fn hand_over(&self, patch: Patch) -> Result<(), End> {
        let mut state = self.state.lock();
        while state.size > QUEUE_SIZE && !state.stop && !state.broken {
            self.changed.wait(&mut state);
        }
        if state.stop {
            return Err(End::Stopped);
        }
        if state.broken {
            return Err(End::Cut(state.figures.error.clone()));
        }
        state.size += size_of_items(&patch.items);
        state.patches.push_back(patch);
        drop(state);
        if let Some(waker) = &self.waker {
            let _ = waker.wake(); // it fails only when the loop is gone
        }
        Ok(())
    }
}

/// Bytes of a connection, and the frames among them.
struct FrameReader {
    wire: Arc<Wire>,
    input: Vec<u8>,
    start: usize,
}

impl FrameReader {
    fn fill(&mut self) -> io::Result<usize> {
        if self.start > 0 {
            self.input.drain(..self.start);
            self.start = 0;
            if self.input.capacity() > INPUT_KEPT {
                self.input.shrink_to(INPUT_KEPT); // a large frame has passed
            }
        }
        let mut part = [0; 64 << 10];
        let count = self.wire.read(&mut part)?;
        self.input.extend_from_slice(&part[..count]);
        Ok(count)
    }

    fn line(&mut self) -> Result<Option<Vec<u8>>, String> {
        let rest = &self.input[self.start..];
        let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else {
            return if rest.len() > 4096 { Err(MALFORMED.into()) } else { Ok(None) };
        };
        let line = rest[..end].to_vec();
        self.start += end + 2;
        Ok(Some(line))
    }

    fn frame(&mut self) -> Result<Option<Vec<u8>>, String> {
        let rest = &self.input[self.start..];
        let Some((range, used)) = frame::find(rest, FRAME_SIZE_MAX)? else { return Ok(None) };
        let frame = rest[range].to_vec();
        self.start += used;
        Ok(Some(frame))
    }
}

/// Frames that become patches.
pub(crate) struct Assembly {
    frames: u64,
    plan: Option<Plan>,
    chain: Vec<RunId>,
    /// The source of the keys once all patches are applied.
    tail: ReplicaOrigin,
    /// The transfer under way: its target, and what it began with.
    transfer: Option<(Position, Option<Position>)>,
    items: Vec<Item>,
    size: usize,
    /// Bytes of a patch above which it is applied though its transfer is not whole.
    patch_size: usize,
}

impl Assembly {
    /// At the beginning of a stream, for keys of this origin.
    pub(crate) fn new(origin: ReplicaOrigin, patch_size: usize) -> Assembly {
        let (items, chain) = (Vec::new(), Vec::new());
        Assembly { frames: 0, plan: None, chain, tail: origin, transfer: None, items, size: 0, patch_size }
    }

    fn is_under_way(&self) -> bool {
        self.transfer.is_some() && (self.tail.is_between() || self.plan.is_some_and(Plan::is_whole))
    }

    /// Takes the next frame; the patches that are whole with it.
    ///
    /// # Errors
    /// It is damaged, or does not follow on what came before.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Option<Patch>, &'static str> {
        let frame = Frame::parse(bytes, self.frames)?;
        self.frames += 1;
        match frame {
            Frame::Greeting { protocol, plan, chain } if self.frames == 1 => {
                if protocol != PROTOCOL {
                    return Err("the primary speaks another version of the stream");
                }
                (self.plan, self.chain) = (Some(plan), chain);
                Ok(None)
            }
            _ if self.plan.is_none() => Err("the primary does not greet"),
            Frame::Begin { target, base, cursor } if self.transfer.is_none() => {
                // REPL-4
                let follows = match (&self.tail, &base) {
                    (ReplicaOrigin::Between { target: to, base: from, cursor: at }, _) if !cursor.is_empty() => {
                        (to, from, at) == (&target, &base, &cursor)
                    }
                    (ReplicaOrigin::At(position), Some(base)) => position == base && cursor.is_empty(),
                    (_, None) => cursor.is_empty(),
                    _ => false,
                };
                if !follows {
                    return Err("the primary sends the difference from another version than the one that is here");
                }
                self.transfer = Some((target, base));
                Ok(None)
            }
            Frame::Part { mut items, cursor } => {
                let Some((target, base)) = self.transfer else { return Err(MALFORMED) };
                self.size += size_of_items(&items);
                self.items.append(&mut items);
                if self.size < self.patch_size {
                    return Ok(None);
                }
                Ok(Some(self.patch(ReplicaOrigin::Between { target, base, cursor })))
            }
            Frame::End => {
                let Some((target, _)) = self.transfer.take() else { return Err(MALFORMED) };
                Ok(Some(self.patch(ReplicaOrigin::At(target))))
            }
            Frame::News { chain } => {
                self.chain = chain;
                Ok(None)
            }
            Frame::Greeting { .. } | Frame::Begin { .. } => Err(MALFORMED),
        }
    }

    fn patch(&mut self, origin: ReplicaOrigin) -> Patch {
        self.size = 0;
        let from = std::mem::replace(&mut self.tail, origin.clone());
        Patch { items: std::mem::take(&mut self.items), from, origin }
    }
}

/// The frame at the front of received bytes, and what follows it; for scripts.
pub(super) fn find_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (range, used) = frame::find(bytes, FRAME_SIZE_MAX).ok()??;
    Some((&bytes[range], &bytes[used..]))
}

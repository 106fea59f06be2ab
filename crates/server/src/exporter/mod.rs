//! Figures for Prometheus: a thread that speaks HTTP and asks the event loop for numbers.
//!
//! Steps of a scrape
//!   1. the thread reads the request (`http.rs`) and asks: it raises a number, and wakes the loop
//!   2. the loop sees the number at the beginning of its next iteration, copies its figures
//!      (`figures.rs`) and sends them by a channel; it never waits for the thread
//!   3. the thread writes them as text (`text.rs`), with what the store and the system say, and
//!      sends it
//!
//! The thread asks at most ten times a second, and one answer serves all connections that wait. It
//! holds few connections, each for a bounded time and with a bounded request; further ones wait in
//! the system's queue. A connection carries one request.
//!
//! Invariants
//!   SCRAPE-1  An answer was gathered after the request that it is sent to had come.
//!
//! Threads: one serves all connections; the event loop owns the [`FigureDesk`].
//! Design: docs/design/server-metrics.md

mod families;
mod figures;
mod http;
mod text;

pub(crate) use figures::{DatabaseFigures, Figures};
pub(crate) use http::check_request;

use crate::error::{Error, Result};
use crate::sockets::listen_on;
use everbyte_kv::Kv;
use http::{Parsed, REQUEST_MAX, Status, parse, response};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LISTENER: Token = Token(usize::MAX - 1);
const WAKER: Token = Token(usize::MAX - 2);
/// Connections at a time.
const PEERS_MAX: usize = 16;
/// A request that is not whole after this time is refused.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// The wait for the event loop: a command that runs for longer is a long one.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// The time for which a peer may take to read its response, and then to close.
const RESPONSE_TIME: Duration = Duration::from_secs(5);
/// The least time between two questions.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// How often deadlines are looked at while there are connections.
const LOOK: Duration = Duration::from_millis(50);

/// The question: how often the loop was asked.
struct Question {
    asked: AtomicU64,
    stop: AtomicBool,
    /// Wakes the thread.
    waker: Waker,
}

/// The event loop's side.
pub(crate) struct FigureDesk {
    question: Arc<Question>,
    answers: Sender<(u64, Box<Figures>)>,
    answered: u64,
}

impl FigureDesk {
    /// The number of the newest question, if it is unanswered.
    pub(crate) fn asked(&self) -> Option<u64> {
        // Pairs with the Release in `ask`: the request came before (SCRAPE-1).
        let asked = self.question.asked.load(Ordering::Acquire);
        (asked != self.answered).then_some(asked)
    }

    /// Answers a question and all before it.
    pub(crate) fn answer(&mut self, number: u64, figures: Figures) {
        self.answered = number;
        // Both fail only when the thread has ended.
        let _ = self.answers.send((number, Box::new(figures)));
        let _ = self.question.waker.wake();
    }
}

/// The thread, until it is dropped.
pub(crate) struct Exporter {
    /// The address on which it listens.
    pub address: SocketAddr,
    question: Arc<Question>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Listens on the first of these addresses that the system grants, in a thread. Figures are
    /// asked for by waking the loop by `waker`.
    ///
    /// # Errors
    /// [`Error::Listen`], [`Error::System`].
    pub(crate) fn start(
        given: &str,
        addresses: &[SocketAddr],
        kv: Kv,
        waker: Arc<Waker>,
    ) -> Result<(Exporter, FigureDesk)> {
        let listen = |source| Error::Listen { address: given.into(), source };
        let system = |action| move |source| Error::System { action, source };
        let mut listener = listen_on(addresses).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let poll = Poll::new().map_err(system("make a poll"))?;
        let registry = poll.registry();
        registry.register(&mut listener, LISTENER, Interest::READABLE).map_err(system("poll the listener"))?;
        let own = Waker::new(registry, WAKER).map_err(system("make a waker"))?;
        let question = Arc::new(Question { asked: AtomicU64::new(0), stop: AtomicBool::new(false), waker: own });
        let (answers, receiver) = channel();
        let scrapes = Scrapes {
            listener,
            poll,
            peers: (0..PEERS_MAX).map(|_| None).collect(),
            question: Arc::clone(&question),
            answers: receiver,
            kv,
            loop_waker: waker,
            accept: true,
            ask_next: Instant::now(),
        };
        let thread = std::thread::Builder::new().name("everbyte-metrics".into());
        let thread = thread.spawn(move || scrapes.run()).map_err(system("start the thread of figures"))?;
        let desk = FigureDesk { question: Arc::clone(&question), answers, answered: 0 };
        Ok((Exporter { address, question, thread: Some(thread) }, desk))
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.question.stop.store(true, Ordering::Release); // pairs with the Acquire in `run`
        let _ = self.question.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of a connection.
enum State {
    /// The request as far as it has come.
    Reading(Vec<u8>),
    /// Wants figures, or their head alone; the number of its question, once there is one.
    Waiting { head: bool, number: Option<u64> },
    /// The response, and how much of it has left.
    Writing(Vec<u8>, usize),
    /// All has left. Bytes that still come are read and dropped, or the system would take the
    /// response back.
    Closing,
}

/// A connection.
struct Peer {
    stream: TcpStream,
    /// Whether it comes from this machine.
    local: bool,
    state: State,
    /// The end of its state.
    deadline: Instant,
}

impl Peer {
    fn respond(&mut self, status: Status, figures: &str, head: bool) {
        self.state = State::Writing(response(status, figures, head), 0);
        self.deadline = Instant::now() + RESPONSE_TIME;
    }

    /// Goes on as far as the socket allows; `false` when the connection is over.
    fn advance(&mut self) -> bool {
        loop {
            let more = match &mut self.state {
                State::Reading(_) => self.read(),
                State::Waiting { .. } => return true,
                State::Writing(..) => self.write(),
                State::Closing => self.drain(),
            };
            match more {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    fn read(&mut self) -> io::Result<bool> {
        let State::Reading(request) = &mut self.state else { return Ok(true) };
        let mut bytes = [0; 1024];
        let room = (REQUEST_MAX - request.len()).min(bytes.len());
        let count = self.stream.read(&mut bytes[..room])?;
        if count == 0 {
            return Ok(false);
        }
        request.extend_from_slice(&bytes[..count]);
        match parse(request) {
            Parsed::Partial => {}
            Parsed::Figures { head } => {
                self.state = State::Waiting { head, number: None };
                self.deadline = Instant::now() + ANSWER_TIME;
            }
            Parsed::Refused(status) => {
                let head = request.starts_with(b"HEAD ");
                self.respond(status, "", head);
            }
        }
        Ok(true)
    }

    fn write(&mut self) -> io::Result<bool> {
        let State::Writing(bytes, at) = &mut self.state else { return Ok(true) };
        let count = self.stream.write(&bytes[*at..])?;
        *at += count;
        if *at == bytes.len() {
            self.stream.shutdown(Shutdown::Write)?;
            self.state = State::Closing;
        }
        Ok(count > 0)
    }

    fn drain(&mut self) -> io::Result<bool> {
        Ok(self.stream.read(&mut [0; 4096])? > 0)
    }

    /// The time of its state has passed; `false` when the connection is over.
    fn late(&mut self) -> bool {
        match self.state {
            State::Reading(_) => self.respond(Status::Timeout, "", false),
            State::Waiting { head, .. } => self.respond(Status::Unavailable, "", head),
            State::Writing(..) | State::Closing => return false,
        }
        self.advance()
    }
}

/// Does something with a connection, which it may end.
fn visit(peers: &mut [Option<Peer>], slot: usize, does: impl FnOnce(&mut Peer) -> bool) {
    let Some(place) = peers.get_mut(slot) else { return };
    if place.as_mut().is_some_and(|peer| !does(peer)) {
        *place = None;
    }
}

/// The thread's side.
struct Scrapes {
    listener: TcpListener,
    poll: Poll,
    peers: Vec<Option<Peer>>,
    question: Arc<Question>,
    answers: Receiver<(u64, Box<Figures>)>,
    kv: Kv,
    loop_waker: Arc<Waker>,
    /// Whether connections may be waiting to be accepted.
    accept: bool,
    /// When the loop may be asked again.
    ask_next: Instant,
}

impl Scrapes {
    fn run(mut self) {
        let mut events = Events::with_capacity(64);
        loop {
            let busy = self.accept || self.peers.iter().any(Option::is_some);
            match self.poll.poll(&mut events, busy.then_some(LOOK)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Without a poll there are no figures; clients are served all the same.
                Err(error) => return eprintln!("everbyte: the figures of --metrics are told no more: {error}"),
                Ok(()) => {}
            }
            if self.question.stop.load(Ordering::Acquire) {
                return;
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept = true,
                    WAKER => {}
                    Token(slot) => visit(&mut self.peers, slot, Peer::advance),
                }
            }
            self.take_answers();
            self.end_late();
            self.accept();
            self.ask();
        }
    }

    fn accept(&mut self) {
        while self.accept {
            let Some(slot) = self.peers.iter().position(Option::is_none) else { return };
            let (mut stream, address) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => {
                    // For want of descriptors: tried again a little later.
                    self.accept = error.kind() != io::ErrorKind::WouldBlock;
                    return;
                }
            };
            let interest = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().register(&mut stream, Token(slot), interest).is_err() {
                continue;
            }
            self.peers[slot] = Some(Peer {
                stream,
                local: address.ip().to_canonical().is_loopback(),
                state: State::Reading(Vec::new()),
                deadline: Instant::now() + REQUEST_TIME,
            });
            visit(&mut self.peers, slot, Peer::advance);
        }
    }

    /// Asks the loop for those that wait and have not asked yet.
    fn ask(&mut self) {
        let now = Instant::now();
        let waiting = self.peers.iter_mut().flatten().filter_map(|peer| match &mut peer.state {
            State::Waiting { number, .. } if number.is_none() => Some(number),
            _ => None,
        });
        let waiting: Vec<&mut Option<u64>> = waiting.collect();
        if waiting.is_empty() || now < self.ask_next {
            return;
        }
        self.ask_next = now + ASK_EVERY;
        let asked = self.question.asked.fetch_add(1, Ordering::Release) + 1; // pairs with `FigureDesk::asked`
        waiting.into_iter().for_each(|number| *number = Some(asked));
        let _ = self.loop_waker.wake();
    }

    /// Responds to those whose question was answered.
    fn take_answers(&mut self) {
        while let Ok((answered, figures)) = self.answers.try_recv() {
            let mut text = None;
            for slot in 0..self.peers.len() {
                visit(&mut self.peers, slot, |peer| {
                    let State::Waiting { head, number: Some(number) } = peer.state else { return true };
                    if number > answered {
                        return true;
                    }
                    if figures.protected && !peer.local {
                        peer.respond(Status::Forbidden, "", head);
                    } else {
                        let text = text.get_or_insert_with(|| text::text(&figures, &self.kv));
                        peer.respond(Status::Ok, text, head);
                    }
                    peer.advance()
                });
            }
        }
    }

    fn end_late(&mut self) {
        let now = Instant::now();
        for slot in 0..self.peers.len() {
            visit(&mut self.peers, slot, |peer| now < peer.deadline || peer.late());
        }
    }
}

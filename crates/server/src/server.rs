//! The server: a listening socket, a poll, and a loop of iterations.
//!
//! Steps of the loop
//!   1. wait for readiness, or not at all while connections are queued
//!   2. accept; queue connections that became readable or writable
//!   3. one iteration (`iteration.rs`): read, execute under one batch, settle, then reply
//!
//! Threads: one runs the loop; further ones answer plain reads, if they are asked for (`loops`); if
//! settling waits for a disk, another one settles (`settler.rs`); another one tells figures, if
//! these are asked for (`exporter`); a [`Handle`] may stop the loop from any thread.

use crate::clients::Client;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::exporter::Exporter;
use crate::iteration::Iterations;
use crate::keyspace::Tables;
use crate::loops::Loops;
use crate::options::Options;
use crate::server_state::ServerState;
use crate::sockets::{UnixSocket, keep_alive, listen_on};
use crate::stream::{Address, Stream};
use crate::supervisor;
use crate::tls::{self, Handshakes, TlsStream};
use everbyte_kv::Kv;
use mio::event::Event;
use mio::net::{TcpListener, TcpStream, UnixStream};
use mio::{Events, Interest, Poll, Token, Waker};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::ServerConfig;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LISTENER: Token = Token(usize::MAX - 1);
const WAKER: Token = Token(usize::MAX - 2);
const SIGNAL: Token = Token(usize::MAX - 3);
const TLS: Token = Token(usize::MAX - 4);
const UNIX: Token = Token(usize::MAX - 5);
const RELOAD: Token = Token(usize::MAX - 6);
/// Connections accepted between two iterations.
const ACCEPTED_MAX: usize = 256;
/// The refusal of another machine's client while no password is set.
const DENIED: &[u8] =
    b"-DENIED Everbyte is running in protected mode because no password is set for the default user. In this mode \
    connections are only accepted from the loopback interface.\r\n";
const TICK: Duration = Duration::from_secs(1);

/// Serves one table of a store to clients that speak the Redis protocol.
///
/// An acknowledged write is settled: a reply leaves only after everything it tells of would survive
/// a crash, as far as the store's durability promises.
pub struct Server {
    listener: TcpListener,
    tls: Option<TcpListener>,
    unix: Option<UnixSocket>,
    handshakes: Handshakes,
    poll: Poll,
    iterations: Iterations,
    signals: Option<UnixStream>,
    reloads: Option<UnixStream>,
    handle: Handle,
    exporter: Option<Exporter>,
    /// Whether connections may be waiting to be accepted.
    accept_pending: bool,
    /// Whether accepting failed for want of something that a leaving client gives back: tried again
    /// at the next tick.
    accept_again: bool,
}

/// Stops a running [`Server`].
#[derive(Clone)]
pub struct Handle {
    waker: Arc<Waker>,
    stop: Arc<AtomicBool>,
}

impl Handle {
    /// Makes `run` return after the iteration in progress. Idempotent; needs no reply.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release); // pairs with the Acquire in `run`
        // A waker fails only when the loop is gone, and then there is nothing to stop.
        let _ = self.waker.wake();
    }
}

impl Server {
    /// Binds the address. Connections wait in the system's queue until [`run`](Server::run).
    ///
    /// # Errors
    /// [`Error::Exposed`] when other machines could reach the address and [`Options::open`] is not
    /// set. [`Error::Open`] and [`Error::Layout`] when the server's own tables cannot be opened.
    /// [`Error::Users`] and [`Error::Tls`] when a file that the options name cannot be used.
    /// [`Error::Listen`] names the address and what to do; [`Error::System`] when the poll
    /// cannot be made, or a thread cannot be started.
    pub fn bind(kv: Kv, options: Options) -> Result<Server> {
        let listen = |source| Error::Listen { address: options.address.clone(), source };
        let system = |action| move |source| Error::System { action, source };
        let mut listener = listen_on(&options.addresses()?).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let poll = Poll::new().map_err(system("make a poll"))?;
        let registry = poll.registry();
        registry.register(&mut listener, LISTENER, Interest::READABLE).map_err(system("poll the listener"))?;
        let mut tls = None;
        if let Some(given) = &options.tls {
            let listen = |source| Error::Listen { address: given.address.clone(), source };
            let mut socket = listen_on(&options.resolve(&given.address)?).map_err(listen)?;
            registry.register(&mut socket, TLS, Interest::READABLE).map_err(system("poll the listener"))?;
            tls = Some(socket);
        }
        let mut unix = None;
        if let Some(path) = &options.unix_socket {
            let mut socket = UnixSocket::listen(path, options.unix_mode)?;
            registry.register(&mut socket.listener, UNIX, Interest::READABLE).map_err(system("poll the listener"))?;
            unix = Some(socket);
        }
        let waker = Arc::new(Waker::new(registry, WAKER).map_err(system("make a waker"))?);
        let (mut signals, mut reloads) = (None, None);
        if options.signals {
            let ends: &[i32] = match options.ends_at_hangup && options.tls.is_none() {
                true => &[SIGTERM, SIGINT, SIGHUP],
                false => &[SIGTERM, SIGINT],
            };
            let mut receiver = signal_socket(ends).map_err(system("wait for signals"))?;
            registry.register(&mut receiver, SIGNAL, Interest::READABLE).map_err(system("poll signals"))?;
            signals = Some(receiver);
        }
        if options.signals && options.tls.is_some() {
            let mut receiver = signal_socket(&[SIGHUP]).map_err(system("wait for signals"))?;
            registry.register(&mut receiver, RELOAD, Interest::READABLE).map_err(system("poll signals"))?;
            reloads = Some(receiver);
        }
        raise_descriptors(options.clients_max);
        let mut shared = ServerState::new(options, address, Tables::open(kv)?);
        shared.tls_address = tls.as_ref().and_then(|listener| listener.local_addr().ok());
        shared.load_users()?;
        shared.load_certificates()?;
        shared.load_replication()?;
        let mut exporter = None;
        let mut iterations = Iterations::new(shared, Arc::clone(&waker));
        let shared = &iterations.shared;
        if let Some(given) = &shared.options.metrics {
            let addresses = shared.options.resolve(given)?;
            let (thread, desk) = Exporter::start(given, &addresses, shared.kv.clone(), Arc::clone(&waker))?;
            (exporter, iterations.desk) = (Some(thread), Some(desk));
        }
        if let Some(loops) = Loops::start(&iterations.shared, poll.registry(), &waker, WAKER)? {
            iterations.lend_to(loops);
        }
        let handle = Handle { waker, stop: Arc::new(AtomicBool::new(false)) };
        Ok(Server {
            listener,
            tls,
            unix,
            handshakes: Handshakes::default(),
            poll,
            iterations,
            signals,
            reloads,
            handle,
            exporter,
            accept_pending: false,
            accept_again: false,
        })
    }

    /// The address on which the server listens; the port is the real one when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.iterations.shared.address
    }

    /// The address on which the server speaks TLS.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// The address on which figures are told to Prometheus.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.exporter.as_ref().map(|exporter| exporter.address)
    }

    /// A handle for stopping the server from another thread.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until SHUTDOWN, a signal, or [`Handle::stop`]. Everything acknowledged is settled on
    /// return, also on error; closing the store is the caller's.
    ///
    /// # Errors
    /// [`Error::Store`] when the store could not settle: its clients have received the error, and
    /// no later command was accepted.
    pub fn run(mut self) -> Result<()> {
        let mut events = Events::with_capacity(1024);
        let options = &self.iterations.shared.options;
        let environment = || std::env::var_os("NOTIFY_SOCKET").filter(|_| options.signals);
        let manager = options.supervisor.clone().or_else(environment);
        supervisor::tell(manager.as_deref(), supervisor::READY);
        loop {
            let gathers = self.iterations.gathers();
            let sleeps = !self.accept_pending && !gathers && self.iterations.may_sleep();
            let polled = self
                .poll
                .poll(&mut events, Some(if sleeps { self.iterations.sleep_max(TICK) } else { Duration::ZERO }));
            self.iterations.after_sleep();
            if gathers && events.is_empty() && self.iterations.idle() {
                self.iterations.send_off(true);
            }
            match polled {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other.map_err(|source| Error::System { action: "wait for connections", source })?,
            }
            let tick = self.iterations.begin(Instant::now());
            self.accept_pending |= tick && std::mem::take(&mut self.accept_again);
            if tick {
                let clients = &self.iterations.clients;
                for (slot, id) in
                    self.handshakes.late(self.iterations.shared.now, |slot, id| clients.is_greeted(slot, id))
                {
                    self.iterations.shared.metrics.connections_malformed += 1;
                    self.iterations.end(slot, id);
                }
            }
            for event in &events {
                self.dispatch(event);
            }
            if std::mem::take(&mut self.accept_pending) {
                self.accept();
            }
            let result = self.iterations.iteration();
            if result.is_err() || self.iterations.shared.stopping || self.handle.stop.load(Ordering::Acquire) {
                supervisor::tell(manager.as_deref(), supervisor::STOPPING);
                let result = result.and_then(|()| self.iterations.drain()).and_then(|()| self.iterations.intact());
                self.iterations.call_home();
                self.iterations.farewell();
                return result;
            }
        }
    }

    fn dispatch(&mut self, event: &Event) {
        match event.token() {
            LISTENER | TLS | UNIX => self.accept_pending = true,
            RELOAD => {
                let mut bytes = [0; 16];
                while self.reloads.as_mut().is_some_and(|reloads| matches!(reloads.read(&mut bytes), Ok(1..))) {}
                if let Err(error) = self.iterations.shared.load_certificates() {
                    eprintln!("everbyte: the certificates stay as they are: {error}");
                }
            }
            WAKER => {}
            SIGNAL => {
                let mut bytes = [0; 16];
                if let Some(signals) = &mut self.signals
                    && matches!(signals.read(&mut bytes), Ok(1..))
                {
                    self.iterations.shared.stopping = true;
                }
            }
            Token(slot) => {
                let readable = event.is_readable() || event.is_read_closed() || event.is_error();
                self.iterations.ready(slot, readable);
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED_MAX {
            match self.listener.accept() {
                Ok((stream, peer)) => self.welcome_tcp(stream, peer, None),
                Err(error) => {
                    // Out of descriptors or memory: waiting connections are tried again when a
                    // client leaves.
                    self.accept_again |= error.kind() != io::ErrorKind::WouldBlock;
                    self.accept_tls();
                    self.accept_unix();
                    return;
                }
            }
        }
        self.accept_tls();
        self.accept_unix();
        self.accept_pending = true;
    }

    /// Accepts a few connections of TLS, if few handshakes are under way.
    fn accept_tls(&mut self) {
        let Some(config) = self.iterations.shared.tls.clone() else { return };
        for _ in 0..tls::ACCEPTED_MAX {
            let clients = &self.iterations.clients;
            let Some(listener) = &self.tls else { return };
            if !self.handshakes.has_room(|slot, id| clients.is_greeted(slot, id)) {
                self.accept_again = true;
                return;
            }
            match listener.accept() {
                Ok((stream, peer)) => self.welcome_tcp(stream, peer, Some(Arc::clone(&config))),
                Err(error) => {
                    self.accept_again |= error.kind() != io::ErrorKind::WouldBlock;
                    return;
                }
            }
        }
        self.accept_pending = true;
    }

    fn accept_unix(&mut self) {
        for _ in 0..ACCEPTED_MAX {
            let Some(unix) = &self.unix else { return };
            match unix.listener.accept() {
                Ok((stream, _)) => {
                    let address = Address::Unix(Arc::clone(&unix.name));
                    self.welcome(stream.into(), address.clone(), address);
                }
                Err(error) => {
                    self.accept_again |= error.kind() != io::ErrorKind::WouldBlock;
                    return;
                }
            }
        }
        self.accept_pending = true;
    }

    fn welcome_tcp(&mut self, mut stream: TcpStream, peer: SocketAddr, config: Option<Arc<ServerConfig>>) {
        let shared = &self.iterations.shared;
        // The user `default` may have lost its password since the server started.
        if shared.users.is_open() && !shared.options.open && !peer.ip().to_canonical().is_loopback() {
            let _ = stream.write(DENIED);
            return;
        }
        // Both options are optional: a socket that refuses them still works.
        let _ = stream.set_nodelay(true);
        keep_alive(&stream, shared.options.keepalive);
        let local = stream.local_addr().unwrap_or(shared.address);
        match config {
            None => self.welcome(stream.into(), peer.into(), local.into()),
            Some(config) => {
                let (slot, id, now) = (self.iterations.clients.vacant(), shared.client_next, shared.now);
                if let Ok(stream) = TlsStream::new(stream, config) {
                    self.handshakes.add(slot, id, now);
                    self.welcome(Stream::Tls(Box::new(stream)), peer.into(), local.into());
                }
            }
        }
    }

    fn welcome(&mut self, mut stream: Stream, peer: Address, local: Address) {
        let shared = &mut self.iterations.shared;
        if self.iterations.clients.count() >= shared.options.clients_max {
            shared.metrics.connections_rejected += 1;
            // Best effort: the socket is new, so its buffer takes the line.
            let _ = stream.write(b"-ERR max number of clients reached\r\n");
            return;
        }
        let slot = self.iterations.clients.vacant();
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().register(&mut stream, Token(slot), interest).is_err() {
            return;
        }
        let mut client = Client::new(shared.client_next, peer, local, stream.as_raw_fd(), shared.now);
        client.authenticated = shared.users.is_open();
        shared.client_next += 1;
        shared.metrics.connections += 1;
        let connection = Connection::new(stream, client, shared.options.bulk_size_max);
        self.iterations.clients.insert(Box::new(connection));
        self.iterations.ready(slot, true);
    }
}

/// A socket that becomes readable at signals.
fn signal_socket(signals: &[i32]) -> io::Result<UnixStream> {
    let (sender, receiver) = std::os::unix::net::UnixStream::pair()?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, sender.try_clone()?)?;
    }
    receiver.set_nonblocking(true)?;
    Ok(UnixStream::from_std(receiver))
}

/// Lets the process hold a descriptor per client, as far as the system allows. Beyond that limit
/// accepting waits.
fn raise_descriptors(clients_max: usize) {
    let limit = getrlimit(Resource::Nofile);
    let want = clients_max as u64 + 64;
    if limit.current.is_some_and(|current| current < want) {
        let current = Some(limit.maximum.map_or(want, |maximum| maximum.min(want)));
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum });
    }
}

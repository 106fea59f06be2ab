//! [`Broker`]: answers programs over a socket.
//!
//! A connection brings one request and gets one answer, within some seconds, by a thread of its own; so many at a time. Who
//! asks is what the kernel says of the other end (SO_PEERCRED, SO_PEERGROUPS). Domain files are opened and their descriptors passed; their bytes
//! are not touched: what a program does to a file that it may write cannot hurt the broker.
//!
//! Threads: one accepts; one for each connection; one lock around the domains.

use crate::domains::Domains;
use crate::error::No;
use crate::wire::{self, LINES, MESSAGE, Request};
use crate::{Error, Result};
use everbyte_store::Caller;
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    sockopt,
};
use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Connections at a time; more wait.
const CONNECTIONS: usize = 64;
/// How long a program may take to say what it wants, or to hear the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a broker is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes that the domains of one user may grow to together; root has no quota.
    pub quota: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { quota: 1 << 40 }
    }
}

/// A running broker; it ends when it is dropped. What it has passed stays with whom it was passed to.
pub struct Broker {
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    socket: PathBuf,
    listening: OwnedFd,
    domains: Mutex<Domains>,
    ending: AtomicBool,
    connections: AtomicUsize,
}

impl Broker {
    /// Serves the domains of `dir` to whoever reaches `socket`, from threads of this process.
    ///
    /// # Errors
    /// As [`Domains::open`]; the socket cannot be made, or a broker answers there.
    pub fn start(dir: &Path, socket: &Path, options: Options) -> Result<Broker> {
        let domains = Domains::open(dir, options.quota)?;
        let io = |action| move |source: Errno| Error::Io { action, path: socket.into(), source: source.into() };
        let address = SocketAddrUnix::new(socket).map_err(io("name a socket"))?;
        let _ = std::fs::remove_file(socket); // of a broker that is no more: this one has the domains' lock
        let listening = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let listening = listening.map_err(io("make a socket"))?;
        net::bind(&listening, &address).map_err(io("bind a socket"))?;
        let open = std::fs::set_permissions(socket, PermissionsExt::from_mode(0o666)); // rights are checked behind it
        open.map_err(|source| Error::Io { action: "open to others", path: socket.into(), source })?;
        net::listen(&listening, CONNECTIONS as i32).map_err(io("listen at"))?;
        let shared = Arc::new(Shared {
            socket: socket.into(),
            listening,
            domains: domains.into(),
            ending: false.into(),
            connections: 0.into(),
        });
        let accepting = Arc::clone(&shared);
        Ok(Broker { shared, accepting: Some(std::thread::spawn(move || accept(&accepting))) })
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.shared.socket
    }

    /// Waits until it ends, which it does by itself only when its socket fails.
    pub fn wait(mut self) {
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        let _ = net::shutdown(&self.shared.listening, net::Shutdown::Both); // wakes who accepts
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        let _ = std::fs::remove_file(&self.shared.socket);
    }
}

/// Until it ends; then everybody who is being answered has been, and nobody holds the domains any more.
fn accept(shared: &Shared) {
    std::thread::scope(|answering| {
        while !shared.ending.load(Ordering::Acquire) {
            let connection = match net::accept_with(&shared.listening, SocketFlags::CLOEXEC) {
                Ok(connection) => connection,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    std::thread::sleep(Duration::from_millis(10)); // others give theirs back
                    continue;
                }
                Err(_) => return,
            };
            while shared.connections.load(Ordering::Acquire) >= CONNECTIONS {
                std::thread::sleep(Duration::from_millis(1)); // each ends within PATIENCE
            }
            shared.connections.fetch_add(1, Ordering::AcqRel);
            answering.spawn(move || {
                let _ = answer(shared, &connection); // who does not listen is told nothing
                shared.connections.fetch_sub(1, Ordering::AcqRel);
            });
        }
    });
}

fn answer(shared: &Shared, connection: &OwnedFd) -> io::Result<()> {
    for which in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(connection, which, Some(PATIENCE))?;
    }
    let peer = sockopt::socket_peercred(connection)?;
    let mut groups = vec![peer.gid.as_raw()];
    groups.extend(everbyte_media::peer_groups(connection.as_fd()).unwrap_or_default()); // an older kernel tells none
    let caller = Caller { user: peer.uid.as_raw(), groups };
    let mut message = vec![0; MESSAGE];
    let (len, whole) = net::recv(connection, message.as_mut_slice(), net::RecvFlags::TRUNC)?;
    let request = if whole <= MESSAGE { Request::parse(&message[..len]) } else { None };
    let result = match request {
        Some(request) => fulfil(&mut shared.domains.lock(), &caller, request),
        None => Err(No::new(Errno::PROTO, "this is no request that the broker knows; use a client of its own version")),
    };
    let (result, files) = match result {
        Ok((lines, files)) => (Ok(lines), files),
        Err(no) => (Err(no), Vec::new()),
    };
    let fds: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(beside.push(SendAncillaryMessage::ScmRights(&fds)), "room for two descriptors");
    }
    let text = wire::answer(&result);
    net::sendmsg(connection, &[IoSlice::new(text.as_bytes())], &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn fulfil(domains: &mut Domains, caller: &Caller, request: Request) -> Result<(String, Vec<File>), No> {
    let done = |()| (String::new(), Vec::new());
    match request {
        Request::Create { mode, max, name } => domains.create(caller, &name, mode, max).map(done),
        Request::Attach { want, name } => {
            let files = domains.attach(caller, &name, want)?;
            Ok((wire::line(&domains.about(&name)?), files))
        }
        Request::Remove { name } => domains.remove(caller, &name).map(done),
        Request::Chmod { mode, name } => domains.chmod(caller, &name, mode).map(done),
        Request::Chown { uid, gid, name } => domains.chown(caller, &name, uid, gid).map(done),
        Request::About { name } => Ok((wire::line(&domains.about(&name)?), Vec::new())),
        Request::List { prefix, after } => {
            let mut lines = String::new();
            for line in domains.list(&prefix, &after).map(|about| wire::line(&about)) {
                if lines.len() + line.len() > LINES {
                    break;
                }
                lines += &line;
            }
            Ok((lines, Vec::new()))
        }
    }
}

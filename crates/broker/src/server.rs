//! [`Broker`]: answers programs over a socket.
//!
//! A connection brings one request and gets one answer, by a thread of its own. Each user has a
//! share of the threads, and further connections of that user wait for one of them: silent clients
//! delay their own user alone. The kernel names the caller's user and groups (SO_PEERCRED,
//! SO_PEERGROUPS). The broker opens domain files and passes their descriptors; it never reads their
//! bytes, so a program that writes to its file cannot harm the broker.
//!
//! Threads: one accepts; at most [`SHARE`] for each user; one lock around the domains.

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
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Connections of one user that are answered at a time.
const SHARE: usize = 8;
/// Connections of one user that wait for a thread; more are closed unread, and their clients ask
/// again.
const WAITING: usize = 64;
/// The pause between two checks for files that clients grew beyond their domains.
const LOOK: Duration = Duration::from_secs(1);
/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 64;
/// The time limit for a client to send its request, and to receive the answer. Local clients send
/// it right after they connect.
const PATIENCE: Duration = Duration::from_secs(1);

/// The options of a broker.
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

/// A running broker; it ends when it is dropped. The descriptors that it passed stay valid.
pub struct Broker {
    shared: Arc<BrokerState>,
    accepting: Option<JoinHandle<()>>,
    watching: Option<JoinHandle<()>>,
}

struct BrokerState {
    socket: PathBuf,
    listening: OwnedFd,
    domains: Mutex<Domains>,
    ending: AtomicBool,
    users: Mutex<HashMap<u32, User>>,
}

/// The connections of one user.
#[derive(Default)]
struct User {
    /// Threads that answer it at present.
    threads: usize,
    /// Connections without a thread, oldest first.
    waiting: VecDeque<OwnedFd>,
}

impl Broker {
    /// Serves the domains of `dir` to every client that connects to `socket`, from threads of this
    /// process.
    ///
    /// # Errors
    /// As [`Domains::open`]; the socket cannot be created, or a broker answers there.
    pub fn start(dir: &Path, socket: &Path, options: Options) -> Result<Broker> {
        let domains = Domains::open(dir, options.quota)?;
        let io = |action| move |source: Errno| Error::Io { action, path: socket.into(), source: source.into() };
        let address = SocketAddrUnix::new(socket).map_err(io("name a socket"))?;
        remove_old_socket(socket)?;
        let listening = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let listening = listening.map_err(io("make a socket"))?;
        net::bind(&listening, &address).map_err(io("bind a socket"))?;
        // the broker checks rights at each request
        let open = std::fs::set_permissions(socket, PermissionsExt::from_mode(0o666));
        open.map_err(|source| Error::Io { action: "open to others", path: socket.into(), source })?;
        net::listen(&listening, BACKLOG).map_err(io("listen at"))?;
        let shared = Arc::new(BrokerState {
            socket: socket.into(),
            listening,
            domains: domains.into(),
            ending: false.into(),
            users: Mutex::default(),
        });
        let (accepting, watching) = (Arc::clone(&shared), Arc::clone(&shared));
        let watching = std::thread::spawn(move || watch(&watching));
        Ok(Broker { shared, accepting: Some(std::thread::spawn(move || accept(&accepting))), watching: Some(watching) })
    }

    /// The path of its socket.
    pub fn socket(&self) -> &Path {
        &self.shared.socket
    }

    /// Waits until it ends: only a failure of its socket ends it.
    pub fn wait(mut self) {
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        // wakes the accepting thread
        let _ = net::shutdown(&self.shared.listening, net::Shutdown::Both);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        if let Some(watching) = self.watching.take() {
            watching.thread().unpark();
            let _ = watching.join();
        }
        let _ = std::fs::remove_file(&self.shared.socket);
    }
}

/// Runs until the broker ends; on return every accepted client has its answer, and no thread has
/// the domains.
fn accept(shared: &BrokerState) {
    std::thread::scope(|answering| {
        while !shared.ending.load(Ordering::Acquire) {
            let connection = match net::accept_with(&shared.listening, SocketFlags::CLOEXEC) {
                Ok(connection) => connection,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    // other users' threads end meanwhile
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                }
                Err(_) => return,
            };
            let Ok(peer) = sockopt::socket_peercred(&connection) else { continue };
            let Some(connection) = shared.enter(peer.uid.as_raw(), connection) else { continue };
            let uid = peer.uid.as_raw();
            let thread =
                std::thread::Builder::new().spawn_scoped(answering, move || shared.answer_user(uid, connection));
            if thread.is_err() {
                // the system has no thread left: the connection was closed with the closure
                leave(&mut shared.users.lock(), uid);
            }
        }
    });
}

impl BrokerState {
    /// Assigns a thread to a connection of a user; `None`: it waits for one, or is closed.
    fn enter(&self, uid: u32, connection: OwnedFd) -> Option<OwnedFd> {
        let mut users = self.users.lock();
        let user = users.entry(uid).or_default();
        if user.threads < SHARE {
            user.threads += 1;
            return Some(connection);
        }
        if user.waiting.len() < WAITING {
            user.waiting.push_back(connection);
        }
        None
    }

    /// The oldest waiting connection of a user; `None`: the calling thread ends. Then it no longer
    /// counts, under the same lock: a connection waits only for threads that look for it.
    fn next_of(&self, uid: u32) -> Option<OwnedFd> {
        let mut users = self.users.lock();
        let user = users.get_mut(&uid)?;
        let next = user.waiting.pop_front().filter(|_| !self.ending.load(Ordering::Acquire));
        if next.is_none() {
            leave(&mut users, uid);
        }
        next
    }

    fn answer_user(&self, uid: u32, connection: OwnedFd) {
        let mut connection = Some(connection);
        while let Some(current) = connection {
            // A panic costs its connection alone: the thread goes on, and the share of the user
            // stays whole. A client that has closed its end gets no answer.
            let _ = catch_unwind(AssertUnwindSafe(|| answer(self, &current)));
            drop(current);
            connection = self.next_of(uid);
        }
    }
}

/// Counts the end of a thread of a user.
fn leave(users: &mut HashMap<u32, User>, uid: u32) {
    if let Some(user) = users.get_mut(&uid) {
        user.threads -= 1;
        if user.threads == 0 && user.waiting.is_empty() {
            users.remove(&uid);
        }
    }
}

/// Runs until the broker ends: keeps the files of domains within their bounds.
fn watch(shared: &BrokerState) {
    while !shared.ending.load(Ordering::Acquire) {
        std::thread::park_timeout(LOOK);
        shared.domains.lock().cut_overgrown();
    }
}

/// Removes the socket of a broker that has ended; the caller has the lock of the domains. Any other
/// file at the path stays.
fn remove_old_socket(socket: &Path) -> Result<()> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let found = match std::fs::symlink_metadata(socket) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(Error::Io { action: "look at", path: socket.into(), source }),
    };
    let unsafe_because = |detail: String| Error::Unsafe { path: socket.into(), detail };
    if !found.file_type().is_socket() {
        return Err(unsafe_because("there is something else than a socket; give another path for the broker's".into()));
    }
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        return Err(unsafe_because(format!(
            "there is a socket of user {}, perhaps of a broker of theirs; give another path, or remove it",
            found.uid()
        )));
    }
    let removed = std::fs::remove_file(socket);
    removed.map_err(|source| Error::Io { action: "remove the old socket", path: socket.into(), source })
}

fn answer(shared: &BrokerState, connection: &OwnedFd) -> io::Result<()> {
    for which in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(connection, which, Some(PATIENCE))?;
    }
    let peer = sockopt::socket_peercred(connection)?;
    let mut groups = vec![peer.gid.as_raw()];
    // an older kernel returns none
    groups.extend(everbyte_members::peer_groups(connection.as_fd()).unwrap_or_default());
    let caller = Caller { user: peer.uid.as_raw(), groups };
    let mut message = vec![0; MESSAGE];
    let (len, whole) = net::recv(connection, message.as_mut_slice(), net::RecvFlags::TRUNC)?;
    let request = if whole <= MESSAGE { Request::parse(&message[..len]) } else { None };
    let result = match request {
        Some(request) => {
            let mut domains = shared.domains.lock();
            fulfil(&mut domains, &caller, request).map_err(|no| domains.told(no))
        }
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

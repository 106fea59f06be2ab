//! The control socket: `everbyte fs` commands on a volume that another process has in use are run
//! by that process.
//!
//! The socket is `STORE.control`, beside the store: each process that can find the store finds it,
//! with no environment in common, and a service of root has no $XDG_RUNTIME_DIR.
//!
//! One connection is one command. The process greets the client; the client sends its directory and
//! its arguments and shuts its side; the process answers in frames (`control/frame.rs`): output and
//! progress while the command runs, the exit code and the failure at its end. A process that sends
//! no greeting within [`GREETING`] is not trusted to be Everbyte. It runs the command with its own
//! rights, so it serves its own user and root alone (SO_PEERCRED); the client takes answers of its
//! own user, of root, and of the owner of the store alone.
//!
//! Threads: one accepts and greets, one answers in turn. A client has two seconds to send its
//! request, and for each part of the answer that it takes; other clients wait meanwhile. A command
//! of a client that has gone ends where it tells its progress or its output. The end of the process
//! waits for the command at hand, and drops those behind it.

mod client;
mod frame;
mod server;

pub(crate) use client::ask;
pub(crate) use server::{Control, Served};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time in which a process that has the store open greets a client.
const GREETING: Duration = Duration::from_secs(3);
/// Begins a request, and greets each client; the number is the version.
const HELLO: &[u8; 19] = b"everbyte control 3\0";
/// Bytes of a request at most.
const REQUEST: usize = 1 << 20;

fn path_of(store: &Path) -> PathBuf {
    let mut path = store.canonicalize().unwrap_or_else(|_| store.to_owned()).into_os_string();
    path.push(".control");
    path.into()
}

/// Calls `with` with a name of the socket that fits into an address of 108 bytes.
fn short<T>(path: &Path, with: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let directory = File::open(path.parent().unwrap_or(Path::new("/")))?;
    let name = path.file_name().unwrap_or_default();
    with(&Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name))
}

/// Connects, or fails with `WouldBlock` where the queue of clients is full: a process that accepts
/// none would be waited for without an end.
fn connect(path: &Path) -> io::Result<UnixStream> {
    short(path, |path| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        let connection = UnixStream::from(socket);
        connection.set_nonblocking(false)?;
        Ok(connection)
    })
}

fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}

//! Starts a broker for a client that finds none.
//!
//! The owner of the directory of domains may start its broker: the directory lies beside the
//! socket, under the socket's name without `.socket`. Several clients may try at once: the lock of
//! the broker's names lets one broker run, the others end, and that one answers all clients. It
//! outlives the clients that started it.

use crate::{Error, Result};
use rustix::io::Errno;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time limit until a broker answers: to recover its names, on a slow disk.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(5);
/// The pause after the started broker has ended, in which another one may listen, before the next
/// start.
const PAUSE_LONG: Duration = Duration::from_millis(500);

/// The directory whose broker listens at `socket`, if this process may start that.
fn directory(socket: &Path) -> Option<PathBuf> {
    let dir = socket.with_extension("");
    let named = socket.extension().is_some_and(|extension| extension == "socket");
    let found = std::fs::metadata(&dir).ok().filter(|found| named && found.is_dir())?;
    (found.uid() == rustix::process::geteuid().as_raw()).then_some(dir)
}

fn spawn(program: &Path, dir: &Path, socket: &Path) -> Result<Child> {
    let mut command = Command::new(program);
    command.arg("broker").arg(dir).arg("--socket").arg(socket);
    // Not in this program's group, which an interrupt from a terminal ends, and without its
    // standard streams.
    command.process_group(0).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|source| Error::Io { action: "start the broker with", path: program.into(), source })
}

/// Starts the broker of `socket` by `program`, which is the command line's, and calls `connect`
/// until it succeeds.
///
/// # Errors
/// The first error of `connect` if this process may not start a broker; the last one if none
/// answers in time.
pub(crate) fn and_connect<T>(socket: &Path, program: &Path, connect: impl Fn() -> Result<T, Errno>) -> Result<T> {
    let none = |source: Errno| Error::NoBroker { path: socket.into(), source: source.into() };
    let first = match connect() {
        Ok(connected) => return Ok(connected),
        Err(errno) => errno,
    };
    let startable = matches!(first, Errno::NOENT | Errno::CONNREFUSED);
    let socket = std::path::absolute(socket).map_err(|_| none(first))?;
    let dir = directory(&socket).filter(|_| startable).ok_or_else(|| none(first))?;
    let mut broker = spawn(program, &dir, &socket)?;
    let (begun, mut ended) = (Instant::now(), false);
    loop {
        let last = match connect() {
            Ok(connected) => return Ok(connected),
            Err(errno) => errno,
        };
        if begun.elapsed() > PATIENCE {
            return Err(none(last));
        }
        if ended {
            broker = spawn(program, &dir, &socket)?;
        }
        // If the started broker has ended, another one has the lock: it is about to listen, or
        // about to end too.
        ended = broker.try_wait().is_ok_and(|status| status.is_some());
        std::thread::sleep(if ended { PAUSE_LONG } else { PAUSE });
    }
}

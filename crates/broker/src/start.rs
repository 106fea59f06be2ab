//! Starting a broker that somebody asks for and nobody has started.
//!
//! Who may enter the directory of domains, because it is theirs, may start its broker: it lies
//! beside the socket, under the socket's name without `.socket`. Several may try at once: the lock
//! of the broker's names lets one go on, the others end, and all are answered by that one. It goes
//! on when those who started it end.

use crate::{Error, Result};
use rustix::io::Errno;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a broker may take until it answers: to recover its names, on a slow disk.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait before asking again.
const PAUSE: Duration = Duration::from_millis(5);
/// How long another broker has, once ours has ended, before one more is started.
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
    // Not in this program's group, which an interrupt from a terminal ends, and no reader of what
    // this program writes.
    command.process_group(0).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|source| Error::Io { action: "start the broker with", path: program.into(), source })
}

/// Starts the broker of `socket` by `program`, which is the command line's, and asks `connect`
/// until it succeeds.
///
/// # Errors
/// What `connect` returned at first, where this process may start no broker; at last, if none
/// answers.
pub fn and_connect<T>(socket: &Path, program: &Path, connect: impl Fn() -> Result<T, Errno>) -> Result<T> {
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
        // If ours has ended it was not the first, and the first is about to listen; or that one was
        // about to end, too.
        ended = broker.try_wait().is_ok_and(|status| status.is_some());
        std::thread::sleep(if ended { PAUSE_LONG } else { PAUSE });
    }
}

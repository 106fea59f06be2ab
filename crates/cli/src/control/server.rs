//! The side of the process that has the store open.

use super::frame;
use super::{GREETING, HELLO, REQUEST, connect, own, path_of, short};
use crate::args::{Args, Command, FsCommand};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::{Tell, Told};
use clap::Parser;
use everbyte_fuse::MountedVolume;
use everbyte_store::Store;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{Shutdown as Side, shutdown};
use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(2);
/// Between two frames of progress.
const BETWEEN: Duration = Duration::from_millis(100);

/// A store that is open, and the caller of a command.
pub(crate) struct Served<'s> {
    pub store: &'s Store,
    /// The volumes that were mounted, by their names.
    pub volumes: &'s [(String, MountedVolume)],
    /// The user and the group of the process that asks.
    pub caller: (u32, u32),
}

/// Runs a command for another process.
pub(crate) type Run = fn(&Served<'_>, &FsCommand, &Output) -> Result<(), Failure>;

/// Answers commands until it is dropped.
pub(crate) struct Control {
    path: PathBuf,
    listener: Arc<UnixListener>,
    threads: Vec<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
}

impl Control {
    /// Begins to answer; called before the process tells that it serves. Without a socket, which is
    /// told, commands are refused as in use.
    pub(crate) fn start(
        store_path: &Path,
        store: &Store,
        volumes: Vec<(String, MountedVolume)>,
        run: Run,
    ) -> Option<Control> {
        let path = path_of(store_path);
        let listener = match listen(&path) {
            Ok(listener) => Arc::new(listener?),
            Err(error) => {
                eprintln!("{}: no control socket: {error}", path.display());
                return None;
            }
        };
        let (store, accepting) = (store.clone(), Arc::clone(&listener));
        let (greeted, clients) = channel::<UnixStream>();
        let ended = Arc::new(AtomicBool::new(false));
        let is_ended = Arc::clone(&ended);
        let answer = move || {
            for connection in clients {
                if is_ended.load(Ordering::Relaxed) {
                    return;
                }
                // A client that leaves early misses its answer.
                drop(answer(connection, &store, &volumes, run));
            }
        };
        let accept = move || {
            loop {
                match accepting.accept() {
                    Ok((mut connection, _)) => {
                        // The empty buffer of a new connection takes the greeting.
                        if connection.write_all(HELLO).is_ok() && greeted.send(connection).is_err() {
                            return;
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => return, // shut down
                    Err(_) => std::thread::sleep(Duration::from_millis(100)),            // out of descriptors
                }
            }
        };
        let start = |work: Box<dyn FnOnce() + Send>| Builder::new().name("control".into()).spawn(work).ok();
        let threads = [start(Box::new(answer)), start(Box::new(accept))].into_iter().flatten().collect();
        Some(Control { path, listener, threads, ended })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = shutdown(&*self.listener, Side::Both); // `accept` fails from now on
        self.ended.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Binds the socket; none if another process that shares the store answers there.
fn listen(path: &Path) -> io::Result<Option<UnixListener>> {
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(io::Error::other("the name is taken by something else"));
        }
        match connect(path) {
            Ok(connection) => return answers_for_us(&connection).map(|()| None),
            // Its process has ended.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => (),
            Err(error) => return Err(io::Error::other(format!("the one that is there cannot be asked: {error}"))),
        }
    }
    let listener = short(path, |path| UnixListener::bind(path))?;
    // Connections before this line are refused by their user.
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(Some(listener))
}

/// Whether the process that listens at the name of our socket is one of Everbyte, of this version.
fn answers_for_us(mut connection: &UnixStream) -> io::Result<()> {
    let peer = socket_peercred(connection)?.uid.as_raw();
    let mut hello = [0; HELLO.len()];
    connection.set_read_timeout(Some(GREETING))?;
    match connection.read_exact(&mut hello) {
        Ok(()) if hello == *HELLO && [own(), 0].contains(&peer) => Ok(()),
        _ => Err(io::Error::other(format!("another program, of user {peer}, listens there"))),
    }
}

/// The client of the command at hand.
struct Client {
    stream: UnixStream,
    /// A part of the answer was not taken: nothing is sent any more.
    is_gone: Cell<bool>,
    told: Cell<Option<Instant>>,
}

impl Client {
    fn send<T>(&self, send: impl FnOnce(&mut &UnixStream) -> io::Result<T>) -> io::Result<T> {
        if self.is_gone.get() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        send(&mut &self.stream).inspect_err(|_| self.is_gone.set(true))
    }
}

impl Tell for Client {
    /// Frames of progress are a tenth of a second apart, so they do not fill the connection of a
    /// client that reads late.
    fn tell(&self, told: &Told) -> bool {
        let is_due = self.told.get().is_none_or(|last| last.elapsed() >= BETWEEN);
        if is_due {
            self.told.set(Some(Instant::now()));
            let _ = self.send(|stream| frame::write_progress(stream, told)); // remembered
        }
        !self.is_gone.get()
    }
}

/// The output of a command, on its way to the client.
struct Sent(Rc<Client>);

impl Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(|stream| frame::write_output(stream, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn answer(connection: UnixStream, store: &Store, volumes: &[(String, MountedVolume)], with: Run) -> io::Result<()> {
    let peer = socket_peercred(&connection)?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let client = Rc::new(Client { stream: connection, is_gone: Cell::new(false), told: Cell::new(None) });
    let done = if [own(), 0].contains(&peer.uid.as_raw()) {
        let served = Served { store, volumes, caller: (peer.uid.as_raw(), peer.gid.as_raw()) };
        receive(&client.stream)?.and_then(|request| {
            let run = AssertUnwindSafe(|| run(&request, &client, &served, with));
            catch_unwind(run).unwrap_or_else(|_| Err(Failure::System("the command ended in a panic".into())))
        })
    } else {
        Err(Failure::System("the process serves its own user alone".into()))
    };
    client.send(|stream| frame::write_end(stream, done))?;
    client.stream.shutdown(std::net::Shutdown::Write)
}

/// Reads a request within [`PATIENCE`].
fn receive(mut connection: &UnixStream) -> io::Result<Result<Vec<u8>, Failure>> {
    let end = Instant::now() + PATIENCE;
    let (mut request, mut part) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        connection.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match connection.read(&mut part)? {
            0 => break,
            _ if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
            count => request.extend_from_slice(&part[..count]),
        }
        if request.len() > REQUEST {
            return Ok(Err(Failure::Words(format!("the arguments have more than {REQUEST} bytes"))));
        }
    }
    Ok(match request.strip_prefix(HELLO) {
        Some(words) => Ok(words.to_vec()),
        None => Err(Failure::Words("the process that serves the store is of another version".into())),
    })
}

/// Runs the command of a request: a directory and arguments, each with a NUL behind it.
fn run(request: &[u8], client: &Rc<Client>, served: &Served<'_>, with: Run) -> Result<(), Failure> {
    let request = request.strip_suffix(b"\0").unwrap_or(request);
    let mut words = request.split(|&byte| byte == 0).map(OsStr::from_bytes);
    let directory = Path::new(words.next().unwrap_or_default());
    let words = std::iter::once(OsStr::new("everbyte")).chain(words);
    let args = Args::try_parse_from(words).map_err(|error| Failure::Words(error.to_string()))?;
    let Command::Fs(mut command) = args.command else {
        return Err(Failure::Words("the process that serves the store does not know this command".into()));
    };
    match &mut command.command {
        FsCommand::Get(copied) => copied.target = directory.join(&copied.target),
        FsCommand::Put(copied) => copied.sources.iter_mut().for_each(|source| *source = directory.join(&*source)),
        _ => (),
    }
    let output = Output::served(args.json, Box::new(Sent(Rc::clone(client))), Rc::clone(client) as Rc<dyn Tell>);
    let done = with(served, &command.command, &output);
    let flushed = output.finish();
    done.and(flushed)
}

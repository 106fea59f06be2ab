//! The control socket: `everbyte fs` commands on a volume that another process has in use are run
//! by that process.
//!
//! The socket is `STORE.control`, beside the store: each process that can find the store finds it,
//! with no environment in common, and a service of root has no $XDG_RUNTIME_DIR.
//!
//! One connection is one command. The process greets the client; the client sends its directory and
//! its arguments and shuts its side; the process answers with the exit code, the failure, and the
//! output. A process that sends no greeting within [`GREETING`] is not trusted to be Everbyte. It
//! runs the command with its own rights, so it serves its own user and root alone (SO_PEERCRED);
//! the client takes answers of its own user, of root, and of the owner of the store alone.
//!
//! Threads: one accepts and greets, one answers in turn. A client has [`PATIENCE`] to send its
//! request, and for each part of the answer that it takes; other clients wait meanwhile. The end of
//! the process waits for the client at hand, and drops those behind it. An answer is kept in memory
//! until the command has ended.

use crate::args::{Args, Command, FsCommand};
use crate::commands::fs::{self, Volumes};
use crate::failure::Failure;
use crate::output::Output;
use clap::Parser;
use everbyte_fs::Volume;
use everbyte_fuse::MountedVolume;
use everbyte_store::Store;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{Shutdown as Side, shutdown};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(2);
/// The time in which a process that has the store open greets a client.
const GREETING: Duration = Duration::from_secs(3);
/// Bytes of the text of a failure at most.
const TEXT: u32 = 1 << 20;
/// Begins a request, and greets each client; the number is the version.
const HELLO: &[u8] = b"everbyte control 2\0";
/// Bytes of a request at most.
const REQUEST: usize = 1 << 20;

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
    pub(crate) fn start(store_path: &Path, store: &Store, volumes: Vec<(String, MountedVolume)>) -> Option<Control> {
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
                drop(answer(connection, &store, &volumes));
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

/// Binds the socket; none if another process that shares the store answers there.
fn listen(path: &Path) -> io::Result<Option<UnixListener>> {
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(io::Error::other("the name is taken by something else"));
        }
        if short(path, |path| UnixStream::connect(path)).is_ok() {
            return Ok(None);
        }
        std::fs::remove_file(path)?;
    }
    let listener = short(path, |path| UnixListener::bind(path))?;
    // Connections before this line are refused by their user.
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(Some(listener))
}

fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn answer(mut connection: UnixStream, store: &Store, volumes: &[(String, MountedVolume)]) -> io::Result<()> {
    let peer = socket_peercred(&connection)?.uid.as_raw();
    connection.set_write_timeout(Some(PATIENCE))?;
    if peer != own() && peer != 0 {
        return send(&mut connection, Err(Failure::System("the process serves its own user alone".into())), &[]);
    }
    let (done, bytes) = match receive(&mut connection)? {
        Err(failure) => (Err(failure), Vec::new()),
        Ok(request) => {
            let run = AssertUnwindSafe(|| run(&request, store, volumes));
            let broken = |_| (Err(Failure::System("the command ended in a panic".into())), Vec::new());
            catch_unwind(run).unwrap_or_else(broken)
        }
    };
    send(&mut connection, done, &bytes)
}

/// Reads a request within [`PATIENCE`].
fn receive(connection: &mut UnixStream) -> io::Result<Result<Vec<u8>, Failure>> {
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
fn run(request: &[u8], store: &Store, volumes: &[(String, MountedVolume)]) -> (Result<(), Failure>, Vec<u8>) {
    let request = request.strip_suffix(b"\0").unwrap_or(request);
    let mut words = request.split(|&byte| byte == 0).map(OsStr::from_bytes);
    let directory = Path::new(words.next().unwrap_or_default());
    let words = std::iter::once(OsStr::new("everbyte")).chain(words);
    let unknown = || Failure::Words("the process that serves the store does not know this command".into());
    let args = match Args::try_parse_from(words) {
        Ok(args) => args,
        Err(error) => return (Err(Failure::Words(error.to_string())), Vec::new()),
    };
    let Command::Fs(mut command) = args.command else { return (Err(unknown()), Vec::new()) };
    let Some(name) = fs::served_volume(&command.command) else { return (Err(unknown()), Vec::new()) };
    match &mut command.command {
        FsCommand::Get(copied) => copied.target = directory.join(&copied.target),
        FsCommand::Put(copied) => copied.sources.iter_mut().for_each(|source| *source = directory.join(&*source)),
        _ => (),
    }
    let (output, kept) = Output::kept(args.json);
    let mounted = volumes.iter().find(|(mounted, _)| *mounted == name).map(|(_, volume)| volume);
    let work = |volume: &Volume| match mounted {
        Some(mounted) if mounted.is_read_only() && fs::changes(&command.command) => {
            Err(Failure::System(format!("volume {name} is mounted read-only")))
        }
        mounted => fs::on(Volumes::Served(volume.clone(), mounted.cloned()), &command.command, &output),
    };
    let done = mounted.and_then(|volume| match command.command {
        FsCommand::Fsck(_) => volume.paused(work),
        _ => volume.with(work),
    });
    let done = done.unwrap_or_else(|| in_passing(store, &name, work));
    let done = done.and_then(|()| output.finish());
    (done, kept.take())
}

/// Works on a volume that is not mounted, or not any more.
fn in_passing(store: &Store, name: &str, work: impl FnOnce(&Volume) -> Result<(), Failure>) -> Result<(), Failure> {
    let volume = Volume::open(store.object(name)?)?;
    let done = work(&volume);
    volume.close()?;
    done
}

/// Sends the exit code, the length of the failure's text, the text, and the output.
fn send(connection: &mut UnixStream, done: Result<(), Failure>, output: &[u8]) -> io::Result<()> {
    let (code, text) = done.map_or_else(|failure| (failure.code(), failure.to_string()), |()| (0, String::new()));
    connection.write_all(&[&[code][..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat())?;
    connection.write_all(output)?;
    connection.shutdown(Shutdown::Write)
}

/// Lets the process that has the store open run this command. `in_use` tells that it is open.
pub(crate) fn ask(store: &Path, in_use: &str, output: &Output) -> Result<(), Failure> {
    let path = path_of(store);
    let at = path.display();
    let failed =
        |error: io::Error| Failure::System(format!("{at}: cannot ask the process that answers there: {error}"));
    let mut connection = match short(&path, |path| UnixStream::connect(path)) {
        Ok(connection) => connection,
        Err(error) => return Err(unanswered(&path, in_use, &error)),
    };
    let peer = socket_peercred(&connection).map_err(|error| failed(error.into()))?.uid.as_raw();
    let owner = std::fs::metadata(store).map_err(failed)?.uid();
    if ![own(), 0, owner].contains(&peer) {
        let text = "which is neither this user, root nor the owner of the store; nothing was asked";
        return Err(Failure::System(format!("{at}: a process of user {peer} answers there, {text}")));
    }
    if !is_greeted(&mut connection) {
        let text = "does not answer as everbyte of this version does; the command was not run";
        return Err(Failure::System(format!("{at}: the process that listens there {text}")));
    }
    exchange(&mut connection, output).unwrap_or_else(|error| {
        let text = "the process that serves the store has not answered; the command may have run";
        Err(Failure::System(format!("{at}: {text}: {error}")))
    })
}

/// The store is in use, and its socket takes no connection.
fn unanswered(path: &Path, in_use: &str, error: &io::Error) -> Failure {
    let found = std::fs::symlink_metadata(path);
    let why = match (found, error.kind()) {
        (Err(_), _) => return Failure::InUse(in_use.into()), // it serves no commands
        (Ok(found), _) if !found.file_type().is_socket() => "is no socket".into(),
        (Ok(found), io::ErrorKind::PermissionDenied) => format!("is the socket of user {}", found.uid()),
        (Ok(_), io::ErrorKind::ConnectionRefused) => "was left by a process that has ended".into(),
        (Ok(_), _) => format!("cannot be used: {error}"),
    };
    Failure::InUse(format!("{in_use}; its process cannot be asked, since {} {why}", path.display()))
}

fn is_greeted(connection: &mut UnixStream) -> bool {
    let mut hello = [0; HELLO.len()];
    let read = connection.set_read_timeout(Some(GREETING)).and_then(|()| connection.read_exact(&mut hello));
    read.is_ok() && hello == HELLO && connection.set_read_timeout(None).is_ok()
}

fn exchange(connection: &mut UnixStream, output: &Output) -> io::Result<Result<(), Failure>> {
    let mut request = HELLO.to_vec();
    let directory = std::env::current_dir()?.into_os_string();
    for word in std::iter::once(directory).chain(std::env::args_os().skip(1)) {
        request.extend(OsString::into_vec(word));
        request.push(0);
    }
    // A refusal may come before all of it is sent; the answer tells.
    let _ = connection.write_all(&request).and_then(|()| connection.shutdown(Shutdown::Write));
    let mut head = [0; 5];
    connection.read_exact(&mut head)?;
    let mut text = String::new();
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    if head[0] > 5 || length > TEXT {
        return Err(io::ErrorKind::InvalidData.into());
    }
    connection.take(length.into()).read_to_string(&mut text)?;
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes)?;
    Ok(output.bytes(&bytes).and(if head[0] == 0 { Ok(()) } else { Err(Failure::of_code(head[0], text)) }))
}

//! The side of a command that finds its store in use.

use super::frame::{self, Frame};
use super::{GREETING, HELLO, connect, own, path_of};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Shown;
use rustix::net::sockopt::socket_peercred;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// Bytes of an answer that wait for a reader of our output at most. The process does not wait.
const UNREAD: usize = 256 << 20;

/// Lets the process that has the store open run this command. `in_use` tells that it is open.
pub(crate) fn ask(store: &Path, in_use: &str, output: &Output) -> Result<(), Failure> {
    let path = path_of(store);
    let at = path.display();
    let failed =
        |error: io::Error| Failure::System(format!("{at}: cannot ask the process that answers there: {error}"));
    let mut connection = match connect(&path) {
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
    exchange(connection, output).unwrap_or_else(|error| {
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
        (Ok(_), io::ErrorKind::WouldBlock) => "has a queue of clients that its process does not answer".into(),
        (Ok(_), _) => format!("cannot be used: {error}"),
    };
    Failure::InUse(format!("{in_use}; its process cannot be asked, since {} {why}", path.display()))
}

fn is_greeted(connection: &mut UnixStream) -> bool {
    let mut hello = [0; HELLO.len()];
    let read = connection.set_read_timeout(Some(GREETING)).and_then(|()| connection.read_exact(&mut hello));
    read.is_ok() && hello == *HELLO && connection.set_read_timeout(None).is_ok()
}

fn exchange(mut connection: UnixStream, output: &Output) -> io::Result<Result<(), Failure>> {
    let mut request = HELLO.to_vec();
    let directory = std::env::current_dir()?.into_os_string();
    for word in std::iter::once(directory).chain(std::env::args_os().skip(1)) {
        request.extend(OsString::into_vec(word));
        request.push(0);
    }
    // A refusal may come before all of it is sent; the answer tells.
    let _ = connection.write_all(&request).and_then(|()| connection.shutdown(Shutdown::Write));
    let unread = Arc::new(AtomicUsize::new(0));
    let mut shown = Shown::default();
    for frame in frames(connection, &unread) {
        match frame? {
            Frame::Output(bytes) => {
                unread.fetch_sub(bytes.len(), Ordering::Relaxed);
                shown.hide();
                if let Err(failure) = output.bytes(&bytes) {
                    return Ok(Err(failure));
                }
            }
            Frame::Progress(told) => shown.show(&told),
            Frame::End(0, _) => return Ok(Ok(())),
            Frame::End(code, text) => return Ok(Err(Failure::of_code(code, text))),
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// Reads frames in a thread of its own, so that the process does not wait for a reader of our
/// output.
fn frames(mut connection: UnixStream, unread: &Arc<AtomicUsize>) -> Receiver<io::Result<Frame>> {
    let (sender, frames) = channel();
    let unread = Arc::clone(unread);
    thread::spawn(move || {
        loop {
            let frame = frame::read(&mut connection).and_then(|frame| {
                let length = if let Frame::Output(bytes) = &frame { bytes.len() } else { 0 };
                match unread.fetch_add(length, Ordering::Relaxed) + length {
                    0..=UNREAD => Ok(frame),
                    _ => Err(io::Error::other(format!("{UNREAD} bytes of the output are not read"))),
                }
            });
            let is_last = matches!(frame, Err(_) | Ok(Frame::End(..)));
            if sender.send(frame).is_err() || is_last {
                return;
            }
        }
    });
    frames
}

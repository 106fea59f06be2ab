//! [`Client`]: a program's side of the connection to a broker.
//!
//! A program maps the files that a broker passes, C programs at the address that their pointers
//! name. So the client asks the kernel for the broker's user first: root, the client's own, or the
//! owner of the directory with the socket.

use crate::error::No;
use crate::start;
use crate::wire::{self, MESSAGE, Request};
use crate::{About, Error, Result};
use everbyte_store::{Store, Want};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use std::fs::File;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Brokers that may end, one after the other, before one reads a request.
const TRIES: usize = 10;

/// Sends requests to a broker. Each call is a connection of its own; if a broker ends before it
/// reads a request, the client sends it to the next one.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    /// The program that starts a broker.
    program: Option<PathBuf>,
}

/// A domain, with the rights that the broker granted.
#[derive(Debug)]
pub struct Domain {
    /// Its properties.
    pub about: About,
    /// The granted access.
    pub want: Want,
    files: Vec<File>,
}

impl Client {
    /// A client of the broker at `socket`; connects at the first request.
    pub fn new(socket: &Path) -> Client {
        Client { socket: socket.into(), program: None }
    }

    /// A client that starts a broker by `program`, which is `everbyte`, if none answers and this
    /// user owns the directory of domains beside the socket (`shop` beside `shop.socket`). Clients
    /// that do so at the same time end up with one broker.
    pub fn on_demand(socket: &Path, program: &Path) -> Client {
        Client { socket: socket.into(), program: Some(program.into()) }
    }

    /// Creates a domain that may grow to `max` bytes and belongs to the caller. Settled on return.
    ///
    /// # Errors
    /// [`Error::NoBroker`]; [`Error::Unsafe`]: a broker of another user; [`Error::Refused`]: the
    /// name is taken or invalid; a quota; no space.
    pub fn create(&self, name: &str, mode: u16, max: u64) -> Result<()> {
        self.ask(&Request::Create { mode, max, name: name.into() }).map(drop)
    }

    /// Attaches a domain. The broker checks the caller's rights now; later changes of rights do not
    /// affect the descriptors that it passes.
    ///
    /// # Errors
    /// [`Error::NoBroker`]; [`Error::Refused`]: no domain has that name, or the caller has no right
    /// to it.
    pub fn attach(&self, name: &str, want: Want) -> Result<Domain> {
        let (lines, files) = self.ask(&Request::Attach { want, name: name.into() })?;
        let about = wire::parse_line(lines.trim_end_matches('\n')).ok_or_else(|| self.garbled())?;
        Ok(Domain { about, want, files: files.into_iter().map(File::from).collect() })
    }

    /// Removes a domain of the caller's. Processes that have it attached keep their mappings.
    ///
    /// # Errors
    /// [`Error::NoBroker`], [`Error::Refused`].
    pub fn remove(&self, name: &str) -> Result<()> {
        self.ask(&Request::Remove { name: name.into() }).map(drop)
    }

    /// Changes the rights to a domain of the caller's, from the next attach on. Settled on return.
    ///
    /// # Errors
    /// [`Error::NoBroker`], [`Error::Refused`].
    pub fn chmod(&self, name: &str, mode: u16) -> Result<()> {
        self.ask(&Request::Chmod { mode, name: name.into() }).map(drop)
    }

    /// Gives a domain to a user and a group; for root. Settled on return.
    ///
    /// # Errors
    /// [`Error::NoBroker`], [`Error::Refused`].
    pub fn chown(&self, name: &str, uid: u32, gid: u32) -> Result<()> {
        self.ask(&Request::Chown { uid, gid, name: name.into() }).map(drop)
    }

    /// The properties of a domain.
    ///
    /// # Errors
    /// [`Error::NoBroker`], [`Error::Refused`].
    pub fn about(&self, name: &str) -> Result<About> {
        let lines = self.ask(&Request::About { name: name.into() })?.0;
        wire::parse_line(lines.trim_end_matches('\n')).ok_or_else(|| self.garbled())
    }

    /// The domains whose names begin with `prefix`, in order.
    ///
    /// # Errors
    /// [`Error::NoBroker`].
    pub fn list(&self, prefix: &str) -> Result<Vec<About>> {
        let mut all: Vec<About> = Vec::new();
        loop {
            let after = all.last().map_or(String::new(), |last| last.name.clone());
            let lines = self.ask(&Request::List { prefix: prefix.into(), after })?.0;
            let some: Option<Vec<About>> = lines.lines().map(wire::parse_line).collect();
            let some = some.ok_or_else(|| self.garbled())?;
            if some.is_empty() {
                return Ok(all);
            }
            all.extend(some);
        }
    }

    fn garbled(&self) -> Error {
        Error::Garbled { path: self.socket.clone() }
    }

    /// Refuses a broker of a user that the caller has no reason to trust.
    fn require_trusted(&self, connection: &OwnedFd) -> Result<()> {
        let io = |action| move |source: std::io::Error| Error::Io { action, path: self.socket.clone(), source };
        let broker = net::sockopt::socket_peercred(connection)
            .map_err(|errno| io("find the user of the broker at")(errno.into()))?;
        let (broker, own) = (broker.uid.as_raw(), rustix::process::geteuid().as_raw());
        if broker == 0 || broker == own {
            return Ok(());
        }
        let socket = std::path::absolute(&self.socket).map_err(io("find the directory of"))?;
        let directory =
            std::fs::metadata(socket.parent().unwrap_or(Path::new("/"))).map_err(io("look at the directory of"))?;
        // The owner of a directory that others may write to did not necessarily create the socket,
        // but may replace it anyway.
        if directory.uid() == broker {
            return Ok(());
        }
        Err(Error::Unsafe {
            path: self.socket.clone(),
            detail: format!(
                "the broker that listens there is of user {broker}, neither root nor user {own} nor the owner of its \
                 directory; it could pass any file for a domain. Name the socket of another one"
            ),
        })
    }

    fn ask(&self, request: &Request) -> Result<(String, Vec<OwnedFd>)> {
        let none = |source: Errno| Error::NoBroker { path: self.socket.clone(), source: source.into() };
        let address = SocketAddrUnix::new(&self.socket).map_err(none)?;
        let connect = || {
            let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
            net::connect(&socket, &address).map(|()| socket)
        };
        let mut tries = 0..TRIES;
        let (message, files) = loop {
            let socket = match &self.program {
                Some(program) => start::and_connect(&self.socket, program, connect)?,
                None => connect().map_err(none)?,
            };
            self.require_trusted(&socket)?;
            match exchange(&socket, &request.text()) {
                Err(errno) if is_unheard(errno) && tries.next().is_some() => {}
                said => break said.map_err(none)?,
            }
        };
        match wire::parse_answer(&message) {
            Some(Ok(lines)) => Ok((lines, files)),
            Some(Err(No { errno, said })) => Err(Error::Refused { errno, said }),
            None => Err(self.garbled()),
        }
    }
}

/// Sends a request, and returns the answer with the descriptors passed beside it.
fn exchange(socket: &OwnedFd, request: &str) -> Result<(Vec<u8>, Vec<OwnedFd>), Errno> {
    net::send(socket, request.as_bytes(), SendFlags::NOSIGNAL)?;
    let mut message = vec![0; MESSAGE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut message)];
    let received = net::recvmsg(socket, &mut into, &mut beside, RecvFlags::CMSG_CLOEXEC)?.bytes;
    message.truncate(received);
    let mut files = Vec::new();
    for part in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = part {
            files.extend(passed);
        }
    }
    Ok((message, files))
}

/// Whether the broker has ended without reading the request, so that nothing was done: only then
/// does the system reset the connection. A connection whose request was read and not answered ends
/// without an error.
fn is_unheard(errno: Errno) -> bool {
    matches!(errno, Errno::CONNRESET | Errno::PIPE)
}

impl Domain {
    /// The descriptor, for programs that map it themselves.
    pub fn file(&self) -> Option<&File> {
        self.files.first()
    }
}

impl crate::raw::Raw for Domain {
    fn open(self, options: &everbyte_media::Options) -> Result<Store> {
        let path = PathBuf::from(format!("domain {}", self.about.name));
        let mut files = self.files.into_iter();
        match (self.want, files.next(), files.next()) {
            (Want::Write, Some(bytes), Some(locks)) => {
                Ok(Store::options(&path).shared().over(bytes).locks(locks).open(options)?)
            }
            (Want::Read, Some(bytes), None) => Ok(Store::options(&path).read_only().over(bytes).open(options)?),
            _ => Err(Error::Garbled { path }),
        }
    }
}

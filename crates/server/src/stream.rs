//! The socket of a connection: TCP, a Unix socket, or TLS over TCP. None of them blocks.

use crate::tls::TlsStream;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

/// See the head of this file.
pub(crate) enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS over TCP.
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Whether a read of fewer bytes than asked for has emptied the socket. TLS reads a record at a
    /// time.
    pub(crate) fn drains(&self) -> bool {
        !matches!(self, Stream::Tls(_))
    }

    /// Sends what the socket has not taken of bytes that were written; whether nothing is left.
    pub(crate) fn flush_all(&mut self) -> io::Result<bool> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(true),
            Stream::Tls(stream) => stream.send(),
        }
    }

    /// Whether the client has not shown yet that it speaks TLS.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.is_handshaking())
    }

    /// Bytes of memory that it holds, about.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => 0,
            Stream::Tls(_) => TlsStream::MEMORY,
        }
    }

    /// Looks at what has arrived.
    #[cfg(test)]
    pub(crate) fn peek(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.peek(bytes),
            Stream::Unix(_) | Stream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Stream {
        Stream::Tcp(stream)
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Stream {
        Stream::Unix(stream)
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(bytes),
            Stream::Unix(stream) => stream.read(bytes),
            Stream::Tls(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write_vectored(slices),
            Stream::Unix(stream) => stream.write_vectored(slices),
            Stream::Tls(stream) => {
                stream.write(slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| &slice[..]))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_all().map(drop)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.socket().as_fd(),
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.register(registry, token, interests),
            Stream::Unix(stream) => stream.register(registry, token, interests),
            Stream::Tls(stream) => stream.socket_mut().register(registry, token, interests),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.reregister(registry, token, interests),
            Stream::Unix(stream) => stream.reregister(registry, token, interests),
            Stream::Tls(stream) => stream.socket_mut().reregister(registry, token, interests),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.deregister(registry),
            Stream::Unix(stream) => stream.deregister(registry),
            Stream::Tls(stream) => stream.socket_mut().deregister(registry),
        }
    }
}

/// An end of a connection, as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// An address and a port.
    Tcp(SocketAddr),
    /// The path of the server's Unix socket, for both ends.
    Unix(Arc<str>),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address::Tcp(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "{path}:0"),
        }
    }
}

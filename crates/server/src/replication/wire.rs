//! The connection of a link to its primary: TCP, or TLS over it.
//!
//! The link's thread reads, and waits for bytes without a lock. Under TLS a session is between the
//! socket and the bytes: its lock is held for one record of received bytes, or for a request, and
//! never while the socket is waited for, but by requests before the stream (`request`).
//!
//! Threads: the link's; any, for `try_send` and `cut`.

use crate::tls::{PrimaryTls, configure_client};
use parking_lot::Mutex;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

/// See the head of this file.
pub(super) struct Wire {
    socket: TcpStream,
    session: Option<Mutex<ClientConnection>>,
}

/// A socket whose calls do not wait.
struct Impatient<'s>(&'s TcpStream);

impl Read for Impatient<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0, bytes, RecvFlags::DONTWAIT)?.0)
    }
}

impl Write for Impatient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn odd(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// Sends what is encrypted, as much as the socket takes; whether that is all.
fn flush(session: &mut ClientConnection, mut socket: impl Write) -> io::Result<bool> {
    while session.wants_write() {
        match session.write_tls(&mut socket) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

impl Wire {
    /// Over a socket with its limits of time; `host` is the name that a certificate has to have.
    ///
    /// # Errors
    /// A file of the certificates is wrong, or the host is no name.
    pub(super) fn new(socket: TcpStream, tls: Option<&PrimaryTls>, host: &str) -> io::Result<Wire> {
        let session = match tls {
            None => None,
            Some(tls) => {
                let config = configure_client(tls).map_err(odd)?;
                let name = ServerName::try_from(host.to_string()).map_err(odd)?;
                Some(Mutex::new(ClientConnection::new(config, name).map_err(odd)?))
            }
        };
        Ok(Wire { socket, session })
    }

    /// Sends all of a request, and waits for the socket.
    pub(super) fn request(&self, mut bytes: &[u8]) -> io::Result<()> {
        let Some(session) = &self.session else { return (&self.socket).write_all(bytes) };
        let mut session = session.lock();
        while !bytes.is_empty() {
            let taken = session.writer().write(bytes)?;
            bytes = &bytes[taken..];
            if taken == 0 && session.is_handshaking() {
                // The rest has to wait for the other side.
                session.complete_io(&mut &self.socket)?;
            }
            if !flush(&mut session, &self.socket)? {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    /// Sends a request whole, or nothing if the socket does not take it at once.
    ///
    /// # Errors
    /// The connection is of no use any more.
    pub(super) fn try_send(&self, request: &[u8]) -> io::Result<()> {
        let Some(session) = &self.session else {
            return match Impatient(&self.socket).write(request) {
                Ok(sent) if sent == request.len() => Ok(()),
                Ok(_) => Err(ErrorKind::WriteZero.into()), // half a request
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
                Err(error) => Err(error),
            };
        };
        let mut session = session.lock();
        if flush(&mut session, Impatient(&self.socket))? {
            session.writer().write_all(request)?;
            flush(&mut session, Impatient(&self.socket))?;
        }
        Ok(())
    }

    /// Some of the bytes that have come; waits for them as long as the socket does.
    pub(super) fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let Some(session) = &self.session else { return (&self.socket).read(bytes) };
        loop {
            let ended = {
                let mut session = session.lock();
                flush(&mut session, Impatient(&self.socket))?;
                match session.reader().read(bytes) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    other => return other,
                }
                match session.read_tls(&mut Impatient(&self.socket)) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                    received => {
                        let count = received?;
                        let done = session.process_new_packets().map(drop);
                        // The reason of a refusal goes to the primary.
                        let sent = flush(&mut session, Impatient(&self.socket));
                        done.map_err(odd)?;
                        sent?;
                        Some(count == 0)
                    }
                }
            };
            match ended {
                Some(true) => return Ok(0),
                Some(false) => {}
                // Waits for bytes, with no lock.
                None => drop(self.socket.peek(&mut [0])?),
            }
        }
    }

    /// Ends the connection.
    pub(super) fn cut(&self) {
        let _ = self.socket.shutdown(Shutdown::Both); // it may be gone already
    }
}

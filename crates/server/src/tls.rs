//! TLS: certificates from files, and a connection over a socket that does not block.
//!
//! The library turns bytes of the socket into bytes of the client and back, and does no I/O of its
//! own, so the event loop drives it as it drives a plain socket. The cost of handshakes is
//! bounded: so many at a time ([`Handshakes`]), each for so long, and so many steps in an iteration
//! as connections are accepted in one.
//!
//! Threads: the event loop alone.

use mio::net::TcpStream;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection};
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Handshakes under way at most; further connections wait in the system's queue.
const HANDSHAKES_MAX: usize = 256;
/// A client that has not shown in this time that it speaks TLS is disconnected.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// TLS connections accepted between two iterations: each may cost a signature.
pub(crate) const ACCEPTED_MAX: usize = 16;
/// Bytes that are encrypted ahead of the socket at most.
const BUFFERED_MAX: usize = 64 * 1024;

/// Whether clients have to show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// They have to.
    #[default]
    Required,
    /// One that is shown has to be right.
    Optional,
    /// None is asked for.
    None,
}

/// TLS of a server.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Address and port to listen on; port 0 takes a free one.
    pub address: String,
    /// The server's certificate, and those between it and its root, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
    /// The roots of clients' certificates, in PEM.
    pub roots: Option<PathBuf>,
    /// Whether clients have to show one.
    pub clients: ClientCertificates,
}

/// TLS of a replica's connection to its primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryTls {
    /// The roots of the primary's certificate, in PEM. It has to have the name by which the
    /// primary is connected to.
    pub roots: PathBuf,
    /// The certificate that the primary is shown, and its private key, in PEM.
    pub shown: Option<(PathBuf, PathBuf)>,
}

fn wrong<E: Display>(what: &'static str, path: &Path) -> impl Fn(E) -> String {
    let path = path.display().to_string();
    move |error| format!("TLS: {what} {path}: {error}")
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).map_err(wrong(what, path))?;
    let list = read.collect::<Result<Vec<_>, _>>().map_err(wrong(what, path))?;
    if list.is_empty() {
        return Err(wrong(what, path)("it holds no certificate in PEM"));
    }
    Ok(list)
}

/// The configuration that the files give; an error names the file and its fault.
pub(crate) fn configure(options: &TlsOptions) -> Result<Arc<ServerConfig>, String> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let certificate = certificates("the certificate", &options.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&options.key).map_err(wrong("the private key", &options.key))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?;
    let builder = match (options.clients, &options.roots) {
        (ClientCertificates::None, _) => builder.with_no_client_auth(),
        (_, None) => {
            return Err("TLS: clients have to show certificates, and no file says by which root: give \
                        `tls-ca-cert-file`, or `tls-auth-clients = \"no\"`"
                .into());
        }
        (clients, Some(path)) => {
            let roots = root_store("the roots of clients", path)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier =
                if clients == ClientCertificates::Optional { verifier.allow_unauthenticated() } else { verifier };
            builder.with_client_cert_verifier(verifier.build().map_err(wrong("the roots of clients", path))?)
        }
    };
    let config = builder.with_single_cert(certificate, key);
    Ok(Arc::new(config.map_err(wrong("the certificate and its key,", &options.certificate))?))
}

fn root_store(what: &'static str, path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for root in certificates(what, path)? {
        roots.add(root).map_err(wrong(what, path))?;
    }
    Ok(roots)
}

/// The same for the connection to a primary.
pub(crate) fn configure_client(options: &PrimaryTls) -> Result<Arc<ClientConfig>, String> {
    let roots = root_store("the roots of the primary", &options.roots)?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots);
    let Some((certificate, key_file)) = &options.shown else { return Ok(Arc::new(builder.with_no_client_auth())) };
    let shown = certificates("the certificate", certificate)?;
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(wrong("the private key", key_file))?;
    let config = builder.with_client_auth_cert(shown, key);
    Ok(Arc::new(config.map_err(wrong("the certificate and its key,", certificate))?))
}

/// A connection. See the head of this file.
pub(crate) struct TlsStream {
    socket: TcpStream,
    session: ServerConnection,
}

impl TlsStream {
    /// Bytes of memory that a connection holds, about.
    pub(crate) const MEMORY: usize = 2 * BUFFERED_MAX;

    /// A connection that was accepted.
    pub(crate) fn new(socket: TcpStream, config: Arc<ServerConfig>) -> Result<TlsStream, rustls::Error> {
        let mut session = ServerConnection::new(config)?;
        session.set_buffer_limit(Some(BUFFERED_MAX));
        Ok(TlsStream { socket, session })
    }

    /// The socket beneath.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The same.
    pub(crate) fn socket_mut(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Whether the client has not shown yet that it speaks TLS.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Sends what is encrypted; whether all of it has left.
    pub(crate) fn send(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Read for TlsStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            match self.session.read_tls(&mut self.socket) {
                Ok(0) => return Ok(0),
                Ok(_) => {
                    let done = self.session.process_new_packets();
                    // The reason of a refusal goes to the client; a broken connection shows below.
                    let sent = self.send();
                    done.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                    sent?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.send()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.session.writer().write(bytes)?;
        self.send()?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send().map(drop)
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        // Best effort: the client learns that nothing was cut off.
        self.session.send_close_notify();
        let _ = self.send();
    }
}

/// Handshakes under way: slots, clients, and when they began.
#[derive(Default)]
pub(crate) struct Handshakes {
    list: Vec<(usize, u64, Instant)>,
}

impl Handshakes {
    /// A connection was accepted.
    pub(crate) fn add(&mut self, slot: usize, client: u64, now: Instant) {
        self.list.push((slot, client, now));
    }

    /// Whether a connection more may be accepted, once those are forgotten that are `over`.
    pub(crate) fn has_room(&mut self, over: impl Fn(usize, u64) -> bool) -> bool {
        if self.list.len() >= HANDSHAKES_MAX {
            self.list.retain(|(slot, client, _)| !over(*slot, *client));
        }
        self.list.len() < HANDSHAKES_MAX
    }

    /// Those that take too long; ones that are `over` are forgotten.
    pub(crate) fn late(&mut self, now: Instant, over: impl Fn(usize, u64) -> bool) -> Vec<(usize, u64)> {
        self.list.retain(|(slot, client, _)| !over(*slot, *client));
        let late = |began: &Instant| now.saturating_duration_since(*began) > HANDSHAKE_TIME;
        self.list.iter().filter(|(.., began)| late(began)).map(|(slot, client, _)| (*slot, *client)).collect()
    }
}

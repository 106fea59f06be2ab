//! The connection to a server: TCP, a Unix socket, or TLS over TCP. Waits are bounded.

use crate::args::TopArgs;
use crate::failure::Failure;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fmt::Display;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// The wait for bytes.
const SILENCE: Duration = Duration::from_secs(10);

/// Both directions.
pub(super) trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

fn unreachable(args: &TopArgs) -> impl Fn(io::Error) -> Failure + '_ {
    |error| {
        let advice = "see whether `everbyte serve` runs there and listens on this address";
        Failure::System(format!("{}: cannot connect: {error}; {advice}", args.address))
    }
}

/// Connects as the arguments say.
pub(super) fn connect(args: &TopArgs) -> Result<Box<dyn Wire>, Failure> {
    let address = args.address.as_str();
    if address.contains('@') {
        let text = "give user and password by --user and EVERBYTE_TOP_PASSWORD, and not in the address";
        return Err(Failure::Words(text.into()));
    }
    if let Some(rest) = address.strip_prefix("rediss://") {
        return Ok(Box::new(secure(args, rest)?));
    }
    if args.tls_ca_cert_file.is_some() || args.tls_cert_file.is_some() {
        return Err(Failure::Words("certificates are for TLS: give the address as rediss://HOST:PORT".into()));
    }
    match address.strip_prefix("redis://") {
        Some(rest) => Ok(Box::new(tcp(args, rest)?)),
        None if address.contains('/') => {
            let stream = UnixStream::connect(address).map_err(unreachable(args))?;
            stream.set_read_timeout(Some(SILENCE)).map_err(unreachable(args))?;
            stream.set_write_timeout(Some(SILENCE)).map_err(unreachable(args))?;
            Ok(Box::new(stream))
        }
        None => Ok(Box::new(tcp(args, address)?)),
    }
}

/// A host and port, the port that of `serve` where none is given.
fn place(address: &str) -> String {
    let address = address.trim_end_matches('/');
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    if has_port { address.into() } else { format!("{address}:6380") }
}

fn tcp(args: &TopArgs, address: &str) -> Result<TcpStream, Failure> {
    let failed = unreachable(args);
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in place(address).to_socket_addrs().map_err(&failed)? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(SILENCE)).map_err(&failed)?;
                stream.set_write_timeout(Some(SILENCE)).map_err(&failed)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

fn secure(args: &TopArgs, address: &str) -> Result<StreamOwned<ClientConnection, TcpStream>, Failure> {
    let Some(roots_file) = &args.tls_ca_cert_file else {
        return Err(Failure::Words("TLS needs the roots of the server's certificate: --tls-ca-cert-file FILE".into()));
    };
    let mut roots = RootCertStore::empty();
    for root in certificates(roots_file)? {
        roots.add(root).map_err(wrong(roots_file))?;
    }
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(wrong(roots_file))?.with_root_certificates(roots);
    let config = match (&args.tls_cert_file, &args.tls_key_file) {
        (Some(shown), Some(key_file)) => {
            let key = PrivateKeyDer::from_pem_file(key_file).map_err(wrong(key_file))?;
            builder.with_client_auth_cert(certificates(shown)?, key).map_err(wrong(shown))?
        }
        _ => builder.with_no_client_auth(),
    };
    let place = place(address);
    let host = place.rsplit_once(':').map_or(place.as_str(), |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
    let no_name = |_| Failure::Words(format!("{address}: no name that a certificate could have"));
    let name = ServerName::try_from(host).map_err(no_name)?;
    let failed = |error: rustls::Error| Failure::System(format!("{}: TLS: {error}", args.address));
    let session = ClientConnection::new(Arc::new(config), name).map_err(failed)?;
    Ok(StreamOwned::new(session, tcp(args, address)?))
}

fn wrong<E: Display>(path: &Path) -> impl Fn(E) -> Failure + '_ {
    |error| Failure::Words(format!("{}: {error}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let list: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(wrong(path))?.collect();
    let list = list.map_err(wrong(path))?;
    if list.is_empty() { Err(wrong(path)("it holds no certificate in PEM")) } else { Ok(list) }
}

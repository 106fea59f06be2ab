//! TLS: clients with and without certificates, certificates that are renewed, and peers that do not
//! speak it. The keys in `testdata/tls` are for these tests alone.

use crate::common::{Ours, PATIENCE, Reply, command, figure, table};
use everbyte_server::{ClientCertificates, Handle, Options, PrimaryTls, Server, TlsOptions};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

fn file(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/tls")).join(name)
}

fn options(clients: ClientCertificates) -> TlsOptions {
    TlsOptions {
        address: "127.0.0.1:0".into(),
        certificate: file("server.pem"),
        key: file("server.key"),
        roots: Some(file("root.pem")),
        clients,
    }
}

struct Secure {
    plain: SocketAddr,
    address: SocketAddr,
    handle: Handle,
    thread: Option<JoinHandle<everbyte_server::Result<()>>>,
    _dir: tempfile::TempDir,
}

fn start(tls: TlsOptions) -> Secure {
    start_with(Options { tls: Some(tls), signals: true, ..Options::default() })
}

fn start_with(options: Options) -> Secure {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { address: "127.0.0.1:0".into(), ..options };
    let server = Server::bind(table(dir.path()), options).unwrap();
    let (plain, address, handle) = (server.address(), server.tls_address().unwrap(), server.handle());
    Secure { plain, address, handle, thread: Some(std::thread::spawn(move || server.run())), _dir: dir }
}

impl Drop for Secure {
    fn drop(&mut self) {
        self.handle.stop();
        let result = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            result.unwrap().unwrap();
        }
    }
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A client that trusts the root, and shows this certificate or none.
fn connect(address: SocketAddr, shows: Option<&str>) -> Stream {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("root.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let config = match shows {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let certificate = CertificateDer::from_pem_file(file(&format!("{name}.pem"))).unwrap();
            let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key"))).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    let session = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    StreamOwned::new(session, socket)
}

/// Everything that is answered until the server closes the connection.
fn ask(stream: &mut Stream, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(&[bytes, &command(&["QUIT"])].concat())?;
    let mut seen = Vec::new();
    stream.read_to_end(&mut seen)?;
    Ok(seen)
}

/// Small and large requests and replies go through, whatever their records.
#[test]
fn requests_and_replies_go_through_whole() {
    let us = start(options(ClientCertificates::Required));
    let mut client = connect(us.address, Some("client"));
    assert_eq!(ask(&mut client, &command(&["PING"])).unwrap(), b"+PONG\r\n+OK\r\n");
    let value: Vec<u8> = (0..5_000_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut client = connect(us.address, Some("client"));
    let requests = [command(&[&b"SET"[..], b"k", &value]), command(&["GET", "k"]).repeat(10)].concat();
    let seen = ask(&mut client, &requests).unwrap();
    let reply = [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat();
    assert!(seen == [b"+OK\r\n", &reply.repeat(10)[..], b"+OK\r\n"].concat(), "{} bytes", seen.len());
    let mut client = connect(us.address, Some("client"));
    let many = command(&["INCR", "n"]).repeat(10_000);
    assert!(ask(&mut client, &many).unwrap().ends_with(b":10000\r\n+OK\r\n"));
}

/// A certificate is asked for as the options say; a wrong one is refused, and says why.
#[test]
fn clients_show_certificates_as_the_options_say() {
    for (clients, none, stranger) in [
        (ClientCertificates::Required, false, false),
        (ClientCertificates::Optional, true, false),
        (ClientCertificates::None, true, true),
    ] {
        let us = start(options(clients));
        for (shows, taken) in [(None, none), (Some("stranger"), stranger), (Some("client"), true)] {
            let result = ask(&mut connect(us.address, shows), &command(&["PING"]));
            assert_eq!(result.is_ok(), taken, "{clients:?} {shows:?} {result:?}");
        }
    }
}

/// Files that cannot be used are named before the server starts.
#[test]
fn wrong_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let right = || options(ClientCertificates::Required);
    for (tls, words) in [
        (TlsOptions { certificate: "/none.pem".into(), ..right() }, &["the certificate /none.pem"][..]),
        (TlsOptions { certificate: empty.clone(), ..right() }, &["empty.pem", "no certificate"]),
        (TlsOptions { key: empty.clone(), ..right() }, &["the private key", "empty.pem"]),
        (TlsOptions { key: file("client.key"), ..right() }, &["server.pem"]),
        (TlsOptions { roots: None, ..right() }, &["tls-ca-cert-file", "tls-auth-clients"]),
        (TlsOptions { roots: Some(empty.clone()), ..right() }, &["the roots of clients", "empty.pem"]),
    ] {
        let place = dir.path().join(words.concat().replace(['/', ' '], "-"));
        let options = Options { address: "127.0.0.1:0".into(), tls: Some(tls), ..Options::default() };
        let error = Server::bind(table(&place), options).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}

/// SIGHUP reads the files again: connections to come get the new certificate, open ones stay. Wrong
/// files change nothing.
#[test]
fn certificates_are_renewed() {
    let dir = tempfile::tempdir().unwrap();
    let copy = |from: &str, to: &str| {
        std::fs::copy(file(from), dir.path().join(to)).unwrap();
    };
    copy("server.pem", "c.pem");
    copy("server.key", "c.key");
    let tls = TlsOptions {
        certificate: dir.path().join("c.pem"),
        key: dir.path().join("c.key"),
        ..options(ClientCertificates::None)
    };
    let us = start(tls);
    let mut old = connect(us.address, None);
    old.write_all(&command(&["PING"])).unwrap();
    old.read_exact(&mut [0; 7]).unwrap();
    let hang_up = || rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP).unwrap();
    copy("client.key", "c.key");
    hang_up();
    assert_eq!(ask(&mut connect(us.address, None), &command(&["PING"])).unwrap(), b"+PONG\r\n+OK\r\n");
    // One that no client here trusts.
    copy("stranger.pem", "c.pem");
    copy("stranger.key", "c.key");
    hang_up();
    while ask(&mut connect(us.address, None), &command(&["PING"])).is_ok() {}
    assert_eq!(ask(&mut old, &command(&["PING"])).unwrap(), b"+PONG\r\n+OK\r\n");
}

/// CONFIG SET names other files: they are checked together, and nothing changes if one is wrong.
#[test]
fn certificates_are_changed_by_config_set() {
    let us = start(options(ClientCertificates::None));
    let mut plain = crate::common::Client::connect(us.plain);
    let path = |name: &str| file(name).display().to_string();
    let (certificate, key, root) = (path("stranger.pem"), path("stranger.key"), path("root.pem"));
    for (words, why) in [
        (&["tls-cert-file", &*certificate][..], "stranger.pem"), // with the key of another one
        (&["tls-cert-file", "/none.pem", "tls-key-file", &key], "/none.pem"),
        (&["maxclients", "7", "tls-key-file", &root], "root.pem"),
    ] {
        match plain.call(&[&["CONFIG", "SET"], words].concat()) {
            Reply::Error(text) => assert!(text.contains("CONFIG SET failed") && text.contains(why), "{text}"),
            other => panic!("{words:?}: {other:?}"),
        }
    }
    let shown = plain.call(&["CONFIG", "GET", "tls-cert-file", "maxclients"]);
    let bulk = |text: &str| Reply::Bulk(text.into());
    let expect = [bulk("tls-cert-file"), bulk(&path("server.pem")), bulk("maxclients"), bulk("10000")];
    assert_eq!(shown, Reply::List(expect.into()));
    assert_eq!(ask(&mut connect(us.address, None), &command(&["PING"])).unwrap(), b"+PONG\r\n+OK\r\n");
    let set = plain.call(&["CONFIG", "SET", "tls-cert-file", &certificate, "tls-key-file", &key]);
    assert_eq!(set, Reply::Simple("OK".into()));
    assert!(ask(&mut connect(us.address, None), &command(&["PING"])).is_err(), "no client here trusts it");
    let shown = plain.call(&["CONFIG", "GET", "tls-cert-file"]);
    assert_eq!(shown, Reply::List(vec![bulk("tls-cert-file"), bulk(&certificate)]));
    // A server without TLS has none to change.
    let refused = Ours::start().client().call(&["CONFIG", "SET", "tls-cert-file", &certificate]);
    assert!(matches!(&refused, Reply::Error(text) if text.contains("tls-port")), "{refused:?}");
}

/// The value of a line of INFO replication.
fn replication(us: &Secure, name: &str) -> String {
    let mut client = crate::common::Client::connect(us.plain);
    let text = String::from_utf8(client.call(&["INFO", "replication"]).bytes()).unwrap();
    let found = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_string));
    found.unwrap_or_else(|| panic!("no {name} in {text}"))
}

fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < end, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// A replica that speaks TLS to its primary, or tries to.
fn replica_of(primary: &Secure, roots: &str, shown: &str) -> Secure {
    let shown = Some((file(&format!("{shown}.pem")), file(&format!("{shown}.key"))));
    start_with(Options {
        tls: Some(options(ClientCertificates::Required)),
        primary_tls: Some(PrimaryTls { roots: file(roots), shown }),
        replica_of: Some(("localhost".into(), primary.address.port())),
        ..Options::default()
    })
}

/// Replication over TLS alone: keys large and small, acknowledgements, and a failover to and fro by
/// the ports of TLS.
#[test]
fn a_replica_speaks_tls_to_its_primary() {
    let one = start_with(Options {
        tls: Some(options(ClientCertificates::Required)),
        primary_tls: Some(PrimaryTls {
            roots: file("root.pem"),
            shown: Some((file("client.pem"), file("client.key"))),
        }),
        ..Options::default()
    });
    let other = replica_of(&one, "root.pem", "client");
    let mut client = crate::common::Client::connect(one.plain);
    let large = "0123456789".repeat(600_000);
    for words in [&["SET", "large", &large][..], &["RPUSH", "list", "a", "b"]] {
        assert!(!matches!(client.call(words), Reply::Error(_)), "{}", words[0]);
    }
    await_that("the replica is connected", || replication(&other, "master_link_status") == "up");
    assert_eq!(client.call(&["WAIT", "1", "60000"]), Reply::Integer(1));
    let mut reader = crate::common::Client::connect(other.plain);
    assert!(reader.call(&["GET", "large"]) == Reply::Bulk(large.clone().into()));
    // Acknowledgements come as the writes are settled, and not with the next heartbeat.
    let began = std::time::Instant::now();
    for number in 0..20 {
        client.call(&["SET", "n", &number.to_string()]);
        assert_eq!(client.call(&["WAIT", "1", "60000"]), Reply::Integer(1));
    }
    println!("20 writes were acknowledged in {:?}", began.elapsed());
    let port = other.address.port().to_string();
    assert_eq!(client.call(&["FAILOVER", "TO", "127.0.0.1", &port, "TIMEOUT", "60000"]), Reply::Simple("OK".into()));
    await_that("the replica takes over", || replication(&other, "role") == "master");
    await_that("the primary follows", || {
        replication(&one, "role") == "slave" && replication(&one, "master_link_status") == "up"
    });
    assert_eq!(reader.call(&["SET", "after", "failover"]), Reply::Simple("OK".into()));
    await_that("the change comes", || client.call(&["GET", "after"]) == Reply::Bulk("failover".into()));
}

/// Neither side takes a wrong certificate of the other, and the replica says why.
#[test]
fn wrong_certificates_end_the_link() {
    let primary = start(options(ClientCertificates::Required));
    for (roots, shown, why) in [("stranger.pem", "client", "UnknownIssuer"), ("root.pem", "stranger", "nknown")] {
        let replica = replica_of(&primary, roots, shown);
        await_that("the link is refused", || !replication(&replica, "replica_error").is_empty());
        let error = replication(&replica, "replica_error");
        assert!(error.contains(why) && replication(&replica, "master_link_status") == "down", "{error}");
    }
    let missing = Options {
        address: "127.0.0.1:0".into(),
        primary_tls: Some(PrimaryTls { roots: "/none.pem".into(), shown: None }),
        ..Options::default()
    };
    let dir = tempfile::tempdir().unwrap();
    let error = Server::bind(table(dir.path()), missing).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("the roots of the primary /none.pem"), "{error}");
}

/// Peers that do not speak TLS hold little, and keep no others from coming.
#[test]
fn peers_that_do_not_speak_tls_are_bounded() {
    let us = start(options(ClientCertificates::None));
    let mut plain = crate::common::Client::connect(us.plain);
    let mut talker = TcpStream::connect(us.address).unwrap();
    talker.set_read_timeout(Some(PATIENCE)).unwrap();
    talker.write_all(&command(&["PING"])).unwrap();
    let mut seen = Vec::new();
    // The end may be a reset, as the rest of the request was not read.
    let _ = talker.read_to_end(&mut seen);
    assert!(!seen.starts_with(b"+PONG"));
    let silent: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(us.address).unwrap()).collect();
    while figure(&mut plain, "connected_clients") < 257 {}
    assert_eq!(plain.call(&["SET", "k", "v"]), Reply::Simple("OK".into()));
    assert!(figure(&mut plain, "connected_clients") <= 257, "handshakes under way are bounded");
    drop(silent);
    assert_eq!(ask(&mut connect(us.address, None), &command(&["PING"])).unwrap(), b"+PONG\r\n+OK\r\n");
}

/// redis-cli, if it was built with TLS.
#[test]
fn redis_cli_speaks_tls() {
    let us = start(options(ClientCertificates::Required));
    let output = std::process::Command::new("redis-cli")
        .args(["-h", "127.0.0.1", "-p", &us.address.port().to_string(), "--tls", "--cacert"])
        .arg(file("root.pem"))
        .arg("--cert")
        .arg(file("client.pem"))
        .arg("--key")
        .arg(file("client.key"))
        .args(["SET", "k", "v"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(said.trim() == "OK" || said.contains("Unrecognized option"), "{said}");
    // Without TLS nothing changes.
    assert_eq!(Ours::start().client().call(&["PING"]), Reply::Simple("PONG".into()));
}

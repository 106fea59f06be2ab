//! Unix sockets, limits of connections, and pauses of clients.

use crate::common::{Client, Ours, PATIENCE, Reply, command, figure};
use everbyte_server::{Options, Server, SoftLimit};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

fn ask(path: &Path, words: &[&str]) -> Vec<u8> {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[command(words), command(&["QUIT"])].concat()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

fn on(path: &Path) -> Options {
    Options { unix_socket: Some(path.to_path_buf()), address: "127.0.0.1:0".into(), ..Options::default() }
}

fn refusal(dir: &Path, options: Options) -> String {
    let table = crate::common::table(&dir.join(format!("table{}", std::fs::read_dir(dir).unwrap().count())));
    Server::bind(table, options).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn a_unix_socket_is_served_and_its_file_goes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    for mode in [0o700, 0o770] {
        let us = Ours::with(Options { unix_mode: mode, ..on(&path) });
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        assert_eq!(ask(&path, &["SET", "k", "v"]), b"+OK\r\n+OK\r\n");
        let info = String::from_utf8(ask(&path, &["CLIENT", "INFO"])).unwrap();
        let shown = path.display();
        assert!(info.contains(&format!(" addr={shown}:0 laddr={shown}:0 ")) && info.contains("flags=U "), "{info}");
        assert_eq!(us.client().call(&["GET", "k"]), Reply::Bulk(b"v".to_vec()));
        drop(us);
        assert!(!path.exists());
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// The socket of a dead server is replaced; that of a living one, and any other file, is not.
#[test]
fn only_a_stale_socket_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let us = Ours::with(on(&path));
    assert_eq!(ask(&path, &["PING"]), b"+PONG\r\n+OK\r\n");
    assert!(refusal(dir.path(), on(&path)).contains("another server has it"));
    assert_eq!(ask(&path, &["PING"]), b"+PONG\r\n+OK\r\n");
    drop(us);
    std::fs::write(&path, "precious").unwrap();
    assert!(refusal(dir.path(), on(&path)).contains("cannot listen on"));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let nowhere = dir.path().join("none").join("socket");
    assert!(refusal(dir.path(), on(&nowhere)).contains("cannot listen on"));
    let long = dir.path().join("s".repeat(200));
    assert!(refusal(dir.path(), on(&long)).contains("cannot listen on"));
}

/// A password is asked for on every socket.
#[test]
fn a_unix_socket_asks_for_the_password() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let _us = Ours::with(Options { password: everbyte_server::Password::new("p"), ..on(&path) });
    assert!(ask(&path, &["GET", "k"]).starts_with(b"-NOAUTH"));
}

/// A silent client is disconnected, one that waits or subscribes is not.
#[test]
fn silent_clients_are_disconnected() {
    let us = Ours::with(Options { idle_max: Duration::from_secs(5), ..Options::default() });
    let [mut silent, mut waiting, mut listening] = std::array::from_fn(|_| us.client());
    waiting.send(&command(&["BLPOP", "q", "0"]));
    listening.call(&["SUBSCRIBE", "c"]);
    assert_eq!(silent.call(&["PING"]), Reply::Simple("PONG".into()));
    silent.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(silent.stream.read(&mut [0]).unwrap(), 0);
    let mut other = us.client();
    assert_eq!(other.call(&["PUBLISH", "c", "x"]), Reply::Integer(1));
    assert_eq!(other.call(&["RPUSH", "q", "x"]), Reply::Integer(1));
    assert_eq!(waiting.reply().list().len(), 2);
    assert_eq!(listening.reply().list().len(), 3);
}

/// Clients above the hard limit, and above the soft one for its time, are disconnected; a client
/// that reads nothing while it pipelines makes little wait.
#[test]
fn what_waits_for_a_client_is_bounded() {
    let hard = Options { reply_size_max: 100_000, ..Options::default() };
    let soft = SoftLimit { size: 100_000, time: Duration::ZERO };
    for options in [hard, Options { reply_soft: soft, ..Options::default() }] {
        let us = Ours::with(options);
        let mut other = us.client();
        other.call(&["SET", "k", &"v".repeat(8 << 20)]);
        let mut deaf = us.client();
        deaf.send(&command(&["GET", "k"]));
        while figure(&mut other, "over_limit_connections") == 0 {}
        while figure(&mut other, "connected_clients") > 1 {}
    }
    let us = Ours::start();
    let mut other = us.client();
    other.call(&["SET", "k", &"v".repeat(100_000)]);
    let mut deaf = us.client();
    deaf.stream.set_nonblocking(true).unwrap();
    let requests = command(&["GET", "k"]).repeat(1000);
    let mut sent = 0;
    while let Ok(count) = deaf.stream.write(&requests) {
        sent += count;
        assert!(sent < 1 << 30, "a deaf client may send without end");
    }
    // Above the soft limit nothing more is executed for it, so it is one reply beyond at most.
    while figure(&mut other, "clients_output_bytes") <= 1 << 20 {}
    assert!(figure(&mut other, "clients_output_bytes") < 3 << 20);
    assert_eq!(figure(&mut other, "connected_clients"), 2);
}

/// In a pause of writers these wait, and readers do not; UNPAUSE lets them go on, in order.
#[test]
fn a_pause_postpones_writers() {
    let us = Ours::start();
    let [mut admin, mut writer, mut leaver, mut reader] = std::array::from_fn(|_| us.client());
    assert_eq!(admin.call(&["CLIENT", "PAUSE", "100000000", "WRITE"]), Reply::Simple("OK".into()));
    writer.send(&[command(&["SET", "k", "1"]), command(&["INCR", "k"]), command(&["GET", "k"])].concat());
    leaver.send(&command(&["SET", "left", "1"]));
    while figure(&mut admin, "blocked_clients") < 2 {}
    assert_eq!(reader.call(&["GET", "k"]), Reply::Null);
    assert!(matches!(reader.call(&["SET"]), Reply::Error(_)), "a request that makes no sense does not wait");
    drop(leaver);
    while figure(&mut admin, "connected_clients") > 3 {}
    assert_eq!(admin.call(&["CLIENT", "UNPAUSE"]), Reply::Simple("OK".into()));
    assert_eq!(writer.reply(), Reply::Simple("OK".into()));
    assert_eq!((writer.reply(), writer.reply()), (Reply::Integer(2), Reply::Bulk(b"2".to_vec())));
    assert_eq!(reader.call(&["GET", "left"]), Reply::Null);
    // A pause of all ends by itself.
    assert_eq!(admin.call(&["CLIENT", "PAUSE", "50"]), Reply::Simple("OK".into()));
    assert_eq!(reader.call(&["GET", "k"]), Reply::Bulk(b"2".to_vec()));
}

/// CLIENT KILL by each filter, of parked, waiting and silent clients.
#[test]
fn clients_are_ended_by_filter() {
    let us = Ours::start();
    let mut admin = us.client();
    admin.call(&["ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*"]);
    let own = match admin.call(&["CLIENT", "ID"]) {
        Reply::Integer(id) => id,
        other => panic!("{other:?}"),
    };
    let mut ended = |words: &[&str], prepare: &[&str]| {
        let mut victim: Client = us.client();
        victim.send(&command(prepare));
        let id = if prepare[0] == "BLPOP" {
            while figure(&mut admin, "blocked_clients") == 0 {}
            0
        } else {
            victim.reply();
            match victim.call(&["CLIENT", "ID"]) {
                Reply::Integer(id) => id,
                _ => 0,
            }
        };
        let (id, address) = (id.to_string(), victim.stream.local_addr().unwrap().to_string());
        let words: Vec<&str> = words
            .iter()
            .map(|word| {
                if *word == "ID?" {
                    &id[..]
                } else if *word == "ADDR?" {
                    &address[..]
                } else {
                    word
                }
            })
            .collect();
        let reply = admin.call(&[&["CLIENT", "KILL"], &words[..]].concat());
        let expect = if words.len() == 1 { Reply::Simple("OK".into()) } else { Reply::Integer(1) };
        assert_eq!(reply, expect, "{words:?}");
        victim.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(victim.stream.read(&mut [0; 10]).unwrap_or(0), 0, "{words:?}");
    };
    ended(&["ID", "ID?"], &["PING"]);
    ended(&["ADDR?"], &["PING"]);
    ended(&["ADDR", "ADDR?", "TYPE", "normal"], &["PING"]);
    ended(&["TYPE", "normal", "SKIPME", "yes"], &["BLPOP", "q", "0"]);
    ended(&["USER", "u"], &["AUTH", "u", "x"]);
    assert_eq!(admin.call(&["CLIENT", "KILL", "TYPE", "pubsub"]), Reply::Integer(0));
    assert_eq!(admin.call(&["CLIENT", "KILL", "ID", &own.to_string()]), Reply::Integer(0));
    assert_eq!(admin.call(&["CLIENT", "KILL", "ID", &own.to_string(), "SKIPME", "no"]), Reply::Integer(1));
    admin.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(admin.stream.read(&mut [0]).unwrap(), 0);
}

/// A service manager hears that clients are served, and that the server ends.
#[test]
fn the_service_manager_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("manager");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let heard = || {
        let mut bytes = [0; 64];
        let count = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    let mut us = Ours::with(Options { supervisor: Some(path.clone().into()), ..Options::default() });
    assert_eq!(heard(), "READY=1");
    us.client().send(&command(&["SHUTDOWN"]));
    us.join().unwrap();
    assert_eq!(heard(), "STOPPING=1");
    // One that cannot be told changes nothing.
    drop(manager);
    let us = Ours::with(Options { supervisor: Some(path.into()), ..Options::default() });
    assert_eq!(us.client().call(&["PING"]), Reply::Simple("PONG".into()));
}

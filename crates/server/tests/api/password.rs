//! Clients before and after the password.

use crate::common::{Client, Ours, PATIENCE, Reply, command, figure};
use everbyte_media::museum;
use everbyte_server::{Options, Password};
use std::io::{Read, Write};

fn protected() -> Ours {
    Ours::with(Options { password: Password::new("sesame"), ..Options::default() })
}

fn authenticated(us: &Ours) -> Client {
    let mut client = us.client();
    assert_eq!(client.call(&["AUTH", "sesame"]), Reply::Simple("OK".into()));
    client
}

/// Every command of the table, by its shortest form.
pub(crate) fn commands(client: &mut Client) -> Vec<(Vec<String>, bool)> {
    fn walk(row: &Reply, found: &mut Vec<(Vec<String>, bool)>) {
        let Reply::List(fields) = row else { return };
        let (Reply::Bulk(name), Reply::Integer(arity)) = (&fields[0], &fields[1]) else { panic!("{row:?}") };
        let Reply::List(parts) = &fields[9] else { panic!("{row:?}") };
        let Reply::List(flags) = &fields[2] else { panic!("{row:?}") };
        parts.iter().for_each(|part| walk(part, found));
        if parts.is_empty() {
            let mut words: Vec<String> = String::from_utf8_lossy(name).split('|').map(str::to_string).collect();
            words.resize(arity.unsigned_abs() as usize, "1".into());
            found.push((words, flags.contains(&Reply::Simple("no_auth".into()))));
        }
    }
    let mut found = Vec::new();
    client.call(&["COMMAND"]).list().iter().for_each(|row| walk(row, &mut found));
    found
}

/// Every command that the table does not exempt is refused before the password, and does nothing.
fn every_command_is_refused(us: &Ours) -> Result<(), String> {
    let mut known = authenticated(us);
    let (all, mut exempt) = (commands(&mut known), Vec::new());
    assert!(all.len() > 100);
    let mut stranger = us.client();
    for (words, free) in all {
        if free {
            exempt.push(words[0].clone());
            continue;
        }
        let reply = stranger.call(&words);
        if reply != Reply::Error("NOAUTH Authentication required.".into()) {
            let discarded = matches!(&reply, Reply::Error(text) if text.contains("because of: NOAUTH"));
            if !(words == ["exec"] && discarded) {
                return Err(format!("{words:?}: {reply:?}"));
            }
        }
    }
    exempt.sort();
    assert_eq!(exempt, ["auth", "hello", "host:", "post", "quit", "reset"]);
    assert_eq!(known.call(&["DBSIZE"]), Reply::Integer(0));
    Ok(())
}

#[test]
fn every_command_but_the_exempt_needs_the_password() {
    every_command_is_refused(&protected()).unwrap();
}

/// The seeded bug that lets commands through is found.
#[test]
fn a_server_that_asks_for_no_password_is_found() {
    use everbyte_server::Server;
    let dir = tempfile::tempdir().unwrap();
    let options = Options { address: "127.0.0.1:0".into(), password: Password::new("sesame"), ..Options::default() };
    let server = Server::bind(crate::common::table(dir.path()), options).unwrap();
    let (address, handle) = (server.address(), server.handle());
    let thread = std::thread::spawn(move || museum::with("server-no-auth", || server.run()));
    assert_eq!(Client::connect(address).call(&["SET", "k", "v"]), Reply::Simple("OK".into()));
    handle.stop();
    thread.join().unwrap().unwrap();
}

/// RESET, which every client may give, takes the password back.
#[test]
fn reset_forgets_the_password() {
    let us = protected();
    let mut client = authenticated(&us);
    assert_eq!(client.call(&["SET", "k", "v"]), Reply::Simple("OK".into()));
    assert_eq!(client.call(&["RESET"]), Reply::Simple("RESET".into()));
    assert_eq!(client.call(&["GET", "k"]), Reply::Error("NOAUTH Authentication required.".into()));
    assert_eq!(client.call(&["AUTH", "default", "sesame"]), Reply::Simple("OK".into()));
    assert_eq!(
        client.call(&["AUTH", "wrong"]),
        Reply::Error("WRONGPASS invalid username-password pair or user is disabled.".into())
    );
    assert_eq!(client.call(&["GET", "k"]), Reply::Bulk(b"v".to_vec()), "a wrong password changes nothing");
    assert_eq!(figure(&mut client, "acl_access_denied_auth"), 1);
}

/// The password is shown to clients that know it, by CONFIG GET, and nowhere else.
#[test]
fn the_password_is_not_shown() {
    let us = protected();
    let mut client = authenticated(&us);
    for words in [&["INFO", "everything"][..], &["CLIENT", "LIST"], &["CLIENT", "INFO"], &["COMMAND", "DOCS"]] {
        let shown = format!("{:?}", client.call(words));
        assert!(!shown.contains("sesame"), "{words:?}");
        // As a list of bytes, where the reply is a byte string.
        assert!(!shown.contains("115, 101, 115, 97, 109, 101"), "{words:?}");
    }
    let options = Options { password: Password::new("sesame"), ..Options::default() };
    assert!(!format!("{options:?}").contains("sesame"));
    let shown = client.call(&["CONFIG", "GET", "requirepass"]).list();
    assert_eq!(shown[1], Reply::Bulk(b"sesame".to_vec()));
    let mut stranger = us.client();
    for words in [&["AUTH", "x"][..], &["CONFIG", "GET", "*"], &["HELLO", "3", "AUTH", "default", "x"], &["INFO"]] {
        let reply = stranger.call(words);
        assert!(matches!(&reply, Reply::Error(text) if !text.contains("sesame")), "{reply:?}");
    }
}

/// A thousand strangers that declare much and send what they may cost little memory, and the rest
/// of their requests is not read.
#[test]
fn strangers_hold_little_memory() {
    let us = protected();
    let mut known = authenticated(&us);
    let mut strangers = Vec::from_iter((0..100).map(|_| us.client()));
    let half = [&b"*10\r\n"[..], &[&b"$16384\r\n"[..], &[b'x'; 16384], b"\r\n"].concat().repeat(9)].concat();
    for stranger in &mut strangers {
        stranger.send(&half);
    }
    while figure(&mut known, "clients_input_bytes") < 100 * half.len() as u64 {}
    let held = figure(&mut known, "clients_input_memory");
    assert!(held < 100 * (half.len() as u64 + (300 << 10)), "{held} bytes");
    for bytes in [&b"*11\r\n"[..], b"*2\r\n$4\r\nAUTH\r\n$16385\r\n"] {
        let mut stranger = us.client();
        stranger.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stranger.stream.write_all(bytes).unwrap();
        let mut seen = Vec::new();
        stranger.stream.read_to_end(&mut seen).unwrap();
        assert!(String::from_utf8_lossy(&seen).contains("Protocol error: unauthenticated"), "{seen:?}");
    }
    // A stranger that never reads its refusals is not read either.
    let mut deaf = us.client();
    deaf.stream.set_nonblocking(true).unwrap();
    let mut sent = 0;
    while let Ok(count) = deaf.stream.write(&command(&["GET", "a"]).repeat(1000)) {
        sent += count;
        assert!(sent < 1 << 30, "a stranger may send without end");
    }
    assert!(figure(&mut known, "clients_output_bytes") < 4 << 20);
    assert_eq!(known.call(&["PING"]), Reply::Simple("PONG".into()));
}

//! Users: what their clients may not do, and what becomes of these.

use crate::common::{Client, Ours, PATIENCE, Reply, command, figure};
use crate::password::commands;
use everbyte_media::museum;
use everbyte_server::{Options, Server};
use std::io::Read;

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

fn becomes(us: &Ours, user: &str) -> Client {
    let mut client = us.client();
    assert_eq!(client.call(&["AUTH", user, "p"]), ok());
    client
}

fn is_refused(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with("NOPERM") || text.contains("because of: NOPERM"))
}

/// Whether the server closes the connection.
fn ends(client: &mut Client) {
    client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut rest = Vec::new();
    // It may be a reset, if the server has not read all that was sent.
    let _ = client.stream.read_to_end(&mut rest);
}

/// Every command of the table but the exempt is refused to a user without rights, and does nothing;
/// so it is to one that has all commands, but no keys, if it is about keys.
fn every_command_is_refused(client: &mut Client) -> Result<(), String> {
    let all = commands(client);
    client.call(&["ACL", "SETUSER", "nothing", "on", ">p", "~*", "&*"]);
    assert_eq!(client.call(&["AUTH", "nothing", "p"]), ok());
    let mut exempt = 0;
    for (words, free) in all {
        if free {
            exempt += 1;
            continue;
        }
        let reply = client.call(&words);
        if !is_refused(&reply) {
            return Err(format!("{words:?}: {reply:?}"));
        }
    }
    assert_eq!(exempt, 6);
    Ok(())
}

#[test]
fn every_command_is_refused_to_a_user_without_rights() {
    let us = Ours::start();
    every_command_is_refused(&mut us.client()).unwrap();
    assert_eq!(us.client().call(&["DBSIZE"]), Reply::Integer(0));
}

#[test]
fn a_server_that_checks_no_rights_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { address: "127.0.0.1:0".into(), ..Options::default() };
    let server = Server::bind(crate::common::table(dir.path()), options).unwrap();
    let (address, handle) = (server.address(), server.handle());
    let thread = std::thread::spawn(move || museum::with("server-acl-unchecked", || server.run()));
    let found = every_command_is_refused(&mut Client::connect(address));
    handle.stop();
    thread.join().unwrap().unwrap();
    println!("{}", found.expect_err("found"));
}

/// Commands that reach keys which they do not name need rights on all keys.
#[test]
fn ranges_of_keys_need_rights_on_all() {
    let us = Ours::start();
    let mut admin = us.client();
    admin.call(&["ACL", "SETUSER", "some", "on", ">p", "+@all", "~a*"]);
    admin.call(&["ACL", "SETUSER", "reader", "on", ">p", "+@all", "%R~*"]);
    let (mut some, mut reader) = (becomes(&us, "some"), becomes(&us, "reader"));
    for words in [
        &["RANGE", "-", "+"][..],
        &["REVRANGE", "+", "-"],
        &["PREFIX", "a"],
        &["COUNTRANGE", "-", "+"],
        &["DELRANGE", "-", "+"],
    ] {
        assert!(is_refused(&some.call(words)), "{words:?}");
        assert_eq!(is_refused(&reader.call(words)), words[0] == "DELRANGE", "{words:?}");
    }
}

/// The elements of a sorted key name other keys.
#[test]
fn sorting_by_other_keys_needs_rights_on_all() {
    let us = Ours::start();
    let mut admin = us.client();
    admin.call(&["RPUSH", "a", "1", "2"]);
    admin.call(&["ACL", "SETUSER", "some", "on", ">p", "+@all", "~a*"]);
    admin.call(&["ACL", "SETUSER", "reader", "on", ">p", "+@all", "%R~*"]);
    let (mut some, mut reader) = (becomes(&us, "some"), becomes(&us, "reader"));
    for (words, option) in [(&["SORT", "a", "BY", "w_*"][..], "BY"), (&["SORT_RO", "a", "GET", "#"], "GET")] {
        let refused = format!("ERR {option} option of SORT denied due to insufficient ACL permissions.");
        assert_eq!(some.call(words), Reply::Error(refused));
        assert!(matches!(reader.call(words), Reply::List(_)), "{words:?}");
    }
    assert!(matches!(some.call(&["SORT", "a", "BY", "constant"]), Reply::List(_)));
    assert!(is_refused(&some.call(&["SORT", "a", "STORE", "b"])));
}

/// Clients of a deleted user end: silent ones, ones that wait, and the one that deletes itself,
/// which reads its reply.
#[test]
fn clients_of_a_deleted_user_end() {
    let us = Ours::start();
    let mut admin = us.client();
    admin.call(&["ACL", "SETUSER", "u", "on", ">p", "+@all", "~*"]);
    let (mut silent, mut waiting, mut own) = (becomes(&us, "u"), becomes(&us, "u"), becomes(&us, "u"));
    waiting.send(&command(&["BLPOP", "q", "0"]));
    while figure(&mut admin, "blocked_clients") == 0 {}
    assert_eq!(own.call(&["ACL", "DELUSER", "u"]), Reply::Integer(1));
    for client in [&mut silent, &mut waiting, &mut own] {
        ends(client);
    }
    assert_eq!(admin.call(&["RPUSH", "q", "x"]), Reply::Integer(1), "nothing is taken for it");
    assert_eq!(figure(&mut admin, "blocked_clients"), 0);
    assert!(matches!(us.client().call(&["AUTH", "u", "p"]), Reply::Error(text) if text.starts_with("WRONGPASS")));
}

/// A client that waits is served only if its user still may.
#[test]
fn a_waiting_client_that_lost_its_rights_gets_nothing() {
    let us = Ours::start();
    let mut admin = us.client();
    admin.call(&["ACL", "SETUSER", "u", "on", ">p", "+@all", "~q*"]);
    let mut waiting = becomes(&us, "u");
    waiting.send(&command(&["BLPOP", "q", "0"]));
    while figure(&mut admin, "blocked_clients") == 0 {}
    admin.call(&["ACL", "SETUSER", "u", "resetkeys", "~other"]);
    admin.call(&["RPUSH", "q", "x"]);
    assert!(is_refused(&waiting.reply()));
    assert_eq!(admin.call(&["LLEN", "q"]), Reply::Integer(1));
    assert_eq!(waiting.call(&["PING"]), Reply::Simple("PONG".into()));
}

fn exec_asks_again(client: &mut Client) -> Result<(), String> {
    client.call(&["ACL", "SETUSER", "u", "on", ">p", "+@all", "~*"]);
    client.call(&["AUTH", "u", "p"]);
    for words in [&["MULTI"][..], &["ACL", "SETUSER", "u", "-set"], &["SET", "k", "v"]] {
        client.call(words);
    }
    let replies = client.call(&["EXEC"]).list();
    if is_refused(&replies[1]) { Ok(()) } else { Err(format!("{replies:?}")) }
}

#[test]
fn exec_asks_for_the_rights_of_each_command() {
    exec_asks_again(&mut Ours::start().client()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = Options { address: "127.0.0.1:0".into(), ..Options::default() };
    let server = Server::bind(crate::common::table(dir.path()), options).unwrap();
    let (address, handle) = (server.address(), server.handle());
    let thread = std::thread::spawn(move || museum::with("server-acl-queued", || server.run()));
    let found = exec_asks_again(&mut Client::connect(address));
    handle.stop();
    thread.join().unwrap().unwrap();
    println!("{}", found.expect_err("found"));
}

/// A subscriber whose user may listen to its channels no more ends, and others stay.
#[test]
fn subscribers_that_lost_their_channels_end() {
    let us = Ours::start();
    let mut admin = us.client();
    admin.call(&["ACL", "SETUSER", "u", "on", ">p", "+@all", "~*", "&a", "&b"]);
    let (mut one, mut two) = (becomes(&us, "u"), becomes(&us, "u"));
    one.call(&["SUBSCRIBE", "a"]);
    two.call(&["SUBSCRIBE", "b"]);
    admin.call(&["ACL", "SETUSER", "u", "resetchannels", "&b"]);
    ends(&mut one);
    assert_eq!(admin.call(&["PUBLISH", "b", "x"]), Reply::Integer(1));
    assert_eq!(two.reply().list().len(), 3);
}

/// Users come from a file and go to it; a file that is wrong changes nothing.
#[test]
fn users_are_loaded_and_saved() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("users.acl");
    let options = || Options { acl_file: Some(path.clone()), address: "127.0.0.1:0".into(), ..Options::default() };
    let table = crate::common::table(&dir.path().join("none"));
    let error = Server::bind(table, options()).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("users.acl") && error.contains("No such file"), "{error}");
    std::fs::write(&path, "user u on >p ~* &* +@all\nuser default off\n").unwrap();
    let us = Ours::with(options());
    assert!(matches!(us.client().call(&["PING"]), Reply::Error(text) if text.starts_with("NOAUTH")));
    let mut client = becomes(&us, "u");
    assert_eq!(client.call(&["ACL", "SETUSER", "w", "on", ">p", "+ping"]), ok());
    assert_eq!(client.call(&["ACL", "SAVE"]), ok());
    let saved = std::fs::read_to_string(&path).unwrap();
    assert!(saved.contains("user w on #") && !saved.contains(">p"), "{saved}");
    std::fs::write(&path, "user u on >p ~* &* +@all\nuser x +nosuch\n").unwrap();
    assert!(matches!(client.call(&["ACL", "LOAD"]), Reply::Error(text) if text.contains("no change")));
    assert_eq!(client.call(&["ACL", "WHOAMI"]), Reply::Bulk(b"u".to_vec()));
    std::fs::write(&path, &saved).unwrap();
    assert_eq!(client.call(&["ACL", "LOAD"]), ok());
    ends(&mut client);
    assert_eq!(becomes(&us, "w").call(&["PING"]), Reply::Simple("PONG".into()));
}

/// Guesses of one connection are few, and then the connection ends.
#[test]
fn a_connection_may_guess_64_times() {
    let us = Ours::start();
    let mut admin = us.client();
    admin.call(&["ACL", "SETUSER", "u", "on", ">p", "+@all", "~*"]);
    let mut guesser = us.client();
    guesser.send(&command(&["AUTH", "u", "x"]).repeat(1000));
    ends(&mut guesser);
    assert_eq!(figure(&mut admin, "acl_access_denied_auth"), 64);
    // Not by a transaction either.
    let mut guesser = becomes(&us, "u");
    guesser.call(&["MULTI"]);
    for _ in 0..100 {
        guesser.call(&["AUTH", "u", "x"]);
    }
    guesser.call(&["AUTH", "u", "p"]);
    let replies = guesser.call(&["EXEC"]).list();
    assert!(replies.iter().all(|reply| matches!(reply, Reply::Error(text) if text.starts_with("WRONGPASS"))));
    ends(&mut guesser);
}

#[test]
fn generated_passwords_differ_and_have_the_bits_asked_for() {
    let us = Ours::start();
    let mut client = us.client();
    let mut seen = std::collections::HashSet::new();
    for (words, digits) in
        [(&["ACL", "GENPASS"][..], 64), (&["ACL", "GENPASS", "4096"], 1024), (&["ACL", "GENPASS", "129"], 33)]
    {
        let text = client.call(words).bytes();
        assert!(text.len() == digits && text.iter().all(u8::is_ascii_hexdigit));
        assert!(seen.insert(text));
    }
}

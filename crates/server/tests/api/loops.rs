//! Several event loops: clients see what one loop would show them. Each check that rests on an
//! invariant of the loops runs again with a seeded bug on, and must find it.

use crate::common::{Client, Ours, Reply, command, figure};
use everbyte_kv::{Clock, Kv, ManualClock};
use everbyte_media::{BackendChoice, Durability, museum};
use everbyte_server::{ClientDurability, EvictionPolicy, Options};
use everbyte_store::{CreateOptions, Store};
use everbyte_workload::Random;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// Two loops; a connection is lent behind its first plain read, whatever the loads are.
fn eager() -> Options {
    Options { loops: 2, lend_after: 0, ..Options::default() }
}

fn text(reply: Reply) -> String {
    match reply {
        Reply::Simple(text) | Reply::Error(text) => text,
        Reply::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        Reply::Integer(number) => number.to_string(),
        Reply::Null => "null".into(),
        Reply::List(list) => list.into_iter().map(text).collect::<Vec<_>>().join(" "),
    }
}

fn ask(client: &mut Client, line: &str) -> String {
    text(client.call(&line.split(' ').collect::<Vec<_>>()))
}

/// A client that the second loop serves from now on.
fn lent(us: &Ours) -> Client {
    let mut client = us.client();
    assert_eq!(ask(&mut client, "GET nothing"), "null");
    client
}

/// The commands that the second loop has executed. All connections are at the first loop behind
/// it.
fn elsewhere(client: &mut Client) -> u64 {
    figure(client, "loop_commands_processed")
}

/// Whether the check fails with a seeded bug on.
fn finds(bug: &'static str, check: impl Fn() + std::panic::UnwindSafe) -> bool {
    museum::with(bug, || catch_unwind(AssertUnwindSafe(check)).is_err())
}

const READS: [&str; 12] =
    ["GET", "STRLEN", "TYPE", "TTL", "HGETALL", "HLEN", "LLEN", "SMEMBERS", "ZCARD", "EXISTS", "GETRANGE", "MGET"];

/// A request among a few keys: mostly reads, some of which fail, and writes of any type.
fn request(random: &mut Random, reads: bool) -> Vec<u8> {
    let key = format!("k{}", random.below(6));
    let other = format!("k{}", random.below(6));
    let number = random.below(100).to_string();
    let words: Vec<&str> = match if reads { 24 } else { random.below(24) } {
        0 => vec!["SET", &key, &number],
        1 => vec!["APPEND", &key, &number],
        2 => vec!["DEL", &key, &other],
        3 => vec!["HSET", &key, &number, &other],
        4 => vec!["RPUSH", &key, &number],
        5 => vec!["SADD", &key, &number],
        6 => vec!["ZADD", &key, &number, &other],
        7 => vec!["SELECT", if random.below(4) == 0 { "1" } else { "0" }],
        8 => vec!["MULTI"],
        9 | 10 => vec!["EXEC"],
        11 => vec!["SWAPDB", "0", "1"],
        12 => vec!["GET"],
        13 => vec!["NOSUCH", &key],
        14 => vec!["RENAME", &key, &other],
        15 => vec!["WATCH", &key],
        _ => match READS[random.below(READS.len() as u64) as usize] {
            "GETRANGE" => vec!["GETRANGE", &key, "0", "3"],
            "MGET" => vec!["MGET", &key, &other],
            name => vec![name, &key],
        },
    };
    command(&words)
}

/// Pipelines that mix reads, writes, errors, transactions and databases: byte for byte as with one
/// loop, whatever loop answers.
#[test]
fn two_loops_answer_as_one() {
    let (one, two) = (Ours::start(), Ours::with(eager()));
    let mut random = Random::new(crate::common::seed("two_loops_answer_as_one"));
    let mut clients: Vec<(Client, Client)> = (0..3).map(|_| (one.client(), two.client())).collect();
    for _ in 0..400 {
        let (first, second) = &mut clients[random.below(3) as usize];
        let (reads, count) = (random.below(2) == 0, random.below(12));
        let mut bytes: Vec<u8> = (0..=count).flat_map(|_| request(&mut random, reads)).collect();
        // Requests behind them are answered, and have the connection lent.
        bytes.extend([command(&["DISCARD"]), command(&["UNWATCH"])].concat());
        let (ours, theirs) = (first.exchange(&bytes), second.exchange(&bytes));
        assert_eq!(ours, theirs, "{}", bytes.escape_ascii());
        assert_eq!(ask(first, "GET nothing"), ask(second, "GET nothing"));
    }
    let mut admin = two.client();
    assert!(figure(&mut admin, "connections_lent") > 300);
    assert!(elsewhere(&mut admin) > 300, "{}", elsewhere(&mut admin));
    for name in ["keyspace_hits", "keyspace_misses", "total_error_replies"] {
        assert_eq!(figure(&mut admin, name), figure(&mut one.client(), name), "{name}");
    }
}

/// LOOP-2: a write that one client has an answer to is seen by the next read of every other one.
fn check_reads_see_answered_writes() {
    let us = Ours::with(eager());
    let (mut writer, mut readers) = (us.client(), [lent(&us), lent(&us)]);
    for round in 0..300 {
        assert_eq!(ask(&mut writer, &format!("SET k {round}")), "OK");
        for reader in &mut readers {
            assert_eq!(ask(reader, "GET k"), round.to_string());
        }
    }
    assert_eq!(elsewhere(&mut writer), 600);
}

#[test]
fn reads_see_answered_writes() {
    check_reads_see_answered_writes();
    assert!(finds("server-loop-old-version", check_reads_see_answered_writes));
}

/// ACL-1, LOOP-3: a right that was taken away is gone at every loop when that is answered.
fn check_rights_are_gone_when_that_is_answered() {
    let us = Ours::with(eager());
    let mut admin = us.client();
    assert_eq!(ask(&mut admin, "ACL SETUSER u on nopass ~* +@all"), "OK");
    let mut reader = us.client();
    assert_eq!(ask(&mut reader, "AUTH u p"), "OK");
    assert_eq!(ask(&mut reader, "GET a"), "null");
    assert_eq!(ask(&mut reader, "GET a"), "null");
    assert_eq!(ask(&mut admin, "ACL SETUSER u resetkeys ~b*"), "OK");
    assert!(ask(&mut reader, "GET a").starts_with("NOPERM"));
    assert_eq!(ask(&mut reader, "GET b"), "null");
    assert!(ask(&mut reader, "GET a").starts_with("NOPERM"));
    assert_eq!(figure(&mut admin, "acl_access_denied_key"), 2);
    assert_eq!(ask(&mut reader, "GET b"), "null");
    assert_eq!(ask(&mut admin, "MULTI"), "OK");
    assert_eq!(ask(&mut admin, "ACL DELUSER u"), "QUEUED");
    assert_eq!(ask(&mut admin, "EXEC"), "1");
    assert!(reader.try_call(&["GET", "b"]).is_err(), "its user is deleted");
}

#[test]
fn rights_are_gone_when_that_is_answered() {
    check_rights_are_gone_when_that_is_answered();
    assert!(finds("server-loop-kept", check_rights_are_gone_when_that_is_answered));
    assert!(finds("server-loop-acl-unchecked", check_rights_are_gone_when_that_is_answered));
}

/// Lists, kills and counts of clients are those of all loops, and so are the limits.
#[test]
fn clients_of_all_loops_are_listed_ended_and_counted() {
    let us = Ours::with(Options { clients_max: 4, ..eager() });
    let (mut admin, mut one, mut two) = (us.client(), us.client(), lent(&us));
    let (id, _) = (ask(&mut one, "CLIENT ID"), ask(&mut one, "CLIENT SETNAME lent"));
    assert_eq!(ask(&mut one, "GET k"), "null");
    assert_eq!(ask(&mut one, "STRLEN k"), "0");
    let list = ask(&mut admin, "CLIENT LIST");
    let line = list.lines().find(|line| line.contains(&format!("id={id} "))).unwrap_or_else(|| panic!("{list}"));
    assert!(line.contains(" name=lent ") && line.contains(" cmd=strlen "), "{line}");
    assert_eq!((list.lines().count(), figure(&mut admin, "connected_clients")), (3, 3));
    assert_eq!(ask(&mut one, "GET k"), "null");
    assert_eq!(ask(&mut admin, &format!("CLIENT KILL ID {id}")), "1");
    assert!(one.try_call(&["GET", "k"]).is_err());
    assert_eq!(ask(&mut two, "GET k"), "null");
    // One that leaves makes room for another one.
    let (_third, mut fourth) = (lent(&us), us.client());
    assert_eq!(ask(&mut fourth, "GET k"), "null");
    assert_eq!(text(us.client().reply()), "ERR max number of clients reached");
    drop(fourth);
    while figure(&mut admin, "connected_clients") > 3 {
        std::thread::yield_now();
    }
    lent(&us);
    assert_eq!(ask(&mut admin, "LPUSH l x"), "1");
    assert_eq!(ask(&mut two, "LRANGE l 0 -1"), "x");
}

/// Half a request, a broken one, and what was sent before an end are answered as by one loop.
#[test]
fn a_lent_client_may_stop_anywhere() {
    let us = Ours::with(eager());
    let mut admin = us.client();
    assert_eq!(ask(&mut admin, "SET k value"), "OK");
    let mut half = lent(&us);
    half.send(b"*2\r\n$3\r\nGET\r\n$1\r");
    assert_eq!(ask(&mut lent(&us), "GET k"), "value");
    half.send(b"\nk\r\n*2\r\n$3\r\nGE");
    assert_eq!(text(half.reply()), "value");
    ask(&mut admin, "CLIENT LIST"); // the half request moves, too
    half.send(b"T\r\n$1\r\nk\r\n");
    assert_eq!(text(half.reply()), "value");
    let mut broken = lent(&us);
    broken.send(&[&command(&["GET", "k"])[..], b"*1\r\n%\r\n"].concat());
    assert_eq!(text(broken.reply()), "value");
    assert_eq!(text(broken.reply()), "ERR Protocol error: expected '$', got '%'");
    assert!(broken.try_reply().is_err());
    let mut last = lent(&us);
    last.send(&[command(&["GET", "k"]), command(&["SET", "k", "w"]), command(&["GET", "k"])].concat());
    last.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut replies = Vec::new();
    last.stream.read_to_end(&mut replies).unwrap();
    assert_eq!(replies, b"$5\r\nvalue\r\n+OK\r\n$1\r\nw\r\n");
    // A large request moves as it grows, and its bytes are bounded by the first loop.
    let mut large = lent(&us);
    let value = vec![b'v'; 300_000];
    large.send(&command(&[&b"SET"[..], b"large", &value]));
    assert_eq!(text(large.reply()), "OK");
    let mut reader = lent(&us);
    (0..40).for_each(|_| reader.send(&command(&["GET", "large"])));
    (0..40).for_each(|_| assert_eq!(reader.reply(), Reply::Bulk(value.clone())));
}

/// A key whose deadline has passed is gone at every loop, for one clock says so.
fn check_expired_keys_are_gone() {
    let clock = ManualClock::default();
    let at = |millis: u64| UNIX_EPOCH + Duration::from_millis(1_000_000 + millis);
    clock.set(at(0));
    let us = Ours::with(Options { clock: Arc::new(clock.clone()), ..eager() });
    let mut admin = us.client();
    assert_eq!(ask(&mut admin, &format!("SET k v PXAT {}", 1_000_050)), "OK");
    let mut reader = lent(&us);
    assert_eq!(ask(&mut reader, "GET k"), "v");
    let before = elsewhere(&mut admin);
    assert_eq!(ask(&mut reader, "GET k"), "v");
    clock.set(at(60)); // before the next sweep
    assert_eq!(ask(&mut reader, "GET k"), "null");
    assert_eq!(elsewhere(&mut admin), before, "the first loop has answered");
    assert_eq!(clock.now(), at(60));
}

#[test]
fn expired_keys_are_gone() {
    check_expired_keys_are_gone();
    assert!(finds("server-loop-expires", check_expired_keys_are_gone));
}

/// No connection is lent where reads have effects, and lent ones come back.
#[test]
fn no_connection_is_lent_while_reads_have_effects() {
    let clock = ManualClock::default();
    clock.set(UNIX_EPOCH + Duration::from_secs(1000));
    let us = Ours::with(Options { clock: Arc::new(clock.clone()), ..eager() });
    let (mut admin, mut reader) = (us.client(), lent(&us));
    let served = |admin: &mut Client, reader: &mut Client| {
        let before = elsewhere(admin);
        (0..3).for_each(|_| assert_eq!(ask(reader, "GET k"), "null"));
        elsewhere(admin) - before
    };
    assert_eq!(served(&mut admin, &mut reader), 2, "the first read has it lent");
    let mut monitor = us.client();
    assert_eq!(ask(&mut monitor, "MONITOR"), "OK");
    assert_eq!(served(&mut admin, &mut reader), 0);
    let mut seen = 0;
    while seen < 3 {
        seen += usize::from(text(monitor.reply()).contains("\"GET\" \"k\""));
    }
    drop(monitor);
    while ask(&mut admin, "CLIENT LIST").contains("cmd=monitor") {
        std::thread::yield_now();
    }
    assert_eq!(served(&mut admin, &mut reader), 2);
    let policy = EvictionPolicy::named(b"allkeys-lru").unwrap().name();
    assert_eq!(ask(&mut admin, "CONFIG SET maxmemory 100000000"), "OK");
    assert_eq!(ask(&mut admin, &format!("CONFIG SET maxmemory-policy {policy}")), "OK");
    assert_eq!(served(&mut admin, &mut reader), 0);
    assert_eq!(ask(&mut admin, "CONFIG SET maxmemory-policy noeviction"), "OK");
    assert_eq!(served(&mut admin, &mut reader), 2);
    // Clients that keep copies: the reader's reads count, and another one is told.
    let mut keeper = us.client();
    keeper.send(&[command(&["HELLO", "3"]), command(&["CLIENT", "TRACKING", "ON"]), command(&["GET", "k"])].concat());
    (0..3).for_each(|_| drop(keeper.reply()));
    assert_eq!(served(&mut admin, &mut reader), 0);
    assert_eq!(ask(&mut admin, "SET k v"), "OK");
    assert_eq!(text(keeper.reply()), "invalidate k");
    // A pause of all clients holds reads.
    drop(keeper);
    while figure(&mut admin, "tracking_clients") > 0 {
        std::thread::yield_now();
    }
    let before = elsewhere(&mut admin);
    assert_eq!(ask(&mut reader, "GET k"), "v");
    assert_eq!(ask(&mut admin, "CLIENT PAUSE 1000"), "OK");
    reader.send(&command(&["GET", "k"]));
    clock.set(UNIX_EPOCH + Duration::from_secs(1002));
    assert_eq!(text(reader.reply()), "v");
    assert_eq!(elsewhere(&mut admin), before, "the first loop has answered");
}

/// LOOP-4: reads of unchanged data write nothing that loops share.
#[test]
fn reads_write_nothing_that_loops_share() {
    let us = Ours::with(Options { loops: 2, ..Options::default() });
    let (mut admin, mut readers) = (us.client(), [us.client(), us.client(), us.client(), us.client()]);
    assert_eq!(ask(&mut admin, "MSET k v l w"), "OK");
    let requests: Vec<u8> =
        (0..50).flat_map(|_| [command(&["GET", "k"]), command(&["MGET", "l", "k"])]).flatten().collect();
    for round in 0..100 {
        readers.iter_mut().for_each(|reader| reader.send(&requests));
        for reader in &mut readers {
            for _ in 0..50 {
                assert_eq!((text(reader.reply()), text(reader.reply())), ("v".into(), "w v".into()), "{round}");
            }
        }
    }
    let (reads, writes, lent) =
        (elsewhere(&mut admin), figure(&mut admin, "loop_shared_writes"), figure(&mut admin, "connections_lent"));
    assert!((1..=4).contains(&lent), "{lent}");
    assert!(reads >= 9_000, "some of 40,000: {reads}");
    // A busy machine may leave the loop without work for longer than it keeps a version.
    assert!(writes * 100 < reads, "{writes} snapshots for {reads} reads");
}

/// A client in the mode `always` on a store that is synced later is never lent: its replies wait
/// for the disk. On a store that syncs each write they do not.
#[test]
fn replies_that_wait_for_the_disk_come_from_the_first_loop() {
    let read_elsewhere = |durability| {
        let dir = tempfile::tempdir().unwrap();
        let media = everbyte_media::Options { backend: BackendChoice::File, durability, ..Default::default() };
        let create = CreateOptions { media, max: 64 << 20, ..CreateOptions::default() };
        let store = Store::create(&dir.path().join("store"), &create).unwrap();
        let kv = Kv::open_or_create(&store, "kv").unwrap();
        let us = Ours::on(kv, dir, Options { client_durability: ClientDurability::Always, ..eager() });
        let (mut admin, mut reader) = (us.client(), lent(&us));
        (0..5).for_each(|_| assert_eq!(ask(&mut reader, "GET k"), "null"));
        let count = elsewhere(&mut admin);
        assert_eq!(ask(&mut reader, "CLIENT DURABILITY"), "always");
        count
    };
    assert_eq!(read_elsewhere(Durability::Interval(Duration::from_secs(3600))), 0);
    assert!(read_elsewhere(Durability::Always) >= 4);
}

/// A loop that panics takes its connections with it; the server ends with an error that says so.
#[test]
fn a_loop_that_panics_ends_the_server() {
    let mut us = museum::with("server-loop-panics", || Ours::with(eager()));
    let (mut other, mut reader) = (us.client(), lent(&us));
    assert_eq!(ask(&mut other, "SET k v"), "OK");
    assert!(reader.try_call(&["GET", "k"]).is_err());
    let error = us.join().unwrap_err();
    assert!(error.to_string().contains("io-threads"), "{error}");
}

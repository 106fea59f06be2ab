//! Deadlines under a clock that stands: nothing waits for time to pass.

use crate::common::{Client, Ours, Reply};
use everbyte_kv::ManualClock;
use everbyte_server::Options;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

const START: u64 = 1_000_000_000_000;

fn at(clock: &ManualClock, millis: u64) {
    clock.set(UNIX_EPOCH + Duration::from_millis(millis));
}

fn start() -> (Ours, Client, ManualClock) {
    let clock = ManualClock::default();
    at(&clock, START);
    let ours = Ours::with(Options { clock: Arc::new(clock.clone()), ..Options::default() });
    let client = ours.client();
    (ours, client, clock)
}

fn figure(client: &mut Client, words: &[&str]) -> i64 {
    match client.call(words) {
        Reply::Integer(value) => value,
        other => panic!("{words:?}: {other:?}"),
    }
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.into())
}

/// A key is there at the millisecond of its deadline, and absent for every command from the next
/// one on; then it goes by itself, and nothing of it is left.
#[test]
fn a_key_expires_behind_its_deadline() {
    let (_ours, mut client, clock) = start();
    for words in [
        &["SET", "a", "1", "PX", "1500"][..],
        &["SET", "b", "2", "EX", "2"],
        &["PSETEX", "c", "1500", "3"],
        &["SET", "stays", "4"],
        &["SET", "d", "5", "PXAT", "1000000001500"],
    ] {
        assert_eq!(client.call(words), Reply::Simple("OK".into()), "{words:?}");
    }
    assert_eq!(figure(&mut client, &["PTTL", "a"]), 1500);
    assert_eq!(figure(&mut client, &["TTL", "a"]), 2, "rounded to the nearest second");
    at(&clock, START + 1500);
    assert_eq!(client.call(&["GET", "a"]), bulk("1"));
    assert_eq!((figure(&mut client, &["PTTL", "a"]), figure(&mut client, &["TTL", "b"])), (0, 1));
    at(&clock, START + 1501);
    for words in [&["GET", "a"][..], &["GETDEL", "c"], &["GETEX", "d", "PERSIST"], &["SET", "c", "x", "XX"]] {
        assert_eq!(client.call(words), Reply::Null, "{words:?}");
    }
    for words in
        [&["EXISTS", "a", "c", "d"][..], &["STRLEN", "a"], &["PERSIST", "a"], &["EXPIRE", "a", "9"], &["DEL", "d"]]
    {
        assert_eq!(figure(&mut client, words), 0, "{words:?}");
    }
    assert_eq!((figure(&mut client, &["TTL", "a"]), figure(&mut client, &["PEXPIRETIME", "a"])), (-2, -2));
    assert_eq!(client.call(&["KEYS", "*"]), Reply::List(vec![bulk("b"), bulk("stays")]));
    assert_eq!(figure(&mut client, &["SETNX", "c", "new"]), 1, "an expired key is absent");
    assert_eq!(figure(&mut client, &["TTL", "c"]), -1, "and its deadline is gone");
    // Two requests later the sweep has passed, whatever else happens.
    at(&clock, START + 1701);
    client.call(&["PING"]);
    assert_eq!(figure(&mut client, &["DBSIZE"]), 3);
    let Reply::Bulk(info) = client.call(&["INFO", "keyspace"]) else { panic!("INFO") };
    assert!(String::from_utf8(info).unwrap().contains("db0:keys=3,expires=1,"));
}

/// A changed value keeps its deadline; a new one has none.
#[test]
fn deadlines_stay_with_their_keys() {
    let (_ours, mut client, clock) = start();
    let ttl = |client: &mut Client, key: &str| figure(client, &["PTTL", key]);
    for (change, stays) in [
        (&["APPEND", "k", "9"][..], true),
        (&["INCR", "k"], true),
        (&["SETRANGE", "k", "0", "7"], true),
        (&["SET", "k", "1", "KEEPTTL"], true),
        (&["SET", "k", "1"], false),
        (&["GETSET", "k", "1"], false),
        (&["MSET", "k", "1"], false),
        (&["PERSIST", "k"], false),
        (&["GETEX", "k", "PERSIST"], false),
    ] {
        client.call(&["SET", "k", "1", "EX", "100"]);
        client.call(change);
        assert_eq!(ttl(&mut client, "k"), if stays { 100_000 } else { -1 }, "{change:?}");
    }
    client.call(&["SET", "k", "1", "EX", "100"]);
    client.call(&["SET", "other", "1", "EX", "7"]);
    client.call(&["RENAME", "k", "other"]);
    assert_eq!((ttl(&mut client, "k"), ttl(&mut client, "other")), (-2, 100_000));
    client.call(&["COPY", "other", "copy"]);
    client.call(&["MOVE", "other", "3"]);
    assert_eq!((ttl(&mut client, "copy"), ttl(&mut client, "other")), (100_000, -2));
    at(&clock, START + 100_001);
    client.call(&["SELECT", "3"]);
    assert_eq!(client.call(&["KEYS", "*"]), Reply::List(Vec::new()));
}

/// A clock that jumps back makes keys live longer, and loses none; one that jumps forward expires
/// what has a deadline, and nothing else.
#[test]
fn a_clock_that_jumps_loses_no_key_without_a_deadline() {
    let (_ours, mut client, clock) = start();
    client.call(&["SET", "k", "1", "EX", "10"]);
    client.call(&["SET", "stays", "1"]);
    at(&clock, START - 3_600_000);
    assert_eq!(figure(&mut client, &["PTTL", "k"]), 3_610_000);
    client.call(&["SET", "young", "1", "EX", "10"]);
    at(&clock, START);
    assert_eq!(client.call(&["KEYS", "*"]), Reply::List(vec![bulk("k"), bulk("stays")]));
    at(&clock, u64::MAX / 4);
    assert_eq!(client.call(&["KEYS", "*"]), Reply::List(vec![bulk("stays")]));
}

/// Many keys that expire at once go without further requests, and none is seen meanwhile. (Each
/// iteration removes some: `each_iteration_removes_more_expired_keys`.)
#[test]
fn many_expired_keys_are_absent_at_once() {
    let (_ours, mut client, clock) = start();
    for key in 0..1500 {
        client.call(&["SET", &format!("k{key}"), "v", "PX", "100"]);
    }
    at(&clock, START + 101);
    let mut left = figure(&mut client, &["DBSIZE"]);
    while left > 0 {
        assert_eq!(client.call(&["KEYS", "*"]), Reply::List(Vec::new()));
        let now = figure(&mut client, &["DBSIZE"]);
        assert!(now <= left, "none comes back: {now} of {left}");
        left = now;
    }
}

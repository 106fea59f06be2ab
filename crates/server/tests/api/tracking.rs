//! Copies of keys that clients keep: told of a change once it is settled, and never left stale.

use crate::common::{Client, Ours as Plain, Reply, command, figure};
use crate::pending::{Ours, ensure, has_reply};
use everbyte_server::Options;

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

fn stale(key: &str) -> Reply {
    Reply::List(vec![bulk("invalidate"), Reply::List(vec![bulk(key)])])
}

fn tracks(client: &mut Client, options: &[&str]) {
    client.call(&["HELLO", "3"]);
    assert_eq!(client.call(&[&["CLIENT", "TRACKING", "ON"], options].concat()), ok());
}

/// A change is pending. No client is told before it is settled; a client that reads the old value
/// meanwhile, for the first time or again, is told as the change lands.
fn no_copy_stays_stale(bug: Option<&'static str>) -> Result<(), String> {
    let ours = Ours::start(bug);
    let [mut writer, mut old, mut new, mut all, _idle] = std::array::from_fn(|_| ours.client());
    assert_eq!(writer.call(&["SET", "k", "old"]), ok());
    tracks(&mut old, &[]);
    tracks(&mut new, &[]);
    tracks(&mut all, &["BCAST"]);
    assert_eq!(old.call(&["GET", "k"]), bulk("old"));
    ours.disk.close();
    writer.send(&command(&["SET", "k", "new"]));
    ours.disk.wait_for_a_sync();
    ensure("a client was told of what is not settled", !has_reply(&old) && !has_reply(&all))?;
    ensure("an unsettled value was read", new.call(&["GET", "k"]) == bulk("old"))?;
    ensure("a client was told of what is not settled", old.call(&["PING"]) == Reply::Simple("PONG".into()))?;
    ours.disk.open();
    ensure("the reply", writer.reply() == ok())?;
    for client in [&mut old, &mut new, &mut all] {
        client.send(&command(&["PING"]));
        ensure("a copy is stale, and its client does not know", client.reply() == stale("k"))?;
        ensure("told once", client.reply() == Reply::Simple("PONG".into()))?;
    }
    ensure("the new value", new.call(&["GET", "k"]) == bulk("new"))
}

/// A client that begins to track while a change is pending, of which nothing was noted, reads
/// nothing older.
fn a_newcomer_reads_nothing_older() -> Result<(), String> {
    let ours = Ours::start(None);
    let [mut writer, mut one, mut two, _idle] = std::array::from_fn(|_| ours.client());
    assert_eq!(writer.call(&["SET", "k", "old"]), ok());
    one.call(&["HELLO", "3"]);
    two.call(&["HELLO", "3"]);
    assert_eq!(two.call(&["MULTI"]), ok());
    two.call(&["CLIENT", "TRACKING", "ON"]);
    two.call(&["GET", "k"]);
    ours.disk.close();
    writer.send(&command(&["SET", "k", "new"]));
    ours.disk.wait_for_a_sync();
    one.send(&[command(&["CLIENT", "TRACKING", "ON"]), command(&["GET", "k"])].concat());
    two.send(&command(&["EXEC"]));
    ours.disk.open();
    ensure("the reply", writer.reply() == ok())?;
    ensure("tracking is on", one.reply() == ok())?;
    ensure("an older value was read", one.reply() == bulk("new"))?;
    ensure("an older value was read in a transaction", two.reply() == Reply::List(vec![ok(), bulk("new")]))
}

#[test]
fn an_invalidation_leaves_once_its_change_is_settled_and_no_copy_stays_stale() {
    no_copy_stays_stale(None).unwrap();
    a_newcomer_reads_nothing_older().unwrap();
}

#[test]
fn seeded_bugs_of_tracking_are_found() {
    for bug in ["server-push-early", "server-track-stale"] {
        println!("{bug}: {}", no_copy_stays_stale(Some(bug)).expect_err("found"));
    }
}

/// Expiry, DELRANGE, EXEC, an element that a waiting client takes: all changes tell.
#[test]
fn every_kind_of_change_tells() {
    let us = Plain::start();
    let [mut writer, mut reader] = [us.client(), us.client()];
    tracks(&mut reader, &[]);
    let mut told_by = |read: &[&str], change: &[&[&str]], key: &str| {
        reader.call(read);
        change.iter().for_each(|words| drop(writer.call(words)));
        assert_eq!(reader.reply(), stale(key), "{change:?}");
    };
    told_by(&["GET", "a"], &[&["SET", "a", "1"]], "a");
    told_by(&["GET", "b"], &[&["SET", "b", "1"]], "b");
    told_by(&["GET", "b"], &[&["DELRANGE", "a", "c"]], "b");
    told_by(&["LLEN", "l"], &[&["MULTI"], &["RPUSH", "l", "1"], &["EXEC"]], "l");
    told_by(&["LLEN", "l"], &[&["LPOP", "l"]], "l");
    told_by(&["HGET", "h", "f"], &[&["HSET", "h", "f", "1"]], "h");
    told_by(&["TTL", "h"], &[&["EXPIRE", "h", "100"]], "h");
    told_by(&["EXISTS", "h"], &[&["RENAME", "h", "i"]], "h");
    let mut all = us.client();
    tracks(&mut all, &["BCAST", "PREFIX", "e"]);
    writer.call(&["SET", "e", "1", "PX", "1"]);
    assert_eq!((all.reply(), all.reply()), (stale("e"), stale("e")), "set, then expired");
    reader.call(&["GET", "a"]);
    writer.call(&["FLUSHALL"]);
    assert_eq!(reader.reply(), Reply::List(vec![bulk("invalidate"), Reply::Null]));
    reader.call(&["GET", "a"]);
    writer.call(&["SWAPDB", "0", "1"]);
    assert_eq!(reader.reply(), Reply::List(vec![bulk("invalidate"), Reply::Null]));
    let mut waiter = us.client();
    reader.call(&["LLEN", "q"]);
    waiter.send(&command(&["BLPOP", "q", "0"]));
    while figure(&mut writer, "blocked_clients") == 0 {}
    writer.call(&["RPUSH", "q", "x"]);
    assert_eq!(reader.reply(), stale("q"));
}

/// The table is bounded, and what it forgets is told.
#[test]
fn a_full_table_tells_what_it_forgets() {
    let us = Plain::with(Options { tracking_keys_max: 10, ..Options::default() });
    let [mut reader, mut other] = [us.client(), us.client()];
    tracks(&mut reader, &[]);
    for number in 0..100 {
        reader.send(&command(&["GET", &format!("k{number}")]));
    }
    reader.send(&command(&["PING"]));
    let mut told = 0;
    loop {
        match reader.reply() {
            Reply::List(_) => told += 1,
            Reply::Simple(_) => break,
            _ => {}
        }
    }
    other.call(&["PING"]);
    assert_eq!(figure(&mut other, "tracking_total_keys"), 10);
    while told < 90 {
        assert!(matches!(reader.reply(), Reply::List(_)));
        told += 1;
    }
    drop(reader);
    while figure(&mut other, "tracking_clients") > 0 {}
    assert_eq!(figure(&mut other, "tracking_total_keys"), 0);
}

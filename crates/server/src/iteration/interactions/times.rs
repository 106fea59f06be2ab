//! Times by a clock that stands: deliveries and consumers of groups, deadlines of watched and of
//! copied keys, and keys at the very millisecond of their deadlines. The replies are those of Redis
//! 7.0.

use super::{START, Turns};

/// The words of a client's reply to a line, without sizes.
fn words(turns: &mut Turns, time: u64, line: &str) -> String {
    let reply = turns.at(time, &[(0, &[line])]).swap_remove(0);
    reply.lines().filter(|line| !line.starts_with(['$', '*'])).collect::<Vec<_>>().join(" ")
}

/// Redis tells the same of pending entries and of consumers: when, how often, and whose.
#[test]
fn deliveries_and_consumers_have_the_times_of_redis() {
    let mut turns = Turns::new();
    turns.ask(0, &["XGROUP CREATE s g 0 MKSTREAM", "XADD s 1-0 f v", "XADD s 2-0 f v", "XADD s 3-0 f v"]);
    turns.ask(0, &["XREADGROUP GROUP g c STREAMS s >"]);
    for (time, line, expect) in [
        (100, "XCLAIM s g d 0 1-0 IDLE 70 JUSTID", "1-0"),
        (100, "XAUTOCLAIM s g e 0 3-0 JUSTID", "0-0 3-0"),
        (100, "XPENDING s g - + 10", "1-0 d :70 :1 2-0 c :100 :1 3-0 e :0 :1"),
        (100, "XPENDING s g IDLE 70 - + 10", "1-0 d :70 :1 2-0 c :100 :1"),
        (100, "XPENDING s g IDLE 71 - + 10", "2-0 c :100 :1"),
        (100, "XAUTOCLAIM s g e 101 0", "0-0"),
        (100, "XAUTOCLAIM s g c 100 0", "0-0 2-0 f v"),
        (200, "XREADGROUP GROUP g c STREAMS s 0", "s 2-0 f v"),
        (200, "XPENDING s g - + 10", "1-0 d :170 :1 2-0 c :0 :3 3-0 e :100 :1"),
        (
            200,
            "XINFO CONSUMERS s g",
            "name c pending :1 idle :0 name d pending :1 idle :100 name e pending :1 idle :100",
        ),
        (300, "XCLAIM s g d 201 1-0 3-0", "1-0 f v"),
        (300, "XPENDING s g - + 10 d", "1-0 d :0 :2"),
        (300, "XCLAIM s g d 0 9-9 LASTID 7-0", ""),
    ] {
        assert_eq!(words(&mut turns, time, line), expect, "{line} at {time}");
    }
    let groups = words(&mut turns, 300, "XINFO GROUPS s");
    assert!(groups.contains("last-delivered-id 7-0"), "{groups}");
}

/// WATCHED-1: each watched key has a deadline of its own.
#[test]
fn any_watched_key_that_expires_dooms_the_transaction() {
    for (watch, reply) in [
        ("WATCH soon late", "*-1\r\n"),
        ("WATCH late soon", "*-1\r\n"),
        ("WATCH never soon", "*-1\r\n"),
        ("WATCH never late", "*1\r\n+PONG\r\n"),
    ] {
        let mut turns = Turns::new();
        let (soon, late) = (format!("SET soon v PXAT {}", START + 20), format!("SET late v PXAT {}", START + 80));
        turns.ask(1, &[&soon, &late, "SET never v"]);
        turns.ask(0, &[watch, "MULTI", "PING"]);
        // Before the next sweep.
        assert_eq!(turns.at(50, &[(0, &["EXEC"])])[0], reply, "{watch}");
    }
}

/// A client that has its element gives up no later wait at the deadline of the earlier one.
#[test]
fn the_deadline_of_a_wait_that_was_served_ends_no_other() {
    let mut turns = Turns::new();
    for (time, timeout, deadline) in [(0, "0.05", 50), (10, "0", 0), (60, "0.05", 110)] {
        assert_eq!(turns.at(time, &[(0, &[&format!("BLPOP q {timeout}")])])[0], "");
        if deadline != 50 {
            assert_eq!(turns.at(109, &[])[0], "", "it waits since {time}");
        }
        assert_eq!(turns.at(time + 5, &[(1, &["RPUSH q e"])])[0], "*2\r\n$1\r\nq\r\n$1\r\ne\r\n");
    }
}

/// A key is there at the millisecond of its deadline, for commands about many keys too.
#[test]
fn keys_in_order_are_there_at_their_deadlines() {
    let mut turns = Turns::new();
    turns.ask(0, &[&format!("SET k v PXAT {}", START + 20), &format!("SET l v PXAT {}", START + 20)]);
    turns.ask(0, &["RPUSH m v", &format!("PEXPIREAT m {}", START + 20)]);
    for line in ["KEYS *", "SCAN 0", "PREFIX k", "COUNTRANGE - +", "RANDOMKEY", "EXISTS k"] {
        assert_ne!(words(&mut turns, 20, line).trim_matches(['0', ':', ' ']), "", "{line}");
        // Before the next sweep.
        assert_eq!(words(&mut turns, 21, line).trim_matches(['0', ':', ' ']), "", "{line}");
    }
}

/// A client that keeps a copy of a key is told as the key goes by itself.
#[test]
fn copies_of_expired_keys_are_forgotten() {
    let mut turns = Turns::new();
    turns.ask(1, &[&format!("SET k v PXAT {}", START + 20)]);
    turns.ask(0, &["HELLO 3", "CLIENT TRACKING ON"]);
    assert_eq!(turns.ask(0, &["GET k"]), "$1\r\nv\r\n");
    let told = turns.at(150, &[]).swap_remove(0);
    assert!(told.ends_with("invalidate\r\n*1\r\n$1\r\nk\r\n"), "{told}");
}

/// A deadline that has passed already removes the key at once, and its watchers and listeners are
/// told of a removal.
#[test]
fn a_deadline_in_the_past_removes_the_key_at_once() {
    for (make, line, reply) in [
        ("SET k v", "GETEX k PXAT 1", "$1\r\nv\r\n"),
        ("SET k v", "GETEX k EXAT 1", "$1\r\nv\r\n"),
        ("SET k v", "EXPIRE k -1", ":1\r\n"),
        ("SADD k v", "PEXPIREAT k 1", ":1\r\n"),
        ("SADD k v", "EXPIREAT k 1", ":1\r\n"),
    ] {
        let mut turns = Turns::new();
        turns.ask(0, &["CONFIG SET notify-keyspace-events KEA", make, "WATCH k", "MULTI", "PING"]);
        turns.ask(2, &["SUBSCRIBE __keyspace@0__:k"]);
        // Before the next sweep.
        let told = turns.at(50, &[(1, &[line, "DBSIZE"]), (0, &["EXEC"])]);
        assert_eq!(told[1], format!("{reply}:0\r\n"), "{line}");
        assert_eq!(told[0], "*-1\r\n", "{line}");
        assert!(told[2].contains("\r\ndel\r\n") && !told[2].contains("expired"), "{line}: {}", told[2]);
    }
}

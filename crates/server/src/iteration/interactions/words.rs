//! Option words as keys and members, changes that change nothing, and numbers at their bounds.

use super::{START, Turns};
use crate::Options;

/// Names of the events of lines, in their order, with what is told at once.
fn events(lines: &[&str]) -> Vec<String> {
    let mut turns = Turns::new();
    turns.ask(0, &["CONFIG SET notify-keyspace-events EA"]);
    turns.ask(1, &["PSUBSCRIBE __keyevent@0__:*"]);
    let heard = turns.at(0, &[(0, lines)]).swap_remove(1);
    heard
        .split("__keyevent@0__:")
        .skip(1)
        .filter_map(|part| part.split('\r').next())
        .filter(|name| *name != "*")
        .map(String::from)
        .collect()
}

#[test]
fn members_and_keys_called_as_options_give_events_no_other_name() {
    for (lines, names) in [
        (&["ZADD z 1 incr", "ZADD z XX INCR 1 incr", "ZADD z CH 1 ch 2 incr"][..], &["zadd", "zincr", "zadd"][..]),
        (&["GEOADD ge 1 1 incr"], &["zadd"]),
        (&["RPUSH left 1 2", "LMPOP 1 left RIGHT", "BLMPOP 0 1 left RIGHT"], &["rpush", "rpop", "rpop", "del"]),
        (&["ZADD min 1 a 2 b", "ZMPOP 1 min MAX", "BZMPOP 0 1 min MAX"], &["zadd", "zpopmax", "zpopmax", "del"]),
    ] {
        assert_eq!(events(lines), names, "{lines:?}");
    }
}

/// A deadline that has passed already: the key is set, and expires.
#[test]
fn a_key_that_is_set_with_a_past_deadline_is_told_as_set() {
    assert_eq!(events(&["SET k v PXAT 1"]), ["set", "expire"]);
    assert_eq!(events(&["SET k v", "GETEX k PXAT 1"]), ["set", "del"]);
}

#[test]
fn a_bitfield_that_changes_nothing_is_no_change() {
    assert_eq!(
        events(&["SET k a", "BITFIELD k SET u8 0 97 INCRBY u4 0 0 GET u8 0", "BITFIELD k SET u8 0 98"]),
        ["set", "setbit"]
    );
    for (line, executes) in [
        ("BITFIELD k SET u8 0 97", true),
        ("BITFIELD k OVERFLOW FAIL INCRBY u8 0 255", true),
        ("BITFIELD k SET u8 0 98 SET u8 0 97", false),
        ("BITFIELD k SET u8 8 0", false),
    ] {
        let mut turns = Turns::new();
        turns.ask(0, &["SET k a", "WATCH k", "MULTI", "PING"]);
        turns.ask(1, &[line]);
        assert_eq!(turns.ask(0, &["EXEC"]) == "*1\r\n+PONG\r\n", executes, "{line}");
    }
}

/// A smaller bound holds from the next iteration on.
#[test]
fn the_bound_of_an_iteration_may_shrink_in_it() {
    let mut turns = Turns::new();
    let replies = turns.ask(0, &["PING", "CONFIG SET iteration-commands-max 1", "PING", "PING"]);
    assert_eq!(replies, "+PONG\r\n+OK\r\n+PONG\r\n+PONG\r\n");
    assert_eq!(turns.ask(0, &["PING", "PING"]), "+PONG\r\n");
    assert_eq!(turns.at(0, &[])[0], "+PONG\r\n");
}

#[test]
fn the_latest_deadline_is_told_in_seconds() {
    let mut turns = Turns::new();
    let replies = turns.ask(0, &["SET k v", "PEXPIREAT k 9223372036854775807", "EXPIRETIME k", "TTL k"]);
    let left = (i64::MAX - START as i64 + 500) / 1000;
    assert_eq!(replies, format!("+OK\r\n:1\r\n:9223372036854776\r\n:{left}\r\n"));
}

#[test]
fn ids_of_entries_are_read_as_c_reads_numbers() {
    let mut turns = Turns::new();
    for (line, id) in [
        ("XADD s \" 1-1\" a b", "1-1"),
        ("XADD s +2-1 a b", "2-1"),
        ("XADD s 3-+* a b", ""),
        ("XADD s \"\\t+003-*\" a b", "3-0"),
        ("XADD s \"3-7\\x00 more\" a b", "3-7"),
        ("XADD s 3--8 a b", ""),
        ("XADD s \"3- -8\" a b", "3-18446744073709551608"),
        ("XADD s \"4-1 \" a b", ""),
        ("XADD s -4-1 a b", ""),
    ] {
        let reply = turns.ask(0, &[line]);
        let expect = if id.is_empty() { "-ERR Invalid stream ID".into() } else { format!("${}\r\n{id}\r\n", id.len()) };
        assert!(reply.starts_with(&expect), "{line}: {reply}");
    }
    assert_eq!(turns.ask(0, &["XDEL s \" 1-1\" +2-1"]), ":2\r\n");
}

#[test]
fn long_and_odd_timeouts_are_waited_for() {
    for line in [
        "BLPOP k 9223372036854775.807",
        "BLMOVE k k LEFT LEFT 9223372036854775",
        "BZPOPMIN k 0x1p20",
        "XREAD BLOCK 9223372036854775807 STREAMS s 0",
        "XREAD BLOCK 9223372036854775806 STREAMS s 0",
    ] {
        let mut turns = Turns::new();
        assert_eq!(turns.ask(0, &[line]), "", "{line}");
        assert_eq!(turns.at(1_000_000, &[])[0], "", "{line}");
    }
    let mut turns = Turns::new();
    for timeout in ["0x1p-10", "1e-400"] {
        assert_eq!(turns.ask(0, &[&format!("BLPOP k {timeout}")]), "");
        assert_eq!(turns.at(5, &[])[0], "*-1\r\n");
    }
    for (timeout, error) in [
        ("9223372036854776", "negative"),
        ("1e400", "negative"),
        ("inf", "negative"),
        ("-1", "negative"),
        ("nan", "not a float"),
    ] {
        let reply = turns.ask(0, &[&format!("BLPOP k {timeout}")]);
        assert!(reply.starts_with("-ERR timeout is ") && reply.contains(error), "{timeout}: {reply}");
    }
}

/// A count whose reply would be above the limit is refused at once; of a small collection members
/// are read once, and each is as likely as any other.
#[test]
fn many_random_members_are_drawn_of_one_reading_or_refused() {
    let mut turns = Turns::with(Options { output_size_max: 64 << 20, ..Options::default() });
    turns.ask(0, &["SADD s a b c", "HSET h a 1 b 2", "ZADD z 1 a"]);
    for line in ["SRANDMEMBER s -900000000", "HRANDFIELD h -5600000 WITHVALUES", "ZRANDMEMBER z -9223372036854775807"] {
        let reply = turns.ask(0, &[line]);
        assert!(reply.contains("output limit"), "{line}: {}", &reply[..reply.len().min(100)]);
    }
    let reply = turns.ask(0, &["SRANDMEMBER s -3000"]);
    assert!(reply.starts_with("*3000\r\n"));
    for member in ["a", "b", "c"] {
        let count = reply.matches(&format!("\r\n{member}\r\n")).count();
        assert!((800..1200).contains(&count), "{member}: {count}");
    }
    let reply = turns.ask(0, &["HRANDFIELD h -400 WITHVALUES"]);
    assert_eq!(reply.matches("a\r\n$1\r\n1\r\n").count() + reply.matches("b\r\n$1\r\n2\r\n").count(), 400);
    let reply = turns.ask(0, &["ZRANDMEMBER z -5 WITHSCORES"]);
    assert_eq!(reply, format!("*10\r\n{}", "$1\r\na\r\n$1\r\n1\r\n".repeat(5)));
}

/// An entry of the log of slow commands keeps the first bytes of a name.
#[test]
fn a_slow_command_of_a_client_with_a_long_name_keeps_little_of_it() {
    let mut turns = Turns::new();
    turns.ask(0, &[&format!("CLIENT SETNAME {}", "n".repeat(50_000))]);
    turns.ask(0, &["CONFIG SET slowlog-log-slower-than 0", "PING"]);
    let log = turns.ask(0, &["SLOWLOG GET"]);
    assert!(log.len() < 2000 && log.contains(&"n".repeat(128)) && log.contains("... (49872 more bytes)"), "{log}");
}

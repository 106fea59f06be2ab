//! Places that random programs hardly reach, answered byte for byte.

use crate::common::{Client, Ours, Redis, Reply, command};
use crate::compare;

fn compare_lines(ours: &mut Client, theirs: &mut Client, lines: &[&str]) {
    for line in lines {
        compare(ours, theirs, &command(&line.split(' ').collect::<Vec<_>>()), line);
    }
}

/// The highest deleted id stays when a lower one is deleted; entries that are gone count in
/// XAUTOCLAIM.
#[test]
fn entries_that_were_deleted_count_as_in_redis() {
    let (us, redis) = (Ours::start(), Redis::start());
    let [mut ours, mut theirs] = [us.client(), redis.client()];
    compare_lines(
        &mut ours,
        &mut theirs,
        &[
            "XADD s 1-1 f v",
            "XADD s 2-1 f v",
            "XADD s 3-1 f v",
            "XADD s 4-1 f v",
            "XADD s 5-1 f v",
            "XGROUP CREATE s g 0",
            "XREADGROUP GROUP g c COUNT 4 STREAMS s >",
            "XDEL s 3-1",
            "XDEL s 1-1",
            "XINFO STREAM s",
            "XAUTOCLAIM s g d 0 0 COUNT 1",
            "XAUTOCLAIM s g d 0 2-1 COUNT 2",
            "XPENDING s g",
            "XDEL s 5-1 4-1",
            "XINFO STREAM s",
            "XREADGROUP GROUP g c STREAMS s >",
            "XINFO GROUPS s",
        ],
    );
}

/// A rule about a command as a whole forgets its first arguments; a pattern of SORT asks for the
/// right to read every key.
#[test]
fn rules_about_first_arguments_and_patterns_are_those_of_redis() {
    let (us, redis) = (Ours::start(), Redis::start());
    let [mut ours, mut theirs] = [us.client(), redis.client()];
    compare_lines(
        &mut ours,
        &mut theirs,
        &[
            "ACL SETUSER u on nopass ~* +get +select|0",
            "ACL DRYRUN u SELECT 0",
            "ACL DRYRUN u SELECT 1",
            "ACL SETUSER u -select",
            "ACL DRYRUN u SELECT 0",
            "ACL SETUSER u +select|1 +select -select",
            "ACL DRYRUN u SELECT 1",
            "RPUSH list 1 2",
            "ACL SETUSER w on nopass +@all resetkeys %W~* %R~list",
            "ACL SETUSER r on nopass +@all resetkeys %R~*",
            "AUTH w x",
            "SORT list BY weight_*",
            "SORT list BY nosort GET #",
            "SORT_RO list",
            "AUTH r x",
            "SORT list BY weight_* GET #",
            "SORT list BY weight_* STORE other",
        ],
    );
}

/// A product that is no number leaves the score of an intersection as it was.
#[test]
fn scores_that_are_no_numbers_are_left_out_as_by_redis() {
    let (us, redis) = (Ours::start(), Redis::start());
    let [mut ours, mut theirs] = [us.client(), redis.client()];
    compare_lines(&mut ours, &mut theirs, &["ZADD few 5 a -5 b", "ZADD many inf a -inf b 1 c"]);
    for operation in ["ZINTER", "ZUNION"] {
        for aggregate in ["SUM", "MIN", "MAX"] {
            for weights in ["1 0", "0 1", "-1 0", "inf 0"] {
                let line = format!("{operation} 2 few many WEIGHTS {weights} AGGREGATE {aggregate} WITHSCORES");
                compare_lines(&mut ours, &mut theirs, &[&line]);
            }
        }
    }
}

/// The event of a member that moves is followed by that of the set that it leaves empty.
#[test]
fn a_moved_member_is_told_as_by_redis() {
    let (us, redis) = (Ours::start(), Redis::start());
    let [mut ours, mut theirs] = [us.client(), redis.client()];
    let [mut our_ear, mut their_ear] = [us.client(), redis.client()];
    let hear = [command(&["HELLO", "3"]), command(&["PSUBSCRIBE", "__key*"])].concat();
    for ear in [&mut our_ear, &mut their_ear] {
        ear.exchange(&hear);
    }
    compare_lines(
        &mut ours,
        &mut theirs,
        &[
            "CONFIG SET notify-keyspace-events KEA",
            "SADD a 1 2",
            "SADD b 2",
            "SMOVE a b 1",
            "SMOVE a b 2",
            "SMOVE b b 1",
            "SMOVE b c 1",
        ],
    );
    compare(&mut our_ear, &mut their_ear, b"", "the events of SMOVE");
}

/// The sparse form grows to the byte as that of Redis, and becomes dense with the same element.
#[test]
fn estimates_become_dense_with_the_same_element() {
    let (us, redis) = (Ours::start(), Redis::start());
    let [mut ours, mut theirs] = [us.client(), redis.client()];
    for key in 0..6 {
        let key = format!("k{key}");
        let add = |number: usize| [command(&["PFADD", &key, &format!("{key}:{number}")]), command(&["STRLEN", &key])];
        let first = Vec::from_iter((0..900).map(|number| format!("{key}:{number}")));
        let words: Vec<&str> = ["PFADD", &key].into_iter().chain(first.iter().map(String::as_str)).collect();
        compare(&mut ours, &mut theirs, &command(&words), &key);
        let rest = (900..1900).flat_map(add).collect::<Vec<_>>().concat();
        compare(&mut ours, &mut theirs, &rest, &key);
        compare(&mut ours, &mut theirs, &command(&["GET", &key]), &key);
    }
    assert_eq!(ours.call(&["STRLEN", "k0"]), Reply::Integer(12_304), "it is dense");
}

/// Integers at the bounds of every width that packed values of Redis have.
#[test]
fn packed_integers_arrive_at_their_bounds() {
    let (us, redis) = (Ours::start(), Redis::start());
    let [mut ours, mut theirs] = [us.client(), redis.client()];
    let bounds = [6, 7, 8, 12, 13, 15, 16, 23, 24, 31, 32, 63].map(|bits| 1i128 << bits);
    let numbers = bounds.iter().flat_map(|bound| [-bound - 1, -bound, 1 - bound, bound - 1, *bound, bound + 1]);
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    for number in &numbers {
        theirs.call(&["RPUSH", "list", number]);
        theirs.call(&["HSET", "hash", number, number]);
        theirs.call(&["ZADD", "sorted", number, number]);
        theirs.call(&["SADD", &format!("set{}", number.len()), number]);
        theirs.call(&["SET", &format!("text{number}"), number]);
    }
    // Texts at the bounds of the sizes that packed values have.
    for size in [1, 63, 64, 65, 126, 127, 4095, 4096, 4097, 16_377, 16_378, 16_379, 16_384] {
        theirs.call(&["CONFIG", "SET", "hash-max-listpack-value", "100000", "list-max-listpack-size", "-5"]);
        theirs.call(&["HSET", "hash", &size.to_string(), &"x".repeat(size)]);
        theirs.call(&["RPUSH", "list", &"y".repeat(size)]);
    }
    let keys = theirs.call(&["KEYS", "*"]).list();
    assert!(keys.len() > 20);
    for key in keys.into_iter().map(Reply::bytes) {
        let payload = theirs.call(&[b"DUMP", &key[..]]).bytes();
        assert_eq!(ours.call(&[b"RESTORE", &key[..], b"0", &payload]), Reply::Simple("OK".into()));
        let expect = crate::dumps::content(&mut theirs, &key);
        assert_eq!(crate::dumps::content(&mut ours, &key), expect, "{}", key.escape_ascii());
    }
}

/// Consumers of several groups may have one name, with pending entries in each.
#[test]
fn groups_with_consumers_of_one_name_are_restored() {
    let (us, redis) = (Ours::start(), Redis::start());
    let [mut ours, mut theirs] = [us.client(), redis.client()];
    for line in [
        "XADD s 1-1 f v",
        "XADD s 2-1 f v",
        "XGROUP CREATE s g 0",
        "XGROUP CREATE s h 0",
        "XREADGROUP GROUP g c STREAMS s >",
        "XREADGROUP GROUP h c COUNT 1 STREAMS s >",
        "XREADGROUP GROUP h d STREAMS s >",
    ] {
        theirs.call(&line.split(' ').collect::<Vec<_>>());
    }
    let payload = theirs.call(&["DUMP", "s"]).bytes();
    assert_eq!(ours.call(&[&b"RESTORE"[..], b"s", b"0", &payload]), Reply::Simple("OK".into()));
    compare_lines(&mut ours, &mut theirs, &["XPENDING s g", "XPENDING s h", "XINFO GROUPS s"]);
    let back = ours.call(&["DUMP", "s"]).bytes();
    for client in [&mut ours, &mut theirs] {
        assert_eq!(client.call(&[&b"RESTORE"[..], b"t", b"0", &back]), Reply::Simple("OK".into()));
    }
    compare_lines(&mut ours, &mut theirs, &["XPENDING t g", "XPENDING t h", "XINFO GROUPS t"]);
}

#[test]
fn padding_behind_the_end_of_data_is_refused_as_by_redis() {
    let (us, redis) = (Ours::start(), Redis::start());
    let [mut ours, mut theirs] = [us.client(), redis.client()];
    for call in ["struct.unpack('x','')", "struct.unpack('bx','a')", "struct.unpack('bxb','abc')", "struct.size('xbx')"]
    {
        let script =
            format!("local ok, one, two = pcall(function() return {call} end) return {{tostring(ok), one, two}}");
        compare(&mut ours, &mut theirs, &command(&["EVAL", &script, "0"]), call);
    }
}

/// A script that only reads reaches no other client.
#[test]
fn scripts_that_only_read_publish_nothing() {
    let (us, redis) = (Ours::start(), Redis::start());
    let [mut ours, mut theirs] = [us.client(), redis.client()];
    for words in [
        ["EVAL_RO", "return redis.call('publish', 'c', 'm')", "0"],
        ["EVAL_RO", "return redis.pcall('spublish', 'c', 'm')", "0"],
        ["EVAL", "#!lua flags=no-writes\nreturn redis.call('publish', 'c', 'm')", "0"],
        ["EVAL", "return redis.call('publish', 'c', 'm')", "0"],
    ] {
        compare(&mut ours, &mut theirs, &command(&words), words[1]);
    }
}

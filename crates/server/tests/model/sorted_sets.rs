//! Random programs about sorted sets, mixed with strings, sets and commands about keys of any type.

use crate::common::{Ours, Redis, command};
use crate::compare;
use crate::programs::{Order, Row, agree, agree_over, pick};
use everbyte_workload::Random;

const SCORES: &[&[u8]] = &[
    b"0",
    b"-0",
    b"1",
    b"1",
    b"2",
    b"2.5",
    b"-1.5",
    b"0.1",
    b"+3",
    b"1e3",
    b"1e17",
    b"-1e-5",
    b"0x10",
    b"0x.8p-2",
    b"inf",
    b"-Infinity",
    b"4.9406564584124654e-324",
    b"1.7976931348623157e308",
    b"3.0000000000000001",
    b"9007199254740993",
    b"1e400",
    b"1e-400",
    b"nan",
    b"x",
    b"",
    b" 1",
    b"1 ",
];

const BOUNDS: &[&[u8]] = &[
    b"-inf", b"+inf", b"(1", b"1", b"(2", b"2", b"0", b"-0", b"(-1.5", b"2.5", b"1e17", b"(inf", b"", b"(", b" 1",
    b"x", b"(nan", b"1e400", b"0x10",
];

const MEMBERS: &[&[u8]] = &[b"a", b"b", b"c", b"d", b"e", b"", b"\0\xff\r\n", b"member:1", b"member:10", b"ab"];

const MEMBER_BOUNDS: &[&[u8]] =
    &[b"-", b"+", b"-", b"+", b"[a", b"(a", b"[c", b"(c", b"[", b"(", b"[member", b"(\xff", b"x", b"", b"+x", b"-\0x"];

fn draw(letter: u8, random: &mut Random) -> Vec<u8> {
    match letter {
        b'k' => pick(random, &[b"a", b"a", b"b", b"b", b"c", b"other", b"nosuch"]),
        // Members of one score: ranges of members are told of in no other set.
        b'l' => pick(random, &[b"l", b"l", b"l", b"other", b"nosuch"]),
        b'S' => pick(random, &[b"other", b"other", b"other", b"a"]),
        b'f' => pick(random, SCORES),
        b'm' => pick(random, MEMBERS),
        b'o' => pick(random, &[b"NX", b"xx", b"GT", b"lt", b"CH", b"ch", b"CH", b"INCR", b"XX"]),
        b'i' => b"INCR".to_vec(),
        b'b' => pick(random, BOUNDS),
        b'B' => pick(random, MEMBER_BOUNDS),
        b'n' => pick(
            random,
            &[
                b"0",
                b"1",
                b"-1",
                b"2",
                b"-2",
                b"3",
                b"5",
                b"100",
                b"-100",
                b"9223372036854775807",
                b"-9223372036854775808",
                b"x",
            ],
        ),
        b'c' => pick(random, &[b"0", b"1", b"1", b"2", b"3", b"-1", b"x"]),
        b'w' => pick(random, &[b"WITHSCORES", b"withscores", b"WithScores", b"bogus"]),
        b'L' => pick(random, &[b"LIMIT", b"limit", b"Limit", b"bogus"]),
        b'e' => pick(random, &[b"MIN", b"max", b"MAX", b"min", b"LEFT"]),
        b'C' => pick(random, &[b"COUNT", b"count", b"bogus"]),
        b'W' => pick(random, &[b"WEIGHTS", b"weights", b"Weights", b"bogus"]),
        b'g' => pick(random, &[b"1", b"2", b"-1", b"0.1", b"inf", b"-inf", b"0", b"1e-3", b"nan", b"x"]),
        b'A' => pick(random, &[b"AGGREGATE", b"aggregate", b"bogus"]),
        b'G' => pick(random, &[b"SUM", b"min", b"MAX", b"max", b"AVG"]),
        b'y' => b"BYSCORE".to_vec(),
        b'Y' => b"BYLEX".to_vec(),
        b'r' => b"REV".to_vec(),
        b's' => pick(random, &[b"0", b"0", b"0", b"0", b"0", b"1"]),
        b'T' => pick(random, &[b"99999999999999", b"1"]),
        b'R' => b"REPLACE".to_vec(),
        b'1'..=b'3' => vec![letter],
        _ => b"7".to_vec(),
    }
}

fn rows(shapes: &[(&'static str, &[&'static str])]) -> Vec<Row> {
    shapes.iter().flat_map(|(name, shapes)| shapes.iter().map(move |shape| (*name, *shape, Order::Same))).collect()
}

#[test]
fn random_programs_of_sorted_sets_are_answered_byte_for_byte() {
    let rows = rows(&[
        ("ZADD", &["kfm", "kfm", "kfmfmfm", "kfmfmfmfmfm", "kofm", "kofm", "kofm", "koofm", "koofmfm", "kioofm"]),
        ("ZINCRBY", &["kfm", "kfm"]),
        ("ZREM", &["km", "kmmm"]),
        ("ZSCORE", &["km"]),
        ("ZMSCORE", &["kmmm"]),
        ("ZCARD", &["k"]),
        ("ZCOUNT", &["kbb", "kbb"]),
        ("ZRANK", &["km"]),
        ("ZREVRANK", &["km"]),
        ("ZRANGE", &["knn", "knnw", "knnr", "kbby", "kbbyrw", "kbbyLnn", "knnLnn", "kbbryw", "kBBYw"]),
        ("ZREVRANGE", &["knn", "knnw"]),
        ("ZRANGEBYSCORE", &["kbb", "kbbw", "kbbLnn", "kbbwLnn"]),
        ("ZREVRANGEBYSCORE", &["kbb", "kbbw", "kbbLnn"]),
        ("ZREMRANGEBYRANK", &["knn"]),
        ("ZREMRANGEBYSCORE", &["kbb"]),
        ("ZPOPMIN", &["k", "kc", "knn"]),
        ("ZPOPMAX", &["k", "kc"]),
        ("ZRANGESTORE", &["kknn", "kknnr", "kbbby", "kkbby", "kkbbyLnn", "kkbbryLnn", "kknnw"]),
        ("ZMPOP", &["1ke", "2kke", "2kkeCc", "nkke"]),
        ("SET", &["Sm"]),
        ("SADD", &["Sm"]),
        ("GET", &["k"]),
        ("DEL", &["k"]),
        ("TYPE", &["k"]),
        ("EXISTS", &["k"]),
        ("RENAME", &["kk"]),
        ("COPY", &["kkR"]),
        ("MOVE", &["ks"]),
        ("SELECT", &["s"]),
        ("PEXPIREAT", &["kT"]),
        ("PERSIST", &["k"]),
        ("DBSIZE", &[""]),
    ]);
    for protocol in ["2", "3"] {
        agree_over(protocol, "random_programs_of_sorted_sets", 80, &rows, &mut draw);
    }
}

#[test]
fn random_ranges_of_members_are_answered_byte_for_byte() {
    let rows = rows(&[
        ("ZADD", &["l7m", "l7m", "l7m7m7m"]),
        ("ZREM", &["lm"]),
        ("ZLEXCOUNT", &["lBB", "lBB"]),
        ("ZRANGE", &["lBBY", "lBBYr", "lBBYLnn", "lBBYrLnn"]),
        ("ZRANGEBYLEX", &["lBB", "lBBLnn", "lBBw"]),
        ("ZREVRANGEBYLEX", &["lBB", "lBBLnn"]),
        ("ZREMRANGEBYLEX", &["lBB"]),
        ("SET", &["Sm"]),
        ("DEL", &["l"]),
    ]);
    agree("random_ranges_of_members", 60, &rows, &mut draw);
}

/// Unions, intersections and differences of sorted sets and sets.
#[test]
fn random_operations_on_sorted_sets_are_answered_byte_for_byte() {
    let rows = rows(&[
        ("ZADD", &["kfm", "kfmfmfm", "kfmfmfmfmfm", "kfmfmfm"]),
        ("SADD", &["km", "kmmm", "kmm"]),
        ("ZUNION", &["2kk", "3kkk", "2kkw", "3kkkw", "2kkWgg", "2kkWggw", "3kkkWgggAGw", "2kkAGw", "2kkwAG", "nkk"]),
        ("ZINTER", &["2kk", "2kkw", "3kkkw", "2kkWggw", "3kkkWgggAGw", "2kkAGw", "nkk"]),
        ("ZDIFF", &["2kk", "2kkw", "3kkkw", "1kw", "2kkWgg", "nkk"]),
        ("ZINTERCARD", &["2kk", "3kkk", "2kkLc", "2kkLcLc", "2kkw", "nkk"]),
        ("ZUNIONSTORE", &["k2kk", "k3kkkWgggAG", "k2kkAG", "k2kkw", "knkk"]),
        ("ZINTERSTORE", &["k2kk", "k3kkkWgggAG", "k2kkAG"]),
        ("ZDIFFSTORE", &["k2kk", "k3kkk", "k2kkAG"]),
        ("ZRANGE", &["knnw", "knnw"]),
        ("ZREM", &["km"]),
        ("SET", &["Sm"]),
        ("DEL", &["k"]),
        ("DEL", &["k"]),
        ("TYPE", &["k"]),
        ("ZCARD", &["k"]),
        ("PEXPIREAT", &["kT"]),
    ]);
    for protocol in ["2", "3"] {
        agree_over(protocol, "random_operations_on_sorted_sets", 80, &rows, &mut draw);
    }
}

/// A command that changes a watched key ends the transaction of its watcher, and one that changes
/// nothing does not.
#[test]
fn changes_of_sorted_sets_and_floats_are_watched() {
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    for line in [
        "ZADD z 1 a 2 b 3 c",
        "ZADD z 1 a",
        "ZADD z NX 5 a",
        "ZADD z GT 0 a",
        "ZADD z XX 5 nosuch",
        "ZREM z nosuch",
        "ZREMRANGEBYSCORE z 100 200",
        "ZREMRANGEBYRANK z 5 6",
        "ZREMRANGEBYLEX z [x [y",
        "ZPOPMIN z 0",
        "ZRANGE z 0 -1",
        "ZUNION 2 z nosuch",
        "ZADD z 2 a",
        "ZINCRBY z 1 a",
        "ZINCRBY z 0 a",
        "ZADD z 9 d 8 e 7 f 6 g",
        "ZREM z d",
        "ZREMRANGEBYSCORE z 2 2",
        "ZREMRANGEBYRANK z -1 -1",
        "ZREMRANGEBYLEX z [f [f",
        "ZPOPMAX z",
        "ZMPOP 1 z MIN",
        "ZRANGESTORE y z 0 -1",
        "ZREMRANGEBYRANK z 0 -1",
        "ZUNIONSTORE z 1 nosuch",
        "ZRANGESTORE z nosuch 0 1",
        "ZUNIONSTORE z 1 y",
        "ZRANGESTORE z y 0 0",
        "ZINTERSTORE z 2 y nosuch",
        "ZDIFFSTORE z 1 y",
        "ZPOPMIN z 100",
        "INCRBYFLOAT n 0.5",
        "INCRBYFLOAT n x",
        "INCRBYFLOAT n 0",
        "HINCRBYFLOAT h f 0.5",
        "HINCRBYFLOAT h f 0",
        "HINCRBYFLOAT h f x",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let [multi, ping, exec] = ["MULTI", "PING", "EXEC"].map(|word| command(&[word]));
        let watch = command(&["WATCH", "z", "n", "h"]);
        let bytes = [watch, command(&words), multi, ping, exec].concat();
        compare(&mut ours, &mut theirs, &bytes, line);
    }
}

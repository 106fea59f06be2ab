//! The output limit: of commands in one EXEC, of several streams, of values that are looked up.

use super::Turns;
use crate::Options;
use everbyte_workload::Random;

fn limited(output_size_max: usize) -> Turns {
    Turns::with(Options { output_size_max, ..Options::default() })
}

/// Lines of commands that reply with several elements; the keys are those of `filled`.
const READS: [&str; 47] = [
    "GET s1",
    "MGET s1 s2 s3 s4",
    "RANGE - +",
    "REVRANGE + - LIMIT 7",
    "PREFIX s",
    "KEYS *",
    "KEYS s*",
    "SCAN 0",
    "SCAN 0 COUNT 1000",
    "SCAN 0 COUNT 1000 MATCH s*",
    "LRANGE list 0 -1",
    "LRANGE list 3 9",
    "SORT list ALPHA",
    "SORT list BY s* GET s* GET #",
    "SORT_RO set ALPHA DESC",
    "LPOS list e COUNT 0",
    "SMEMBERS set",
    "SSCAN set 0",
    "SSCAN set 0 COUNT 100",
    "SRANDMEMBER set -20",
    "SRANDMEMBER set 20",
    "SINTER set set",
    "SUNION set other",
    "SDIFF set other",
    "HGETALL hash",
    "HKEYS hash",
    "HVALS hash",
    "HMGET hash 1 2 3 4 5",
    "HSCAN hash 0",
    "HRANDFIELD hash -20 WITHVALUES",
    "ZRANGE zset 0 -1 WITHSCORES",
    "ZRANGEBYSCORE zset -inf +inf",
    "ZSCAN zset 0 COUNT 5",
    "ZRANDMEMBER zset -15 WITHSCORES",
    "ZUNION 2 zset zset",
    "GEOSEARCH geo FROMLONLAT 1 1 BYRADIUS 9000 km ASC WITHCOORD",
    "XRANGE stream - +",
    "XREVRANGE stream + - COUNT 4",
    "XREAD STREAMS stream 0",
    "XREADGROUP GROUP g c STREAMS stream 0",
    "XPENDING stream g - + 100",
    "XINFO STREAM stream FULL COUNT 0",
    "DUMP list",
    "CONFIG GET *",
    "COMMAND LIST",
    "XINFO HELP",
    "INFO",
];

fn filled(turns: &mut Turns) {
    turns.ask(0, &["XGROUP CREATE stream g 0 MKSTREAM"]);
    for number in 0..30 {
        let text = "x".repeat(5 + 3 * number);
        turns.ask(
            0,
            &[
                &format!("SET s{number} {text}"),
                &format!("RPUSH list {number}{text}"),
                &format!("SADD set {number}{text}"),
                &format!("SADD other {text}"),
                &format!("HSET hash {number} {text}"),
                &format!("ZADD zset {number} {text}"),
                &format!("GEOADD geo {number} {number} {text}"),
                &format!("XADD stream {number}-1 f {text}"),
                &format!("XCLAIM stream g c 0 {number}-1 FORCE JUSTID"),
            ],
        );
    }
}

/// Commands of one EXEC share the limit: each has the room that those before it have left, and is
/// refused if that is not enough. SCAN and its kin may go beyond it by one element, once, and the
/// figures of the server by one reply.
#[test]
fn commands_of_a_transaction_share_the_output_limit() {
    const LIMIT: usize = 8000;
    const FIGURES: usize = 4000;
    let seed = everbyte_workload::seed(3, "commands_of_a_transaction_share");
    let mut random = Random::new(seed);
    let mut turns = limited(LIMIT);
    filled(&mut turns);
    let (mut refused, mut whole) = (0, 0);
    for round in 0..200 {
        let lines: Vec<&str> = (0..1 + random.index(10)).map(|_| READS[random.index(READS.len())]).collect();
        let program = [&["MULTI"], &lines[..], &["EXEC"]].concat();
        let reply = turns.ask(0, &program);
        let reply = reply.split("+QUEUED\r\n").last().unwrap_or_default();
        assert!(
            reply.starts_with(&format!("*{}\r\n", lines.len())),
            "seed {seed:#x}, round {round}: {lines:?}: {reply}"
        );
        let errors: usize = reply.split("\r\n").filter(|line| line.starts_with("-ERR")).map(str::len).sum();
        assert!(
            reply.len() <= LIMIT + errors + FIGURES,
            "seed {seed:#x}, round {round}: {} bytes for {lines:?}",
            reply.len()
        );
        if errors > 0 { refused += 1 } else { whole += 1 }
    }
    assert!(refused > 20 && whole > 20, "{refused} {whole}");
}

/// An XREADGROUP of several streams is measured before it changes the first, whatever it reads, so
/// others of its iteration stand.
#[test]
fn a_refused_reading_of_several_streams_costs_others_nothing() {
    let large = "v".repeat(2000);
    let fill = |turns: &mut Turns| {
        turns.ask(0, &["XADD a 1-1 f v", "XGROUP CREATE a g 0", "XGROUP CREATE b g 0 MKSTREAM"]);
        turns.ask(0, &["XADD b 1-1 f v", &format!("XADD b 2-1 f {large}"), "XGROUP CREATE d g 0 MKSTREAM"]);
        for number in 1..100 {
            let id = format!("{number}-1");
            turns.ask(
                0,
                &[&format!("XADD d {id} f v"), &format!("XCLAIM d g c 0 {id} FORCE JUSTID"), &format!("XDEL d {id}")],
            );
        }
    };
    for (before, line) in [
        // The first entry is small and acknowledged, the pending one is large.
        ("XCLAIM b g c 0 2-1 FORCE JUSTID", "XREADGROUP GROUP g c COUNT 1 STREAMS a b > 0"),
        // Deleted entries that are pending have a line each.
        ("PING", "XREADGROUP GROUP g c STREAMS a d > 0"),
        // The second time the stream goes on behind the first.
        ("PING", "XREADGROUP GROUP g c COUNT 1 STREAMS b b > >"),
        ("XCLAIM b g c 0 1-1 FORCE JUSTID", "XREADGROUP GROUP g c COUNT 2 STREAMS b a b > > 0"),
    ] {
        let mut turns = limited(1024);
        fill(&mut turns);
        turns.ask(0, &[before]);
        let replies = turns.at(0, &[(1, &["SET other 1"]), (0, &[line, "GET other"])]);
        assert_eq!(replies[1], "+OK\r\n", "{line}");
        assert!(replies[0].contains("output limit") && replies[0].ends_with("$1\r\n1\r\n"), "{line}: {}", replies[0]);
        assert!(turns.ask(0, &["XPENDING a g"]).starts_with("*4\r\n:0\r\n"), "{line}: nothing of a was delivered");
    }
    // A stream that is named twice is read on, and what fits is given.
    let mut turns = limited(4096);
    fill(&mut turns);
    let reply = turns.ask(0, &["XREADGROUP GROUP g c COUNT 1 STREAMS b b > >"]);
    assert!(reply.contains("1-1") && reply.contains("2-1"), "{reply}");
}

/// Values that SORT looks up are in memory at once when texts are compared, or stored.
#[test]
fn values_that_sort_looks_up_are_bounded() {
    let mut turns = limited(4000);
    for number in 0..20 {
        turns.ask(0, &[&format!("RPUSH l {number}"), &format!("SET w{number} {}", "w".repeat(300))]);
    }
    for line in
        ["SORT l BY w* ALPHA LIMIT 0 1", "SORT l BY nosort GET w* STORE d", "SORT l BY w* ALPHA LIMIT 0 1 STORE d"]
    {
        let replies = turns.ask(0, &["SET other 1", line, "GET other", "EXISTS d"]);
        assert!(replies.contains("output limit"), "{line}: {replies}");
        assert!(replies.starts_with("+OK\r\n") && replies.ends_with("$1\r\n1\r\n:0\r\n"), "{line}: {replies}");
    }
    assert_eq!(
        turns
            .ask(0, &["SORT l BY w* ALPHA LIMIT 0 0 STORE d", "SORT l BY nosort LIMIT 0 3 GET w* STORE d"])
            .matches("output")
            .count(),
        1
    );
    assert_eq!(turns.ask(0, &["LLEN d"]), ":3\r\n");
}

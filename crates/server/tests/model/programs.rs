//! Random programs to both servers, the same replies from both.
//!
//! A program's commands are drawn from a list of names and shapes; a shape has one letter an
//! argument, and a function draws the argument of a letter. Now and then an argument is missing or
//! one is too many.

use crate::common::{self, Ours, Redis, Reply, command};
use crate::{compare, scanned, shown};
use everbyte_workload::Random;

/// Whether the order of a reply's elements is the server's own choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The same bytes.
    Same,
    /// The same elements in any order.
    Any,
    /// The same pairs, one element after the other, in any order.
    AnyPairs,
    /// The same but for times of pending entries and of consumers, and for radix trees.
    Timeless,
}

/// Name, shape, and the order of the reply.
pub(crate) type Row = (&'static str, &'static str, Order);

fn sorted(reply: Reply, order: Order) -> Reply {
    match (reply, order) {
        (Reply::List(mut list), Order::Any) => {
            list.sort();
            Reply::List(list)
        }
        (Reply::List(list), Order::AnyPairs) if list.len() % 2 == 0 => {
            let mut pairs: Vec<Reply> = list.chunks(2).map(|pair| Reply::List(pair.to_vec())).collect();
            pairs.sort();
            Reply::List(pairs)
        }
        (other, Order::Timeless) => timeless(other),
        (other, _) => other,
    }
}

/// A reply about consumer groups with zeros for its times.
fn timeless(reply: Reply) -> Reply {
    const FIELDS: [&[u8]; 4] = [b"idle", b"seen-time", b"radix-tree-keys", b"radix-tree-nodes"];
    let Reply::List(mut list) = reply else { return reply };
    for place in 1..list.len() {
        if matches!(&list[place - 1], Reply::Bulk(name) if FIELDS.contains(&&name[..])) {
            list[place] = Reply::Integer(0);
        }
    }
    match &list[..] {
        [Reply::Bulk(_), Reply::Bulk(_), Reply::Integer(_), Reply::Integer(_)] => list[2] = Reply::Integer(0),
        [Reply::Bulk(_), Reply::Integer(_), Reply::Integer(_)] => list[1] = Reply::Integer(0),
        _ => {}
    }
    Reply::List(list.into_iter().map(timeless).collect())
}

/// Runs `rounds` programs of 100 commands: every other one command by command, so that a difference
/// is found where it begins, the others at once. Behind each program the keys are compared, and
/// every tenth time all of them deleted.
pub(crate) fn agree(name: &str, rounds: usize, rows: &[Row], draw: &mut dyn FnMut(u8, &mut Random) -> Vec<u8>) {
    agree_over("2", name, rounds, rows, draw);
}

/// As `agree`, with clients that speak a version of the protocol.
pub(crate) fn agree_over(
    protocol: &str,
    name: &str,
    rounds: usize,
    rows: &[Row],
    draw: &mut dyn FnMut(u8, &mut Random) -> Vec<u8>,
) {
    let seed = common::seed(name);
    let mut random = Random::new(seed);
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    for client in [&mut ours, &mut theirs] {
        client.call(&["HELLO", protocol]);
    }
    for round in 0..rounds {
        let mut program = Vec::new();
        for _ in 0..100 {
            let (name, shape, order) = rows[random.index(rows.len())];
            let mut args: Vec<Vec<u8>> = vec![name.into()];
            args.extend(shape.bytes().map(|letter| draw(letter, &mut random)));
            match random.index(40) {
                0 => drop(args.pop()),
                1 => args.push(draw(b'v', &mut random)),
                _ => {}
            }
            if args.is_empty() {
                continue;
            }
            let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let text: Vec<String> = words.iter().map(|arg| shown(&arg[..arg.len().min(40)])).collect();
            let what = format!("seed {seed:#x}, round {round}: {text:?}");
            if round % 2 == 1 && order == Order::Same {
                program.extend_from_slice(&command(&words));
            } else if order == Order::Same {
                compare(&mut ours, &mut theirs, &command(&words), &what);
            } else {
                compare(&mut ours, &mut theirs, &std::mem::take(&mut program), &what);
                let [our, their] = [&mut ours, &mut theirs].map(|client| sorted(client.call(&words), order));
                assert_eq!(our, their, "{what}");
            }
        }
        compare(&mut ours, &mut theirs, &program, &format!("seed {seed:#x}, round {round}, pipelined"));
        assert_eq!(scanned(&mut ours, &[]), scanned(&mut theirs, &[]), "seed {seed:#x}, round {round}: keys");
        if round % 10 == 9 {
            compare(&mut ours, &mut theirs, &command(&["FLUSHALL"]), "FLUSHALL");
        }
    }
}

/// One of the given words.
pub(crate) fn pick(random: &mut Random, words: &[&[u8]]) -> Vec<u8> {
    words[random.index(words.len())].to_vec()
}

const KEYS: &[&[u8]] = &[b"a", b"b", b"counter", b"", b"\0\xff\r\n", b"key:1", b"key:2", b"key:10", b"nosuch"];

/// Strings and keys of any type, odd options and wrong numbers of arguments included.
#[test]
fn random_programs_are_answered_byte_for_byte() {
    let large = vec![b'L'; 100_000];
    let values: &[&[u8]] = &[
        b"",
        b"x",
        b"hello",
        b"1",
        b"-5",
        b"9223372036854775807",
        b"-9223372036854775808",
        b"007",
        b"1.5",
        b" 1",
        b"\0\x01\xfe\xff",
        b"\r\n$5\r\n",
        &large,
    ];
    let numbers: &[&[u8]] =
        &[b"0", b"1", b"-1", b"3", b"-3", b"100", b"9223372036854775807", b"-9223372036854775808", b"x", b""];
    let shapes: &[(&str, &[&str])] = &[
        ("GET", &["k"]),
        ("SET", &["kv", "kvo", "kvoo", "kvEt", "kveF", "kvoeF"]),
        ("SETNX", &["kv"]),
        ("GETSET", &["kv"]),
        ("GETDEL", &["k"]),
        ("GETEX", &["k", "kEt", "keF", "kp"]),
        ("MGET", &["kkk"]),
        ("MSET", &["kvkv"]),
        ("MSETNX", &["kvkv"]),
        ("APPEND", &["kv"]),
        ("STRLEN", &["k"]),
        ("GETRANGE", &["knn"]),
        ("SUBSTR", &["knn"]),
        ("SETRANGE", &["ksv"]),
        ("INCR", &["k"]),
        ("DECR", &["k"]),
        ("INCRBY", &["kn"]),
        ("DECRBY", &["kn"]),
        ("DEL", &["kk"]),
        ("UNLINK", &["k"]),
        ("EXISTS", &["kk"]),
        ("TOUCH", &["k"]),
        ("TYPE", &["k"]),
        ("RENAME", &["kk"]),
        ("RENAMENX", &["kk"]),
        ("SETEX", &["ktv"]),
        ("PSETEX", &["ktv"]),
        ("EXPIRE", &["kt", "ktc"]),
        ("PEXPIRE", &["ktcc"]),
        ("EXPIREAT", &["kT", "kTc"]),
        ("PEXPIREAT", &["kTc"]),
        ("EXPIRETIME", &["k"]),
        ("PEXPIRETIME", &["k"]),
        ("PERSIST", &["k"]),
        ("COPY", &["kk", "kkr", "kkds"]),
        ("MOVE", &["ks"]),
        ("FLUSHDB", &[""]),
        ("DBSIZE", &[""]),
        ("PING", &["", "v"]),
        ("ECHO", &["v"]),
        ("nosuch", &["kv"]),
        ("SELECT", &["s"]),
    ];
    let rows: Vec<Row> =
        shapes.iter().flat_map(|(name, shapes)| shapes.iter().map(move |shape| (*name, *shape, Order::Same))).collect();
    let draw = &mut |letter, random: &mut Random| match letter {
        b'k' => pick(random, KEYS),
        b'v' => pick(random, values),
        b'n' => pick(random, numbers),
        b's' => pick(random, &[b"0", b"0", b"0", b"1", b"5", b"16", b"-1", b"x"]),
        b'E' => pick(random, &[b"EX", b"px"]),
        b'e' => pick(random, &[b"EXAT", b"PxAt"]),
        // Both servers read their own clocks, so times from now on are past or refused
        // (`api/expiry.rs` has the others), and times of day are far away or past.
        b't' => pick(random, &[b"0", b"-5", b"9223372036854775807", b"-9223372036854775808", b"x"]),
        // A key that is set with a deadline in the past is counted until it is swept.
        b'F' => pick(random, &[b"99999999999999", b"0", b"-1", b"9223372036854776"]),
        b'T' => pick(random, &[b"99999999990", b"99999999999999", b"1", b"0", b"-1", b"9223372036854776"]),
        b'c' => pick(random, &[b"NX", b"xx", b"GT", b"LT", b"bogus"]),
        b'p' => b"PERSIST".to_vec(),
        b'r' => b"REPLACE".to_vec(),
        b'd' => b"DB".to_vec(),
        _ => pick(random, &[b"NX", b"xx", b"GET", b"KeepTTL", b"bogus"]),
    };
    agree("random_programs", 80, &rows, draw);
}

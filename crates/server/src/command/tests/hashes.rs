//! Hashes of thousands of fields, sets, and what a failing command leaves of them.

use super::Desk;
use crate::options::Options;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn replies(desk: &mut Desk, words: &[&[u8]]) -> String {
    let ends = desk.iteration(&[words]);
    assert!(ends[0].is_ok(), "{ends:?}");
    let mut out = Vec::new();
    desk.out.send(&mut out).unwrap();
    String::from_utf8_lossy(&out).into_owned()
}

/// The command is refused, and the other one of its iteration stands.
pub(super) fn refused_alone(desk: &mut Desk, round: usize, words: &[&[u8]]) {
    let other = format!("other {round}");
    let ends = desk.iteration(&[&[b"SET", other.as_bytes(), b"kept"], words]);
    assert!(ends[0].is_ok() && matches!(&ends[1], Err(text) if !text.contains("lost")), "{round}: {ends:?}");
    assert_eq!(desk.get(other.as_bytes()).as_deref(), Some(&b"kept"[..]));
    desk.out.send(&mut Vec::new()).unwrap();
}

/// A desk with the hash `h` of fields `0` to `count - 1`, each its own value.
fn desk(count: usize, options: Options) -> Desk {
    let mut desk = Desk::new(options);
    let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    for part in numbers.chunks(500) {
        let pairs = part.iter().flat_map(|number| [number.as_bytes(), number.as_bytes()]);
        let words: Vec<&[u8]> = [&b"HSET"[..], b"h"].into_iter().chain(pairs).collect();
        assert_eq!(replies(&mut desk, &words), format!(":{}\r\n", part.len()));
    }
    desk
}

/// The byte strings of a reply.
pub(super) fn bulks(reply: &str) -> Vec<String> {
    let mut lines = reply.split("\r\n");
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with('$') {
            found.extend(lines.next().map(str::to_string));
        }
    }
    found
}

/// Every field that stays is returned by HSCAN once, in calls of about COUNT, while others come and
/// go.
#[test]
fn hscan_returns_every_field_that_stays() {
    let mut desk = desk(2000, Options::default());
    let (mut cursor, mut seen, mut calls) = ("0".to_string(), Vec::new(), 0);
    loop {
        let reply = replies(&mut desk, &[b"HSCAN", b"h", cursor.as_bytes(), b"COUNT", b"50"]);
        let mut strings = bulks(&reply);
        cursor = strings.remove(0);
        assert!(strings.len() <= 110, "{} strings for COUNT 50", strings.len());
        for pair in strings.chunks(2) {
            assert_eq!(pair[0], pair[1]);
            seen.push(pair[0].clone());
        }
        calls += 1;
        // Numbers of five digits come and go.
        let (new, old) = (format!("{}", 10_000 + calls), format!("{}", 10_000 + calls - 3));
        replies(&mut desk, &[b"HSET", b"h", new.as_bytes(), new.as_bytes()]);
        replies(&mut desk, &[b"HDEL", b"h", old.as_bytes()]);
        if cursor == "0" {
            break;
        }
    }
    assert!(calls >= 40, "{calls} calls");
    seen.retain(|field| field.len() < 5);
    let set: BTreeSet<&String> = seen.iter().collect();
    assert_eq!((seen.len(), set.len()), (2000, 2000));
}

/// HRANDFIELD chooses every field as often as any other, in each of its ways; different ones where
/// it has to.
#[test]
fn random_fields_are_all_as_likely() {
    let mut desk = desk(200, Options::default());
    for (count, rounds) in [(&b"-4000"[..], 1), (b"40", 100), (b"100", 40), (b"1", 1000)] {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        let mut all = 0;
        for _ in 0..rounds {
            let reply = replies(&mut desk, &[b"HRANDFIELD", b"h", count]);
            let fields = bulks(&reply);
            let set: BTreeSet<&String> = fields.iter().collect();
            assert!(count[0] == b'-' || set.len() == fields.len() && fields.len().to_string().as_bytes() == count);
            all += fields.len() as u32;
            fields.into_iter().for_each(|field| *counts.entry(field).or_default() += 1);
        }
        let mean = f64::from(all) / 200.0;
        let square: f64 = (0..200)
            .map(|number| counts.get(&number.to_string()).copied().map_or(0.0, f64::from) - mean)
            .map(|off| off * off / mean)
            .sum();
        // Chi square of 199 degrees: 20 on either side of the mean is one deviation.
        assert!(square < 199.0 + 160.0, "{square} for {all} fields, count {}", String::from_utf8_lossy(count));
    }
    let pairs = bulks(&replies(&mut desk, &[b"HRANDFIELD", b"h", b"-20", b"WITHVALUES"]));
    assert!(pairs.len() == 40 && pairs.chunks(2).all(|pair| pair[0] == pair[1]));
}

/// A command about a hash that fails has changed nothing, and what others wrote in its iteration
/// stands.
#[test]
fn a_failing_command_about_a_hash_costs_others_nothing() {
    let mut desk = desk(3, Options { output_size_max: 1000, ..Options::default() });
    let (long, large) = (vec![b'k'; everbyte_kv::KEY_MAX + 1], vec![b'v'; 1100]);
    replies(&mut desk, &[b"HSET", b"large", b"f", &large]);
    replies(&mut desk, &[b"SET", b"string", b"v"]);
    for (round, words) in [
        &[&b"HSET"[..], b"h", b"new", b"1", &long, b"2"][..],
        &[b"HSET", b"h", b"new", b"1", b"odd"],
        &[b"HMSET", b"other", b"new", b"1", &long, b"2"],
        &[b"HSETNX", b"other", &long, b"2"],
        &[b"HINCRBY", b"other", &long, b"2"],
        &[b"HINCRBYFLOAT", b"other", &long, b"2"],
        &[b"HINCRBYFLOAT", b"h", b"new", b"1e4000"],
        &[b"HINCRBYFLOAT", b"h", b"1", b"inf"],
        &[b"INCRBYFLOAT", b"other", b"1e4000"],
        &[b"HSET", &long, b"new", b"1"],
        &[b"HDEL", b"h", b"1", &long],
        &[b"HSET", b"string", b"new", b"1"],
        &[b"HGET", b"large", b"f"],
        &[b"HGETALL", b"large"],
        &[b"HVALS", b"large"],
        &[b"HRANDFIELD", b"large", b"1", b"WITHVALUES"],
        &[b"HRANDFIELD", b"h", b"-1000"],
    ]
    .into_iter()
    .enumerate()
    {
        refused_alone(&mut desk, round, words);
        assert_eq!(replies(&mut desk, &[b"HLEN", b"h"]), ":3\r\n");
        assert_eq!(replies(&mut desk, &[b"EXISTS", b"other"]), ":0\r\n");
    }
}

/// A command reads the fields it names, and none of their values where it returns none.
#[test]
fn commands_about_hashes_read_what_they_name() {
    let mut desk = Desk::new(Options::default());
    let value = vec![b'v'; 1 << 20];
    for field in [b"1", b"2", b"3", b"4"] {
        replies(&mut desk, &[b"HSET", b"h", field, &value]);
    }
    for (words, read) in [
        (&[&b"HGET"[..], b"h", b"1"][..], 1),
        (&[b"HMGET", b"h", b"1", b"3"], 2),
        (&[b"HGETALL", b"h"], 4),
        (&[b"HLEN", b"h"], 0),
        (&[b"HEXISTS", b"h", b"1"], 0),
        (&[b"HSTRLEN", b"h", b"1"], 0),
        (&[b"HSETNX", b"h", b"1", b"x"], 0),
        (&[b"HSET", b"h", b"1", b"x"], 0),
        (&[b"HRANDFIELD", b"h"], 0),
        (&[b"HKEYS", b"h"], 0),
        (&[b"HRANDFIELD", b"h", b"4"], 0),
        (&[b"HRANDFIELD", b"h", b"-4"], 0),
        (&[b"HINCRBY", b"h", b"n", b"1"], 0),
        (&[b"RENAME", b"h", b"i"], 0),
        (&[b"EXPIRE", b"i", b"100"], 0),
        (&[b"PERSIST", b"i"], 0),
        (&[b"COPY", b"i", b"h"], 3),
        (&[b"HDEL", b"h", b"1"], 0),
        (&[b"DEL", b"h", b"i"], 0),
    ] {
        let before = everbyte_kv::fetched();
        replies(&mut desk, words);
        let fetched = everbyte_kv::fetched() - before;
        let due = read << 20..=(read << 20) + (8 << 10);
        assert!(due.contains(&fetched), "{}: {fetched} bytes", String::from_utf8_lossy(words[0]));
    }
}

/// A command about a set that fails has changed nothing, and what others wrote in its iteration
/// stands.
#[test]
fn a_failing_command_about_a_set_costs_others_nothing() {
    let mut desk = Desk::new(Options { output_size_max: 1000, ..Options::default() });
    let (long, large) = (vec![b'k'; everbyte_kv::KEY_MAX + 1], vec![b'v'; 1100]);
    replies(&mut desk, &[b"SADD", b"s", b"1", b"2", b"3"]);
    replies(&mut desk, &[b"SADD", b"large", &large]);
    for (round, words) in [
        &[&b"SADD"[..], b"s", b"new", &long][..],
        &[b"SADD", b"other", b"new", &long],
        &[b"SADD", &long, b"new"],
        &[b"SREM", b"s", b"1", &long],
        &[b"SMOVE", b"s", &long, b"1"],
        &[b"SPOP", b"large"],
        &[b"SPOP", b"large", b"1"],
        &[b"SMEMBERS", b"large"],
        &[b"SRANDMEMBER", b"large"],
        &[b"SRANDMEMBER", b"s", b"-1000"],
    ]
    .into_iter()
    .enumerate()
    {
        refused_alone(&mut desk, round, words);
        assert_eq!(replies(&mut desk, &[b"SCARD", b"s"]), ":3\r\n");
        assert_eq!(replies(&mut desk, &[b"SCARD", b"large"]), ":1\r\n");
        assert_eq!(replies(&mut desk, &[b"EXISTS", b"other"]), ":0\r\n");
    }
}

/// SPOP removes what it returns, each member once, and the key with the last one.
#[test]
fn spop_removes_what_it_returns() {
    let mut desk = Desk::new(Options::default());
    let numbers: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    let members = numbers.iter().map(String::as_bytes);
    replies(&mut desk, &[&b"SADD"[..], b"s"].into_iter().chain(members).collect::<Vec<_>>());
    let mut seen = BTreeSet::new();
    for words in
        [&[&b"SPOP"[..], b"s"][..], &[b"SPOP", b"s", b"20"], &[b"SPOP", b"s", b"200"], &[b"SPOP", b"s", b"999"]]
    {
        for member in bulks(&replies(&mut desk, words)) {
            assert_eq!(replies(&mut desk, &[b"SISMEMBER", b"s", member.as_bytes()]), ":0\r\n");
            assert!(seen.insert(member));
        }
        let left = format!(":{}\r\n", 300 - seen.len());
        assert_eq!(replies(&mut desk, &[b"SCARD", b"s"]), left);
    }
    assert_eq!((seen.len(), replies(&mut desk, &[b"EXISTS", b"s"]).as_str()), (300, ":0\r\n"));
}

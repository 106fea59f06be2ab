//! Sorted sets of thousands of members beside a model, and what a failing command leaves of them.

use super::Desk;
use super::hashes::{bulks, refused_alone, replies};
use crate::keyspace::{Keyspace, ValueType};
use crate::options::Options;
use everbyte_media::museum;
use everbyte_workload::Random;
use std::collections::BTreeSet;

/// Members by score, in order.
#[derive(Default)]
struct Model(Vec<(i64, String)>);

impl Model {
    fn remove(&mut self, member: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|(_, other)| other != member);
        self.0.len() < before
    }

    fn put(&mut self, member: &str, score: i64) -> bool {
        let new = !self.remove(member);
        let place = self.0.partition_point(|other| *other < (score, member.to_string()));
        self.0.insert(place, (score, member.to_string()));
        new
    }

    /// As a reply with scores.
    fn flat<'a>(members: impl IntoIterator<Item = &'a (i64, String)>) -> Vec<String> {
        members.into_iter().flat_map(|(score, member)| [member.clone(), score.to_string()]).collect()
    }
}

/// ZSET-1 and KEYS-3 of the set at a key.
pub(super) fn agrees(desk: &mut Desk, key: &[u8]) -> bool {
    let tables = std::sync::Arc::clone(&desk.shared.tables);
    let mut keys = Keyspace::new(&tables, Box::default(), desk.shared.clock(), false, false);
    match keys.collection(key, ValueType::SortedSet).expect("a sorted set") {
        Some(set) => keys.agrees(&set).unwrap(),
        None => true,
    }
}

/// A random program of changes; what went wrong, if anything did.
fn program(seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let (mut desk, mut model) = (Desk::new(Options::default()), Model::default());
    for step in 0..400 {
        let member = |random: &mut Random| format!("member {}", random.index(600));
        let score = |random: &mut Random| random.index(50) as i64 - 25;
        let mut words: Vec<String> = Vec::new();
        let expect = match random.index(10) {
            0..=4 => {
                words = vec!["ZADD".into(), "z".into()];
                let mut new = 0;
                for _ in 0..random.index(60) + 1 {
                    let (member, score) = (member(&mut random), score(&mut random));
                    new += usize::from(model.put(&member, score));
                    words.extend([score.to_string(), member]);
                }
                format!(":{new}\r\n")
            }
            5 => {
                let member = member(&mut random);
                let old = model.0.iter().find(|(_, other)| *other == member).map_or(0, |(score, _)| *score);
                model.put(&member, old + 3);
                words.extend(["ZINCRBY".into(), "z".into(), "3".into(), member]);
                let text = (old + 3).to_string();
                format!("${}\r\n{text}\r\n", text.len())
            }
            6 => {
                let member = member(&mut random);
                let gone = model.remove(&member);
                words.extend(["ZREM".into(), "z".into(), member]);
                format!(":{}\r\n", i64::from(gone))
            }
            7 => {
                let (low, high) = (score(&mut random), score(&mut random));
                let before = model.0.len();
                model.0.retain(|(score, _)| !(low <= *score && *score < high.min(low + 4)));
                words.extend([
                    "ZREMRANGEBYSCORE".into(),
                    "z".into(),
                    low.to_string(),
                    format!("({}", high.min(low + 4)),
                ]);
                format!(":{}\r\n", before - model.0.len())
            }
            8 => {
                let count = model.0.len();
                let (from, last) = (random.index(count + 1), random.index(40));
                let gone = model.0.drain(from.min(count)..(from + last + 1).min(count)).count();
                words.extend(["ZREMRANGEBYRANK".into(), "z".into(), from.to_string(), (from + last).to_string()]);
                format!(":{gone}\r\n")
            }
            _ => {
                let count = (random.index(30) + 1).min(model.0.len());
                let name = ["ZPOPMIN", "ZPOPMAX"][random.index(2)];
                let popped: Vec<_> = match name {
                    "ZPOPMIN" => model.0.drain(..count).collect(),
                    _ => model.0.drain(model.0.len() - count..).rev().collect(),
                };
                words.extend([name.into(), "z".into(), count.to_string()]);
                let arguments: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
                let found = bulks(&replies(&mut desk, &arguments));
                if found != Model::flat(&popped) {
                    return Err(format!("step {step}: {words:?}"));
                }
                continue;
            }
        };
        let arguments: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let ends = desk.iteration(&[&arguments]);
        let mut out = Vec::new();
        desk.out.send(&mut out).unwrap();
        if ends[0].is_err() || out != expect.as_bytes() {
            return Err(format!("step {step}: {words:?}: {ends:?} {}, not {expect}", out.escape_ascii()));
        }
        let found = bulks(&replies(&mut desk, &[b"ZRANGE", b"z", b"0", b"-1", b"WITHSCORES"]));
        if found != Model::flat(&model.0) {
            return Err(format!("step {step}: the members behind {words:?}"));
        }
        // Ranks from either end, found from the nearer one, and back.
        let at = random.index(model.0.len() + 1);
        if let Some((score, member)) = model.0.get(at) {
            let (rank, score) = (at.to_string(), score.to_string());
            let found = bulks(&replies(&mut desk, &[b"ZRANGE", b"z", rank.as_bytes(), rank.as_bytes()]));
            let back = replies(&mut desk, &[b"ZRANK", b"z", member.as_bytes()]);
            let from_end = replies(&mut desk, &[b"ZREVRANK", b"z", member.as_bytes()]);
            let scores = bulks(&replies(&mut desk, &[b"ZSCORE", b"z", member.as_bytes()]));
            if found != [member.clone()]
                || back != format!(":{at}\r\n")
                || from_end != format!(":{}\r\n", model.0.len() - 1 - at)
                || scores != [score]
            {
                return Err(format!("step {step}: {member} at {at}"));
            }
        }
        if step % 20 == 0 && !agrees(&mut desk, b"z") {
            return Err(format!("step {step}: ZSET-1 behind {words:?}"));
        }
    }
    replies(&mut desk, &[b"ZREMRANGEBYSCORE", b"z", b"-inf", b"inf"]);
    match replies(&mut desk, &[b"EXISTS", b"z"]).as_str() {
        ":0\r\n" => Ok(()),
        _ => Err("a set without members is there".to_string()),
    }
}

/// ZSET-1, KEYS-3; and the order, ranks and scores of a model.
#[test]
fn sorted_sets_do_what_a_model_does() {
    for seed in 0..3 {
        program(seed).unwrap();
    }
}

#[test]
fn seeded_bugs_of_sorted_sets_are_found() {
    for bug in ["server-old-score-kept", "server-new-score-lost", "server-popped-member-kept"] {
        let found = (0..3).find_map(|seed| museum::with(bug, || program(seed)).err());
        println!("{bug}: {}", found.expect(bug));
    }
}

/// The worked example of `docs/formats/server.md`.
#[test]
fn the_elements_of_a_member_lie_as_the_format_says() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/server.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut desk = Desk::new(Options::default());
    replies(&mut desk, &[b"ZADD", b"z", b"1.5", b"a"]);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let mut count = 0;
    for entry in desk.shared.tables.elements.range::<[u8]>(..).unwrap() {
        let (key, value) = entry.unwrap();
        assert!(page.contains(&format!("`{}`", hex(&key))), "{}", hex(&key));
        assert!(value.is_empty() || page.contains(&format!("`{}`", hex(&value))), "{}", hex(&value));
        count += 1;
    }
    assert_eq!(count, 2);
}

/// Ranks and counts pass over the leaves up to the nearer end, or outside of the range if these are
/// fewer; a random key costs a few ways down the tree: counted in leaves.
#[test]
fn ranks_counts_and_random_keys_cost_what_they_say() {
    let mut desk = Desk::new(Options::default());
    for first in (0..20_000).step_by(1000) {
        let numbers: Vec<String> = (first..first + 1000).map(|number| format!("{number:05}")).collect();
        let scored = numbers.iter().flat_map(|number| [number.as_bytes(), number.as_bytes()]);
        let words: Vec<&[u8]> = [&b"ZADD"[..], b"z"].into_iter().chain(scored).collect();
        let level = numbers.iter().flat_map(|number| [b"0", number.as_bytes()]);
        let level: Vec<&[u8]> = [&b"ZADD"[..], b"level"].into_iter().chain(level).collect();
        let keys = numbers.iter().flat_map(|number| [number.as_bytes(), b"1"]);
        let keys: Vec<&[u8]> = [&b"MSET"[..]].into_iter().chain(keys).collect();
        assert!(desk.iteration(&[&words, &level, &keys]).iter().all(Result::is_ok));
    }
    desk.out.send(&mut Vec::new()).unwrap();
    for (words, bound, expect) in [
        (&[&b"ZRANK"[..], b"z", b"00010"][..], 8, ":10\r\n"),
        (&[b"ZRANK", b"z", b"19990"], 8, ":19990\r\n"),
        (&[b"ZREVRANK", b"z", b"00010"], 8, ":19989\r\n"),
        (&[b"ZREVRANK", b"z", b"19990"], 8, ":9\r\n"),
        (&[b"ZCOUNT", b"z", b"-inf", b"+inf"], 8, ":20000\r\n"),
        (&[b"ZCOUNT", b"z", b"10", b"(19990"], 10, ":19980\r\n"),
        (&[b"ZCOUNT", b"z", b"9000", b"9009"], 8, ":10\r\n"),
        (&[b"ZLEXCOUNT", b"level", b"-", b"+"], 8, ":20000\r\n"),
        (&[b"RANDOMKEY"], 17, ""),
    ] {
        let before = everbyte_kv::listed();
        let reply = replies(&mut desk, words);
        let (listed, name) = (everbyte_kv::listed() - before, words[0].escape_ascii());
        assert!(reply.starts_with(expect) && listed <= bound, "{name} lists {listed} leaves: {reply}");
    }
    let before = everbyte_kv::listed();
    assert_eq!(replies(&mut desk, &[b"ZRANK", b"z", b"10000"]), ":10000\r\n");
    assert!(everbyte_kv::listed() - before > 20, "the middle is far from both ends");
}

/// Members of half a megabyte together are removed in pieces.
#[test]
fn a_range_of_large_members_is_removed_whole() {
    let mut desk = Desk::new(Options::default());
    let member = |number: usize| format!("{number:0>5000}");
    for number in 0..200 {
        let (score, member) = ((number / 2).to_string(), member(number));
        replies(&mut desk, &[b"ZADD", b"z", score.as_bytes(), member.as_bytes()]);
    }
    assert_eq!(replies(&mut desk, &[b"ZREMRANGEBYSCORE", b"z", b"(10", b"(90"]), ":158\r\n");
    assert_eq!(replies(&mut desk, &[b"ZCARD", b"z"]), ":42\r\n");
    assert!(agrees(&mut desk, b"z"));
    let left = bulks(&replies(&mut desk, &[b"ZRANGE", b"z", b"0", b"-1"]));
    let expect: Vec<String> = (0..22).chain(180..200).map(member).collect();
    assert_eq!(left, expect);
}

/// A command about a sorted set that fails has changed nothing, and what others wrote in its
/// iteration stands.
#[test]
fn a_failing_command_about_a_sorted_set_costs_others_nothing() {
    let mut desk = Desk::new(Options { output_size_max: 1000, ..Options::default() });
    let (long, large) = (vec![b'k'; everbyte_kv::KEY_MAX + 1], vec![b'v'; 1100]);
    replies(&mut desk, &[b"ZADD", b"z", b"1", b"1", b"2", b"2", b"inf", b"3"]);
    replies(&mut desk, &[b"ZADD", b"large", b"1", &large]);
    for (round, words) in [
        &[&b"ZADD"[..], b"z", b"1", b"new", b"1", &long][..],
        &[b"ZADD", b"other", b"1", b"new", b"1", &long],
        &[b"ZADD", b"z", b"1", b"new", b"x", b"other"],
        &[b"ZADD", &long, b"1", b"new"],
        &[b"ZINCRBY", b"z", b"-inf", b"3"],
        &[b"ZREM", b"z", b"1", &long],
        &[b"ZPOPMIN", b"large"],
        &[b"ZPOPMAX", b"large", b"1"],
        &[b"ZRANGE", b"large", b"0", b"-1"],
        &[b"ZRANGEBYSCORE", b"large", b"0", b"2"],
        &[b"ZRANDMEMBER", b"large"],
        &[b"ZRANDMEMBER", b"z", b"-1000"],
        &[b"ZMPOP", b"1", b"large", b"MAX"],
        &[b"ZRANGESTORE", &long, b"z", b"0", b"1"],
    ]
    .into_iter()
    .enumerate()
    {
        refused_alone(&mut desk, round, words);
        assert_eq!(replies(&mut desk, &[b"ZCARD", b"z"]), ":3\r\n");
        assert_eq!(replies(&mut desk, &[b"ZCARD", b"large"]), ":1\r\n");
        assert_eq!(replies(&mut desk, &[b"EXISTS", b"other"]), ":0\r\n");
    }
}

/// A desk with the sorted set `z` of members `0` to `count - 1`, each with itself as its score.
fn desk(count: usize) -> Desk {
    let mut desk = Desk::new(Options::default());
    let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    for part in numbers.chunks(500) {
        let pairs = part.iter().flat_map(|number| [number.as_bytes(), number.as_bytes()]);
        let words: Vec<&[u8]> = [&b"ZADD"[..], b"z"].into_iter().chain(pairs).collect();
        assert_eq!(replies(&mut desk, &words), format!(":{}\r\n", part.len()));
    }
    desk
}

/// ZSCAN gives each member once, with its score, in calls of about COUNT.
#[test]
fn zscan_returns_every_member() {
    let mut desk = desk(1000);
    let (mut cursor, mut seen, mut calls) = ("0".to_string(), BTreeSet::new(), 0);
    loop {
        let mut strings = bulks(&replies(&mut desk, &[b"ZSCAN", b"z", cursor.as_bytes(), b"COUNT", b"50"]));
        cursor = strings.remove(0);
        assert!(strings.len() <= 110, "{} strings for COUNT 50", strings.len());
        for pair in strings.chunks(2) {
            assert!(pair[0] == pair[1] && seen.insert(pair[0].clone()), "{pair:?}");
        }
        calls += 1;
        if cursor == "0" {
            break;
        }
    }
    assert!(seen.len() == 1000 && calls >= 18, "{} members, {calls} calls", seen.len());
}

/// ZRANDMEMBER chooses members with their scores, different ones where it has to, and each of them
/// now and then.
#[test]
fn random_members_come_with_their_scores() {
    let mut desk = desk(300);
    let mut seen = BTreeSet::new();
    for count in [b"20", b"99", b"-9"].iter().cycle().take(150) {
        let pairs = bulks(&replies(&mut desk, &[b"ZRANDMEMBER", b"z", *count, b"WITHSCORES"]));
        let members: BTreeSet<String> = pairs.chunks(2).map(|pair| pair[0].clone()).collect();
        assert!(pairs.chunks(2).all(|pair| pair[0] == pair[1]));
        assert!(count[0] == b'-' || members.len() == pairs.len() / 2);
        seen.extend(members);
    }
    assert_eq!(seen.len(), 300);
}

/// ZRANGESTORE onto its source, in several pieces and in either direction.
#[test]
fn a_range_may_replace_its_source() {
    let mut desk = desk(9000);
    replies(&mut desk, &[b"PEXPIREAT", b"z", b"99999999999999"]);
    let store: &[&[u8]] = &[b"ZRANGESTORE", b"z", b"z", b"8999", b"(0", b"BYSCORE", b"REV", b"LIMIT", b"99", b"8000"];
    assert_eq!(replies(&mut desk, store), ":8000\r\n");
    assert!(agrees(&mut desk, b"z"));
    let ends = bulks(&replies(&mut desk, &[b"ZRANGE", b"z", b"0", b"0"]));
    assert_eq!((ends, replies(&mut desk, &[b"PTTL", b"z"])), (vec!["901".to_string()], ":-1\r\n".to_string()));
    assert_eq!(replies(&mut desk, &[b"ZRANGESTORE", b"z", b"z", b"0", b"6999"]), ":7000\r\n");
    assert!(agrees(&mut desk, b"z"));
    assert_eq!(bulks(&replies(&mut desk, &[b"ZRANGE", b"z", b"-1", b"-1"])), ["7900"]);
    let elements = desk.shared.tables.elements.len().unwrap();
    assert_eq!(elements, 14_000, "the elements of earlier sets are gone");
}

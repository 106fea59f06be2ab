//! Operations on sorted sets of more members than are read at a time, beside a model.

use super::Desk;
use super::hashes::{bulks, refused_alone, replies};
use super::sorted_sets::agrees;
use crate::options::Options;
use std::collections::BTreeMap;

type Scores = BTreeMap<usize, usize>;

/// A desk with sorted sets `0` and `1`, the multiples of 2 and 3 with scores of their own, the set
/// `2` of the multiples of 5, and the model.
fn desk(options: Options) -> (Desk, [Scores; 3]) {
    const END: usize = 3000;
    let mut desk = Desk::new(options);
    let multiples = |step: usize| (0..END).step_by(step);
    let inputs = [
        multiples(2).map(|number| (number, number % 7)).collect::<Scores>(),
        multiples(3).map(|number| (number, 10 + number % 5)).collect(),
        multiples(5).map(|number| (number, 1)).collect(),
    ];
    for (key, scores) in [&b"0"[..], b"1", b"2"].into_iter().zip(&inputs) {
        for (member, score) in scores {
            let (member, score) = (member.to_string(), score.to_string());
            match key {
                b"2" => replies(&mut desk, &[b"SADD", key, member.as_bytes()]),
                _ => replies(&mut desk, &[b"ZADD", key, score.as_bytes(), member.as_bytes()]),
            };
        }
    }
    (desk, inputs)
}

/// As a reply with scores.
fn flat(scores: &Scores) -> Vec<String> {
    let mut sorted: Vec<(usize, String)> = scores.iter().map(|(member, score)| (*score, member.to_string())).collect();
    sorted.sort();
    sorted.into_iter().flat_map(|(score, member)| [member, score.to_string()]).collect()
}

#[test]
fn operations_on_large_sorted_sets_do_what_a_model_does() {
    let (mut desk, [two, three, five]) = desk(Options::default());
    let mut union = Scores::new();
    for scores in [&two, &three, &five] {
        scores.iter().for_each(|(member, score)| *union.entry(*member).or_default() += score);
    }
    let everywhere =
        |member: &usize| two.contains_key(member) && three.contains_key(member) && five.contains_key(member);
    let intersection: Scores = union.clone().into_iter().filter(|(member, _)| everywhere(member)).collect();
    let first_only = |member: &usize| !three.contains_key(member) && !five.contains_key(member);
    let difference: Scores = two.clone().into_iter().filter(|(member, _)| first_only(member)).collect();
    assert_eq!(replies(&mut desk, &[b"ZINTERCARD", b"3", b"0", b"1", b"2"]), ":100\r\n");
    assert_eq!(replies(&mut desk, &[b"ZINTERCARD", b"3", b"0", b"1", b"2", b"LIMIT", b"99"]), ":99\r\n");
    for (name, wanted) in [("ZINTER", intersection), ("ZUNION", union), ("ZDIFF", difference)] {
        let found = bulks(&replies(&mut desk, &[name.as_bytes(), b"3", b"0", b"1", b"2", b"WITHSCORES"]));
        assert_eq!(found, flat(&wanted), "{name}");
        let store = format!("{name}STORE");
        let count = format!(":{}\r\n", wanted.len());
        // The destination is a string, then the first of the inputs, which has a deadline.
        replies(&mut desk, &[b"SET", b"to", b"text"]);
        replies(&mut desk, &[b"COPY", b"0", b"copy", b"REPLACE"]);
        replies(&mut desk, &[b"PEXPIREAT", b"copy", b"99999999999999"]);
        for (target, first) in [(&b"to"[..], &b"0"[..]), (b"copy", b"copy")] {
            assert_eq!(replies(&mut desk, &[store.as_bytes(), target, b"3", first, b"1", b"2"]), count);
            let found = bulks(&replies(&mut desk, &[b"ZRANGE", target, b"0", b"-1", b"WITHSCORES"]));
            assert_eq!(found, flat(&wanted), "{store} at {}", target.escape_ascii());
            assert!(agrees(&mut desk, target));
            assert_eq!(replies(&mut desk, &[b"PTTL", target]), ":-1\r\n");
        }
        let found = bulks(&replies(&mut desk, &[b"ZRANGE", b"1", b"0", b"-1", b"WITHSCORES"]));
        assert_eq!(found, flat(&three), "{store} changes no other input");
    }
    // Without a result the destination is removed.
    assert_eq!(replies(&mut desk, &[b"ZDIFFSTORE", b"copy", b"2", b"0", b"0"]), ":0\r\n");
    assert_eq!(replies(&mut desk, &[b"EXISTS", b"copy"]), ":0\r\n");
    replies(&mut desk, &[b"DEL", b"to", b"0", b"1", b"2"]);
    assert_eq!(desk.shared.tables.elements.len().unwrap(), 0, "no elements are left behind");
}

/// A result beyond the output limit is refused, and a destination whose name is too long; what
/// others wrote in the iteration stands.
#[test]
fn a_failing_operation_on_sorted_sets_costs_others_nothing() {
    let (mut desk, _) = desk(Options { output_size_max: 4096, ..Options::default() });
    let long = vec![b'k'; everbyte_kv::KEY_MAX + 1];
    for (round, words) in [
        &[&b"ZUNION"[..], b"2", b"0", b"1"][..],
        &[b"ZDIFF", b"2", b"0", b"1"],
        &[b"ZDIFF", b"2", b"0", b"1", b"WITHSCORES"],
        &[b"ZUNIONSTORE", &long, b"2", b"0", b"1"],
        &[b"ZUNIONSTORE", b"0", b"2", b"0", b"1", b"WEIGHTS", b"1", b"x"],
    ]
    .into_iter()
    .enumerate()
    {
        refused_alone(&mut desk, round, words);
        assert_eq!(replies(&mut desk, &[b"ZCARD", b"0"]), ":1500\r\n");
    }
    assert_eq!(replies(&mut desk, &[b"ZUNIONSTORE", b"all", b"2", b"0", b"1"]), ":2000\r\n");
}

/// A result counts with the memory that its members take, although its reply would fit.
#[test]
fn results_of_many_small_members_are_bounded() {
    let mut desk = Desk::new(Options { output_size_max: 4096, ..Options::default() });
    for number in 0..100 {
        let key: &[u8] = if number < 20 { b"few" } else { b"many" };
        replies(&mut desk, &[b"ZADD", key, b"1", format!("m{number:03}").as_bytes()]);
    }
    for name in [&b"ZUNION"[..], b"ZDIFF"] {
        let end = desk.iteration(&[&[name, b"2", b"many", b"few"]]).remove(0);
        assert!(end.is_err_and(|text| text.contains("output limit")));
    }
    assert_eq!(bulks(&replies(&mut desk, &[b"ZDIFF", b"2", b"few", b"many"])).len(), 20);
}

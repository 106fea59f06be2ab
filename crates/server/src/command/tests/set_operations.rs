//! Intersections, unions and differences of sets of more members than are read at a time.

use super::Desk;
use super::hashes::{bulks, replies};
use crate::options::Options;
use std::collections::BTreeSet;

type Members = BTreeSet<String>;

/// A desk with sets `0`, `1` and `2`: the multiples of 2, 3 and 5 below `end`, and the model.
fn desk(end: usize, options: Options) -> (Desk, [Members; 3]) {
    let mut desk = Desk::new(options);
    let sets = [2, 3, 5].map(|step| (0..end).step_by(step).map(|number| number.to_string()).collect::<Members>());
    for (name, set) in ["0", "1", "2"].into_iter().zip(&sets) {
        let members: Vec<&[u8]> = set.iter().map(String::as_bytes).collect();
        for part in members.chunks(400) {
            replies(&mut desk, &[&[&b"SADD"[..], name.as_bytes()], part].concat());
        }
    }
    (desk, sets)
}

fn members(desk: &mut Desk, key: &str) -> Members {
    bulks(&replies(desk, &[b"SMEMBERS", key.as_bytes()])).into_iter().collect()
}

#[test]
fn operations_on_large_sets_do_what_a_model_does() {
    let (mut desk, [two, three, five]) = desk(3000, Options::default());
    let intersection: Members = two.intersection(&three).filter(|member| five.contains(*member)).cloned().collect();
    let union: Members = two.iter().chain(&three).chain(&five).cloned().collect();
    let difference: Members =
        two.iter().filter(|member| !three.contains(*member) && !five.contains(*member)).cloned().collect();
    assert_eq!(replies(&mut desk, &[b"SINTERCARD", b"3", b"0", b"1", b"2"]), ":100\r\n");
    assert_eq!(replies(&mut desk, &[b"SINTERCARD", b"3", b"0", b"1", b"2", b"LIMIT", b"99"]), ":99\r\n");
    for (name, wanted) in [("SINTER", intersection), ("SUNION", union), ("SDIFF", difference)] {
        let found = bulks(&replies(&mut desk, &[name.as_bytes(), b"0", b"1", b"2"]));
        assert_eq!(found.len(), wanted.len(), "{name}: each member once");
        assert_eq!(found.into_iter().collect::<Members>(), wanted, "{name}");
        let store = format!("{name}STORE");
        let count = format!(":{}\r\n", wanted.len());
        // The destination is a string, then the first of the sets, which has a deadline.
        replies(&mut desk, &[b"SET", b"to", b"text"]);
        assert_eq!(replies(&mut desk, &[store.as_bytes(), b"to", b"0", b"1", b"2"]), count);
        assert_eq!(members(&mut desk, "to"), wanted, "{store}");
        replies(&mut desk, &[b"COPY", b"0", b"copy", b"REPLACE"]);
        replies(&mut desk, &[b"PEXPIREAT", b"copy", b"99999999999999"]);
        assert_eq!(replies(&mut desk, &[store.as_bytes(), b"copy", b"copy", b"1", b"2"]), count);
        assert_eq!(members(&mut desk, "copy"), wanted, "{store} onto one of its sets");
        assert_eq!(replies(&mut desk, &[b"PTTL", b"copy"]), ":-1\r\n");
        assert_eq!(replies(&mut desk, &[b"SCARD", b"copy"]), count);
        assert_eq!(members(&mut desk, "1"), three, "{store} changes no other set");
    }
    // Without a result the destination is removed.
    assert_eq!(replies(&mut desk, &[b"SDIFFSTORE", b"copy", b"0", b"0"]), ":0\r\n");
    assert_eq!(replies(&mut desk, &[b"EXISTS", b"copy"]), ":0\r\n");
}

#[test]
fn a_result_beyond_the_output_limit_is_refused() {
    let (mut desk, _) = desk(3000, Options { output_size_max: 4096, ..Options::default() });
    for name in ["SUNION", "SDIFF"] {
        desk.iteration(&[&[name.as_bytes(), b"0", b"1"]]).remove(0).unwrap_err();
    }
    assert_eq!(replies(&mut desk, &[b"SUNIONSTORE", b"all", b"0", b"1"]), ":2000\r\n");
}

/// Members that are drawn count with the memory that they take, although their reply would fit.
#[test]
fn samples_of_many_small_members_are_bounded() {
    let (mut desk, _) = desk(3000, Options { output_size_max: 4096, ..Options::default() });
    for name in [&b"SRANDMEMBER"[..], b"SPOP"] {
        let end = desk.iteration(&[&[name, b"0", b"100"]]).remove(0);
        assert!(end.is_err_and(|text| text.contains("output limit")));
    }
    assert_eq!(replies(&mut desk, &[b"SCARD", b"0"]), ":1500\r\n");
    assert_eq!(bulks(&replies(&mut desk, &[b"SRANDMEMBER", b"0", b"50"])).len(), 50);
}

/// SSCAN gives each member once, in calls of about COUNT.
#[test]
fn sscan_returns_every_member() {
    let (mut desk, [two, ..]) = desk(3000, Options::default());
    let (mut cursor, mut seen, mut calls) = ("0".to_string(), Members::new(), 0);
    while calls == 0 || cursor != "0" {
        let mut strings = bulks(&replies(&mut desk, &[b"SSCAN", b"0", cursor.as_bytes(), b"COUNT", b"50"]));
        cursor = strings.remove(0);
        assert!(strings.len() <= 55, "{} members for COUNT 50", strings.len());
        strings.into_iter().for_each(|member| assert!(seen.insert(member)));
        calls += 1;
    }
    assert_eq!(seen, two);
}

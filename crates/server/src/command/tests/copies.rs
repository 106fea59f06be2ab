//! Copies of more than is together in memory, more collections than ids are reserved at a time, and
//! members whose hashes are alike.

use super::Desk;
use super::hashes::{bulks, replies};
use crate::keyspace::{check, hashed};
use crate::options::Options;
use everbyte_media::museum;

fn findings(desk: &Desk) -> Vec<String> {
    let mut findings = Vec::new();
    check(&desk.shared.kv, &mut |finding| findings.push(finding.to_string()));
    findings
}

/// A copy of a list of 1.5 MB; whether it is whole.
fn copies(bug: &'static str) -> bool {
    museum::with(bug, || {
        let mut desk = Desk::new(Options::default());
        for letter in b'a'..b'k' {
            replies(&mut desk, &[b"RPUSH", b"l", &[letter; 150_000]]);
        }
        replies(&mut desk, &[b"COPY", b"l", b"m", b"DB", b"3"]);
        let source = replies(&mut desk, &[b"LRANGE", b"l", b"0", b"-1"]);
        replies(&mut desk, &[b"SELECT", b"3"]);
        source.len() > 1_500_000
            && findings(&desk).is_empty()
            && replies(&mut desk, &[b"LRANGE", b"m", b"0", b"-1"]) == source
    })
}

#[test]
fn a_copy_of_several_parts_is_whole() {
    assert!(copies("none"));
    assert!(!copies("server-copy-cut"), "the seeded bug is found");
}

/// Whether every id of many collections was reserved before it was given.
fn reserves(bug: &'static str) -> bool {
    museum::with(bug, || {
        let mut desk = Desk::new(Options::default());
        let keys = Vec::from_iter((0..2100).map(|number| format!("key {number}").into_bytes()));
        (0..keys.len()).all(|number| {
            replies(&mut desk, &[b"RPUSH", &keys[number], b"a"]);
            // A little before and behind the ends of the reserved ids.
            number % 1024 > 8 && number % 1024 < 1016 || findings(&desk).is_empty()
        })
    })
}

#[test]
fn ids_are_reserved_before_they_are_given() {
    assert!(reserves("none"));
    assert!(!reserves("server-ids-beyond"), "the seeded bug is found");
}

/// A client has chosen members whose hashes lie so close together that most of them are never
/// drawn. A sample of more members than are drawn did not end.
#[test]
fn a_sample_of_members_with_like_hashes_ends() {
    let mut desk = Desk::new(Options::default());
    let alike = |member: &String| hashed(member.as_bytes())[..1] == [0] && hashed(member.as_bytes())[1] < 64;
    let members = Vec::from_iter((0..).map(|number: u32| number.to_string()).filter(alike).take(60));
    let words = [&b"SADD"[..], b"s"].into_iter().chain(members.iter().map(String::as_bytes));
    replies(&mut desk, &words.collect::<Vec<_>>());
    for command in ["SRANDMEMBER", "SPOP"] {
        let found = bulks(&replies(&mut desk, &[command.as_bytes(), b"s", b"20"]));
        let different = found.iter().collect::<std::collections::BTreeSet<_>>();
        assert_eq!((found.len(), different.len()), (20, 20), "{command}");
        assert!(found.iter().all(|member| members.contains(member)), "{command}");
    }
    assert_eq!(replies(&mut desk, &[b"SCARD", b"s"]), ":40\r\n");
    assert_eq!(findings(&desk), Vec::<String>::new());
}

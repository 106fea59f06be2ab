//! RANGE and its kin beside an ordered map.

use super::Desk;
use super::hashes::{bulks, replies};
use crate::options::Options;
use everbyte_media::museum;
use everbyte_workload::Random;
use std::collections::BTreeMap;
use std::ops::Bound;

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The bounds of RANGE as arguments, and as a standard range.
fn bounds(random: &mut Random) -> ([Vec<u8>; 2], Bounds) {
    let mut key = || format!("{:03}", random.index(1100)).into_bytes();
    let (first, second) = (key(), key());
    let (low, high) = if first < second { (first, second) } else { (second, first) };
    let start = match random.index(4) {
        0 => (b"-".to_vec(), Bound::Unbounded),
        1 => ([b"(", &low[..]].concat(), Bound::Excluded(low)),
        2 => ([b"[", &low[..]].concat(), Bound::Included(low)),
        _ => (low.clone(), Bound::Included(low)),
    };
    let end = match random.index(4) {
        0 => (b"+".to_vec(), Bound::Unbounded),
        1 => ([b"(", &high[..]].concat(), Bound::Excluded(high)),
        2 => ([b"[", &high[..]].concat(), Bound::Included(high)),
        _ => (high.clone(), Bound::Excluded(high)),
    };
    // Of two equal bounds both are included, or the model would panic.
    match (start.1, end.1) {
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) if low == high => {
            ([[b"[", &low[..]].concat(), [b"[", &low[..]].concat()], (Bound::Included(low), Bound::Included(high)))
        }
        (from, to) => ([start.0, end.0], (from, to)),
    }
}

/// A random program over keys of any type, or plain strings alone; whether all replies were the
/// model's.
fn agrees(seed: u64, database: &[u8], types: usize, bug: &'static str) -> bool {
    museum::with(bug, || {
        let mut random = Random::new(seed);
        let mut desk = Desk::new(Options::default());
        replies(&mut desk, &[b"SELECT", database]);
        let mut model: BTreeMap<Vec<u8>, String> = BTreeMap::new();
        for round in 0..60 {
            let spread = if round % 20 == 0 { 700 } else { 20 };
            for _ in 0..spread {
                let key = format!("{:03}", random.index(1000)).into_bytes();
                replies(&mut desk, &[b"DEL", &key]);
                let value = match random.index(types) {
                    0 => {
                        replies(&mut desk, &[b"SET", &key, &key]);
                        String::from_utf8(key.clone()).unwrap()
                    }
                    1 => {
                        replies(&mut desk, &[b"SET", &key, b"late", b"PXAT", b"99999999999999"]);
                        "late".to_string()
                    }
                    _ => {
                        replies(&mut desk, &[b"SADD", &key, b"member"]);
                        String::new()
                    }
                };
                model.insert(key, value);
            }
            let ([start, end], range) = bounds(&mut random);
            let wanted: Vec<(Vec<u8>, String)> =
                model.range(range).map(|(key, value)| (key.clone(), value.clone())).collect();
            let strings = |pairs: &mut dyn Iterator<Item = &(Vec<u8>, String)>| -> Vec<String> {
                pairs.flat_map(|(key, value)| [String::from_utf8(key.clone()).unwrap(), value.clone()]).collect()
            };
            let limit = random.index(400);
            let text = limit.to_string();
            let text = text.as_bytes();
            let mut asked = |words: &[&[u8]]| nulls(&replies(&mut desk, words));
            let same = asked(&[b"RANGE", &start, &end]) == strings(&mut wanted.iter())
                && asked(&[b"REVRANGE", &end, &start]) == strings(&mut wanted.iter().rev())
                && asked(&[b"REVRANGE", &end, &start, b"LIMIT", text]) == strings(&mut wanted.iter().rev().take(limit))
                && asked(&[b"RANGE", &start, &end, b"LIMIT", text]) == strings(&mut wanted.iter().take(limit))
                && asked(&[b"PREFIX", b"12"])
                    == strings(
                        &mut model
                            .iter()
                            .filter(|(key, _)| key.starts_with(b"12"))
                            .map(|(key, value)| (key.clone(), value.clone()))
                            .collect::<Vec<_>>()
                            .iter(),
                    );
            let count = replies(&mut desk, &[b"COUNTRANGE", &start, &end]) == format!(":{}\r\n", wanted.len());
            let gone = match round % 3 {
                0 => wanted.len(),
                1 => limit.min(wanted.len()),
                _ => 0,
            };
            let deleted = match round % 3 {
                0 => replies(&mut desk, &[b"DELRANGE", &start, &end]),
                1 => replies(&mut desk, &[b"DELRANGE", &start, &end, b"LIMIT", text]),
                _ => format!(":{gone}\r\n"),
            };
            wanted.iter().take(gone).for_each(|(key, _)| drop(model.remove(key)));
            if !same || !count || deleted != format!(":{gone}\r\n") {
                return false;
            }
            assert_eq!(replies(&mut desk, &[b"DBSIZE"]), format!(":{}\r\n", model.len()));
            assert_eq!(replies(&mut desk, &[b"COUNTRANGE", b"-", b"+"]), format!(":{}\r\n", model.len()));
        }
        // Nothing is left of keys that were deleted.
        replies(&mut desk, &[b"DELRANGE", b"-", b"+"]);
        let tables = &desk.shared.tables;
        [&tables.keys, &tables.elements, &tables.deadlines].iter().all(|table| table.is_empty().unwrap())
    })
}

/// The strings of a reply of pairs, nulls as empty ones.
fn nulls(reply: &str) -> Vec<String> {
    bulks(&reply.replace("$-1\r\n", "$0\r\n\r\n"))
}

#[test]
fn ranges_of_keys_do_what_an_ordered_map_does() {
    let seed = everbyte_workload::seed(7, "ranges_of_keys");
    assert!(agrees(seed, b"0", 1, "none"), "plain strings, seed {seed}");
    assert!(agrees(seed, b"0", 3, "none"), "keys of any type, seed {seed}");
    assert!(agrees(seed, b"3", 3, "none"), "another database, seed {seed}");
    assert!(!agrees(seed, b"0", 3, "server-range-cut"), "the seeded bug is found");
}

/// A bound that is longer than any key costs a cursor no more than a key, and means what it says.
#[test]
fn a_cursor_keeps_no_more_of_a_bound_than_a_key_can_have() {
    let mut desk = Desk::new(Options::default());
    let keys: [&[u8]; 4] = [b"a", b"b", b"bb", b"c"];
    keys.into_iter().for_each(|key| drop(replies(&mut desk, &[b"SET", key, key])));
    let long = vec![b'b'; crate::keyspace::KEY_SIZE_MAX + 1000];
    let (above, below) = ([b"[", &long[..]].concat(), [b"(", &long[..]].concat());
    for (words, found) in [
        ([&b"RANGE"[..], b"-", &above], "a b bb"),
        ([b"RANGE", &below, b"+"], "c"),
        ([b"REVRANGE", &above, b"-"], "bb b a"),
    ] {
        let mut reply = bulks(&replies(&mut desk, &[&[&b"CURSOR"[..]], &words[..], &[b"LIMIT", b"1"]].concat()));
        let (mut number, mut seen) = (reply.remove(0), vec![reply.remove(0)]);
        while number != "0" {
            let cursor = desk.shared.pinned.take(number.parse().unwrap()).unwrap();
            for bound in [&cursor.from, &cursor.to] {
                let (Bound::Included(bytes) | Bound::Excluded(bytes)) = bound else { continue };
                assert!(bytes.capacity() <= crate::keyspace::KEY_SIZE_MAX + 1);
            }
            desk.shared.pinned.restore(number.parse().unwrap(), cursor, desk.shared.now);
            reply = bulks(&replies(&mut desk, &[b"CURSOR", b"NEXT", number.as_bytes(), b"LIMIT", b"1"]));
            number = reply.remove(0);
            seen.extend(reply.into_iter().step_by(2));
        }
        assert_eq!(seen.join(" "), found);
    }
    // No key is as long, so none is watched.
    let refused = desk.iteration(&[&[b"WATCH", b"a", &long]]);
    assert!(refused[0].is_err() && !desk.client.watches, "{refused:?}");
}

/// Bounds of cursors are bytes that stay: a cursor that would add too many is not opened, and one
/// that goes on stays where it is.
#[test]
fn bounds_of_cursors_are_bounded() {
    let mut desk = Desk::new(Options::default());
    let large = [vec![b'l'; 9 << 20], vec![b'm'; 9 << 20]];
    for key in [b"a", &large[0][..], &large[1][..], b"z"] {
        replies(&mut desk, &[b"SET", key, b"1"]);
    }
    let end = |desk: &mut Desk, words: &[&[u8]]| {
        let end = desk.iteration(&[&[&[&b"CURSOR"[..]], words, &[b"LIMIT", b"1"]].concat()]).remove(0);
        desk.out.send(&mut Vec::new()).unwrap();
        end
    };
    let open = |desk: &mut Desk, from: &[u8], to: &[u8]| end(desk, &[b"RANGE", from, to]);
    let long = vec![0xff; crate::keyspace::KEY_SIZE_MAX];
    assert_eq!(open(&mut desk, b"-", &long), Ok(()));
    let refused = open(&mut desk, b"-", &long);
    assert!(matches!(&refused, Err(text) if text.starts_with("ERR too many cursors are open")), "{refused:?}");
    let size = |desk: &Desk| desk.shared.pinned.size();
    assert_eq!((desk.shared.pinned.count(), size(&desk)), (1, long.len() + 1));
    assert_eq!(open(&mut desk, b"-", b"+"), Ok(()));
    desk.shared.pinned.tick(desk.shared.now + std::time::Duration::from_secs(3600));
    assert_eq!((desk.shared.pinned.count(), size(&desk)), (0, 0));
    // Two cursors that would stand behind a large key each.
    let [first, second] = [(); 2].map(|()| {
        bulks(&replies(&mut desk, &[b"CURSOR", b"RANGE", b"-", b"+", b"LIMIT", b"1"])).remove(0).into_bytes()
    });
    assert_eq!(end(&mut desk, &[b"NEXT", &first]), Ok(()));
    let refused = end(&mut desk, &[b"NEXT", &second]);
    assert!(matches!(&refused, Err(text) if text.starts_with("ERR too many cursors are open")), "{refused:?}");
    assert_eq!(bulks(&replies(&mut desk, &[b"CURSOR", b"NEXT", &second])).len(), 7, "it stands where it stood");
    assert_eq!((desk.shared.pinned.count(), size(&desk)), (1, large[0].len()));
}

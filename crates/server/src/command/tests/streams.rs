//! Streams beside a list of entries: ids by the clock, trims, deletions, what is left.

use super::Desk;
use super::hashes::{bulks, replies};
use crate::options::Options;
use everbyte_kv::ManualClock;
use everbyte_media::museum;
use everbyte_workload::Random;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

type Entry = (u64, u64, String);

/// Whether random changes of a stream do what they do to a list. The clock now and then goes back.
fn agrees(seed: u64, bug: &'static str) -> bool {
    museum::with(bug, || {
        let mut random = Random::new(seed);
        let clock = ManualClock::default();
        let mut desk = Desk::new(Options { clock: Arc::new(clock.clone()), ..Options::default() });
        let (mut model, mut last): (Vec<Entry>, (u64, u64)) = (Vec::new(), (0, 0));
        for round in 0..1500 {
            let now = 1000 + random.below(500) + round / 2;
            clock.set(UNIX_EPOCH + Duration::from_millis(now));
            let value = round.to_string();
            match random.index(12) {
                0..8 => {
                    let id = bulks(&replies(&mut desk, &[b"XADD", b"s", b"*", b"field", value.as_bytes()])).remove(0);
                    let wanted = if now > last.0 { (now, 0) } else { (last.0, last.1 + 1) };
                    if id != format!("{}-{}", wanted.0, wanted.1) {
                        return false;
                    }
                    last = wanted;
                    model.push((wanted.0, wanted.1, value));
                }
                8 => {
                    let length = random.index(600);
                    let gone = model.len().saturating_sub(length);
                    let reply = replies(&mut desk, &[b"XTRIM", b"s", b"MAXLEN", length.to_string().as_bytes()]);
                    assert_eq!(reply, format!(":{gone}\r\n"));
                    model.drain(..gone);
                }
                9 => {
                    let limit = 1 + random.index(300);
                    let gone = model.len().saturating_sub(100).min(limit);
                    let words: [&[u8]; 7] =
                        [b"XTRIM", b"s", b"MAXLEN", b"~", b"100", b"LIMIT", &limit.to_string().into_bytes()];
                    assert_eq!(replies(&mut desk, &words), format!(":{gone}\r\n"));
                    model.drain(..gone);
                }
                10 => {
                    let end = now - random.below(600).min(now);
                    let limit = random.index(300);
                    let gone = model.iter().filter(|(ms, ..)| *ms < end).count();
                    let gone = if limit == 0 { gone } else { gone.min(limit) };
                    let (end, limit) = (end.to_string(), limit.to_string());
                    let words: [&[u8]; 7] =
                        [b"XTRIM", b"s", b"MINID", b"~", end.as_bytes(), b"LIMIT", limit.as_bytes()];
                    assert_eq!(replies(&mut desk, &words), format!(":{gone}\r\n"));
                    model.drain(..gone);
                }
                _ if !model.is_empty() => {
                    let (ms, seq, _) = model.remove(random.index(model.len()));
                    let id = format!("{ms}-{seq}");
                    assert_eq!(replies(&mut desk, &[b"XDEL", b"s", id.as_bytes(), id.as_bytes()]), ":1\r\n");
                }
                _ => {}
            }
            if last != (0, 0) {
                assert_eq!(replies(&mut desk, &[b"XLEN", b"s"]), format!(":{}\r\n", model.len()));
                assert_eq!(replies(&mut desk, &[b"TYPE", b"s"]), "+stream\r\n", "an empty stream is there");
            }
            if round % 50 == 0 {
                let texts = |entries: &mut dyn Iterator<Item = &Entry>| -> Vec<String> {
                    let parts = |(ms, seq, value): &Entry| [format!("{ms}-{seq}"), "field".into(), value.clone()];
                    entries.flat_map(parts).collect()
                };
                let all = bulks(&replies(&mut desk, &[b"XRANGE", b"s", b"-", b"+"]));
                assert_eq!(all, texts(&mut model.iter()));
                let back = bulks(&replies(&mut desk, &[b"XREVRANGE", b"s", b"+", b"-", b"COUNT", b"7"]));
                assert_eq!(back, texts(&mut model.iter().rev().take(7)));
            }
        }
        // Elements: the entries and the state; none is left of a stream that is deleted.
        assert_eq!(desk.shared.tables.elements.len().unwrap(), model.len() as u64 + 1);
        replies(&mut desk, &[b"COPY", b"s", b"t"]);
        let copy = replies(&mut desk, &[b"XRANGE", b"t", b"-", b"+"]);
        assert_eq!(copy, replies(&mut desk, &[b"XRANGE", b"s", b"-", b"+"]));
        replies(&mut desk, &[b"DEL", b"s", b"t"]);
        desk.shared.tables.elements.is_empty().unwrap()
    })
}

#[test]
fn streams_do_what_a_list_does() {
    let seed = everbyte_workload::seed(5, "streams");
    assert!(agrees(seed, "none"), "seed {seed}");
    assert!(!agrees(seed, "server-stream-id-given-twice"), "the seeded bug is found");
}

/// A refused command about a stream changes nothing, and costs the others of its iteration nothing.
#[test]
fn a_failing_command_about_a_stream_costs_others_nothing() {
    let mut desk = Desk::new(Options { output_size_max: 1000, ..Options::default() });
    let large = vec![b'v'; 400];
    for _ in 0..3 {
        replies(&mut desk, &[b"XADD", b"s", b"*", b"f", &large]);
    }
    let long = vec![b'k'; crate::keyspace::KEY_SIZE_MAX + 1];
    let ends = desk.iteration(&[
        &[b"SET", b"before", b"1"],
        &[b"XRANGE", b"s", b"-", b"+"],
        &[b"XADD", &long, b"*", b"f", b"v"],
        &[b"XADD", b"s", b"1-1", b"f", b"v"],
        &[b"XDEL", b"s", b"1-1", b"x"],
        &[b"XADD", b"before", b"*", b"f", b"v"],
        &[b"SET", b"after", b"1"],
    ]);
    let refused: Vec<bool> = ends.iter().map(Result::is_err).collect();
    assert_eq!(refused, [false, true, true, true, true, true, false], "{ends:?}");
    desk.out.send(&mut std::io::sink()).unwrap();
    assert_eq!(replies(&mut desk, &[b"EXISTS", b"before", b"after", &long]), ":2\r\n");
    assert_eq!(replies(&mut desk, &[b"XLEN", b"s"]), ":3\r\n");
}

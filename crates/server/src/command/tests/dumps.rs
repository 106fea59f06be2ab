//! RESTORE of damaged payloads: refused, with nothing changed; and exchanges that are taken back.

use super::Desk;
use super::hashes::replies;
use crate::keyspace::check;
use crate::options::Options;
use crate::rdb::wrap_payload;
use everbyte_kv::ManualClock;
use everbyte_media::museum;
use everbyte_workload::Random;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

fn payloads() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/rdb");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn findings(desk: &Desk) -> Vec<String> {
    let mut findings = Vec::new();
    check(&desk.shared.kv, &mut |finding| findings.push(finding.to_string()));
    findings
}

/// Values with changed bytes and a right checksum are restored or refused; the tables agree, and
/// what was refused has changed nothing.
#[test]
fn damaged_payloads_are_refused_or_restored_whole() {
    let mut desk = Desk::new(Options::default());
    let mut random = Random::new(11);
    let (payloads, mut refused) = (payloads(), 0);
    for round in 0..1500 {
        let mut value = payloads[random.index(payloads.len())].clone();
        value.truncate(value.len() - 10);
        for _ in 0..1 + random.index(3) {
            let place = random.index(value.len().min(200));
            value[place] = random.index(256) as u8;
        }
        if random.index(4) == 0 {
            value.truncate(1 + random.index(value.len()));
        }
        let payload = wrap_payload(value);
        let ends = desk.iteration(&[
            &[b"SET", b"other", b"1"],
            &[b"RESTORE", b"k", b"0", &payload],
            &[b"APPEND", b"other", b"2"],
        ]);
        assert!(ends[0].is_ok() && ends[2].is_ok(), "round {round}: {ends:?}");
        desk.out.send(&mut Vec::new()).unwrap();
        if ends[1].is_err() {
            refused += 1;
            assert_eq!(replies(&mut desk, &[b"EXISTS", b"k"]), ":0\r\n", "round {round}");
        }
        assert_eq!(desk.get(b"other").as_deref(), Some(&b"12"[..]));
        replies(&mut desk, &[b"DEL", b"k"]);
        if round % 100 == 99 {
            assert_eq!(findings(&desk), Vec::<String>::new(), "round {round}");
        }
    }
    assert!(refused > 500, "{refused} of 1500");
}

/// A string that is compressed counts with the bytes that it has: a payload may grow 88 times.
#[test]
fn strings_above_the_limit_are_not_restored() {
    const SIZE: usize = 1 << 20;
    let mut desk = Desk::new(Options { bulk_size_max: SIZE, ..Options::default() });
    // A literal, then copies of 264 bytes from one before.
    let string = |copies: usize| {
        let packed = [&[0, b'a'][..], &[0xe0, 255, 0].repeat(copies)].concat();
        let size = (1 + 264 * copies) as u32;
        let mut value = vec![crate::rdb::kind::STRING, 0xc3, 0x80];
        value.extend_from_slice(&(packed.len() as u32).to_be_bytes());
        value.push(0x80);
        value.extend_from_slice(&size.to_be_bytes());
        value.extend_from_slice(&packed);
        wrap_payload(value)
    };
    let (fits, above) = (string(SIZE / 264 - 1), string(SIZE / 264 + 1));
    let ends = desk.iteration(&[&[b"RESTORE", b"k", b"0", &fits], &[b"RESTORE", b"l", b"0", &above]]);
    assert_eq!(ends, [Ok(()), Err("ERR Bad data format".to_string())]);
}

/// The number of entries ever added stays a number that can grow.
#[test]
fn a_stream_of_too_many_entries_is_not_restored() {
    let mut desk = Desk::new(Options::default());
    let payload = |added| {
        let mut stream = crate::rdb::Output::new(crate::rdb::kind::STREAM_2);
        // No listpacks, no entries; the last id, the first and the highest deleted one; no groups.
        [0, 0, 1, 1, 0, 0, 0, 0, added, 0].into_iter().for_each(|word| stream.length(word));
        wrap_payload(stream.into_bytes())
    };
    let (most, above) = (payload(i64::MAX as u64), payload(u64::MAX));
    let ends = desk.iteration(&[&[b"RESTORE", b"k", b"0", &most], &[b"RESTORE", b"l", b"0", &above]]);
    assert_eq!(ends, [Ok(()), Err("ERR Bad data format".to_string())]);
    assert!(replies(&mut desk, &[b"XADD", b"k", b"2-1", b"f", b"v"]).ends_with("2-1\r\n"));
}

/// A stream keeps its groups, consumers and pending entries on the way out and back.
#[test]
fn streams_are_dumped_with_their_groups() {
    let clock = ManualClock::default();
    clock.set(UNIX_EPOCH + Duration::from_millis(1_000));
    let mut desk = Desk::new(Options { clock: Arc::new(clock.clone()), ..Options::default() });
    for number in 1..=600 {
        replies(&mut desk, &[b"XADD", b"s", format!("{number}-1").as_bytes(), b"f", b"v"]);
    }
    replies(&mut desk, &[b"XGROUP", b"CREATE", b"s", b"g", b"0"]);
    replies(&mut desk, &[b"XGROUP", b"CREATE", b"s", b"empty", b"$"]);
    replies(&mut desk, &[b"XREADGROUP", b"GROUP", b"g", b"one", b"COUNT", b"300", b"STREAMS", b"s", b">"]);
    replies(&mut desk, &[b"XREADGROUP", b"GROUP", b"g", b"two", b"COUNT", b"290", b"STREAMS", b"s", b">"]);
    replies(&mut desk, &[b"XGROUP", b"CREATECONSUMER", b"s", b"g", b"idle"]);
    // Some are delivered twice, at another time than the others; the dump is later.
    clock.set(UNIX_EPOCH + Duration::from_millis(2_000));
    replies(&mut desk, &[b"XREADGROUP", b"GROUP", b"g", b"two", b"COUNT", b"2", b"STREAMS", b"s", b"0"]);
    clock.set(UNIX_EPOCH + Duration::from_millis(3_000));
    let dumped = replies(&mut desk, &[b"DUMP", b"s"]);
    let payload = {
        let mut keys_desk = desk.iteration(&[&[b"DUMP", b"s"]]);
        assert!(keys_desk.remove(0).is_ok());
        let mut bytes = Vec::new();
        desk.out.send(&mut bytes).unwrap();
        let start = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        bytes[start..bytes.len() - 2].to_vec()
    };
    assert!(dumped.starts_with('$'));
    assert_eq!(replies(&mut desk, &[b"RESTORE", b"t", b"0", &payload]), "+OK\r\n");
    let full: &[&[u8]] = &[b"FULL", b"COUNT", b"0"];
    for (words, rest) in
        [(&[&b"XINFO"[..], b"GROUPS"][..], &[][..]), (&[b"XINFO", b"STREAM"], full), (&[b"XRANGE"], &[b"-", b"+"])]
    {
        let of = |key: &'static [u8]| [words, &[key], rest].concat();
        assert_eq!(replies(&mut desk, &of(b"t")), replies(&mut desk, &of(b"s")));
    }
    for consumer in [&b"one"[..], b"two", b"idle"] {
        let count = replies(&mut desk, &[b"XREADGROUP", b"GROUP", b"g", consumer, b"STREAMS", b"t", b"0"]);
        assert_eq!(
            count,
            replies(&mut desk, &[b"XREADGROUP", b"GROUP", b"g", consumer, b"STREAMS", b"s", b"0"])
                .replacen("$1\r\ns", "$1\r\nt", 1)
        );
    }
    assert_eq!(findings(&desk), Vec::<String>::new());
}

/// A form of streams that does not tell how many entries a group has read: that is known for groups
/// at an end of the stream.
#[test]
fn groups_of_older_dumps_know_how_much_they_have_read() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/rdb");
    let mut desk = Desk::new(Options::default());
    for (name, read, lag) in [
        ("old-stream-groups", vec![":0", ":1", "$-1", ":2"], vec![":2", ":1", "$-1", ":0"]),
        ("old-stream-emptied", vec![":0", ":0"], vec![":0", ":0"]),
    ] {
        let payload = std::fs::read(format!("{folder}/{name}")).unwrap();
        assert_eq!(replies(&mut desk, &[b"RESTORE", b"s", b"0", &payload, b"REPLACE"]), "+OK\r\n");
        let groups = replies(&mut desk, &[b"XINFO", b"GROUPS", b"s"]);
        let of = |field| groups.split(field).skip(1).filter_map(|part| part.lines().nth(1)).collect::<Vec<_>>();
        assert_eq!((of("entries-read"), of("lag")), (read, lag), "{name}");
    }
}

/// Whether an exchange that shares a batch with a command that fails in its middle is taken back
/// with it.
fn takes_back(bug: &'static str) -> bool {
    museum::with(bug, || {
        let mut desk = Desk::new(Options::default());
        desk.iteration(&[&[b"SET", b"a", b"zero"]]);
        let mut keys_lost = false;
        {
            let (kv, tables) = (desk.shared.kv.clone(), std::sync::Arc::clone(&desk.shared.tables));
            let remembered = std::mem::take(&mut desk.shared.remembered);
            let mut keys = crate::keyspace::Keyspace::new(&tables, remembered, desk.shared.clock(), false, false);
            assert!(desk.run(&mut keys, &[b"SWAPDB", b"0", b"1"]).is_ok());
            keys.begin_command(true);
            keys.put(b"half", b"done").unwrap();
            keys_lost |= matches!(keys.end_command(true), crate::keyspace::Verdict::Lost);
            keys.commit().unwrap();
            if let Some(commit) = keys.committed() {
                kv.settle(commit).unwrap();
            }
            desk.shared.remembered = keys.into_remembered();
        }
        desk.out.send(&mut Vec::new()).unwrap();
        assert!(keys_lost);
        replies(&mut desk, &[b"GET", b"a"]) == "$4\r\nzero\r\n"
    })
}

#[test]
fn an_exchange_is_taken_back_with_its_batch() {
    assert!(takes_back("none"));
    assert!(!takes_back("server-swap-kept"), "the seeded bug is found");
}

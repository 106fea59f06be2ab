//! Values that are dumped by one server and restored by the other.

use crate::common::{self, Client, Ours, Redis, Reply, command};
use crate::{compare, shown};
use everbyte_workload::Random;

/// The content of a key, as commands tell it.
pub(crate) fn content(client: &mut Client, key: &[u8]) -> Vec<Reply> {
    let Reply::Simple(kind) = client.call(&[b"TYPE", key]) else { panic!("TYPE") };
    let words: &[&[u8]] = match kind.as_str() {
        "string" => &[b"GET", key],
        "list" => &[b"LRANGE", key, b"0", b"-1"],
        "set" => &[b"SMEMBERS", key],
        "zset" => &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
        "hash" => &[b"HGETALL", key],
        "stream" => &[b"XRANGE", key, b"-", b"+"],
        _ => return vec![Reply::Simple(kind)],
    };
    let mut found = match client.call(words) {
        Reply::List(list) => list,
        other => vec![other],
    };
    match kind.as_str() {
        "set" => found.sort(),
        "hash" => {
            let mut pairs: Vec<Vec<Reply>> = found.chunks(2).map(<[Reply]>::to_vec).collect();
            pairs.sort();
            found = pairs.concat();
        }
        _ => {}
    }
    found.insert(0, Reply::Simple(kind));
    found
}

fn payloads() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/rdb");
    let mut found: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap()))
        .collect();
    found.sort();
    assert!(found.len() > 20);
    found
}

/// Every form that Redis has written is read; our own form is read by Redis.
#[test]
fn dumps_of_redis_are_restored_and_ours_by_redis() {
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    for (name, payload) in payloads() {
        let key = name.as_bytes();
        let restored = ours.call(&[&b"RESTORE"[..], key, b"0", &payload]);
        assert_eq!(restored, Reply::Simple("OK".into()), "{name}");
        assert_eq!(theirs.call(&[&b"RESTORE"[..], key, b"0", &payload]), Reply::Simple("OK".into()), "{name}");
        let expect = content(&mut theirs, key);
        assert_eq!(content(&mut ours, key), expect, "{name}");
        let back = ours.call(&[b"DUMP", key]).bytes();
        assert_eq!(
            theirs.call(&[&b"RESTORE"[..], b"back", b"0", &back, b"REPLACE"]),
            Reply::Simple("OK".into()),
            "{name}"
        );
        assert_eq!(content(&mut theirs, b"back"), expect, "{name}, from us to Redis");
        assert_eq!(
            ours.call(&[&b"RESTORE"[..], b"back", b"0", &back, b"REPLACE"]),
            Reply::Simple("OK".into()),
            "{name}"
        );
        assert_eq!(content(&mut ours, b"back"), expect, "{name}, from us to us");
        if name.contains("stream") {
            let groups: &[&[u8]] = &[b"XINFO", b"GROUPS", key];
            compare(&mut ours, &mut theirs, &command(groups), &name);
            compare(&mut ours, &mut theirs, &command(&[&b"XADD"[..], key, b"500-1", b"f", b"v"]), &name);
            for group in [&b"g"[..], b"before", b"first", b"middle", b"newest"] {
                let read: &[&[u8]] = &[b"XREADGROUP", b"GROUP", group, b"c", b"COUNT", b"1", b"STREAMS", key, b">"];
                compare(&mut ours, &mut theirs, &command(read), &name);
                compare(&mut ours, &mut theirs, &command(groups), &name);
            }
        }
    }
}

/// Options, times to live and payloads that are refused.
#[test]
fn restores_are_answered_byte_for_byte() {
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    let payload = theirs_dump(&mut theirs);
    let mut wrong = payload.clone();
    wrong[2] ^= 1;
    let ttls: &[&[u8]] = &[b"0", b"-1", b"x", b"99999999999", b"1"];
    let options: &[&[&[u8]]] = &[
        &[],
        &[b"REPLACE"],
        &[b"ABSTTL"],
        &[b"replace", b"absttl"],
        &[b"REPLACE", b"IDLETIME", b"5"],
        &[b"IDLETIME", b"-5"],
        &[b"FREQ", b"256"],
        &[b"FREQ", b"x"],
        &[b"FREQ", b"1", b"IDLETIME", b"1"],
        &[b"IDLETIME"],
        &[b"bogus"],
    ];
    for there in [false, true] {
        for ttl in ttls {
            for payload in [&payload[..], &wrong, b"", b"\x00\x01x"] {
                for options in options {
                    for client in [&mut ours, &mut theirs] {
                        client.call(&[&b"DEL"[..], b"k"]);
                        if there {
                            client.call(&[&b"SADD"[..], b"k", b"old"]);
                        }
                    }
                    // A time to live of a millisecond would end between the two.
                    if *ttl == b"1" && !options.iter().any(|option| option.eq_ignore_ascii_case(b"absttl")) {
                        continue;
                    }
                    let words = [&[&b"RESTORE"[..], b"k", ttl, payload], *options].concat();
                    let what =
                        format!("there: {there}, {:?}", words.iter().map(|word| shown(word)).collect::<Vec<_>>());
                    compare(&mut ours, &mut theirs, &command(&words), &what);
                    compare(&mut ours, &mut theirs, &command(&["TYPE", "k"]), &what);
                    let far = |client: &mut Client| client.call(&["PTTL", "k"]) > Reply::Integer(1_000_000);
                    assert_eq!(far(&mut ours), far(&mut theirs), "{what}");
                }
            }
        }
    }
}

fn theirs_dump(client: &mut Client) -> Vec<u8> {
    client.call(&["SET", "source", "text"]);
    client.call(&["DUMP", "source"]).bytes()
}

/// Random values of all types go from each server to the other.
#[test]
fn random_values_survive_the_way_there_and_back() {
    let seed = common::seed("random_values_survive");
    let mut random = Random::new(seed);
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    for round in 0..150 {
        let text = |random: &mut Random| -> Vec<u8> {
            match random.index(6) {
                0 => random.index(300).to_string().into_bytes(),
                1 => format!("-{}", random.index(1 << 40)).into_bytes(),
                2 => vec![b'l'; random.index(5000)],
                _ => (0..random.index(90)).map(|_| random.index(256) as u8).collect(),
            }
        };
        let key = b"k".to_vec();
        let count = 1 + random.index(if round % 10 == 0 { 700 } else { 20 });
        let kind = random.index(6);
        let mut lines: Vec<Vec<Vec<u8>>> = vec![vec![b"DEL".to_vec(), key.clone()]];
        for number in 0..count {
            let (one, other) = (text(&mut random), text(&mut random));
            let line = match kind {
                0 => vec![b"SET".to_vec(), key.clone(), one],
                1 => vec![b"RPUSH".to_vec(), key.clone(), one],
                2 => vec![b"SADD".to_vec(), key.clone(), one],
                3 => vec![b"HSET".to_vec(), key.clone(), one, other],
                4 => vec![b"ZADD".to_vec(), key.clone(), format!("{}", number as f64 / 7.0).into_bytes(), one],
                _ => vec![
                    b"XADD".to_vec(),
                    key.clone(),
                    format!("{}-{}", 1 + number / 3, 1 + number % 3).into_bytes(),
                    one,
                    other,
                ],
            };
            lines.push(line);
        }
        if kind == 5 {
            lines.push(vec![b"XDEL".to_vec(), key.clone(), b"1-1".to_vec(), b"2-2".to_vec()]);
        }
        for line in &lines {
            ours.call(line);
            theirs.call(line);
        }
        let what = format!("seed {seed:#x}, round {round}, type {kind}, {count} elements");
        let expect = content(&mut theirs, &key);
        assert_eq!(content(&mut ours, &key), expect, "{what}");
        let (from_us, from_them) = (ours.call(&[b"DUMP", &key[..]]).bytes(), theirs.call(&[b"DUMP", &key[..]]).bytes());
        for (client, payload) in [(&mut ours, &from_them), (&mut theirs, &from_us)] {
            let words: [&[u8]; 5] = [b"RESTORE", b"back", b"0", payload, b"REPLACE"];
            assert_eq!(client.call(&words), Reply::Simple("OK".into()), "{what}");
            assert_eq!(content(client, b"back"), expect, "{what}");
        }
    }
}

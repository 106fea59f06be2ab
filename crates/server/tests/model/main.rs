//! The same bytes to us and to a real Redis: the same bytes back.
//!
//! Scripts in `testdata/scripts` hold one command a line, in the quoting of inline commands; they
//! go over as arrays and as lines, in both protocols. Then raw protocol, then random programs.
//! Intended differences are in `docs/semantics/server.md`.

mod bitmaps;
#[path = "../common/mod.rs"]
mod common;
mod floats;

mod acl;
mod blocking;
mod dumps;
mod edges;
mod events;
mod evictions;
mod geo;
mod hashes;
mod hyperloglog;
mod lists;
mod password;
mod programs;
mod pubsub;
mod scripts;
mod sets;
mod sort;
mod sorted_sets;
mod streams;
mod tracking;
mod transactions;
mod transfers;

use common::{Client, Ours, Redis, Reply, command};
use everbyte_workload::Random;

fn shown(bytes: &[u8]) -> String {
    let text = bytes.escape_ascii().to_string();
    if text.len() > 3000 { format!("{}...", &text[..3000]) } else { text }
}

/// Sends `bytes` to both and compares.
fn compare(ours: &mut Client, theirs: &mut Client, bytes: &[u8], what: &str) {
    let ((our_reply, our_end), (their_reply, their_end)) = (ours.exchange(bytes), theirs.exchange(bytes));
    assert!(
        our_reply == their_reply && our_end == their_end,
        "{what}\n  ours:  {} {}\n  Redis: {} {}",
        shown(&our_reply),
        if our_end { "(closed)" } else { "" },
        shown(&their_reply),
        if their_end { "(closed)" } else { "" },
    );
}

/// The words of a script's line, by the rules of inline commands.
fn words(line: &str) -> Vec<Vec<u8>> {
    let (mut words, mut rest) = (Vec::new(), line.trim());
    while !rest.is_empty() {
        let mut word = Vec::new();
        let bytes = rest.as_bytes();
        let mut at = 0;
        if bytes[0] == b'"' {
            at = 1;
            while bytes[at] != b'"' {
                match (bytes[at], bytes.get(at + 1)) {
                    (b'\\', Some(b'x')) => {
                        word.push(u8::from_str_radix(&rest[at + 2..at + 4], 16).unwrap());
                        at += 4;
                    }
                    (b'\\', Some(b'n')) => {
                        word.push(b'\n');
                        at += 2;
                    }
                    (b'\\', Some(b'r')) => {
                        word.push(b'\r');
                        at += 2;
                    }
                    (b'\\', Some(other)) => {
                        word.push(*other);
                        at += 2;
                    }
                    (byte, _) => {
                        word.push(byte);
                        at += 1;
                    }
                }
            }
            at += 1;
        } else {
            while at < bytes.len() && bytes[at] != b' ' {
                word.push(bytes[at]);
                at += 1;
            }
        }
        words.push(word);
        rest = rest[at..].trim_start();
    }
    words
}

fn scripts() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/scripts");
    let mut scripts: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    scripts.sort();
    assert!(scripts.len() >= 4);
    scripts
}

/// Every command of the scripts, in both protocols, as arrays and as lines, one at a time and all
/// at once.
#[test]
fn scripts_are_answered_byte_for_byte() {
    let (us, redis) = (Ours::start(), Redis::start());
    for protocol in ["2", "3"] {
        for (name, script) in scripts() {
            for inline in [false, true] {
                let (mut ours, mut theirs) = (us.client(), redis.client());
                for client in [&mut ours, &mut theirs] {
                    client.call(&["HELLO", protocol]);
                    client.call(&["FLUSHALL"]);
                }
                let mut all = Vec::new();
                for (number, line) in script.lines().enumerate() {
                    if line.is_empty() || line.starts_with('#') {
                        continue;
                    }
                    let bytes = if inline { format!("{line}\r\n").into_bytes() } else { command(&words(line)) };
                    compare(&mut ours, &mut theirs, &bytes, &format!("{name}:{}: {line}", number + 1));
                    all.extend_from_slice(&bytes);
                }
                for client in [&mut ours, &mut theirs] {
                    client.call(&["HELLO", protocol]);
                    client.call(&["FLUSHALL"]);
                }
                compare(&mut ours, &mut theirs, &all, &format!("{name}, pipelined, inline: {inline}"));
            }
        }
    }
}

/// HELLO, but for the number of the connection.
#[test]
fn hello_is_answered_byte_for_byte() {
    let (us, redis) = (Ours::start(), Redis::start());
    let without_id = |reply: Vec<u8>| {
        let at = reply.windows(4).position(|part| part == b"id\r\n").unwrap() + 4;
        let end = at + reply[at..].iter().position(|byte| *byte == b'\r').unwrap();
        [&reply[..at], &reply[end..]].concat()
    };
    let (mut ours, mut theirs) = (us.client(), redis.client());
    for words in [&["HELLO"][..], &["HELLO", "3"], &["HELLO"], &["HELLO", "2", "SETNAME", "me"]] {
        let replies = [&mut ours, &mut theirs].map(|client| without_id(client.exchange(&command(words)).0));
        assert_eq!(shown(&replies[0]), shown(&replies[1]), "{words:?}");
    }
    compare(&mut ours, &mut theirs, &command(&["CLIENT", "GETNAME"]), "the name given in HELLO");
}

/// Malformed and odd protocol, each on a connection of its own.
#[test]
fn odd_protocol_is_answered_byte_for_byte() {
    let (us, redis) = (Ours::start(), Redis::start());
    let long = |byte: u8, count: usize| vec![byte; count];
    let cases: Vec<Vec<u8>> = vec![
        b"PING\r\n".to_vec(),
        b"PING\n".to_vec(),
        b"\r\n\r\nPING\r\n".to_vec(),
        b"  PING  \r\n".to_vec(),
        b"\"PING\" ''\r\n".to_vec(),
        b"SET \"a b\" 'c\\'d'\r\nGET \"a b\"\r\n".to_vec(),
        b"ECHO \"\\x00\\xff\\n\\r\\t\\b\\a\\q\"\r\n".to_vec(),
        b"GET \"a\r\n".to_vec(),
        b"GET \"a\"b\r\n".to_vec(),
        b"GET 'a\r\n".to_vec(),
        b"*0\r\nPING\r\n".to_vec(),
        b"*-1\r\nPING\r\n".to_vec(),
        b"*-100\r\n*1\r\n$4\r\nPING\r\n".to_vec(),
        b"*1\r\n$0\r\n\r\n".to_vec(),
        b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n".to_vec(),
        b"*1\rx$4\rxPINGxx".to_vec(),
        b"*x\r\n".to_vec(),
        b"*\r\n".to_vec(),
        b"*1x\r\n".to_vec(),
        b"*01\r\n".to_vec(),
        b"*+1\r\n".to_vec(),
        b"*2147483648\r\n".to_vec(),
        b"*99999999999999999999\r\n".to_vec(),
        b"*1\r\nXabc\r\n".to_vec(),
        b"*1\r\n\nabc\r\n".to_vec(),
        b"*1\r\n\r\n".to_vec(),
        b"*1\r\n\x80abc\r\n".to_vec(),
        b"*1\r\n$-1\r\n".to_vec(),
        b"*1\r\n$\r\n".to_vec(),
        b"*1\r\n$4x\r\n".to_vec(),
        b"*1\r\n$536870913\r\n".to_vec(),
        b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$-5\r\n".to_vec(),
        b"PING\r\n*1\r\n$-5\r\nPING\r\n".to_vec(),
        // Long enough that neither reads up to the end before it gives up.
        long(b'a', 300_000),
        [b"*", &long(b'1', 300_000)[..]].concat(),
        [b"*1\r\n$", &long(b'1', 300_000)[..]].concat(),
        command(&[&long(b'n', 200)[..], &long(b'a', 200)[..], b"b"]),
        command(&[&b"foo\0bar"[..], b"a\0b", b"c\r\nd", b"e"]),
        command(&[&b"foo"[..], &long(b'a', 100)[..], &long(b'b', 100)[..], &long(b'c', 100)[..]]),
        command(&[&b"config"[..], &long(b's', 300)[..]]),
        command(&[&b"config"[..], b"a\r\nb\0c"]),
        command(&[&b"hello"[..], b"3", b"a\r\nb"]),
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n".to_vec(),
        b"Host: x\r\nPING\r\n".to_vec(),
        b"QUIT\r\nPING\r\n".to_vec(),
        b"CLIENT REPLY OFF\r\nPING\r\nCLIENT REPLY ON\r\nPING\r\n".to_vec(),
        b"CLIENT REPLY SKIP\r\nPING\r\nPING\r\nCLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nPING\r\nPING\r\n".to_vec(),
        b"CLIENT REPLY OFF\r\nCLIENT REPLY SKIP\r\nPING\r\nCLIENT REPLY ON\r\n".to_vec(),
        b"CLIENT REPLY OFF\r\nRESET\r\nPING\r\n".to_vec(),
    ];
    for case in cases {
        let head = shown(&case[..case.len().min(200)]);
        compare(&mut us.client(), &mut redis.client(), &case, &head);
    }
}

/// The answer of `COMMAND INFO` for every command that Redis has too, but for containers, of which
/// we have fewer parts.
#[test]
fn commands_are_described_byte_for_byte() {
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    let ranges = ["range", "revrange", "prefix", "countrange", "delrange"];
    let not_theirs = [
        &ranges[..],
        &["host:", "post", "acl", "client", "config", "command", "backup", "cursor", "snapshot", "pubsub"],
        &["xgroup", "xinfo"],
        &["everbyte.replicate", "everbyte.ack", "waitaof"],
        &["object", "memory", "slowlog", "latency"],
        &["script", "function"],
    ]
    .concat();
    let names: Vec<Vec<u8>> =
        ours.call(&["COMMAND", "LIST", "FILTERBY", "PATTERN", "*"]).list().into_iter().map(Reply::bytes).collect();
    assert!(names.len() > 50);
    for protocol in ["2", "3"] {
        for client in [&mut ours, &mut theirs] {
            client.call(&["HELLO", protocol]);
        }
        for name in &names {
            let name = String::from_utf8(name.clone()).unwrap();
            if !not_theirs.contains(&&*name)
                && !name.starts_with("backup|")
                && !name.starts_with("cursor|")
                && !name.starts_with("snapshot|")
                && name != "client|setinfo"
                && name != "client|durability"
            {
                compare(&mut ours, &mut theirs, &command(&["COMMAND", "INFO", &name]), &name);
            }
        }
    }
}

/// All keys by SCAN, sorted.
fn scanned(client: &mut Client, options: &[&[u8]]) -> Vec<Vec<u8>> {
    let (mut cursor, mut keys) = (b"0".to_vec(), Vec::new());
    loop {
        let mut reply = client.call(&[&[&b"SCAN"[..], &cursor], options].concat()).list();
        keys.extend(reply.pop().unwrap().list().into_iter().map(Reply::bytes));
        cursor = reply.pop().unwrap().bytes();
        if cursor == b"0" {
            keys.sort();
            return keys;
        }
    }
}

/// Random patterns over random keys match the same keys here and there.
#[test]
fn patterns_choose_the_same_keys() {
    let seed = common::seed("patterns_choose");
    let mut random = Random::new(seed);
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    let alphabet: Vec<u8> = b"aabbc*?[]^-\\\x00\x7f\x80\xff".to_vec();
    let some = |random: &mut Random, size: usize| -> Vec<u8> {
        (0..random.index(size)).map(|_| alphabet[random.index(alphabet.len())]).collect()
    };
    for _ in 0..600 {
        let key = some(&mut random, 7);
        for client in [&mut ours, &mut theirs] {
            client.call(&[&b"SET"[..], &key, b"1"]);
        }
    }
    for _ in 0..1500 {
        let pattern = some(&mut random, 9);
        let sorted = |client: &mut Client| {
            let mut keys: Vec<_> = client.call(&[&b"KEYS"[..], &pattern]).list();
            keys.sort();
            keys
        };
        assert_eq!(sorted(&mut ours), sorted(&mut theirs), "KEYS {}", shown(&pattern));
    }
    for _ in 0..50 {
        let pattern = some(&mut random, 6);
        let options: &[&[u8]] = &[b"MATCH", &pattern, b"COUNT", b"7"];
        assert_eq!(scanned(&mut ours, options), scanned(&mut theirs, options), "SCAN MATCH {}", shown(&pattern));
    }
}

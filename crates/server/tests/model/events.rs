//! Keyspace events, MONITOR, SLOWLOG, LATENCY and CONFIG, beside a real Redis.

use crate::common::{self, Ours, Redis, Reply, command};
use crate::programs::pick;
use crate::{compare, shown};
use everbyte_workload::Random;

/// Subscribers hear of each command what they would hear of Redis.
#[test]
fn events_of_random_commands_are_those_of_redis() {
    let seed = common::seed("events_of_random_commands");
    let mut random = Random::new(seed);
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    let (mut our_ear, mut their_ear) = (us.client(), redis.client());
    for client in [&mut ours, &mut theirs] {
        assert_eq!(client.call(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]), Reply::Simple("OK".into()));
    }
    for ear in [&mut our_ear, &mut their_ear] {
        ear.call(&["PSUBSCRIBE", "__key*__:*"]);
    }
    let commands: &[(&str, &str)] = &[
        ("SET", "sv"),
        ("SET", "svEn"),
        ("SETEX", "snv"),
        ("PSETEX", "snv"),
        ("SETNX", "sv"),
        ("GETSET", "sv"),
        ("MSET", "svsv"),
        ("APPEND", "sv"),
        ("SETRANGE", "s0v"),
        ("INCR", "c"),
        ("DECRBY", "cn"),
        ("INCRBYFLOAT", "cn"),
        ("GETDEL", "s"),
        ("GETEX", "sEn"),
        ("GETEX", "sP"),
        ("SETBIT", "sn0"),
        ("BITFIELD", "sUu0n"),
        ("BITFIELD", "sUu00Gu0"),
        ("BITOP", "Oskk"),
        ("PFADD", "pv"),
        ("PFMERGE", "pp"),
        ("DEL", "kk"),
        ("UNLINK", "k"),
        ("RENAME", "kk"),
        ("RENAMENX", "kk"),
        ("COPY", "kkR"),
        ("MOVE", "k1"),
        ("EXPIRE", "kn"),
        ("PEXPIRE", "k0"),
        ("PERSIST", "k"),
        ("LPUSH", "lvv"),
        ("RPUSH", "lv"),
        ("LPUSHX", "lv"),
        ("LPOP", "l"),
        ("RPOP", "ln"),
        ("LINSERT", "lBvv"),
        ("LSET", "l0v"),
        ("LREM", "l0v"),
        ("LMOVE", "llXY"),
        ("RPOPLPUSH", "ll"),
        ("LMPOP", "1lX"),
        ("SORT", "lATl"),
        ("SADD", "tvv"),
        ("SREM", "tv"),
        ("SPOP", "t"),
        ("SMOVE", "ttv"),
        ("SINTERSTORE", "ttt"),
        ("SUNIONSTORE", "ttt"),
        ("SDIFFSTORE", "ttt"),
        ("HSET", "hvv"),
        ("HSETNX", "hvv"),
        ("HINCRBY", "hfn"),
        ("HINCRBYFLOAT", "hfn"),
        ("HDEL", "hv"),
        ("ZADD", "znv"),
        ("ZADD", "zInv"),
        ("ZINCRBY", "znv"),
        ("ZREM", "zv"),
        ("ZREMRANGEBYRANK", "z00"),
        ("ZREMRANGEBYSCORE", "z0n"),
        ("ZPOPMIN", "z"),
        ("ZPOPMAX", "z"),
        ("ZMPOP", "1zM"),
        ("ZUNIONSTORE", "z2zz"),
        ("ZINTERSTORE", "z2zz"),
        ("ZDIFFSTORE", "z2zz"),
        ("ZRANGESTORE", "zz0n"),
        ("GEOADD", "z00v"),
        ("GEORADIUS", "z00nmTz"),
        ("XADD", "x*vv"),
        ("XDEL", "xi"),
        ("XTRIM", "xLn"),
        ("FLUSHDB", ""),
        ("GET", "k"),
        ("SWAPDB", "01"),
        ("LTRIM", "l00"),
    ];
    let mut different = std::collections::BTreeMap::new();
    for step in 0..1000 {
        let (name, shape) = commands[random.index(commands.len())];
        let mut words = vec![name.as_bytes().to_vec()];
        words.extend(shape.bytes().map(|letter| match letter {
            b'k' => pick(&mut random, &[b"s", b"s2", b"l", b"t", b"h", b"z", b"x", b"c"]),
            b's' => pick(&mut random, &[b"s", b"s2"]),
            b'c' => b"c".to_vec(),
            b'p' => pick(&mut random, &[b"p", b"p2"]),
            // Keys and members may be called as options are.
            b'l' => pick(&mut random, &[b"l", b"l2", b"left"]),
            b't' => pick(&mut random, &[b"t", b"t2"]),
            b'h' => b"h".to_vec(),
            b'z' => pick(&mut random, &[b"z", b"z2", b"min"]),
            b'x' => b"x".to_vec(),
            b'f' => b"f".to_vec(),
            b'v' => pick(&mut random, &[b"1", b"2", b"3", b"incr", b"NX", b"max", b"Persist", b"LEFT"]),
            b'n' => pick(&mut random, &[b"1", b"2", b"100"]),
            b'i' => b"1-1".to_vec(),
            b'0' => b"0".to_vec(),
            b'1' => b"1".to_vec(),
            b'2' => b"2".to_vec(),
            b'E' => pick(&mut random, &[b"EX", b"PX"]),
            b'P' => b"PERSIST".to_vec(),
            b'O' => b"OR".to_vec(),
            b'R' => b"REPLACE".to_vec(),
            b'B' => b"BEFORE".to_vec(),
            b'A' => b"ALPHA".to_vec(),
            b'T' => b"STORE".to_vec(),
            b'I' => b"INCR".to_vec(),
            b'M' => pick(&mut random, &[b"MIN", b"max"]),
            b'X' | b'Y' => pick(&mut random, &[b"LEFT", b"right"]),
            b'L' => b"MAXLEN".to_vec(),
            b'U' => b"SET".to_vec(),
            b'G' => b"GET".to_vec(),
            b'u' => b"u8".to_vec(),
            b'm' => b"km".to_vec(),
            other => vec![other],
        }));
        // A key that expires between the commands is told when each server finds it.
        if words.contains(&b"PX".to_vec()) || name == "PSETEX" || name == "EXPIRE" {
            words
                .iter_mut()
                .filter(|word| [&b"1"[..], b"2", b"100"].contains(&&word[..]))
                .for_each(|word| *word = b"90000000".to_vec());
        }
        let text: Vec<String> = words.iter().map(|word| shown(word)).collect();
        let what = format!("seed {seed:#x}, step {step}: {text:?}");
        let expiring = ["EX", "ex"].iter().any(|word| words.iter().any(|other| other == word.as_bytes()));
        if expiring || name == "SETEX" {
            words
                .iter_mut()
                .filter(|word| [&b"1"[..], b"2", b"100"].contains(&&word[..]))
                .for_each(|word| *word = b"90000".to_vec());
        }
        // SPOP takes what it likes; then both have one set.
        let replies = [&mut ours, &mut theirs].map(|client| client.call(&words));
        let random_reply = name == "SPOP" || name == "XADD";
        assert!(random_reply || replies[0] == replies[1], "{what}: {replies:?}");
        let heard = [&mut our_ear, &mut their_ear].map(|ear| ear.exchange_by("PING", b"").0);
        if heard[0] != heard[1] {
            let difference = format!("{what}\n  ours:  {}\n  Redis: {}", shown(&heard[0]), shown(&heard[1]));
            different.entry(name).or_insert(difference);
        }
        if name == "SPOP" {
            let words = ["DEL", "t", "t2"];
            assert_eq!(ours.call(&words), theirs.call(&words), "{what}");
            let _ = [&mut our_ear, &mut their_ear].map(|ear| ear.exchange_by("PING", b"").0);
        }
    }
    let texts: Vec<String> = different.into_values().collect();
    assert!(texts.is_empty(), "{}", texts.join("\n"));
}

/// Groups and consumers that are made and go, by XGROUP and by the commands that make consumers.
#[test]
fn events_of_consumer_groups_are_those_of_redis() {
    let seed = common::seed("events_of_consumer_groups");
    let mut random = Random::new(seed);
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    let (mut our_ear, mut their_ear) = (us.client(), redis.client());
    let (mut our_waiter, mut their_waiter) = (us.client(), redis.client());
    for (client, ear) in [(&mut ours, &mut our_ear), (&mut theirs, &mut their_ear)] {
        client.call(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
        ear.call(&["PSUBSCRIBE", "__key*__:*"]);
    }
    let lines = [
        "XADD x %-1 f v",
        "XADD x %-2 f v",
        "XADD y %-1 f v",
        "XGROUP CREATE x g 0",
        "XGROUP CREATE x h $ MKSTREAM",
        "XGROUP CREATE y g 0 MKSTREAM",
        "XGROUP SETID x g 0",
        "XGROUP DESTROY x h",
        "XGROUP DESTROY y g",
        "XGROUP CREATECONSUMER x g u",
        "XGROUP CREATECONSUMER y g w",
        "XGROUP DELCONSUMER x g u",
        "XGROUP DELCONSUMER x g w",
        "XGROUP DELCONSUMER y g w",
        "XREADGROUP GROUP g u STREAMS x >",
        "XREADGROUP GROUP g w COUNT 1 NOACK STREAMS x >",
        "XREADGROUP GROUP g w COUNT 1 STREAMS x y > >",
        "XREADGROUP GROUP g w STREAMS x 0",
        "XACK x g 1-1 2-1",
        "XCLAIM x g v 0 1-1 2-1 3-2",
        "XCLAIM x g v 0 1-1 FORCE JUSTID",
        "XAUTOCLAIM x g q 0 0",
        "XSETID x 1000-1",
        "XDEL x 1-1",
        "DEL x",
        "DEL y",
    ];
    let mut told = 0;
    for step in 0..600 {
        let line = lines[random.index(lines.len())].replace('%', &(step / 8 + 1).to_string());
        let words: Vec<&str> = line.split(' ').collect();
        let replies = [&mut ours, &mut theirs].map(|client| client.call(&words));
        assert_eq!(replies[0], replies[1], "seed {seed:#x}, step {step}: {line}");
        let heard = [&mut our_ear, &mut their_ear].map(|ear| shown(&ear.exchange_by("PING", b"").0));
        assert_eq!(heard[0], heard[1], "seed {seed:#x}, step {step}: {line}");
        told += usize::from(heard[0].contains("xgroup-"));
    }
    assert!(told > 50, "{told} events");
    // A consumer that is made as a command that waits is served.
    for (client, waiter) in [(&mut ours, &mut our_waiter), (&mut theirs, &mut their_waiter)] {
        for line in ["DEL x", "XGROUP CREATE x g $ MKSTREAM"] {
            client.call(&line.split(' ').collect::<Vec<_>>());
        }
        let waits = ["XREADGROUP", "GROUP", "g", "late", "BLOCK", "0", "STREAMS", "x", ">"];
        waiter.send(&command(&waits));
        while !String::from_utf8_lossy(&client.call(&["INFO", "clients"]).bytes()).contains("blocked_clients:1") {}
        client.call(&["XADD", "x", "1-1", "f", "v"]);
    }
    let heard = [&mut our_ear, &mut their_ear].map(|ear| shown(&ear.exchange_by("PING", b"").0));
    assert_eq!(heard[0], heard[1]);
    assert!(heard[0].contains("xgroup-createconsumer"), "{}", heard[0]);
}

/// Events of a transaction come in the order of its commands.
#[test]
fn events_of_a_transaction_come_in_order() {
    let (us, redis) = (Ours::start(), Redis::start());
    let mut heard = Vec::new();
    for (mut client, mut ear) in [(us.client(), us.client()), (redis.client(), redis.client())] {
        client.call(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
        ear.call(&["PSUBSCRIBE", "__key*__:*"]);
        for words in [
            &["MULTI"][..],
            &["SET", "a", "1", "EX", "100"],
            &["PUBLISH", "__keyspace@0__:mine", "text"],
            &["LPUSH", "a", "wrong"],
            &["RENAME", "a", "b"],
            &["DEL", "b"],
            &["EXEC"],
        ] {
            client.call(words);
        }
        heard.push(shown(&ear.exchange_by("PING", b"").0));
    }
    assert_eq!(heard[0], heard[1]);
}

/// Lines of MONITOR, but for times and addresses.
#[test]
fn monitors_see_what_they_would_see_of_redis() {
    let (us, redis) = (Ours::start(), Redis::start());
    let mut seen = Vec::new();
    for (mut client, mut eye) in [(us.client(), us.client()), (redis.client(), redis.client())] {
        assert_eq!(eye.call(&["MONITOR"]), Reply::Simple("OK".into()));
        let odd: [&[u8]; 3] = [b"SET", b"k\"\\\n\x01\xff", b" v"];
        client.call(&odd);
        let lines: &[&[&str]] = &[
            &["get", "k"],
            &["AUTH", "secret"],
            &["HELLO", "2", "AUTH", "default", "secret"],
            &["CONFIG", "GET", "nosuch"],
            &["SELECT", "3"],
            &["MULTI"],
            &["INCR", "n"],
            &["MONITOR"],
            &["GET", "n"],
            &["EXEC"],
            &["nosuch"],
            &["PING", "last"],
        ];
        for words in lines {
            client.call(words);
        }
        let mut found = Vec::new();
        loop {
            let Reply::Simple(line) = eye.reply() else { panic!("a line") };
            let (head, rest) = line.split_once("] ").unwrap();
            found.push(format!("{} {rest}", head.split('[').next_back().unwrap().split(' ').next().unwrap()));
            if rest.contains("last") {
                break;
            }
        }
        eye.call(&["RESET"]);
        client.call(&["PING"]);
        assert_eq!(eye.call(&["PING", "x"]), Reply::Bulk(b"x".to_vec()), "no monitor any more");
        seen.push(found);
    }
    assert_eq!(seen[0], seen[1]);
}

/// Slow commands, parameters and events without samples.
#[test]
fn slow_commands_and_parameters_are_answered_byte_for_byte() {
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    let lines: &[&[&str]] = &[
        &["CONFIG", "SET", "slowlog-max-len", "x"],
        &["CONFIG", "SET", "slowlog-max-len", "-1"],
        &["CONFIG", "SET", "slowlog-log-slower-than", "-5"],
        &["CONFIG", "SET", "notify-keyspace-events", "KEq"],
        &["CONFIG", "SET", "notify-keyspace-events", "lEK"],
        &["CONFIG", "GET", "notify-keyspace-events"],
        &["CONFIG", "SET", "notify-keyspace-events", ""],
        &["CONFIG", "SET", "slowlog-max-len", "5", "slowlog-max-len", "6"],
        &["CONFIG", "SET", "slowlog-max-len", "5", "x"],
        &["CONFIG", "SET", "slowlog-max-len", "5", "nosuch", "x"],
        &["CONFIG", "GET", "slowlog-max-len"],
        &["CONFIG", "SET", "databases", "5"],
        &["CONFIG", "SET", "maxclients", "0"],
        &["CONFIG", "SET", "appendonly", "yes", "save", ""],
        &["CONFIG", "SET", "latency-monitor-threshold", "x"],
        &["CONFIG", "SET", "latency-monitor-threshold", "100000"],
        &["CONFIG", "GET", "latency-tracking"],
        &["CONFIG", "SET", "latency-tracking", "maybe"],
        &["CONFIG", "SET", "latency-tracking-info-percentiles", "50 101"],
        &["CONFIG", "SET", "latency-tracking-info-percentiles", "50 99 x"],
        &["CONFIG", "SET", "latency-tracking-info-percentiles", "0 50.5 100"],
        &["CONFIG", "GET", "latency-tracking-info-percentiles"],
        &["CONFIG", "REWRITE"],
        &["SLOWLOG", "GET", "x"],
        &["SLOWLOG", "GET", "-2"],
        &["SLOWLOG", "GET", "1", "2"],
        &["SLOWLOG", "GET", "0"],
        &["SLOWLOG", "LEN"],
        &["SLOWLOG", "nosuch"],
        &["SLOWLOG", "RESET"],
        &["LATENCY", "LATEST"],
        &["LATENCY", "HISTORY", "command"],
        &["LATENCY", "GRAPH", "command"],
        &["LATENCY", "RESET"],
        &["LATENCY", "RESET", "x", "y"],
        &["LATENCY", "HISTOGRAM", "nosuch"],
        &["CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "4"],
    ];
    for words in lines {
        compare(&mut ours, &mut theirs, &command(words), &format!("{words:?}"));
    }
    let many: Vec<String> =
        ["SADD".to_string(), "k".to_string()].into_iter().chain((0..40).map(|n| n.to_string())).collect();
    let long = "v".repeat(200);
    for client in [&mut ours, &mut theirs] {
        client.call(&["CLIENT", "SETNAME", "me"]);
        client.call(&many);
        client.call(&["SET", "s", &long]);
        client.call(&["AUTH", "secret"]);
        for words in [&["MULTI"][..], &["GET", "s"], &["EXEC"]] {
            client.call(words);
        }
    }
    // Id, arguments and name of each.
    let entries = [&mut ours, &mut theirs].map(|client| {
        let entries = client.call(&["SLOWLOG", "GET", "-1"]).list().into_iter();
        let parts = |entry: Reply| {
            let parts = entry.list();
            assert_eq!(parts.len(), 6);
            (parts[0].clone(), parts[3].clone(), parts[5].clone())
        };
        entries.map(parts).collect::<Vec<_>>()
    });
    assert_eq!(entries[0], entries[1]);
}

/// Counts of commands and errors, and the percentiles of their times.
#[test]
fn statistics_of_commands_are_those_of_redis() {
    let (us, redis) = (Ours::start(), Redis::start());
    let lines: &[&[&str]] = &[
        &["CONFIG", "RESETSTAT"],
        &["LPUSH", "list", "a"],
        &["GET", "list"],
        &["GET", "absent"],
        &["GET"],
        &["SET", "k", "v", "EX", "soon"],
        &["nosuch", "command"],
        &["CONFIG", "nosuch"],
        &["OBJECT", "ENCODING"],
        &["MULTI"],
        &["INCR", "n"],
        &["GET"],
        &["EXEC"],
        &["MULTI"],
        &["INCR", "n"],
        &["INCR", "list"],
        &["EXEC"],
        &["ACL", "SETUSER", "poor", "on", "nopass", "+ping"],
        &["EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"],
        &["CONFIG", "SET", "latency-tracking-info-percentiles", "50 99.9"],
    ];
    let seen = [us.client(), redis.client()].map(|mut client| {
        for words in lines {
            client.call(words);
        }
        let sections = ["commandstats", "errorstats", "latencystats"].map(|section| {
            let text = String::from_utf8(client.call(&["INFO", section]).bytes()).unwrap();
            // Times are not compared.
            let masked = |line: &str| {
                let parts = line.split(',').map(|part| match part.rsplit_once('=') {
                    Some((name, _)) if name.contains("usec") || name.contains(":p") || name.starts_with('p') => name,
                    _ => part,
                });
                parts.collect::<Vec<_>>().join(",")
            };
            let mut lines: Vec<String> = text.lines().map(masked).collect();
            lines.sort();
            lines
        });
        // Switched off, nothing more is counted, and the section is empty.
        client.call(&["CONFIG", "SET", "latency-tracking", "no"]);
        client.call(&["APPEND", "k", "v"]);
        (sections, client.call(&["INFO", "latencystats"]), client.call(&["LATENCY", "HISTOGRAM", "append"]))
    });
    assert_eq!(seen[0], seen[1]);
}

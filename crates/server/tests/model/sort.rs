//! Random programs about SORT, LCS and commands about keys and databases.

use crate::common::{self, Ours, Redis, Reply, command};
use crate::compare;
use crate::programs::{Order, Row, agree, pick};
use everbyte_workload::Random;

#[test]
fn random_programs_of_sorts_are_answered_byte_for_byte() {
    use Order::{Any, Same};
    let rows: Vec<Row> = vec![
        ("RPUSH", "lee", Same),
        ("LPUSH", "le", Same),
        ("SADD", "see", Same),
        ("ZADD", "zne", Same),
        ("ZADD", "zne", Same),
        ("HSET", "hfn", Same),
        ("SET", "wn", Same),
        ("SET", "wn", Same),
        ("DEL", "k", Same),
        ("SORT", "k", Same),
        ("SORT", "kD", Same),
        ("SORT", "kA", Same),
        ("SORT", "kAD", Same),
        ("SORT", "kLnn", Same),
        ("SORT", "kALnnD", Same),
        ("SORT", "kBp", Same),
        ("SORT", "kBpD", Same),
        ("SORT", "kBpGg", Same),
        ("SORT", "kGgGgLnn", Same),
        ("SORT", "kBpA", Any),
        ("SORT", "kTd", Same),
        ("SORT", "kATdD", Same),
        ("SORT", "kBpGgTd", Same),
        ("SORT", "qBx", Same),
        ("SORT", "qBxLnnD", Same),
        ("SORT", "qBxD", Same),
        ("SORT", "qBxLnnTd", Same),
        ("SORT", "sBxTd", Same),
        ("SORT", "sBxDTd", Same),
        ("SORT_RO", "kA", Same),
        ("SORT_RO", "kTd", Same),
        ("LRANGE", "d01", Same),
        ("TYPE", "k", Same),
        ("LLEN", "d", Same),
        ("LCS", "tt", Same),
        ("LCS", "ttI", Same),
        ("LCS", "ttIMn", Same),
        ("LCS", "ttIWMn", Same),
        ("LCS", "ttH", Same),
        ("LCS", "ttHI", Same),
        ("LCS", "kt", Same),
        ("SET", "tv", Same),
        ("OBJECT", "rk", Same),
    ];
    let draw = &mut |letter, random: &mut Random| match letter {
        b'k' => pick(random, &[b"l", b"m", b"s", b"z", b"h_1", b"t1", b"nosuch"]),
        b'l' => pick(random, &[b"l", b"m"]),
        b's' => b"s".to_vec(),
        b'z' => b"z".to_vec(),
        b'q' => pick(random, &[b"l", b"z", b"m"]),
        b'd' => pick(random, &[b"d", b"d", b"m"]),
        b't' => pick(random, &[b"t1", b"t2", b"t3"]),
        b'e' => pick(random, &[b"1", b"2", b"10", b"-3", b"1.5", b"4", b"7", b"2e1", b"0x1f", b"100"]),
        b'n' => pick(random, &[b"0", b"1", b"2", b"5", b"-1", b"3.5", b"-2", b"x"]),
        b'h' => pick(random, &[b"h_1", b"h_2", b"h_10"]),
        b'w' => pick(random, &[b"w_1", b"w_2", b"w_10", b"w_-3", b"w_4"]),
        b'f' => pick(random, &[b"f", b"g"]),
        b'p' => pick(random, &[b"w_*", b"h_*->f", b"none_*", b"*", b"h_*"]),
        b'g' => pick(random, &[b"#", b"w_*", b"h_*->g", b"h_*->", b"nostar", b"w_*->x"]),
        b'x' => pick(random, &[b"nosort", b"#", b"x->y"]),
        b'B' => pick(random, &[b"BY", b"by"]),
        b'G' => b"GET".to_vec(),
        b'L' => b"LIMIT".to_vec(),
        b'A' => b"ALPHA".to_vec(),
        b'D' => pick(random, &[b"DESC", b"ASC"]),
        b'T' => b"STORE".to_vec(),
        b'0' => b"0".to_vec(),
        b'I' => b"IDX".to_vec(),
        b'W' => b"WITHMATCHLEN".to_vec(),
        b'M' => b"MINMATCHLEN".to_vec(),
        b'H' => b"LEN".to_vec(),
        b'r' => b"FREQ".to_vec(),
        _ => {
            let letters = b"abcab \xff";
            (0..random.index(30)).map(|_| letters[random.index(letters.len())]).collect()
        }
    };
    agree("random_programs_of_sorts", 60, &rows, draw);
}

/// Databases that are exchanged, beside clients that watch and wait.
#[test]
fn exchanged_databases_are_answered_byte_for_byte() {
    let seed = common::seed("exchanged_databases");
    let mut random = Random::new(seed);
    let (us, redis) = (Ours::start(), Redis::start());
    let mut pairs: Vec<_> = (0..3).map(|_| (us.client(), redis.client())).collect();
    for step in 0..1500 {
        let (ours, theirs) = &mut pairs[random.index(3)];
        let key = ["a", "b", "c"][random.index(3)];
        let words: Vec<String> = match random.index(16) {
            0..3 => vec!["SWAPDB".into(), random.index(3).to_string(), random.index(4).to_string()],
            3 => vec!["SWAPDB".into(), ["0", "x", "-1", "16"][random.index(4)].into(), "1".into()],
            4 | 5 => vec!["SELECT".into(), random.index(4).to_string()],
            6 | 7 => vec!["SET".into(), key.into(), step.to_string()],
            8 => vec!["RPUSH".into(), key.into(), step.to_string()],
            9 => vec!["PEXPIREAT".into(), key.into(), "99999999999999".into()],
            10 => vec!["MOVE".into(), key.into(), random.index(4).to_string()],
            11 => vec!["DEL".into(), key.into()],
            12 => vec!["GET".into(), key.into()],
            13 => vec!["WATCH".into(), key.into()],
            14 => vec!["DBSIZE".into()],
            _ => vec!["FLUSHDB".into()],
        };
        let what = format!("seed {seed:#x}, step {step}: {words:?}");
        compare(ours, theirs, &command(&words), &what);
        if random.index(6) == 0 {
            // A transaction that a swap may have doomed.
            for words in [&["MULTI"][..], &["INCR", "n"], &["SWAPDB", "0", "2"], &["GET", "n"], &["EXEC"]] {
                assert_eq!(ours.call(words), theirs.call(words), "{what}, then {words:?}");
            }
        }
    }
    for database in 0..4 {
        for words in [&["SELECT", &database.to_string()][..], &["DBSIZE"]] {
            let (ours, theirs) = &mut pairs[0];
            compare(ours, theirs, &command(words), "at the end");
        }
    }
}

/// A list that comes with its database is an element for those that wait.
#[test]
fn an_exchange_wakes_those_who_wait() {
    let (us, redis) = (Ours::start(), Redis::start());
    for (mut waiter, mut other) in [(us.client(), us.client()), (redis.client(), redis.client())] {
        for words in [&["SELECT", "1"][..], &["RPUSH", "l", "x"], &["SELECT", "0"]] {
            other.call(words);
        }
        waiter.send(&command(&["BLPOP", "l", "0"]));
        while crate::common::figure(&mut other, "blocked_clients") == 0 {}
        assert_eq!(other.call(&["SWAPDB", "0", "1"]), Reply::Simple("OK".into()));
        assert_eq!(waiter.reply(), Reply::List(vec![Reply::Bulk(b"l".to_vec()), Reply::Bulk(b"x".to_vec())]));
    }
}

/// The encodings that Redis would choose, and a random key.
#[test]
fn objects_are_described_as_by_redis() {
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    let long = "v".repeat(65);
    let many: Vec<String> = (0..600).map(|number| number.to_string()).collect();
    let with = |head: &[&str], rest: &[String]| {
        head.iter().map(|word| word.to_string()).chain(rest.iter().cloned()).collect::<Vec<_>>()
    };
    let pairs = |count: usize| many.iter().take(count).flat_map(|one| [one.clone(), one.clone()]).collect::<Vec<_>>();
    let values: Vec<Vec<String>> = vec![
        with(&["SET", "k", "12"], &[]),
        with(&["SET", "k", "007"], &[]),
        with(&["SET", "k", "9223372036854775807"], &[]),
        with(&["SET", "k", &"v".repeat(44)], &[]),
        with(&["SET", "k", &"v".repeat(45)], &[]),
        with(&["RPUSH", "k", "x"], &[]),
        with(&["SADD", "k", "1", "2"], &[]),
        with(&["SADD", "k", "1", "x"], &[]),
        with(&["SADD", "k"], &many[..512]),
        with(&["SADD", "k"], &many[..513]),
        with(&["HSET", "k", "f", "v"], &[]),
        with(&["HSET", "k", "f", &long], &[]),
        with(&["HSET", "k"], &pairs(512)),
        with(&["HSET", "k"], &pairs(513)),
        with(&["ZADD", "k", "1", &long], &[]),
        with(&["ZADD", "k"], &pairs(128)),
        with(&["ZADD", "k"], &pairs(129)),
        with(&["XADD", "k", "1-1", "f", "v"], &[]),
    ];
    compare(&mut ours, &mut theirs, &command(&["RANDOMKEY"]), "no key");
    for words in values {
        for client in [&mut ours, &mut theirs] {
            client.call(&["DEL", "k"]);
            client.call(&words);
        }
        let what = format!("{:?}", &words[..words.len().min(4)]);
        for asked in [&["OBJECT", "ENCODING", "k"][..], &["OBJECT", "FREQ", "k"], &["RANDOMKEY"]] {
            compare(&mut ours, &mut theirs, &command(asked), &what);
        }
    }
    let asked: &[&[&str]] = &[
        &["OBJECT", "ENCODING", "nosuch"],
        &["OBJECT", "REFCOUNT", "nosuch"],
        &["OBJECT", "IDLETIME", "nosuch"],
        &["OBJECT", "FREQ", "nosuch"],
        &["OBJECT", "ENCODING"],
        &["OBJECT", "nosuch"],
        &["OBJECT"],
        &["MEMORY", "USAGE", "nosuch"],
        &["MEMORY", "USAGE", "k", "SAMPLES"],
        &["MEMORY", "USAGE", "k", "SAMPLES", "x"],
        &["MEMORY", "USAGE", "k", "SAMPLES", "-1"],
        &["MEMORY", "USAGE", "k", "nosuch", "1"],
        &["MEMORY", "PURGE"],
        &["COMMAND", "GETKEYS", "SORT", "l", "BY", "x", "GET", "y", "STORE", "d"],
        &["COMMAND", "GETKEYS", "SORT", "l"],
        &["COMMAND", "GETKEYS", "GEORADIUS", "k", "1", "1", "1", "m", "STORE", "d"],
        &["COMMAND", "GETKEYS", "GEORADIUSBYMEMBER", "k", "m", "1", "m"],
    ];
    for words in asked {
        compare(&mut ours, &mut theirs, &command(words), &format!("{words:?}"));
    }
}

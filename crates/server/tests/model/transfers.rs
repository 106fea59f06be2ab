//! Keys from a real Redis, by RDB file, by AOF and as its replica; and back by an RDB file.

#![expect(clippy::result_large_err, reason = "an import ends once")]

use crate::common::{self, Client, Ours, Redis, Reply, command, table};
use crate::dumps::content;
use crate::{scanned, shown};
use everbyte_kv::Kv;
use everbyte_server::{
    ImportError, ImportFault, ImportOptions, ImportPhase, ImportSource, Imported, Kept, Options, RedisServer, export,
    import,
};
use everbyte_workload::Random;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// A time that does not come during a test.
const FAR: &str = "99999999999000";

/// Everything that commands tell of a key: type, content, deadline, consumer groups.
fn told(client: &mut Client, key: &[u8]) -> Vec<Reply> {
    let mut told = content(client, key);
    told.push(client.call(&[b"PEXPIRETIME", key]));
    if told[0] != Reply::Simple("stream".into()) {
        return told;
    }
    let about = client.call(&[&b"XINFO"[..], b"STREAM", key]).list();
    let facts = ["length", "last-generated-id", "max-deleted-entry-id", "entries-added"];
    told.extend(
        about
            .chunks(2)
            .filter(|pair| facts.iter().any(|fact| pair[0] == Reply::Bulk(fact.as_bytes().into())))
            .flatten()
            .cloned(),
    );
    let groups = client.call(&[&b"XINFO"[..], b"GROUPS", key]);
    for group in groups.clone().list() {
        let name = group.list()[1].clone().bytes();
        // Of a pending entry without the time since its delivery.
        for pending in client.call(&[&b"XPENDING"[..], key, &name, b"-", b"+", b"1000000"]).list() {
            let mut pending = pending.list();
            pending.remove(2);
            told.push(Reply::List(pending));
        }
        for consumer in client.call(&[&b"XINFO"[..], b"CONSUMERS", key, &name]).list() {
            told.extend(consumer.list().into_iter().take(4));
        }
    }
    told.push(groups);
    told
}

type State = Vec<(u8, Vec<u8>, Vec<Reply>)>;

/// All keys of all databases.
fn state(client: &mut Client) -> State {
    let mut state = Vec::new();
    for database in 0..16_u8 {
        client.call(&["SELECT", &database.to_string()]);
        for key in scanned(client, &[]) {
            let told = told(client, &key);
            state.push((database, key, told));
        }
    }
    client.call(&["SELECT", "0"]);
    state
}

/// The same keys with the same values, or the first ones that differ.
fn assert_same(ours: &State, theirs: &State, what: &str) {
    let names = |state: &State| Vec::from_iter(state.iter().map(|(database, key, _)| (*database, shown(key))));
    assert_eq!(names(ours), names(theirs), "{what}");
    for (one, other) in ours.iter().zip(theirs) {
        let (ours, theirs) = (&one.2, &other.2);
        let place =
            ours.iter().zip(theirs).position(|(one, other)| one != other).unwrap_or(ours.len().min(theirs.len()));
        let text = |told: &[Reply]| shown(format!("{:?}", told.get(place)).as_bytes());
        assert!(one == other, "{what}: {} of {}: {}\n{}", shown(&one.1), one.0, text(ours), text(theirs));
    }
}

/// Without the number of entries that groups have read, which commands do not carry.
fn without_reads(mut state: State) -> State {
    for reply in state.iter_mut().flat_map(|(.., told)| told) {
        let Reply::List(groups) = reply else { continue };
        for group in groups {
            if let Reply::List(facts) = group
                && facts.get(8) == Some(&Reply::Bulk(b"entries-read".into()))
            {
                facts.truncate(8);
            }
        }
    }
    state
}

/// Random commands that write, to several databases.
fn write(client: &mut Client, random: &mut Random, count: usize) {
    for _ in 0..count {
        let text = |random: &mut Random| -> String {
            match random.index(5) {
                0 => random.index(1 << 30).to_string(),
                1 => "x".repeat(random.index(300)),
                _ => format!("t{}", random.index(40)),
            }
        };
        if random.index(10) == 0 {
            client.call(&["SELECT", &[0, 0, 1, 9, 15][random.index(5)].to_string()]);
        }
        let (number, one, other) = (random.index(6), text(random), text(random));
        let key = |kind: &str| format!("{kind}{number}");
        let id = format!("{}-{}", 1 + random.index(50), random.index(3));
        let score = format!("{}", random.index(100) as f64 / 8.0);
        let words: &[&str] = match random.index(22) {
            0 => &["SET", &key("s"), &one],
            1 => &["SET", &key("s"), &one, "PXAT", FAR],
            2 => &["APPEND", &key("s"), &one],
            3 => &["RPUSH", &key("l"), &one, &other],
            4 => &["LPUSH", &key("l"), &one],
            5 => &["LPOP", &key("l"), "2"],
            6 => &["SADD", &key("set"), &one, &other],
            7 => &["SPOP", &key("set"), "2"],
            8 => &["HSET", &key("h"), &one, &other],
            9 => &["HDEL", &key("h"), &one],
            10 => &["ZADD", &key("z"), &score, &one],
            11 => &["ZINCRBY", &key("z"), "1.5", &one],
            12 => &["XADD", &key("x"), "*", &one, &other],
            13 => &["XGROUP", "CREATE", &key("x"), "g1", "0", "MKSTREAM"],
            14 => &["XGROUP", "CREATE", &key("x"), &one, "$", "MKSTREAM"],
            15 => &["XREADGROUP", "GROUP", "g1", &other, "COUNT", "3", "STREAMS", &key("x"), ">"],
            16 => &["XAUTOCLAIM", &key("x"), "g1", &one, "0", "0", "COUNT", "1"],
            17 => &["XTRIM", &key("x"), "MAXLEN", "30"],
            18 => &["PEXPIREAT", &key(["s", "l", "h", "x"][random.index(4)]), FAR],
            19 => &["RENAME", &key("h"), &format!("h{}", random.index(6))],
            20 => &["XDEL", &key("x"), &id],
            _ => &["INCR", &key("n")],
        };
        client.call(words);
    }
    client.call(&["SELECT", "0"]);
}

fn run(kv: &Kv, source: ImportSource, options: ImportOptions) -> Result<Imported, ImportError> {
    import(kv, &source, &options, &mut |_| true)
}

fn file(kv: &Kv, path: &Path) -> Result<Imported, ImportError> {
    run(kv, ImportSource::File(path.into()), ImportOptions { batch_size: 1000, ..ImportOptions::default() })
}

/// The keys of a table, as a server tells them.
fn state_of(kv: Kv, dir: tempfile::TempDir) -> State {
    state(&mut Ours::on(kv, dir, Options::default()).client())
}

fn target() -> (Kv, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (table(dir.path()), dir)
}

fn setting(client: &mut Client, name: &str, value: &str) {
    assert_eq!(client.call(&["CONFIG", "SET", name, value]), Reply::Simple("OK".into()), "{name}");
}

/// A big value of each type, in each of the forms that Redis keeps them.
fn write_big(client: &mut Client) {
    let mut bytes = Vec::new();
    for number in 0..1500 {
        let (text, id, score) = (format!("member-{number}"), format!("{number}-1"), (number / 7).to_string());
        for words in [
            &["RPUSH", "big-l", &text][..],
            &["SADD", "big-set", &text],
            &["HSET", "big-h", &text, &text],
            &["ZADD", "big-z", &score, &text],
            &["XADD", "big-x", &id, &text, "v"],
        ] {
            bytes.extend(command(words));
        }
    }
    bytes.extend(command(&["XGROUP", "CREATE", "big-x", "g", "0"]));
    for consumer in ["one", "two"] {
        bytes.extend(command(&["XREADGROUP", "GROUP", "g", consumer, "COUNT", "400", "STREAMS", "big-x", ">"]));
    }
    client.exchange(&bytes);
}

/// An RDB file of Redis arrives whole, and the RDB file that is made of it is the same to Redis.
#[test]
fn rdb_files_go_from_redis_to_us_and_back() {
    let seed = common::seed("rdb_files_go");
    let mut random = Random::new(seed);
    let redis = Redis::start();
    let mut theirs = redis.client();
    write(&mut theirs, &mut random, 1500);
    write_big(&mut theirs);
    theirs.call(&["SET", "gone", "x", "PXAT", "1"]);
    assert_eq!(theirs.call(&["SAVE"]), Reply::Simple("OK".into()));
    let expect = state(&mut theirs);
    let (kv, dir) = target();
    let done = file(&kv, &redis.dir.path().join("dump.rdb")).unwrap();
    assert_eq!(done.keys, expect.len() as u64, "seed {seed:#x}");

    let path = dir.path().join("ours.rdb");
    let exported = export(&kv, &mut std::fs::File::create(&path).unwrap(), &mut |_| {}).unwrap();
    assert_eq!((exported.keys, exported.bytes), (done.keys, path.metadata().unwrap().len()));
    let back = Redis::start_with(&[], Some(&path));
    assert_same(&state(&mut back.client()), &expect, &format!("seed {seed:#x}, back in Redis"));
    // A second import meets its own keys.
    let again = file(&kv, &path).unwrap_err();
    assert!(matches!((&again.fault, &again.kept), (ImportFault::Exists { .. }, Kept::Nothing)), "{again}");
    let replace = ImportOptions { replace: true, ..ImportOptions::default() };
    let replaced = run(&kv, ImportSource::File(path), replace).unwrap();
    assert_eq!(replaced.replaced, done.keys);
    assert_same(&state_of(kv, dir), &expect, &format!("seed {seed:#x}"));
}

/// The files of an AOF: several with a manifest, one with a snapshot before it, one of commands.
#[test]
fn aofs_arrive_as_redis_loads_them() {
    let seed = common::seed("aofs_arrive");
    let mut random = Random::new(seed);
    let redis = Redis::start();
    let mut theirs = redis.client();
    write(&mut theirs, &mut random, 300);
    setting(&mut theirs, "appendonly", "yes");
    while common::figure(&mut theirs, "aof_rewrite_in_progress") + common::figure(&mut theirs, "aof_rewrite_scheduled")
        > 0
    {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    theirs.call(&["SET", "kept", "x", "PX", "30"]);
    theirs.call(&["PERSIST", "kept"]);
    theirs.call(&["SET", "gone", "x", "PX", "1"]);
    theirs.call(&["MULTI"]);
    theirs.call(&["SET", "m", "1"]);
    theirs.call(&["SWAPDB", "1", "2"]);
    theirs.call(&["EXEC"]);
    write(&mut theirs, &mut random, 500);
    write_big(&mut theirs);
    std::thread::sleep(std::time::Duration::from_millis(60));
    setting(&mut theirs, "appendfsync", "always");
    theirs.call(&["SET", "last", "1"]);
    let folder = redis.dir.path().join("appendonlydir");
    // Redis itself loads the files: commands do not carry the number of entries that a group has
    // read.
    let expect = state(&mut Redis::start_with(&["--appendonly", "yes"], Some(&folder)).client());
    assert!(expect.iter().any(|(_, key, _)| key == b"kept") && !expect.iter().any(|(_, key, _)| key == b"gone"));
    let (kv, dir) = target();
    let done = file(&kv, &folder).unwrap();
    assert!(done.commands > 3000 && done.cut.is_none(), "{done:?}");
    assert_same(&state_of(kv, dir), &expect, &format!("seed {seed:#x}"));

    // One file, as Redis 6 wrote it, with its end cut off in the middle of a command, then of a
    // transaction.
    let mut names: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let part = |end: &str| names.iter().find(|name| name.to_string_lossy().ends_with(end)).unwrap();
    let (base, rest) = (std::fs::read(part("base.rdb")).unwrap(), std::fs::read(part("incr.aof")).unwrap());
    let whole = [base, rest].concat();
    let half = b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$4\r\nlast\r\n$1\r\n2\r\n";
    for cut in [&b""[..], b"*3\r\n$3\r\nSET\r\n$4\r\nla", half] {
        let (kv, dir) = target();
        let path = dir.path().join("appendonly.aof");
        std::fs::write(&path, [&whole[..], cut].concat()).unwrap();
        let done = file(&kv, &path).unwrap();
        assert_eq!(done.cut, (!cut.is_empty()).then_some((whole.len() as u64, cut.len() as u64)));
        assert_same(&state_of(kv, dir), &expect, &format!("seed {seed:#x}, cut {}", cut.len()));
    }
    // In the middle of the file it is damage, and nothing is imported.
    let (kv, dir) = target();
    let path = dir.path().join("appendonly.aof");
    std::fs::write(&path, [&whole[..whole.len() - 9], b"*3\r\n$3\r\nSET\r\n"].concat()).unwrap();
    let fault = file(&kv, &path).unwrap_err();
    assert!(matches!(fault.fault, ImportFault::Damaged { offset, .. } if offset > 1000), "{fault}");
    assert_eq!(state_of(kv, dir), State::new());
}

/// A running Redis is followed while clients write to it: snapshots of both kinds, a password.
#[test]
fn a_running_redis_is_followed() {
    let seed = common::seed("a_running_redis");
    for diskless in ["yes", "no"] {
        let redis = Redis::start();
        let mut theirs = redis.client();
        let mut random = Random::new(seed);
        setting(&mut theirs, "repl-diskless-sync", diskless);
        setting(&mut theirs, "repl-diskless-sync-delay", "0");
        write(&mut theirs, &mut random, 500);
        write_big(&mut theirs);
        setting(&mut theirs, "requirepass", "secret");
        let server = RedisServer { address: redis.address.to_string(), user: None, password: None };
        let (kv, dir) = target();
        let once = ImportOptions { once: true, batch_size: 1000, ..ImportOptions::default() };
        let refused = run(&kv, ImportSource::Server(server.clone()), once.clone()).unwrap_err();
        assert!(matches!(refused.fault, ImportFault::Answer { .. }), "{refused}");
        let server = ImportSource::Server(RedisServer { password: Some("secret".into()), ..server });
        // Once, while nothing is written.
        let done = run(&kv, server.clone(), once).unwrap();
        assert!(done.keys > 20 && done.offset.is_some(), "{done:?}");
        let expect = state(&mut theirs);
        let taken = run(&kv, server.clone(), ImportOptions::default()).unwrap_err();
        assert!(matches!((&taken.fault, &taken.kept), (ImportFault::NotEmpty, Kept::Nothing)), "{taken}");
        assert_same(&state_of(kv, dir), &expect, &format!("seed {seed:#x}, diskless {diskless}"));

        // Followed while a client writes, through an end of the connection, until a last key.
        let (kv, dir) = target();
        let ended = AtomicBool::new(false);
        let expect = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut client = redis.client();
                client.call(&["AUTH", "secret"]);
                let mut random = Random::new(seed ^ 1);
                for round in 0..6 {
                    write(&mut client, &mut random, 150);
                    client.call(&["MULTI"]);
                    client.call(&["INCR", "n1"]);
                    client.call(&["INCR", "n2"]);
                    client.call(&["EXEC"]);
                    if round == 3 {
                        client.call(&["CLIENT", "KILL", "TYPE", "replica"]);
                    }
                    std::thread::sleep(std::time::Duration::from_millis(150));
                }
                let expect = state(&mut client);
                let offset = common::figure(&mut client, "master_repl_offset");
                ended.store(true, Ordering::Release);
                (expect, offset)
            });
            let mut done = None;
            let imported = import(&kv, &server, &ImportOptions::default(), &mut |state| {
                if done.is_none() && ended.load(Ordering::Acquire) {
                    done = Some(std::time::Instant::now());
                }
                // All that was written has arrived a second later.
                !(state.phase == ImportPhase::Following && done.is_some_and(|done| done.elapsed().as_secs() >= 2))
            });
            let (expect, offset) = writer.join().unwrap();
            let imported = imported.unwrap();
            assert!(imported.offset.unwrap() >= offset && imported.commands > 300, "{imported:?}, {offset}");
            expect
        });
        let (ours, expect) = (without_reads(state_of(kv, dir)), without_reads(expect));
        assert_same(&ours, &expect, &format!("seed {seed:#x}, diskless {diskless}, followed"));
    }
}

/// A file with changed or missing bytes is refused, with its offset, and leaves the store as it
/// was; or the change does not matter.
#[test]
fn damaged_files_leave_the_store_as_it_was() {
    let seed = common::seed("damaged_files_leave");
    let mut random = Random::new(seed);
    let redis = Redis::start();
    let mut theirs = redis.client();
    write(&mut theirs, &mut random, 400);
    theirs.call(&["SAVE"]);
    let good = std::fs::read(redis.dir.path().join("dump.rdb")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let kv = table(dir.path());
    let path = dir.path().join("odd.rdb");
    {
        let us = Ours::on(kv.clone(), tempfile::tempdir().unwrap(), Options::default());
        us.client().call(&["SET", "mine", "1"]);
        us.client().call(&["HSET", "own", "f", "v"]);
    }
    let mut refused = 0;
    for round in 0..60 {
        let mut bytes = good.clone();
        match round % 3 {
            0 => bytes.truncate(random.index(good.len())),
            1 => {
                let place = random.index(good.len());
                bytes[place] ^= 1 + random.index(255) as u8;
            }
            _ => bytes.extend_from_slice(b"more"),
        }
        std::fs::write(&path, &bytes).unwrap();
        let fault = file(&kv, &path).expect_err("a checksum covers all bytes");
        assert!(matches!(fault.kept, Kept::Nothing), "{fault}");
        if let ImportFault::Damaged { offset, .. } = fault.fault {
            assert!(offset <= bytes.len() as u64);
            refused += 1;
        }
    }
    assert!(refused > 40, "{refused}");
    let left = state_of(kv, dir);
    let keys: Vec<&[u8]> = left.iter().map(|(_, key, _)| &key[..]).collect();
    assert_eq!(keys, [&b"mine"[..], b"own"], "seed {seed:#x}");
}

/// A server of ours whose directory of backups is there, in a directory of its own.
fn saving() -> (Ours, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Ours::with(Options { backups: Some(dir.path().into()), ..Options::default() }), dir)
}

fn wait_for_save(client: &mut Client) {
    while common::figure(client, "rdb_bgsave_in_progress") != 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// SAVE and BGSAVE write all that was written before them, in a pipeline and in a transaction, too.
#[test]
fn saves_are_files_that_redis_loads() {
    let seed = common::seed("saves_are_files");
    let (us, dir) = saving();
    let mut ours = us.client();
    write(&mut ours, &mut Random::new(seed), 400);
    let path = dir.path().join("dump.rdb");
    let before = ours.call(&["LASTSAVE"]);
    let started = Reply::Simple("Background saving started".into());
    let rounds: [(&[&str], Reply); 3] = [
        (&["SET last one", "SAVE"], Reply::Simple("OK".into())),
        (&["SET last two", "BGSAVE"], started.clone()),
        (&["MULTI", "SET last three", "BGSAVE SCHEDULE", "EXEC"], Reply::Simple("Background saving scheduled".into())),
    ];
    for (lines, said) in rounds {
        let _ = std::fs::remove_file(&path);
        ours.send(lines.iter().flat_map(|line| [line.as_bytes(), b"\r\n"].concat()).collect::<Vec<u8>>().as_slice());
        let mut replies: Vec<Reply> = lines.iter().map(|_| ours.reply()).collect();
        let last = match replies.pop().unwrap() {
            Reply::List(mut list) => list.pop().unwrap(),
            other => other,
        };
        assert_eq!(last, said);
        wait_for_save(&mut ours);
        let expect = state(&mut ours);
        let redis = Redis::start_with(&[], Some(&path));
        assert_same(&state(&mut redis.client()), &expect, &format!("seed {seed:#x}, {lines:?}"));
    }
    assert_eq!(common::figure(&mut ours, "rdb_saves"), 3);
    assert!(ours.call(&["LASTSAVE"]) >= before);
    assert_eq!(ours.call(&["CONFIG", "SET", "dbfilename", "other.rdb"]), Reply::Simple("OK".into()));
    assert!(matches!(ours.call(&["CONFIG", "SET", "dbfilename", "../other.rdb"]), Reply::Error(_)));
    assert_eq!(ours.call(&["SAVE"]), Reply::Simple("OK".into()));
    assert!(dir.path().join("other.rdb").exists());
    assert!(matches!(Ours::start().client().call(&["BGSAVE"]), Reply::Error(_)));
}

/// A save that finds no directory is an error that says so, and the file before stays.
#[test]
fn a_save_that_fails_leaves_the_file_before() {
    let (us, dir) = saving();
    let mut ours = us.client();
    ours.call(&["SET", "k", &"v".repeat(300_000)]);
    ours.call(&["SAVE"]);
    let path = dir.path().join("dump.rdb");
    let (good, away) = (std::fs::read(&path).unwrap(), dir.path().with_extension("away"));
    for words in [&["SAVE"][..], &["BGSAVE"]] {
        std::fs::rename(dir.path(), &away).unwrap();
        let said = ours.call(words);
        wait_for_save(&mut ours);
        std::fs::rename(&away, dir.path()).unwrap();
        if let Reply::Error(text) = &said {
            assert!(text.contains("dump.rdb"), "{text}");
        }
        assert_eq!(matches!(said, Reply::Error(_)), words == ["SAVE"]);
        assert_eq!(std::fs::read(&path).unwrap(), good);
        let info = String::from_utf8(ours.call(&["INFO", "persistence"]).bytes()).unwrap();
        assert!(info.contains("rdb_last_bgsave_status:err") && info.contains("dump.rdb"), "{info}");
    }
    assert_eq!(ours.call(&["SAVE"]), Reply::Simple("OK".into()));
    assert!(
        String::from_utf8(ours.call(&["INFO", "persistence"]).bytes()).unwrap().contains("rdb_last_bgsave_status:ok")
    );
}

//! `maxmemory` and its policies: refusals, evictions, and clients that hear of them.

use super::{START, Turns};
use crate::{EvictionPolicy, Options};

const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";

/// A server whose data may take so many bytes.
fn bounded(data_max: u64, eviction_policy: EvictionPolicy) -> Turns {
    Turns::with(Options { data_max, eviction_policy, ..Options::default() })
}

/// A figure of INFO.
fn figure(turns: &mut Turns, name: &str) -> u64 {
    let text = turns.ask(2, &["INFO"]);
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
}

/// USED-1: the sum follows every kind of change, and equals that of a count from the beginning.
#[test]
fn the_bytes_of_the_data_are_counted_exactly() {
    let mut turns = bounded(1 << 40, EvictionPolicy::NoEviction);
    assert_eq!(figure(&mut turns, "used_memory_dataset"), 0);
    turns.ask(0, &["SET k four", "SET k fourfour", "SET gone x", "DEL gone"]);
    assert_eq!(figure(&mut turns, "used_memory_dataset"), 1 + 8 + 16);
    turns.ask(
        0,
        &["PEXPIREAT k 9000000000000", "RPUSH l a b c d", "LPOP l", "ZADD z 1 a 2 b", "HSET h f v", "HSET h f longer"],
    );
    turns.ask(0, &["SELECT 3", "SADD s a b c", "SET t text", "XADD x 1-1 f v", "MOVE t 0", "COPY s s2", "SWAPDB 3 4"]);
    turns.ask(
        0,
        &[
            "SELECT 0",
            "SET p 1",
            "RENAME p q",
            "SETRANGE big 70000 x",
            "GETDEL q",
            "DELRANGE a b",
            "SUNIONSTORE h l nosuch",
        ],
    );
    turns.ask(1, &["MULTI", "SET a 1", "SETRANGE fit 3900000 x", "EXEC"]);
    turns.ask(1, &["EVAL \"redis.call('SET','w','1') redis.call('SETRANGE','w',3900000,'x')\" 0"]);
    let kept = figure(&mut turns, "used_memory_dataset");
    turns.ask(0, &["CONFIG SET maxmemory 0"]);
    assert_eq!(figure(&mut turns, "used_memory_dataset"), 0);
    turns.ask(0, &["CONFIG SET maxmemory 1000000000"]);
    turns.ask(0, &["PING"]);
    assert_eq!(figure(&mut turns, "used_memory_dataset"), kept);
    turns.ask(0, &["FLUSHDB"]);
    assert!(figure(&mut turns, "used_memory_dataset") < kept);
    turns.ask(0, &["FLUSHALL"]);
    assert_eq!(figure(&mut turns, "used_memory_dataset"), 0);
}

/// Entries are counted some at a time, while others write.
#[test]
fn counting_goes_on_beside_writes() {
    let mut turns = Turns::new();
    for batch in 0..10 {
        let lines = (0..1000).map(|key| format!("SET k{} {key}", batch * 1000 + key)).collect::<Vec<_>>();
        turns.ask(0, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    }
    turns.ask(0, &["CONFIG SET maxmemory 100mb"]);
    turns.ask(0, &["DEL k1 k9998", "SET k9999 changed", "SET k1111 changed", "SET a first", "SET z last"]);
    let early = figure(&mut turns, "used_memory_dataset");
    (0..4).for_each(|_| drop(turns.ask(0, &["PING"])));
    let counted = figure(&mut turns, "used_memory_dataset");
    assert!(early < counted);
    turns.ask(0, &["CONFIG SET maxmemory 0"]);
    turns.ask(0, &["CONFIG SET maxmemory 100mb"]);
    (0..4).for_each(|_| drop(turns.ask(0, &["PING"])));
    assert_eq!(figure(&mut turns, "used_memory_dataset"), counted);
}

#[test]
fn without_eviction_commands_that_need_space_are_refused() {
    let mut turns = bounded(100, EvictionPolicy::NoEviction);
    assert_eq!(
        turns.ask(0, &["SETRANGE k 200 x", "SET l 1", "GET l", "LPUSH q 1"]),
        [":201\r\n", OOM, "$-1\r\n", OOM].concat()
    );
    // A transaction is refused as it is queued, and a script at its first write that needs space.
    assert_eq!(
        turns.ask(0, &["MULTI", "GET k", "EXEC"]),
        ["+OK\r\n", OOM, "-EXECABORT Transaction discarded because of previous errors.\r\n"].concat()
    );
    let script =
        turns.ask(0, &["EVAL \"return redis.call('STRLEN','k')\" 0", "EVAL \"return redis.call('SET','l','1')\" 0"]);
    assert!(script.starts_with(":201\r\n-OOM command not allowed"), "{script}");
    let script = turns.ask(0, &["EVAL \"redis.call('DEL','nosuch') return redis.call('SET','l','1')\" 0"]);
    assert_eq!(script, "+OK\r\n");
    let flagged = |flags: &str| format!("EVAL \"#!lua{flags}\\nreturn redis.call('SET','m','1')\" 0");
    let script = turns.ask(0, &[&flagged(""), &flagged(" flags=allow-oom")]);
    assert_eq!(script, format!("{OOM}+OK\r\n"));
    // A transaction that was queued before.
    turns.ask(0, &["DEL k l m", "MULTI", "SET k 1"]);
    turns.ask(1, &["SETRANGE other 200 x"]);
    assert_eq!(turns.ask(0, &["EXEC"]), format!("-EXECABORT Transaction discarded because of: {}", &OOM[1..]));
    // A client that waits is given its element: it was admitted before.
    turns.ask(1, &["DEL other"]);
    assert_eq!(turns.ask(0, &["BLMOVE from to LEFT LEFT 0"]), "");
    let replies = turns.at(0, &[(1, &["MULTI", "RPUSH from e", "SETRANGE other 200 x", "EXEC"])]);
    assert_eq!(replies[0], "$1\r\ne\r\n");
    assert_eq!(turns.ask(1, &["CONFIG SET maxmemory 0", "SET l 1"]), "+OK\r\n+OK\r\n");
}

/// The key whose deadline comes first goes, of all databases; then there is none.
#[test]
fn volatile_ttl_follows_the_deadlines() {
    let mut turns = bounded(500, EvictionPolicy::VolatileTtl);
    turns.ask(0, &["SET stays 1", "CONFIG SET notify-keyspace-events KEA"]);
    turns.ask(1, &["PSUBSCRIBE __keyevent@*__:evicted"]);
    for (key, at) in [("c", 30_000), ("a", 10_000), ("d", 40_000), ("b", 20_000)] {
        turns.ask(0, &[&format!("SET {key} v PXAT {}", START + at)]);
    }
    turns.ask(0, &["SELECT 2", "RPUSH list x y z", &format!("PEXPIREAT list {}", START + 15_000)]);
    let mut gone = String::new();
    for number in 0..40 {
        let replies = turns.at(0, &[(0, &[&format!("SET n{number} 0123456789")])]);
        for key in replies[1].split("\r\n").filter(|word| ["a", "b", "c", "d", "list"].contains(word)) {
            gone += &format!("{key} ");
        }
        if replies[0] == OOM {
            break;
        }
        assert_eq!(replies[0], "+OK\r\n");
    }
    assert_eq!(gone, "a list b c d ");
    assert_eq!(
        turns.ask(0, &["SET more 1", "GET n0", "SELECT 0", "EXISTS stays a b c d"]),
        format!("{OOM}$10\r\n0123456789\r\n+OK\r\n:1\r\n")
    );
    assert_eq!(figure(&mut turns, "evicted_keys"), 5);
    assert!(figure(&mut turns, "used_memory_dataset") >= 400);
}

/// Keys that are read stay, and others go; clients that only read evict nothing.
#[test]
fn keys_in_use_outlive_others() {
    for (policy, volatile) in [
        (EvictionPolicy::AllKeysLru, false),
        (EvictionPolicy::AllKeysLfu, false),
        (EvictionPolicy::VolatileLru, true),
        (EvictionPolicy::VolatileLfu, true),
    ] {
        let mut turns = bounded(20_000, policy);
        let ttl = if volatile { " EX 100000" } else { "" };
        let mut lines = (0..200).map(|key| format!("SET k{key} 0123456789{ttl}")).collect::<Vec<_>>();
        turns.ask(0, &lines.iter().map(String::as_str).collect::<Vec<_>>());
        for time in 1..20 {
            lines = (0..20).map(|key| format!("GET k{}", key * 10)).collect();
            turns.at(time * 1000, &[(0, &lines.iter().map(String::as_str).collect::<Vec<_>>())]);
        }
        // Fewer keys have to go than are not in use.
        let count = if volatile { 170 } else { 580 };
        lines = (0..count).map(|key| format!("SET n{key} 0123456789{ttl}")).collect();
        for (step, some) in lines.chunks(10).enumerate() {
            let some = some.iter().map(String::as_str).collect::<Vec<_>>();
            let replies = turns.at(20_000 + step as u64 * 10, &[(0, &some)]);
            assert_eq!(replies[0], "+OK\r\n".repeat(10), "{policy:?}");
        }
        let used = (0..20).map(|key| format!("k{}", key * 10)).collect::<Vec<_>>().join(" ");
        let kept = turns.at(30_000, &[(0, &[&format!("EXISTS {used}")])]).swap_remove(0);
        let kept: u32 = kept.trim().trim_start_matches(':').parse().unwrap();
        assert!(kept >= 16, "{policy:?}: {kept} of 20 keys in use are there");
        assert!(figure(&mut turns, "used_memory_dataset") <= 20_100);
    }
}

#[test]
fn object_tells_idle_times_and_frequencies_under_their_policies() {
    let mut turns = bounded(1 << 30, EvictionPolicy::AllKeysLru);
    turns.ask(0, &["SET k v"]);
    let idle = turns.at(5_400, &[(0, &["TTL k", "OBJECT IDLETIME k", "GET k", "OBJECT IDLETIME k", "OBJECT FREQ k"])]);
    assert!(
        idle[0].starts_with(":-1\r\n:5\r\n$1\r\nv\r\n:0\r\n-ERR An LFU maxmemory policy is not selected"),
        "{idle:?}"
    );
    turns.at(5_400, &[(0, &["CONFIG SET maxmemory-policy allkeys-lfu"])]);
    let often = turns.at(5_500, &[(0, &["SET l v", "OBJECT FREQ l", "GET l", "OBJECT FREQ l", "OBJECT IDLETIME l"])]);
    assert!(
        often[0].starts_with("+OK\r\n:5\r\n$1\r\nv\r\n:6\r\n-ERR An LFU maxmemory policy is selected"),
        "{often:?}"
    );
}

/// An eviction dooms transactions that watch, tells trackers, ends XREADGROUP, and is one with the
/// command that needed the room.
#[test]
fn clients_hear_of_evictions() {
    let mut turns = bounded(700, EvictionPolicy::VolatileTtl);
    turns.ask(0, &[&format!("SET first v PXAT {}", START + 10_000), "WATCH first"]);
    turns.ask(1, &["HELLO 3", "CLIENT TRACKING ON", "GET first"]);
    let replies = turns.at(0, &[(2, &["SETRANGE big 700 x", "SET small 1"])]);
    assert_eq!(replies[2], format!(":701\r\n{OOM}"));
    assert!(replies[1].contains("invalidate"), "{replies:?}");
    turns.ask(2, &["DEL big"]);
    assert_eq!(turns.ask(0, &["MULTI", "SET other 1", "EXEC"]), "+OK\r\n+QUEUED\r\n*-1\r\n");
    turns.ask(2, &["XGROUP CREATE x g $ MKSTREAM", &format!("PEXPIREAT x {}", START + 20_000)]);
    assert_eq!(turns.ask(0, &["XREADGROUP GROUP g c BLOCK 0 STREAMS x >"]), "");
    let replies = turns.at(0, &[(2, &["SETRANGE big 700 x", "SET small 1"])]);
    assert!(replies[0].starts_with("-UNBLOCKED") || replies[0].starts_with("-NOGROUP"), "{replies:?}");
}

/// Under an evicting policy a full store takes what comes, without a bound of its own.
#[test]
fn a_full_store_evicts_instead_of_refusing() {
    for policy in EvictionPolicy::ALL.into_iter().filter(|policy| policy.evicts()) {
        let mut turns = bounded(0, policy);
        let mut refused = 0;
        for number in 0..400 {
            let line = format!("SETRANGE k{number} 30000 x");
            let mut reply = turns.ask(0, &[&line, &format!("PEXPIRE k{number} 100000000")]);
            for _ in 0..100 {
                if reply.ends_with(":1\r\n") || reply.contains('-') {
                    break;
                }
                reply += &turns.ask(0, &[]);
            }
            refused += u32::from(reply != ":30001\r\n:1\r\n");
        }
        assert!(refused <= 2, "{policy:?}: {refused} commands were refused");
        assert!(figure(&mut turns, "evicted_keys") > 200, "{policy:?}");
    }
}

/// A bound that was lowered is kept without a write, and a pause of clients lets keys stay.
#[test]
fn a_lower_bound_is_reached_in_steps() {
    let mut turns = bounded(1 << 30, EvictionPolicy::AllKeysRandom);
    for batch in 0..4 {
        let lines = (0..500).map(|key| format!("SET k{batch}-{key} 0123456789")).collect::<Vec<_>>();
        turns.ask(0, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    }
    turns.ask(0, &["CONFIG SET maxmemory 10000", "CLIENT PAUSE 1000 WRITE"]);
    turns.ask(0, &["PING"]);
    assert_eq!(figure(&mut turns, "evicted_keys"), 0);
    turns.ask(0, &["CLIENT UNPAUSE"]);
    turns.ask(0, &["PING"]);
    let some = figure(&mut turns, "evicted_keys");
    assert!((1..1000).contains(&some), "{some}");
    (0..10).for_each(|_| drop(turns.ask(0, &["PING"])));
    assert!(figure(&mut turns, "used_memory_dataset") <= 10_000);
}

/// PUSH-3: the sweep of an iteration fails and takes its evictions along. No client is told of
/// them, and those of later iterations are told as they have happened.
#[test]
fn evictions_that_a_failed_sweep_takes_back_are_not_told() {
    let mut turns = bounded(1 << 30, EvictionPolicy::AllKeysRandom);
    for batch in 0..4 {
        let lines = (0..500).map(|key| format!("SET k{batch}-{key} 0123456789")).collect::<Vec<_>>();
        turns.ask(0, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let expire = |key: &str, time: u64| format!("SET {key} v PXAT {}", START + time);
    turns.ask(0, &["CONFIG SET notify-keyspace-events KEA", &expire("first", 1000), &expire("second", 1001)]);
    turns.ask(1, &["PSUBSCRIBE __keyevent@*__:evicted"]);
    let used = figure(&mut turns, "used_memory_dataset");
    turns.ask(0, &[&format!("CONFIG SET maxmemory {}", used - 100)]);
    // The record of the second key is damaged: the first one's removal goes with the failure.
    let records = turns.kv.open_table("server/keys").unwrap();
    let all = records.range::<[u8]>(..).unwrap().map(|pair| pair.unwrap().0);
    let key = all.into_iter().find(|key| key.ends_with(b"second")).unwrap();
    records.put(&key, b"damaged").unwrap();
    let mut told = 0;
    for turn in 0..10 {
        let heard = turns.at(1100 + 200 * turn, &[]).swap_remove(1);
        for key in heard.split("\r\n").filter(|word| word.starts_with('k')) {
            assert_eq!(turns.kv.get(key.as_bytes()).unwrap(), None, "turn {turn}: {key} was told as evicted");
            told += 1;
        }
    }
    assert!(told > 0, "they are evicted in the end");
}

/// Keys without a deadline stay under the volatile policies, also those that lost their deadlines
/// since they were sampled.
#[test]
fn keys_without_a_deadline_stay_under_volatile_policies() {
    use EvictionPolicy::{VolatileLfu, VolatileLru, VolatileRandom, VolatileTtl};
    for policy in [VolatileLru, VolatileLfu, VolatileRandom, VolatileTtl] {
        let mut turns = bounded(1 << 30, policy);
        let lines = |form: &dyn Fn(usize) -> String| (0..30).map(form).collect::<Vec<_>>();
        let mut ask = |lines: Vec<String>| turns.ask(0, &lines.iter().map(String::as_str).collect::<Vec<_>>());
        ask(lines(&|number| format!("SET d{number} v PXAT 9000000000000")));
        ask(lines(&|number| format!("SET k{number} v")));
        let persist = lines(&|number| format!("PERSIST d{number}"));
        let all = format!("EXISTS {}", lines(&|number| format!("k{number}")).join(" "));
        let used = figure(&mut turns, "used_memory_dataset");
        turns.ask(0, &[&format!("CONFIG SET maxmemory {}", used - 1)]);
        turns.ask(0, &["PING"]);
        let evicted = figure(&mut turns, "evicted_keys");
        assert!((1..30).contains(&evicted), "{policy:?}: {evicted}");
        turns.ask(0, &["CONFIG SET maxmemory 1gb"]);
        turns.ask(0, &persist.iter().map(String::as_str).collect::<Vec<_>>());
        turns.ask(0, &["CONFIG SET maxmemory 1"]);
        turns.ask(0, &["PING"]);
        assert_eq!(turns.ask(0, &[&all]), ":30\r\n", "{policy:?}");
        assert_eq!(figure(&mut turns, "evicted_keys"), evicted, "{policy:?}");
    }
}

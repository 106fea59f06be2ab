//! Transactions of several clients, and the same to a real Redis.

use crate::common::{self, Ours, Redis, command};
use crate::{compare, shown};
use everbyte_workload::Random;

/// A client's next request; keys are few, so that clients meet.
fn draw(random: &mut Random) -> Vec<&'static str> {
    let lines = [
        "MULTI",
        "MULTI",
        "EXEC",
        "EXEC",
        "EXEC",
        "DISCARD",
        "WATCH a",
        "WATCH b c",
        "WATCH a b",
        "WATCH nosuch",
        "WATCH",
        "UNWATCH",
        "RESET",
        "EXEC now",
        "MULTI now",
        "SET a 1",
        "SET b x",
        "SET c 5 XX",
        "SET a 2 NX",
        "INCR a",
        "INCR b",
        "APPEND c y",
        "GET a",
        "GET b",
        "MGET a b c",
        "DEL a",
        "DEL b c",
        "RENAME a b",
        "COPY a c REPLACE",
        "MOVE b 1",
        "EXPIRE c 100",
        "EXPIRE c -1",
        "PERSIST c",
        "SETRANGE a 3 z",
        "BITFIELD a SET u8 0 49",
        "BITFIELD a SET u8 0 50",
        "BITFIELD b GET u8 0 INCRBY u4 0 0",
        "BITFIELD c OVERFLOW FAIL INCRBY u8 0 200",
        "SETRANGE nosuch 0 ",
        "GETEX c PERSIST",
        "SELECT 1",
        "SELECT 0",
        "SELECT 99",
        "FLUSHDB",
        "FLUSHALL",
        "DBSIZE",
        "GET",
        "nosuch a",
        "SHUTDOWN NOSAVE",
        "PING",
        "HELLO 9",
    ];
    loop {
        let words: Vec<&str> = lines[random.index(lines.len())].split(' ').collect();
        // Flushes, and what spoils a transaction, only now and then.
        let odd = ["WATCH", "GET", "EXEC now", "MULTI now", "nosuch a", "SHUTDOWN NOSAVE", "HELLO 9"];
        let rare = words[0].starts_with("FLUSH") || odd.contains(&&*words.join(" "));
        if !rare || random.index(6) == 0 {
            return words;
        }
    }
}

/// Three clients, each with transactions and watches of its own, command by command: every reply is
/// that of Redis.
#[test]
fn transactions_of_several_clients_are_answered_as_by_redis() {
    let seed = common::seed("transactions_of_several_clients");
    let mut random = Random::new(seed);
    let (us, redis) = (Ours::start(), Redis::start());
    let mut pairs: Vec<_> = (0..3).map(|_| (us.client(), redis.client(), false)).collect();
    let (mut nulls, mut lists, mut aborted) = (0, 0, 0);
    let mut story = Vec::new();
    for step in 0..20_000 {
        let who = random.index(pairs.len());
        if random.index(400) == 0 {
            // A client that leaves unwatches.
            pairs[who] = (us.client(), redis.client(), false);
        }
        let words = draw(&mut random);
        let (ours, theirs, inside) = &mut pairs[who];
        if words[0] == "SHUTDOWN" && !*inside {
            continue;
        }
        story.push(format!("{who}: {}", words.join(" ")));
        let (our, their) = (ours.call(&words), theirs.call(&words));
        assert_eq!(our, their, "seed {seed:#x}, step {step}: {:#?}", &story[story.len().saturating_sub(40)..]);
        match (&words[..], &our) {
            (["MULTI"], common::Reply::Simple(_)) => *inside = true,
            (["EXEC", ..] | ["DISCARD"] | ["RESET"], _) => *inside = false,
            _ => {}
        }
        if words == ["EXEC"] {
            match our {
                common::Reply::Null => nulls += 1,
                common::Reply::List(_) => lists += 1,
                _ => aborted += 1,
            }
        }
    }
    assert!(nulls > 50 && lists > 150 && aborted > 200, "{nulls} {lists} {aborted}");
}

/// Whole transactions at once, in both protocols: the same bytes.
#[test]
fn transactions_are_answered_byte_for_byte() {
    let seed = common::seed("transactions_are_answered");
    let mut random = Random::new(seed);
    let (us, redis) = (Ours::start(), Redis::start());
    for protocol in ["2", "3"] {
        let (mut ours, mut theirs) = (us.client(), redis.client());
        for client in [&mut ours, &mut theirs] {
            client.call(&["HELLO", protocol]);
            client.call(&["FLUSHALL"]);
        }
        for _ in 0..400 {
            let mut bytes = Vec::new();
            for _ in 0..random.index(12) {
                let words = draw(&mut random);
                if !["SHUTDOWN", "RESET"].contains(&words[0]) {
                    bytes.extend(command(&words));
                }
            }
            bytes.extend(command(&["EXEC"]));
            let what = format!("seed {seed:#x}: {}", shown(&bytes));
            compare(&mut ours, &mut theirs, &bytes, &what);
        }
    }
}

/// A command about a key of any type that changes it ends the transaction of its watcher, and one
/// that changes nothing does not.
#[test]
fn changes_of_hashes_lists_sets_and_deadlines_are_watched() {
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    for line in [
        "HSET h f 1 g x",
        "HSET h f 1",
        "HSETNX h f 2",
        "HINCRBY h f 1",
        "HINCRBY h f 0",
        "HINCRBY h g 1",
        "HDEL h nosuch",
        "HDEL h g",
        "HGETALL h",
        "HSCAN h 0",
        "RPUSH l a b c d",
        "LPUSHX nosuch a",
        "LSET l 0 a",
        "LSET l 9 a",
        "LINSERT l BEFORE a x",
        "LINSERT l BEFORE nosuch x",
        "LREM l 0 nosuch",
        "LREM l 0 x",
        "LTRIM l 0 -1",
        "LTRIM l 0 2",
        "LTRIM nosuch 0 1",
        "LMOVE l l LEFT RIGHT",
        "LPOP l 0",
        "LPOP l",
        "SADD s a b c",
        "SADD s a",
        "SREM s nosuch",
        "SREM s c",
        "SMOVE s t nosuch",
        "SMOVE s s a",
        "SMOVE t s a",
        "SPOP s 0",
        "SREM s b",
        "SPOP s",
        "SADD t a b",
        "SINTERSTORE s t t",
        "SINTERSTORE nosuch s gone",
        "SDIFFSTORE s t t",
        "ZADD z 1 a 2 b",
        "ZADD z GT 5 a",
        "ZADD z LT 1 a",
        "ZADD z CH 1 a",
        "ZADD z XX CH 3 a",
        "ZADD z GT INCR 1 a",
        "XADD x 1-1 f v",
        "XADD nosuch NOMKSTREAM 1-1 f v",
        "XDEL x 9-9",
        "XTRIM x MAXLEN 5",
        "XDEL x 1-1",
        "PERSIST h",
        "EXPIRE h 1000",
        "EXPIRE h 1 GT",
        "PERSIST h",
        "EXPIRE l 1000",
        "EXPIRE nosuch 1000",
        "GETEX v EX 1000",
        "SET v 1",
        "SET v 2 NX",
        "SET v 1",
        "GETEX v",
        "GETEX v PERSIST",
        "GETEX v EX 1000",
        "GETEX v PERSIST",
        "GETEX v PXAT 1",
        "SET v 1",
        "SETRANGE v 0 ",
        "SETBIT v 7 1",
        "SETBIT v 7 1",
        "SETBIT v 900 0",
        "BITFIELD gone SET u8 0 0",
        "BITFIELD gone OVERFLOW FAIL SET u8 0 256",
        "SORT l STORE nosuch",
        "SORT gone ALPHA STORE nosuch",
        "SORT nosuch STORE l",
        "COPY z t",
        "COPY z t REPLACE",
        "COPY z t REPLACE DB 1",
        "COPY z gone DB 1",
        "MOVE z 1",
        "RENAME h nosuch",
        "RENAMENX nosuch x",
        "EVAL return(redis.call('HSET','h','f','1')) 0",
        "EVAL return(redis.call('HGET','h','f')) 0",
        "SELECT 1",
        "COPY t gone REPLACE",
        "COPY z gone DB 0 REPLACE",
        "COPY z s DB 0",
        "COPY z s DB 0 REPLACE",
        "DEL h l t z v",
        "SELECT 0",
        "FLUSHDB",
        "FLUSHDB",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let [multi, ping, exec] = ["MULTI", "PING", "EXEC"].map(|word| command(&[word]));
        let watch = command(&["WATCH", "h", "l", "s", "t", "z", "x", "v", "gone"]);
        let bytes = [watch, command(&words), multi, ping, exec].concat();
        compare(&mut ours, &mut theirs, &bytes, line);
    }
}

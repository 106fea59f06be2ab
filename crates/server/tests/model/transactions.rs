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

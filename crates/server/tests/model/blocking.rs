//! Clients that wait for elements, and the same to a real Redis.

use crate::common::{self, Client, Ours, Redis, Reply, command, figure};
use crate::shown;
use everbyte_workload::Random;

/// A client that may wait, on one side.
struct Side {
    client: Client,
    id: i64,
}

impl Side {
    fn new(mut client: Client, protocol: &str) -> Side {
        client.call(&["HELLO", protocol]);
        let Reply::Integer(id) = client.call(&["CLIENT", "ID"]) else { panic!("an id") };
        Side { client, id }
    }

    fn has_bytes(&self) -> bool {
        self.client.stream.set_nonblocking(true).unwrap();
        let found = self.client.stream.peek(&mut [0]);
        self.client.stream.set_nonblocking(false).unwrap();
        matches!(found, Ok(1))
    }

    /// Sends a command that may wait; whether it does. `waiting` clients did before.
    fn begins_to_wait(&mut self, control: &mut Client, waiting: u64, bytes: &[u8]) -> bool {
        self.client.send(bytes);
        loop {
            if figure(control, "blocked_clients") > waiting {
                return true;
            }
            if self.has_bytes() {
                return false;
            }
        }
    }
}

/// Commands of clients that do not wait. `%` is a number that grows.
const LISTS: &[&str] = &[
    "RPUSH a 1",
    "RPUSH b 2 3",
    "LPUSH a 4 5",
    "LPUSH c 6",
    "RPUSH a 7 8 9",
    "SET a x",
    "SET b x",
    "DEL a",
    "DEL b c",
    "RPUSH z 1 2\nRENAME z a",
    "RPUSH z 3\nRENAME z b",
    "RPUSH z 4\nCOPY z a",
    "RPUSH z 4\nCOPY z c REPLACE",
    "SELECT 1\nRPUSH a 10\nMOVE a 0\nSELECT 0",
    "SELECT 1\nRPUSH a 10 11\nCOPY a b DB 0\nSELECT 0",
    "SELECT 1\nRPUSH b 12\nSELECT 0",
    "MULTI\nRPUSH b 13\nRPUSH a 14\nEXEC",
    "MULTI\nRPUSH a 15\nDEL a\nEXEC",
    "MULTI\nRPUSH a 16\nLPOP a\nRPUSH b 17\nEXEC",
    "MULTI\nRPUSH c 18 19\nSET k v\nEXEC",
    "MULTI\nBLPOP a 0\nBLMOVE a b LEFT LEFT 0\nBLMPOP 0 2 b c RIGHT\nBRPOPLPUSH c c 0\nEXEC",
    "LMOVE a b LEFT RIGHT",
    "RPOPLPUSH b c",
    "LRANGE a 0 -1",
    "LRANGE b 0 -1",
    "LLEN c",
    "FLUSHDB",
    "EXPIRE a -1",
    "LPOP a",
    "LTRIM b 1 0",
];

const WAIT_FOR_LISTS: &[&str] = &[
    "BLPOP a 0",
    "BLPOP a b 0",
    "BRPOP b a c 0",
    "BLPOP c c 0",
    "BLMOVE a b LEFT RIGHT 0",
    "BLMOVE b c RIGHT LEFT 0",
    "BLMOVE a a LEFT RIGHT 0",
    "BRPOPLPUSH c a 0",
    "BLMPOP 0 2 a b LEFT",
    "BLMPOP 0 3 c b a RIGHT COUNT 2",
    "BLPOP b a x",
    "BLPOP a -1",
    "BLMPOP 0 0 a LEFT",
    "BLMPOP 0 1 a UP",
    "BLMPOP 0 1 a LEFT COUNT 0",
    "BLMOVE a b UP LEFT 0",
    "BLMOVE a b LEFT LEFT 1e400",
];

/// Redis does not wake clients for a set that is stored over a value of another type.
const SORTED_SETS: &[&str] = &[
    "ZADD a 1 x",
    "ZADD a 3 y 2 z",
    "ZADD b 1.5 x -1 y",
    "ZADD c 2 x 2 y 2 z",
    "SET a x",
    "RPUSH b 1",
    "DEL a",
    "DEL b c",
    "ZADD z 1 a 2 b\nRENAME z a",
    "ZADD z 3 c\nRENAME z b",
    "ZADD z 4 d\nCOPY z c REPLACE",
    "DEL a\nZUNIONSTORE a 2 b c",
    "DEL b\nZINTERSTORE b 2 a c",
    "DEL b\nZRANGESTORE b a 0 1",
    "SELECT 1\nZADD a 10 e\nMOVE a 0\nSELECT 0",
    "MULTI\nZADD b 1 f\nZADD a 2 g\nEXEC",
    "MULTI\nZADD a 1 f\nDEL a\nEXEC",
    "MULTI\nZADD a 1 f 2 g\nZPOPMIN a\nZADD b 1 h\nEXEC",
    "MULTI\nBZPOPMIN a 0\nBZPOPMAX b c 0\nBZMPOP 0 2 a b MAX COUNT 2\nEXEC",
    "ZINCRBY a 1 x",
    "ZREM b x y",
    "ZPOPMIN a",
    "ZPOPMAX c 2",
    "ZRANGE a 0 -1 WITHSCORES",
    "ZCARD b",
    "FLUSHDB",
];

const WAIT_FOR_SORTED_SETS: &[&str] = &[
    "BZPOPMIN a 0",
    "BZPOPMIN a b 0",
    "BZPOPMAX b a c 0",
    "BZPOPMAX c c 0",
    "BZMPOP 0 2 a b MIN",
    "BZMPOP 0 3 c b a MAX COUNT 2",
    "BZMPOP 0 1 c MIN COUNT 10",
    "BLPOP b 0",
    "BZPOPMIN b a x",
    "BZPOPMIN a -1",
    "BZMPOP 0 0 a MIN",
    "BZMPOP 0 1 a LEFT",
    "BZMPOP 0 1 a MIN COUNT 0",
];

/// Streams whose newest entries stay: Redis answers some clients with no entries otherwise.
const STREAMS: &[&str] = &[
    "XADD a %-0 f v",
    "XADD a %-0 f v\nXADD a %-1 g w",
    "XADD b %-0 f v",
    "XADD b %-0 f v\nXADD a %-0 f w",
    "XADD c %-0 f v",
    "MULTI\nXADD a %-0 f v\nXADD b %-0 f v\nXADD a %-1 f v\nEXEC",
    "MULTI\nXADD a %-0 f v\nDEL a\nEXEC",
    "MULTI\nDEL a\nXADD a %-0 f v\nXGROUP CREATE a g 0\nEXEC",
    "MULTI\nDEL a\nRPUSH a x\nEXEC",
    "MULTI\nXREAD BLOCK 0 STREAMS a $\nXREADGROUP GROUP g u BLOCK 0 STREAMS a >\nEXEC",
    "XGROUP CREATE a g $ MKSTREAM",
    "XGROUP CREATE a g 0 MKSTREAM",
    "XGROUP CREATE b g $ MKSTREAM",
    "XGROUP CREATE b h 0 MKSTREAM",
    "XGROUP CREATE c g 0 MKSTREAM",
    "XGROUP DESTROY a g",
    "XGROUP DESTROY b g",
    "XGROUP DESTROY b h",
    "XGROUP CREATECONSUMER a g u",
    "XGROUP DELCONSUMER a g u",
    "DEL a",
    "DEL b c",
    "SET a x",
    "RENAME a b",
    "RENAME b a",
    "COPY a b REPLACE",
    "COPY b c",
    "SELECT 1\nXADD a %-0 f v\nMOVE a 0\nSELECT 0",
    "MOVE b 1",
    "XTRIM a MAXLEN 1",
    "XREADGROUP GROUP g u COUNT 1 STREAMS a >",
    "XREADGROUP GROUP g u STREAMS a b 0 >",
    "XACK a g 1-0 2-0",
    "XPENDING a g",
    "XINFO GROUPS a",
    "XINFO GROUPS b",
    "XRANGE a - + COUNT 3",
    "PEXPIRE a -1",
    "EXPIRE b 100",
    "FLUSHDB",
    "FLUSHALL",
];

const WAIT_FOR_STREAMS: &[&str] = &[
    "XREAD BLOCK 0 STREAMS a $",
    "XREAD BLOCK 0 STREAMS b $",
    "XREAD BLOCK 0 STREAMS a b $ $",
    "XREAD COUNT 1 BLOCK 0 STREAMS c 0",
    "XREAD BLOCK 0 STREAMS a a $ 0",
    "XREAD BLOCK 0 STREAMS b 9999999-0",
    "XREADGROUP GROUP g u BLOCK 0 STREAMS a >",
    "XREADGROUP GROUP g v BLOCK 0 STREAMS a >",
    "XREADGROUP GROUP g u BLOCK 0 NOACK STREAMS b >",
    "XREADGROUP GROUP h w COUNT 1 BLOCK 0 STREAMS b >",
    "XREADGROUP GROUP g u BLOCK 0 STREAMS a b > >",
    "XREADGROUP GROUP g u BLOCK 0 STREAMS c >",
    "XREADGROUP GROUP g u BLOCK 0 STREAMS a 0",
    "BLPOP a 0",
    "XREAD BLOCK -1 STREAMS a $",
    "XREAD BLOCK x STREAMS a $",
];

fn bytes_of(lines: &str) -> Vec<u8> {
    lines.split('\n').flat_map(|line| command(&line.split(' ').collect::<Vec<_>>())).collect()
}

/// Five clients that push and wait, in both protocols: the same clients wait, for as long, and get
/// the same elements, as of Redis.
fn compare_waiting(name: &str, steps: usize, lines: &[&str], waiting_lines: &[&str]) {
    let seed = common::seed(name);
    let mut random = Random::new(seed);
    let (us, redis) = (Ours::start(), Redis::start());
    let mut controls = [us.client(), redis.client()];
    let make = |number: usize| {
        let protocol = ["2", "3"][number % 2];
        [Side::new(us.client(), protocol), Side::new(redis.client(), protocol)]
    };
    let mut clients = Vec::from_iter((0..5).map(make));
    let mut waits = [false; 5];
    let mut story: Vec<String> = Vec::new();
    let (mut begun, mut served, mut left) = (0, 0, 0);
    for step in 0..steps {
        let waiting = waits.iter().filter(|waits| **waits).count() as u64;
        let told =
            |story: &[String]| format!("seed {seed:#x}, step {step}: {:#?}", &story[story.len().saturating_sub(40)..]);
        let who = random.index(5);
        if waits[who] {
            let lines = match random.index(8) {
                0 => {
                    // It leaves while it waits.
                    story.push(format!("{who}: leaves"));
                    clients[who] = make(who);
                    waits[who] = false;
                    left += 1;
                    for control in &mut controls {
                        while figure(control, "blocked_clients") != waiting - 1 {}
                    }
                    continue;
                }
                1 => " TIMEOUT",
                2 => " ERROR",
                _ => continue,
            };
            story.push(format!("{who}: is unblocked{lines}"));
            for (control, side) in controls.iter_mut().zip(&clients[who]) {
                let reply = control.exchange(&bytes_of(&format!("CLIENT UNBLOCK {}{lines}", side.id))).0;
                assert_eq!(reply, b":1\r\n");
            }
        } else if random.index(2) == 0 {
            let line = waiting_lines[random.index(waiting_lines.len())].to_string();
            story.push(format!("{who}: {line}"));
            let [ours, theirs] = &mut clients[who];
            let [our_control, their_control] = &mut controls;
            let bytes = bytes_of(&line);
            let our = ours.begins_to_wait(our_control, waiting, &bytes);
            let their = theirs.begins_to_wait(their_control, waiting, &bytes);
            assert_eq!(our, their, "waits: {}", told(&story));
            waits[who] = our;
            begun += usize::from(our);
        } else {
            let lines = lines[random.index(lines.len())].replace('%', &(step + 1).to_string());
            story.push(format!("{who}: {}", lines.replace('\n', "; ")));
            let [our, their] = [0, 1].map(|side| clients[who][side].client.exchange(&bytes_of(&lines)).0);
            assert!(our == their, "{}\n{}\n{}", told(&story), shown(&our), shown(&their));
        }
        // Every reply has come once a later command is answered.
        let [our, their] = [0, 1].map(|side| figure(&mut controls[side], "blocked_clients"));
        assert_eq!(our, their, "{}", told(&story));
        for (number, pair) in clients.iter_mut().enumerate() {
            let [our, their] = [0, 1].map(|side| pair[side].has_bytes());
            assert_eq!(our, their, "client {number} has a reply: {}", told(&story));
            if our {
                let [our, their] = [0, 1].map(|side| pair[side].client.exchange(b"").0);
                assert!(our == their, "client {number}: {}\n{}\n{}", told(&story), shown(&our), shown(&their));
                served += usize::from(std::mem::take(&mut waits[number]));
            }
        }
        let counted = waits.iter().filter(|waits| **waits).count() as u64;
        assert_eq!(counted, our, "{}", told(&story));
    }
    assert!(
        begun * 100 > steps * 6 && served * 100 > steps * 4 && left > 10,
        "{begun} began to wait, {served} were served, {left} left"
    );
}

#[test]
fn waiting_clients_get_what_they_would_get_of_redis() {
    compare_waiting("waiting_clients_get", 5000, LISTS, WAIT_FOR_LISTS);
}

#[test]
fn clients_that_wait_for_members_get_what_they_would_get_of_redis() {
    compare_waiting("clients_that_wait_for_members", 4000, SORTED_SETS, WAIT_FOR_SORTED_SETS);
}

#[test]
fn clients_that_wait_for_entries_get_what_they_would_get_of_redis() {
    compare_waiting("clients_that_wait_for_entries", 6000, STREAMS, WAIT_FOR_STREAMS);
}

/// Errors and timeouts: the same bytes.
#[test]
fn commands_that_wait_are_answered_byte_for_byte() {
    let (us, redis) = (Ours::start(), Redis::start());
    for protocol in ["2", "3"] {
        let (mut ours, mut theirs) = (us.client(), redis.client());
        for client in [&mut ours, &mut theirs] {
            client.call(&["HELLO", protocol]);
            client.call(&["FLUSHALL"]);
        }
        for line in [
            "BLPOP a",
            "BLPOP a nan",
            "BLPOP a inf",
            "BLPOP a 1e18",
            "BLPOP a +0.001",
            "BLPOP a .001",
            "BLPOP a 1e-3",
            "BLPOP a b 0.01",
            "BLMOVE a b LEFT RIGHT 0.01",
            "BRPOPLPUSH a b 0.01",
            "BLMPOP 0.01 1 a LEFT",
            "SET s 1",
            "BLPOP s 1",
            "BLPOP nosuch s 1",
            "BLMOVE s a LEFT LEFT 1",
            "BLMPOP 1 1 s LEFT",
            "BLMPOP 1 0 s LEFT",
            "BLMPOP x 1 s LEFT",
            "BLMPOP 0.01 2 s LEFT",
            "BLMPOP 1 1 a UP",
            "BLMPOP 1 1 a LEFT COUNT 0",
            "BLMPOP 1 1 a LEFT COUNT 1 COUNT 2",
            "BLMPOP 1 1 a LEFT x",
            "BLMOVE a b UP LEFT 0",
            "BLMOVE a b LEFT LEFT x",
            "BLMPOP -1 1 a LEFT",
            "RPUSH l 1 2 3 4 5 6",
            "BLPOP nosuch l 0",
            "BRPOP l 0",
            "BLMOVE l m LEFT RIGHT 0",
            "BLMOVE l s LEFT RIGHT 0",
            "BRPOPLPUSH l m 0",
            "BLMPOP 0 2 x l LEFT COUNT 5",
            "CLIENT UNBLOCK 99999",
            "CLIENT UNBLOCK x",
            "CLIENT UNBLOCK 1 x",
            "CLIENT UNBLOCK",
            "COMMAND GETKEYS BLPOP a b 0",
            "COMMAND GETKEYS BLMPOP 0 2 a b LEFT",
            "BZPOPMIN a",
            "BZPOPMIN a nan",
            "BZPOPMAX a b 0.01",
            "BZMPOP 0.01 1 a MIN",
            "BZPOPMIN s 1",
            "BZMPOP 1 1 s MIN",
            "BZMPOP 1 1 a UP",
            "BZMPOP 1 1 a MIN COUNT 0",
            "BZMPOP -1 1 a MIN",
            "ZADD z 1 a 2.5 b 3 c 4 d 5 e",
            "BZPOPMIN nosuch z 0",
            "BZPOPMAX z 0",
            "BZMPOP 0 2 x z MAX COUNT 2",
            "BZMPOP 0 2 x z MIN COUNT 5",
            "XREAD BLOCK 10 STREAMS x $",
            "XREAD BLOCK 9223372036854775808 STREAMS x $",
            "XREAD BLOCK 10 COUNT 1 STREAMS x y 0 $",
            "XREAD BLOCK 10 STREAMS s $",
            "XGROUP CREATE x g $ MKSTREAM",
            "XREADGROUP GROUP g c BLOCK 10 STREAMS x >",
            "XREADGROUP GROUP g c BLOCK 10 STREAMS x y > >",
            "XREADGROUP GROUP g c BLOCK 10 STREAMS x 18446744073709551615-18446744073709551615",
            "XREADGROUP GROUP g c BLOCK 10 STREAMS x 0",
            "XINFO GROUPS x",
            "XINFO STREAM x",
            "COMMAND GETKEYS BZPOPMIN a b 0",
            "COMMAND GETKEYS BZMPOP 0 2 a b MIN",
            "COMMAND GETKEYS XREADGROUP GROUP g c COUNT 1 STREAMS a b 0 >",
        ] {
            crate::compare(&mut ours, &mut theirs, &bytes_of(line), line);
        }
    }
}

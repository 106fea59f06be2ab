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

fn draw(random: &mut Random) -> String {
    let lines = [
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
    lines[random.index(lines.len())].into()
}

fn draw_waiting(random: &mut Random) -> String {
    let lines = [
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
    lines[random.index(lines.len())].into()
}

fn bytes_of(lines: &str) -> Vec<u8> {
    lines.split('\n').flat_map(|line| command(&line.split(' ').collect::<Vec<_>>())).collect()
}

/// Five clients that push and wait, in both protocols: the same clients wait, for as long, and get
/// the same elements, as of Redis.
#[test]
fn waiting_clients_get_what_they_would_get_of_redis() {
    let seed = common::seed("waiting_clients_get");
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
    for step in 0..5000 {
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
            let line = draw_waiting(&mut random);
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
            let lines = draw(&mut random);
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
    assert!(begun > 300 && served > 200 && left > 10, "{begun} began to wait, {served} were served, {left} left");
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
        ] {
            crate::compare(&mut ours, &mut theirs, &bytes_of(line), line);
        }
    }
}

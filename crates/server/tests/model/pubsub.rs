//! Subscribers and publishers, and the same to a real Redis.

use crate::common::{self, Client, Ours, Redis, command};
use crate::shown;
use everbyte_workload::Random;

/// A client of ours and its twin of Redis.
struct Pair {
    ours: Client,
    theirs: Client,
}

impl Pair {
    fn new(us: &Ours, redis: &Redis, protocol: &str) -> Pair {
        let (mut ours, mut theirs) = (us.client(), redis.client());
        for client in [&mut ours, &mut theirs] {
            client.call(&["HELLO", protocol]);
        }
        Pair { ours, theirs }
    }

    /// Sends the same to both and returns everything that has come back. Subscribers may say PING.
    fn exchange(&mut self, bytes: &[u8]) -> [Vec<u8>; 2] {
        [&mut self.ours, &mut self.theirs].map(|client| client.exchange_by("PING", bytes).0)
    }
}

/// The lines of both answers, in any order: Redis lists names in the order of a hash.
fn sorted(bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    lines
}

fn draw(random: &mut Random, resp3: bool) -> String {
    let names = ["a", "b", "news.x", "news.y", ""];
    let patterns = ["news.*", "a", "?", "*", "[ab]", "news.[^x]"];
    let name = |random: &mut Random| names[random.index(4)];
    let pattern = |random: &mut Random| patterns[random.index(patterns.len())];
    match random.index(22) {
        0..3 => format!("SUBSCRIBE {} {}", name(random), name(random)),
        3 => format!("PSUBSCRIBE {}", pattern(random)),
        4 => format!("SSUBSCRIBE {}", name(random)),
        5 => format!("UNSUBSCRIBE {}", name(random)),
        6 => format!("PUNSUBSCRIBE {}", pattern(random)),
        7 => format!("SUNSUBSCRIBE {}", name(random)),
        8 => ["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"][random.index(3)].into(),
        9..14 => format!("PUBLISH {} m{}", name(random), random.index(100)),
        14 => format!("SPUBLISH {} m{}", name(random), random.index(100)),
        15 => format!("PUBSUB CHANNELS {}", pattern(random)),
        16 => format!("PUBSUB NUMSUB {} nosuch {}", name(random), name(random)),
        17 => ["PUBSUB NUMPAT", "PUBSUB SHARDCHANNELS", "PUBSUB SHARDNUMSUB a news.x", "PUBSUB CHANNELS a b"]
            [random.index(4)]
        .into(),
        18 => ["RESET", "PING", "PING text", "GET k", "SUBSCRIBE", "PUBLISH a", "PING a b"][random.index(7)].into(),
        // In RESP2 a subscriber could not want replies again.
        19 if resp3 => ["CLIENT REPLY OFF", "CLIENT REPLY ON", "CLIENT REPLY SKIP"][random.index(3)].into(),
        20 => format!("MULTI\nINCR n\nPUBLISH {} tx{}\nSET k v\nEXEC", name(random), random.index(100)),
        _ => format!(
            "MULTI\n{} {}\nPUBLISH a mine\nUNSUBSCRIBE {}\nEXEC",
            ["SUBSCRIBE", "SSUBSCRIBE"][random.index(2)],
            name(random),
            name(random)
        ),
    }
}

/// Random programs of four clients, of both protocols: each of them hears what it would hear of
/// Redis.
#[test]
fn subscribers_hear_what_they_would_hear_of_redis() {
    let seed = common::seed("subscribers_hear");
    let mut random = Random::new(seed);
    let (us, redis) = (Ours::start(), Redis::start());
    let protocols = ["2", "2", "3", "3"];
    let mut pairs = Vec::from(protocols.map(|protocol| Pair::new(&us, &redis, protocol)));
    let (mut story, mut pushes) = (Vec::new(), 0);
    for _ in 0..6000 {
        let who = random.index(pairs.len());
        let line = draw(&mut random, protocols[who] == "3");
        if random.index(150) == 0 {
            // A client that leaves subscribes to nothing any more. Both servers see it leave.
            pairs[who] = Pair::new(&us, &redis, protocols[who]);
            while common::figure(&mut us.client(), "connected_clients") > 5 {}
            while common::figure(&mut redis.client(), "connected_clients") > 5 {}
            story.push(format!("{who}: leaves"));
        }
        let mut bytes: Vec<u8> =
            line.split('\n').flat_map(|line| command(&line.split(' ').collect::<Vec<_>>())).collect();
        if line.starts_with("CLIENT REPLY") {
            // For one command only: a test that hears nothing shows nothing.
            bytes.extend(command(&["SUBSCRIBE", "b"]));
            bytes.extend(command(&["PUBLISH", "b", "unheard"]));
            bytes.extend(command(&["CLIENT", "REPLY", "ON"]));
        }
        story.push(format!("{who}: {}", line.replace('\n', "; ")));
        let told = |story: &[String]| format!("seed {seed:#x}: {:#?}", &story[story.len().saturating_sub(30)..]);
        let [our, their] = pairs[who].exchange(&bytes);
        assert!(
            sorted(&our) == sorted(&their),
            "{}\n  ours:  {}\n  Redis: {}",
            told(&story),
            shown(&our),
            shown(&their)
        );
        for (number, pair) in pairs.iter_mut().enumerate().filter(|(number, _)| *number != who) {
            let [our, their] = pair.exchange(b"");
            pushes += usize::from(!our.is_empty());
            let same = sorted(&our) == sorted(&their);
            assert!(same, "{} heard: {}\n{}\n{}", number, told(&story), shown(&our), shown(&their));
        }
    }
    assert!(pushes > 1000, "{pushes}");
}

/// Fixed programs: the same bytes, in the same order.
#[test]
fn pushes_and_replies_come_in_the_order_of_redis() {
    let (us, redis) = (Ours::start(), Redis::start());
    for protocol in ["2", "3"] {
        for program in [
            "SUBSCRIBE a b a\nUNSUBSCRIBE a\nUNSUBSCRIBE\nUNSUBSCRIBE\nUNSUBSCRIBE x y",
            "SUBSCRIBE a\nPSUBSCRIBE p*\nSSUBSCRIBE s\nPING\nPING x\nGET a\nECHO x\nSUNSUBSCRIBE\nPUNSUBSCRIBE\n\
             UNSUBSCRIBE\nPING",
            "SUBSCRIBE a\nPUBLISH a hi\nPSUBSCRIBE a*\nPUBLISH a hi2\nUNSUBSCRIBE\nUNSUBSCRIBE z",
            "MULTI\nSUBSCRIBE a b\nPUBLISH a x\nEXEC\nMULTI\nnosuch\nEXEC\nget",
            "MULTI\nSSUBSCRIBE a\nPUBLISH a x\nEXEC\nSUNSUBSCRIBE",
            "PUBSUB\nPUBSUB CHANNELS\nPUBSUB CHANNELS a b\nPUBSUB shardchannels a b\nPUBSUB NUMSUB\nPUBSUB NUMPAT x\n\
             PUBSUB x\nPUBLISH a b c",
            "SSUBSCRIBE a\nGET x\nSUBSCRIBE a\nSUNSUBSCRIBE a\nUNSUBSCRIBE a\nGET x",
            "SUBSCRIBE a\nEVAL return(redis.call('PUBLISH','a','m')) 0\nMULTI\nEVAL return(redis.call('PUBLISH','a','m')) 0\n\
             EXEC\nEVAL redis.call('PUBLISH','a','m')return(redis.error_reply('ERR_x')) 0",
            "SUBSCRIBE a\nCONFIG GET x\nCLIENT\nnosuch\nSUBSCRIBE\nRESET\nGET a",
        ] {
            let mut pair = Pair::new(&us, &redis, protocol);
            let bytes: Vec<u8> =
                program.split('\n').flat_map(|line| command(&line.split(' ').collect::<Vec<_>>())).collect();
            let [our, their] = pair.exchange(&bytes);
            assert_eq!(shown(&our), shown(&their), "{program}");
        }
    }
}

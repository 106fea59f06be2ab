//! CLIENT TRACKING here and in a real Redis: random readers and writers, in every mode.

use crate::common::{self, Client, Ours, Redis, Reply, command};
use crate::{compare, shown};
use everbyte_workload::Random;

fn is_push(reply: &Reply) -> bool {
    let words: [&[u8]; 2] = [b"invalidate", b"tracking-redir-broken"];
    matches!(reply, Reply::List(list) if words.iter().any(|word| list.first() == Some(&Reply::Bulk(word.to_vec()))))
}

/// Sends a request; the replies up to the end of the exchange, and the pushes among them, sorted:
/// the order of keys that one command changes is not promised. Numbers of clients are left out.
fn talk(client: &mut Client, bytes: &[u8], end: &str) -> (Vec<Reply>, Vec<Reply>) {
    // CLIENT commands leave CLIENT CACHING as it is.
    client.send(&[bytes, &command(&["CLIENT", "SETNAME", end]), &command(&["CLIENT", "GETNAME"])].concat());
    let (mut replies, mut pushes) = (Vec::new(), Vec::new());
    loop {
        let reply = client.reply();
        if reply == Reply::Bulk(end.as_bytes().to_vec()) {
            pushes.sort();
            return (replies, pushes);
        }
        match reply {
            Reply::List(mut list) if is_push(&Reply::List(list.clone())) => {
                list.retain(|part| !matches!(part, Reply::Integer(_)));
                pushes.push(Reply::List(list));
            }
            other => replies.push(other),
        }
    }
}

const MODES: [&str; 16] = [
    "ON",
    "ON NOLOOP",
    "ON BCAST",
    "ON BCAST PREFIX a",
    "ON BCAST PREFIX a PREFIX b NOLOOP",
    "ON OPTIN",
    "ON OPTOUT",
    "ON OPTIN OPTOUT",
    "ON PREFIX a",
    "ON BCAST PREFIX a PREFIX ab",
    "ON REDIRECT 999999",
    "ON REDIRECT x",
    "OFF",
    "OFF",
    "ON nosuch",
    "maybe",
];

const REQUESTS: [&str; 30] = [
    "GET a",
    "GET b",
    "MGET a b c",
    "STRLEN a",
    "EXISTS a b",
    "TTL a",
    "LLEN l",
    "LRANGE l 0 -1",
    "SET a 1",
    "SET b 1 EX 1000",
    "MSET a 1 c 2",
    "DEL a",
    "DEL a b c",
    "APPEND a x",
    "RPUSH l 1",
    "LPOP l",
    "RENAME a b",
    "EXPIRE a 100",
    "PERSIST a",
    "COPY a c REPLACE",
    "FLUSHDB",
    "FLUSHALL",
    "CLIENT CACHING YES",
    "CLIENT CACHING NO",
    "CLIENT TRACKINGINFO",
    "CLIENT GETREDIR",
    "INCR a",
    "PING",
    "GETDEL a",
    "SET a 1 GET",
];

#[test]
fn clients_are_told_what_redis_would_tell_them() {
    let seed = common::seed("clients_are_told");
    let mut random = Random::new(seed);
    let (us, redis) = (Ours::start(), Redis::start());
    let connect = || -> [Vec<Client>; 2] {
        let of = |connect: &dyn Fn() -> Client| {
            let mut clients: Vec<Client> = (0..3).map(|_| connect()).collect();
            // The last one speaks RESP2.
            clients[..2].iter_mut().for_each(|client| drop(client.call(&["HELLO", "3"])));
            clients
        };
        [of(&|| us.client()), of(&|| redis.client())]
    };
    let mut sides = connect();
    let mut history = std::collections::VecDeque::new();
    for round in 0..4000 {
        let who = random.index(3);
        let words = match random.index(12) {
            0 => format!("CLIENT TRACKING {}", MODES[random.index(MODES.len())]),
            1 if random.index(60) == 0 => {
                sides = connect();
                continue;
            }
            _ => REQUESTS[random.index(REQUESTS.len())].to_string(),
        };
        let bytes = match random.index(6) {
            0 => [
                command(&["MULTI"]),
                command(&words.split(' ').collect::<Vec<_>>()),
                command(&["GET", "c"]),
                command(&["EXEC"]),
            ]
            .concat(),
            _ => command(&words.split(' ').collect::<Vec<_>>()),
        };
        let what = format!("seed {seed:#x}, round {round}, client {who}: {}", shown(&bytes));
        let end = format!("end-{round}");
        let seen = sides.each_mut().map(|clients| {
            let own = talk(&mut clients[who], &bytes, &end);
            let others = (0..3).filter(|other| *other != who).collect::<Vec<_>>();
            (own, others.into_iter().map(|other| talk(&mut clients[other], b"", &end)).collect::<Vec<_>>())
        });
        history.push_back(format!("{who}: {}", shown(&bytes)));
        history.drain(..history.len().saturating_sub(40));
        assert_eq!(seen[0], seen[1], "{what}\n{}", history.make_contiguous().join("\n"));
    }
}

fn id(client: &mut Client) -> String {
    match client.call(&["CLIENT", "ID"]) {
        Reply::Integer(id) => id.to_string(),
        other => panic!("{other:?}"),
    }
}

/// A client of RESP2 is told by another one, which subscribes; then that one leaves.
#[test]
fn redirected_clients_are_told_as_by_redis() {
    let (us, redis) = (Ours::start(), Redis::start());
    let seen = [[us.client(), us.client(), us.client()], [redis.client(), redis.client(), redis.client()]].map(
        |[mut reader, mut ear, mut writer]| {
            let (target, mut seen) = (id(&mut ear), Vec::new());
            seen.push(reader.call(&["CLIENT", "TRACKING", "ON", "REDIRECT", &target]));
            reader.call(&["GET", "k"]);
            writer.call(&["SET", "k", "not heard"]);
            seen.push(ear.call(&["PING"]));
            seen.push(ear.call(&["SUBSCRIBE", "__redis__:invalidate"]));
            for words in [&["SET", "k", "1"][..], &["FLUSHALL"], &["SET", "k", "2"]] {
                reader.call(&["GET", "k"]);
                writer.call(words);
                seen.push(ear.reply());
            }
            reader.call(&["GET", "k"]);
            seen.push(reader.call(&["SET", "k", "own"]));
            seen.push(ear.reply());
            seen.push(reader.call(&["HELLO", "3"]).list().remove(0));
            drop(ear);
            while writer.call(&["CLIENT", "KILL", "ID", &target]) != Reply::Integer(0) {}
            reader.call(&["GET", "k"]);
            writer.call(&["SET", "k", "3"]);
            seen.push(reader.reply().list().remove(0));
            seen.push(reader.call(&["CLIENT", "TRACKINGINFO"]).list().remove(1));
            seen.push(reader.call(&["RESET"]));
            seen.push(reader.call(&["CLIENT", "GETREDIR"]));
            seen
        },
    );
    assert_eq!(seen[0], seen[1]);
}

/// Requests of CLIENT that make no sense, and their kin that do.
#[test]
fn client_commands_are_answered_byte_for_byte() {
    let (us, redis) = (Ours::start(), Redis::start());
    let [mut ours, mut theirs] = [us.client(), redis.client()];
    for line in [
        "CLIENT KILL",
        "CLIENT KILL 1.2.3.4:5",
        "CLIENT KILL ID",
        "CLIENT KILL ID x",
        "CLIENT KILL ID 0",
        "CLIENT KILL ID 999999",
        "CLIENT KILL TYPE x",
        "CLIENT KILL TYPE pubsub",
        "CLIENT KILL TYPE replica",
        "CLIENT KILL USER nobody",
        "CLIENT KILL USER default",
        "CLIENT KILL SKIPME x",
        "CLIENT KILL ADDR x LADDR y",
        "CLIENT KILL nosuch x",
        "CLIENT KILL ID 1 TYPE",
        "CLIENT PAUSE",
        "CLIENT PAUSE x",
        "CLIENT PAUSE -1",
        "CLIENT PAUSE 0",
        "CLIENT PAUSE 1 nosuch",
        "CLIENT PAUSE 0 WRITE",
        "CLIENT PAUSE 1 ALL x",
        "CLIENT UNPAUSE",
        "CLIENT UNPAUSE x",
        "CLIENT GETREDIR",
        "CLIENT TRACKINGINFO",
        "CLIENT TRACKING",
        "CLIENT TRACKING x",
        "CLIENT CACHING YES",
        "CLIENT TRACKING ON REDIRECT",
        "CLIENT TRACKING ON BCAST OPTIN",
        "CLIENT TRACKING ON BCAST PREFIX",
        "CLIENT TRACKING ON BCAST",
        "CLIENT TRACKING ON",
        "CLIENT TRACKING ON BCAST PREFIX x",
        "CLIENT TRACKINGINFO",
        "CLIENT TRACKING OFF",
        "CLIENT TRACKING OFF x",
        "CLIENT TRACKING ON OPTIN",
        "CLIENT TRACKING ON OPTOUT",
        "CLIENT CACHING NO",
        "CLIENT CACHING x",
        "CLIENT CACHING YES",
        "CLIENT TRACKINGINFO",
        "PING",
        "CLIENT TRACKINGINFO",
        "CLIENT NO-EVICT on",
        "CLIENT NO-EVICT x",
        "CLIENT REPLY x",
        "CLIENT UNBLOCK 1 x",
        "CLIENT UNBLOCK 999",
        "HELLO 3 nosuch",
        "CLIENT TRACKING OFF",
        "CLIENT TRACKING ON BCAST PREFIX a PREFIX b",
        "CLIENT TRACKING ON BCAST PREFIX c",
        "CLIENT TRACKINGINFO",
        "CLIENT TRACKING ON BCAST PREFIX bc",
        "CLIENT TRACKING ON BCAST PREFIX d PREFIX ee PREFIX f PREFIX e PREFIX dd",
        "CLIENT TRACKING ON BCAST PREFIX d PREFIX cc PREFIX bb",
        "RESET",
        "CLIENT TRACKING ON BCAST PREFIX prefix PREFIX x",
        "CLIENT TRACKINGINFO",
    ] {
        compare(&mut ours, &mut theirs, &command(&line.split(' ').collect::<Vec<_>>()), line);
    }
}

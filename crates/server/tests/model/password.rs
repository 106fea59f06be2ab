//! AUTH and HELLO of clients, and the same to a real Redis with the same password.

use crate::common::{self, Ours, Redis, Reply, command};
use crate::{compare, shown};
use everbyte_server::{Options, Password};
use everbyte_workload::Random;

fn both() -> (Ours, Redis) {
    let us = Ours::with(Options { password: Password::new("sesame"), ..Options::default() });
    let redis = Redis::start();
    assert_eq!(redis.client().call(&["CONFIG", "SET", "requirepass", "sesame"]), Reply::Simple("OK".into()));
    (us, redis)
}

/// Random requests of clients that know the password, or try others; whole connections at a time.
#[test]
fn passwords_are_asked_for_byte_for_byte() {
    let seed = common::seed("passwords_are_asked");
    let mut random = Random::new(seed);
    let (us, redis) = both();
    let lines = [
        "AUTH sesame",
        "AUTH default sesame",
        "AUTH sesam",
        "AUTH root sesame",
        "AUTH default open",
        "AUTH",
        "AUTH a b c",
        "RESET",
        "MULTI",
        "EXEC",
        "DISCARD",
        "PING",
        "SET a 1",
        "GET a",
        "GET",
        "nosuch a",
        "CONFIG nosuch",
        "CLIENT",
        "CONFIG GET requirepass",
        "CLIENT GETNAME",
        "HELLO 9",
        "HELLO x",
        "HELLO 3 AUTH default",
        "HELLO 3 AUTH default wrong SETNAME me",
        "HELLO 3 SETNAME me AUTH root sesame",
        "HELLO 3 SETNAME me nosuch",
        "QUIT",
        "POST",
        "CLIENT REPLY OFF",
        "CLIENT REPLY ON",
        "CLIENT REPLY SKIP",
    ];
    for _ in 0..1500 {
        let mut bytes = Vec::new();
        for _ in 0..1 + random.index(8) {
            let words: Vec<&str> = lines[random.index(lines.len())].split(' ').collect();
            bytes.extend(command(&words));
        }
        // The end of an exchange is known by an answer that a stranger would not get.
        bytes.extend(command(&["CLIENT", "REPLY", "ON"]));
        bytes.extend(command(&["AUTH", "sesame"]));
        bytes.extend(command(&["CLIENT", "REPLY", "ON"]));
        bytes.extend(command(&["DISCARD"]));
        let what = format!("seed {seed:#x}: {}", shown(&bytes));
        compare(&mut us.client(), &mut redis.client(), &bytes, &what);
    }
}

/// Protocol that is refused before the password, and taken after it.
#[test]
fn strangers_may_send_short_requests_only() {
    let (us, redis) = both();
    let large = command(&[&b"ECHO"[..], &[b'x'; 16385]]);
    let many = command(&["EXISTS"; 11]);
    let auth = command(&["AUTH", "sesame"]);
    for bytes in [
        b"*11\r\n".to_vec(),
        many.clone(),
        b"*1\r\n$16385\r\n".to_vec(),
        large.clone(),
        b"*10\r\n$-1\r\n".to_vec(),
        b"*3000000000\r\n".to_vec(),
        [&auth[..], &large, &many].concat(),
        [&auth[..], b"HELLO 3\r\nRESET\r\n", &many].concat(),
    ] {
        // As in all of these tests, the connection's end is part of the answer.
        let [ours, theirs] = [us.client(), redis.client()].map(|mut client| {
            let (seen, _) = client.exchange(&[&bytes[..], &auth].concat());
            let at = seen.windows(4).position(|part| part == b"id\r\n").unwrap_or(seen.len());
            let end = seen[at..].iter().position(|byte| *byte == b'm').map_or(seen.len(), |end| at + end);
            [&seen[..at], &seen[end..]].concat()
        });
        assert_eq!(shown(&ours), shown(&theirs), "{}", shown(&bytes[..bytes.len().min(100)]));
    }
}

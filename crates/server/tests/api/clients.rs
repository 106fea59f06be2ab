//! Clients that behave badly, clients that are many, clients that ask for much.

use crate::common::{Client, Ours, PATIENCE, Reply, command, figure};
use everbyte_server::{Error, Options, Server};
use everbyte_workload::Random;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the other side has closed: reads until the end, or until nothing comes.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut sink = [0; 65536];
    loop {
        match stream.read(&mut sink) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// Garbage ends its connection and no other; half a frame waits and costs nothing.
#[test]
fn garbage_and_half_frames_hurt_nobody_else() {
    let us = Ours::start();
    let mut good = us.client();
    let mut random = Random::new(crate::common::seed("garbage_and_half"));
    let mut half = us.client();
    half.send(b"*3\r\n$3\r\nSET\r\n$1\r\nh\r\n$5\r\nhal");
    let mut giant = us.client();
    giant.send(b"*2147483647\r\n$536870912\r\nx");
    for round in 0..200 {
        let bytes: Vec<u8> = (0..random.index(2000)).map(|_| random.next() as u8).collect();
        let mut bad = TcpStream::connect(us.address).unwrap();
        let _ = bad.write_all(&bytes);
        let _ = bad.write_all(b"\r\n*x\r\n");
        drop(bad);
        assert_eq!(good.call(&["SET", "round", &round.to_string()]), Reply::Simple("OK".into()));
    }
    half.send(b"f!\r\n");
    assert_eq!(half.reply(), Reply::Simple("OK".into()));
    assert_eq!(good.call(&["GET", "h"]), Reply::Bulk(b"half!".to_vec()));
    assert!(figure(&mut good, "mem_clients_normal") < 8 << 20, "declared lengths cost memory");
    assert!(figure(&mut good, "malformed_connections") > 0);
}

/// Requests of all clients together are bounded: the client that holds most is disconnected,
/// whichever client sends, and the others go on.
#[test]
fn the_client_that_holds_most_makes_room() {
    let us = Ours::with(Options { input_total_max: 16 << 20, ..Options::default() });
    let [mut small, mut middle, mut large] = std::array::from_fn(|_| us.client());
    let half = |size: usize| [&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$80000000\r\n"[..], &vec![b'v'; size]].concat();
    large.send(&half(10_000_000));
    wait_until("the large half has come", || figure(&mut small, "clients_input_bytes") >= 10_000_000);
    middle.send(&half(3_500_000));
    wait_until("the middle half has come", || figure(&mut small, "clients_input_bytes") >= 13_500_000);
    assert_eq!(figure(&mut small, "over_limit_connections"), 0);
    // It is not the one that goes above the limit that has to go.
    small.send(&[b"*2\r\n$4\r\nECHO\r\n$4000000\r\n", &vec![b'e'; 4_000_000][..], b"\r\n"].concat());
    assert_eq!(small.reply().bytes().len(), 4_000_000);
    assert!(is_closed(&mut large.stream));
    assert_eq!((figure(&mut small, "over_limit_connections"), figure(&mut small, "connected_clients")), (1, 2));
    assert!(figure(&mut small, "clients_input_memory") < 16 << 20);
    drop(middle);
    wait_until("the memory is given back", || figure(&mut small, "clients_input_memory") < 1 << 20);
}

/// A client that asks and never reads is no longer read, then disconnected; others are served all
/// the while.
#[test]
fn a_client_that_never_reads_is_stopped_then_dropped() {
    let options = Options { output_size_soft: 256 << 10, output_stall: Duration::from_secs(2), ..Options::default() };
    let us = Ours::with(options);
    let mut good = us.client();
    good.call(&["SET", "big", &"x".repeat(50_000)]);
    let mut deaf = TcpStream::connect(us.address).unwrap();
    deaf.set_nonblocking(true).unwrap();
    let request = command(&["GET", "big"]).repeat(1000);
    let mut sent = 0usize;
    let start = Instant::now();
    // It goes on asking for as long as the server takes requests.
    while start.elapsed() < Duration::from_millis(1500) {
        match deaf.write(&request) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(10))
            }
            Err(_) => break,
        }
    }
    assert!(sent > 0);
    let waiting = figure(&mut good, "clients_output_bytes");
    assert!(waiting <= (256 << 10) + 100_000, "{waiting} bytes wait for a client that does not read");
    wait_until("the deaf client is dropped", || figure(&mut good, "connected_clients") == 1);
    assert_eq!(figure(&mut good, "over_limit_connections"), 1);
    assert!(figure(&mut good, "back_pressure_pauses") > 0);
}

/// A slow reader gets everything, in order, through all the back-pressure.
#[test]
fn a_slow_reader_gets_every_byte() {
    let us = Ours::with(Options { output_size_soft: 64 << 10, ..Options::default() });
    let mut client = us.client();
    client.call(&["SET", "v", &"0123456789".repeat(3000)]);
    let mut reader = client.stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        for number in 0..1000 {
            client.send(&command(&["GET", "v"]));
            client.send(&command(&["ECHO", &number.to_string()]));
        }
        client
    });
    let mut expect = Vec::new();
    for number in 0..1000 {
        expect.extend_from_slice(b"$30000\r\n");
        expect.extend_from_slice("0123456789".repeat(3000).as_bytes());
        expect.extend_from_slice(format!("\r\n${}\r\n{number}\r\n", number.to_string().len()).as_bytes());
    }
    let mut got = vec![0; expect.len()];
    let mut at = 0;
    while at < got.len() {
        let end = (at + 70_000).min(got.len());
        at += reader.read(&mut got[at..end]).unwrap();
        if at % 5 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(got == expect, "replies differ");
    drop(writer.join().unwrap());
}

/// A reply above the limit is an error, not a disconnection, and not memory.
#[test]
fn a_reply_above_the_limit_is_refused() {
    let us = Ours::with(Options { output_size_max: 1 << 20, ..Options::default() });
    let mut client = us.client();
    for number in 0..30 {
        client.call(&["SET", &format!("k{number:02}"), &"x".repeat(50_000)]);
    }
    let over = |reply| matches!(reply, Reply::Error(text) if text.contains("output limit"));
    assert!(over(client.call(&["RANGE", "-", "+"])));
    let many: Vec<String> =
        ["MGET".to_string()].into_iter().chain((0..30).map(|number| format!("k{number:02}"))).collect();
    assert!(over(client.call(&many)));
    assert_eq!(client.call(&["RANGE", "-", "+", "LIMIT", "2"]).list().len(), 4);
    assert_eq!(client.call(&["PING"]), Reply::Simple("PONG".into()));
}

#[test]
fn a_thousand_connections_are_served() {
    let us = Ours::start();
    let mut clients: Vec<Client> = (0..1000).map(|_| us.client()).collect();
    for round in 0..3 {
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(&command(&["INCRBY", "sum", &number.to_string()]));
            client.send(&command(&["SET", &format!("own:{number}"), &round.to_string()]));
        }
        for client in &mut clients {
            assert!(matches!(client.reply(), Reply::Integer(_)));
            assert_eq!(client.reply(), Reply::Simple("OK".into()));
        }
    }
    assert_eq!(clients[0].call(&["GET", "sum"]), Reply::Bulk((3 * 999 * 1000 / 2).to_string().into_bytes()));
    assert_eq!(figure(&mut clients[1], "connected_clients"), 1000);
    let idle = figure(&mut clients[1], "mem_clients_normal");
    assert!(idle < 6_000_000, "a thousand idle clients hold {idle} bytes, ten thousand not within 60 MB");
    let list = String::from_utf8(clients[2].call(&["CLIENT", "LIST"]).bytes()).unwrap();
    assert_eq!(list.lines().count(), 1000);
}

#[test]
fn one_client_too_many_is_told_so() {
    let us = Ours::with(Options { clients_max: 2, ..Options::default() });
    let (mut first, mut second) = (us.client(), us.client());
    first.call(&["PING"]);
    second.call(&["PING"]);
    let mut third = us.client();
    assert_eq!(third.reply(), Reply::Error("ERR max number of clients reached".into()));
    assert!(is_closed(&mut third.stream));
    drop(second);
    wait_until("a place is free again", || figure(&mut first, "connected_clients") == 1);
    assert_eq!(us.client().call(&["PING"]), Reply::Simple("PONG".into()));
    assert_eq!(figure(&mut first, "rejected_connections"), 1);
}

#[test]
fn ten_thousand_commands_may_be_pipelined() {
    let us = Ours::start();
    let mut client = us.client();
    let mut program = Vec::new();
    for number in 0..10_000 {
        program.extend_from_slice(&command(&["SET", &format!("key:{:05}", number % 3000), &number.to_string()]));
        program.extend_from_slice(&command(&["GET", &format!("key:{:05}", number % 3000)]));
    }
    let mut writer = client.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(&program).unwrap());
    for number in 0..10_000 {
        assert_eq!(client.reply(), Reply::Simple("OK".into()));
        assert_eq!(client.reply(), Reply::Bulk(number.to_string().into_bytes()), "a read sees the write before it");
    }
    sender.join().unwrap();
    assert_eq!(client.call(&["DBSIZE"]), Reply::Integer(3000));
    let (iterations, commands) =
        (figure(&mut client, "total_iterations"), figure(&mut client, "total_commands_processed"));
    assert!(iterations < commands / 10, "{commands} commands took {iterations} iterations: settlements are not shared");
}

/// A write acknowledged to one client is read by another one.
#[test]
fn an_acknowledged_write_is_seen_by_everybody() {
    let us = Ours::start();
    let (mut writer, mut reader) = (us.client(), us.client());
    for number in 0..500 {
        writer.call(&["SET", "n", &number.to_string()]);
        assert_eq!(reader.call(&["GET", "n"]), Reply::Bulk(number.to_string().into_bytes()));
    }
}

/// Commands that build on what others wrote see what is still on its way to the disk: no increment
/// is lost, none twice.
#[test]
fn increments_of_many_clients_all_count() {
    let us = Ours::start();
    let counted: Vec<i64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|_| {
                let mut client = us.client();
                scope.spawn(move || {
                    let add = || match client.call(&["INCR", "n"]) {
                        Reply::Integer(number) => number,
                        other => panic!("{other:?}"),
                    };
                    std::iter::repeat_with(add).take(200).collect::<Vec<_>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let different: std::collections::BTreeSet<_> = counted.iter().copied().collect();
    assert!(different.into_iter().eq(1..=1600));
}

/// While one client sets pairs, readers find both halves equal, and never go back in time.
#[test]
fn a_reader_beside_writers_sees_whole_commands_in_one_order() {
    let us = Ours::start();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut writer = us.client();
        let done = &done;
        scope.spawn(move || {
            for number in 0..1500 {
                let number = number.to_string();
                assert_eq!(writer.call(&["MSET", "a", &number, "z", &number]), Reply::Simple("OK".into()));
            }
            done.store(true, std::sync::atomic::Ordering::Release);
        });
        let mut busy = us.client(); // its writes keep iterations on their way
        scope.spawn(move || {
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                busy.call(&["SET", "m", "1"]);
            }
        });
        let mut reader = us.client();
        scope.spawn(move || {
            let mut newest = -1;
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                let Reply::List(pair) = reader.call(&["MGET", "a", "z"]) else { panic!("no pair") };
                assert_eq!(pair[0], pair[1], "half a command");
                let Reply::Bulk(number) = &pair[0] else { continue };
                let number: i64 = String::from_utf8_lossy(number).parse().unwrap();
                assert!(number >= newest, "{number} after {newest}");
                newest = number;
            }
        });
    });
}

/// Every key that is there throughout is returned, whatever else comes and goes, and in order.
#[test]
fn scan_returns_every_key_that_stays() {
    let us = Ours::start();
    let (mut client, mut other) = (us.client(), us.client());
    let mut random = Random::new(crate::common::seed("scan_returns"));
    for number in 0..2000 {
        client.call(&["SET", &format!("stay:{number:04}"), ""]);
    }
    for options in [&[][..], &["MATCH", "stay:*"], &["COUNT", "100"], &["MATCH", "*1*", "COUNT", "50"]] {
        let (mut cursor, mut seen) = ("0".to_string(), Vec::new());
        loop {
            let mut reply = client.call(&[&["SCAN", &cursor], options].concat()).list();
            seen.extend(reply.pop().unwrap().list().into_iter().map(Reply::bytes));
            cursor = String::from_utf8(reply.pop().unwrap().bytes()).unwrap();
            if cursor == "0" {
                break;
            }
            assert!(cursor.parse::<u64>().unwrap() < 1 << 53);
            for _ in 0..5 {
                let key = format!("{}:{:04}", if random.index(2) == 0 { "come" } else { "vary" }, random.index(3000));
                let verb = if random.index(2) == 0 { "DEL" } else { "GETDEL" };
                if random.index(3) == 0 {
                    other.call(&[verb, &key])
                } else {
                    other.call(&["SET", &key, ""])
                };
            }
        }
        assert!(seen.is_sorted() && seen.windows(2).all(|pair| pair[0] != pair[1]), "{options:?}");
        let wants = |key: &[u8]| options.get(1) != Some(&"*1*") || key.contains(&b'1');
        let stay = |key: &&Vec<u8>| key.starts_with(b"stay:");
        let expect = (0..2000).map(|number| format!("stay:{number:04}").into_bytes()).filter(|key| wants(key)).count();
        assert_eq!(seen.iter().filter(stay).count(), expect, "{options:?}");
    }
    let unknown = client.call(&["SCAN", "12345"]);
    assert!(matches!(&unknown, Reply::Error(text) if text.contains("begin again with cursor 0")), "{unknown:?}");
}

#[test]
fn range_returns_pairs_in_order() {
    let us = Ours::start();
    let mut client = us.client();
    for key in ["", "-", "+", "(x", "[x", "a", "b", "c", "\u{7f}"] {
        client.call(&["SET", key, &format!("v{key}")]);
    }
    let mut keys = |words: &[&str]| -> Vec<String> {
        let reply = client.call(&[&["RANGE"], words].concat()).list();
        let texts: Vec<String> = reply.into_iter().map(|item| String::from_utf8(item.bytes()).unwrap()).collect();
        texts
            .chunks(2)
            .map(|pair| {
                assert_eq!(pair[1], format!("v{}", pair[0]));
                pair[0].clone()
            })
            .collect()
    };
    assert_eq!(keys(&["-", "+"]), ["", "(x", "+", "-", "[x", "a", "b", "c", "\u{7f}"]);
    assert_eq!(keys(&["a", "c"]), ["a", "b"]);
    assert_eq!(keys(&["(a", "[c"]), ["b", "c"]);
    assert_eq!(keys(&["[-", "[[x"]), ["-", "[x"]);
    assert_eq!(keys(&["a", "+", "LIMIT", "2"]), ["a", "b"]);
    assert_eq!(keys(&["a", "+", "limit", "0"]), [""; 0]);
    assert_eq!(keys(&["c", "a"]), [""; 0]);
    assert_eq!(keys(&["+", "-"]), [""; 0]);
    assert_eq!(keys(&["", "a", "LIMIT", "1"]), [""]);
    assert_eq!(client.call(&["RANGE", "a"]), Reply::Error("ERR wrong number of arguments for 'range' command".into()));
    assert_eq!(client.call(&["RANGE", "a", "b", "c"]), Reply::Error("ERR syntax error".into()));
    let limit = client.call(&["RANGE", "a", "b", "LIMIT", "-1"]);
    assert_eq!(limit, Reply::Error("ERR value is not an integer or out of range".into()));
    client.call(&["HELLO", "3"]);
    let pair = |key: &str| Reply::List(vec![Reply::Bulk(key.into()), Reply::Bulk(format!("v{key}").into())]);
    assert_eq!(client.call(&["RANGE", "a", "c"]), Reply::List(vec![pair("a"), pair("b")]));
}

#[test]
fn a_library_may_name_itself() {
    let us = Ours::start();
    let mut client = us.client();
    assert_eq!(client.call(&["CLIENT", "SETINFO", "LIB-NAME", "some-client"]), Reply::Simple("OK".into()));
    assert_eq!(client.call(&["CLIENT", "SETINFO", "lib-ver", "1.2.3"]), Reply::Simple("OK".into()));
    assert!(matches!(client.call(&["CLIENT", "SETINFO", "LIB-NAME", "a b"]), Reply::Error(_)));
    assert!(matches!(client.call(&["CLIENT", "SETINFO", "COLOUR", "red"]), Reply::Error(_)));
    let info = String::from_utf8(client.call(&["CLIENT", "INFO"]).bytes()).unwrap();
    assert!(info.contains("lib-name=some-client") && info.contains("lib-ver=1.2.3"), "{info}");
}

#[test]
fn a_taken_address_is_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    for (given, words) in [
        (&*address, "another server has it"),
        ("127.0.0.1", "an address and a port"),
        ("192.0.2.1:6380", "no such address"),
    ] {
        let table = crate::common::table(&dir.path().join(words.replace(' ', "-")));
        let error = Server::bind(table, Options { address: given.into(), open: true, ..Options::default() }).err();
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(given) && text.contains(words), "{text}");
    }
}

/// Without a password none is right: the reply to one says that nothing is protected.
#[test]
fn no_password_is_accepted_where_none_is_set() {
    let us = Ours::start();
    let mut client = us.client();
    for words in [&["AUTH", "x"][..], &["AUTH", "default", "x"], &["HELLO", "3", "SETNAME", "a", "AUTH", "default", ""]]
    {
        let reply = client.call(words);
        assert!(matches!(&reply, Reply::Error(text) if text.contains("without any password configured")), "{reply:?}");
    }
    let reply = client.call(&["AUTH", "root", "x"]);
    assert!(matches!(&reply, Reply::Error(text) if text.starts_with("WRONGPASS")), "{reply:?}");
}

/// Keys of 0 bytes, of any bytes, and of 1 MB.
#[test]
fn keys_may_be_empty_large_and_of_any_bytes() {
    let us = Ours::start();
    let mut client = us.client();
    let large: Vec<u8> = (0..1 << 20).map(|byte: u32| (byte % 251) as u8).collect();
    for key in [&b""[..], b"\0", b"\xff\xff", b"\r\n", &large] {
        assert_eq!(client.call(&[b"SET", key, key]), Reply::Simple("OK".into()));
        assert_eq!(client.call(&[b"GET", key]), Reply::Bulk(key.to_vec()));
        assert_eq!(client.call(&[b"EXISTS", key]), Reply::Integer(1));
    }
    let keys = client.call(&["SCAN", "0", "COUNT", "100"]).list().pop().unwrap().list();
    assert_eq!(keys.len(), 5);
    assert!(client.call(&["SCAN", "0", "COUNT", "4"]).list().pop().unwrap().list().len() == 4);
    assert_eq!(client.call(&[b"DEL", &large[..]]), Reply::Integer(1));
    assert_eq!(client.call(&["DBSIZE"]), Reply::Integer(4));
}

/// The largest value there may be, and one byte more.
#[test]
fn a_value_of_512_megabytes_is_kept() {
    let us = Ours::start();
    let mut client = us.client();
    let size = 512 << 20;
    let mut value = vec![b'v'; size];
    value[size / 2] = b'!';
    client.send(format!("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n${size}\r\n").as_bytes());
    client.send(&value);
    client.send(b"\r\n");
    assert_eq!(client.reply(), Reply::Simple("OK".into()));
    assert_eq!(client.call(&["STRLEN", "large"]), Reply::Integer(size as i64));
    assert_eq!(
        client.call(&["GETRANGE", "large", &(size / 2 - 1).to_string(), &(size / 2 + 1).to_string()]),
        Reply::Bulk(b"v!v".to_vec())
    );
    assert_eq!(
        client.call(&["APPEND", "large", "x"]),
        Reply::Error("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into())
    );
    client.send(&command(&["GET", "large"]));
    let head = format!("${size}\r\n");
    let mut got = vec![0; head.len() + size + 2];
    client.stream.read_exact(&mut got).unwrap();
    assert!(got.starts_with(head.as_bytes()) && got[head.len()..head.len() + size] == value[..], "the value differs");
    assert_eq!(client.call(&["DEL", "large"]), Reply::Integer(1));
    wait_until("the memory is given back", || figure(&mut client, "mem_clients_normal") < 1 << 20);
}

/// SHUTDOWN ends the server without a reply, after everything before it has been done and answered.
#[test]
fn shutdown_ends_the_server_in_order() {
    let mut us = Ours::start();
    let mut client = us.client();
    client.send(&[command(&["SET", "a", "1"]), command(&["SHUTDOWN"]), command(&["SET", "a", "2"])].concat());
    assert_eq!(client.reply(), Reply::Simple("OK".into()));
    assert!(is_closed(&mut client.stream));
    us.join().unwrap();
    assert!(TcpStream::connect(us.address).is_err());
}

#[test]
fn errors_say_what_to_do() {
    let error = Error::Listen {
        address: "0.0.0.0:80".into(),
        source: std::io::Error::from(std::io::ErrorKind::PermissionDenied),
    };
    assert!(error.to_string().contains("0.0.0.0:80") && error.to_string().contains("listen on a higher one"));
}

/// Each limit of the protocol ends the connection that goes beyond it, with Redis's words where it
/// has some, and no other connection.
#[test]
fn requests_beyond_the_limits_of_the_protocol_end_their_connection() {
    let us = Ours::with(Options { input_size_max: 1 << 20, ..Options::default() });
    let mut good = us.client();
    let long_line = [&b"GET "[..], &[b'k'; 64 << 10]].concat();
    let ways: [(&[u8], &str); 3] = [
        (&long_line, "-ERR Protocol error: too big inline request\r\n"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (&[&b"*2\r\n$3\r\nGET\r\n$2097152\r\n"[..], &[b'k'; (1 << 20) + 65_536]].concat(), ""),
    ];
    for (request, said) in ways {
        let mut stream = TcpStream::connect(us.address).unwrap();
        let _ = stream.write_all(request); // a closed connection may refuse the last bytes
        let mut reply = Vec::new();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.read_to_end(&mut reply);
        assert!(said.is_empty() || String::from_utf8_lossy(&reply) == said, "{:?}", String::from_utf8_lossy(&reply));
        assert_eq!(good.call(&["SET", "other", "goes on"]), Reply::Simple("OK".into()));
    }
}

//! `everbyte serve`: its settings, a taken address, two processes at once, a kill between two
//! openings, and kills of a primary and its replica.

#![forbid(unsafe_code)]

mod common;

use common::{Place, said};
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A server in a place, killed when dropped.
struct Served {
    child: Child,
    hello: Value,
}

impl Served {
    fn start(place: &Place, words: &[&str]) -> Served {
        let listen = if words.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] };
        let words = [&["serve", "--json"], listen, words].concat();
        let mut child = place.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Ok(hello) = serde_json::from_str(&line) else {
            panic!("the server did not start: {:?}", said(child.wait_with_output().unwrap()));
        };
        Served { child, hello }
    }

    fn address(&self) -> &str {
        self.hello["address"].as_str().unwrap()
    }

    /// Sends requests and reads as many bytes of reply as `expected` has.
    #[track_caller]
    fn ask(&self, requests: &str, expected: &str) {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.write_all(requests.as_bytes()).unwrap();
        let mut reply = vec![0; expected.len()];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(String::from_utf8_lossy(&reply), expected);
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Kills it, and starts another one in its place.
    fn restart(&mut self, place: &Place, words: &[&str]) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        *self = Served::start(place, words);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_was_acknowledged_outlives_a_kill() {
    let place = Place::new();
    let server = Served::start(&place, &["--create", "--max", "1GiB"]);
    assert_eq!((&server.hello["created"], &server.hello["keys"]), (&Value::Bool(true), &Value::from(0)));
    server.ask("SET greeting hello\r\nSET other 1\r\n", "+OK\r\n+OK\r\n");
    server.kill();
    let server = Served::start(&place, &[]);
    assert_eq!((&server.hello["created"], &server.hello["keys"]), (&Value::Bool(false), &Value::from(2)));
    server.ask("GET greeting\r\n", "$5\r\nhello\r\n");
    server.kill();
    assert_eq!(place.good(&["kv", "get", "greeting"]), "hello\n");
    assert!(place.good(&["check"]).contains("no damage"));
}

#[test]
fn a_snapshot_outlives_a_kill() {
    let place = Place::new();
    let server = Served::start(&place, &["--create", "--max", "1GiB"]);
    server.ask("SET greeting hello\r\nSNAPSHOT CREATE noon\r\nDEL greeting\r\n", "+OK\r\n+OK\r\n:1\r\n");
    server.kill();
    let server = Served::start(&place, &[]);
    server.ask(
        "CURSOR RANGE - + AT noon\r\nCURSOR RANGE - +\r\n",
        concat!("*2\r\n$1\r\n0\r\n*2\r\n$8\r\ngreeting\r\n$5\r\nhello\r\n", "*2\r\n$1\r\n0\r\n*0\r\n",),
    );
    server.kill();
    assert!(place.good(&["kv", "versions"]).contains("noon"));
}

/// Without `--open` an address that other machines can reach is refused before anything is created;
/// with it, a warning is printed.
#[test]
fn an_address_that_other_machines_reach_needs_a_word() {
    let place = Place::new();
    let words = ["serve", "--create", "--max", "1GiB", "--listen", "0.0.0.0:0"];
    let refused = said(place.command(&words).output().unwrap());
    let text = &refused.err;
    assert_eq!(refused.code, 5, "{text}");
    assert!(text.contains("0.0.0.0:0") && text.contains("--open") && text.contains("no password is set"), "{text}");
    assert!(!place.command(&["info"]).output().unwrap().status.success(), "a store was created all the same");
    let mut server = Served::start(&place, &["--create", "--max", "1GiB", "--listen", "0.0.0.0:0", "--open"]);
    assert_eq!(server.hello["config"]["open"], Value::Bool(true));
    let port = server.address().rsplit(':').next().unwrap().to_string();
    assert!(TcpStream::connect(format!("127.0.0.1:{port}")).is_ok());
    let mut warning = String::new();
    BufReader::new(server.child.stderr.take().unwrap()).read_line(&mut warning).unwrap();
    assert!(warning.starts_with("warning: ") && warning.contains("no password is set"), "{warning}");
}

/// With a password from the flag, the environment or the file, clients must give it, also where no
/// other machine reaches the address; it is printed nowhere.
#[test]
fn a_password_is_demanded_and_never_printed() {
    let place = Place::new();
    std::fs::write(place.path("settings.toml"), "requirepass = \"open sesame\"\n").unwrap();
    let config = place.path("settings.toml");
    for words in [&["--requirepass", "open sesame"][..], &["--config", config.to_str().unwrap()]] {
        let server = Served::start(&place, &[&["--create", "--max", "1GiB"], words].concat());
        assert_eq!(server.hello["requirepass"], Value::Bool(true));
        assert!(!server.hello.to_string().contains("sesame"), "{}", server.hello);
        server.ask("GET a\r\nAUTH sesame\r\n", "-NOAUTH Authentication required.\r\n-WRONGPASS");
        server.ask("AUTH \"open sesame\"\r\nGET a\r\n", "+OK\r\n$-1\r\n");
        server.kill();
    }
    let help = said(place.command(&["serve", "--help"]).env("EVERBYTE_REQUIREPASS", "sesame").output().unwrap());
    assert!(help.out.contains("EVERBYTE_REQUIREPASS") && !help.out.contains("sesame"), "{}", help.out);
    let long = said(place.command(&["serve"]).env("EVERBYTE_REQUIREPASS", "sesame".repeat(100)).output().unwrap());
    assert!(long.code == 2 && long.err.contains("512 bytes") && !long.err.contains("sesame"), "{}", long.err);
    let mut command = place.command(&["serve", "--listen", "0.0.0.0:0"]);
    let mut child =
        command.env("EVERBYTE_REQUIREPASS", "sesame").stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut warning = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut warning).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(warning.contains("nothing is encrypted") && !warning.contains("sesame"), "{warning}");
}

#[test]
fn a_store_in_use_says_who_has_it() {
    let place = Place::new();
    let server = Served::start(&place, &["--create", "--max", "1GiB"]);
    let pid = server.child.id().to_string();
    for words in [
        &["info"][..],
        &["check"],
        &["kv", "get", "k"],
        &["kv", "put", "k", "v"],
        &["serve", "--listen", "127.0.0.1:0"],
    ] {
        place.bad(words, 4, &["everbyte.store", "in use", &pid, "everbyte serve"]);
    }
    server.ask("PING\r\n", "+PONG\r\n");
}

#[test]
fn a_taken_address_says_what_to_do() {
    let place = Place::new();
    let server = Served::start(&place, &["--create", "--max", "1GiB"]);
    let other = Place::new();
    other.bad(&["serve", "--create", "--listen", server.address()], 5, &[server.address(), "another port"]);
    other.bad(&["serve", "--create", "--listen", "nonsense"], 5, &["nonsense"]);
}

#[test]
fn serving_nothing_says_how_to_make_it() {
    Place::new().bad(&["serve"], 5, &["everbyte create"]);
}

#[test]
fn settings_come_from_file_then_environment_then_flags() {
    let place = Place::new();
    std::fs::write(
        place.path("settings.toml"),
        "store = 'file.store'\ntable = 'from-file'\ncreate = true\nmax = 1073741824\ndurability = 'interval:50'\nlisten = '127.0.0.1:1'\n",
    )
    .unwrap();
    let mut command = place.command(&["serve", "--json", "--config", "settings.toml", "--listen", "127.0.0.1:0"]);
    command.env("EVERBYTE_TABLE", "from-environment").stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let config = &serde_json::from_str::<Value>(&line).unwrap()["config"];
    assert_eq!(config["store"], "file.store", "{line}");
    assert_eq!((&config["table"], &config["durability"]), (&"from-environment".into(), &"interval:50".into()));
    assert_eq!(config["listen"], "127.0.0.1:0", "a flag wins");
    std::fs::write(place.path("wrong.toml"), "prot = 1\n").unwrap();
    place.bad(&["serve", "--config", "wrong.toml"], 2, &["wrong.toml", "prot"]);
}

#[test]
fn a_signal_stops_it_in_good_order() {
    let place = Place::new();
    let mut server = Served::start(&place, &["--create", "--max", "1GiB"]);
    server.ask("SET a 1\r\n", "+OK\r\n");
    let pid = server.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(server.child.wait().unwrap().success());
    let info: Value = serde_json::from_str(&place.good(&["info", "--json"])).unwrap();
    assert_eq!(info["recovery"]["clean"], true);
}

/// Sends requests over a connection of their own, and returns the bytes of their replies.
fn replies(address: &str, requests: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(format!("{requests}\r\nECHO the-end\r\n").as_bytes())?;
    let (mut bytes, end) = (Vec::new(), "$7\r\nthe-end\r\n");
    while !bytes.ends_with(end.as_bytes()) {
        let mut part = [0; 1 << 16];
        match stream.read(&mut part)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&part[..count]),
        }
    }
    bytes.truncate(bytes.len() - end.len());
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A primary and its replica are killed again and again while a client writes. A client of the
/// replica sees versions of the primary alone, and at the end both have the same keys.
#[test]
fn a_replica_follows_through_kills_of_either_side() {
    const COUNT: usize = 3000;
    let (places, create) = ([Place::new(), Place::new()], ["--create", "--max", "1GiB", "--backend", "file"]);
    let mut primary = Served::start(&places[0], &create);
    let address = primary.address().to_string();
    // A copy is several patches.
    let fill: Vec<String> = (0..COUNT).map(|key| format!("SET k{key} {}", "v".repeat(2000))).collect();
    replies(&address, &fill.join("\r\n")).unwrap();
    replies(&address, "MSET a 0 b 0").unwrap();
    let mut replica = Served::start(&places[1], &[&create[..], &["--replicaof", &address]].concat());
    let stop = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut last = 0_usize;
            while !stop.load(Relaxed) {
                let next = last + 1;
                let key = next * 7 % COUNT;
                if replies(&address, &format!("MSET a {next} b {next} k{key} {next}")).is_ok_and(|it| it == "+OK\r\n") {
                    last = next;
                }
            }
            last
        });
        for round in 0..9 {
            std::thread::sleep(Duration::from_millis(60 * (round * 5 % 7)));
            if round % 3 == 2 {
                primary.restart(&places[0], &["--listen", &address]);
            } else {
                replica.restart(&places[1], &["--replicaof", &address]);
            }
            let seen = replies(replica.address(), "MGET a b").unwrap();
            let lines: Vec<&str> = seen.lines().collect();
            let is_whole = matches!(&lines[..], ["*2", _, a, _, b] if a == b) || seen == "*2\r\n$-1\r\n$-1\r\n";
            assert!(is_whole || seen.starts_with("-LOADING "), "round {round}: {seen}");
        }
        stop.store(true, Relaxed);
        writer.join().unwrap()
    });
    assert!(written > 0, "the writer got on");
    let end = Instant::now() + Duration::from_secs(300);
    let keys: Vec<String> = (0..COUNT).map(|key| format!("k{key}")).collect();
    let all = format!("DBSIZE\r\nMGET a b {}", keys.join(" "));
    let expected = replies(&address, &all).unwrap();
    while replies(replica.address(), &all).unwrap() != expected {
        assert!(Instant::now() < end, "the replica has what its primary has");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop((primary, replica));
    for place in &places {
        assert!(place.good(&["check"]).contains("no damage"));
    }
}

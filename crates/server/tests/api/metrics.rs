//! Figures for Prometheus: their format, their truth, and hostile requests for them.

use crate::common::{Ours, PATIENCE, Reply, command, figure, table};
use everbyte_server::{Error, Options, Password, Server};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

fn start() -> (Ours, SocketAddr) {
    let us = Ours::with(Options { metrics: Some("127.0.0.1:0".into()), ..Options::default() });
    let address = us.metrics.unwrap();
    (us, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The head and the body of the response to a request.
fn ask(address: SocketAddr, request: &[u8]) -> (String, String) {
    let mut stream = connect(address);
    // The other side may have refused the beginning.
    let _ = stream.write_all(request);
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {text:?}"));
    (head.into(), body.into())
}

fn scrape(address: SocketAddr) -> String {
    let (head, body) = ask(address, b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    body
}

/// The samples of a text, each with its labels, after a check of the format.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let (mut family, mut kind, mut families, mut found) = ("", "", BTreeSet::new(), BTreeMap::new());
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split_once(' ').expect("a name and its meaning").0;
            assert!(families.insert(family), "{family} comes once");
            kind = "";
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, its) = rest.split_once(' ').unwrap();
            assert_eq!((name, kind), (family, ""), "the type follows on the meaning");
            kind = its;
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let name = sample.split('{').next().unwrap();
            let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{line} is none of {family}"));
            let suffixes: &[&str] = match kind {
                "counter" | "gauge" => &[""],
                "histogram" => &["_bucket", "_sum", "_count"],
                other => panic!("{family} is a {other}"),
            };
            assert!(suffixes.contains(&suffix), "{line}");
            assert!(found.insert(sample.to_string(), value.parse().unwrap()).is_none(), "{line} comes once");
        }
    }
    found
}

/// A client whose command a pause postpones is blocked, as one that waits for an element.
#[test]
fn clients_that_a_pause_postpones_are_blocked() {
    let (us, address) = start();
    let (mut control, mut writer, mut taker) = (us.client(), us.client(), us.client());
    taker.send(&command(&["BLPOP", "q", "0"]));
    let blocked = || samples(&scrape(address))["everbyte_blocked_clients"];
    while blocked() < 1.0 {}
    control.call(&["CLIENT", "PAUSE", "10000000", "WRITE"]);
    writer.send(&command(&["SET", "k", "v"]));
    let end = Instant::now() + PATIENCE;
    while blocked() < 2.0 {
        assert!(Instant::now() < end, "the postponed client is counted");
    }
    control.call(&["CLIENT", "UNPAUSE"]);
    assert_eq!(writer.reply(), Reply::Simple("OK".into()));
    assert_eq!(blocked(), 1.0);
}

/// Each family has its meaning and type, histograms add up, and the numbers are those of INFO.
#[test]
fn figures_are_told_in_the_format_of_prometheus_and_equal_those_of_info() {
    let (us, address) = start();
    let mut client = us.client();
    client.call(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    for number in 0..20 {
        client.call(&["SET", &format!("k{number}"), "v"]);
    }
    client.call(&["SELECT", "3"]);
    client.call(&["SET", "gone", "v", "PX", "1"]);
    client.call(&["LPUSH", "list", "a"]);
    client.call(&["PEXPIRE", "list", "1000000"]);
    client.call(&["GET", "list"]);
    client.call(&["GET"]);
    let end = Instant::now() + PATIENCE;
    // The key that has expired is removed, counted, and its removal settled.
    let found = loop {
        let found = samples(&scrape(address));
        if found["everbyte_keys{db=\"3\"}"] < 2.0 {
            break found;
        }
        assert!(Instant::now() < end);
    };
    let is = |sample: &str| *found.get(sample).unwrap_or_else(|| panic!("no {sample}"));
    assert_eq!(is("everbyte_command_calls_total{command=\"set\"}"), 21.0);
    assert_eq!(is("everbyte_command_failed_total{command=\"get\"}"), 1.0);
    assert_eq!(is("everbyte_command_rejected_total{command=\"get\"}"), 1.0);
    assert_eq!(is("everbyte_errors_total{error=\"WRONGTYPE\"}"), 1.0);
    assert_eq!(is("everbyte_keys{db=\"0\"}"), 20.0);
    assert_eq!((is("everbyte_keys{db=\"3\"}"), is("everbyte_keys_with_deadline{db=\"3\"}")), (1.0, 1.0));
    assert_eq!(is("everbyte_expired_keys_total"), 1.0);
    assert!(found.keys().any(|name| name.starts_with("everbyte_build_info{version=\"")));
    assert!(is("everbyte_store_used_bytes") + is("everbyte_store_free_bytes") == is("everbyte_store_max_bytes"));
    assert!(is("everbyte_media_fences_total") > 0.0 && is("process_resident_memory_bytes") > 1e6);
    for (sample, line) in [
        ("everbyte_connected_clients", "connected_clients"),
        ("everbyte_max_clients", "maxclients"),
        ("everbyte_connections_accepted_total", "total_connections_received"),
        ("everbyte_keyspace_hits_total", "keyspace_hits"),
        ("everbyte_settled_iterations_total", "settled_iterations"),
        ("everbyte_error_replies_total", "total_error_replies"),
        ("everbyte_store_max_bytes", "store_max_bytes"),
    ] {
        assert_eq!(is(sample), figure(&mut client, line) as f64, "{sample}");
    }
    let name = "everbyte_command_duration_seconds";
    let mut counts = Vec::new();
    for range in 0..24 {
        counts.push(is(&format!("{name}_bucket{{command=\"set\",le=\"{}\"}}", (33_u64 << range) as f64 / 32e6)));
    }
    assert!(counts.is_sorted(), "{counts:?}");
    assert_eq!(is(&format!("{name}_bucket{{command=\"set\",le=\"+Inf\"}}")), 21.0);
    assert_eq!(is(&format!("{name}_count{{command=\"set\"}}")), 21.0);
    assert!(is(&format!("{name}_sum{{command=\"set\"}}")) > 0.0);
    assert!(is("everbyte_slow_commands_total") >= 20.0);
}

/// SCRAPE-1.
#[test]
fn a_scrape_tells_of_all_that_was_answered_before_it() {
    let (us, address) = start();
    let mut client = us.client();
    for number in 1..=5 {
        client.call(&["SET", &format!("k{number}"), "v"]);
        let found = samples(&scrape(address));
        assert_eq!(found["everbyte_command_calls_total{command=\"set\"}"], f64::from(number));
        assert_eq!(found["everbyte_keys{db=\"0\"}"], f64::from(number));
    }
}

/// Requests that are none, too long, too slow, or too many: each is refused clearly, and clients of
/// Redis and later scrapes are served.
#[test]
fn hostile_requests_for_figures_are_refused_and_bounded() {
    let (us, address) = start();
    let long = [b"GET /metrics HTTP/1.1\r\nHost: ".as_slice(), &[b'x'; 100_000]].concat();
    let redis = command(&["PING"]);
    let requests: &[(&[u8], &str)] = &[
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "405 Method Not Allowed"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", "400 Bad Request"),
        (b"GET /metrics HTTP/3\r\n\r\n", "505 HTTP Version Not Supported"),
        (b"\x16\x03\x01\x02\x00\x01", "400 Bad Request"),
        (b"\0\0\0\0", "400 Bad Request"),
        (&redis, "400 Bad Request"),
        (&long, "431 Request Header Fields Too Large"),
        (b"HEAD /metrics HTTP/1.0\r\n\r\n", "200 OK"),
        (b"HEAD / HTTP/1.0\r\n\r\n", "404 Not Found"),
    ];
    for (request, status) in requests {
        let (head, body) = ask(address, request);
        let silent = request.starts_with(b"HEAD");
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{:?}: {head}", String::from_utf8_lossy(request));
        assert_eq!(body.is_empty(), silent, "{body}");
    }
    // Connections that say nothing: so many are held, and one more waits until one of them leaves.
    let began = Instant::now();
    let mut silent: Vec<TcpStream> = (0..16).map(|_| connect(address)).collect();
    silent[0].write_all(b"GET /metrics HT").unwrap();
    let mut waits = connect(address);
    waits.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    waits.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(waits.read(&mut [0; 1]).is_err(), "nothing is read of a connection above the limit");
    assert_eq!(us.client().call(&["PING"]), Reply::Simple("PONG".into()));
    silent.pop();
    waits.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut text = String::new();
    waits.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    text.clear();
    silent[0].read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 408 Request Timeout"), "{text}");
    assert!(began.elapsed() >= Duration::from_secs(4), "it had its time");
    scrape(address);
}

/// An address of this machine that other machines reach, if it has one.
fn outer() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?; // nothing is sent
    match socket.local_addr().ok()? {
        SocketAddr::V4(address) if !address.ip().is_loopback() => Some(*address.ip()),
        _ => None,
    }
}

/// Protected mode: without a password figures stay on this machine, also if the password goes
/// later.
#[test]
fn figures_leave_the_machine_only_if_clients_may_come_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let metrics = Some("0.0.0.0:0".to_string());
    let options = Options { address: "127.0.0.1:0".into(), metrics, ..Options::default() };
    let refused = Server::bind(table(dir.path()), options.clone());
    assert!(matches!(refused.err(), Some(Error::Exposed { address }) if address == "0.0.0.0:0"));
    let Some(outer) = outer() else { return };
    let us = Ours::with(Options { password: Password::new("sesame"), ..options });
    let port = us.metrics.unwrap().port();
    let (here, there) = (SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((outer, port)));
    samples(&scrape(there));
    let mut client = us.client();
    client.call(&["AUTH", "sesame"]);
    assert_eq!(client.call(&["ACL", "SETUSER", "default", "nopass"]), Reply::Simple("OK".into()));
    let (head, body) = ask(there, b"GET /metrics HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 403 Forbidden") && body.contains("requirepass"), "{head} {body}");
    scrape(here);
}

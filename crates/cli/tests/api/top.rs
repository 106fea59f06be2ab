//! `everbyte top`, and the address of figures of `everbyte serve`.

use crate::common::{Place, said};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A server in a place, killed when dropped.
struct Served {
    child: Child,
    hello: Value,
}

impl Served {
    fn start(place: &Place, words: &[&str]) -> Served {
        let listen = ["--listen", "127.0.0.1:0"];
        let listen: &[&str] = if words.contains(&"--listen") { &[] } else { &listen };
        let words = [&["serve", "--json", "--create"], listen, words].concat();
        let mut command = place.command(&words);
        command.env("EVERBYTE_METRICS", "127.0.0.1:0").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Ok(hello) = serde_json::from_str(&line) else {
            panic!("the server did not start: {:?}", said(child.wait_with_output().unwrap()));
        };
        Served { child, hello }
    }

    fn told(&self, name: &str) -> &str {
        self.hello[name].as_str().unwrap_or_else(|| panic!("no {name} in {}", self.hello))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// One frame for a pipe, in text and in JSON, over TCP and TLS; and the figures of the same server.
#[test]
fn top_prints_one_frame_where_there_is_no_terminal() {
    let place = Place::new();
    let file = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../server/testdata/tls");
        Path::new(folder).join(name).display().to_string()
    };
    let (certificate, key, root) = (file("server.pem"), file("server.key"), file("root.pem"));
    let server = Served::start(
        &place,
        &[
            "--slowlog-log-slower-than",
            "0",
            "--tls-port",
            "127.0.0.1:0",
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-auth-clients",
            "no",
        ],
    );
    let (address, metrics) = (server.told("address"), server.told("metrics"));
    assert_eq!(ask(address, "SET k \"\\x1b[2J\"\r\nGET k\r\n"), "+OK\r\n$4\r\n\x1b[2J\r\n");
    let said = place.good(&["top", address, "--interval", "200ms"]);
    for words in ["everbyte top  127.0.0.1:", "primary", "operations ", "clients 1 of 10000", "keys 1", "slow command"]
    {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
    assert!(said.lines().any(|line| line.starts_with("info ")), "{said}");
    assert!(!said.contains('\x1b'), "{said:?}");
    let said = place.good(&["top", address, "--once", "--interval", "200ms", "--json"]);
    assert_eq!(said.lines().count(), 1);
    let frame: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((frame["keys"].as_u64(), frame["role"].as_str()), (Some(1), Some("primary")));
    assert!(
        frame["operations_per_second"].as_f64().unwrap() > 0.0 && frame["commands"][0]["usec_p99"].is_f64(),
        "{said}"
    );
    assert!(frame["slow"].as_array().unwrap().len() == 5 && frame["syncs_per_second"].is_f64(), "{said}");

    let secure = format!("rediss://localhost:{}", server.told("tls").rsplit_once(':').unwrap().1);
    let said = place.good(&["top", &secure, "--tls-ca-cert-file", &root, "--interval", "100ms"]);
    assert!(said.contains("keys 1"), "{said}");
    place.bad(&["top", &secure], 2, &["--tls-ca-cert-file"]);
    place.bad(&["top", &secure, "--tls-ca-cert-file", &key], 2, &["server.key", "no certificate in PEM"]);

    let said = ask(metrics, "GET /metrics HTTP/1.0\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 200 OK") && said.contains("\neverbyte_keys{db=\"0\"} 1\n"), "{said}");
}

/// A terminal of the command, and all that it has shown.
struct Screen {
    keys: std::fs::File,
    child: Child,
    shown: Arc<Mutex<String>>,
}

impl Screen {
    fn start(place: &Place, words: &[&str]) -> Screen {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let open = || std::fs::File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let child = place.command(words).stdin(open()).stdout(open()).stderr(Stdio::null()).spawn().unwrap();
        let keys = std::fs::File::from(master);
        let (mut reader, shown) = (keys.try_clone().unwrap(), Arc::new(Mutex::new(String::new())));
        let text = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The terminal is gone with the command.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                text.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Screen { keys, child, shown }
    }

    /// Waits until these words are shown, and forgets what came before their end.
    fn await_words(&self, words: &str) {
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let mut shown = self.shown.lock().unwrap();
            if let Some(at) = shown.find(words) {
                shown.drain(..at + words.len());
                return;
            }
            assert!(Instant::now() < end, "no `{words}` in {shown:?}");
            drop(shown);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A server that goes away is told of, and is found again; `q` and Ctrl-C end the command while it
/// is away.
#[test]
fn top_goes_on_when_the_server_is_back() {
    let place = Place::new();
    let server = Served::start(&place, &[]);
    let address = server.told("address").to_string();
    let mut screen = Screen::start(&place, &["top", &address, "--interval", "100ms"]);
    let mut other = Screen::start(&place, &["top", &address, "--interval", "100ms"]);
    screen.await_words("keys 0");
    other.await_words("keys 0");
    drop(server);
    screen.await_words("trying again in 1 s; q ends");
    other.await_words("trying again in 2 s; q ends");
    rustix::process::kill_process(rustix::process::Pid::from_child(&other.child), rustix::process::Signal::INT)
        .unwrap();
    assert!(other.child.wait().unwrap().success());
    let server = Served::start(&place, &["--listen", &address]);
    ask(&address, "SET k v\r\n");
    screen.await_words("keys 1");
    drop(server);
    screen.await_words("trying again in 1 s; q ends");
    screen.keys.write_all(b"q").unwrap();
    assert!(screen.child.wait().unwrap().success());
}

#[test]
fn servers_that_cannot_be_watched_are_told() {
    let place = Place::new();
    place.bad(&["top", "127.0.0.1:1"], 5, &["127.0.0.1:1: cannot connect", "everbyte serve"]);
    place.bad(&["top", "./nowhere.sock"], 5, &["./nowhere.sock: cannot connect"]);
    place.bad(&["top", "redis://a:b@127.0.0.1"], 2, &["EVERBYTE_TOP_PASSWORD"]);
    place.bad(&["top", "--interval", "1ms"], 2, &["100ms"]);
    // Another protocol, and a server that leaves.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let mut peer = listener.accept().unwrap().0;
        let _ = peer.read(&mut [0; 64]);
        peer.write_all(b"220 mail\r\n").unwrap();
        drop(peer);
        drop(listener.accept().unwrap());
    });
    place.bad(&["top", &address], 5, &["no reply of the Redis protocol"]);
    let left = place.run(&["top", &address, "--json"]);
    assert!(left.code == 5 && left.err.contains("\"code\":5"), "{left:?}");
    thread.join().unwrap();

    let server = Served::start(&place, &["--requirepass", "sesame"]);
    let address = server.told("address");
    place.bad(&["top", address], 5, &["EVERBYTE_TOP_PASSWORD"]);
    place.bad(&["top", address, "--password", "wrong"], 5, &["refused the password"]);
    let mut command = place.command(&["top", address, "--interval", "100ms"]);
    let let_in = said(command.env("EVERBYTE_TOP_PASSWORD", "sesame").output().unwrap());
    assert!(let_in.code == 0 && let_in.out.contains("clients 1 of"), "{let_in:?}");
}

/// The address of figures follows the rules of the settings, and those of the port.
#[test]
fn figures_are_an_option_that_is_off() {
    let place = Place::new();
    place.bad(
        &["serve", "--create", "--listen", "127.0.0.1:0", "--metrics", "0.0.0.0:0"],
        5,
        &["0.0.0.0:0", "--open", "requirepass"],
    );
    place.bad(
        &["serve", "--create", "--listen", "127.0.0.1:0", "--metrics", "nonsense"],
        5,
        &["cannot listen on nonsense"],
    );
    assert!(!place.path("everbyte.store").exists(), "a refusal creates nothing");
}

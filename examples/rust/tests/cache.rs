//! The cache with clients of memcached, killed and started again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A running cache of one megabyte.
struct Running {
    child: Child,
    address: String,
    /// Items that it found.
    warm: usize,
}

impl Running {
    fn start(directory: &Path) -> Running {
        let mut cache = Command::new(env!("CARGO_BIN_EXE_cache"));
        cache.arg(directory.join("store.everbyte")).args(["127.0.0.1:0", "1"]).stdout(Stdio::piped());
        let mut child = cache.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (warm, address) = line.trim().split_once(" items; listening on ").expect(&line);
        Running { warm: warm.parse().unwrap(), address: address.into(), child }
    }

    /// Its answer to lines, up to the end of the output.
    fn ask(&self, lines: &str) -> String {
        self.ask_bytes(lines.replace('\n', "\r\n").as_bytes()).replace("\r\n", "\n")
    }

    fn ask_bytes(&self, bytes: &[u8]) -> String {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        connection.write_all(bytes).unwrap();
        connection.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    }

    /// A program of libmemcached.
    fn client(&self, program: &str, words: &[&str]) -> Output {
        let servers = format!("--servers={}", self.address);
        Command::new(program).arg(servers).args(words).output().expect("libmemcached-tools, which ci/setup installs")
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn clients_of_memcached_find_their_items_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Running::start(directory.path());
    let (small, large) = (directory.path().join("small"), directory.path().join("large"));
    std::fs::write(&small, "a few bytes").unwrap();
    std::fs::write(&large, "many bytes ".repeat(9000)).unwrap();
    for file in [&small, &large] {
        let set = cache.client("memccp", &[file.to_str().unwrap()]);
        assert!(set.status.success(), "{set:?}");
    }
    cache.kill();
    let cache = Running::start(directory.path());
    assert_eq!(cache.warm, 2);
    assert_eq!(cache.client("memccat", &["small"]).stdout, b"a few bytes\n");
    assert_eq!(cache.client("memccat", &["large"]).stdout.len(), 99_001);
    assert!(cache.client("memctouch", &["--expire=1000", "small"]).status.success());
    assert!(cache.client("memcrm", &["large"]).status.success());
    assert_eq!(cache.client("memccat", &["large"]).stdout, b"");
    cache.kill();
    assert_eq!(Running::start(directory.path()).warm, 1);
}

#[test]
fn each_command_is_answered_as_memcached_does() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Running::start(directory.path());
    let asked = "set a 7 0 5\nhello\nget a b\ngets a\nset a 0 0 2 noreply\nhi\nget a\n";
    let said = "STORED\nVALUE a 7 5\nhello\nEND\nVALUE a 7 5 0\nhello\nEND\nVALUE a 0 2\nhi\nEND\n";
    assert_eq!(cache.ask(asked), said);
    assert_eq!(cache.ask("delete a\ndelete a\ntouch a 5\nget a\n"), "DELETED\nNOT_FOUND\nNOT_FOUND\nEND\n");
    // Expired long ago, never, and by a touch.
    assert_eq!(cache.ask("set a 0 -1 1\nx\nget a\n"), "STORED\nEND\n");
    assert_eq!(cache.ask("set a 0 0 1\nx\ntouch a 1000\nget a\n"), "STORED\nTOUCHED\nVALUE a 0 1\nx\nEND\n");
    assert_eq!(cache.ask("touch a -1\nget a\n"), "TOUCHED\nEND\n");
    assert_eq!(cache.ask("quit\nget a\n"), "");
    let stats = cache.ask("stats\n");
    assert!(stats.starts_with("STAT curr_items 0\n") && stats.contains("STAT limit_maxbytes 1048576\n"), "{stats}");
}

#[test]
fn what_is_no_command_is_refused_and_the_connection_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Running::start(directory.path());
    assert_eq!(cache.ask("get\n\nincr a 1\nget a\n"), "ERROR\nERROR\nERROR\nEND\n");
    let long = "k".repeat(251);
    assert_eq!(
        cache.ask(&format!("get {long}\nset {long} 0 0 1\nx\nget a\n")).lines().nth(1),
        Some("CLIENT_ERROR bad command line format")
    );
    assert_eq!(cache.ask("set a 0 0 3\ntoo long\nget a\n"), "CLIENT_ERROR bad data chunk\nEND\n");
    assert_eq!(cache.ask("set a 0 0 many\nversion\n").lines().next(), Some("CLIENT_ERROR bad data chunk"));
    assert_eq!(cache.ask("touch a soon\n"), "CLIENT_ERROR invalid exptime argument\n");
    let data = "x".repeat(2 << 20);
    assert_eq!(
        cache.ask(&format!("set a 0 0 {}\n{data}\nget a\n", data.len())),
        "SERVER_ERROR object too large for cache\nEND\n"
    );
    assert_eq!(cache.ask_bytes(&[b'x'; 8 << 10]), "CLIENT_ERROR line too long\r\n");
    assert_eq!(cache.ask_bytes(b"\xff\xfe \x00\r\n"), "ERROR\r\n");
    assert_eq!(cache.ask("set a 0 0 1\nx\nget a\n"), "STORED\nVALUE a 0 1\nx\nEND\n");
}

#[test]
fn what_was_not_used_for_longest_makes_room() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Running::start(directory.path());
    let data = "v".repeat(10_000);
    let set = |number: u32| cache.ask(&format!("set key{number} 0 0 {}\n{data}\n", data.len()));
    let is_there = |cache: &Running, number: u32| cache.ask(&format!("get key{number}\n")).starts_with("VALUE");
    for number in 0..300 {
        assert_eq!(set(number), "STORED\n");
        assert!(is_there(&cache, 0), "used after each other one");
    }
    let fit = 1_048_576 / (10_000 + 64 + 6);
    let kept: Vec<u32> = (0..300).filter(|&number| is_there(&cache, number)).collect();
    assert_eq!(kept[0], 0);
    assert!(kept[1..].iter().copied().eq(300 - (kept.len() as u32 - 1)..300), "the newest: {kept:?}");
    assert!(kept.len().abs_diff(fit) <= 1, "{} of {fit}", kept.len());
    let kept = kept.len();
    cache.kill();
    let cache = Running::start(directory.path());
    assert_eq!(cache.warm, kept);
    assert!(is_there(&cache, 299));
}

//! SQLite with two writers whose file system dies: in each journal mode, on `shm` and on `file`.
//!
//! A writer inserts a row in each of two tables, in one transaction with `synchronous=EXTRA`, and
//! prints its number. The daemon is killed at some number. After the next mount the database is
//! whole, has all transactions that were printed, and none in part.

use crate::harness::{Mounted, long, works};
use crate::programs::{has, run};
use everbyte_media::BackendChoice;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;

const WRITERS: usize = 2;

/// Inserts rows until the file system is gone; sends the number of each finished transaction.
fn writer(at: &Path, writer: usize, mode: &str, first: u64, done: &Sender<(usize, u64)>) {
    // The library of stdbuf makes sqlite3 print each line at once.
    let mut command = Command::new("stdbuf");
    command.args(["-oL", "sqlite3", "-bail", &format!("{mode}.db")]).current_dir(at);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let (mut to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut give = |text: String| to.write_all(text.as_bytes()).is_ok();
            let mut goes_on = give(String::from(
                ".timeout 60000\nPRAGMA synchronous=EXTRA; PRAGMA cache_size=10; PRAGMA wal_autocheckpoint=20;\n",
            ));
            for number in first..first + 1_000_000 {
                if !goes_on {
                    return;
                }
                let bytes = 100 + number * 977 % 30_000;
                goes_on = give(format!(
                    "BEGIN IMMEDIATE; INSERT INTO a VALUES({writer}, {number}, randomblob({bytes})); \
                     INSERT INTO b VALUES({writer}, {number}); COMMIT; SELECT 'done', {number};\n"
                ));
            }
        });
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if let Some(number) = line.strip_prefix("done|") {
                done.send((writer, number.parse().unwrap())).unwrap();
            }
        }
    });
    drop(child.wait());
}

/// Transactions of two writers until the daemon is killed; verified after the next mount.
fn crashes(backend: BackendChoice, rounds: u64) {
    let mut on = Mounted::large(backend);
    let modes = ["DELETE", "PERSIST", "WAL"];
    for mode in modes {
        let script = format!(
            "sqlite3 {mode}.db 'PRAGMA journal_mode={mode}; PRAGMA synchronous=EXTRA; CREATE TABLE a(w, n, x, PRIMARY KEY(w, n)); CREATE TABLE b(w, n, PRIMARY KEY(w, n));'"
        );
        run(&on.at, &script);
    }
    for (round, mode) in (0..rounds).flat_map(|round| modes.map(|mode| (round, mode))) {
        let (at, first) = (on.at.clone(), round * 1_000_000);
        let mut printed = [None; WRITERS];
        thread::scope(|scope| {
            let (done, finished) = channel();
            for number in 0..WRITERS {
                let (at, done) = (&at, done.clone());
                scope.spawn(move || writer(at, number, mode, first, &done));
            }
            drop(done);
            let mut left = 15 + round * 13;
            for (writer, number) in finished {
                printed[writer] = Some(number);
                left = left.saturating_sub(1);
                if left == 0 {
                    on.kill();
                    left = u64::MAX;
                }
            }
        });
        on.mount();
        let query = format!(
            "PRAGMA integrity_check; SELECT count(*) FROM (SELECT w, n FROM a EXCEPT SELECT w, n FROM b); \
             SELECT count(*) FROM (SELECT w, n FROM b EXCEPT SELECT w, n FROM a); \
             SELECT count(*) FROM (SELECT w, n, count(*) OVER (PARTITION BY w ORDER BY n) AS c FROM a WHERE n >= {first}) WHERE n != {first} + c - 1;"
        );
        let said = run(&on.at, &format!("sqlite3 {mode}.db '{query}'"));
        assert_eq!(said, "ok\n0\n0\n0\n", "{mode}, {backend:?}, round {round}");
        for (writer, last) in printed.into_iter().enumerate() {
            let Some(last) = last else { continue };
            let query = format!("SELECT max(n) >= {last} FROM a WHERE w = {writer}");
            assert_eq!(
                run(&on.at, &format!("sqlite3 {mode}.db '{query}'")),
                "1\n",
                "{mode}, {backend:?}, after {last}"
            );
        }
    }
    on.unmount();
    on.check();
}

#[test]
fn sqlite_keeps_each_transaction_of_two_writers_over_crashes() {
    if !works() || !has("sqlite3") || !has("stdbuf") {
        return;
    }
    for backend in [BackendChoice::Shm, BackendChoice::File] {
        crashes(backend, if long() { 8 } else { 1 });
    }
}

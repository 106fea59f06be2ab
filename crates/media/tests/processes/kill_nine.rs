//! Real processes, killed by SIGKILL: stores acknowledged before are there for the next process.

use everbyte_media::{BackendChoice, Durability, Geometry, OpenOptions, Options};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const A: u64 = 1 << 20;
const B: u64 = A + 64 * 1024;
const CHILD: &str = "EVERBYTE_TEST_KILLED_STORE";

fn options(round: u64) -> Options {
    let modes = [Durability::Always, Durability::Process, Durability::Interval(Duration::from_millis(3))];
    Options { backend: BackendChoice::File, durability: modes[(round % 3) as usize], ..Options::default() }
}

/// Stores and acknowledges until it is killed. B never gets ahead of A.
fn child(path: &Path) {
    let round = std::env::var("EVERBYTE_TEST_ROUND").unwrap().parse().unwrap();
    let media = OpenOptions::new(path).open(&options(round)).unwrap();
    let mut told = std::io::stderr();
    for value in media.load(A) + 1.. {
        {
            let _section = media.section();
            media.store(A, value);
            media.flush(A, 8);
            media.fence();
            media.store(B, value);
            for line in 0..value % 40 {
                media.store(B + 64 + line * 4096, value);
                media.flush(B + 64 + line * 4096, 8);
            }
            media.flush(B, 8);
            media.barrier().unwrap();
        }
        told.write_all(&value.to_le_bytes()).unwrap();
    }
}

#[test]
fn acknowledged_stores_are_there_after_a_kill() {
    if let Some(path) = std::env::var_os(CHILD) {
        return child(Path::new(&path));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let geometry = Geometry { max: 8 << 20, len: 4 << 20, log_at: 16 << 10, log_len: 64 << 10 };
    drop(OpenOptions::new(&path).create(geometry, &options(0)).unwrap());
    let mut newest = 0;
    for round in 0..15_u64 {
        let mut killed = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill_nine::acknowledged_stores_are_there_after_a_kill", "--nocapture"])
            .env(CHILD, &path)
            .env("EVERBYTE_TEST_ROUND", round.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = killed.stderr.take().unwrap();
        let mut word = [0; 8];
        for _ in 0..20 + round * 13 % 60 {
            pipe.read_exact(&mut word).unwrap();
        }
        killed.kill().unwrap();
        let mut rest = Vec::new();
        pipe.read_to_end(&mut rest).unwrap(); // acknowledgements before the kill
        killed.wait().unwrap();
        let told = rest.chunks_exact(8).last().map_or(word, |last| last.try_into().unwrap());
        let told = u64::from_le_bytes(told);
        let media = OpenOptions::new(&path).open(&options(0)).unwrap();
        let (a, b) = (media.load(A), media.load(B));
        assert!(
            told > newest && a >= told && b >= told && a >= b && a <= told + 1,
            "round {round}: told {told}, {a} {b}"
        );
        for line in 0..told % 40 {
            assert!(media.load(B + 64 + line * 4096) >= told);
        }
        newest = a;
        media.abandon();
    }
}

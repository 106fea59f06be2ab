//! A writer is killed at random moments, again and again; after each the store holds exactly a
//! prefix of its batches.

#![forbid(unsafe_code)]

use everbyte_suite::acked::{Setup, backend, verify};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

/// Starts the writer, kills it after `acks` more acknowledgements and a little more, and returns
/// the last one seen.
fn killed(setup: &Setup, name: &str, acks: u64, then: Duration) -> u64 {
    let mut writer = Command::new(env!("CARGO_BIN_EXE_suite-writer"));
    writer.arg("write").arg(&setup.path).args(["--backend", name, "--seed", &setup.seed.to_string()]);
    let mut child = writer.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = 0;
    for _ in 0..acks {
        let line = lines.next().expect("the writer goes on until it is killed").unwrap();
        last = line.strip_prefix("ACK ").unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    }
    std::thread::sleep(then);
    child.kill().unwrap();
    child.wait().unwrap();
    // A line printed before the kill was acknowledged; the very last line may be cut.
    for line in lines.map_while(Result::ok) {
        last = line.strip_prefix("ACK ").and_then(|n| n.parse().ok()).unwrap_or(last).max(last);
    }
    last
}

/// One test at a time: while one thread starts a writer, the child holds this process's descriptors
/// until it executes, and with them the lock of a store that another thread has just closed.
static ALONE: Mutex<()> = Mutex::new(());

fn kill_again_and_again(name: &str) {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut setup = Setup::new(folder.path().join("acked.store"));
    (setup.seed, setup.backend) = (nanos, backend(name).unwrap());
    println!("seed {nanos}");
    let mut held = 0;
    for round in 0..12 {
        let acked = killed(&setup, name, 1 + round * 7 % 60, Duration::from_micros(nanos >> 3 & 0x7ff));
        assert!(acked > held, "round {round}: the writer goes on where it was");
        held = verify(&setup, acked).unwrap_or_else(|why| panic!("round {round}, seed {nanos}: {why}"));
    }
}

/// SUITE-1 and SUITE-2 where a process's death is a crash.
#[test]
fn killed_on_a_disk() {
    kill_again_and_again("file");
}

/// SUITE-1 and SUITE-2 where a process's death keeps every store, half-made ones too.
#[test]
fn killed_on_shared_memory() {
    kill_again_and_again("shm");
}

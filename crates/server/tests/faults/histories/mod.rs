//! Linearizability under kills: clients work on a few keys of a server process that is killed with
//! SIGKILL and started again; every call is recorded with its start, its end and its reply. For
//! each key some order of the calls must explain the replies, over all lives of the server. A call
//! whose connection was lost took effect before the kill or never.

mod calls;
mod process;

use crate::common::{Client, seed};
use calls::{Call, KEYS, Recorder, first};
use everbyte_workload::linearizable::{self, Timed};
use everbyte_workload::{Random, long_or};
use process::{Medium, Process};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const CLIENTS: usize = 6;

/// Calls of all clients on each key.
type History = [Vec<Timed<Call>>; KEYS.len()];

/// One life of a server: all keys are read, then clients call until it is killed.
fn live(process: Process, random: &mut Random, clock: &AtomicU64, history: &mut History) {
    let (address, life) = (process.address, Duration::from_micros(2000 + random.below(60_000)));
    let record = |random| {
        let client = Client::try_connect(address).ok()?;
        Some(Recorder { client, clock, random, calls: Default::default() })
    };
    let mut reader = record(Random::new(random.next())).expect("it listens");
    reader.read_all().expect("the server lives");
    let recorded: Vec<History> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let random = Random::new(random.next());
                scope.spawn(move || {
                    let mut recorder = record(random)?;
                    while recorder.call().is_ok() {}
                    Some(recorder.calls)
                })
            })
            .collect();
        std::thread::sleep(life);
        process.kill();
        clients.into_iter().filter_map(|client| client.join().expect("no client panics")).collect()
    });
    for (key, calls) in recorded.into_iter().chain([reader.calls]).flat_map(|calls| calls.into_iter().enumerate()) {
        for mut call in calls {
            if !call.certain {
                call.end = clock.fetch_add(1, Ordering::SeqCst);
            }
            history[key].push(call);
        }
    }
}

/// Lives of a server, until a call is found that no order explains, or none is left.
fn run(medium: Medium, bug: &'static str, lives: u64) -> Result<(), String> {
    let seed = seed("--test faults histories");
    let mut random = Random::new(seed);
    let folder = match medium {
        Medium::Shm => tempfile::tempdir_in("/dev/shm").unwrap(),
        _ => tempfile::tempdir().unwrap(),
    };
    let (path, clock) = (folder.path().join("store"), AtomicU64::new(0));
    let mut history = History::default();
    for number in 0..=lives {
        if random.chance(25) {
            Process::stillborn(&path, medium, bug, Duration::from_micros(random.below(40_000)));
        }
        live(Process::start(&path, medium, bug), &mut random, &clock, &mut history);
        if number < lives && bug.is_empty() {
            continue; // checked once, whole
        }
        for (key, calls) in KEYS.iter().zip(&history) {
            linearizable::check(first(key), calls)
                .map_err(|error| format!("{medium:?}, key {key}, after {number} kills: {error}"))?;
        }
    }
    let count: usize = history.iter().map(Vec::len).sum();
    let lost = history.iter().flatten().filter(|call| !call.certain).count();
    println!("{medium:?}: {lives} kills; {count} calls are linearizable, {lost} of them without a reply");
    assert!(lost > 0 && count > 100, "the kills hit no call");
    Ok(())
}

/// At every moment of a kill: no acknowledged write is lost, none is there twice, no read is taken
/// back, no write appears after the restart.
#[test]
fn histories_with_kills_are_linearizable() {
    for medium in [Medium::Shm, Medium::File, Medium::SlowFile] {
        run(medium, "", long_or(8, 200)).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

/// Replies before the log has their writes, reads of what is not in the log yet, a settlement
/// believed too early: each gives a history that no order explains.
#[test]
fn seeded_bugs_give_histories_that_no_order_explains() {
    for bug in ["server-reply-early", "server-unsettled-read", "server-landed-early"] {
        let violation = run(Medium::SlowFile, bug, 40).expect_err(bug);
        println!("{bug}: {violation}\n");
    }
}

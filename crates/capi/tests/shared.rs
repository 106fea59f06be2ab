//! Programs of C that share one object: what one does the others see, and who is killed takes nothing along.

mod programs;

use everbyte_media::{BackendChoice, Options};
use everbyte_store::{Finding, Store};
use everbyte_tx::Undo;
use programs::{compile, succeed};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

const SOURCE: &str = "crates/capi/tests/c/heapo_shared.c";

#[test]
fn what_one_process_does_the_other_sees_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(SOURCE, dir.path());
    succeed(&program, &dir.path().join("calls"), "shm", &["calls"]);
}

#[test]
fn an_object_grows_and_shrinks_on_request_and_what_is_in_use_stays() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(SOURCE, dir.path());
    for backend in ["file", "shm"] {
        succeed(&program, &dir.path().join(backend), backend, &["resize"]);
    }
}

#[test]
fn a_child_of_fork_inherits_nothing_and_takes_nothing_away() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(SOURCE, dir.path());
    succeed(&program, &dir.path().join("forks"), "shm", &["forks"]);
}

/// A process that adds entries, and what it says.
struct Worker {
    process: Child,
    said: Receiver<u64>,
}

impl Worker {
    fn start(program: &Path, store: &Path, number: usize) -> Worker {
        let mut command = Command::new(program);
        command.args(["hammer", &number.to_string()]).env("EVERBYTE_STORE", store).env("EVERBYTE_BACKEND", "shm");
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (tell, said) = channel();
        // Ends with the process: its pipe does.
        std::thread::spawn(move || {
            for number in lines.map_while(Result::ok).map_while(|line| line.parse().ok()) {
                let _ = tell.send(number);
            }
        });
        Worker { process, said }
    }

    /// Kills it after it has been told of so many more; the newest it was told of.
    fn kill_after(mut self, count: u64) -> u64 {
        let told = (0..count).map(|_| self.said.recv().expect("it works until it is killed")).next_back();
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.said.iter().last().or(told).expect("at least one")
    }
}

/// Works until it has been killed so often; nobody ever has the store alone meanwhile, so that each death is put right by
/// one of those who are left, or come, and never by an opening.
fn hammered(processes: usize, kills: usize) {
    let dir = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    let (program, store): (PathBuf, PathBuf) = (compile(SOURCE, dir.path()), dir.path().join("store"));
    let start = |number| Some(Worker::start(&program, &store, number));
    let mut workers: Vec<Option<Worker>> = (0..processes).map(start).collect();
    let mut told = vec![0; processes];
    let mut random = 0x9e37_79b9_u64;
    for _ in 0..kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = (random >> 33) as usize % processes;
        told[number] = workers[number].take().unwrap().kill_after(1 + (random >> 40) % 50);
        workers[number] = start(number);
    }
    // One that has just come is among them to the end: what the last deaths left is looked at beside it.
    let found = look(&program, &store);
    (0..processes).for_each(|number| assert!(found[number] >= told[number], "{number}: {found:?} of {told:?}"));
    for (number, worker) in workers.into_iter().enumerate() {
        told[number] = worker.unwrap().kill_after(1);
    }
    let found = look(&program, &store);
    let fits = |number: usize| found[number] == told[number] || found[number] == told[number] + 1;
    assert!((0..processes).all(fits), "told {told:?}, found {found:?}");
    assert_eq!(findings(&store), []);
}

fn look(program: &Path, store: &Path) -> Vec<u64> {
    succeed(program, store, "shm", &["look"]).lines().map(|line| line.parse().unwrap()).collect()
}

/// What is wrong, leaks included: each block is an entry of the list.
fn findings(path: &Path) -> Vec<Finding> {
    let store = Store::open(path, &Options { backend: BackendChoice::Shm, ..Options::default() }).unwrap();
    let undo = Undo::open(store.object("shared").unwrap()).unwrap();
    let base = store.info().binding.unwrap();
    let mut entries = BTreeSet::new();
    let mut at = undo.heap().object().root();
    while at != 0 {
        assert!(entries.insert(at - base), "the list is a ring");
        at = store.media().load(at - base);
    }
    let mut findings = store.check();
    findings.extend(undo.check(Some(&entries)));
    findings
}

#[test]
fn two_processes_on_one_object_lose_nothing_when_they_are_killed() {
    hammered(2, 20);
}

#[test]
fn ten_processes_on_one_object_lose_nothing_when_they_are_killed() {
    hammered(10, 30);
}

//! C programs that share one object: each sees the changes of the others, and a killed process
//! loses no settled change.

use crate::programs::{compile, succeed};
use everbyte_hkv::Kv;
use everbyte_media::{BackendChoice, Options};
use everbyte_store::{FindingKind, Store};
use everbyte_tx::Undo;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

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
    let program = compile("crates/capi/tests/c/forks.c", dir.path());
    for backend in ["file", "shm"] {
        succeed(&program, &dir.path().join(backend), backend, &[]);
    }
}

/// A program of workers on one object, and its store.
struct Hammer {
    program: PathBuf,
    store: PathBuf,
    /// Its last argument.
    kind: &'static str,
}

/// A working process, and its output.
struct Worker {
    process: Child,
    said: Receiver<u64>,
}

impl Hammer {
    fn start(&self, number: usize) -> Worker {
        let mut command = Command::new(&self.program);
        command.args(["hammer", &number.to_string(), self.kind]);
        command.env("EVERBYTE_STORE", &self.store).env("EVERBYTE_BACKEND", "shm");
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

    /// The newest of each worker, after a check of all entries.
    fn look(&self) -> Vec<u64> {
        let said = succeed(&self.program, &self.store, "shm", &["look", "-", self.kind]);
        said.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Works until it has been killed this many times. No process ever has the store alone
    /// meanwhile, so that each death is repaired by a process that remains or comes, and never by
    /// an opening.
    fn hammer(&self, processes: usize, kills: usize) {
        let mut workers: Vec<Option<Worker>> = (0..processes).map(|number| Some(self.start(number))).collect();
        let mut told = vec![0; processes];
        let mut random = everbyte_workload::Random::new(0x9e37_79b9);
        for _ in 0..kills {
            let number = random.index(processes);
            told[number] = workers[number].take().unwrap().kill_after(1 + random.below(50));
            workers[number] = Some(self.start(number));
        }
        let found = self.look(); // beside the working processes
        (0..processes).for_each(|number| assert!(found[number] >= told[number], "{number}: {found:?} of {told:?}"));
        for (number, worker) in workers.into_iter().enumerate() {
            told[number] = worker.unwrap().kill_after(1);
        }
        let found = self.look();
        let fits = |number: usize| found[number] == told[number] || found[number] == told[number] + 1;
        assert!((0..processes).all(fits), "told {told:?}, found {found:?}");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end(); // a test that fails leaves no process behind
    }
}

impl Worker {
    fn end(&mut self) {
        let _ = self.process.kill(); // it may have ended by itself
        self.process.wait().unwrap();
    }

    /// Kills it after this many more lines; returns the newest number printed.
    fn kill_after(mut self, count: u64) -> u64 {
        let patience = Duration::from_secs(60);
        let told =
            (0..count).map(|_| self.said.recv_timeout(patience).expect("it works until it is killed")).next_back();
        self.end();
        self.said.iter().last().or(told).expect("at least one")
    }
}

fn open(path: &Path) -> Store {
    Store::open(path, &Options { backend: BackendChoice::Shm, ..Options::default() }).unwrap()
}

/// Nothing is wrong. A kill between a growth of the file and its bit leaves room that `trim` gives
/// back: a note.
#[track_caller]
fn is_whole(store: &Store) {
    let findings = store.check();
    assert!(findings.iter().all(|finding| finding.kind == FindingKind::Note), "{findings:?}");
}

/// A list of chunks: no entry is lost, and each chunk is an entry of the list, so no chunk has
/// leaked.
fn list_is_hammered(processes: usize, kills: usize) {
    let dir = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    let hammer = Hammer { program: compile(SOURCE, dir.path()), store: dir.path().join("store"), kind: "" };
    hammer.hammer(processes, kills);
    let store = open(&hammer.store);
    let undo = Undo::open(store.object("shared").unwrap()).unwrap();
    let base = store.info().binding.unwrap();
    let mut entries = BTreeSet::new();
    let mut at = undo.heap().object().root();
    while at != 0 {
        assert!(entries.insert(at - base), "the list is a ring");
        at = store.media().load(at - base);
    }
    is_whole(&store);
    assert_eq!(undo.check(Some(&entries)), []);
}

#[test]
fn two_processes_on_one_object_lose_nothing_when_they_are_killed() {
    list_is_hammered(2, 20);
}

#[test]
fn ten_processes_on_one_object_lose_nothing_when_they_are_killed() {
    list_is_hammered(10, 30);
}

#[test]
fn processes_on_one_key_value_store_lose_nothing_when_they_are_killed() {
    for (kind, processes) in [("0", 4), ("1", 4)] {
        let dir = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
        let program = compile("crates/capi/tests/c/heapo_kv_shared.c", dir.path());
        let hammer = Hammer { program, store: dir.path().join("store"), kind };
        hammer.hammer(processes, 15);
        let store = open(&hammer.store);
        is_whole(&store);
        assert_eq!(Kv::open(store.object("pairs").unwrap()).unwrap().check(), []);
    }
}

/// With an object's lock, as a reader, in a transaction, with nested locks, among names or pairs: a
/// process that dies in this state changes nothing, and releases its locks.
#[test]
fn who_dies_with_a_lock_leaves_it_to_the_next() {
    let dir = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    let (program, path) = (compile("crates/capi/tests/c/heapo_deaths.c", dir.path()), dir.path().join("store"));
    assert_eq!(succeed(&program, &path, "shm", &[]).lines().count(), 7);
    let store = open(&path);
    is_whole(&store);
    for name in ["a", "b"] {
        let undo = Undo::open(store.object(name).unwrap()).unwrap();
        let words = undo.heap().object().root() - store.info().binding.unwrap();
        assert_eq!(undo.check(Some(&BTreeSet::from([words]))), [], "{name}");
    }
    for name in ["tree", "hash"] {
        assert_eq!(Kv::open(store.object(name).unwrap()).unwrap().check(), [], "{name}");
    }
}

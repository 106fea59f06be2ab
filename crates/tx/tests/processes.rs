//! Processes that share an object and are killed, on persistent memory where there is some, else on
//! shared memory.

use everbyte_log::{Journal, Outcome};
use everbyte_media::{BackendChoice, BackendKind, Options, probe};
use everbyte_store::{CreateOptions, Engine, Error as StoreError, FindingKind, ObjectOpen, ObjectOptions, Store};
use everbyte_tx::{Error, TxError, Undo};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

const STORE: &str = "EVERBYTE_TEST_SHARED_STORE";
const WORKER: &str = "EVERBYTE_TEST_SHARED_WORKER";
const WORKERS: usize = 4;

fn options(path: &Path) -> Options {
    let pmem = probe(path).unwrap().kind == BackendKind::Pmem;
    let backend = if pmem { BackendChoice::Pmem } else { BackendChoice::Shm };
    Options { backend, ..Options::default() }
}

fn shared(store: &Store) -> Undo {
    Undo::open(store.open_object("shared", &ObjectOpen::shared(Engine::Undo, 0)).unwrap()).unwrap()
}

/// The word of a worker: it leads to a block that begins with how often it was replaced.
fn word(undo: &Undo, worker: usize) -> u64 {
    (undo.heap().object().prime() + 3072 + worker as u64 * 64).get()
}

fn count(undo: &Undo, worker: usize) -> u64 {
    let at = undo.media().load(word(undo, worker));
    if at == 0 { 0 } else { undo.media().load(at) }
}

/// Replaces its block by another for ever, and tells each time; until it is killed.
fn work(path: &Path, worker: usize) {
    let store = Store::options(path).shared().open(&options(path)).unwrap();
    let undo = shared(&store);
    loop {
        let exclusive = undo.enter().unwrap();
        let (at, next) = (word(&undo, worker), count(&undo, worker) + 1);
        let replaced: Result<(), TxError<Error>> = undo.run(|tx| {
            let block = tx.allocate([40, 300, 9000, 80_000][next as usize % 4])?;
            tx.media().store(block.at, next);
            let old = tx.media().load(at);
            tx.store(at, block.at.get())?;
            if old == 0 { Ok(()) } else { tx.free(old) }
        });
        replaced.unwrap();
        drop(exclusive); // no thread waits while this one cannot answer
        std::io::stderr().write_all(&next.to_le_bytes()).unwrap();
    }
}

/// Changes a word and looks, before the end, at the lanes as recovery would find them: the change
/// is one that it takes back. This process has taken over lanes from others, some of them dead.
fn require_logged(undo: &Undo) {
    let (media, at) = (undo.media(), word(undo, WORKERS));
    let allowed = undo.heap().object().prime().get()..undo.heap().object().backed().get();
    let logged: Result<usize, TxError<Error>> = undo.run(|tx| {
        tx.store(at, media.load(at) + 1)?;
        let lanes = (0..4).map(|lane| (undo.lanes_at() + lane * 4096).get());
        let found = lanes.map(|lane| Journal::recover(media, lane..lane + 4096, allowed.clone()).unwrap().outcome());
        Ok(found.filter(|outcome| *outcome == Outcome::Undo).count())
    });
    assert_eq!(logged.unwrap(), 1, "one lane has a transaction to undo");
}

struct Worker {
    process: Child,
    told: ChildStderr,
}

impl Worker {
    fn start(path: &Path, worker: usize) -> Worker {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "who_is_killed_takes_nothing_along", "--nocapture"]);
        command.env(STORE, path).env(WORKER, worker.to_string()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let told = process.stderr.take().unwrap();
        Worker { process, told }
    }

    /// Kills it after so many more; the last it told.
    fn kill_after(mut self, count: u64) -> u64 {
        let mut last = [0; 8];
        (0..count).for_each(|_| self.told.read_exact(&mut last).unwrap());
        self.process.kill().unwrap();
        let mut rest = Vec::new();
        self.told.read_to_end(&mut rest).unwrap();
        self.process.wait().unwrap();
        u64::from_le_bytes(rest.chunks_exact(8).last().map_or(last, |last| last.try_into().unwrap()))
    }
}

#[test]
fn who_is_killed_takes_nothing_along() {
    if let (Some(path), Ok(worker)) = (std::env::var_os(STORE), std::env::var(WORKER)) {
        return work(Path::new(&path), worker.parse().unwrap());
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let create = CreateOptions { max: 1 << 30, media: options(&path), bound: false };
    let store = Store::create(&path, &create).unwrap();
    let object = ObjectOptions { engine: Engine::Undo, fingerprint: 0, span: Some(16 << 20) };
    store.create_object("shared", object, |object| Undo::format_with(object, 4, 4096)).unwrap();
    store.close().unwrap();
    drop(store);

    // This process is one of them all the time, and heir of some.
    let store = Store::options(&path).shared().open(&options(&path)).unwrap();
    let undo = shared(&store);
    let mut workers: Vec<Option<Worker>> = (0..WORKERS).map(|worker| Some(Worker::start(&path, worker))).collect();
    for round in 0..16_u64 {
        let worker = round as usize * 7 % WORKERS;
        let told = workers[worker].take().unwrap().kill_after(1 + round * 11 % 40);
        let exclusive = undo.enter().unwrap();
        let found = count(&undo, worker);
        assert!(found == told || found == told + 1, "round {round}: told {told}, found {found}");
        require_logged(&undo);
        drop(exclusive);
        workers[worker] = Some(Worker::start(&path, worker));
    }
    workers.into_iter().flatten().for_each(|worker| _ = worker.kill_after(1));
    let exclusive = undo.enter().unwrap();
    let blocks: BTreeSet<u64> = (0..WORKERS).map(|worker| undo.media().load(word(&undo, worker))).collect();
    assert_eq!(undo.check(Some(&blocks)), []);
    // A kill between a growth of the file and its bit leaves room that `trim` gives back: a note.
    assert!(store.check().iter().all(|finding| finding.kind == FindingKind::Note), "{:?}", store.check());
    drop(exclusive);
    let not_exclusive = undo.run(|tx| tx.store(word(&undo, 0), 0));
    assert!(matches!(not_exclusive, Err(TxError::Aborted(Error::Store(StoreError::NotExclusive { .. })))));
}

//! A writer and a reader in processes of their own, either of which is killed.

use everbyte_kv::{Error, Kv, KvReader};
use everbyte_media::{BackendChoice, BackendKind, Options, probe};
use everbyte_store::{CreateOptions, Store};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};

const STORE: &str = "EVERBYTE_TEST_READER_STORE";
const FIELDS: u64 = 30;

fn options(path: &Path) -> Options {
    let is_pmem = probe(path).unwrap().kind == BackendKind::Pmem;
    let backend = if is_pmem { BackendChoice::Pmem } else { BackendChoice::Shm };
    Options { backend, ..Options::default() }
}

fn open(path: &Path) -> Store {
    Store::options(path).shared().open(&options(path)).unwrap()
}

fn create() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("store");
    let create = CreateOptions { media: options(folder.path()), max: 256 << 20, ..CreateOptions::default() };
    Kv::create(&Store::create(&path, &create).unwrap(), "kv").unwrap();
    (folder, path)
}

/// This test again, in a process of its own, which plays its other part.
struct Other {
    process: Child,
    told: ChildStderr,
    asked: ChildStdin,
}

impl Other {
    fn start(test: &str, path: &Path) -> Other {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("reader_processes::{test}"), "--nocapture"]).env(STORE, path);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (told, asked) = (process.stderr.take().unwrap(), process.stdin.take().unwrap());
        Other { process, told, asked }
    }

    fn next(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.told.read_exact(&mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn ask(&mut self) -> u64 {
        self.asked.write_all(&[1]).unwrap();
        self.next()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn tell(number: u64) {
    std::io::stderr().write_all(&number.to_le_bytes()).unwrap();
}

/// Puts one number to all fields, in one batch.
fn put_all(kv: &Kv, number: u64) {
    let mut batch = kv.batch();
    for field in 0..FIELDS {
        let value = [number.to_le_bytes(), [field as u8; 8]].concat().repeat(1 + (number + field) as usize % 20);
        batch.put(&field.to_be_bytes(), &value).unwrap();
    }
    kv.settle(batch.commit().unwrap()).unwrap();
}

/// The number of all fields at one version.
fn number_at(snapshot: &everbyte_kv::Snapshot) -> Result<u64, Error> {
    let mut numbers = Vec::new();
    for entry in snapshot.range::<[u8]>(..) {
        numbers.push(u64::from_le_bytes(entry?.1[..8].try_into().unwrap()));
    }
    assert!(numbers.is_empty() || numbers.len() as u64 == FIELDS, "{numbers:?}");
    assert!(numbers.windows(2).all(|pair| pair[0] == pair[1]), "parts of two versions: {numbers:?}");
    Ok(numbers.first().copied().unwrap_or(0))
}

/// Reads one version for ever, and tells its number when it is asked.
fn read(path: &Path) -> ! {
    let store = open(path);
    let reader = KvReader::open(&store, "kv").unwrap();
    let snapshot = reader.snapshot().unwrap();
    tell(number_at(&snapshot).unwrap());
    loop {
        if std::io::stdin().read_exact(&mut [0]).is_err() {
            std::process::exit(0);
        }
        let newest = number_at(&reader.snapshot().unwrap()).unwrap();
        tell(number_at(&snapshot).unwrap() << 32 | newest);
    }
}

/// A reader's version is kept as long as its process lives, and no longer.
#[test]
fn a_reader_that_is_killed_holds_nothing_back() {
    if let Some(path) = std::env::var_os(STORE) {
        read(Path::new(&path));
    }
    let (_folder, path) = create();
    let store = open(&path);
    let kv = Kv::open(&store, "kv").unwrap();
    put_all(&kv, 1);
    for round in 0..3 {
        let first = 1000 * round + 1;
        put_all(&kv, first);
        let held = kv.stats().version.get();
        let mut reader = Other::start("a_reader_that_is_killed_holds_nothing_back", &path);
        assert_eq!(reader.next(), first);
        for number in first + 1..first + 150 {
            put_all(&kv, number);
            if number % 50 == 0 {
                assert_eq!(reader.ask(), first << 32 | number);
            }
        }
        assert_eq!(kv.stats().oldest, held);
        reader.kill();
        (first + 150..first + 250).for_each(|number| put_all(&kv, number));
        assert_eq!(kv.stats().oldest, kv.stats().version.get(), "its pin is gone");
    }
    assert_eq!(kv.check(), []);
}

/// Writes for ever, and tells each number that is settled.
fn write(path: &Path) -> ! {
    let store = open(path);
    let kv = Kv::open(&store, "kv").unwrap();
    let mut number = number_at(&kv.snapshot()).unwrap();
    loop {
        number += 1;
        put_all(&kv, number);
        tell(number);
    }
}

/// A writer dies at any step: its readers go on at their versions, and go to the newest one, until
/// the next writer has the table.
#[test]
fn a_writer_that_is_killed_leaves_its_readers_their_versions() {
    if let Some(path) = std::env::var_os(STORE) {
        write(Path::new(&path));
    }
    let (_folder, path) = create();
    let store = open(&path); // a member all the time, and heir of some
    let mut readers: Vec<KvReader> = Vec::new();
    let mut old = None;
    for round in 0..8 {
        let mut writer = Other::start("a_writer_that_is_killed_leaves_its_readers_their_versions", &path);
        let mut told = writer.next();
        if let Some(old) = old.take() {
            assert!(matches!(number_at(&old), Err(Error::Expired { .. })), "there is another writer");
        }
        if readers.is_empty() {
            readers.push(KvReader::open(&store, "kv").unwrap());
        }
        let reader = &readers[0];
        let first = reader.snapshot().unwrap();
        let seen = number_at(&first).unwrap();
        assert!(seen >= told);
        for _ in 0..20 + 13 * round {
            told = writer.next();
            let newest = reader.snapshot().unwrap();
            assert!(number_at(&newest).unwrap() >= told);
        }
        writer.kill();
        assert_eq!(number_at(&first).unwrap(), seen, "the version outlives its writer");
        match reader.snapshot() {
            Ok(newest) => assert!(number_at(&newest).unwrap() >= told),
            Err(error) => assert!(matches!(error, Error::Unpublished { .. }), "{error}"),
        }
        old = Some(first);
    }
    let kv = Kv::open(&store, "kv").unwrap();
    let last = number_at(&readers[0].snapshot().unwrap()).unwrap();
    assert_eq!((number_at(&kv.snapshot()).unwrap(), kv.check()), (last, vec![]));
}

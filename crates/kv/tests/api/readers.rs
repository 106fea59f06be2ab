//! Readers of a table beside its writer, in one process: each has the store open as a member.

use everbyte_kv::{Error, Kv, KvReader, Snapshot};
use everbyte_media::{BackendChoice, Capabilities, ErrorInfo, ErrorKind, Media, Options, Recorder, museum};
use everbyte_store::{CreateOptions, FormatOptions, Store};
use everbyte_workload::Random;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::{Arc, Mutex};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The page of readers in the prime page of an object, and words of it.
const PAGE: u64 = 2560;
const OPENING: u64 = PAGE + 16;
const WRITER: u64 = PAGE + 24;
const EXPIRED: u64 = PAGE + 32;
const USED: u64 = PAGE + 40;
const SEQUENCE: u64 = PAGE + 64;
const SLOTS: u64 = PAGE + 128;

fn shm() -> Options {
    Options { backend: BackendChoice::Shm, ..Options::default() }
}

/// A store in shared memory, which this process shares.
fn shared(path: &Path) -> Store {
    Store::create(path, &CreateOptions { media: shm(), max: 256 << 20, ..CreateOptions::default() }).unwrap();
    Store::options(path).shared().open(&shm()).unwrap()
}

fn all(snapshot: &Snapshot) -> Result<Model, Error> {
    snapshot.range::<[u8]>(..).collect()
}

fn is_expired<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Expired { .. }))
}

#[test]
fn a_reader_sees_what_the_writer_has_settled() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = shared(&folder.path().join("store"));
    assert!(matches!(KvReader::open(&store, "kv"), Err(Error::Store(_))), "there is none");
    let kv = Kv::create(&store, "kv").unwrap();
    let reader = KvReader::open(&store, "kv").unwrap();
    assert_eq!((reader.name(), reader.get(b"a").unwrap()), ("kv", None));
    let before = reader.snapshot().unwrap();
    let mut batch = kv.batch();
    batch.put(b"a", b"1").unwrap();
    assert_eq!(reader.get(b"a").unwrap(), None, "it is not committed");
    kv.settle(batch.commit().unwrap()).unwrap();
    assert_eq!(reader.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(!before.is_newest() && reader.snapshot().unwrap().is_newest());
    let table = kv.create_table("t").unwrap();
    table.put(b"k", &[7; 200_000]).unwrap();
    let snapshot = reader.snapshot().unwrap();
    assert_eq!((snapshot.len(), reader.tables().unwrap()), (1, vec!["t".to_string()]));
    let shown = snapshot.open_table("t").unwrap();
    assert_eq!(shown.len_of(b"k").unwrap(), Some(200_000));
    assert_eq!(shown.part_of(b"k", |len| len - 3..len).unwrap().as_deref(), Some(&[7; 3][..]));
    assert_eq!(shown.range::<[u8]>(..).count(), 1);
    for absent in ["u", ""] {
        assert!(matches!(snapshot.open_table(absent), Err(Error::NoTable { .. })));
    }
    assert!(matches!(before.open_table("t"), Err(Error::NoTable { .. })), "it is newer");
    kv.drop_table("t").unwrap();
    assert!(shown.contains(b"k").unwrap() && reader.tables().unwrap().is_empty());
    assert_eq!((all(&before).unwrap().len(), reader.range::<[u8]>(..).unwrap().count()), (0, 1));
    assert_eq!(reader.prefix(b"a").unwrap().rev().count(), 1);
    // The bytes that the store grows by are the reader's, too.
    (0..40_u8).for_each(|key| kv.put(&[key], &vec![key; 400_000]).unwrap());
    assert_eq!(reader.get(&[39]).unwrap().unwrap(), vec![39; 400_000]);
    assert_eq!(kv.stats().oldest, before.version().get());
    drop((before, snapshot, shown));
    assert_eq!(kv.stats().oldest, kv.stats().version.get());
    // A table that is closed stays as it is.
    drop((kv, table));
    assert_eq!(reader.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    store.remove_object("kv").unwrap();
    let gone = reader.get(b"a").unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Busy, "{gone}");
}

/// A store that one process has alone is read as ever. In a shared one, nothing that the page says
/// of an earlier opening of the store is believed.
#[test]
fn a_reader_without_a_writer_is_told() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("store");
    let store = shared(&path);
    let kv = Kv::create(&store, "kv").unwrap();
    kv.put(b"a", b"1").unwrap();
    let len = |store: &Store| KvReader::open(store, "kv").unwrap().snapshot().unwrap().len();
    assert_eq!(len(&store), 1);
    drop((kv, store));
    let store = Store::open(&path, &shm()).unwrap();
    assert_eq!(len(&store), 1);
    let kv = Kv::open(&store, "kv").unwrap();
    (0..100_u8).for_each(|key| kv.put(&[key], &[1; 300]).unwrap());
    drop((kv, store));
    assert_eq!(len(&Store::options(&path).read_only().open(&shm()).unwrap()), 100);
    let store = Store::options(&path).shared().open(&shm()).unwrap();
    let error = KvReader::open(&store, "kv").map(drop).unwrap_err();
    assert!(matches!(error, Error::Unpublished { .. }) && error.kind() == ErrorKind::Busy, "{error}");
    let _kv = Kv::open(&store, "kv").unwrap();
    assert_eq!(len(&store), 100);
}

/// Another opening of the table may reclaim what a crash cut short: what was read before ends.
#[test]
fn a_new_opening_of_the_table_expires_its_readers() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = shared(&folder.path().join("store"));
    let kv = Kv::create(&store, "kv").unwrap();
    kv.put(b"a", b"1").unwrap();
    let reader = KvReader::open(&store, "kv").unwrap();
    let old = reader.snapshot().unwrap();
    drop(kv);
    assert_eq!(old.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    let kv = Kv::open(&store, "kv").unwrap();
    assert!(is_expired(old.get(b"a")) && is_expired(all(&old)) && !old.is_newest());
    let new = reader.snapshot().unwrap();
    kv.put(b"a", b"2").unwrap();
    drop(old);
    assert_eq!(new.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(reader.get(b"a").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(kv.stats().oldest, new.version().get());
}

/// PIN-2, across processes: with the limit of the table, or without one of its own.
#[test]
fn a_reader_in_another_process_may_be_as_far_behind_as_the_limit_says() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = shared(&folder.path().join("store"));
    let kv = Kv::create(&store, "kv").unwrap();
    kv.set_reader_limit(NonZeroU64::new(5));
    let reader = KvReader::open(&store, "kv").unwrap();
    kv.put(b"a", b"0").unwrap();
    let old = reader.snapshot().unwrap();
    let put = |count: u8| (0..count).for_each(|value| kv.put(b"a", &[value]).unwrap());
    put(5);
    assert_eq!(old.get(b"a").unwrap().as_deref(), Some(&b"0"[..]));
    let new = reader.snapshot().unwrap();
    put(3);
    assert!(is_expired(old.get(b"a")) && is_expired(all(&old)));
    assert_eq!(new.get(b"a").unwrap().as_deref(), Some(&[4][..]), "the older pin has not ended this one");
    kv.set_reader_limit(None);
    put(200);
    assert_eq!(new.get(b"a").unwrap().as_deref(), Some(&[4][..]));
}

/// There are 22 slots, which are free again.
#[test]
fn readers_beyond_the_slots_are_refused() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = shared(&folder.path().join("store"));
    let kv = Kv::create(&store, "kv").unwrap();
    let open = || KvReader::open(&store, "kv");
    let mut readers: Vec<_> = (0..22).map(|_| open().unwrap()).collect();
    let refused = open().map(drop).unwrap_err();
    assert!(matches!(refused, Error::Unpublished { .. }) && refused.to_string().contains("as many"), "{refused}");
    readers.pop();
    let last = open().unwrap();
    let snapshot = last.snapshot().unwrap();
    kv.put(b"a", b"1").unwrap();
    assert_eq!(kv.stats().oldest, snapshot.version().get());
}

/// Random words in the slots cost the writer no more than the limit; random words in the rest of
/// the page end reading with an error, or give an answer, and neither hangs nor panics.
#[test]
fn nonsense_on_the_page_of_readers_does_no_harm() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = shared(&folder.path().join("store"));
    let kv = Kv::create(&store, "kv").unwrap();
    let prime = store.stat("kv").unwrap().span.start;
    let (media, mut random) = (store.media(), Random::new(11));
    kv.set_reader_limit(NonZeroU64::new(20));
    let reader = KvReader::open(&store, "kv").unwrap();
    for round in 0..600_u64 {
        kv.put(&(round % 40).to_le_bytes(), &[round as u8; 100]).unwrap();
        let words = [0, 1, random.below(700), kv.stats().version.get(), u64::MAX - 1, u64::MAX];
        let word = words[random.below(6) as usize];
        media.store(prime + SLOTS + 64 + random.below(21) * 64 + 8 * random.below(2), word);
        media.store(prime + USED, if round % 3 == 0 { word } else { 22 });
        if round > 100 {
            let kept = kv.stats().version.get() - kv.stats().oldest;
            assert!(kept <= 21, "{kept} commits are kept in round {round}");
        }
    }
    assert_eq!((kv.len(), kv.check()), (40, vec![]));
    for round in 0..300 {
        let at = prime + PAGE + 8 * random.below(14);
        let kept = media.load(at);
        media.store(at, if random.below(2) == 0 { random.below(1 << 20) } else { random.next() });
        if media.load(prime + SEQUENCE) % 2 == 1 {
            media.store(prime + WRITER, u64::MAX); // else the reader waits for its writer
        }
        let _ = reader.get(&(round % 40_u64).to_le_bytes());
        let _ = reader.snapshot().and_then(|snapshot| all(&snapshot));
        media.store(at, kept);
    }
    // The next publication is whole again.
    drop(kv);
    let kv = Kv::open(&store, "kv").unwrap();
    kv.put(b"last", b"1").unwrap();
    assert_eq!(KvReader::open(&store, "kv").unwrap().snapshot().unwrap().len(), 41);
    for word in [OPENING, EXPIRED] {
        let kept = media.load(prime + word);
        let snapshot = reader.snapshot().unwrap();
        media.store(prime + word, kept + (1 << 40));
        assert!(is_expired(snapshot.get(b"last")));
        media.store(prime + word, kept);
    }
}

/// Snapshots of a reader, with the content that they have to have, and the first wrong read.
#[derive(Default)]
struct Watched {
    snapshots: Vec<(Snapshot, Model)>,
    wrong: Option<String>,
}

/// Reads at each store and each fence of the writer.
struct Watcher {
    watched: Arc<Mutex<Watched>>,
    random: Random,
    steps: u64,
}

impl Watcher {
    fn look(&mut self) {
        self.steps += 1;
        let mut watched = self.watched.lock().unwrap();
        if watched.wrong.is_some() {
            return;
        }
        let mut wrong = None;
        for (snapshot, model) in &watched.snapshots {
            for _ in 0..2 {
                let key = key(self.random.below(KEYS));
                if snapshot.get(&key).ok().as_ref() != Some(&model.get(&key).cloned()) {
                    wrong = Some(format!("{} in {}", key.escape_ascii(), snapshot.version()));
                }
            }
            if self.steps.is_multiple_of(64) && all(snapshot).ok().as_ref() != Some(model) {
                wrong = Some(format!("a walk over {}", snapshot.version()));
            }
        }
        watched.wrong = wrong;
    }
}

impl Recorder for Watcher {
    fn store(&mut self, _: u64, _: &[u8]) {
        self.look();
    }
    fn flush(&mut self, _: u64, _: u64) {}
    fn fence(&mut self) {
        self.look();
    }
    fn barrier(&mut self, _: u64) -> std::io::Result<()> {
        Ok(())
    }
    fn allocate(&mut self, _: u64, _: u64) -> std::io::Result<()> {
        Ok(())
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { shared: true, fence_settles: true, huge_pages: false }
    }
}

const KEYS: u64 = 200;

fn key(number: u64) -> Vec<u8> {
    format!("key {number:04}").into_bytes()
}

/// A writer that overwrites, deletes, merges and reclaims for `rounds`, and a reader with several
/// versions. The first read that is wrong, and the blocks that were reclaimed.
fn beside_every_store(rounds: u64) -> (Option<String>, u64) {
    let watched = Arc::new(Mutex::new(Watched::default()));
    let watcher = Watcher { watched: Arc::clone(&watched), random: Random::new(5), steps: 0 };
    let media = Media::recorded(64 << 20, &[], Box::new(watcher)).unwrap();
    Store::format(media.clone(), &FormatOptions::default()).unwrap();
    let [writing, reading] = [media.clone(), media].map(|media| Store::attach_shared(media).unwrap());
    let kv = Kv::create(&writing, "kv").unwrap();
    let reader = KvReader::open(&reading, "kv").unwrap();
    let (mut random, mut model) = (Random::new(3), Model::new());
    for round in 0..rounds {
        let mut batch = kv.batch();
        match random.below(12) {
            0 => {
                let from = random.below(KEYS);
                let (from, to) = (key(from), key(from + 30));
                batch.delete_range(&from[..]..&to[..]).unwrap();
                model.retain(|key, _| *key < from || *key >= to);
            }
            1..=3 => {
                let key = key(random.below(KEYS));
                assert_eq!(batch.delete(&key).unwrap(), model.remove(&key).is_some());
            }
            _ => {
                for _ in 0..1 + random.below(6) {
                    let len = if random.chance(5) { 5000 } else { random.below(120) };
                    let (key, value) = (key(random.below(KEYS)), vec![round as u8; len as usize]);
                    batch.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
        }
        if random.chance(7) {
            drop(batch);
            model = all(&kv.snapshot()).unwrap();
        } else {
            kv.settle(batch.commit().unwrap()).unwrap();
        }
        if random.chance(16) {
            let snapshot = reader.snapshot().unwrap();
            assert_eq!(all(&snapshot).unwrap(), model);
            watched.lock().unwrap().snapshots.push((snapshot, model.clone()));
        }
        if random.chance(16) || watched.lock().unwrap().snapshots.len() > 3 {
            let at = random.index(4);
            let dropped = {
                let snapshots = &mut watched.lock().unwrap().snapshots;
                (at < snapshots.len()).then(|| snapshots.swap_remove(at))
            };
            drop(dropped); // its pin is a store
            kv.reclaim().unwrap();
        }
    }
    assert_eq!(kv.check(), []);
    let Watched { snapshots, wrong } = std::mem::take(&mut *watched.lock().unwrap());
    drop(snapshots); // without the lock, as above
    (wrong, kv.stats().freed)
}

/// TREE-1, TREE-2 and PIN-1 for a reader in another process.
#[test]
fn a_reader_reads_its_version_beside_every_store_of_the_writer() {
    let (wrong, freed) = beside_every_store(700);
    assert_eq!(wrong, None);
    assert!(freed > 100, "{freed} blocks were reclaimed beside the reader");
    let (wrong, _) = museum::with("readers-pin-ignored", || beside_every_store(200));
    assert!(wrong.is_some(), "versions that nothing pins were not reclaimed");
}

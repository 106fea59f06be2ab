//! A store with a table, a typed pool, a hash table and a file volume is backed up while threads
//! change all of them; each backup is restored by opening, on both kinds of backends.

use everbyte::backup::{Options, RestoreOptions, restore};
use everbyte::store::{CreateOptions, FindingKind};
use everbyte::{Engines, MemPool, PCell, PSafe, Pool, Store, pool};
use everbyte_fs::{FileKind, Ino, NewFile, Volume, VolumeOptions};
use everbyte_hkv::Hash;
use everbyte_kv::Kv;
use everbyte_media::BackendChoice;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

pool!(Counters);

#[derive(PSafe)]
#[repr(C)]
struct Counter<P: MemPool> {
    count: PCell<u64, P>,
    twice: PCell<u64, P>,
}

/// Numbers that the threads were told: each is settled.
#[derive(Default)]
struct Acked {
    counted: AtomicU64,
    hashed: AtomicU64,
    filed: AtomicU64,
}

const TABLE: &str = "table";
const POOL: &str = "pool";
const HASH: &str = "hash";
const VOLUME: &str = "volume";

fn media(backend: BackendChoice) -> everbyte::Options {
    everbyte::Options { backend, log_bytes: 16 << 20, ..everbyte::Options::default() }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// Each thread stores a number in one object, then in another.
fn write(store: &Store, stop: &AtomicBool, acked: &Acked) {
    let inner = everbyte_store::raw::AsStore::as_store(store);
    let table = Kv::create(inner, TABLE).unwrap();
    let hash = Hash::create(inner, HASH, Some(64 << 20)).unwrap();
    let options = VolumeOptions { span: Some(64 << 20), ..VolumeOptions::default() };
    let volume = Volume::create(inner, VOLUME, &options).unwrap();
    let file = volume.make(Ino::ROOT, b"count", &NewFile::new(FileKind::Regular, 0o644)).unwrap();
    volume.settle().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let counter = Counters::open_or_create::<Counter<Counters>>(inner, POOL, |_| Counter {
                count: PCell::new(0),
                twice: PCell::new(0),
            })
            .unwrap();
            for round in (1_u64..).take_while(|_| !stop.load(SeqCst)) {
                table.put(b"count", &round.to_le_bytes()).unwrap();
                table.put(&(round % 500).to_le_bytes(), &vec![round as u8; 300]).unwrap();
                let counted = counter.tx(|j, counter| {
                    counter.count.set(round, j);
                    counter.twice.set(2 * round, j);
                });
                counted.unwrap();
                acked.counted.store(round, SeqCst);
            }
        });
        scope.spawn(|| {
            for round in (1_u64..20_000).take_while(|_| !stop.load(SeqCst)) {
                assert!(hash.insert(&round.to_le_bytes(), &[7; 40]).unwrap());
                acked.hashed.store(round, SeqCst);
                volume.write(file, 0, &round.to_le_bytes()).unwrap();
                let name = format!("file-{}", round % 100);
                if volume.lookup(Ino::ROOT, name.as_bytes()).unwrap().is_none() {
                    volume.make(Ino::ROOT, name.as_bytes(), &NewFile::new(FileKind::Regular, 0o644)).unwrap();
                }
                volume.settle().unwrap();
                acked.filed.store(round, SeqCst);
            }
        });
    });
    volume.close().unwrap();
}

/// The restored store has what was acknowledged before the backup began, whole and in order.
fn verify(path: &Path, backend: BackendChoice, [counted, hashed, filed]: [u64; 3]) {
    let store = everbyte_store::Store::open(path, &media(backend)).unwrap();
    let findings = Engines::standard().check(&store, |_| ());
    let bad: Vec<_> = findings.iter().filter(|found| found.kind != FindingKind::Note).collect();
    assert!(bad.is_empty(), "{bad:?}");
    let table = Kv::open(&store, TABLE).unwrap();
    let first = table.get(b"count").unwrap().map_or(0, |bytes| number(&bytes));
    let pool = Counters::open::<Counter<Counters>>(&store, POOL).unwrap();
    let (count, twice) = pool.tx(|_, counter| (counter.count.get(), counter.twice.get())).unwrap();
    assert_eq!(twice, 2 * count, "a transaction is whole");
    assert!(first >= count && count >= counted, "table {first}, pool {count}, acknowledged {counted}");
    for entry in table.range::<[u8]>(..) {
        let (_, value) = entry.unwrap();
        assert!(value.len() == 8 || value.iter().all(|&byte| byte == value[0]), "a value is whole");
    }
    let hash = Hash::open(store.object(HASH).unwrap()).unwrap();
    let volume = Volume::open(store.object(VOLUME).unwrap()).unwrap();
    assert!(volume.check().is_empty());
    let file = volume.lookup(Ino::ROOT, b"count").unwrap().unwrap();
    let mut bytes = [0; 8];
    let len = volume.read(file, 0, &mut bytes).unwrap();
    let written = number(&bytes[..len]);
    assert!(written >= filed, "file {written}, acknowledged {filed}");
    for round in 1..=written.max(hashed) {
        assert!(hash.get(&round.to_le_bytes()).unwrap().is_some(), "{round}, of {written} in the file");
    }
    table.put(b"count", b"usable").unwrap();
    volume.close().unwrap();
}

#[test]
fn a_backup_of_all_kinds_of_objects_beside_their_writers_restores_by_opening() {
    for backend in [BackendChoice::Shm, BackendChoice::File] {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = |name: &str| folder.path().join(name);
        let options = CreateOptions { media: media(backend), max: 1 << 30, ..CreateOptions::default() };
        let store = Store::create(&path("store"), &options).unwrap();
        let (stop, acked) = (AtomicBool::new(false), Acked::default());
        let mut taken: Vec<(PathBuf, [u64; 3])> = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| write(&store, &stop, &acked));
            for generation in 0..3_u64 {
                let now = || [&acked.counted, &acked.hashed, &acked.filed].map(|count| count.load(SeqCst));
                while now().iter().any(|&count| count < 20 * (generation + 1)) {
                    std::thread::yield_now();
                }
                let before = now();
                let file = path(&format!("backup-{generation}"));
                let since = taken.last().map(|(file, _)| file.clone());
                store.backup(&file, &Options { since, ..Options::default() }, &mut |_| {}).unwrap();
                taken.push((file, before));
            }
            stop.store(true, SeqCst);
        });
        store.close().unwrap();
        drop(store);
        for (generation, (_, before)) in taken.iter().enumerate() {
            let chain: Vec<PathBuf> = taken[..=generation].iter().map(|(file, _)| file.clone()).collect();
            let again = path(&format!("again-{generation}"));
            restore(
                &chain,
                &again,
                &RestoreOptions { media: media(backend), ..RestoreOptions::default() },
                &mut |_| {},
            )
            .unwrap();
            verify(&again, backend, *before);
        }
    }
}

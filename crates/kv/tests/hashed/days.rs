//! Odd keys and values, a full store, threads, and flipped bits everywhere: clear errors, no panic,
//! nothing lost that was acknowledged.

use everbyte_kv::{Error, HashTable, Kv, KvTools};
use everbyte_media::{BackendChoice, Media, OpenOptions, Options, museum};
use everbyte_sim::{DiskCall, Image, RecordedDisk};
use everbyte_store::{CreateOptions, EngineTools, FormatOptions, Store};
use everbyte_workload::Random;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn store(max: u64) -> Store {
    let media = Media::anonymous(max, &Options::default()).unwrap();
    Store::format(media, &FormatOptions::default()).unwrap()
}

fn all(table: &HashTable) -> BTreeMap<Vec<u8>, Vec<u8>> {
    table.snapshot().entries().map(Result::unwrap).collect()
}

#[test]
fn keys_and_values_of_any_length() {
    let table = HashTable::create(&store(1 << 30), "t").unwrap();
    let long = vec![b'k'; 1 << 20];
    let longer = [&long[..], b"!"].concat();
    for key in [&b""[..], &[0], &[0, 0], &long, &longer] {
        table.put(key, key).unwrap();
        assert_eq!(table.get(key).unwrap().as_deref(), Some(key));
    }
    table.put(b"", b"").unwrap();
    assert_eq!((table.get(b"").unwrap(), table.len()), (Some(Vec::new()), 5));
    assert!(table.delete(&long).unwrap() && !table.delete(&long).unwrap());
    let error = table.put(&vec![0; (16 << 20) + 1], b"").unwrap_err();
    assert!(matches!(error, Error::KeyTooLong { .. }), "{error}");
    let large: Vec<u8> = (0..(100 << 20) + 5_u32).map(|index| index as u8).collect();
    table.put(b"large", &large).unwrap();
    assert!(table.get(b"large").unwrap().unwrap() == large);
    assert_eq!(table.check(), []);
}

/// Each of the two forms refuses the object of the other, and says so.
#[test]
fn a_tree_is_no_hash_table_and_a_hash_table_no_tree() {
    let store = store(64 << 20);
    drop((Kv::create(&store, "tree").unwrap(), HashTable::create(&store, "hash").unwrap()));
    assert!(HashTable::open(&store, "tree").is_err() && Kv::open(&store, "hash").is_err());
    assert!(HashTable::open(&store, "none").is_err() && HashTable::create(&store, "hash").is_err());
    let table = HashTable::open_or_create(&store, "hash").unwrap();
    let error = HashTable::open(&store, "hash").map(drop).unwrap_err().to_string();
    assert!(error.contains("already open"), "{error}");
    let batch = table.begin().unwrap();
    assert!(matches!(table.put(b"k", b"v"), Err(Error::OwnBatch)));
    assert!(matches!(table.begin().map(drop), Err(Error::OwnBatch)));
    drop(batch);
    table.put(b"k", b"v").unwrap();
}

#[test]
fn a_full_store() {
    let store = store(16 << 20);
    let table = HashTable::create(&store, "t").unwrap();
    let mut model = BTreeMap::new();
    let mut error = None;
    for number in 0_u32..1 << 20 {
        match table.put(&number.to_be_bytes(), &[number as u8; 200]) {
            Ok(()) => drop(model.insert(number.to_be_bytes().to_vec(), vec![number as u8; 200])),
            Err(full) => {
                error = Some(full);
                break;
            }
        }
    }
    assert!(error.unwrap().to_string().len() > 20);
    assert!(all(&table) == model && table.check().is_empty());
    let gone: Vec<_> = model.keys().step_by(2).cloned().collect();
    for key in gone {
        assert!(table.delete(&key).unwrap()); // takes no room
        model.remove(&key);
    }
    while table.reclaim().unwrap() {}
    for round in 0..2000_u32 {
        table.put(&round.to_be_bytes(), &[1; 200]).unwrap();
        model.insert(round.to_be_bytes().to_vec(), vec![1; 200]);
    }
    drop(table);
    let table = HashTable::open(&store, "t").unwrap();
    assert!(all(&table) == model && table.check().is_empty());
}

/// A batch that ran out of room is as it was before the put that failed.
#[test]
fn a_batch_goes_on_behind_an_entry_without_room() {
    let table = HashTable::create(&store(16 << 20), "t").unwrap();
    let mut batch = table.begin().unwrap();
    assert!(batch.put(b"large", &vec![0; 64 << 20]).is_err());
    batch.put(b"small", b"fits").unwrap();
    batch.commit().unwrap();
    assert_eq!((table.len(), table.check()), (1, vec![]));
}

#[test]
fn readers_beside_a_writer() {
    let table = HashTable::create(&store(1 << 30), "t").unwrap();
    let key = |index: u32| format!("key{index:03}").into_bytes();
    let write = |round: u32| {
        let mut batch = table.begin().unwrap();
        (0..50).for_each(|index| batch.put(&key(index), &round.to_be_bytes()).unwrap());
        batch.put(&[&b"new"[..], &round.to_be_bytes()].concat(), b"grows").unwrap();
        batch.commit().unwrap();
    };
    write(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (table, stop) = (table.clone(), &stop);
            scope.spawn(move || {
                let mut last = 0;
                while !stop.load(Relaxed) {
                    let snapshot = table.snapshot();
                    let round = snapshot.get(&key(20)).unwrap().unwrap();
                    let all: Vec<_> = match reader {
                        0 => {
                            let entries = snapshot.entries().map(Result::unwrap);
                            entries.filter(|(key, _)| key.starts_with(b"key")).map(|(_, value)| value).collect()
                        }
                        _ => (0..50).map(|index| snapshot.get(&key(index)).unwrap().unwrap()).collect(),
                    };
                    assert!(all.len() == 50 && all.iter().all(|value| *value == round), "a torn version");
                    let round = u32::from_be_bytes(round.try_into().unwrap());
                    assert!(round >= last, "a reader went back in time");
                    last = round;
                }
            });
        }
        (1..1500).for_each(write);
        stop.store(true, Relaxed);
    });
    assert_eq!(table.check(), []);
}

#[test]
fn writers_beside_each_other() {
    let table = HashTable::create(&store(1 << 30), "t").unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4_u32 {
            let table = table.clone();
            scope.spawn(move || {
                for round in 0..500_u32 {
                    let key = [writer.to_be_bytes(), round.to_be_bytes()].concat();
                    table.put(&key, b"x").unwrap();
                    assert!(table.get(&key).unwrap().is_some());
                }
            });
        }
    });
    assert_eq!((table.len(), table.check()), (2000, vec![]));
}

/// Bytes of the store after many overwrites, against those after loading.
fn overwritten(reopens: bool) -> (u64, u64) {
    let store = store(1 << 30);
    let mut table = HashTable::create(&store, "t").unwrap();
    let put = |table: &HashTable, number: u64| table.put(&(number % 5000).to_be_bytes(), &[number as u8; 300]).unwrap();
    (0..5000).for_each(|number| put(&table, number));
    let loaded = store.info().backed;
    let mut random = Random::new(9);
    for round in 0..50_000 {
        put(&table, random.next());
        if reopens && round % 1000 == 0 {
            drop(table);
            table = HashTable::open(&store, "t").unwrap();
        }
    }
    assert_eq!(table.check(), []);
    (loaded, store.info().backed)
}

#[test]
fn space_stays_bounded_under_overwrites() {
    for reopens in [false, true] {
        let (loaded, after) = overwritten(reopens);
        assert!(after <= loaded * 3 / 2, "{loaded} bytes after loading, {after} after ten times as many overwrites");
    }
    let (loaded, after) = museum::with("hashed-graves-lost", || overwritten(false));
    assert!(after > 2 * loaded, "a writer that forgets what has ended is not found");
}

/// Entries that a snapshot held through the end of the process are found after it.
#[test]
fn what_died_before_an_opening_is_reclaimed_after_it() {
    let store = store(64 << 20);
    let table = HashTable::create(&store, "t").unwrap();
    let snapshot = table.snapshot();
    for round in 0..4_u8 {
        (0..200_u8).for_each(|key| table.put(&[key], &[round; 3000]).unwrap());
    }
    let used = |table: &HashTable| {
        let object = store.object("t").unwrap();
        let usage = allocated(&object);
        assert_eq!(table.check(), []);
        usage
    };
    let before = used(&table);
    drop((snapshot, table));
    let table = HashTable::open(&store, "t").unwrap();
    while table.reclaim().unwrap() {}
    table.put(b"last", b"x").unwrap();
    assert!(used(&table) < before / 3, "{} blocks before, {} after", before, used(&table));
}

fn allocated(object: &everbyte_store::Object) -> u64 {
    let heap = everbyte_heap::Heap::open(object.clone()).unwrap();
    heap.usage().unwrap().allocated
}

/// One flipped bit after another in everything the table has on media: opening, reading, walking,
/// writing and checking give an answer or an error. A read that answers is right, or the check
/// reports damage.
#[test]
fn flipped_bits() {
    let clean = store(8 << 20);
    let table = HashTable::create(&clean, "t").unwrap();
    let mut model = BTreeMap::new();
    for number in 0_u32..300 {
        let key = format!("key{number:05}").into_bytes();
        let value = vec![number as u8; if number % 50 == 0 { 700 } else { 40 }];
        table.put(&key, &value).unwrap();
        table.put(&key, &value).unwrap();
        model.insert(key, value);
    }
    let object = clean.object("t").unwrap();
    let (prime, until) = (object.prime(), object.backed());
    drop(table);
    let image = clean.media().read_vec(0, clean.media().len().min(until.get()) as usize);
    drop(clean);
    let mut random = Random::new(0x1234_5678_9abc_def1);
    let mut noticed = 0;
    for _ in 0..1500 {
        let at = match random.below(3) {
            0 => prime + 2048 + random.below(576),
            _ => prime + 4096 + random.below(until.get() - prime.get() - 4096),
        };
        let bit = random.below(8);
        let media = Media::anonymous(8 << 20, &Options::default()).unwrap();
        media.write(0, &image);
        let mut byte = [0];
        media.read(at, &mut byte);
        media.write(at, &[byte[0] ^ 1 << bit]);
        let story = format!("bit {bit} of {at:#x}");
        let opened = Store::attach(media).map_err(drop).and_then(|store| HashTable::open(&store, "t").map_err(drop));
        let Ok(table) = opened else {
            noticed += 1;
            continue;
        };
        let findings = table.check();
        noticed += u32::from(!findings.is_empty());
        for (key, value) in &model {
            match table.get(key) {
                Ok(Some(found)) => assert!(found == *value, "{story}: a wrong value was read"),
                Ok(None) => assert!(!findings.is_empty(), "{story}: {key:?} vanished and check saw nothing"),
                Err(_) => assert!(!findings.is_empty(), "{story}: an error that check does not see"),
            }
        }
        let snapshot = table.snapshot();
        let walked = snapshot.entries().filter_map(Result::ok);
        let walked = walked.inspect(|(key, value)| assert_eq!(model.get(key), Some(value), "{story}")).count();
        assert!(walked == model.len() || !findings.is_empty(), "{story}: {walked} entries and check saw nothing");
        for key in model.keys().step_by(37) {
            let _ = table.put(key, b"after");
            let _ = table.delete(key);
        }
        let _ = table.reclaim();
    }
    assert!(noticed > 150, "{noticed} of 1500 flips noticed");
}

/// Many times as much as the log of the file has room for, while the store writes in the
/// background.
#[test]
fn writes_go_on_when_the_log_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let media = Options { backend: BackendChoice::File, log_bytes: 256 << 10, ..Options::default() };
    let options = CreateOptions { media, max: 64 << 20, ..CreateOptions::default() };
    let store = Store::create(&dir.path().join("store"), &options).unwrap();
    let table = HashTable::create(&store, "t").unwrap();
    for round in 0..300_u32 {
        let mut batch = table.begin().unwrap();
        (0..5_u32).for_each(|key| batch.put(&[round, key].map(u32::to_be_bytes).concat(), &[7; 4000]).unwrap());
        batch.commit().unwrap();
    }
    assert_eq!((table.len(), table.check()), (1500, vec![]));
}

/// A disk whose syncs fail: a put says that its outcome is unknown, so does every write after it;
/// reading goes on with what was settled.
#[test]
fn a_failed_sync_is_told_and_what_was_settled_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let media = Options { backend: BackendChoice::File, log_bytes: 1 << 20, background: false, ..Options::default() };
    let options = CreateOptions { media: media.clone(), max: 64 << 20, ..CreateOptions::default() };
    Store::create(&path, &options).unwrap().close().unwrap();
    let disk = RecordedDisk::new(&std::fs::read(&path).unwrap()).unwrap();
    let store = Store::attach(OpenOptions::new(&path).on_disk(disk.clone()).open(&media).unwrap()).unwrap();
    let table = HashTable::create(&store, "t").unwrap();
    (0..50_u8).for_each(|key| table.put(&[key], &[key; 100]).unwrap());
    disk.fail(DiskCall::Sync, 0, 5);
    let unknown = table.put(b"unknown", b"1").unwrap_err().to_string();
    disk.heal();
    let later = table.put(b"later", b"1").unwrap_err().to_string();
    for told in [unknown, later, table.delete(&[1]).unwrap_err().to_string()] {
        assert!(told.contains("poisoned") && told.contains("open it again"), "{told}");
    }
    assert_eq!(table.get(&[7]).unwrap().as_deref(), Some(&[7; 100][..]));
    assert_eq!((table.get(b"unknown").unwrap(), all(&table).len(), table.len()), (None, 50, 50));
    assert!(store.close().is_err());
    drop((table, store));
    let store = Store::attach(OpenOptions::new(&path).on_disk(disk).open(&media).unwrap()).unwrap();
    let table = HashTable::open(&store, "t").unwrap();
    let found = all(&table);
    assert!((0..50_u8).all(|key| found.contains_key(&vec![key])) && found.len() <= 51);
    table.put(b"later", b"2").unwrap();
    assert_eq!(table.check(), []);
}

/// Tools that know no engine look at both forms, and copy the one that can be copied.
#[test]
fn tools_know_both_forms() {
    let store = store(64 << 20);
    let table = HashTable::create(&store, "hash").unwrap();
    (0..40_u8).for_each(|key| table.put(&[key], b"value").unwrap());
    drop((table, Kv::create(&store, "tree").unwrap()));
    let facts = |name: &str| -> Vec<(&'static str, u64)> {
        KvTools.describe(&store, name).unwrap().iter().map(|fact| (fact.name, fact.value)).collect()
    };
    assert_eq!(facts("hash"), [("keys", 40), ("version", 41), ("buckets", 40)]);
    assert_eq!(facts("tree")[0], ("keys", 0));
    for (name, can_copy) in [("hash", false), ("tree", true)] {
        assert_eq!((KvTools.check(&store, name), KvTools.recover(&store, name).unwrap().len()), (vec![], 0));
        assert_eq!(KvTools.can_copy(&store.object(name).unwrap()).unwrap(), can_copy);
        assert!(KvTools.plan_repair(&store, name, &|_, _| ()).unwrap().is_none());
    }
}

/// A commit whose barrier fails for a page of another object is ordered all the same: the next
/// batch settles and applies it first, and no block of its ledger is handed out too early.
#[test]
fn a_commit_whose_barrier_failed_is_applied_before_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let media = Options { backend: BackendChoice::File, background: false, ..Options::default() };
    let options = CreateOptions { media: media.clone(), max: 64 << 20, ..CreateOptions::default() };
    let store = Store::create(&path, &options).unwrap();
    let table = HashTable::create(&store, "t").unwrap();
    let mut model = BTreeMap::new();
    let put = |model: &mut BTreeMap<Vec<u8>, Vec<u8>>, key: u32, value: u8| {
        model.insert(key.to_le_bytes().to_vec(), vec![value; 100]);
        table.put(&key.to_le_bytes(), &[value; 100])
    };
    for key in (0..100).chain(0..100) {
        put(&mut model, key, key as u8).unwrap();
    }
    Kv::create(&store, "other").unwrap().put(b"key", b"value").unwrap();
    let page = store.object("other").unwrap().prime().get();
    store.media().raise_memory_error(page);
    for key in 0..20 {
        store.media().flush(page, 8);
        let error = put(&mut model, key, 200).unwrap_err().to_string();
        assert!(error.contains("cannot be read"), "{error}");
        put(&mut model, 1000 + key, 201).unwrap();
        assert_eq!(table.get(&key.to_le_bytes()).unwrap().as_deref(), Some(&[200; 100][..]));
    }
    assert_eq!((all(&table), table.check()), (model.clone(), vec![]));
    drop(table);
    let table = HashTable::open(&store, "t").unwrap();
    assert_eq!((all(&table), table.check()), (model, vec![]));
}

/// Bytes in use at the end, where entries died before the table was opened, or since; a commit that
/// has no room for its ledger comes between, or none.
fn left_behind(reopens: bool, fails: bool) -> u64 {
    let store = store(16 << 20);
    let mut table = HashTable::create(&store, "t").unwrap();
    let key = |number: u32| number.to_be_bytes();
    let snapshot = table.snapshot();
    (0..200).for_each(|number| table.put(&key(number), &[1; 3000]).unwrap());
    (0..200).step_by(2).for_each(|number| assert!(table.delete(&key(number)).unwrap()));
    drop(snapshot);
    if reopens {
        drop(table);
        table = HashTable::open(&store, "t").unwrap();
    }
    if fails {
        let (mut batch, mut numbers) = (table.begin().unwrap(), 1000..);
        for len in [60_000, 11_000, 9_000, 4_097, 600, 60, 8] {
            while batch.put(&key(numbers.next().unwrap()), &vec![2; len]).is_ok() {}
        }
        assert!(batch.commit().is_err(), "the ledger has no room");
    }
    while table.reclaim().unwrap() {}
    table.put(b"last", b"x").unwrap();
    assert_eq!((table.len(), table.check()), (101, vec![]));
    allocated(&store.object("t").unwrap())
}

/// Later commits give back the space that a failed one was to give back.
#[test]
fn a_commit_that_fails_keeps_nothing_from_being_given_back() {
    let expected = left_behind(false, false);
    for (reopens, fails) in [(true, false), (false, true), (true, true)] {
        assert_eq!(left_behind(reopens, fails), expected, "opened again: {reopens}, a commit fails: {fails}");
    }
}

/// Each commit, and each opening that applies a ledger again, lets the other of the two states
/// count: the one that counts is not written to.
#[test]
fn a_commit_after_an_opening_spares_the_state_that_counts() {
    let store = store(16 << 20);
    let mut table = HashTable::create(&store, "t").unwrap();
    let commit_at = store.object("t").unwrap().prime() + 2048 + 64;
    let state = || store.media().load(commit_at) & 1;
    for round in 0..4_u8 {
        let before = state();
        table.put(&[round], b"value").unwrap();
        assert_eq!(state(), 1 - before, "a commit");
        drop(table);
        table = HashTable::open(&store, "t").unwrap();
        assert_eq!(state(), before, "an opening");
    }
}

/// One chain holds most of a full store, and all of it is dead at once: deletes take no space, and
/// each commit gives back as much as fits the area of its ledger.
#[test]
fn a_full_store_of_one_key_lets_keys_be_deleted() {
    let store = store(16 << 20);
    let table = HashTable::create(&store, "t").unwrap();
    (0..50_u8).for_each(|key| table.put(&[key], b"value").unwrap());
    let snapshot = table.snapshot();
    let mut versions = 0;
    while table.put(b"key", &[7; 600]).is_ok() {
        versions += 1;
    }
    assert!(versions > 3000, "{versions}");
    drop(snapshot);
    for key in 0..40_u8 {
        assert!(table.delete(&[key]).unwrap(), "{key}");
    }
    while table.reclaim().unwrap() {}
    assert_eq!((table.len(), table.check()), (11, vec![]));
    (0..40_u8).for_each(|key| table.put(&[key], &[8; 60_000]).unwrap());
    assert_eq!(table.check(), []);
}

/// The ledger of the newest version is applied again when a table is opened after a crash. The
/// blocks that it frees serve the process that opened the table, and not only the next one.
#[test]
fn blocks_that_a_replayed_ledger_frees_are_allocated_by_the_same_process() {
    let media = Media::anonymous(4 << 20, &Options::default()).unwrap();
    let table = HashTable::create(&Store::format(media.clone(), &FormatOptions::default()).unwrap(), "t").unwrap();
    table.put(b"long", &[1; 500_000]).unwrap();
    table.put(b"long", b"short").unwrap();
    table.put(b"other", b"1").unwrap(); // frees the long one
    let crashed = Image::of(&media);
    let [first, second] = [1, 2].map(|openings| {
        let store = Store::attach(crashed.media()).unwrap();
        (1..openings).for_each(|_| drop(HashTable::open(&store, "t").unwrap()));
        let table = HashTable::open(&store, "t").unwrap();
        (0..1000_u32).take_while(|number| table.put(&number.to_be_bytes(), &[2; 100_000]).is_ok()).count()
    });
    assert_eq!(first, second, "puts of 100 kB until the table is full");
    assert!(first >= 5, "{first}");
}

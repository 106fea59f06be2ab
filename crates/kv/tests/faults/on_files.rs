//! Behaviour that only a store in a file on a disk shows: commits that are never settled, and a
//! disk whose syncs fail.

use everbyte_kv::{ExpiringTable, Kv, SystemClock};
use everbyte_media::{BackendChoice, OpenOptions, Options};
use everbyte_sim::{DiskCall, RecordedDisk};
use everbyte_store::{CreateOptions, Store};

/// A process that commits and never settles does not keep every version for ever.
#[test]
fn what_nobody_settles_is_settled_in_time() {
    let folder = tempfile::tempdir().unwrap();
    // If fences settle, every commit is settled at once.
    let media = Options { backend: BackendChoice::File, ..Options::default() };
    let options = CreateOptions { media, max: 1 << 30, ..CreateOptions::default() };
    let store = Store::create(&folder.path().join("s"), &options).unwrap();
    let kv = Kv::create(&store, "t").unwrap();
    for round in 0..2000_u32 {
        let mut batch = kv.batch();
        batch.put(b"key", &round.to_be_bytes()).unwrap();
        let _ = batch.commit().unwrap();
    }
    let stats = kv.stats();
    assert!(stats.version.get() + 2 * 256 > stats.commits, "{stats:?}");
    assert!(kv.get(b"key").unwrap().is_some());
}

/// A disk whose syncs fail: a put says that its outcome is unknown and what to do, so does every
/// write after it; reading goes on with what was settled; and opening the store again shows that,
/// and the unknown put whole or absent.
#[test]
fn a_failed_sync_is_told_and_what_was_settled_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let media = Options { backend: BackendChoice::File, log_bytes: 1 << 20, background: false, ..Options::default() };
    let created =
        Store::create(&path, &CreateOptions { media: media.clone(), max: 64 << 20, ..CreateOptions::default() })
            .unwrap();
    created.close().unwrap();
    drop(created);
    let disk = RecordedDisk::new(&std::fs::read(&path).unwrap()).unwrap();
    let store = Store::attach(OpenOptions::new(&path).on_disk(disk.clone()).open(&media).unwrap()).unwrap();
    let kv = Kv::create(&store, "t").unwrap();
    for key in 0..100_u8 {
        kv.put(&[key], &[key; 100]).unwrap();
    }
    kv.name_version("settled").unwrap();
    kv.create_table("settled").unwrap();
    let mut batch = kv.batch();
    batch.put(b"unsettled", b"1").unwrap();
    batch.create_table("unsettled").unwrap();
    let _ = batch.commit().unwrap();
    disk.fail(DiskCall::Sync, 0, 5);
    let unknown = kv.name_version("unknown").unwrap_err().to_string();
    assert!(unknown.contains("poisoned"), "{unknown}");
    for unknown in [kv.open_version("unknown").map(drop), kv.open_table("unsettled").map(drop)] {
        assert!(unknown.unwrap_err().to_string().contains("poisoned"));
    }
    assert!(kv.batch().open_version("unknown").is_err());
    assert_eq!(kv.open_version("settled").unwrap().len(), 100);
    assert_eq!(kv.batch().open_version("settled").unwrap().len(), 100);
    assert!(kv.open_table("settled").unwrap().is_empty().unwrap());
    let unknown = kv.put(b"unknown", b"1").unwrap_err().to_string();
    disk.heal(); // the disk is well again, and what it lost stays lost
    for told in [unknown, kv.put(b"later", b"1").unwrap_err().to_string(), kv.delete(&[1]).unwrap_err().to_string()] {
        assert!(told.contains("poisoned") && told.contains("sync") && told.contains("open it again"), "{told}");
    }
    let mut batch = kv.batch();
    let done = batch.put(b"batch", b"1").and_then(|_| batch.commit()).and_then(|commit| kv.settle(commit));
    assert!(done.unwrap_err().to_string().contains("open it again"));
    // Settled writes can be read, and nothing else.
    assert_eq!(kv.get(&[7]).unwrap().as_deref(), Some(&[7; 100][..]));
    assert_eq!((kv.get(b"unknown").unwrap(), kv.range::<[u8]>(..).count(), kv.len()), (None, 100, 100));
    assert!(store.close().unwrap_err().to_string().contains("poisoned"));
    drop((kv, store));
    let store = Store::attach(OpenOptions::new(&path).on_disk(disk).open(&media).unwrap()).unwrap();
    let kv = Kv::open(&store, "t").unwrap();
    let found: Vec<Vec<u8>> = kv.range::<[u8]>(..).map(|entry| entry.unwrap().0).collect();
    assert!((0..100_u8).all(|key| found.contains(&vec![key])) && found.len() <= 101, "{} keys", found.len());
    kv.put(b"later", b"2").unwrap();
    assert_eq!(kv.check(), []);
}

/// A table that another thread has made, and has not settled yet, is settled by the call that opens
/// it: every read finds it.
#[test]
fn a_table_is_settled_when_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let media = Options { backend: BackendChoice::File, ..Options::default() };
    let options = CreateOptions { media, max: 64 << 20, ..CreateOptions::default() };
    let store = Store::create(&folder.path().join("s"), &options).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    let make = |name: &str| {
        let mut batch = kv.batch();
        batch.create_typed::<u64, u64>(name).unwrap();
        batch.create_table(&format!("{name}.expiry")).unwrap();
        let _ = batch.commit().unwrap();
        assert!(!kv.tables().unwrap().iter().any(|table| table == name), "{name} is not settled");
        name.to_string()
    };
    let clock = || SystemClock;
    assert!(kv.open_table(&make("a")).unwrap().is_empty().unwrap());
    assert!(kv.open_or_create_table(&make("b")).unwrap().range::<[u8]>(..).is_ok());
    assert!(kv.open_typed::<u64, u64>(&make("c")).unwrap().snapshot().is_ok());
    assert!(kv.open_or_create_typed::<u64, u64>(&make("d")).unwrap().snapshot().is_ok());
    assert_eq!(ExpiringTable::open(&kv, &make("e"), clock()).unwrap().len().unwrap(), 0);
    assert_eq!(ExpiringTable::open_or_create(&kv, &make("f"), clock()).unwrap().len().unwrap(), 0);
    assert_eq!((kv.tables().unwrap().len(), kv.check()), (12, vec![]));
}

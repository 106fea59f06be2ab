//! Tables of a store that was opened to be read.

use everbyte_kv::{Error, ExpiringTable, HashTable, Kv, SystemClock};
use everbyte_media::{BackendChoice, ErrorInfo, ErrorKind, Options};
use everbyte_store::{CreateOptions, Store};

/// Every read answers, every write is refused by name and changes nothing that a later read sees,
/// and no byte of the file changes. Several read at once, and none beside a process that writes.
#[test]
fn a_store_that_is_read_refuses_writes_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let media = Options { backend: BackendChoice::File, background: false, ..Options::default() };
    let options = CreateOptions { media: media.clone(), max: 64 << 20, ..CreateOptions::default() };
    let store = Store::create(&path, &options).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    (0..100_u8).for_each(|key| kv.put(&[key], &[key; 50]).unwrap());
    kv.create_table("t").unwrap().put(b"k", b"v").unwrap();
    kv.name_version("monday").unwrap();
    kv.put(&[0], b"changed").unwrap();
    let hashed = HashTable::create(&store, "hashed").unwrap();
    (0..100_u8).for_each(|key| hashed.put(&[key], &[key; 50]).unwrap());
    let read_only = || Store::options(&path).read_only().open(&media);
    assert_eq!(read_only().map(drop).unwrap_err().kind(), ErrorKind::Busy, "a process writes it");
    drop((kv, hashed, store)); // as a crash would: the log is full
    let before = std::fs::read(&path).unwrap();
    let (store, beside) = (read_only().unwrap(), read_only().unwrap());
    for store in [&store, &beside] {
        let kv = Kv::open(store, "kv").unwrap();
        assert_eq!((kv.len(), kv.get(&[7]).unwrap(), kv.check()), (100, Some(vec![7; 50]), vec![]));
        let table = kv.open_table("t").unwrap();
        assert_eq!(kv.open_version("monday").unwrap().len(), 100);
        let refused = |result: Result<(), Error>| {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::ReadOnly { .. }) && error.kind() == ErrorKind::ReadOnly, "{error}");
        };
        refused(kv.put(b"new", b""));
        refused(kv.delete(&[1]).map(drop));
        refused(table.put(b"k", b"w"));
        refused(kv.create_table("more").map(drop));
        refused(kv.drop_table("t"));
        refused(kv.name_version("tuesday").map(drop));
        refused(kv.remove_version("monday"));
        refused(kv.rename_versions(&["monday"], "tuesday").map(drop));
        refused(kv.restore_version("monday"));
        refused(kv.increment::<u64>(b"n", 1).map(drop));
        refused(kv.transact(|tx| tx.put(b"new", b"")).map(drop));
        refused(ExpiringTable::open_or_create(&kv, "e", SystemClock).map(drop));
        let mut batch = kv.batch();
        batch.delete_range::<[u8]>(..).unwrap();
        refused(batch.commit().map(drop));
        let _nothing = kv.batch().commit().unwrap();
        kv.reclaim().map_or_else(|error| refused(Err(error)), drop);
        refused(Kv::create(store, "another").map(drop));
        refused(HashTable::create(store, "another").map(drop));
        assert_eq!((kv.len(), kv.tables().unwrap().len(), table.get(b"k").unwrap()), (100, 1, Some(b"v".to_vec())));
        let hashed = HashTable::open(store, "hashed").unwrap();
        assert_eq!((hashed.len(), hashed.get(&[7]).unwrap(), hashed.check()), (100, Some(vec![7; 50]), vec![]));
        refused(hashed.put(b"new", b""));
        refused(hashed.delete(&[1]).map(drop));
        assert_eq!((hashed.len(), hashed.get(&[1]).unwrap()), (100, Some(vec![1; 50])));
    }
    drop((store, beside));
    assert!(std::fs::read(&path).unwrap() == before, "the file has changed");
    let store = Store::open(&path, &media).unwrap();
    Kv::open(&store, "kv").unwrap().put(b"new", b"written").unwrap();
}

/// On a backend that processes share, too: readers beside each other, and none beside a writer,
/// whether it has the store alone or shared.
#[test]
fn a_store_in_shared_memory_is_read_beside_readers_alone() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("store");
    let media = Options { backend: BackendChoice::Shm, ..Options::default() };
    let options = CreateOptions { media: media.clone(), max: 64 << 20, ..CreateOptions::default() };
    let read_only = || Store::options(&path).read_only().open(&media);
    let store = Store::create(&path, &options).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    kv.put(b"key", b"value").unwrap();
    assert_eq!(read_only().map(drop).unwrap_err().kind(), ErrorKind::Busy);
    drop((kv, store));
    let store = Store::options(&path).shared().open(&media).unwrap();
    let kv = Kv::open(&store, "kv").unwrap();
    assert_eq!(read_only().map(drop).unwrap_err().kind(), ErrorKind::Busy);
    kv.put(b"key", b"newer").unwrap();
    drop((kv, store));
    let (store, beside) = (read_only().unwrap(), read_only().unwrap());
    for store in [&store, &beside] {
        assert_eq!(Kv::open(store, "kv").unwrap().get(b"key").unwrap().as_deref(), Some(&b"newer"[..]));
    }
    assert_eq!(Store::open(&path, &media).map(drop).unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(Store::options(&path).shared().open(&media).map(drop).unwrap_err().kind(), ErrorKind::Busy);
}

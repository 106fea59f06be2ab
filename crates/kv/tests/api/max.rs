//! The declared maximum of a store: what bounds it is room on the disk, and one table may have
//! nearly all of that.

use everbyte_kv::Kv;
use everbyte_media::{BackendChoice, Durability, Options};
use everbyte_store::{CreateOptions, Store};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const MAX: u64 = 16 << 20;
const VALUE: usize = 16000;

fn options(backend: BackendChoice) -> Options {
    // syncs take the time of this test
    Options { backend, durability: Durability::Process, ..Options::default() }
}

fn create(path: &Path, backend: BackendChoice) -> Store {
    Store::create(path, &CreateOptions { media: options(backend), max: MAX, ..CreateOptions::default() }).unwrap()
}

fn value(number: u64) -> Vec<u8> {
    number.to_le_bytes().iter().copied().cycle().take(VALUE).collect()
}

/// Puts from `first` on until that is refused; the number that was.
fn fill(table: &Kv, first: u64) -> u64 {
    for number in first.. {
        if let Err(refused) = table.put(&number.to_be_bytes(), &value(number)) {
            assert!(refused.to_string().contains("`--max`"), "{refused}");
            return number;
        }
    }
    unreachable!("there is an end to every store")
}

fn holds(table: &Kv, numbers: std::ops::Range<u64>) {
    for number in numbers {
        assert_eq!(table.get(&number.to_be_bytes()).unwrap(), Some(value(number)), "{number}");
    }
}

fn each_backend(test: impl Fn(&Path, BackendChoice)) {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    test(&memory.path().join("store"), BackendChoice::Shm);
    let disk = tempfile::tempdir().unwrap();
    test(&disk.path().join("store"), BackendChoice::File);
}

fn is_within(path: &Path) {
    let file = path.metadata().unwrap();
    assert!(file.blocks() * 512 <= MAX && file.len() <= 2 * MAX, "{} bytes, {} blocks", file.len(), file.blocks());
}

#[test]
fn one_table_may_have_all_of_the_maximum_and_is_refused_more() {
    each_backend(|path, backend| {
        let store = create(path, backend);
        let table = Kv::create(&store, "all").unwrap();
        let end = fill(&table, 0);
        assert!(end * VALUE as u64 >= MAX * 8 / 10, "{backend:?}: {end} values");
        is_within(path);
        holds(&table, 0..end);
        for number in 0..end / 2 {
            assert!(table.delete(&number.to_be_bytes()).unwrap());
        }
        let more = fill(&table, end);
        assert!(more - end >= end / 2 * 9 / 10, "{backend:?}: {} of {} again", more - end, end / 2);
        drop(table);
        store.close().unwrap();
        drop(store);

        let store = Store::open(path, &options(backend)).unwrap();
        let table = Kv::open(&store, "all").unwrap();
        holds(&table, end / 2..more);
        let last = fill(&table, more);
        assert!(last - more < end / 10, "{backend:?}: {} more", last - more);
        is_within(path);
        assert!(table.delete(&more.saturating_sub(1).to_be_bytes()).unwrap());
        assert_eq!(store.check(), []);
        drop(table);
        // More for it, and the same table goes on: its span was chosen for what the store could
        // hold.
        store.grow(2 * MAX).unwrap();
        assert_eq!(store.max(), 2 * MAX);
        Kv::create(&store, "second").unwrap().put(b"key", &value(7)).unwrap();
    });
}

#[test]
fn a_second_table_has_what_the_first_left_and_what_it_gives_back() {
    each_backend(|path, backend| {
        let store = create(path, backend);
        let [first, second] = ["first", "second"].map(|name| Kv::create(&store, name).unwrap());
        let some = MAX * 4 / 10 / VALUE as u64;
        (0..some).for_each(|number| first.put(&number.to_be_bytes(), &value(number)).unwrap());
        let rest = fill(&second, 0);
        assert!((some + rest) * VALUE as u64 >= MAX * 8 / 10, "{backend:?}: {some} and {rest}");
        is_within(path);
        holds(&first, 0..some);
        drop(first);
        store.remove_object("first").unwrap();
        let more = fill(&second, rest);
        assert!(more - rest >= some * 9 / 10, "{backend:?}: {} of {some}", more - rest);
        holds(&second, 0..more);
        is_within(path);
    });
}

#[test]
fn senseless_maxima_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    for (max, word) in [(0, "`--max`"), (100 << 10, "`--max`"), (u64::MAX, "64 TiB"), ((1 << 46) + 1, "64 TiB")] {
        let refused = Store::create(&path, &CreateOptions { max, ..CreateOptions::default() }).expect_err("refused");
        assert!(refused.to_string().contains(word), "{max}: {refused}");
        assert!(!path.exists());
    }
    for max in [512 << 10, 1 << 46] {
        let store = Store::create(&path, &CreateOptions { max, ..CreateOptions::default() }).unwrap();
        assert_eq!(store.max(), max);
        Kv::create(&store, "table").unwrap().put(b"key", b"value").unwrap();
        drop(store);
        std::fs::remove_file(&path).unwrap();
    }
}

//! The file of a store is at most twice as long as what was ever backed in it, and a fixed part.

use everbyte_media::{BackendChoice, Options};
use everbyte_store::{CLUSTER, CreateOptions, Error, ObjectOptions, Store};
use std::path::Path;

const MIB: u64 = 1 << 20;
/// Heads, table, map, and the smallest chunks of the bitmaps.
const FIXED: u64 = 3 * MIB;

fn create(path: &Path, backend: BackendChoice) -> (Store, u64) {
    let media = Options { backend, log_room: MIB, ..Options::default() };
    let store = Store::create(path, &CreateOptions { media, ..CreateOptions::default() }).unwrap();
    (store, if backend == BackendChoice::File { MIB } else { 0 })
}

fn len(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// Bytes that a grown log of `room` adds: clusters that are used again are zeroed through it, and
/// the slower the disk is, the more it grows. As many bytes again may be backed for its next growth
/// (ROOM-1), and its chunks may be twice as long.
fn grown(room: u64) -> u64 {
    2 * (2 * room)
}

/// Objects `range`, of large spans, each grown by a MiB at a time in turn with the others.
fn grow(store: &Store, range: std::ops::Range<u64>, mib: u64) {
    let span = ObjectOptions { span: Some(1 << 37), ..ObjectOptions::default() };
    let make = |number| store.create_object(&format!("table-{number}"), span, |_| Ok::<(), Error>(())).unwrap();
    let objects: Vec<_> = range.map(make).collect();
    for _ in 0..mib {
        for object in &objects {
            let range = object.grow(MIB).unwrap();
            store.media().store(range.end - 8, range.end);
        }
    }
    objects.iter().for_each(|object| assert_eq!(store.media().load(object.backed() - 8), object.backed().get()));
}

#[test]
fn a_store_is_at_most_twice_as_long_as_what_was_ever_backed() {
    for backend in [BackendChoice::File, BackendChoice::Shm] {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        for (count, mib) in [(1, 24), (8, 3)] {
            let path = dir.path().join(format!("{count}.store"));
            let (store, log) = create(&path, backend);
            assert!(len(&path) <= FIXED + log, "{backend:?}: a new store has {} bytes", len(&path));
            grow(&store, 0..count, mib);
            let bound = 2 * (count * mib * MIB + log) + FIXED;
            assert!(len(&path) <= bound, "{backend:?}, {count} objects: {} bytes, {bound} expected", len(&path));
            // Objects that come where others were.
            for _ in 0..3 {
                (0..count).for_each(|number| store.remove_object(&format!("table-{number}")).unwrap());
                store.trim().unwrap();
                grow(&store, 0..count, mib);
            }
            let (log, len) = (store.info().log_room, len(&path));
            let bound = bound + grown(log);
            assert!(len <= bound, "{backend:?}, {count} objects, remade: {len} bytes with a log of {log}");
            store.close().unwrap();
        }
    }
}

#[test]
fn a_store_of_two_thousand_objects_is_short_too() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("a.store");
    let (store, _) = create(&path, BackendChoice::Shm);
    let span = ObjectOptions { span: Some(1 << 26), ..ObjectOptions::default() };
    for number in 0..2000_u64 {
        let object = store.create_object(&format!("object-{number}"), span, |_| Ok::<(), Error>(())).unwrap();
        object.set_root(number);
    }
    let backed = store.info().backed;
    assert!(len(&path) <= 2 * backed + FIXED, "{} bytes for {backed}", len(&path));
    drop(store);
    let store = Store::open(&path, &Options::default()).unwrap();
    (0..2000).for_each(|number| assert_eq!(store.object(&format!("object-{number}")).unwrap().root(), number));
}

/// Objects that come elsewhere, round by round: smaller spans lie between larger ones, so that no
/// address is used twice.
#[test]
fn a_store_is_short_whatever_was_removed_from_it() {
    for (backend, count) in
        [(BackendChoice::File, 1), (BackendChoice::Shm, 1), (BackendChoice::File, 8), (BackendChoice::Shm, 8)]
    {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("a.store");
        let options = Options { backend, log_room: MIB, ..Options::default() };
        let (mut store, log) = create(&path, backend);
        let each = 16 / count;
        let bound = 2 * (16 * MIB + log) + FIXED;
        for round in 0..6 {
            let span = ObjectOptions { span: Some(1 << (24 + round)), ..ObjectOptions::default() };
            let made: Vec<u64> = (0..count)
                .map(|number| {
                    let object =
                        store.create_object(&format!("{round}-{number}"), span, |_| Ok::<(), Error>(())).unwrap();
                    object.grow(each * MIB - CLUSTER).unwrap();
                    store.media().store(object.backed() - 8, round);
                    object.backed().get() - 8
                })
                .collect();
            let (log, len) = (store.info().log_room, len(&path));
            assert!(len <= bound + grown(log), "{backend:?}, {count}, round {round}: {len} bytes with a log of {log}");
            made.iter().for_each(|&at| assert_eq!(store.media().load(at), round));
            (0..count).for_each(|number| store.remove_object(&format!("{round}-{number}")).unwrap());
            // Either frees what the objects had.
            if round % 2 == 0 {
                store.trim().unwrap();
            } else {
                store.close().unwrap();
                drop(store);
                store = Store::open(&path, &options).unwrap();
            }
            assert_eq!(store.check(), []);
        }
    }
}

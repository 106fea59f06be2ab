//! Clusters that are prepared for growing objects, and for the next new object.

use everbyte_media::{BackendChoice, Options};
use everbyte_store::{CLUSTER, CreateOptions, Error, Object, ObjectOptions, Store};
use std::path::Path;

const MIB: u64 = 1 << 20;

fn options(backend: BackendChoice) -> Options {
    Options { backend, ..Options::default() }
}

fn create(path: &Path, backend: BackendChoice) -> Store {
    Store::create(path, &CreateOptions { media: options(backend), max: 1 << 30, bound: false }).unwrap()
}

fn object(store: &Store, name: &str) -> Object {
    let span = ObjectOptions { span: Some(128 * CLUSTER), ..ObjectOptions::default() };
    store.create_object(name, span, |_| Ok::<(), Error>(())).unwrap()
}

/// Grows by so many clusters, one by one, each of zeros until it is filled.
fn grow(object: &Object, clusters: u64) {
    for _ in 0..clusters {
        let range = object.grow(CLUSTER).unwrap();
        assert_eq!(object.media().read_vec(range.start, CLUSTER as usize), vec![0; CLUSTER as usize]);
        object.media().write(range.start, &vec![0xe5; CLUSTER as usize]);
        object.media().flush(range.start, CLUSTER);
    }
}

/// Prepared clusters are ready when the store rests, go to the next object that grows, and go back
/// to the file system with the store.
#[test]
fn an_object_that_goes_on_growing_finds_room_prepared() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.store");
    let store = create(&path, BackendChoice::Shm);
    let grown = object(&store, "grown");
    grow(&grown, 16);
    store.clear_released();
    assert_eq!(store.info().waiting, 0, "the store does not expect further growth yet");
    grow(&grown, 1);
    store.clear_released();
    let ready = store.info().waiting;
    assert!((MIB..=3 * MIB).contains(&ready), "{ready}");
    grow(&grown, 1);
    store.clear_released();
    assert_eq!(store.info().waiting, ready - CLUSTER, "and no more until half of it is used");
    grow(&grown, 100);
    store.clear_released();
    assert!(store.info().waiting <= 10 * CLUSTER, "what is left of its addresses");

    let other = object(&store, "other");
    other.grow(4 * MIB).unwrap();
    store.clear_released();
    assert!(store.info().waiting <= 10 * CLUSTER, "one growth is no habit");
    drop((grown, other));
    store.close().unwrap();
    drop(store);
    let store = Store::open(&path, &options(BackendChoice::Shm)).unwrap();
    assert_eq!((store.recovery().unknown, store.info().waiting, store.check()), (0, 0, vec![]));
    let grown = store.object("grown").unwrap();
    let first = grown.prime() + CLUSTER;
    assert_eq!(grown.media().read_vec(first, 118 * CLUSTER as usize), vec![0xe5; 118 * CLUSTER as usize]);
    grow(&grown, 9);
}

/// After sixteen, the first cluster of the next is ready; other stores prepare nothing.
#[test]
fn one_who_makes_many_objects_finds_the_next_prepared() {
    for (backend, shared, ready) in
        [(BackendChoice::Shm, false, CLUSTER), (BackendChoice::Shm, true, 0), (BackendChoice::File, false, 0)]
    {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.store");
        let store = create(&path, backend);
        store.close().unwrap();
        drop(store);
        let opened = |path: &std::path::Path, options: &Options| {
            let open = Store::options(path);
            if shared { open.shared() } else { open }.open(options)
        };
        let store = opened(&path, &options(backend)).unwrap();
        let objects: Vec<Object> = (0..24).map(|number| object(&store, &format!("{number}"))).collect();
        grow(&objects[3], 24);
        store.clear_released();
        let waiting = store.info().waiting;
        assert!(if ready == 0 { waiting == 0 } else { waiting > ready }, "{backend:?}, {shared}: {waiting}");
        grow(&object(&store, "next"), 2);
        assert_eq!(store.check(), []);
    }
}

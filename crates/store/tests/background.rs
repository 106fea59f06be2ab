//! Released clusters that are kept for their next owner: by a thread that ends with the store, and
//! until it ends.
//!
//! One test, since it counts the threads of its process.

use everbyte_media::{BackendChoice, Options};
use everbyte_store::{CLUSTER, CreateOptions, Error, Object, ObjectOptions, Store};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// More than the thread is called for.
const MANY: u64 = 64 * CLUSTER;

fn grown(store: &Store, name: &str) -> Object {
    let options = ObjectOptions { span: Some(256 * CLUSTER), ..ObjectOptions::default() };
    let object = store.create_object(name, options, |object| object.grow(MANY).map(drop));
    let object: Object = object.map_err(|error: Error| error).unwrap();
    let (at, media) = (object.prime() + CLUSTER, object.media());
    assert_eq!(media.read_vec(at, MANY as usize), vec![0; MANY as usize], "no owner reads the bytes of another");
    media.write(at, &vec![0xe5; MANY as usize]);
    media.flush(at, MANY);
    object
}

/// Threads of this process that clear.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "everbyte-clear").count()
}

/// Returns when the threads that were waited for are struck off the kernel's list, which is a
/// moment later.
fn ended() {
    while threads() > 0 {
        std::thread::yield_now();
    }
}

fn allocated(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn released_clusters_are_kept_cleared_and_given_back_when_the_store_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.store");
    let media = Options { backend: BackendChoice::Shm, ..Options::default() };
    let create = CreateOptions { media: media.clone(), max: 1 << 30, bound: false };
    let store = Store::create(&path, &create).unwrap();
    assert_eq!(threads(), 0, "a store that releases nothing has none");
    for round in 0..8 {
        let object = grown(&store, "object");
        if round % 2 == 0 {
            object.release(object.prime() + CLUSTER..object.backed()).unwrap();
        }
        drop(object);
        store.remove_object("object").unwrap();
        if round % 3 == 0 {
            store.clear_released();
        }
        assert_eq!((threads(), store.info().backed), (1, 0));
        assert!(store.info().waiting <= MANY + CLUSTER);
    }
    store.clear_released();
    assert_eq!(store.info().waiting, MANY + CLUSTER, "kept for who comes next");
    assert!(allocated(&path) > MANY);
    assert_eq!(store.check(), []);
    assert!(store.trim().unwrap() >= MANY);
    assert_eq!(store.info().waiting, 0);
    assert!(allocated(&path) < MANY / 4, "given back on request");

    let object = grown(&store, "object");
    object.release(object.prime() + CLUSTER..object.backed()).unwrap();
    drop(object);
    store.close().unwrap();
    ended();
    assert!(allocated(&path) < MANY / 4, "given back by who closes");
    drop(store);
    let store = Store::open(&path, &media).unwrap();
    store.remove_object("object").unwrap();
    drop(grown(&store, "other"));
    store.remove_object("other").unwrap();
    drop(store); // not closed
    ended();
    assert!(allocated(&path) < MANY / 4, "nothing stays of what was kept");
}

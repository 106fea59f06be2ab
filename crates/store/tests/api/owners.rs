//! A cluster goes from one object to another: the new owner reads no byte of the former one.

use everbyte_media::{BackendChoice, Options};
use everbyte_store::{CLUSTER, CreateOptions, Error, HEADER_LEN, Object, ObjectOptions, Store};
use std::ops::Range;
use std::path::Path;

fn options(backend: BackendChoice) -> Options {
    Options { backend, log_bytes: 4 << 20, ..Options::default() }
}

/// An object of so many clusters, which reads as zeros.
fn make(store: &Store, name: &str, clusters: u64) -> Object {
    let options = ObjectOptions { span: Some(8 * CLUSTER), ..ObjectOptions::default() };
    let grow = |object: &Object| object.grow((clusters - 1) * CLUSTER).map(drop);
    let object = store.create_object::<Error>(name, options, grow).unwrap();
    require_zeros(&object, (object.prime() + HEADER_LEN).get()..object.backed().get());
    object
}

fn require_zeros(object: &Object, range: Range<u64>) {
    let bytes = object.media().read_vec(range.start, (range.end - range.start) as usize);
    let left = bytes.iter().position(|&byte| byte != 0);
    assert_eq!(left, None, "`{}` reads the bytes of another owner", object.name());
}

fn fill(object: &Object) {
    let (start, end) = (object.prime() + HEADER_LEN, object.backed());
    let _section = object.media().section();
    object.media().write(start, &vec![0xe5; (end - start).to_usize()]);
    object.media().flush(start, end - start);
}

fn each_backend(story: impl Fn(&Path, &Options)) {
    for backend in [BackendChoice::Shm, BackendChoice::File] {
        let dir = tempfile::tempdir().unwrap();
        let (path, media) = (dir.path().join("a.store"), options(backend));
        drop(Store::create(&path, &CreateOptions { media: media.clone(), max: 64 << 20, bound: false }).unwrap());
        story(&path, &media);
    }
}

#[test]
fn what_one_object_stored_no_other_reads() {
    each_backend(|path, options| {
        let store = Store::open(path, options).unwrap();
        let first = make(&store, "first", 8);
        let place = first.span();
        fill(&first);
        drop(first);
        store.remove_object("first").unwrap();
        let second = make(&store, "second", 8);
        assert_eq!(second.span(), place, "a cluster that another had");
        fill(&second);
        let middle = place.start + 2 * CLUSTER..place.start + 5 * CLUSTER;
        second.release(middle.clone()).unwrap();
        second.back(middle.clone()).unwrap();
        require_zeros(&second, middle);
        assert_eq!(store.check(), []);
    });
}

/// A process that dies leaves the store as it is at that moment; on `file` without the bytes that
/// were not settled.
#[test]
fn nor_after_the_death_of_who_removed_it() {
    each_backend(|path, options| {
        let store = Store::open(path, options).unwrap();
        let first = make(&store, "first", 8);
        let place = first.span();
        fill(&first);
        first.media().barrier().unwrap();
        drop(first);
        store.remove_object("first").unwrap();
        let media = store.media().clone();
        drop(store); // not closed
        media.abandon();
        let store = Store::open(path, options).unwrap();
        assert!(!store.recovery().clean);
        let second = make(&store, "second", 8);
        assert_eq!(second.span(), place, "a cluster that another had");
        assert_eq!(store.check(), []);
    });
}

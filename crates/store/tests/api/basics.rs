//! The story of a store file: made, filled, closed, opened, and used by one process at a time.

use everbyte_media::{BackendChoice, Media, Offset, Options};
use everbyte_store::{CLUSTER, CreateOptions, Engine, Error, FindingKind, FormatOptions, ObjectOptions, Store};
use std::path::Path;

fn options(backend: BackendChoice) -> Options {
    Options { backend, log_bytes: 256 << 10, ..Options::default() }
}

fn create(path: &Path, backend: BackendChoice) -> Store {
    Store::create(path, &CreateOptions { media: options(backend), max: 64 << 20, ..CreateOptions::default() }).unwrap()
}

fn object(engine: Engine, span: u64) -> ObjectOptions {
    ObjectOptions { engine, fingerprint: 0xfeed, span: Some(span) }
}

#[test]
fn what_was_settled_is_there_after_reopening_on_every_backend() {
    for backend in [BackendChoice::File, BackendChoice::Shm] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.store");
        let store = create(&path, backend);
        let identity = store.identity();
        let made = store
            .create_object("shop/orders", object(Engine::Undo, 1 << 20), |object| {
                assert_eq!(object.root(), 0);
                let room = object.grow(CLUSTER + 1)?;
                assert_eq!(room, (object.prime() + CLUSTER).get()..object.prime().get() + 3 * CLUSTER);
                object.media().write(room.start, b"forty-two");
                object.media().flush(room.start, 9);
                object.set_root(room.start);
                Ok::<(), Error>(())
            })
            .unwrap();
        let root = made.root();
        drop(made);
        store.close().unwrap();
        drop(store);

        let store = Store::open(&path, &options(backend)).unwrap();
        assert!(store.recovery().clean, "{:?}", store.recovery());
        assert_eq!(store.identity(), identity);
        let object = store.object("shop/orders").unwrap();
        assert_eq!(object.root(), root);
        assert_eq!(object.media().read_vec(root, 9), b"forty-two");
        assert_eq!(object.backed(), object.prime() + 3 * CLUSTER);
        object.require_engine(Engine::Undo).unwrap();
        object.require_fingerprint(0xfeed).unwrap();
        assert!(matches!(object.require_engine(Engine::Cdds), Err(Error::WrongEngine { .. })));
        assert!(matches!(object.require_fingerprint(1), Err(Error::WrongFingerprint { .. })));
        assert_eq!(store.check(), []);
        assert_eq!(store.info().backed, 3 * CLUSTER);
    }
}

#[test]
fn names_are_found_listed_in_order_refused_and_removed() {
    let store =
        Store::format(Media::anonymous(4 << 20, &Options::default()).unwrap(), &FormatOptions::default()).unwrap();
    for name in ["b", "a/z", "a", "ö"] {
        store.create_object(name, object(Engine::None, CLUSTER), |_| Ok::<(), Error>(())).unwrap();
    }
    let names = |store: &Store| store.objects().unwrap().into_iter().map(|object| object.name).collect::<Vec<_>>();
    assert_eq!(names(&store), ["a", "a/z", "b", "ö"]);
    let again = store.create_object("a", ObjectOptions::default(), |_| Ok::<(), Error>(()));
    assert!(matches!(again, Err(Error::Exists { .. })));
    let bad = store.create_object("a/", ObjectOptions::default(), |_| Ok::<(), Error>(()));
    assert!(matches!(bad, Err(Error::BadName { .. })));
    assert!(matches!(store.object("zz"), Err(Error::NotFound { .. })));

    let open = store.object("b").unwrap();
    assert!(matches!(store.remove_object("b"), Err(Error::Open { .. })));
    drop(open);
    store.remove_object("b").unwrap();
    assert!(matches!(store.object("b"), Err(Error::NotFound { .. })));
    assert_eq!(names(&store), ["a", "a/z", "ö"]);
    assert_eq!(store.check(), []);
}

#[test]
fn a_failed_or_panicking_init_leaves_nothing() {
    let store =
        Store::format(Media::anonymous(4 << 20, &Options::default()).unwrap(), &FormatOptions::default()).unwrap();
    let failed = store.create_object("x", object(Engine::None, 1 << 20), |object| {
        object.grow(5 * CLUSTER)?;
        Err(Error::BadOption { detail: "no".into() })
    });
    assert!(matches!(failed, Err(Error::BadOption { .. })));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.create_object("x", object(Engine::None, 1 << 20), |object| -> Result<(), Error> {
            object.grow(5 * CLUSTER)?;
            panic!("in init")
        })
    }));
    assert!(panicked.is_err());
    assert!(store.objects().unwrap().is_empty());
    assert_eq!(store.info().backed, 0);
    assert_eq!(store.check(), []);
    store.create_object("x", object(Engine::None, 2 << 20), |_| Ok::<(), Error>(())).unwrap();
}

#[test]
fn a_full_span_says_so_and_changes_nothing() {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let small = store.create_object("small", object(Engine::None, 2 * CLUSTER), |_| Ok::<(), Error>(())).unwrap();
    assert!(matches!(small.grow(CLUSTER + 1), Err(Error::SpanFull { left: CLUSTER, .. })));
    assert!(matches!(small.grow(u64::MAX), Err(Error::SpanFull { .. })));
    small.grow(1).unwrap();
    assert!(matches!(small.grow(1), Err(Error::SpanFull { left: 0, .. })));
    assert_eq!(small.grow(0).unwrap(), small.backed().get()..small.backed().get());
}

/// A store too small for a trie holds what its table has room for, but for the record that a trie
/// would take.
#[test]
fn a_full_table_without_room_for_a_trie_says_so_and_changes_nothing() {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let make = |name: &str, span: u64| store.create_object(name, object(Engine::None, span), |_| Ok::<(), Error>(()));
    for bits in (16..=25).rev() {
        while make(&format!("filler {bits} {}", store.info().objects), 1 << bits).is_ok() {}
    }
    let before = store.names("").unwrap();
    let error = store.index_names().unwrap_err();
    assert!(matches!(error, Error::NoSpan { .. }), "{error}");
    assert_eq!((store.names("").unwrap(), store.check()), (before, vec![]));
}

#[test]
fn released_clusters_come_back_as_zeros() {
    let store =
        Store::format(Media::anonymous(4 << 20, &Options::default()).unwrap(), &FormatOptions::default()).unwrap();
    let made = store.create_object("x", object(Engine::None, 1 << 20), |_| Ok::<(), Error>(())).unwrap();
    let room = made.grow(4 * CLUSTER).unwrap();
    store.media().write(room.start + 7, b"old");
    for bad in [
        made.prime()..Offset::new(room.start),
        Offset::new(room.start + 1)..Offset::new(room.end),
        Offset::new(room.start)..Offset::new(room.end + CLUSTER),
        Offset::new(room.end)..Offset::new(room.start),
    ] {
        assert!(matches!(made.release(bad), Err(Error::BadRange { .. })));
    }
    made.release(room.start..room.start + 2 * CLUSTER).unwrap();
    assert!(!made.is_backed(room.start) && made.is_backed(room.start + 2 * CLUSTER));
    assert_eq!(made.holes(), std::slice::from_ref(&(room.start..room.start + 2 * CLUSTER)));
    assert_eq!(store.check(), []);
    made.back(room.start..room.start + CLUSTER).unwrap();
    assert_eq!(store.media().read_vec(room.start, 64), [0; 64]);
    assert_eq!(made.holes(), std::slice::from_ref(&(room.start + CLUSTER..room.start + 2 * CLUSTER)));
}

#[test]
fn a_second_opening_is_told_who_holds_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.store");
    let store = create(&path, BackendChoice::Auto);
    let error = Store::open(&path, &options(BackendChoice::Auto)).unwrap_err();
    assert!(matches!(error, Error::Media(everbyte_media::Error::InUse { .. })));
    let text = error.to_string();
    assert!(text.contains(&format!("in use by this process (pid {})", std::process::id())), "{text}");
    drop(store);
    Store::open(&path, &options(BackendChoice::Auto)).unwrap();
}

#[test]
fn the_default_store_is_sparse_and_gives_half_of_itself_to_the_first_object() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.store");
    let store = Store::create(&path, &CreateOptions::default()).unwrap();
    let first = store.create_object("kv", ObjectOptions::default(), |_| Ok::<(), Error>(())).unwrap();
    assert_eq!(first.span(), 2 << 40..4 << 40);
    let second = store.create_object("kv2", ObjectOptions::default(), |_| Ok::<(), Error>(())).unwrap();
    assert_eq!(second.span(), 1 << 40..2 << 40);
    assert!(store.check().iter().all(|finding| finding.kind == FindingKind::Note));
    use std::os::unix::fs::MetadataExt;
    drop((first, second));
    store.close().unwrap();
    let blocks = std::fs::metadata(&path).unwrap().blocks() * 512;
    assert!(blocks < 320 << 20, "{blocks} bytes on disk");
}

//! Bound stores: at one address for life, or not open.

use everbyte_media::{BackendChoice, Error as MediaError, OpenOptions, Options, binding};
use everbyte_store::{CreateOptions, Error, ObjectOptions, Store};
use std::path::Path;

const BACKENDS: [BackendChoice; 2] = [BackendChoice::File, BackendChoice::Shm];

fn options(backend: BackendChoice) -> Options {
    Options { backend, log_bytes: 256 << 10, ..Options::default() }
}

/// Small, so that no two that are closed and opened again while others are open ever lie at one
/// place.
fn create(path: &Path, backend: BackendChoice) -> Result<Store, Error> {
    Store::create(path, &CreateOptions { media: options(backend), max: 16 << 20, bound: true })
}

fn address(store: &Store) -> u64 {
    store.media().address().addr().get() as u64
}

#[test]
fn a_bound_store_lies_where_it_did_and_plain_pointers_into_it_stay_true() {
    for backend in BACKENDS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bound.store");
        let store = create(&path, backend).unwrap();
        let home = store.info().binding.unwrap();
        assert!(binding::WINDOW.contains(&home), "{home:#x}");
        assert_eq!(address(&store), home);
        let object = store.create_object("list", ObjectOptions::default(), |_| Ok::<(), Error>(())).unwrap();
        let pointer = home + object.root_at().get();
        object.set_root(pointer);
        drop(object);
        store.close().unwrap();
        drop(store);
        for _ in 0..3 {
            let store = Store::open(&path, &options(backend)).unwrap();
            assert_eq!((address(&store), store.info().binding), (home, Some(home)));
            assert_eq!(store.object("list").unwrap().root(), pointer);
            store.close().unwrap();
        }
    }
}

#[test]
fn a_taken_address_is_refused_and_its_holder_named() {
    for backend in BACKENDS {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("bound.store"), dir.path().join("copy.store"));
        create(&path, backend).unwrap().close().unwrap();
        Store::clone_file(&path, &copy, &options(backend), &mut |_, _| {}).unwrap();
        let store = Store::open(&path, &options(backend)).unwrap();
        let home = address(&store);
        let before = std::fs::read(&copy).unwrap();
        let refused = Store::open(&copy, &options(backend)).unwrap_err();
        let Error::Media(MediaError::AddressTaken { address, holder, .. }) = &refused else { panic!("{refused}") };
        assert_eq!(*address, home);
        assert!(holder.contains("bound.store at"), "{refused}");
        assert_eq!(std::fs::read(&copy).unwrap(), before, "changed though refused");
        // To look at it needs no pointers.
        let seen = Store::options(&copy).read_only().open(&options(backend)).unwrap();
        assert_eq!(seen.info().binding, Some(home));
        drop(seen);
        drop(store);
        let copy = Store::open(&copy, &options(backend)).unwrap();
        assert_eq!((self::address(&copy), copy.check()), (home, vec![]));
    }
}

#[test]
fn bound_stores_share_a_process_and_differ_from_unbound_ones() {
    let dir = tempfile::tempdir().unwrap();
    let one = create(&dir.path().join("one"), BackendChoice::Shm).unwrap();
    let two = create(&dir.path().join("two"), BackendChoice::Shm).unwrap();
    assert_ne!(address(&one), address(&two));
    let unbound = Store::create(&dir.path().join("three"), &CreateOptions::default()).unwrap();
    assert_eq!(unbound.info().binding, None);
    assert!(!binding::WINDOW.contains(&address(&unbound)));
}

#[test]
fn more_than_the_window_holds_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.store");
    let large = CreateOptions { max: 48 << 40, bound: true, ..CreateOptions::default() };
    let refused = Store::create(&path, &large).unwrap_err();
    assert!(matches!(refused, Error::BadOption { .. }), "{refused}");
    assert!(!path.exists());
    create(&path, BackendChoice::File).unwrap().close().unwrap();
    let home = Store::open(&path, &options(BackendChoice::File)).unwrap().info().binding.unwrap();
    let beyond = binding::WINDOW.end - home + (2 << 20);
    let refused = OpenOptions::new(&path).grown(beyond).open(&options(BackendChoice::File)).unwrap_err();
    assert!(matches!(refused, MediaError::Unsupported { .. }), "{refused}");
    OpenOptions::new(&path).grown(32 << 20).open(&options(BackendChoice::File)).unwrap();
    assert_eq!(Store::open(&path, &options(BackendChoice::File)).unwrap().info().binding, Some(home));
}

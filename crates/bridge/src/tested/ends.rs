//! Openings of pools and roots, and their ends.

use super::*;
use crate::handle::{self, RawOptions, close, close_root, require_open, sync, was_closed};
use everbyte_media::Durability;
use everbyte_object::raw::Raw;
use everbyte_store::CreateOptions;
use std::path::Path;

pool!(Other);

/// Committed transactions of a pool that is written, not synced, until `sync`.
#[test]
fn sync_makes_durable_what_commits_have_only_written() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let media = Options { durability: Durability::Process, ..Options::default() };
    let options = CreateOptions { media, ..CreateOptions::default() };
    let store = Store::open_or_create(&dir.path().join("store"), &options).unwrap();
    drop(Explored::create::<OwnRoots>(&store, "pool", |_| Roots::default()).unwrap());
    let handle = open(&store).unwrap();
    let list = list(&handle, "list");
    let syncs = || store.media().counts().syncs;
    for value in [1, 2] {
        let before = syncs();
        let ended = txn(|number| {
            list.push(number, value);
            true
        });
        assert_eq!((ended, syncs()), (DONE, before), "a commit is written alone");
        // SAFETY: an open pool.
        assert_done(unsafe { sync::<Named<Explored>, ExploredTag>(list.handle) });
        assert!(syncs() > before);
    }
}

/// Opens the pool `pool` of the store at a path, as C++ does: the status, the handle, the base.
fn open_raw(path: &Path, max: u64, durability: &'static str, create: u32) -> (u32, *const c_void, *const u8) {
    let path: &'static str = String::leak(path.to_str().unwrap().into());
    let [path, name, backend, durability] = [path, "pool", "file", durability].map(RawText::of);
    let options = RawOptions { path, name, backend, durability, max, span: 2 << 20, create, reserved: 0 };
    let (mut handle, mut base) = (std::ptr::null(), std::ptr::null());
    // SAFETY: values and places that live during the call.
    let opened = unsafe { handle::open::<Named<Explored>, ExploredTag>(&options, &mut handle, &mut base) };
    (opened, handle, base)
}

/// `open` and `close`, with the options of C++.
#[test]
fn the_options_of_an_opening_are_those_of_the_store() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    assert_failed(open_raw(&path, 0, "always", 0).0, "store");
    for (max, found, durability) in [(1 << 30, 1 << 30, "interval:60000"), (0, 1 << 30, "process"), (5, 1 << 30, "")] {
        let (opened, handle, base) = open_raw(&path, max, durability, 1);
        assert_done(opened);
        // SAFETY: the handle of an open pool of these types.
        let pool = &unsafe { &*handle.cast::<OwnHandle>() }.pool;
        assert_eq!((pool.store().max().get(), base), (found, everbyte_object::raw::base_of(pool)), "{durability}");
        assert_eq!(pool.store().media().durability(), durability.parse().unwrap_or_default());
        // SAFETY: it is not used any more.
        assert_done(unsafe { close::<Named<Explored>, ExploredTag>(handle) });
        // SAFETY: refused (HANDLE-5).
        assert_failed(unsafe { close::<Named<Explored>, ExploredTag>(handle) }, "no open pool");
    }
}

/// HANDLE-4: the bytes of a handle that is closed inside of a transaction stay, and what the
/// transaction would still do by it is refused.
#[test]
fn a_pool_that_is_closed_inside_of_its_transaction_refuses_its_destructors() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    destroyed::registered(true);
    let (opened, handle, _) = open_raw(&path, 1 << 30, "process", 1);
    assert_done(opened);
    // SAFETY: the handle of an open pool of these types.
    let list = list(unsafe { &*handle.cast::<OwnHandle>() }, "list");
    let mut guard = 0;
    txn(|number| {
        guard = list.make_guard(number, 1, 0);
        true
    });
    let ended = txn(|number| {
        assert_done(list.destroy_guard(number, guard));
        // SAFETY: calls that follow refuse it.
        assert_done(unsafe { close::<Named<Explored>, ExploredTag>(handle) });
        assert!(was_closed(handle), "its bytes are kept");
        assert_failed(list.destroy_guard(number, guard), "no open pool");
        true
    });
    assert_failed(ended, "closed");
    let (opened, handle, _) = open_raw(&path, 0, "process", 0);
    assert_done(opened);
    // SAFETY: as above.
    assert!(owned(unsafe { &*handle.cast::<OwnHandle>() }).unwrap().contains(&guard), "rolled back");
    // SAFETY: it is not used any more.
    assert_done(unsafe { close::<Named<Explored>, ExploredTag>(handle) });
    destroyed::registered(false);
}

/// HANDLE-5: a handle of another pool type is none of this one.
#[test]
fn a_handle_of_another_pool_type_is_refused() {
    let handle = std::ptr::without_provenance(64);
    announce::<OtherTag>(handle);
    assert!(require_open::<OtherTag>(handle).is_ok());
    let refused = require_open::<ExploredTag>(handle).unwrap_err();
    assert!(refused.message().contains("pool type `Explored`: 0x40 is no open pool of it"), "{refused:?}");
}

/// HANDLE-2: the end of one root lets that one alone be opened again.
#[test]
fn a_root_that_ends_leaves_the_others_open() {
    let _alone = alone();
    let (_store, handle) = made();
    let [first, second] = ["first", "second"].map(|name| list(&handle, name));
    // SAFETY: an open pool, and its root.
    assert_done(unsafe { close_root::<Named<Explored>, ExploredTag>(first.handle, first.at.cast()) });
    assert_failed(open_list(&handle, "second", &mut std::ptr::null()), "it is open in this process");
    assert_eq!((list(&handle, "first").at, second.nodes()), (first.at, Vec::new()));
    // Nor is one opened inside of a transaction, which could take it back.
    txn(|_| {
        assert_failed(open_list(&handle, "third", &mut std::ptr::null()), "inside of a transaction");
        true
    });
}

/// A root whose name begins with that of another one.
#[test]
fn roots_are_found_by_their_whole_names() {
    let _alone = alone();
    let (_store, handle) = made();
    let places = ["list 1", "list", "list 2", ""].map(|name| list(&handle, name).at);
    assert_eq!(BTreeSet::from(places).len(), places.len());
}

/// FOREIGN-1: a class that gets a destructor while its objects lie in the pool.
#[test]
fn a_class_that_gets_a_destructor_keeps_it() {
    let _alone = alone();
    let (_store, handle) = made();
    let list = list(&handle, "list");
    let make_one = |has_destructor| {
        let mut at = std::ptr::null();
        let ended = txn(|number| {
            let object = RawObject { has_destructor, ..raw("late", "root late\nlate 8 8 { value: u64 @0 }\n", &7u64) };
            // SAFETY: an open pool, an object that lives during the call.
            assert_done(unsafe { make::<Named<Explored>, ExploredTag>(list.handle, number, &object, &mut at) });
            true
        });
        assert_eq!(ended, DONE);
        at as u64 - list.base as u64
    };
    let destroyed = |offset| {
        let mut gone = DONE;
        txn(|number| {
            // SAFETY: an open pool.
            gone = unsafe { destroy::<Named<Explored>, ExploredTag>(list.handle, number, offset) };
            gone == DONE
        });
        gone
    };
    let before = [make_one(0), make_one(0)];
    assert_done(destroyed(before[0]));
    let after = make_one(1);
    for offset in [before[1], after] {
        assert_failed(destroyed(offset), "class `late`: its objects have a destructor");
    }
    make_one(0); // a program that knows of none takes it from nothing
    assert_failed(destroyed(after), "class `late`: its objects have a destructor");
}

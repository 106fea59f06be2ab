//! A child of fork keeps the mapping of a store that its parent has alone, and what its parent knew
//! when it forked.

use everbyte_media::{BackendChoice, Options};
use everbyte_sim::Forked;
use everbyte_store::{CLUSTER, CreateOptions, Error, Object, ObjectOptions, Store};
use std::ops::Range;

const WORDS: usize = 4096;

fn is_forked<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Media(everbyte_media::Error::Forked { .. })))
}

/// The parent takes what it had released before it forked, and settles words there; the child then
/// does `what`, by which it would give that back to the file system.
fn after_a_child(what: impl FnOnce(&Store, &Object, Range<u64>) -> bool) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let media = Options { backend: BackendChoice::Shm, ..Options::default() };
    let path = dir.path().join("store");
    let store = Store::create(&path, &CreateOptions { max: 1 << 30, media, ..CreateOptions::default() }).unwrap();
    let span = ObjectOptions { span: Some(64 << 20), ..ObjectOptions::default() };
    let object = store.create_object("x", span, |_| Ok::<(), Error>(())).unwrap();
    let room = object.grow(4 << 20).unwrap();
    object.release(room.clone()).unwrap();
    store.clear_released(); // it is cleared, and kept for the next
    let child = Forked::new(|| what(&store, &object, room.clone()));
    object.back(room.clone()).unwrap();
    for at in room.clone().step_by(WORDS) {
        object.media().store(at, at);
        object.media().flush(at, 8);
    }
    object.media().barrier().unwrap();
    assert!(child.run(), "the child is refused");
    assert_eq!(
        room.clone().step_by(WORDS).filter(|&at| object.media().load(at) != at).count(),
        0,
        "settled words are lost"
    );
    drop(object);
    store.close().unwrap();
    drop(store);
    let store = Store::open(&path, &Options::default()).unwrap();
    assert!(store.recovery().clean, "the child has not marked the store");
    assert_eq!(store.check(), []);
}

#[test]
fn a_child_that_closes_the_store_takes_nothing_from_its_parent() {
    after_a_child(|store, _, _| is_forked(store.close()));
}

#[test]
fn a_child_that_gives_room_back_takes_nothing_from_its_parent() {
    after_a_child(|store, object, _| {
        store.clear_released();
        is_forked(store.trim()) && object.punch() == 0
    });
}

#[test]
fn a_child_changes_neither_names_nor_sizes() {
    after_a_child(|store, object, room| {
        let made = store.create_object("y", ObjectOptions::default(), |_| Ok::<(), Error>(()));
        let grown = object.grow(CLUSTER);
        object.forget(room.clone());
        let raised = store.grow(1 << 30);
        is_forked(made)
            && is_forked(grown)
            && is_forked(raised)
            && is_forked(object.release(room.clone()))
            && is_forked(object.back(room))
            && is_forked(store.rename_object("x", "z"))
            && is_forked(store.repair())
            && is_forked(store.rebase([7; 16]))
    });
}

/// Looking is allowed, and so is ending: neither gives anything back.
#[test]
fn a_child_that_drops_the_store_takes_nothing_from_its_parent() {
    after_a_child(|store, object, room| {
        let whole = object.media().load(room.start) == room.start && store.names("").is_ok_and(|names| names == ["x"]);
        // The handles of this process go; the parent's are others.
        drop((store.clone(), object.clone()));
        whole
    });
}

/// An object with a limit that is closed when its parent forks. The child's pager would move
/// clusters that the parent's pager counts, so the child does not open it.
#[test]
fn a_child_opens_no_object_with_a_limit() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let media = Options { backend: BackendChoice::Shm, ..Options::default() };
    let path = dir.path().join("store");
    let create = CreateOptions { max: 1 << 30, media: media.clone(), ..CreateOptions::default() };
    let store = Store::create(&path, &create).unwrap();
    let span = ObjectOptions { span: Some(16 << 20), ..ObjectOptions::default() };
    drop(store.create_object("large", span, |object| object.grow(32 * CLUSTER).map(drop)).unwrap());
    store.set_resident("large", Some(12), None).unwrap();
    store.close().unwrap();
    drop(store); // and with it the mapping that children do not have once it was watched
    let store = Store::open(&path, &media).unwrap();
    let child = Forked::new(|| {
        is_forked(store.object("large"))
            && is_forked(store.set_resident("large", None, None))
            && is_forked(store.set_resident("large", Some(20), None))
    });
    let object = store.object("large").unwrap();
    let words = (object.prime() + CLUSTER).get()..object.backed().get();
    words.clone().step_by(WORDS).for_each(|at| object.media().store(at, at));
    assert!(child.run(), "the child is refused");
    assert_eq!(words.step_by(WORDS).filter(|&at| object.media().load(at) != at).count(), 0);
}

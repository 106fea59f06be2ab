//! Rights of objects, and names that change.

use everbyte_media::{Media, Options};
use everbyte_store::{Access, CLUSTER, Caller, Error, FormatOptions, ObjectOptions, Store, layout};
use std::sync::mpsc::channel;
use std::thread;

fn store() -> (Media, Store) {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    (media.clone(), Store::format(media, &FormatOptions::default()).unwrap())
}

fn make(store: &Store, name: &str) {
    let options = ObjectOptions { span: Some(CLUSTER), ..ObjectOptions::default() };
    drop(
        store
            .create_object(name, options, |object| {
                object.set_root(name.len() as u64);
                Ok::<(), Error>(())
            })
            .unwrap(),
    );
}

fn mode(store: &Store, name: &str) -> u16 {
    store.stat(name).unwrap().access.mode
}

#[test]
fn rights_belong_to_the_maker_and_outlive_the_process() {
    let (media, store) = store();
    make(&store, "mine");
    let access = store.stat("mine").unwrap().access;
    assert_eq!(access, Access::of_new(&Caller::current()));
    assert_eq!(access.mode, 0o660);
    store.chmod("mine", 0o640).unwrap();
    store.chmod("mine", 0o600).unwrap();
    let root = Caller { user: 0, groups: vec![] };
    store.change_access(&root, "mine", |access| Access { owner: 4_000_000_000, group: 7, ..access }).unwrap();
    drop(store);
    let store = Store::attach(media).unwrap();
    let access = store.stat("mine").unwrap().access;
    assert_eq!(access, Access { owner: 4_000_000_000, group: 7, mode: 0o600 });
    assert_eq!(store.check(), []);
}

#[test]
fn who_may_not_change_rights_is_told_so_and_changes_nothing() {
    let (_, store) = store();
    make(&store, "theirs");
    let (root, other) = (Caller { user: 0, groups: vec![] }, Caller { user: 31, groups: vec![32] });
    store.change_access(&root, "theirs", |_| Access { owner: 30, group: 32, mode: 0o664 }).unwrap();
    for new in [0o666, 0o664] {
        let refused = store.change_access(&other, "theirs", |access| Access { mode: new, ..access });
        assert!(matches!(refused, Err(Error::Denied { .. })), "{refused:?}");
    }
    assert!(matches!(store.chmod("theirs", 0o777), Err(Error::BadOption { .. })));
    assert!(matches!(store.chmod("absent", 0o600), Err(Error::NotFound { .. })));
    assert_eq!(mode(&store, "theirs"), 0o664);
}

/// A record of before there were rights is everybody's, until its rights are changed.
#[test]
fn objects_of_before_there_were_rights_are_everybodys() {
    let (media, store) = store();
    make(&store, "old");
    let superblock: layout::Superblock = media.get(0);
    let record: layout::Record = media.get(superblock.table_at);
    let old = layout::Record { access: Default::default(), choice: 0, ..record };
    media.put(superblock.table_at, &old);
    assert_eq!(store.stat("old").unwrap().access, Access::EVERYBODY);
    assert_eq!(store.check(), []);
    store.object("old").unwrap();
    let root = Caller { user: 0, groups: vec![] };
    store.change_access(&root, "old", |access| Access { mode: 0o600, ..access }).unwrap();
    assert_eq!(mode(&store, "old"), 0o600);
}

#[test]
fn damaged_rights_are_an_error_and_a_finding() {
    let (media, store) = store();
    make(&store, "x");
    let superblock: layout::Superblock = media.get(0);
    let at = superblock.table_at + std::mem::offset_of!(layout::Record, access) as u64;
    for bit in 0..128 {
        let word = at + bit / 64 * 8;
        media.store(word, media.load(word) ^ 1 << (bit % 64));
        assert!(matches!(store.stat("x"), Err(Error::Damaged { .. })), "bit {bit}");
        assert_eq!(store.check().len(), 2, "the record, and a cluster without an owner");
        media.store(word, media.load(word) ^ 1 << (bit % 64));
    }
    assert_eq!(store.check(), []);
}

#[test]
fn a_renamed_object_is_the_same_with_another_name() {
    let (media, store) = store();
    ["a", "b"].iter().for_each(|name| make(&store, name));
    let before = store.stat("a").unwrap();
    for (from, to) in [("a", "c/long/er"), ("c/long/er", "a"), ("a", "z")] {
        store.rename_object(from, to).unwrap();
        assert!(matches!(store.object(from), Err(Error::NotFound { .. })));
        let after = store.stat(to).unwrap();
        assert_eq!((after.id, after.span, after.access), (before.id, before.span.clone(), before.access));
        assert_eq!(store.object(to).unwrap().root(), 1);
    }
    assert!(matches!(store.rename_object("z", "b"), Err(Error::Exists { .. })));
    assert!(matches!(store.rename_object("z", "z"), Err(Error::Exists { .. })));
    assert!(matches!(store.rename_object("no", "c"), Err(Error::NotFound { .. })));
    assert!(matches!(store.rename_object("z", "/"), Err(Error::BadName { .. })));
    let open = store.object("z").unwrap();
    assert!(matches!(store.rename_object("z", "y"), Err(Error::Open { .. })));
    drop(open);
    assert_eq!((store.names("").unwrap(), store.check()), (vec!["b".to_string(), "z".into()], vec![]));
    store.index_names().unwrap();
    store.rename_object("z", "zz").unwrap();
    store.remove_object("b").unwrap();
    drop(store);
    let store = Store::attach(media).unwrap();
    assert_eq!((store.names("").unwrap(), store.check()), (vec!["zz".to_string()], vec![]));
}

/// Whether this thread of the process waits for a lock.
fn is_asleep(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'))
}

/// Runs `other` in a thread that begins when a change of rights to mode 0600 has read the present
/// ones, and has no more to do, or waits, before the change goes on.
fn beside_a_change(store: &Store, name: &str, other: impl FnOnce() + Send) {
    let root = Caller { user: 0, groups: vec![] };
    thread::scope(|scope| {
        let new = |access| {
            let (tell, told) = channel();
            let other = scope.spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                other();
            });
            let id = told.recv().unwrap();
            while !other.is_finished() && !is_asleep(id) {
                thread::yield_now();
            }
            Access { mode: 0o600, ..access }
        };
        store.change_access(&root, name, new).unwrap();
    });
}

/// Each change reads the rights and the record's state, and stores to the copy of the access words
/// that does not count (STORE-12).
#[test]
fn changes_of_one_objects_rights_and_names_wait_for_each_other() {
    let (_, store) = store();
    make(&store, "x");
    let root = Caller { user: 0, groups: vec![] };
    beside_a_change(&store, "x", || store.change_access(&root, "x", |access| Access { owner: 7, ..access }).unwrap());
    let access = store.stat("x").unwrap().access;
    assert_eq!((access.mode, access.owner), (0o600, 7), "one of two changes is lost");
    make(&store, "y");
    beside_a_change(&store, "y", || store.rename_object("y", "z").unwrap());
    assert_eq!(mode(&store, "z"), 0o600, "the rename copied the rights of before");
    beside_a_change(&store, "z", || {
        store.remove_object("z").unwrap();
        make(&store, "new");
    });
    assert_eq!(mode(&store, "new"), 0o660, "it has the rights of the removed one");
    assert_eq!(store.check(), []);
}

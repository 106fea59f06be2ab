//! One store, several users. Two of them in this process stand for two processes; how real ones die
//! is shown in `capi`.

use everbyte_media::{BackendChoice, Capabilities, Media, Options, Recorder};
use everbyte_store::{
    CLUSTER, CreateOptions, Engine, Error, FormatOptions, ObjectOpen, ObjectOptions, Since, Store, layout,
};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

fn small() -> ObjectOptions {
    ObjectOptions { span: Some(8 * CLUSTER), ..ObjectOptions::default() }
}

fn create(store: &Store, name: &str) -> Result<everbyte_store::Object, Error> {
    store.create_object(name, small(), |_| Ok(()))
}

fn two() -> (Store, Store) {
    let media = Media::anonymous(8 << 20, &Options::default()).unwrap();
    Store::format(media.clone(), &FormatOptions::default()).unwrap().close().unwrap();
    let open = || Store::attach_shared(media.clone()).unwrap();
    (open(), open())
}

#[test]
fn what_one_makes_and_removes_the_other_sees_at_once() {
    let (one, other) = two();
    let made = create(&one, "a").unwrap();
    assert!(matches!(create(&other, "a"), Err(Error::Exists { .. })));
    let second = create(&other, "b").unwrap();
    assert_ne!(made.id(), second.id());
    assert_ne!(made.span(), second.span());
    assert_eq!(one.objects().unwrap(), other.objects().unwrap());
    assert_eq!(one.objects().unwrap().len(), 2);
    assert_eq!(one.find("a").unwrap(), Some(made.id())); // and remembered
    drop(made);
    other.remove_object("a").unwrap();
    assert_eq!(one.find("a").unwrap(), None);
    assert!(matches!(one.object("a"), Err(Error::NotFound { .. })));
    let again = create(&other, "a").unwrap().id();
    assert_eq!((one.find("a").unwrap(), one.find("b").unwrap()), (Some(again), Some(second.id())));
    assert!(one.check().is_empty() && other.check().is_empty());
}

#[test]
fn an_object_is_one_users_alone_unless_it_is_shared() {
    let (one, other) = two();
    let alone = create(&one, "a").unwrap();
    assert!(matches!(other.object("a"), Err(Error::Attached { .. })));
    assert!(matches!(other.open_object("a", &ObjectOpen::shared(Engine::None, 0)), Err(Error::Attached { .. })));
    alone.share().unwrap();
    let shared = other.open_object("a", &ObjectOpen::shared(Engine::None, 0)).unwrap();
    assert!(matches!(one.remove_object("a"), Err(Error::Open { .. })));
    drop(alone);
    assert!(matches!(one.remove_object("a"), Err(Error::Attached { .. })));
    assert!(matches!(one.object("a"), Err(Error::Attached { .. })), "not alone while it is shared");
    drop(shared);
    one.remove_object("a").unwrap();
    assert!(one.check().is_empty());
}

#[test]
fn growth_and_release_are_seen_in_the_next_turn() {
    let (one, other) = two();
    let mine = create(&one, "a").unwrap();
    mine.share().unwrap();
    let theirs = other.open_object("a", &ObjectOpen::shared(Engine::None, 0)).unwrap();
    for (user, news) in [(&mine, Since::OwnerDied), (&theirs, Since::Changed), (&mine, Since::Unchanged)] {
        let exclusive = user.exclusive().unwrap().unwrap();
        assert_eq!(exclusive.since(), news);
        exclusive.caught_up();
    }
    {
        let exclusive = mine.exclusive().unwrap().unwrap();
        assert_eq!(exclusive.since(), Since::Unchanged);
        let grown = mine.grow(3 * CLUSTER).unwrap();
        mine.media().write(grown.start, b"new");
        mine.release(grown.start + CLUSTER..grown.end).unwrap();
        exclusive.changed();
    }
    let exclusive = theirs.exclusive().unwrap().unwrap();
    assert_eq!((exclusive.since(), theirs.backed()), (Since::Changed, mine.backed()));
    assert_eq!(theirs.holes(), mine.holes());
    assert_eq!(theirs.media().read_vec(theirs.prime() + CLUSTER, 3), b"new");
    exclusive.caught_up();
    drop(exclusive);
    assert_eq!(theirs.exclusive().unwrap().unwrap().since(), Since::Unchanged);
    // A cluster that the other process has backed again is not punched by the process that released
    // it.
    let hole = theirs.holes()[0].clone();
    theirs.back(hole.clone()).unwrap();
    theirs.media().write(hole.start, b"kept");
    create(&one, "b").unwrap();
    one.trim().unwrap();
    assert_eq!(theirs.media().read_vec(hole.start, 4), b"kept");
    assert!(one.check().is_empty());
}

/// Flushed ranges of memory that processes share.
struct Flushes(Arc<Mutex<Vec<Range<u64>>>>);

impl Recorder for Flushes {
    fn store(&mut self, _: u64, _: &[u8]) {}
    fn flush(&mut self, at: u64, len: u64) {
        self.0.lock().unwrap().push(at..at + len);
    }
    fn fence(&mut self) {}
    fn barrier(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn allocate(&mut self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { shared: true, fence_settles: true, huge_pages: false }
    }
}

/// A member that died may have left the bits of an object's clusters unflushed, and a member that
/// stays is not told which one died (STORE-8).
#[test]
fn the_bits_that_a_dead_member_may_have_left_are_flushed_again() {
    let flushes = Arc::new(Mutex::new(Vec::new()));
    let recorder = Box::new(Flushes(Arc::clone(&flushes)));
    let media = Media::recorded(8 << 20, &[0; 1 << 16], recorder).unwrap();
    Store::format(media.clone(), &FormatOptions::default()).unwrap().close().unwrap();
    let open = || Store::attach_shared(media.clone()).unwrap();
    let (one, other) = (open(), open());
    drop(one.create_object("a", small(), |object| object.grow(3 * CLUSTER).map(drop)).unwrap());
    let superblock: layout::Superblock = media.get(0);
    let first = one.stat("a").unwrap().span.start / CLUSTER;
    let word = superblock.bitmap_at.get() + first / 48 * 8; // 48 bits in each
    let again = |what: &str| {
        let flushed = std::mem::take(&mut *flushes.lock().unwrap());
        assert!(flushed.iter().any(|range| range.contains(&word)), "{what}: {flushed:x?}, without {word:x}");
    };
    other.names("").unwrap(); // it has caught up
    flushes.lock().unwrap().clear();
    let theirs = other.open_object("a", &ObjectOpen::shared(Engine::None, 0)).unwrap();
    again("opening it");
    let exclusive = theirs.exclusive().unwrap().unwrap();
    assert_eq!(exclusive.since(), Since::OwnerDied, "as of every first holder");
    again("taking its lock");
    exclusive.caught_up();
    drop(exclusive);
    flushes.lock().unwrap().clear();
    drop(theirs.exclusive().unwrap());
    assert!(flushes.lock().unwrap().is_empty(), "it is caught up");
}

#[test]
fn the_last_who_leaves_closes_and_who_vanishes_prevents_it() {
    let media = Media::anonymous(8 << 20, &Options::default()).unwrap();
    Store::format(media.clone(), &FormatOptions::default()).unwrap().close().unwrap();
    let open = || Store::attach_shared(media.clone()).unwrap();
    let (one, other) = (open(), open());
    assert!(one.recovery().clean && other.recovery().clean);
    one.close().unwrap();
    drop(one);
    other.close().unwrap();
    drop(other);
    let (one, other) = (open(), open());
    assert!(one.recovery().clean, "both have left");
    drop(other);
    one.close().unwrap();
    drop(one);
    assert!(!open().recovery().clean, "one has not");
}

#[test]
fn who_opens_a_file_alone_is_told_who_shares_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let options = Options { backend: BackendChoice::Shm, ..Options::default() };
    let open = |path: &Path| Store::options(path).shared().open(&options);
    Store::create(&path, &CreateOptions { max: 1 << 30, media: options.clone(), bound: false })
        .unwrap()
        .close()
        .unwrap();
    let store = open(&path).unwrap();
    assert!(store.is_shared());
    create(&store, "a").unwrap();
    let refused = |refused: Result<Store, Error>| {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(&format!("pid {}", std::process::id())), "{text}");
    };
    refused(Store::open(&path, &options));
    refused(Store::options(&path).read_only().open(&options));
    refused(open(&path)); // a process has a store once
    store.close().unwrap();
    drop(store);
    assert!(Store::open(&path, &options).unwrap().recovery().clean);
    let file = Options { backend: BackendChoice::File, ..options };
    assert!(!Store::options(&path).shared().open(&file).unwrap().is_shared(), "a disk is one process's");
}

//! The name space: a hundred thousand names, names that share almost everything, and stores of
//! before it.

use everbyte_media::{BackendChoice, Media, Options};
use everbyte_sim::{Image, Tracer};
use everbyte_store::{CLUSTER, CreateOptions, Error, FormatOptions, NAME_MAX, ObjectOptions, Store};
use everbyte_workload::Random;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A directory whose files cost no disk, if there is one.
fn dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn create(path: &Path, max: u64) -> Store {
    let media = Options { backend: BackendChoice::Shm, log_bytes: 1 << 20, ..Options::default() };
    Store::create(path, &CreateOptions { media, max, ..CreateOptions::default() }).unwrap()
}

fn make(store: &Store, name: &str) {
    let options = ObjectOptions { span: Some(64 << 10), ..ObjectOptions::default() };
    let made = store.create_small_object(name, options, |object| {
        object.set_root(name.len() as u64);
        Ok::<(), Error>(())
    });
    made.unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// Names of every kind: short and long, prefix-shared, some of them prefixes of others, in several
/// scripts.
fn names(count: u64) -> BTreeSet<String> {
    let name = |index: u64| match index % 5 {
        0 => format!("user/{index:06}"),
        1 => format!("{}{index:08}", "shared-prefix/".repeat(9)[..NAME_MAX - 9].to_owned() + "/"),
        2 => format!("κόσμος/{}/{index}", index % 97),
        3 => format!("{:x}", index.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        _ => "deep/".repeat((index % 23) as usize) + &format!("{index}"),
    };
    (0..count).map(name).inspect(|name| assert!(name.len() <= NAME_MAX, "{name}")).collect()
}

#[test]
fn a_hundred_thousand_names_are_found_and_listed_in_order() {
    let dir = dir();
    let path = dir.path().join("a.store");
    let first = create(&path, 16 << 30);
    let names = names(100_000);
    assert!(names.len() == 100_000 && names.iter().any(|name| name.len() == NAME_MAX));
    let mut order: Vec<&String> = names.iter().collect();
    Random::new(7).shuffle(&mut order);
    order.iter().for_each(|name| make(&first, name));
    drop(first);

    // Another life, which remembers nothing and was not told of a clean end.
    let store = Store::open(&path, &Options { backend: BackendChoice::Shm, ..Options::default() }).unwrap();
    assert!(!store.recovery().clean);
    assert!(store.names("").unwrap().iter().eq(&names));
    for prefix in
        ["user/0001", "κόσμος/9", "κόσμος/96/", "shared-prefix/shared", "deep/deep/deep/", "deep", "x", "user/000100"]
    {
        let expected: Vec<&String> = names.iter().filter(|name| name.starts_with(prefix)).collect();
        assert!(store.names(prefix).unwrap().iter().eq(expected), "{prefix}");
    }
    for name in order.iter().take(5000) {
        assert_eq!(store.object(name).unwrap().root(), name.len() as u64, "{name}");
        let other = format!("{}!", &name[..name.len() - 1]);
        assert!(matches!(store.object(&other), Err(Error::NotFound { .. })), "{other}");
    }
    let (gone, left) = order.split_at(30_000);
    gone.iter().for_each(|name| store.remove_object(name).unwrap());
    let left: BTreeSet<String> = left.iter().map(|name| name.to_string()).collect();
    assert!(store.names("").unwrap().iter().eq(&left));
    assert_eq!(store.check(), []);
    assert_eq!(store.info().objects, 70_000);
}

/// The trie goes as it came: when the last name is gone, so is everything but a node or two.
#[test]
fn what_is_removed_gives_its_blocks_back() {
    let dir = dir();
    let store = create(&dir.path().join("a.store"), 1 << 30);
    store.index_names().unwrap();
    let names: Vec<String> = names(600).into_iter().collect();
    let mut len = None;
    for round in 0..3 {
        names.iter().for_each(|name| make(&store, name));
        assert_eq!(store.check(), [], "round {round}");
        // The last cluster of the file is an object's, and blocks of the trie lie below.
        assert_eq!(*len.get_or_insert(store.info().len), store.info().len, "more than in the first round");
        names.iter().for_each(|name| store.remove_object(name).unwrap());
        assert_eq!(store.names("").unwrap(), Vec::<String>::new());
        assert_eq!(store.check(), [], "round {round}");
    }
}

/// HP10: one page for an object that may never need more; a cluster's zeros behind it once it
/// grows.
#[test]
fn a_small_object_takes_a_page_until_it_grows() {
    let dir = dir();
    let path = dir.path().join("a.store");
    let store = create(&path, 1 << 30);
    let room = || std::fs::metadata(&path).unwrap().blocks() * 512;
    (0..10).for_each(|index| make(&store, &format!("warm/{index}")));
    let before = room();
    (0..100).for_each(|index| make(&store, &format!("small/{index}")));
    assert!((100 * 4096..101 * 4096).contains(&(room() - before)), "{} bytes", room() - before);
    let span = ObjectOptions { span: Some(4 * CLUSTER), ..ObjectOptions::default() };
    let made = store.create_small_object("grows", span, |_| Ok::<(), Error>(())).unwrap();
    assert!(made.is_small());
    let grown = made.grow(1).unwrap();
    assert!(!made.is_small() && grown.start == (made.prime() + CLUSTER).get());
    let behind = store.media().read_vec(made.prime() + 4096, 2 * CLUSTER as usize - 4096);
    assert!(behind.iter().all(|&byte| byte == 0));
    // Clusters that held other bytes are handed out as zeros.
    store.media().write(grown.start - 8, b"old byte");
    drop(made);
    store.remove_object("grows").unwrap();
    let made = store.create_small_object("again", span, |_| Ok::<(), Error>(())).unwrap();
    made.grow(1).unwrap();
    assert_eq!(store.media().read_vec(made.prime() + CLUSTER - 8, 8), [0; 8]);
    drop(made);
    assert_eq!(store.check(), []);
    store.close().unwrap();
    drop(store);
    let store = Store::open(&path, &Options { backend: BackendChoice::Shm, ..Options::default() }).unwrap();
    assert!(store.object("small/99").unwrap().is_small() && !store.object("again").unwrap().is_small());
    // A rebase asks for space again, and for no more than there was.
    let before = room();
    store.rebase([9; 16]).unwrap();
    assert_eq!(room(), before);
}

/// However many names there are, opening stores the same, and reads nothing of the trie but its
/// head.
#[test]
fn opening_looks_at_no_name() {
    let opened = |count: u64| {
        let prepare = |media: Media| {
            let store = Store::format(media, &FormatOptions::default()).unwrap();
            store.index_names().unwrap();
            names(count).iter().for_each(|name| make(&store, name));
            store.close().unwrap();
        };
        let image = Image::zeroed(128 << 10).with_max(64 << 20);
        Tracer::new(&image).run_after(prepare, |media, ()| drop(Store::attach(media).unwrap()))
    };
    assert_eq!(opened(260), opened(600));
}

/// Two users of a shared store, of which the one begins the trie, makes, moves and removes names,
/// and the other has looked them up before.
#[test]
fn names_of_a_trie_that_others_change_are_seen_in_the_next_turn() {
    let media = Media::anonymous(256 << 20, &Options::default()).unwrap();
    Store::format(media.clone(), &FormatOptions::default()).unwrap().close().unwrap();
    let [one, other] = [media.clone(), media].map(|media| Store::attach_shared(media).unwrap());
    make(&one, "first");
    assert!(other.find("first").unwrap().is_some());
    one.index_names().unwrap();
    let names: Vec<String> = names(400).into_iter().collect();
    for (index, name) in names.iter().enumerate() {
        make(if index % 3 == 0 { &one } else { &other }, name);
    }
    let found = |store: &Store, name: &str| store.find(name).unwrap().is_some();
    assert!(names.iter().all(|name| found(&one, name) && found(&other, name)));
    other.rename_object("first", "last").unwrap();
    assert!(!found(&one, "first") && found(&one, "last"));
    for (index, name) in names.iter().enumerate().filter(|(index, _)| index % 2 == 0) {
        let (mine, theirs) = if index % 4 == 0 { (&one, &other) } else { (&other, &one) };
        mine.remove_object(name).unwrap();
        assert!(!found(theirs, name), "{name}");
    }
    assert_eq!(one.names("").unwrap(), other.names("").unwrap());
    assert_eq!(one.names("").unwrap().len(), 201);
    assert_eq!((one.check(), other.check()), (vec![], vec![]));
}

/// Names that are prefixes of each other make the trie as deep as a name is long, and no deeper: it
/// is listed, checked, emptied and recovered on a stack of 256 KiB.
#[test]
fn the_deepest_trie_is_walked_on_a_small_stack() {
    let media = Media::anonymous(256 << 20, &everbyte_media::Options::default()).unwrap();
    let store = Store::format(media.clone(), &FormatOptions::default()).unwrap();
    store.index_names().unwrap();
    let mut names = BTreeSet::new();
    for len in 1..=NAME_MAX {
        // One that goes on, and enough beside it that each step is a node of its own.
        names.insert("x".repeat(len));
        names.extend(["a", "b", "c"].map(|end| "x".repeat(len - 1) + end));
    }
    everbyte_sim::swarm::on_a_small_stack(|| {
        names.iter().for_each(|name| make(&store, name));
        drop(store);
        let store = Store::attach(media).unwrap();
        assert!(store.names("").unwrap().iter().eq(&names));
        assert_eq!(store.names(&"x".repeat(NAME_MAX - 1)).unwrap().len(), 5);
        assert!(names.iter().all(|name| matches!(store.find_on_media(name), Ok(Some(_)))));
        assert_eq!(store.check(), []);
        names.iter().rev().for_each(|name| store.remove_object(name).unwrap());
        assert!(store.names("").unwrap().is_empty());
        assert_eq!(store.check(), []);
    });
}

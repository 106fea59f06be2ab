//! Clones, copies made by hand, and the identities that tell them apart.

use crate::common::copy_sparsely;
use everbyte_media::{BackendChoice, Options};
use everbyte_store::{CLUSTER, CreateOptions, Error, ObjectOptions, Store};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const BACKENDS: [BackendChoice; 2] = [BackendChoice::File, BackendChoice::Shm];

fn options(backend: BackendChoice) -> Options {
    Options { backend, log_bytes: 256 << 10, ..Options::default() }
}

fn put(store: &Store, value: u64) {
    let object = store.object("kept").unwrap();
    let (media, at) = (store.media(), object.prime() + 4096);
    {
        let _section = media.section();
        media.store(at, value);
        media.flush(at, 8);
    }
    media.barrier().unwrap();
}

fn get(store: &Store) -> u64 {
    store.media().load(store.object("kept").unwrap().prime() + 4096)
}

/// A store that holds `value`, with a hole in the middle and an object that was removed; its
/// process died.
fn killed(path: &Path, backend: BackendChoice, value: u64) -> [u8; 16] {
    let create = CreateOptions { media: options(backend), max: 64 << 20, ..CreateOptions::default() };
    let store = Store::create(path, &create).unwrap();
    for name in ["gone", "kept"] {
        let wish = ObjectOptions { span: Some(64 * CLUSTER), ..ObjectOptions::default() };
        store.create_object(name, wish, |object| object.grow(63 * CLUSTER).map(drop)).unwrap();
    }
    let kept = store.object("kept").unwrap();
    kept.release(kept.prime() + 8 * CLUSTER..kept.prime() + 48 * CLUSTER).unwrap();
    store.trim().unwrap();
    store.remove_object("gone").unwrap();
    put(&store, value);
    store.media().clone().abandon();
    store.identity()
}

fn clone(source: &Path, target: &Path, backend: BackendChoice) -> Result<[u8; 16], Error> {
    Store::clone_file(source, target, &options(backend), &mut |_, _| ())
}

#[test]
fn a_clone_of_a_killed_store_lives_beside_it_and_goes_its_own_way() {
    for (from, to) in BACKENDS.into_iter().flat_map(|from| BACKENDS.map(|to| (from, to))) {
        let dir = tempfile::tempdir().unwrap();
        let [source, target] = ["a.store", "b.store"].map(|name| dir.path().join(name));
        let original = killed(&source, from, 41);
        let before = (fs::read(&source).unwrap(), fs::metadata(&source).unwrap().mtime_nsec());

        let mut heard = Vec::new();
        let identity = Store::clone_file(&source, &target, &options(to), &mut |done, of| heard.push((done, of)));
        let identity = identity.unwrap();
        let (last, total) = *heard.last().unwrap();
        assert!(last == total && heard.is_sorted(), "{heard:?}");
        assert!(before == (fs::read(&source).unwrap(), fs::metadata(&source).unwrap().mtime_nsec()), "source changed");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "and nothing else is there");
        let [blocks, cloned] = [&source, &target].map(|path| fs::metadata(path).unwrap().blocks());
        assert!(cloned <= blocks + 600, "{from:?} to {to:?}: {cloned} blocks of {blocks}: holes were filled");

        let (one, two) = (Store::open(&source, &options(from)).unwrap(), Store::open(&target, &options(to)).unwrap());
        assert!(two.recovery().clean && !one.recovery().clean);
        assert_eq!((one.identity(), two.identity()), (original, identity));
        assert_ne!(original, identity);
        assert_eq!((one.check(), two.check()), (vec![], vec![]));
        assert_eq!(one.objects().unwrap(), two.objects().unwrap());
        assert_eq!((get(&one), get(&two)), (41, 41));
        assert_eq!(one.object("kept").unwrap().holes(), two.object("kept").unwrap().holes());
        put(&one, 42);
        put(&two, 43);
        drop((one, two));
        let (one, two) = (Store::open(&source, &options(from)).unwrap(), Store::open(&target, &options(to)).unwrap());
        assert_eq!((get(&one), get(&two)), (42, 43));
    }
}

/// A closed store has nothing in its log, and so has the clone, whatever the log's size.
#[test]
fn an_empty_log_is_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["a.store", "b.store"].map(|name| dir.path().join(name));
    let media = Options { backend: BackendChoice::File, log_bytes: 32 << 20, ..Options::default() };
    let store = Store::create(&source, &CreateOptions { media, max: 64 << 20, ..CreateOptions::default() }).unwrap();
    store.close().unwrap();
    drop(store);
    let mut copied = 0;
    Store::clone_file(&source, &target, &options(BackendChoice::Shm), &mut |done, _| copied = done).unwrap();
    assert!(copied < 1 << 20, "{copied} bytes of a store without objects");
    assert_eq!(Store::open(&target, &options(BackendChoice::File)).unwrap().check(), []);
}

#[test]
fn a_copy_made_by_hand_is_refused_beside_its_original_until_it_is_rebased() {
    for backend in BACKENDS {
        let dir = tempfile::tempdir().unwrap();
        let [source, copy] = ["a.store", "b.store"].map(|name| dir.path().join(name));
        let identity = killed(&source, backend, 7);
        fs::copy(&source, &copy).unwrap();
        let bytes = fs::read(&copy).unwrap();

        let original = Store::open(&source, &options(backend)).unwrap();
        let refused = Store::open(&copy, &options(backend)).unwrap_err();
        assert!(matches!(refused, Error::SameIdentity { .. }), "{refused}");
        let text = refused.to_string();
        assert!(["a.store", "b.store", "store rebase", "store clone"].iter().all(|word| text.contains(word)), "{text}");
        assert!(fs::read(&copy).unwrap() == bytes, "STORE-9: a refused copy keeps every byte");
        // Looking is allowed, and the store itself is refused as ever.
        assert_eq!(Store::options(&copy).read_only().open(&options(backend)).unwrap().identity(), identity);
        let twice = Store::open(&source, &options(backend)).unwrap_err();
        assert!(matches!(twice, Error::Media(everbyte_media::Error::InUse { .. })), "{twice}");

        let rebased = Store::options(&copy).rebased().open(&options(backend)).unwrap();
        assert_ne!(rebased.identity(), identity);
        put(&rebased, 8);
        assert_eq!((get(&original), get(&rebased)), (7, 8));
        let theirs = original.identity();
        assert!(matches!(rebased.rebase(theirs), Err(Error::SameIdentity { .. })), "not even by name");
        assert_ne!(rebased.identity(), theirs);
        rebased.close().unwrap();
        drop((original, rebased));

        // One after the other, copies are opened as ever.
        fs::copy(&source, &copy).unwrap();
        drop(Store::open(&source, &options(backend)).unwrap());
        drop(Store::open(&copy, &options(backend)).unwrap());
    }
}

/// `cp` makes holes of room that was never written. On shared memory a full disk would then be a
/// signal.
#[test]
fn rebasing_gives_a_sparse_copy_its_room_again() {
    for backend in BACKENDS {
        let dir = tempfile::tempdir().unwrap();
        let [source, copy] = ["a.store", "b.store"].map(|name| dir.path().join(name));
        killed(&source, backend, 7);
        drop(Store::open(&source, &options(backend)).unwrap());
        copy_sparsely(&source, &copy);
        let store = Store::options(&copy).rebased().open(&options(backend)).unwrap();
        let backed = store.info().backed;
        store.close().unwrap();
        let blocks = fs::metadata(&copy).unwrap().blocks() * 512;
        assert!(blocks >= backed, "{backend:?}: {blocks} bytes on the disk for {backed}");
    }
}

#[test]
fn a_clone_that_cannot_be_is_refused_and_leaves_nothing() {
    for backend in BACKENDS {
        let dir = tempfile::tempdir().unwrap();
        let [source, target, taken] = ["a.store", "b.store", "c.store"].map(|name| dir.path().join(name));
        killed(&source, backend, 7);
        let refused = |source: &Path, target: &Path, why: &[&str]| {
            let before = fs::read_dir(dir.path()).unwrap().count();
            let error = clone(source, target, backend).unwrap_err();
            assert!(why.iter().all(|why| error.to_string().contains(why)), "{error}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before);
            error
        };
        // Names that are taken, by the source itself, by a letter, and by an earlier attempt.
        fs::write(&taken, b"a user's letter").unwrap();
        for taken in [&source, &taken] {
            assert!(matches!(refused(&source, taken, &["exists already"]), Error::Occupied { .. }));
        }
        assert_eq!(fs::read(&taken).unwrap(), b"a user's letter");
        fs::write(dir.path().join("b.store.part"), b"left").unwrap();
        refused(&source, &target, &["b.store.part", "interrupted"]);
        fs::remove_file(dir.path().join("b.store.part")).unwrap();
        // The source is open for writing, absent, or no store; the target has no directory.
        let open = Store::open(&source, &options(backend)).unwrap();
        refused(&source, &target, &["a.store", "in use", &format!("pid {}", std::process::id())]);
        drop(open);
        refused(&dir.path().join("nowhere"), &target, &["nowhere"]);
        refused(&taken, &target, &["c.store", "not an Everbyte store"]);
        refused(&source, &dir.path().join("nowhere/b.store"), &["nowhere/b.store"]);
        refused(&source, Path::new("/proc/b.store"), &["/proc/b.store"]);

        // One torn copy of the superblock is repaired in the clone; two, or a torn record, are
        // damage.
        let file = File::options().read(true).write(true).open(&source).unwrap();
        file.write_all_at(&[0x55], 4096 + 40).unwrap();
        clone(&source, &target, backend).unwrap();
        assert_eq!(Store::open(&target, &options(backend)).unwrap().check(), []);
        fs::remove_file(&target).unwrap();
        drop(Store::open(&source, &options(backend)).unwrap());
        // So is a torn copy of the media head, whichever it is: `check` names it, and opening
        // writes it again.
        for copy in [8 << 10, 12 << 10] {
            file.write_all_at(&[0x55; 4], copy + 300).unwrap();
            let look = || Store::options(&source).read_only().open(&options(backend)).unwrap().check();
            let found: Vec<_> = look().into_iter().filter(|finding| finding.is_damage()).collect();
            assert_eq!(found.iter().map(|finding| finding.at).collect::<Vec<_>>(), [copy], "{found:?}");
            clone(&source, &target, backend).unwrap();
            assert_eq!(Store::options(&target).read_only().open(&options(backend)).unwrap().check(), []);
            assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o600, "a clone is a new store");
            fs::remove_file(&target).unwrap();
            Store::open(&source, &options(backend)).unwrap().close().unwrap();
            assert_eq!(look(), [], "opening writes the copy again");
        }
        let record = (16 << 10) + 256 + 16;
        file.write_all_at(&[0x55; 4], record).unwrap();
        let damaged = refused(&source, &target, &["a.store", "damaged", "everbyte check"]);
        assert!(matches!(damaged, Error::Damaged { .. }), "{damaged}");
        file.write_all_at(&[0x55], 40).unwrap();
        file.write_all_at(&[0x55], 4096 + 40).unwrap();
        refused(&source, &target, &["a.store", "superblock"]);
    }
}

/// Run by `a_killed_clone_leaves_the_name_free_or_a_whole_store` in a process of its own: in the
/// middle of copying it waits until it may go on.
#[test]
fn clones_what_the_environment_names() {
    let Some(path) = std::env::var_os("EVERBYTE_TEST_CLONE") else { return };
    let [source, target] = ["a.store", "b.store"].map(|name| Path::new(&path).join(name));
    let mut begun = false;
    let mut wait = |_, _| {
        if !std::mem::replace(&mut begun, true) {
            println!("begun");
            std::io::stdin().read_exact(&mut [0]).unwrap();
        }
    };
    Store::clone_file(&source, &target, &options(BackendChoice::File), &mut wait).unwrap();
}

/// The first is killed while it waits, the others some time after.
#[test]
fn a_killed_clone_leaves_the_name_free_or_a_whole_store() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target, part] = ["a.store", "b.store", "b.store.part"].map(|name| dir.path().join(name));
    let original = killed(&source, BackendChoice::File, 7);
    let (mut whole, mut none) = (0, 0);
    for delay in 0..40 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["clone::clones_what_the_environment_names", "--exact", "--nocapture"]);
        child.env("EVERBYTE_TEST_CLONE", dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        while !said.contains("begun") {
            assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
        }
        if delay > 0 {
            child.stdin.as_mut().unwrap().write_all(b"!").unwrap();
            std::thread::sleep(Duration::from_micros(delay * delay * 30));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if target.exists() {
            let store = Store::open(&target, &options(BackendChoice::File)).unwrap();
            assert_ne!(store.identity(), original, "STORE-10");
            assert_eq!((get(&store), store.check()), (7, vec![]));
            whole += 1;
            fs::remove_file(&target).unwrap();
        } else {
            none += 1;
        }
        let _ = fs::remove_file(&part);
    }
    println!("{whole} clones were whole, {none} not there");
    assert!(none > 0, "who waited had not cloned");
}

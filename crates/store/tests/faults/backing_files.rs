//! A path names a backing file and proves nothing: whatever it leads to is left alone unless its
//! header is this object's.

use everbyte_cold::layout::{COLD_MAGIC, ColdHeader};
use everbyte_cold::{OpenMode, RealFiles};
use everbyte_media::{BackendChoice, Checked, Disk, ErrorInfo, ErrorKind, Options};
use everbyte_store::{CLUSTER, CreateOptions, Error, Files, ObjectOptions, Store};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

const LIMIT: u64 = 12;

/// Stores in memory that is written in place; a disk's page cache stands in for it.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn options() -> Options {
        Options { backend: BackendChoice::Shm, background: false, ..Options::default() }
    }

    /// A store with an object `large` of thirty-two clusters, each of which holds a word.
    fn store(&self, name: &str) -> Store {
        let create = CreateOptions { max: 1 << 30, media: Home::options(), ..CreateOptions::default() };
        let store = Store::create(&self.path(name), &create).unwrap();
        let span = ObjectOptions { span: Some(16 << 20), ..ObjectOptions::default() };
        drop(store.create_object("large", span, |object| object.grow(31 * CLUSTER).map(drop)).unwrap());
        let object = store.object("large").unwrap();
        for at in (object.prime().get() + CLUSTER / 2..object.backed().get()).step_by(CLUSTER as usize) {
            object.media().store(at, at);
            object.media().flush(at, 8);
        }
        object.media().barrier().unwrap();
        drop(object);
        store
    }

    fn open(&self, name: &str) -> Store {
        Store::open(&self.path(name), &Home::options()).unwrap()
    }

    /// As `cp`.
    fn copy(&self, from: &str, to: &str) {
        fs::copy(self.path(from), self.path(to)).unwrap();
    }
}

/// Lets everything grow cold, and closes the store.
fn cool(store: Store) {
    let object = store.object("large").unwrap();
    object.cool(object.prime() + CLUSTER..object.backed()).unwrap();
    drop(object);
    close(store);
}

fn close(store: Store) {
    store.close().unwrap();
}

fn require_whole(store: &Store) {
    let object = store.object("large").unwrap();
    for at in (object.prime().get() + CLUSTER / 2..object.backed().get()).step_by(CLUSTER as usize) {
        object.warm(at..at + 8).unwrap();
        assert_eq!(object.media().load(at), at);
    }
}

fn refused<T>(result: Result<T, Error>, why: &str) {
    let error = result.map(drop).expect_err("it is another's file").to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn a_file_that_was_there_before_is_not_made_a_backing_file() {
    let home = Home::new();
    let store = home.store("store");
    let text = home.path("thesis.txt");
    fs::write(&text, "chapter 1").unwrap();
    refused(store.set_resident("large", Some(LIMIT), Some(&text)), "may be another's");
    assert_eq!(fs::read(&text).unwrap(), b"chapter 1");
    let link = home.path("link");
    std::os::unix::fs::symlink(&text, &link).unwrap();
    refused(store.set_resident("large", Some(LIMIT), Some(&link)), "large");
    assert_eq!(fs::read(&text).unwrap(), b"chapter 1");
    assert_eq!(store.stat("large").unwrap().residency, None, "a refused limit changes nothing");
    // A file that holds nothing is as good as none.
    fs::write(&text, "").unwrap();
    store.set_resident("large", Some(LIMIT), Some(&text)).unwrap();
    require_whole(&store);
    assert_eq!(store.check(), []);
}

#[test]
fn the_backing_file_of_another_store_is_not_taken() {
    let home = Home::new();
    let (one, other) = (home.store("one"), home.store("other"));
    let swap = home.path("swap");
    one.set_resident("large", Some(LIMIT), Some(&swap)).unwrap();
    cool(one);
    refused(other.set_resident("large", Some(LIMIT), Some(&swap)), "may be another's");
    require_whole(&home.open("one"));
}

/// The backup was made while everything was in memory, and the original has got its limit again
/// since.
#[test]
fn a_read_of_a_backup_leaves_the_backing_file_of_its_original_alone() {
    let home = Home::new();
    let (store, swap) = (home.store("store"), home.path("swap"));
    store.set_resident("large", Some(LIMIT), Some(&swap)).unwrap();
    let object = store.object("large").unwrap();
    // nothing is left that could be cold
    object.release(object.prime() + CLUSTER..object.backed()).unwrap();
    object.back(object.prime() + CLUSTER..object.backed()).unwrap();
    drop(object);
    store.set_resident("large", None, None).unwrap();
    store.set_resident("large", Some(LIMIT), Some(&swap)).unwrap();
    close(store);
    home.copy("store", "backup");
    let store = home.open("store");
    store.set_resident("large", None, None).unwrap();
    store.set_resident("large", Some(LIMIT), Some(&swap)).unwrap();
    let object = store.object("large").unwrap();
    object.warm(object.prime() + CLUSTER..object.prime() + 9 * CLUSTER).unwrap();
    for at in ((object.prime() + CLUSTER).get()..object.prime().get() + 9 * CLUSTER).step_by(CLUSTER as usize) {
        object.media().store(at, at);
    }
    drop(object);
    cool(store);
    let before = fs::read(&swap).unwrap();
    let backup = home.open("backup");
    refused(backup.object("large"), "swap");
    refused(backup.set_resident("large", None, None), "swap");
    backup.remove_object("large").unwrap();
    assert!(fs::read(&swap).unwrap() == before, "the original's file is as it was");
}

#[test]
fn a_copy_of_a_store_neither_uses_nor_removes_the_backing_file_of_its_original() {
    for rebased in [false, true] {
        let home = Home::new();
        let (store, swap) = (home.store("store"), home.path("swap"));
        store.set_resident("large", Some(LIMIT), Some(&swap)).unwrap();
        cool(store);
        home.copy("store", "copy");
        let before = fs::read(&swap).unwrap();
        let copy = match rebased {
            true => Store::options(home.path("copy")).rebased().open(&Home::options()).unwrap(),
            false => home.open("copy"),
        };
        refused(copy.object("large"), "belongs to the store at");
        refused(copy.set_resident("large", Some(LIMIT), Some(&swap)), "of which this one is a copy");
        copy.remove_object("large").unwrap();
        close(copy);
        assert!(fs::read(&swap).unwrap() == before, "the original's file is as it was");
        require_whole(&home.open("store"));
    }
}

#[test]
fn a_copy_of_a_store_with_a_file_beside_it_asks_for_a_copy_of_that() {
    let home = Home::new();
    let store = home.store("store");
    store.set_resident("large", Some(LIMIT), None).unwrap();
    cool(store);
    home.copy("store", "copy");
    let swap = fs::read_dir(home.0.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let swap = swap.into_iter().find(|name| name.starts_with("store.swap-")).unwrap();
    let copy = Store::options(home.path("copy")).rebased().open(&Home::options()).unwrap();
    refused(copy.object("large"), "No such file");
    home.copy(&swap, &swap.replace("store", "copy"));
    require_whole(&copy);
    copy.remove_object("large").unwrap();
    require_whole(&home.open("store"));
}

#[test]
fn a_store_that_was_moved_gets_its_backing_file_when_that_is_named_again() {
    let home = Home::new();
    let (store, swap) = (home.store("store"), home.path("swap"));
    store.set_resident("large", Some(LIMIT), Some(&swap)).unwrap();
    cool(store);
    fs::rename(home.path("store"), home.path("moved")).unwrap();
    let moved = home.open("moved");
    refused(moved.object("large"), "name the file again");
    moved.set_resident("large", Some(LIMIT), Some(&swap)).unwrap();
    require_whole(&moved);
    moved.set_resident("large", None, None).unwrap();
    assert!(!swap.exists());
}

/// In a store from another user every path may name a file of the user that opens it.
#[test]
fn a_planted_path_makes_changes_and_removes_no_file() {
    let home = Home::new();
    let store = home.store("store");
    store.set_resident("large", Some(LIMIT), None).unwrap();
    close(store);
    let (victim, absent) = (home.path("victim.txt"), home.path("absent"));
    fs::write(&victim, "dear diary").unwrap();
    for path in [&victim, &absent, Path::new("/dev/tty"), Path::new("relative")] {
        plant(&home.path("store"), path);
        let store = home.open("store");
        assert!(store.object("large").is_err(), "{path:?}");
        assert!(store.set_resident("large", None, None).is_err(), "{path:?}");
        close(store);
    }
    plant(&home.path("store"), &victim);
    let store = home.open("store");
    store.remove_object("large").unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"dear diary");
    assert!(!absent.exists());
}

fn plant(store: &Path, path: &Path) {
    let (bytes, file) = (fs::read(store).unwrap(), fs::File::options().write(true).open(store).unwrap());
    let at = bytes.chunks(4096).position(|page| page.starts_with(&COLD_MAGIC)).unwrap() * 4096;
    let (mut header, text) = (ColdHeader::read_from_bytes(&bytes[at..at + 4096]).unwrap(), path.to_str().unwrap());
    header.path.fill(0);
    header.path[..text.len()].copy_from_slice(text.as_bytes());
    header.path_len = text.len() as u32;
    header = header.sealed();
    file.write_all_at(header.as_bytes(), at as u64).unwrap();
}

/// The stores of a read-only store stay in the process; a file that it removes is gone for all.
#[test]
fn a_read_only_store_refuses_changes_and_removes_no_backing_file() {
    let home = Home::new();
    let (store, swap) = (home.store("store"), home.path("swap"));
    store.set_resident("large", Some(LIMIT), Some(&swap)).unwrap();
    cool(store);
    let before = fs::read(&swap).unwrap();
    let store = Store::options(home.path("store")).read_only().open(&Home::options()).unwrap();
    let read_only = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
        assert!(error.to_string().contains("opened read-only"), "{error}");
    };
    read_only(store.set_resident("large", None, None));
    read_only(store.set_resident("large", Some(LIMIT + 1), None));
    read_only(store.remove_object("large"));
    read_only(store.create_object("new", ObjectOptions::default(), |_| Ok(())).map(drop));
    read_only(store.rename_object("large", "larger"));
    read_only(store.chmod("large", 0o600));
    read_only(store.chown("large", None, None));
    read_only(store.set_quota("large", Some(100)));
    read_only(store.set_user_quota(Some(100)));
    read_only(store.index_names());
    require_whole(&store);
    drop(store);
    assert!(fs::read(&swap).unwrap() == before, "the backing file is as it was");
    require_whole(&home.open("store"));
}

/// The files of the system; a process dies when it removes one.
struct DyingFiles;

impl Files for DyingFiles {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        RealFiles.create(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn Disk>> {
        RealFiles.open(path, mode)
    }

    fn remove(&self, _: &Path, _: &dyn Disk) {
        panic!("the process dies");
    }
}

/// Memory keeps every store of a process that dies.
#[test]
fn a_removal_that_a_death_cuts_off_leaves_no_backing_file() {
    let home = Home::new();
    let (store, swap) = (home.store("store"), home.path("swap"));
    store.set_resident("large", Some(LIMIT), Some(&swap)).unwrap();
    cool(store);
    let store = home.open("store");
    store.set_files(Arc::new(DyingFiles));
    std::panic::catch_unwind(AssertUnwindSafe(|| store.remove_object("large"))).unwrap_err();
    drop(store);
    let reader = Store::options(home.path("store")).read_only().open(&Home::options()).unwrap();
    assert_eq!((&reader.recovery().removals[..], swap.exists()), (&["large".to_string()][..], true));
    drop(reader);
    let store = home.open("store");
    assert_eq!((&store.recovery().removals[..], swap.exists()), (&["large".to_string()][..], false));
    assert_eq!((store.names("").unwrap(), store.check()), (vec![], vec![]));
}

/// A daemon opens its store by a relative path, and changes its directory. In a process of its own:
/// tests share theirs.
#[test]
fn a_store_that_was_opened_by_a_relative_path_finds_its_backing_files() {
    let home = Home::new();
    if std::env::var_os("EVERBYTE_TEST_CHDIR").is_none() {
        let name = "backing_files::a_store_that_was_opened_by_a_relative_path_finds_its_backing_files";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", name]).env("EVERBYTE_TEST_CHDIR", "1").current_dir(home.0.path());
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let store = home.store("store");
    store.set_resident("large", Some(LIMIT), None).unwrap();
    close(store);
    std::env::set_current_dir(home.0.path()).unwrap();
    let store = Store::open(Path::new("store"), &Home::options()).unwrap();
    std::env::set_current_dir(elsewhere.path()).unwrap();
    cool(store);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0, "no file is made in the new directory");
    require_whole(&home.open("store"));
}

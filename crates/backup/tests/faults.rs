//! Damaged and foreign files, full disks, stores that cannot be copied: refused with the place, and
//! nothing is left behind.

mod common;

use common::{Folder, object, put};
use everbyte_backup::layout::{ChunkHead, END_LEN, End, HEAD_LEN, Head, PAGE};
use everbyte_backup::{
    BackupFile, Error, Files, Options, RealFiles, RestoreOptions, Sink, backup, backup_with, restore, verify,
};
use everbyte_media::{Checked, ErrorInfo, ErrorKind, museum};
use everbyte_store::Store;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

fn quietly(store: &Store, to: &Path) -> Result<(), Error> {
    backup(store, to, &Options::default(), &mut |_| {}).map(drop)
}

fn since(store: &Store, parent: &Path, to: &Path) -> Result<(), Error> {
    backup(store, to, &Options { since: Some(parent.into()), ..Options::default() }, &mut |_| {}).map(drop)
}

/// A backup of a store with one object, and its bytes.
fn made() -> (Folder, Store, Vec<u8>) {
    let [folder, _] = Folder::both();
    let store = folder.create("store");
    let at = object(&store, "a", 4);
    put(&store, at + 8192, 5);
    quietly(&store, &folder.path("backup")).unwrap();
    let bytes = std::fs::read(folder.path("backup")).unwrap();
    verify(&bytes).unwrap();
    (folder, store, bytes)
}

/// A refused chain makes no store, and no other file.
fn refuse(folder: &Folder, files: &[PathBuf]) -> Error {
    let before = std::fs::read_dir(folder.root()).unwrap().count();
    let options = RestoreOptions { media: folder.options(), ..RestoreOptions::default() };
    let error = restore(files, &folder.path("refused"), &options, &mut |_| {}).unwrap_err();
    assert_eq!(std::fs::read_dir(folder.root()).unwrap().count(), before, "{error}");
    error
}

#[test]
fn a_file_that_was_cut_off_or_lengthened_is_refused() {
    let (folder, _store, bytes) = made();
    for len in (0..bytes.len()).step_by(997).chain(bytes.len() - 200..bytes.len()) {
        let error = verify(&bytes[..len]).unwrap_err();
        let short = (len as u64) < HEAD_LEN;
        assert_eq!(error.kind(), if short { ErrorKind::Foreign } else { ErrorKind::Damaged }, "{len}: {error}");
        assert!(short || error.damage().unwrap().offset.is_some());
    }
    let cut = folder.path("cut");
    std::fs::write(&cut, &bytes[..bytes.len() - 1]).unwrap();
    assert!(refuse(&folder, &[cut]).to_string().contains("end mark"));
    for more in [1, END_LEN as usize] {
        assert!(verify(&[&bytes[..], &vec![0; more]].concat()).is_err());
    }
    let twice = [&bytes[..], &bytes[bytes.len() - END_LEN as usize..]].concat();
    assert!(verify(&twice).is_err(), "an end mark of another place");
}

/// One flipped bit in any region: head, chunk heads, numbers, pages, table, end mark.
#[test]
fn every_flipped_bit_is_found() {
    let (_folder, _store, mut bytes) = made();
    let table = BackupFile::of(&bytes[..], Path::new("backup")).unwrap().end().table_at as usize;
    let first = HEAD_LEN as usize..HEAD_LEN as usize + 64 + 400;
    let regions = (0..first.end).chain((first.end..table).step_by(311)).chain(table..bytes.len());
    for at in regions {
        let bit = 1 << (at % 8);
        bytes[at] ^= bit;
        let found = verify(&bytes);
        assert!(found.is_err(), "byte {at} of {}", bytes.len());
        bytes[at] ^= bit;
    }
    verify(&bytes).unwrap();
    let body = first.start + 64 + 300;
    bytes[body] ^= 1;
    assert!(museum::with("backup-sum-unchecked", || verify(&bytes)).is_ok(), "only the sum tells");
}

/// Bytes with a right checksum and a wrong content: the hash of the table finds them.
#[test]
fn a_page_with_another_hash_is_refused() {
    let (folder, _store, mut bytes) = made();
    let at = HEAD_LEN as usize;
    let mut head = ChunkHead::read_from_bytes(&bytes[at..at + 64]).unwrap();
    let body = at + 64..at + 64 + head.body_len as usize;
    bytes[body.start + head.count as usize * 8 + 100] ^= 1;
    head.body_sum = crc32c(&bytes[body]);
    bytes[at..at + 64].copy_from_slice(head.sealed().as_bytes());
    verify(&bytes).unwrap();
    let changed = folder.path("changed");
    std::fs::write(&changed, &bytes).unwrap();
    let error = refuse(&folder, &[changed]);
    assert!(error.to_string().contains("is not the one of the table"), "{error}");
}

/// READ-3: an end mark with right checksums that counts one page more than the file has.
#[test]
fn a_file_that_counts_other_pages_than_it_has_is_refused() {
    let (folder, _store, mut bytes) = made();
    let at = bytes.len() - END_LEN as usize;
    let mut head = ChunkHead::read_from_bytes(&bytes[at..at + 64]).unwrap();
    let mut end = End::read_from_bytes(&bytes[at + 64..]).unwrap();
    end.stored += 1;
    head.body_sum = crc32c(end.as_bytes());
    bytes[at..].copy_from_slice(&[head.sealed().as_bytes(), end.as_bytes()].concat());
    let path = folder.path("more");
    std::fs::write(&path, &bytes).unwrap();
    let error = refuse(&folder, &[path]);
    assert!(error.to_string().contains("the pages do not reach to the table"), "{error}");
}

fn crc32c(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0_u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(sum & 1)))
    }) ^ !0
}

#[test]
fn a_chunk_of_another_backup_or_place_is_refused() {
    let (folder, store, bytes) = made();
    quietly(&store, &folder.path("second")).unwrap();
    let second = std::fs::read(folder.path("second")).unwrap();
    assert_eq!(second.len(), bytes.len(), "the same pages");
    let mixed = [&bytes[..HEAD_LEN as usize], &second[HEAD_LEN as usize..]].concat();
    assert!(verify(&mixed).unwrap_err().to_string().contains("belongs to another"));
}

#[test]
fn foreign_and_newer_files_are_told_apart() {
    let (folder, store, bytes) = made();
    let path = folder.path("x");
    std::fs::write(&path, vec![7; 9000]).unwrap();
    assert_eq!(refuse(&folder, std::slice::from_ref(&path)).kind(), ErrorKind::Foreign);
    assert_eq!(refuse(&folder, &[store.media().path().into()]).kind(), ErrorKind::Foreign);
    assert_eq!(refuse(&folder, &[folder.path("absent")]).kind(), ErrorKind::NotFound);
    assert_eq!(refuse(&folder, &[]).kind(), ErrorKind::Invalid);
    let head = Head { format: 2, ..Head::read_from_bytes(&bytes[..512]).unwrap() }.sealed();
    std::fs::write(&path, [head.as_bytes(), &bytes[512..]].concat()).unwrap();
    assert_eq!(refuse(&folder, &[path]).kind(), ErrorKind::Newer);
}

#[test]
fn sizes_that_contradict_each_other_are_refused() {
    let (_folder, _store, bytes) = made();
    let good = Head::read_from_bytes(&bytes[..512]).unwrap();
    let wrong: [fn(&mut Head); 8] = [
        |head| head.max += 1,
        |head| head.max = 1 << 60,
        |head| head.linear = 0,
        |head| head.linear = head.max + PAGE,
        |head| head.log_at = 0,
        |head| head.log_len = !4095,
        |head| head.depth = 1,
        |head| head.binding = 7,
    ];
    for (index, change) in wrong.into_iter().enumerate() {
        let mut head = good;
        change(&mut head);
        let error = verify(&[head.sealed().as_bytes(), &bytes[512..]].concat()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{index}: {error}");
    }
}

#[test]
fn a_chain_with_a_gap_or_in_another_order_is_refused() {
    let (folder, store, _) = made();
    let [whole, one, two, beside] = ["backup", "one", "two", "beside"].map(|name| folder.path(name));
    since(&store, &whole, &one).unwrap();
    since(&store, &one, &two).unwrap();
    quietly(&store, &beside).unwrap();
    let file = |path: &PathBuf| path.clone();
    for (chain, text) in [
        (vec![file(&one)], "goes before it"),
        (vec![file(&whole), file(&two)], "follows"),
        (vec![file(&whole), file(&two), file(&one)], "follows"),
        (vec![file(&whole), file(&whole)], "a whole backup"),
        (vec![file(&beside), file(&one)], "follows"),
    ] {
        let error = refuse(&folder, &chain);
        assert!(matches!(&error, Error::WrongParent { .. }) && error.to_string().contains(text), "{error}");
    }
    let any = museum::with("backup-any-parent", || {
        let options = RestoreOptions { media: folder.options(), new_identity: true };
        restore(&[whole.clone(), two.clone()], &folder.path("any"), &options, &mut |_| {})
    });
    assert!(any.is_ok(), "these pages happen to be the same: only the check of the parent tells");
    let other = folder.create("other");
    let error = since(&other, &whole, &folder.path("three")).unwrap_err();
    assert!(error.to_string().contains("another store"), "{error}");
    assert!(!folder.path("three").exists());
}

#[test]
fn an_existing_file_is_never_replaced() {
    let (folder, store, bytes) = made();
    let error = quietly(&store, &folder.path("backup")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert_eq!(std::fs::read(folder.path("backup")).unwrap(), bytes);
    let options = RestoreOptions { media: folder.options(), ..RestoreOptions::default() };
    let error = restore(&[folder.path("backup")], &folder.path("store"), &options, &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert!(quietly(&store, &folder.path("no/such/folder")).is_err());
    assert_eq!(std::fs::read_dir(folder.root()).unwrap().count(), 2);
}

/// Fails the call of that number, and writes down all calls.
struct Failing {
    fails_at: usize,
    calls: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<&'static str>>>,
}

struct FailingSink(Box<dyn Sink>, Arc<Failing>);

impl Failing {
    fn new(fails_at: usize) -> Arc<Failing> {
        Arc::new(Failing { fails_at, calls: Arc::default(), seen: Arc::default() })
    }

    fn call(&self, name: &'static str) -> io::Result<()> {
        self.seen.lock().unwrap().push(name);
        match self.calls.fetch_add(1, Relaxed) == self.fails_at {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

struct FailingFiles(Arc<Failing>);

impl Files for FailingFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
        self.0.call("create")?;
        Ok(Box::new(FailingSink(RealFiles.create(path)?, Arc::clone(&self.0))))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.call("rename")?;
        RealFiles.rename(from, to)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.0.call("sync directory")?;
        RealFiles.sync_directory(path)
    }

    fn remove(&self, path: &Path) {
        RealFiles.remove(path);
    }
}

impl Sink for FailingSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.1.call("write")?;
        self.0.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.1.call("sync")?;
        self.0.sync()
    }
}

/// Each call of the system fails in turn, as on a full disk.
#[test]
fn a_full_disk_is_an_error_and_leaves_no_file() {
    let (folder, store, bytes) = made();
    let new = folder.path("new");
    let mut failures = 0;
    for fails_at in 0.. {
        let files = FailingFiles(Failing::new(fails_at));
        let done = backup_with(&store, &new, &Options::default(), &files, &mut |_| {});
        let Err(error) = done else { break };
        failures += 1;
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        let last = files.0.seen.lock().unwrap().last().copied();
        if last == Some("sync directory") {
            verify(&std::fs::read(&new).unwrap()).unwrap(); // the file is whole, its name may be lost
            std::fs::remove_file(&new).unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.root()).unwrap().count(), 2, "no file after {last:?}");
    }
    assert!(failures > 8, "{failures}");
    verify(&std::fs::read(&new).unwrap()).unwrap();
    assert_eq!(std::fs::read(folder.path("backup")).unwrap(), bytes);
    assert!(store.check().is_empty());
}

/// PUBLISH-1
#[test]
fn the_file_is_synced_before_it_has_its_name_and_the_directory_after() {
    let (folder, store, _) = made();
    let order = |name: &str| {
        let files = FailingFiles(Failing::new(usize::MAX));
        backup_with(&store, &folder.path(name), &Options::default(), &files, &mut |_| {}).unwrap();
        let seen = files.0.seen.lock().unwrap().clone();
        seen[seen.len() - 4..].to_vec()
    };
    assert_eq!(order("one"), ["write", "sync", "rename", "sync directory"]);
    assert_ne!(museum::with("backup-unsynced", || order("two")), ["write", "sync", "rename", "sync directory"]);
}

#[test]
fn an_open_transaction_or_a_second_backup_keeps_a_backup_waiting() {
    let (folder, store, _) = made();
    let soon = Options { wait: Duration::from_millis(20), ..Options::default() };
    let section = store.media().section();
    let error = backup(&store, &folder.path("x"), &soon, &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    drop(section);
    let mut second = None;
    backup(&store, &folder.path("y"), &Options::default(), &mut |_| {
        second.get_or_insert_with(|| backup(&store, &folder.path("x"), &soon, &mut |_| {}));
    })
    .unwrap();
    assert_eq!(second.unwrap().unwrap_err().kind(), ErrorKind::Busy);
    let mut section = None;
    let error = backup(&store, &folder.path("x"), &soon, &mut |progress| {
        if progress.phase == everbyte_backup::Phase::Close {
            section = Some(store.media().section());
        }
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Busy);
    drop(section);
    assert!(!folder.path("x").exists());
    quietly(&store, &folder.path("x")).unwrap();
}

#[test]
fn stores_that_one_file_does_not_hold_are_refused() {
    let (folder, store, _) = made();
    drop(store);
    let path = folder.path("store");
    let store = Store::options(&path).read_only().open(&folder.options()).unwrap();
    let error = quietly(&store, &folder.path("x")).unwrap_err();
    assert!(error.to_string().contains("for reading only"), "{error}");
    drop(store);

    let store = Store::options(&path).shared().open(&folder.options()).unwrap();
    quietly(&store, &folder.path("shared")).unwrap(); // no other process has it
    drop(store);

    let store = Store::open(&path, &folder.options()).unwrap();
    object(&store, "cold", 40);
    store.set_resident("cold", Some(32), None).unwrap();
    let error = quietly(&store, &folder.path("x")).unwrap_err();
    assert!(error.to_string().contains("`cold` has a backing file"), "{error}");
    store.set_resident("cold", None, None).unwrap();
    let error = backup(&store, &folder.path("x"), &Options::default(), &mut |progress| {
        if progress.phase == everbyte_backup::Phase::Close {
            store.set_resident("cold", Some(32), None).unwrap();
        }
    });
    assert!(error.unwrap_err().to_string().contains("`cold` has a backing file"), "made meanwhile");
    assert!(!folder.path("x").exists());
}

/// The seeded bugs of taking an image, each found by what the restored store says.
#[test]
fn a_page_that_is_missed_is_found() {
    let [folder, _] = Folder::both();
    let store = folder.create("store");
    let at = object(&store, "a", 4);
    for (number, bug) in ["none", "media-change-unnoted", "backup-last-changes"].into_iter().enumerate() {
        let file = folder.path(bug);
        let round = number as u64 + 1;
        museum::with(bug, || {
            backup(&store, &file, &Options::default(), &mut |progress| {
                if progress.phase == everbyte_backup::Phase::Close {
                    put(&store, at + 8192, round * 10);
                }
            })
        })
        .unwrap();
        let again = common::again(&folder, &[file], round);
        let kept = common::word(&again, "a", 8192) == round * 10;
        assert_eq!(kept, bug == "none", "{bug}");
    }
    let section = store.media().section();
    let soon = Options { wait: Duration::ZERO, ..Options::default() };
    museum::with("media-gate-open", || backup(&store, &folder.path("open"), &soon, &mut |_| {}).unwrap());
    assert!(backup(&store, &folder.path("closed"), &soon, &mut |_| {}).is_err(), "a section is open");
    drop(section);
}

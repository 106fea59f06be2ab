//! Full disks, failing syncs, read-only places, second openers, and files changed behind our back.

use crate::common::copy_sparsely;
use everbyte_media::{BackendChoice, Media, OpenOptions, Options};
use everbyte_sim::{DiskCall, FaultReport, Image, RecordedDisk, fault_loop};
use everbyte_store::{CLUSTER, CreateOptions, Error, FormatOptions, Object, ObjectOptions, Store};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const BACKENDS: [BackendChoice; 2] = [BackendChoice::File, BackendChoice::Shm];

fn options(backend: BackendChoice) -> Options {
    Options { backend, log_bytes: 256 << 10, ..Options::default() }
}

fn create(path: &Path, backend: BackendChoice, max: u64) -> Store {
    Store::create(path, &CreateOptions { media: options(backend), max, ..CreateOptions::default() }).unwrap()
}

fn span(clusters: u64) -> ObjectOptions {
    ObjectOptions { span: Some(clusters * CLUSTER), ..ObjectOptions::default() }
}

/// Every allocation fails once, and every barrier: an error each time, and what is on media stays
/// sound.
#[test]
fn a_full_disk_and_a_failed_sync_are_errors_that_lose_nothing() {
    let image = Image::zeroed(128 << 10).with_max(1 << 20).then(|media| {
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let kept = store.create_object("kept", span(1), |_| Ok::<(), Error>(())).unwrap();
        kept.set_root(77);
        store.close().unwrap();
    });
    let program = |media: Media| -> Result<(), Error> {
        let store = Store::attach(media)?;
        let object = store.create_object("more", span(4), |object| object.grow(CLUSTER).map(drop))?;
        let before = object.backed();
        if let Err(error) = object.grow(2 * CLUSTER) {
            assert_eq!(object.backed(), before, "a refused growth changes nothing");
            assert!(store.check().is_empty());
            return Err(error);
        }
        object.release(before..before + CLUSTER)?;
        object.back(before..before + CLUSTER)?;
        drop(object);
        store.remove_object("more")?;
        store.trim()?;
        store.close()
    };
    let report: FaultReport = fault_loop(&image, program, |media, result| {
        if let Err(error) = result {
            let expected =
                matches!(error, Error::OutOfSpace { .. } | Error::Media(everbyte_media::Error::Poisoned { .. }));
            if !expected {
                return Err(format!("not the error for this: {error}"));
            }
        }
        let store = Store::attach(media).map_err(|error| error.to_string())?;
        let findings = store.check();
        let kept = store.object("kept").map_err(|error| error.to_string())?.root();
        if kept == 77 && findings.is_empty() { Ok(()) } else { Err(format!("root {kept}, {findings:?}")) }
    });
    assert!(report.allocations >= 3 && report.barriers >= 4, "{report:?}");
}

/// Two holes are to be backed and the disk has room for one: an error, and that room goes back to
/// the disk.
#[test]
fn room_that_was_asked_for_in_vain_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.store");
    create(&path, BackendChoice::File, 4 << 20).close().unwrap();
    let disk = RecordedDisk::new(&fs::read(&path).unwrap()).unwrap();
    let store =
        Store::attach(OpenOptions::new(&path).on_disk(disk.clone()).open(&options(BackendChoice::File)).unwrap())
            .unwrap();
    let object = store.create_object("o", span(8), |object| object.grow(5 * CLUSTER).map(drop)).unwrap();
    let at = object.prime() + CLUSTER;
    for hole in [at, at + 2 * CLUSTER] {
        object.release(hole..hole + CLUSTER).unwrap();
    }
    assert_eq!(store.trim().unwrap(), 2 * CLUSTER);
    const ENOSPC: i32 = 28;
    disk.fail(DiskCall::Allocate, 1, ENOSPC);
    assert!(matches!(object.back(at..at + 3 * CLUSTER), Err(Error::OutOfSpace { .. })));
    disk.heal();
    // The refused one may have got a part of its room: it waits for the next checkpoint, too.
    assert_eq!((object.holes().len(), store.info().waiting), (2, 2 * CLUSTER));
    object.back(at..at + 3 * CLUSTER).unwrap();
    assert_eq!((object.holes().len(), store.check()), (0, vec![]));
}

/// A tmpfs of its own, where the process may mount one.
struct Mount {
    dir: tempfile::TempDir,
}

impl Mount {
    fn new(size: &str) -> Option<Mount> {
        let dir = tempfile::tempdir().unwrap();
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(dir.path())
            .output();
        match done {
            Ok(output) if output.status.success() => Some(Mount { dir }),
            other => {
                eprintln!(
                    "skipped: this process may not mount a tmpfs ({other:?}); the fault loop covers the same paths"
                );
                None
            }
        }
    }

    fn remount(&self, how: &str) {
        let done = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(self.dir.path()).status();
        assert!(done.unwrap().success());
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("a.store")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
    }
}

#[test]
fn a_really_full_disk_is_an_error_and_room_made_is_used() {
    for backend in BACKENDS {
        let Some(mount) = Mount::new("3M") else { return };
        let store = create(&mount.path(), backend, 64 << 20);
        let object = store.create_object("big", span(256), |_| Ok::<(), Error>(())).unwrap();
        let small = store.create_object("small", span(1), |_| Ok::<(), Error>(())).unwrap();
        let mut last = None;
        let error = loop {
            match object.grow(4 * CLUSTER) {
                Ok(range) => {
                    let media = store.media();
                    let _section = media.section();
                    media.store(range.end - 8, range.end);
                    media.flush(range.end - 8, 8);
                    last = Some(range);
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::OutOfSpace { .. }), "{error}");
        let last = last.expect("something fits into 3 MiB");
        assert_eq!(object.backed(), last.end, "a refused growth changes nothing");
        assert_eq!(store.check(), []);
        // The clusters that were handed out before are there and can be used to its last byte.
        small.set_root(5);
        assert_eq!(store.media().load(last.end - 8), last.end);
        store.media().barrier().unwrap();
        let refused = store.create_object("more", span(16), |object| object.grow(15 * CLUSTER).map(drop));
        assert!(matches!(refused, Err(Error::OutOfSpace { .. })));
        assert!(matches!(store.object("more"), Err(Error::NotFound { .. })));

        // Room is made: by our own release, given back, and used again.
        object.release(last.clone()).unwrap();
        assert!(store.trim().unwrap() >= last.end - last.start);
        store.create_object("more", span(2), |object| object.grow(CLUSTER).map(drop)).unwrap();
        assert_eq!(store.check(), []);
        drop((object, small));
        store.close().unwrap();
        drop(store);
        let store = Store::open(&mount.path(), &options(backend)).unwrap();
        assert_eq!(store.check(), []);
        assert_eq!(store.object("small").unwrap().root(), 5);
    }
}

/// Clusters that are kept for a next owner take no space that other objects lack.
#[test]
fn what_is_kept_is_given_back_where_room_is_short() {
    let Some(mount) = Mount::new("6M") else { return };
    let store = create(&mount.path(), BackendChoice::Shm, 64 << 20);
    let [one, other] = ["one", "other"].map(|name| {
        let object = store.create_object(name, span(256), |_| Ok::<(), Error>(()));
        object.unwrap()
    });
    let full = |object: &Object| (0..).take_while(|_| object.grow(CLUSTER).is_ok()).count();
    let room = full(&one);
    assert!(room > 32, "{room} clusters fit into 6 MiB");
    one.release(one.prime() + CLUSTER..one.backed()).unwrap();
    store.clear_released();
    assert_eq!(store.info().waiting, room as u64 * CLUSTER);
    assert!(full(&other) + 1 >= room, "all of it");
    assert_eq!((store.info().waiting, store.check()), (0, vec![]));
}

/// No clone and no rebased copy is reported as made without the space that it needs.
#[test]
fn a_copy_for_which_the_disk_has_no_room_is_refused_and_nothing_changes() {
    for backend in BACKENDS {
        let Some(mount) = Mount::new("2M") else { return };
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("a.store");
        let store = create(&source, backend, 64 << 20);
        let object = store.create_object("big", span(64), |object| object.grow(48 * CLUSTER).map(drop)).unwrap();
        let media = store.media();
        media.write(object.prime() + 4096, &vec![7; 47 * CLUSTER as usize]);
        media.flush(object.prime() + 4096, 47 * CLUSTER);
        store.close().unwrap();
        drop((object, store));
        let left = || fs::read_dir(mount.dir.path()).unwrap().count();

        let error = Store::clone_file(&source, &mount.path(), &options(backend), &mut |_, _| ()).unwrap_err();
        assert!(error.to_string().contains("No space left"), "{error}");
        assert_eq!(left(), 0);

        // Pages that were never written take no space in a copy made by hand, until it is rebased.
        let sparse = create(&source.with_extension("sparse"), backend, 64 << 20);
        drop(sparse.create_object("big", span(64), |object| object.grow(48 * CLUSTER).map(drop)).unwrap());
        sparse.close().unwrap();
        let identity = sparse.identity();
        drop(sparse);
        copy_sparsely(&source.with_extension("sparse"), &mount.path());
        let error = Store::options(mount.path()).rebased().open(&options(backend)).unwrap_err();
        assert!(matches!(error, Error::OutOfSpace { .. }), "{error}");
        let store = Store::open(&mount.path(), &options(backend)).unwrap();
        assert_eq!((store.identity(), store.check()), (identity, vec![]));
    }
}

#[test]
fn a_place_that_cannot_be_written_is_an_error_that_names_it() {
    let error = Store::create(Path::new("/proc/a.store"), &CreateOptions::default()).unwrap_err();
    assert!(error.to_string().contains("/proc/a.store"), "{error}");
    let error = Store::open(Path::new("/nowhere/a.store"), &Options::default()).unwrap_err();
    assert!(error.to_string().contains("/nowhere/a.store"), "{error}");
    let Some(mount) = Mount::new("8M") else { return };
    drop(create(&mount.path(), BackendChoice::Auto, 4 << 20));
    mount.remount("ro");
    let error = Store::open(&mount.path(), &Options::default()).unwrap_err();
    assert!(error.to_string().contains("Read-only"), "{error}");
    let other = mount.dir.path().join("b.store");
    assert!(Store::create(&other, &CreateOptions::default()).is_err() && !other.exists());
}

#[test]
fn a_creation_that_fails_leaves_no_file_and_never_touches_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.store");
    let small = CreateOptions { media: options(BackendChoice::Auto), max: 128 << 10, ..CreateOptions::default() };
    assert!(matches!(Store::create(&path, &small), Err(Error::BadOption { .. })));
    assert!(!path.exists());
    fs::write(&path, b"a user's letter").unwrap();
    assert!(Store::create(&path, &CreateOptions::default()).is_err());
    assert!(Store::open(&path, &Options::default()).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"a user's letter");
}

/// Run by `another_process_is_told_who_holds_the_store` in a process of its own.
#[test]
fn opens_what_the_environment_names() {
    let Some(path) = std::env::var_os("EVERBYTE_TEST_OPEN") else { return };
    match Store::open(Path::new(&path), &Options::default()) {
        Ok(_) => println!("opened"),
        Err(error) => println!("refused: {error}"),
    }
}

#[test]
fn another_process_is_told_who_holds_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.store");
    let open_elsewhere = || {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["bad_days::opens_what_the_environment_names", "--exact", "--nocapture"])
            .env("EVERBYTE_TEST_OPEN", &path);
        String::from_utf8(child.output().unwrap().stdout).unwrap()
    };
    for backend in BACKENDS {
        let store = create(&path, backend, 4 << 20);
        let answer = open_elsewhere();
        let named = answer.contains("refused") && answer.contains(&format!("pid {}", std::process::id()));
        assert!(named && answer.contains("a.store"), "{answer}");
        assert_eq!(store.check(), [], "the refused opener changed nothing");
        drop(store);
        let answer = open_elsewhere();
        assert!(answer.contains("opened"), "{answer}");
        fs::remove_file(&path).unwrap();
    }
}

/// A store with two objects, closed; and where the second ends.
fn two_objects(path: &Path, backend: BackendChoice) -> (u64, u64) {
    let store = create(path, backend, 4 << 20);
    let ends = ["low", "high"].map(|name| {
        let object = store.create_object(name, span(4), |object| object.grow(2 * CLUSTER).map(drop)).unwrap();
        object.set_root(9);
        object.backed()
    });
    store.close().unwrap();
    (ends[0].get(), ends[1].get())
}

#[test]
fn a_truncated_store_says_so_and_keeps_what_is_left() {
    for backend in BACKENDS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.store");
        two_objects(&path, backend);
        let whole = fs::read(&path).unwrap();
        let end = whole.len();
        for len in [end - 1, end - 4096, end - CLUSTER as usize, end / 2, 300 << 10, 90 << 10, 20 << 10, 5000, 1, 0] {
            fs::write(&path, &whole[..len]).unwrap();
            for read_only in [false, true] {
                let opened = match read_only {
                    false => Store::open(&path, &options(backend)),
                    true => Store::options(&path).read_only().open(&options(backend)),
                };
                let text = opened.unwrap_err().to_string();
                let told = ["truncated", "not an Everbyte store"];
                assert!(told.iter().any(|told| text.contains(told)), "{len}: {text}");
            }
            assert_eq!(fs::read(&path).unwrap().len(), len, "what is left stays as it is");
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(Store::open(&path, &options(backend)).unwrap().object("low").unwrap().root(), 9);
    }
}

#[test]
fn a_store_grown_from_outside_opens_and_never_hands_out_foreign_bytes() {
    for backend in BACKENDS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.store");
        let (_, high) = two_objects(&path, backend);
        let file = File::options().write(true).open(&path).unwrap();
        let len = file.metadata().unwrap().len();
        file.write_all_at(&vec![0xee; 3 * CLUSTER as usize + 77], len).unwrap();
        drop(file);
        // They belong to no chunk, and a chunk that is placed there is cleared first.
        let store = Store::open(&path, &options(backend)).unwrap();
        assert_eq!(store.recovery().unknown, 0);
        let object = store.object("high").unwrap();
        assert_eq!(object.backed(), high);
        let grown = object.grow(CLUSTER).unwrap();
        let other = store.create_object("other", span(4), |object| object.grow(3 * CLUSTER).map(drop)).unwrap();
        for range in [grown, (other.prime() + 512).get()..other.backed().get()] {
            let bytes = store.media().read_vec(range.start, (range.end - range.start) as usize);
            assert!(bytes.iter().all(|&byte| byte == 0), "foreign bytes in {range:x?}");
        }
        store.media().barrier().unwrap();
        assert_eq!(store.check(), []);
    }
}

/// An interrupted creation of the file is told apart from a foreign file.
#[test]
fn an_unfinished_file_says_that_it_never_held_anything() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.store");
    drop(create(&path, BackendChoice::Shm, 4 << 20));
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[0; 8192], 0).unwrap();
    let error = Store::open(&path, &options(BackendChoice::Shm)).unwrap_err();
    assert!(matches!(error, Error::Unfinished { .. }), "{error}");
}

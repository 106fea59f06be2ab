//! Write windows of volumes: no call of a volume faults, every stray store does. The twin in
//! `model.rs` runs with windows, too.

use everbyte_fs::{FileKind, Ino, MapOptions, NewFile, OpenVolume, Rename, Volume, VolumeOptions};
use everbyte_media::{BackendChoice, Media, Options, WriteWindows};
use everbyte_store::{CreateOptions, FormatOptions, Store};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

const FILE: NewFile<'_> =
    NewFile { kind: FileKind::Regular, permissions: 0o644, uid: 0, gid: 0, device: 0, target: b"", xattrs: &[] };
const SIGSEGV: i32 = 11;

fn guarded(windows: WriteWindows) -> OpenVolume {
    OpenVolume { windows, ..OpenVolume::default() }
}

fn volume(store: &Store, name: &str, windows: WriteWindows) -> Volume {
    let options = VolumeOptions { span: Some(32 << 20), ..Default::default() };
    Volume::create(store, name, &options).unwrap().close().unwrap();
    let volume = Volume::open_with(store.object(name).unwrap(), &guarded(windows)).unwrap();
    assert_eq!(volume.windows(), windows);
    volume
}

fn store() -> Store {
    let media = Media::anonymous(256 << 20, &Options::default()).unwrap();
    Store::format(media, &FormatOptions::default()).unwrap()
}

/// The kinds of windows that this machine has; `cargo xtask dax` has one with keys.
fn kinds() -> Vec<WriteWindows> {
    let offered = |kind: &WriteWindows| match store().media().guard_writes(0..4096, *kind) {
        Err(everbyte_media::Error::Unsupported { detail, .. }) => {
            eprintln!("skipped: {detail}");
            false
        }
        guard => guard.is_ok(),
    };
    [WriteWindows::PageTable, WriteWindows::Keys].into_iter().filter(offered).collect()
}

/// A store to each page of the volume in turn, each in a process of its own, is a fault; before the
/// volume is opened, and after it was closed, it is none.
#[test]
fn a_stray_store_to_a_volume_ends_the_process() {
    let Ok(page) = std::env::var("EVERBYTE_STRAY_PAGE") else {
        let pages = ["0", "1", "2", "9", "last", "span", "mapped", "none"];
        let kinds = kinds();
        for (page, kind) in pages.into_iter().flat_map(|page| kinds.iter().map(move |kind| (page, kind))) {
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["a_stray_store_to_a_volume_ends_the_process", "--exact", "--test-threads=1"])
                .env("EVERBYTE_STRAY_PAGE", page)
                .env("EVERBYTE_WINDOWS", kind.name())
                .output()
                .unwrap();
            assert!(String::from_utf8_lossy(&child.stdout).contains("running 1 test"));
            let expected = if page == "none" { None } else { Some(SIGSEGV) };
            assert_eq!(child.status.signal(), expected, "page {page}: {}", child.status);
        }
        return;
    };
    let is_asked = |kind: &WriteWindows| kind.name() == std::env::var("EVERBYTE_WINDOWS").unwrap();
    let store = store();
    let volume = volume(&store, "volume", kinds().into_iter().find(is_asked).unwrap());
    let file = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    volume.append(file, &[7; 3 << 20]).unwrap();
    let object = volume.object().clone();
    let (media, span) = (store.media(), object.span());
    let last = object.backed().get() - 4096;
    let options = MapOptions { writable: true, ..MapOptions::default() };
    let map = volume.map(file, 0, 8192, &options).unwrap();
    let mapped = (map.as_ptr().unwrap().addr().get() - media.address().addr().get()) as u64;
    media.store(mapped + 4096, 1); // as a program does by the address
    assert_eq!(map.load(4096).unwrap(), 1);
    drop(map);
    let at = match page.as_str() {
        "mapped" => mapped + 4096,
        "none" => {
            media.store(media.len() - 4096, 0); // the rest of the store is not guarded
            volume.close().unwrap();
            last
        }
        "last" => last,
        "span" => span.start + (1 << 20),
        number => span.start + number.parse::<u64>().unwrap() * 4096,
    };
    media.store(at, media.load(at));
}

/// Growth, a crash and its recovery, snapshots, attributes, and closing with a saved state, on each
/// medium, beside a second volume.
#[test]
fn calls_of_a_volume_store_inside_windows() {
    let dir = tempfile::tempdir().unwrap();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let places = [(&dir, BackendChoice::File), (&memory, BackendChoice::Shm)];
    let kinds = kinds();
    for ((path, backend), &kind) in places.into_iter().flat_map(|place| kinds.iter().map(move |kind| (place, kind))) {
        let media = Options { backend, ..Options::default() };
        let options = CreateOptions { media, max: 1 << 30, ..CreateOptions::default() };
        let store = Store::create(&path.path().join(kind.name()), &options).unwrap();
        let first = volume(&store, "first", kind);
        let second = volume(&store, "second", kind);
        for volume in [&first, &second] {
            let file = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
            volume.append(file, &vec![7; 2 << 20]).unwrap();
            volume.write(file, 5000, &vec![8; 100_000]).unwrap();
            volume.write(file, 100, b"short").unwrap();
            volume.snapshot(b"before").unwrap();
            volume.resize(file, 12_345).unwrap();
            volume.rename(Ino::ROOT, b"file", Ino::ROOT, b"other", Rename::Replace).unwrap();
            for number in 0..300_u32 {
                volume.make(Ino::ROOT, format!("name {number}").as_bytes(), &FILE).unwrap();
            }
        }
        first.close().unwrap();
        assert_eq!(second.check(), []);
        second.settle().unwrap();
        let object = second.object().clone();
        drop(second); // and not closed: the next opening scans
        let second = Volume::open_with(object, &guarded(kind)).unwrap();
        assert!(!second.recovery().saved);
        second.remove_snapshot(b"before").unwrap();
        second.unlink(Ino::ROOT, b"other").unwrap();
        second.close().unwrap();
        store.close().unwrap();
    }
}

/// Threads in one volume: windows that overlap lose no store and fault in no call.
#[test]
fn windows_of_threads_of_a_volume_overlap() {
    for kind in kinds() {
        let store = store();
        let volume = volume(&store, "volume", kind);
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let volume = &volume;
                scope.spawn(move || {
                    let file = volume.make(Ino::ROOT, &[b'a' + thread], &FILE).unwrap();
                    for round in 0..200_u64 {
                        volume.write(file, round * 1000, &[thread; 1500]).unwrap();
                    }
                    let mut bytes = vec![0; 200_500];
                    assert_eq!(volume.read(file, 0, &mut bytes).unwrap(), bytes.len());
                    assert!(bytes.iter().all(|&byte| byte == thread));
                });
            }
        });
        assert_eq!(volume.check(), []);
    }
}

/// Windows that each call opens: with keys two switches each. A change of them is a change of cost.
#[test]
fn windows_per_call_are_counted() {
    let store = store();
    let volume = volume(&store, "volume", WriteWindows::PageTable);
    let media = store.media();
    let count = |call: &mut dyn FnMut() -> everbyte_fs::Result<()>| {
        let before = media.counts().windows;
        call().unwrap();
        media.counts().windows - before
    };
    let file = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    volume.append(file, &[1; 8192]).unwrap();
    let mut bytes = [0; 4096];
    let counts = [
        ("read", count(&mut || volume.read(file, 0, &mut bytes).map(|_| ()))),
        ("make", count(&mut || volume.make(Ino::ROOT, b"new", &FILE).map(|_| ()))),
        ("rename", count(&mut || volume.rename(Ino::ROOT, b"new", Ino::ROOT, b"now", Rename::Replace))),
        ("unlink", count(&mut || volume.unlink(Ino::ROOT, b"now"))),
        ("append 64", count(&mut || volume.append(file, &[2; 64]).map(|_| ()))),
        ("write 64", count(&mut || volume.write(file, 0, &[2; 64]))),
        ("write 4096", count(&mut || volume.write(file, 0, &[2; 4096]))),
    ];
    let expected =
        [("read", 0), ("make", 6), ("rename", 5), ("unlink", 4), ("append 64", 1), ("write 64", 6), ("write 4096", 5)];
    assert_eq!(counts, expected);
}

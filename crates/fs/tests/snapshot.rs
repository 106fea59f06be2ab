//! Snapshots: the tree of one moment, which nothing changes.

use everbyte_fs::model::{self, Op};
use everbyte_fs::{Allocate, Error, FileKind, Ino, NewFile, Rename, SetAttributes, SetXattr, Volume, VolumeOptions};
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};
use std::sync::atomic::{AtomicBool, Ordering};

const FILE: NewFile<'_> =
    NewFile { kind: FileKind::Regular, permissions: 0o644, uid: 0, gid: 0, device: 0, target: b"", xattrs: &[] };
const DIRECTORY: NewFile<'_> = NewFile { kind: FileKind::Directory, ..FILE };

fn volume(span: u64) -> (Store, Volume) {
    let media = Media::anonymous(128 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let volume = Volume::create(&store, "volume", &VolumeOptions { span: Some(span), ..Default::default() }).unwrap();
    (store, volume)
}

fn content(volume: &Volume, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0; volume.attributes(ino).unwrap().size as usize];
    assert_eq!(volume.read(ino, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Pages in use, without those of groups of inodes.
fn used(volume: &Volume) -> u64 {
    let usage = volume.usage();
    usage.pages - usage.free_pages - usage.inodes.div_ceil(256) * 16
}

fn again(volume: Volume) -> Volume {
    let (object, usage) = (volume.object().clone(), volume.usage());
    assert_eq!(volume.check(), []);
    drop(volume);
    let volume = Volume::open(object).unwrap();
    assert_eq!((volume.usage(), volume.recovery()), (usage, &Default::default()));
    assert_eq!(volume.check(), []);
    volume
}

/// Files of every kind and form.
fn fill(volume: &Volume) {
    let root = Ino::ROOT;
    let directory = volume.make(root, b"directory", &DIRECTORY).unwrap();
    let below = volume.make(directory, b"below", &DIRECTORY).unwrap();
    let small = volume.make(below, b"small", &FILE).unwrap();
    volume.append(small, &model::bytes(100, 1)).unwrap();
    let large = volume.make(directory, b"large", &FILE).unwrap();
    volume.append(large, &model::bytes(50_000, 2)).unwrap();
    let sparse = volume.make(root, b"sparse", &FILE).unwrap();
    (0..300).for_each(|number| volume.write(sparse, number * 8192, &[3; 10]).unwrap()); // a chain of extents
    volume.allocate(sparse, 4096, 4096, Allocate::Grow).unwrap();
    volume.allocate(sparse, 4 << 20, 8192, Allocate::KeepSize).unwrap();
    volume.link(large, root, b"again").unwrap();
    let long = [b'l'; 300];
    volume.make(root, b"link", &NewFile { kind: FileKind::Link, target: &long, ..FILE }).unwrap();
    volume.make(root, b"pipe", &NewFile { kind: FileKind::Pipe, ..FILE }).unwrap();
    volume.set_xattr(large, b"user.one", &model::bytes(5000, 4), SetXattr::Any).unwrap();
    volume.set_xattr(below, b"user.two", b"two", SetXattr::Any).unwrap();
    for number in 0..100 {
        volume
            .make(below, format!("a name of two lines, which is longer than 48 bytes: {number}").as_bytes(), &FILE)
            .unwrap();
    }
    volume
        .set_attributes(small, &SetAttributes { uid: Some(7), permissions: Some(0o4700), ..Default::default() })
        .unwrap();
}

#[test]
fn a_snapshot_is_the_tree_of_one_moment() {
    let (_store, mut volume) = volume(16 << 20);
    assert!(volume.snapshots().unwrap().is_empty());
    assert!(matches!(volume.snapshot_root(b"one"), Err(Error::NotFound)));
    fill(&volume);
    let held = volume.make_unnamed(&FILE).unwrap();
    volume.append(held.ino(), &[1; 9000]).unwrap();
    let plain = used(&volume);
    let first = volume.snapshot(b"one").unwrap();
    assert_eq!(volume.snapshot_root(b"one").unwrap(), first.root);
    assert!(matches!(volume.snapshot(b"one"), Err(Error::Exists)));
    let taken = used(&volume) - plain;
    assert!(taken <= 12, "names, chains and the directory of snapshots: {taken} pages");
    let mut twin = model::read(&volume).unwrap();
    assert_eq!(twin.all_snapshots()[&b"one"[..]], twin.shown());
    drop(held);
    volume = again(volume);
    assert_eq!(model::read(&volume).unwrap(), twin);

    // Every change of the tree leaves the snapshot as it was.
    let path = |text: &str| text.split('/').map(|name| name.as_bytes().to_vec()).collect::<model::Path>();
    let changes = [
        Op::Write { path: path("directory/large"), at: 5000, len: 30, seed: 9 },
        Op::Append { path: path("directory/below/small"), len: 20, seed: 9 },
        Op::Append { path: path("again"), len: 20_000, seed: 9 },
        Op::Resize { path: path("sparse"), to: 100_000 },
        Op::Xattr { path: path("again"), name: b"user.one".to_vec(), len: 10, seed: 9 },
        Op::Rename { from: path("directory/below"), to: path("moved"), mode: Rename::Replace },
        Op::Snapshot { name: b"two".to_vec() },
        Op::Set { path: path("moved/small"), permissions: 0o600, uid: 1 },
        Op::Unlink { path: path("directory/large") },
        Op::Unlink { path: path("again") },
        Op::Unlink { path: path("link") },
        Op::RemoveDirectory { path: path("directory") },
        Op::RemoveSnapshot { name: b"one".to_vec() },
        Op::Snapshot { name: b"one".to_vec() },
        Op::RemoveSnapshot { name: b"two".to_vec() },
    ];
    for change in changes {
        model::apply(&volume, &change).unwrap();
        twin.apply(&change).unwrap();
        assert_eq!(model::read(&volume).unwrap(), twin, "{change:?}");
        volume = again(volume);
        assert_eq!(model::read(&volume).unwrap(), twin, "{change:?}");
    }
    let names: Vec<Vec<u8>> = volume.snapshots().unwrap().into_iter().map(|snapshot| snapshot.name).collect();
    assert_eq!(names, [b"one"]);
}

#[test]
fn a_snapshot_cannot_be_changed() {
    let (_store, volume) = volume(16 << 20);
    fill(&volume);
    let root = volume.snapshot(b"one").unwrap().root;
    let before = model::read(&volume).unwrap();
    let directory = volume.lookup(root, b"directory").unwrap().unwrap();
    let [file, link] = [b"again" as &[u8], b"link"].map(|name| volume.lookup(root, name).unwrap().unwrap());
    let own = volume.lookup(Ino::ROOT, b"again").unwrap().unwrap();
    assert!(volume.parent(root).unwrap() == root && volume.parent(directory).unwrap() == root);
    let set = SetAttributes { uid: Some(1), ..SetAttributes::default() };
    let refused: [(&str, everbyte_fs::Result<()>); 19] = [
        ("write", volume.write(file, 0, b"x")),
        ("append", volume.append(file, b"x").map(drop)),
        ("resize", volume.resize(file, 0)),
        ("allocate", volume.allocate(file, 0, 10, Allocate::Zero)),
        ("collapse", volume.collapse(file, 0, 4096)),
        ("insert", volume.insert(file, 0, 4096)),
        ("copy", volume.copy_range(own, 0, file, 0, 10).map(drop)),
        ("clone", volume.clone_range(own, 0, file, 0, 4096).map(drop)),
        ("set", volume.set_attributes(root, &set)),
        ("set a link", volume.set_attributes(link, &set)),
        ("xattr", volume.set_xattr(file, b"user.x", b"x", SetXattr::Any)),
        ("remove xattr", volume.remove_xattr(file, b"user.one")),
        ("make", volume.make(directory, b"new", &FILE).map(drop)),
        ("link in", volume.link(own, directory, b"new")),
        ("link out", volume.link(file, Ino::ROOT, b"new")),
        ("unlink", volume.unlink(root, b"again")),
        ("rmdir", volume.remove_directory(directory, b"below")),
        ("rename in", volume.rename(Ino::ROOT, b"again", root, b"new", Rename::Replace)),
        ("rename out", volume.rename(root, b"again", Ino::ROOT, b"new", Rename::Replace)),
    ];
    for (what, outcome) in refused {
        assert!(matches!(outcome, Err(Error::ReadOnly { .. })), "{what}: {outcome:?}");
    }
    assert_eq!(model::read(&volume).unwrap(), before);
    // Bytes come back out of it by a clone.
    volume.resize(own, 0).unwrap();
    volume.clone_range(file, 0, own, 0, 0).unwrap();
    assert_eq!(model::read(&volume).unwrap().shown(), before.shown());
    assert_eq!(volume.check(), []);
}

/// A held file of a snapshot that is removed stays until it is released, also across further
/// snapshots that use the same numbers.
#[test]
fn a_removed_snapshot_frees_what_it_had() {
    let (_store, mut volume) = volume(16 << 20);
    fill(&volume);
    drop(volume.snapshot(b"warm").unwrap()); // the directory of snapshots, inodes
    volume.remove_snapshot(b"warm").unwrap();
    let before = used(&volume);
    let free_inodes = volume.usage().free_inodes;
    volume.snapshot(b"one").unwrap();
    volume.snapshot(b"two").unwrap();
    volume.remove_snapshot(b"one").unwrap();
    volume = again(volume);
    volume.remove_snapshot(b"two").unwrap();
    assert!(matches!(volume.remove_snapshot(b"two"), Err(Error::NotFound)));
    assert_eq!((used(&volume), volume.usage().free_inodes), (before, volume.usage().inodes - 109));
    assert!(volume.usage().free_inodes >= free_inodes);

    let root = volume.snapshot(b"held").unwrap().root;
    let file = volume.lookup(root, b"again").unwrap().unwrap();
    let (held, held_root) = (volume.hold(file).unwrap(), volume.hold(root).unwrap());
    let bytes = content(&volume, file);
    volume.remove_snapshot(b"held").unwrap();
    assert_eq!(volume.check(), []);
    for name in [b"directory/large" as &[u8], b"again"] {
        let path: Vec<Vec<u8>> = name.split(|&byte| byte == b'/').map(<[u8]>::to_vec).collect();
        model::apply(&volume, &Op::Unlink { path }).unwrap();
    }
    volume.snapshot(b"next").unwrap();
    assert!(content(&volume, file) == bytes);
    assert!(matches!(volume.write(file, 0, b"x"), Err(Error::ReadOnly { .. })));
    drop(held);
    drop(held_root);
    assert!(matches!(volume.attributes(file), Err(Error::Stale { .. })));
    volume.remove_snapshot(b"next").unwrap();
    volume = again(volume);
    assert_eq!(used(&volume), before - 13 - 2, "the pages of the removed file and of its attributes");
}

/// A volume that is full in the middle of a snapshot refuses it, and has as many pages as before.
#[test]
fn a_full_volume_refuses_a_snapshot() {
    let (_store, volume) = volume(4 << 20);
    fill(&volume);
    let filler = volume.make(Ino::ROOT, b"filler", &FILE).unwrap();
    while volume.append(filler, &[4; 4096]).is_ok() {}
    let mut outcomes = [0, 0];
    // Ever more room: groups of inodes, pages of names, of chains, of the directory of snapshots.
    for _ in 0..40 {
        let (before, pages) = (model::read(&volume).unwrap(), used(&volume));
        match volume.snapshot(b"one") {
            Ok(_) => outcomes[1] += 1,
            Err(error) => {
                assert!(matches!(error, Error::NoSpace { .. }), "{error}");
                let made = used(&volume) - pages;
                assert!(made <= 1, "the directory of snapshots at most: {made}");
                assert_eq!(model::read(&volume).unwrap(), before);
                outcomes[0] += 1;
            }
        }
        assert_eq!(volume.check(), []);
        if outcomes[1] == 2 {
            break;
        }
        drop(volume.remove_snapshot(b"one"));
        let size = volume.attributes(filler).unwrap().size;
        volume.resize(filler, size - 4096).unwrap();
    }
    assert!(outcomes[0] > 5 && outcomes[1] == 2, "{outcomes:?}");
    let volume = again(volume);
    volume.remove_snapshot(b"one").unwrap();
    again(volume);
}

/// Each thread writes the same number to two files, one after the other: a snapshot may have the
/// first ahead of the second by one, and never anything else.
#[test]
fn a_snapshot_is_taken_between_calls() {
    let (_store, volume) = volume(16 << 20);
    let make = |name: String| volume.make(Ino::ROOT, name.as_bytes(), &FILE).unwrap();
    let files: Vec<[Ino; 2]> = (0..3).map(|n| [make(format!("first {n}")), make(format!("second {n}"))]).collect();
    files.iter().flatten().for_each(|&file| assert_eq!(volume.append(file, &[0; 5000]).unwrap(), 0));
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for pair in &files {
            let (volume, end) = (&volume, &end);
            scope.spawn(move || {
                for number in 1_u64.. {
                    pair.iter().for_each(|&file| volume.write(file, 4000, &number.to_le_bytes()).unwrap());
                    if end.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        for round in 0..everbyte_workload::long_or(40, 1000) {
            let name = format!("{}", round % 3);
            drop(volume.remove_snapshot(name.as_bytes()));
            let root = volume.snapshot(name.as_bytes()).unwrap().root;
            for number in 0..3 {
                let [first, second] = ["first", "second"].map(|file| {
                    let ino = volume.lookup(root, format!("{file} {number}").as_bytes()).unwrap().unwrap();
                    let mut bytes = [0; 8];
                    volume.read(ino, 4000, &mut bytes).unwrap();
                    u64::from_le_bytes(bytes)
                });
                assert!(first == second || first == second + 1, "{first} {second}");
            }
        }
        end.store(true, Ordering::Relaxed);
    });
    again(volume);
}

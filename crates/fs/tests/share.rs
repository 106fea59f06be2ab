//! Shared pages: each side of a copy goes its own way, pages are freed with their last owner, and a
//! volume counts them once.

use everbyte_fs::{Allocate, Error, FileKind, Ino, NewFile, Rename, Volume, VolumeOptions, model};
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};

const FILE: NewFile<'_> =
    NewFile { kind: FileKind::Regular, permissions: 0o644, uid: 0, gid: 0, device: 0, target: b"", xattrs: &[] };
const PAGE: usize = 4096;

fn volume(span: u64) -> (Store, Volume) {
    let media = Media::anonymous(128 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let volume = Volume::create(&store, "volume", &VolumeOptions { span: Some(span), ..Default::default() }).unwrap();
    (store, volume)
}

fn make(volume: &Volume, name: &str, bytes: &[u8]) -> Ino {
    let ino = volume.make(Ino::ROOT, name.as_bytes(), &FILE).unwrap();
    volume.append(ino, bytes).unwrap();
    ino
}

fn content(volume: &Volume, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0; volume.attributes(ino).unwrap().size as usize];
    assert_eq!(volume.read(ino, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Pages that are not free.
fn used(volume: &Volume) -> u64 {
    volume.usage().pages - volume.usage().free_pages
}

/// Opens the volume again; the free pages are the same.
fn again(volume: Volume) -> Volume {
    let (object, free) = (volume.object().clone(), volume.usage().free_pages);
    assert_eq!(volume.check(), []);
    drop(volume);
    let volume = Volume::open(object).unwrap();
    assert_eq!((volume.usage().free_pages, volume.recovery()), (free, &Default::default()));
    assert_eq!(volume.check(), []);
    volume
}

/// Every way to change a file, on one side of a clone or on the other: the other side stays, and
/// the pages are free again when both are gone.
#[test]
fn each_side_of_a_clone_goes_its_own_way() {
    type Change = fn(&Volume, Ino) -> everbyte_fs::Result<()>;
    let changes: &[Change] = &[
        |volume, ino| volume.write(ino, 100, b"few bytes at their place"),
        |volume, ino| volume.write(ino, 8192, &[9; 4096]),
        |volume, ino| volume.write(ino, 4000, &[9; 9000]),
        |volume, ino| volume.write(ino, 19_990, &[9; 20]),
        |volume, ino| volume.append(ino, &[9; 30]).map(drop),
        |volume, ino| volume.append(ino, &[9; 9000]).map(drop),
        |volume, ino| volume.write(ino, 20_100, &[9; 30]),
        |volume, ino| volume.write(ino, 40_000, &[9; 30]),
        |volume, ino| volume.resize(ino, 10_000),
        |volume, ino| volume.resize(ino, 10_000).and_then(|()| volume.resize(ino, 20_000)),
        // The other side has bytes behind the end, in the page of the end.
        |volume, ino| volume.resize(ino, 10_000).and_then(|()| volume.allocate(ino, 16_384, 9000, Allocate::Zero)),
        |volume, ino| volume.resize(ino, 10_000).and_then(|()| volume.allocate(ino, 16_384, 9000, Allocate::Grow)),
        |volume, ino| volume.resize(ino, 10_000).and_then(|()| volume.write(ino, 30_000, &[9; 30])),
        |volume, ino| volume.resize(ino, 10_000).and_then(|()| volume.copy_range(ino, 0, ino, 30_000, 90).map(drop)),
        |volume, ino| volume.resize(ino, 20_001),
        |volume, ino| volume.resize(ino, 50_000),
        |volume, ino| volume.resize(ino, 0),
        |volume, ino| volume.allocate(ino, 100, 9000, Allocate::Punch),
        |volume, ino| volume.allocate(ino, 100, 9000, Allocate::Zero).and_then(|()| volume.write(ino, 5000, &[9; 10])),
        |volume, ino| volume.allocate(ino, 0, 20_000, Allocate::Zero).and_then(|()| volume.write(ino, 0, &[9; 9000])),
        |volume, ino| volume.allocate(ino, 0, 30_000, Allocate::Grow),
        |volume, ino| volume.allocate(ino, 20_000, 9000, Allocate::Zero),
        |volume, ino| volume.allocate(ino, 19_000, 9000, Allocate::ZeroKeepSize),
        |volume, ino| volume.collapse(ino, 4096, 8192),
        |volume, ino| volume.insert(ino, 4096, 8192),
        |volume, ino| volume.copy_range(ino, 0, ino, 30_000, 9000).map(drop),
        |volume, ino| volume.copy_range(ino, 8192, ino, 0, 8192).map(drop),
        |volume, ino| volume.clone_range(ino, 0, ino, 32_768, 8192).map(drop),
    ];
    let bytes = model::bytes(20_000, 1);
    let (_store, mut volume) = volume(8 << 20);
    make(&volume, "first", b"so that the directory has its page");
    for (index, change) in changes.iter().enumerate() {
        for side in [0, 1] {
            let before = used(&volume);
            let source = make(&volume, "source", &bytes);
            // The same change of a file that shares nothing tells the bytes that are to come.
            change(&volume, source).unwrap();
            let expected = content(&volume, source);
            volume.unlink(Ino::ROOT, b"source").unwrap();
            assert_eq!(used(&volume), before);

            let source = make(&volume, "source", &bytes);
            let clone = volume.make(Ino::ROOT, b"clone", &FILE).unwrap();
            let taken = used(&volume);
            assert_eq!(volume.clone_range(source, 0, clone, 0, 0).unwrap(), 20_000);
            assert_eq!(used(&volume), taken, "no page is taken");
            let sides = [source, clone];
            change(&volume, sides[side]).unwrap();
            volume = again(volume);
            let what = format!("change {index} of side {side}");
            assert!(content(&volume, sides[side]) == expected, "{what}");
            assert!(content(&volume, sides[1 - side]) == bytes, "{what}");
            change(&volume, sides[1 - side]).unwrap();
            assert!(content(&volume, source) == expected && content(&volume, clone) == expected, "{what}");
            volume = again(volume);
            let order = if side == 0 { [b"source" as &[u8], b"clone"] } else { [b"clone" as &[u8], b"source"] };
            volume.unlink(Ino::ROOT, order[0]).unwrap();
            assert!(content(&volume, sides[1 - side]) == expected, "{what}");
            volume = again(volume);
            volume.unlink(Ino::ROOT, order[1]).unwrap();
            assert_eq!(used(&volume), before, "{what}: the pages are free");
        }
    }
}

#[test]
fn a_copy_of_a_range_is_that_of_its_bytes() {
    let (_store, volume) = volume(8 << 20);
    let source = make(&volume, "source", &model::bytes(30_000, 1));
    volume.allocate(source, 4096, 8192, Allocate::Punch).unwrap();
    volume.resize(source, 50_000).unwrap();
    let bytes = content(&volume, source);
    let small = make(&volume, "small", &model::bytes(100, 2));
    let offsets = [0_u64, 1, 100, 4095, 4096, 5000, 12_287, 12_288, 29_000, 30_000, 49_999, 50_000, 60_000];
    let lens = [0_u64, 1, 100, 4096, 8192, 20_000, 100_000, u64::MAX];
    for (at, to_at) in offsets.into_iter().flat_map(|at| offsets.map(|to_at| (at, to_at))) {
        for len in lens {
            let target = make(&volume, "target", &model::bytes(20_000, 3));
            let mut expected = model::bytes(20_000, 3);
            let part = &bytes[(at as usize).min(50_000)..(at.saturating_add(len) as usize).min(50_000)];
            assert_eq!(volume.copy_range(source, at, target, to_at, len).unwrap(), part.len() as u64);
            if !part.is_empty() {
                expected.resize(expected.len().max(to_at as usize + part.len()), 0);
                expected[to_at as usize..][..part.len()].copy_from_slice(part);
            }
            assert!(content(&volume, target) == expected, "{at} {to_at} {len}");
            volume.unlink(Ino::ROOT, b"target").unwrap();
        }
    }
    assert_eq!(volume.check(), []);
    // Holes stay holes, and bytes of a small file go anywhere.
    let target = volume.make(Ino::ROOT, b"target", &FILE).unwrap();
    volume.copy_range(source, 1, target, 0, u64::MAX).unwrap();
    assert_eq!(volume.next_hole(target, 0).unwrap(), Some(4096));
    assert_eq!(volume.next_data(target, 8192).unwrap(), Some(8192));
    assert_eq!(volume.next_hole(target, 8192).unwrap(), Some(32_768));
    volume.copy_range(small, 10, target, 8190, 50).unwrap();
    assert!(content(&volume, target)[8190..8240] == model::bytes(100, 2)[10..60]);
    volume.copy_range(source, 0, small, 3, 10).unwrap();
    assert!(content(&volume, small)[3..13] == bytes[..10] && content(&volume, small).len() == 100);
    assert_eq!(volume.check(), []);
}

#[test]
fn a_range_that_cannot_be_cloned_is_refused() {
    let (_store, volume) = volume(8 << 20);
    let source = make(&volume, "source", &model::bytes(10_000, 1));
    let target = make(&volume, "target", &model::bytes(20_000, 2));
    let before = model::read(&volume).unwrap();
    for (at, to_at, len) in
        [(1, 0, 4096), (0, 1, 4096), (0, 0, 4000), (4096, 0, 8192), (8192, 0, 1808), (12_288, 0, 4096), (8192, 0, 0)]
    {
        let outcome = volume.clone_range(source, at, target, to_at, len);
        assert!(matches!(outcome, Err(Error::Unaligned { .. })), "{at} {to_at} {len}: {outcome:?}");
    }
    for (at, to_at, len) in [(0, 0, 100), (0, 4096, 8192), (100, 5000, 5000)] {
        let outcome = volume.copy_range(source, at, source, to_at, len);
        assert!(matches!(outcome, Err(Error::Overlap { .. })), "{at} {to_at} {len}: {outcome:?}");
    }
    let directory = volume.make(Ino::ROOT, b"d", &NewFile { kind: FileKind::Directory, ..FILE }).unwrap();
    assert!(matches!(volume.copy_range(directory, 0, target, 0, 1), Err(Error::IsADirectory { .. })));
    assert!(matches!(volume.copy_range(source, 0, directory, 0, 1), Err(Error::IsADirectory { .. })));
    assert!(matches!(volume.copy_range(source, 0, target, u64::MAX - 1, 9), Err(Error::TooLarge { .. })));
    assert!(matches!(volume.copy_range(source, 0, Ino(77), 0, 9), Err(Error::Stale { .. })));
    volume.remove_directory(Ino::ROOT, b"d").unwrap();
    assert_eq!(model::read(&volume).unwrap(), before);
    assert!(volume.clone_range(source, 8192, target, 16_384, 0).is_err(), "the target is longer");
    assert_eq!(volume.clone_range(source, 8192, target, 20_480, 0).unwrap(), 1808);
}

/// A full volume refuses to copy bytes, and clones whole pages; changes of shared pages need room.
#[test]
fn a_full_volume_clones_and_does_not_copy() {
    let (_store, volume) = volume(2 << 20);
    let source = make(&volume, "source", &model::bytes(10_000, 1));
    let target = make(&volume, "target", &model::bytes(8192, 2));
    let clone = make(&volume, "clone", &[3; 4096]);
    let fill = volume.make(Ino::ROOT, b"fill", &FILE).unwrap();
    while volume.append(fill, &[4; 4096]).is_ok() {}
    assert_eq!(volume.usage().free_pages, 0);
    assert_eq!(volume.clone_range(source, 0, clone, 0, 0).unwrap(), 10_000);
    assert_eq!(volume.usage().free_pages, 1, "the page that the clone had");
    volume.append(fill, &[4; 4096]).unwrap();
    let before = model::read(&volume).unwrap();
    let refused = |what: &str, outcome: everbyte_fs::Result<()>| {
        assert!(matches!(outcome, Err(Error::NoSpace { .. })), "{what}: {outcome:?}");
        assert_eq!(model::read(&volume).unwrap(), before, "{what}");
        assert_eq!(volume.usage().free_pages, 0, "{what}");
        assert_eq!(volume.check(), [], "{what}");
    };
    refused("a copy of a part", volume.copy_range(source, 0, target, 0, 5000).map(drop));
    refused("a copy to another offset", volume.copy_range(source, 1, target, 0, 9000).map(drop));
    refused("a copy behind the end", volume.copy_range(source, 1, clone, 20_000, 4096).map(drop));
    refused("a few bytes of a shared page", volume.write(clone, 10, b"few"));
    refused("an append to a shared page", volume.append(clone, b"few").map(drop));
    refused("a larger size over a shared page", volume.resize(source, 20_000));
    volume.unlink(Ino::ROOT, b"clone").unwrap();
    assert_eq!(volume.usage().free_pages, 0, "its pages are those of the source");
    volume.write(source, 10, b"at its place again").unwrap();
    volume.append(source, b"at its place again").unwrap();
    assert_eq!(volume.check(), []);
}

/// Threads that clone to and fro, and rename the files meanwhile, do not wait for each other for
/// ever, and lose no page.
#[test]
fn threads_clone_to_and_fro() {
    let (_store, volume) = volume(8 << 20);
    let names = ["a", "b", "c"];
    let files = names.map(|name| make(&volume, name, &model::bytes(5 * PAGE as u64, 1)));
    let rounds = everbyte_workload::long_or(300, 5000);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let volume = &volume;
            scope.spawn(move || {
                for round in 0..rounds as usize {
                    let (one, other) = (files[(thread + round) % 3], files[(thread + round * 2 + 1) % 3]);
                    match (thread, round % 4) {
                        (3, _) => {
                            let (from, to) = (names[round % 3], names[(round + 1) % 3]);
                            let exchange = Rename::Exchange;
                            volume.rename(Ino::ROOT, from.as_bytes(), Ino::ROOT, to.as_bytes(), exchange).unwrap();
                        }
                        (_, 0) => volume.write(one, 4096 * (round as u64 % 5), &[thread as u8; 300]).unwrap(),
                        (_, 1) => volume.append(one, &[1; 100]).and_then(|_| volume.resize(one, 20_480)).unwrap(),
                        _ if one == other => (),
                        _ => drop(volume.clone_range(one, 0, other, 0, 8192)),
                    }
                }
            });
        }
    });
    assert_eq!(volume.check(), []);
    let volume = again(volume);
    let free = volume.usage().free_pages;
    let own: u64 = files.iter().map(|&file| volume.attributes(file).unwrap().allocated / PAGE as u64).sum();
    names.iter().for_each(|name| volume.unlink(Ino::ROOT, name.as_bytes()).unwrap());
    let freed = volume.usage().free_pages - free;
    assert!(freed <= own && freed >= own / 3, "{freed} of {own}");
    assert_eq!(volume.check(), []);
}

/// Whole extents are rewritten that a clone has, too, and a snapshot: both keep their pages, which
/// are free when the last of the three is gone.
#[test]
fn whole_extents_that_others_have_are_rewritten_apart() {
    let (_store, mut volume) = volume(8 << 20);
    make(&volume, "warm", b""); // the pages of names, of the root and of snapshots
    volume.snapshot(b"warm").unwrap();
    volume.remove_snapshot(b"warm").unwrap();
    for pages in [1, 3] {
        let (before, bytes) = (used(&volume), model::bytes(pages * 4096, 1));
        let file = make(&volume, "file", &bytes);
        let clone = make(&volume, "clone", b"");
        volume.clone_range(file, 0, clone, 0, 0).unwrap();
        let root = volume.snapshot(b"kept").unwrap().root;
        let kept = volume.lookup(root, b"file").unwrap().unwrap();
        for round in 2..6 {
            let new = model::bytes(pages * 4096, 10 * round);
            volume.write(file, 0, &new).unwrap();
            assert!(content(&volume, file) == new);
            assert!(content(&volume, clone) == bytes && content(&volume, kept) == bytes, "{pages} pages");
            assert_eq!(volume.check(), [], "{pages} pages");
        }
        volume = again(volume);
        volume.unlink(Ino::ROOT, b"clone").unwrap();
        assert!(content(&volume, kept) == bytes);
        volume.remove_snapshot(b"kept").unwrap();
        volume.unlink(Ino::ROOT, b"file").unwrap();
        assert_eq!(used(&volume), before, "{pages} pages");
        volume = again(volume);
    }
}

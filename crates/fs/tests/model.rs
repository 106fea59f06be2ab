//! Random operations on a volume and on its twin: the same answers, the same files, and nothing
//! that the check finds, also after the volume is opened again.

use everbyte_fs::model::{self, Op, Path, Tree};
use everbyte_fs::{Allocate, FileKind, OpenVolume, PageSize, Rename, Usage, Volume, VolumeOptions, VolumeRecovery};
use everbyte_media::{Media, Options, WriteWindows};
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::Random;
use std::cell::Cell;

thread_local! {
    /// The time of each operation is its number.
    static NOW: Cell<i64> = const { Cell::new(0) };
    /// Most files of the program stay in their inodes.
    static SMALL: Cell<bool> = const { Cell::new(false) };
}

fn clock() -> i64 {
    NOW.get()
}

fn store(max: u64) -> Store {
    Store::format(Media::anonymous(max, &Options::default()).unwrap(), &FormatOptions::default()).unwrap()
}

fn a_name(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => vec![b'x'; 49 + random.below(207) as usize],
        _ => vec![b'a' + random.below(5) as u8],
    }
}

fn a_path(random: &mut Random, tree: &Tree, kind: Option<FileKind>) -> Path {
    let paths = tree.paths(kind);
    if !paths.is_empty() && !random.chance(5) {
        return paths[random.index(paths.len())].clone();
    }
    vec![a_name(random)]
}

fn a_new_path(random: &mut Random, tree: &Tree) -> Path {
    let mut path = a_path(random, tree, Some(FileKind::Directory));
    path.push(a_name(random));
    path
}

fn an_offset(random: &mut Random) -> u64 {
    if SMALL.get() && random.chance(90) {
        return random.below(140);
    }
    match random.below(6) {
        0 => random.below(200),
        1 => random.pick(&[0, 127, 128, 129, 4095, 4096, 4097, 8192]),
        2 => random.below(5000),
        _ => random.below(60_000),
    }
}

fn a_length(random: &mut Random) -> u64 {
    if SMALL.get() && random.chance(90) {
        return random.below(40);
    }
    match random.below(6) {
        0 => random.below(130),
        1 => random.pick(&[0, 1, 8, 128, 129, 4095, 4096, 4097, 12_288]),
        2 | 3 => random.below(5000),
        _ => random.below(30_000),
    }
}

fn an_op(random: &mut Random, tree: &Tree) -> Op {
    let seed = random.below(256) as u8;
    match random.below(34) {
        0..4 => {
            let kind = random.pick(&[
                FileKind::Regular,
                FileKind::Regular,
                FileKind::Regular,
                FileKind::Directory,
                FileKind::Pipe,
            ]);
            Op::Make { path: a_new_path(random, tree), kind, permissions: random.below(0o10000) as u16 }
        }
        4 => Op::MakeLink { path: a_new_path(random, tree), target: model::bytes(1 + random.below(300), seed) },
        5..10 => {
            let path = a_path(random, tree, Some(FileKind::Regular));
            Op::Write { path, at: an_offset(random), len: a_length(random), seed }
        }
        10..13 => Op::Append { path: a_path(random, tree, Some(FileKind::Regular)), len: a_length(random), seed },
        14 if random.chance(60) => {
            let path = a_path(random, tree, Some(FileKind::Regular));
            let (at, len) = (4096 * random.below(8), 4096 * random.below(5) + random.pick(&[0, 0, 0, 1]));
            if random.chance(50) { Op::Collapse { path, at, len } } else { Op::Insert { path, at, len } }
        }
        13 | 14 => Op::Resize { path: a_path(random, tree, Some(FileKind::Regular)), to: an_offset(random) },
        15 => {
            let all = [Allocate::Grow, Allocate::KeepSize, Allocate::Punch, Allocate::Zero, Allocate::ZeroKeepSize];
            let path = a_path(random, tree, Some(FileKind::Regular));
            Op::Allocate { path, at: an_offset(random), len: a_length(random), mode: random.pick(&all) }
        }
        16 => {
            let (path, name) = (a_path(random, tree, None), a_name(random));
            Op::Xattr { path, name, len: random.pick(&[0, 0, 1, 30, 5000]), seed }
        }
        17 => Op::Link { path: a_path(random, tree, None), new: a_new_path(random, tree) },
        18 => Op::Unlink { path: a_path(random, tree, None) },
        19 => Op::RemoveDirectory { path: a_path(random, tree, Some(FileKind::Directory)) },
        20..23 => {
            let from = a_path(random, tree, None);
            let to = match random.below(8) {
                0..4 => a_new_path(random, tree),
                4 if from.len() > 1 => from[..1 + random.index(from.len() - 1)].to_vec(), // holds `from`
                5 => [from.clone(), vec![a_name(random)]].concat(),
                _ => a_path(random, tree, None),
            };
            let mode = random.pick(&[Rename::Replace, Rename::Replace, Rename::NoReplace, Rename::Exchange]);
            Op::Rename { from, to, mode }
        }
        23..28 => {
            let (path, to) =
                (a_path(random, tree, Some(FileKind::Regular)), a_path(random, tree, Some(FileKind::Regular)));
            let (pages, to_pages) = (4096 * random.below(6), 4096 * random.below(10));
            match random.below(4) {
                0 => Op::Clone { path, at: 0, to, to_at: to_pages, len: 0 },
                1 => Op::Clone {
                    path,
                    at: pages,
                    to,
                    to_at: to_pages,
                    len: 4096 * random.below(4) + random.pick(&[0, 0, 9]),
                },
                2 => {
                    let within = random.pick(&[0, 1, 500, 4095]);
                    Op::Copy { path, at: pages + within, to, to_at: to_pages + within, len: a_length(random) }
                }
                _ => Op::Copy { path, at: an_offset(random), to, to_at: an_offset(random), len: a_length(random) },
            }
        }
        28 => Op::Snapshot { name: vec![random.pick(b"abc")] },
        29 => Op::RemoveSnapshot { name: vec![random.pick(b"abc")] },
        31 | 32 => {
            let path = a_path(random, tree, Some(FileKind::Regular));
            Op::MapWrite { path, at: an_offset(random), len: a_length(random), seed }
        }
        30 => Op::MakeUnnamed { path: a_new_path(random, tree), len: a_length(random), seed },
        _ => {
            let path = a_path(random, tree, None);
            Op::Set { path, permissions: random.below(0o10000) as u16, uid: random.below(5) as u32 }
        }
    }
}

fn assert_same(volume: &Volume, tree: &Tree, what: &str) {
    let found = model::read(volume).unwrap();
    assert_eq!(&found, tree, "{what}");
    assert_eq!(found.times(), tree.times(), "{what}");
}

/// Every call answers as its twin does, and the volume holds what the twin holds, with its times.
#[test]
fn a_volume_is_what_its_twin_is() {
    everbyte_workload::programs(120, |random, is_long| {
        let store = store(64 << 20);
        let (lanes, span) = (1 + random.below(3) as u32, Some(16 << 20));
        let page_size = random.pick(&[PageSize::Small, PageSize::Small, PageSize::Large]);
        let options = VolumeOptions { lanes, span, page_size, clock, ..Default::default() };
        NOW.set(0);
        SMALL.set(random.chance(30));
        let files = random.pick(&[1, 32, OpenVolume::FILES]);
        let windows = random.pick(&[WriteWindows::PageTable, WriteWindows::Off]);
        let relaxed = random.chance(30);
        let mut volume = Volume::create(&store, "volume", &options).unwrap();
        let object = volume.object().clone();
        volume.close().unwrap();
        let open = OpenVolume { files, clock, windows, relaxed, page_size: None, verify: true };
        volume = Volume::open_with(object, &open).unwrap();
        let mut tree = Tree::default();
        tree.page_size = page_size;
        for step in 0..if is_long { 2000_i64 } else { 150 } {
            let op = an_op(random, &tree);
            tree.now = step + 1;
            NOW.set(tree.now);
            let found = model::apply(&volume, &op);
            let expected = tree.apply(&op);
            assert_eq!(found.is_ok(), expected.is_ok(), "step {step}: {op:?}: {found:?}");
            let most = files.max(16) + 6; // files that one call uses
            let indexed = volume.indexed();
            assert!(step < 50 || indexed.files <= most, "step {step}: {indexed:?}");
            if step % 16 == 0 {
                assert_same(&volume, &tree, &format!("step {step}: {op:?}"));
            }
            if step % 50 == 49 {
                assert_eq!(volume.check(), [], "step {step}: {op:?}");
                let usage = volume.usage();
                let object = volume.object().clone();
                let is_closed = random.chance(60);
                if is_closed {
                    volume.close().unwrap()
                } else {
                    drop(volume)
                }
                volume = Volume::open_with(object, &open).unwrap();
                // The state is not saved while pages are shared.
                let recovery = VolumeRecovery { saved: volume.recovery().saved, ..Default::default() };
                assert_eq!(volume.recovery(), &recovery, "nothing was interrupted");
                assert!(is_closed || !recovery.saved);
                assert_eq!(volume.check(), [], "the saved state is what the inodes say");
                // Closing a volume without free pages adds some for the saved state.
                let added = volume.usage().pages - usage.pages;
                let expected = Usage { pages: usage.pages + added, free_pages: usage.free_pages + added, ..usage };
                assert_eq!(volume.usage(), expected, "no page or inode is lost");
            }
        }
        assert_same(&volume, &tree, "at the end");
        assert_eq!(volume.check(), []);
    });
}

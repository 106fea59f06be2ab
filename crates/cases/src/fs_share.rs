//! Cases of shared pages of file volumes: clones, copies of ranges, snapshots.

use crate::Case;
use crate::fs::{Timed, allocate, append, case, directory, explore, image, make, observe, open, path, resize, step};
use crate::fs::{unlink, write};
use everbyte_fs::Allocate;
use everbyte_fs::model::{self, Op};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Order, Report, Twin};

pub(crate) const CASES: &[Case] = &[
    case("fs-share", "ranges are cloned and copied, then either side is written to, cut or removed", 12_000, share),
    case("fs-share-tail", "the end of a file moves over a last page that another file shares", 6000, tail),
    case("fs-snapshot", "snapshots are made and removed between changes of all that they share", 9000, snapshots),
    case("fs-snapshot-again", "snapshots take the inodes of removed ones", 6000, snapshots_again),
    case("fs-snapshot-held", "a snapshot is removed while a file of it is held: the file stays until then", 1500, held),
];

pub(crate) fn clone(from: &str, at: u64, to: &str, to_at: u64, len: u64) -> Op {
    Op::Clone { path: path(from), at, to: path(to), to_at, len }
}

fn copy(from: &str, at: u64, to: &str, to_at: u64, len: u64) -> Op {
    Op::Copy { path: path(from), at, to: path(to), to_at, len }
}

fn share(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [make("a"), append("a", 20_000, 1), make("b"), make("c"), append("c", 9000, 2), make("taker")];
    let ops = [
        clone("a", 0, "b", 0, 0),
        write("a", 5000, 64, 3), // few bytes of a shared page
        write("b", 8192, 4096, 4),
        write("b", 100, 20, 5),
        write("b", 110, 20, 6), // at its place now
        clone("b", 4096, "c", 0, 8192),
        copy("a", 100, "c", 12_388, 9000), // shared pages between two edges
        copy("c", 1, "b", 30_000, 6000),   // bytes alone
        clone("a", 0, "a", 40_960, 8192),
        allocate("c", 0, 6000, Allocate::Zero),
        write("c", 4000, 300, 7),
        resize("a", 4096),
        append("taker", 30_000, 8), // takes pages that are free
        unlink("b"),
        append("taker", 30_000, 9),
        write("c", 16_500, 30, 10),
        unlink("a"),
        append("taker", 9000, 11),
    ];
    explore(explorer, &before, &ops)
}

fn tail(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [make("a"), append("a", 9000, 1), make("b"), make("c"), make("taker")];
    let ops = [
        clone("a", 0, "b", 0, 0),
        clone("a", 0, "c", 0, 0),
        append("b", 50, 2),
        resize("a", 8200), // bytes of `c` lie behind its end
        resize("a", 9100),
        append("taker", 9000, 3),
        clone("c", 8192, "a", 8192, 0),
        write("c", 20_000, 10, 4),
        clone("c", 8192, "c", 24_576, 4096),
        unlink("b"),
        append("taker", 9000, 5),
    ];
    explore(explorer, &before, &ops)
}

pub(crate) fn snapshot(name: &str) -> Op {
    Op::Snapshot { name: name.as_bytes().to_vec() }
}

pub(crate) fn remove_snapshot(name: &str) -> Op {
    Op::RemoveSnapshot { name: name.as_bytes().to_vec() }
}

fn snapshots(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let mut before = vec![
        directory("d"),
        make("d/a"),
        append("d/a", 20_000, 1),
        make("small"),
        append("small", 50, 2),
        Op::MakeLink { path: path("link"), target: vec![b'l'; 300] },
        Op::Link { path: path("d/a"), new: path("again") },
        Op::Xattr { path: path("d/a"), name: b"user.one".to_vec(), len: 5000, seed: 3 },
        make("sparse"),
        make("taker"),
    ];
    before.extend((0..10).map(|number| write("sparse", number * 8192, 10, 1))); // a chain of extents
    let ops = [
        snapshot("one"), // makes the directory of snapshots
        write("d/a", 5000, 30, 4),
        snapshot("two"),
        Op::Xattr { path: path("again"), name: b"user.one".to_vec(), len: 10, seed: 5 },
        unlink("d/a"),
        unlink("sparse"),
        append("taker", 30_000, 6),
        remove_snapshot("one"),
        make("new"),                // takes a number that the snapshot had
        write("new", 0, 70_000, 7), // and pages: too many for a thread's own ones
        remove_snapshot("two"),
        make("newer"),
        write("newer", 0, 70_000, 8),
        write("new", 0, 9000, 9),
    ];
    explore(explorer, &before, &ops)
}

/// Inodes of a new snapshot lie where those of a removed one lay, whose root has its number again.
fn snapshots_again(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let mut before = vec![make("a"), append("a", 9000, 1)];
    before.extend((0..4).map(|number| make(&format!("{number}"))));
    before.extend((0..4).map(|number| append(&format!("{number}"), 5000, number as u8)));
    before.extend([snapshot("one"), remove_snapshot("one")]);
    before.extend((0..4).map(|number| unlink(&format!("{number}"))));
    before.push(snapshot("two"));
    let ops = [
        make("b"),
        append("b", 5000, 2),
        snapshot("three"),
        append("b", 9000, 3),
        remove_snapshot("two"),
        snapshot("four"),
        append("b", 30_000, 4),
        remove_snapshot("three"),
    ];
    explore(explorer, &before, &ops)
}

/// The held file has pages that no other file shares. A crash frees it, as the last holder does.
fn held(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [make("a"), append("a", 20_000, 1), make("taker"), snapshot("s"), write("a", 0, 20_000, 2)];
    let (image, tree) = image(&before);
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        let found = volume.snapshot_root(b"s").and_then(|root| volume.lookup(root, b"a")).ok().flatten();
        let held = found.map(|ino| volume.hold(ino).expect("it has a name"));
        step(&volume, twin, &remove_snapshot("s"));
        step(&volume, twin, &append("taker", 30_000, 3));
        if let Some(held) = held {
            let mut bytes = vec![0; 20_000];
            volume.read(held.ino(), 0, &mut bytes).expect("it is held");
            assert!(bytes == model::bytes(20_000, 1), "a held file has lost its pages");
            twin.on_its_thread(move || drop(held));
        }
        step(&volume, twin, &append("taker", 30_000, 4));
    };
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}

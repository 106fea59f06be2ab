//! Cases of mapped ranges of file volumes, and of large pages: bytes that change at their place.

use crate::Case;
use crate::fs::{
    NOW, Timed, allocate, append, case, image, image_of, make, observe, open, options, path, resize, step, unlink,
    write,
};
use everbyte_fs::model::{self, Op};
use everbyte_fs::{Allocate, FileMap, MapOptions, PageSize, Volume, VolumeOptions};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Order, Report, Twin};
use std::sync::atomic::Ordering;

pub(crate) const CASES: &[Case] = &[
    case("fs-mapped", "ranges are mapped and stored to while writes, copies, clones and snapshots go on", 9000, mapped),
    case(
        "fs-large",
        "files with pages of 2 MiB are written at their place, and with smaller ones where none is",
        6000,
        large,
    ),
    case("fs-hints", "sizes and allocations of empty files select their page size", 1200, hints),
];

const PAGE: u64 = 4096;

/// A mapping of a file, which stays while the steps go on.
pub(crate) fn map(volume: &Volume, twin: &Twin<'_, Timed>, at: &str, first: u64, len: u64) -> FileMap {
    let options = MapOptions { writable: true, ..MapOptions::default() };
    twin.on_its_thread(|| {
        let ino = model::find(volume, &path(at)).expect("the file exists");
        volume.map(ino, first, len, &options).expect("room for its pages")
    })
}

/// Stores a word through a mapping that begins at `first`, and makes it durable by `done`.
fn store(
    volume: &Volume,
    twin: &Twin<'_, Timed>,
    (map, at, first): (&FileMap, &str, u64),
    (offset, seed): (u64, u8),
    done: impl FnOnce(&[u8]) + Send,
) {
    // In one tick of the clock: a store sets no time before it is synced. The page stays, so that
    // the times change with the byte.
    step(volume, twin, &write(at, first + 40, 1, 2 * seed));
    store_now(volume, twin, (map, at, first), (offset, seed), done);
}

/// As [`store`], of a file that has changed in this tick of the clock.
pub(crate) fn store_now(
    volume: &Volume,
    twin: &Twin<'_, Timed>,
    (map, at, first): (&FileMap, &str, u64),
    (offset, seed): (u64, u8),
    done: impl FnOnce(&[u8]) + Send,
) {
    let mut model = twin.model();
    let op = Op::MapWrite { path: path(at), at: first + offset, len: 8, seed };
    let is_new = model.0.apply(&op).is_ok();
    assert!(is_new, "the word lies in the file");
    NOW.store(model.0.now, Ordering::Relaxed);
    let (change, word) = (op.clone(), model::bytes(8, seed));
    twin.step(
        format!("store {op:?}"),
        move |tree: &mut Timed| drop(tree.0.apply(&change)),
        || {
            map.write(offset, &word).expect("inside of the mapping");
            done(&word);
            if !volume.object().media().fences_settle() {
                volume.settle().expect("sim barriers do not fail");
            }
        },
    );
}

fn mapped(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [
        make("taker"),
        append("taker", 40_000, 9),
        make("a"),
        append("a", 20_000, 1),
        make("b"),
        make("shared"),
        append("shared", 9000, 2),
        Op::Clone { path: path("shared"), at: 0, to: path("b"), to_at: 0, len: 0 },
        Op::Resize { path: path("b"), to: 20_000 },
        unlink("taker"), // so that free pages are not zeros
    ];
    let (image, tree) = image(&before);
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        let step = |op: Op| step(&volume, twin, &op);
        let (a, b) = (map(&volume, twin, "a", PAGE, 3 * PAGE), map(&volume, twin, "b", 0, 20_000));
        let sync = |map: &FileMap, offset: u64| map.sync(offset, 8).expect("inside of the mapping");
        store(&volume, twin, (&b, "b", 0), (PAGE, 3), |_| sync(&b, PAGE)); // shared before
        store(&volume, twin, (&b, "b", 0), (4 * PAGE, 4), |_| sync(&b, 4 * PAGE)); // a hole before
        step(write("a", PAGE, PAGE, 5)); // at its place, whole
        step(write("a", 3000, 6000, 6)); // a page is replaced, one stays, and one in part
        step(write("a", 6000, 300, 7));
        step(write("b", 19_000, 5000, 8)); // over the end, in a page that stays
        step(append("b", 10, 9));
        store(&volume, twin, (&a, "a", PAGE), (16, 10), |_| sync(&a, 16));
        step(Op::Copy { path: path("shared"), at: 10, to: path("a"), to_at: 5000, len: 5000 });
        step(Op::Clone { path: path("a"), at: 0, to: path("shared"), to_at: 0, len: 3 * PAGE });
        step(Op::Snapshot { name: b"one".to_vec() });
        store(&volume, twin, (&a, "a", PAGE), (PAGE, 11), |_| sync(&a, PAGE));
        let ino = a.ino();
        // The word has its value already, and is not flushed.
        store(&volume, twin, (&a, "a", PAGE), (64, 12), |word| {
            volume.write(ino, PAGE + 64, word).expect("room for records");
        });
        store(&volume, twin, (&a, "a", PAGE), (128, 13), |_| {
            a.flush(128, 8).expect("inside of the mapping");
            a.fence();
        });
        // The end of a mapping sets times, too: those of this tick.
        step(write("a", PAGE + 40, 1, 100));
        step(write("b", 40, 1, 100));
        twin.on_its_thread(move || drop((a, b)));
        step(Op::MapWrite { path: path("b"), at: 80, len: 8, seed: 14 });
        step(write("b", 0, 9000, 15));
        step(append("a", 9000, 16));
    };
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}

/// The volume has room for one page of 2 MiB.
fn large(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let options = VolumeOptions { page_size: PageSize::Large, ..options() };
    let before = [make("a"), append("a", 100, 1), make("b"), make("c")];
    let (image, tree) = image_of(&options, &before);
    let ops = [
        append("a", 5000, 2), // takes the page
        write("a", 100, 300, 3),
        write("a", 1000, 3500, 4),
        write("a", 5000, 9000, 5), // over the end
        append("a", 2000, 6),
        write("a", 30_000, 5000, 7), // behind a gap
        append("a", 10_000, 8),
        append("b", 9000, 9), // smaller pages
        write("b", 1000, 5000, 10),
        Op::MapWrite { path: path("a"), at: 16_000, len: 8, seed: 11 },
        Op::Clone { path: path("a"), at: 4096, to: path("c"), to_at: 0, len: 8192 },
        write("a", 4000, 9000, 12), // shared pages in the middle
        allocate("a", 4096, 8192, Allocate::Punch),
        write("a", 6000, 100, 13),
        resize("a", 20_000),
        append("a", 5000, 14),
        unlink("a"),
        append("c", 20_000, 15), // the page is free again, in part
    ];
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        for op in &ops {
            if let Op::MapWrite { .. } = op {
                step(&volume, twin, &write("a", 0, 1, 16)); // in this tick of the clock
            }
            step(&volume, twin, op);
        }
    };
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}

fn hints(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (image, tree) = image_of(&options(), &[make("a"), make("b"), append("b", 200, 1)]);
    let ops = [
        resize("a", 2 << 20),
        write("a", 5000, 100, 2),
        resize("a", 0),
        allocate("a", 0, 2 << 20, Allocate::KeepSize),
        append("a", 5000, 3),
        unlink("a"),
        resize("b", 0),
        allocate("b", 0, 2 << 20, Allocate::Grow),
        write("b", 4090, 10, 4),
    ];
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        ops.iter().for_each(|op| step(&volume, twin, op));
    };
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}

//! Cases of sealed pages of file volumes: no crash leaves a seal on bytes that it does not cover.

use crate::Case;
use crate::fs::{
    Timed, allocate, append, case, image_of, make, observe, open, options, path, resize, step, unlink, write,
};
use crate::{fs_deaths, fs_mapped};
use everbyte_fs::model::Op;
use everbyte_fs::{Allocate, PageSize, SEAL_AFTER, SealCursor, StepLimits, Volume, VolumeOptions};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Order, Report, Twin};

pub(crate) const CASES: &[Case] = &[
    case("fs-seal", "files are sealed between writes, appends, cuts and clones of sealed pages", 9000, seals),
    case("fs-seal-dead", "a process dies while it seals; the next one seals further files", 3000, dead),
    case(
        "fs-seal-in-place",
        "mapped ranges and large pages, whose bytes change at their place, are sealed in between",
        3000,
        in_place,
    ),
];

/// A pass of sealing, a page in each step, each step on a thread of its own.
fn seal(volume: &Volume, twin: &Twin<'_, Timed>) {
    seal_pages(volume, twin, 1);
}

fn seal_pages(volume: &Volume, twin: &Twin<'_, Timed>, pages: u64) {
    let mut cursor = SealCursor::default();
    loop {
        let limits = StepLimits { inodes: 1024, pages };
        let step = || volume.seal_step(&mut cursor, &limits, volume.now() + SEAL_AFTER);
        twin.on_its_thread(step).expect("room for checksums");
        if cursor.is_at_start() {
            return;
        }
    }
}

/// Two files, and free pages that are not zeros.
fn files() -> Vec<Op> {
    let dirty = [make("dirty"), append("dirty", 100_000, 9)];
    let files = [make("a"), append("a", 9000, 1), make("b"), append("b", 5000, 2), unlink("dirty")];
    [&dirty[..], &files].concat()
}

fn seals(explorer: Explorer) -> Result<Report, Box<Failure>> {
    // The checksums of `long` lie in two lines and more.
    let before = [&files()[..], &[make("c"), make("long"), append("long", 100_000, 3)]].concat();
    let ops = [
        write("a", 5000, 64, 3), // at its place: the seal goes first
        append("a", 100, 4),     // into the last page
        resize("b", 4500),
        resize("b", 4900),         // zeros behind the end
        write("a", 4096, 4096, 5), // a new page between sealed ones
        Op::Clone { path: path("a"), at: 0, to: path("c"), to_at: 0, len: 0 },
        write("a", 20, 30, 6), // of a shared and sealed page
        append("c", 10, 7),
        allocate("b", 0, 4096, Allocate::Zero),
        write("b", 10, 20, 8),
    ];
    let (image, tree) = image_of(&VolumeOptions { checksums: true, ..options() }, &before);
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        seal_pages(&volume, twin, 4);
        for op in &ops {
            step(&volume, twin, op);
            seal_pages(&volume, twin, 4);
        }
    };
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}

/// The first checksum of the volume takes pages of their table.
fn dead(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let whole = image_of(&VolumeOptions { checksums: true, ..options() }, &files());
    let first = |volume: &Volume, twin: &Twin<'_, Timed>| seal_pages(volume, twin, 3);
    let then = |volume: &Volume, twin: &Twin<'_, Timed>| {
        seal(volume, twin);
        step(volume, twin, &write("a", 5000, 64, 3));
        step(volume, twin, &append("b", 100, 4));
    };
    fs_deaths::explore_with(explorer.again(60, 60), &whole, first, then)
}

/// The volume has room for one page of 2 MiB, which `a` takes.
fn in_place(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [make("a"), append("a", 13_000, 1), make("b"), append("b", 9000, 2)];
    let options = VolumeOptions { checksums: true, page_size: PageSize::Large, ..options() };
    let (image, tree) = image_of(&options, &before);
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        let seal = || seal(&volume, twin);
        let step = |op: Op| {
            step(&volume, twin, &op);
            seal();
        };
        seal();
        step(write("a", 4096, 4096, 3)); // a whole page at its place
        step(write("a", 3000, 6000, 4));
        step(write("a", 10_000, 5000, 5)); // over the end
        step(append("a", 3000, 6));
        for first in [0, 4096] {
            let map = fs_mapped::map(&volume, twin, "b", first, 4096);
            seal(); // while the range is mapped
            let store = |offset, seed| {
                let sync = |_: &[u8]| map.sync(offset, 8).expect("inside of the mapping");
                fs_mapped::store_now(&volume, twin, (&map, "b", first), (offset, seed), sync);
            };
            step(write("b", first + 40, 1, 6));
            store(64, 7);
            seal();
            // The end of a mapping sets times, too: those of this tick.
            step(write("b", 300, 1, 100));
            twin.on_its_thread(move || drop(map));
            step(write("b", 100, 300, 8));
        }
        step(resize("a", 9000));
        step(append("b", 2000, 10));
    };
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}

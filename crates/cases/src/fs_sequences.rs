//! Sequences of operations on a volume, all of them, in the manner of ACE (Mohan et al., OSDI
//! 2018): nearly all crash bugs of file systems need one or two operations on a few files.
//!
//! Each sequence starts from a copy of one volume with files of every form, is crashed everywhere,
//! and a recovered image takes the sequence once more, behind a few operations that use free pages
//! and move ends of files. An image is right if it holds the twin after some of the operations, if
//! the check finds nothing, and if all of its files can be removed and leave the pages of an empty
//! volume.
//!
//! | case | usual run | soak |
//! |---|---|---|
//! | `fs-one` | all sequences of one operation | the same, more images |
//! | `fs-two` | a sample of those of two | all |
//! | `fs-three` | a few of those of three | a sample |
//! | `fs-whole` | a few of one, every image of each point of up to 12 words | all of one |
//!
//! `EVERBYTE_SEQUENCE=17,203` explores one sequence alone: the numbers of its operations.

use crate::fs::{LANES, Timed, allocate, append, case, directory, image, link, make, observe, open, path, rename};
use crate::fs::{resize, step, unlink, write};
use crate::{Case, is_soak};
use everbyte_fs::model::{Op, Tree};
use everbyte_fs::{Allocate, FileKind, Ino, Rename, Volume};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, ProfileReport, Report, Seen, Twin};
use everbyte_workload::Random;

pub(crate) const CASES: &[Case] = &[
    case("fs-one", "all sequences of one operation on files of every form", 900, one),
    case("fs-two", "sequences of two operations: a sample, all in the soak", 300, two),
    case("fs-three", "sequences of three operations: a few, a sample in the soak", 300, three),
    case("fs-whole", "single operations: every image of each crash point of at most 12 words", 300, whole),
];

/// The volume that every sequence begins with. Its free pages have held other bytes.
fn ground() -> Vec<Op> {
    let xattr = |at: &str, name: &[u8], len: u64| Op::Xattr { path: path(at), name: name.to_vec(), len, seed: 3 };
    vec![
        directory("A"),
        directory("B"),
        directory("B/empty"),
        make("dirty"),
        append("dirty", 300_000, 9),
        make("A/small"),
        append("A/small", 100, 1),
        make("A/pages"),
        append("A/pages", 9000, 2),
        make("B/sparse"),
        write("B/sparse", 10_000, 5000, 3),
        allocate("B/sparse", 20_000, 8192, Allocate::KeepSize),
        link("A/pages", "B/linked"),
        Op::MakeLink { path: path("A/symlink"), target: b"pages".to_vec() },
        xattr("A/pages", b"user.one", 40),
        xattr("A/small", b"user.one", 5000),
        xattr("A/small", b"user.two", 10),
        unlink("dirty"),
    ]
}

fn ground_image() -> (Image, Timed) {
    image(&ground())
}

/// Every operation with every argument of the small sets; some are refused.
fn operations() -> Vec<Op> {
    let mut all = Vec::new();
    let long = format!("A/{}", "n".repeat(200));
    all.extend(["new", "A/new", "A/small", &long].map(make));
    all.push(Op::Make { path: path("B/pipe"), kind: FileKind::Pipe, permissions: 0o600 });
    all.extend(["new", "B/new", "B/empty/in"].map(directory));
    for (at, len) in [("new", 5), ("A/new", 300)] {
        all.push(Op::MakeLink { path: path(at), target: vec![b't'; len] });
    }
    for (from, to) in [("A/small", "new"), ("A/pages", "B/new"), ("A/symlink", "new"), ("A", "new")] {
        all.push(link(from, to));
    }
    all.extend(["A/small", "A/pages", "B/linked", "B/sparse", "A/symlink", "A"].map(unlink));
    all.extend(["B/empty", "A"].map(|at| Op::RemoveDirectory { path: path(at) }));
    for mode in [Rename::Replace, Rename::NoReplace, Rename::Exchange] {
        for (from, to) in [
            ("A/small", "A/new"),
            ("A/small", "B/new"),
            ("A/small", "A/pages"),
            ("A/small", "B/sparse"),
            ("A/pages", "B/linked"),
            ("B/linked", "A/small"),
            ("B/sparse", "new"),
            ("A", "new"),
            ("A", "B/empty"),
            ("A", "B/empty/in"),
            ("B/empty", "A/new"),
            ("B/empty", "A/small"),
            ("B/empty", "A"),
            ("B/empty", "B"),
            ("B", "B/empty"),
            ("A/symlink", "B/sparse"),
        ] {
            all.push(Op::Rename { from: path(from), to: path(to), mode });
        }
    }
    // Small: over, behind, behind a gap, out of the inode, over the end.
    for (at, len) in [(10, 30), (100, 20), (110, 8), (90, 60), (100, 5000), (6000, 10)] {
        all.push(write("A/small", at, len, 31));
    }
    // Pages: a few bytes, an edge, a page, several, over the end, behind a gap.
    for (at, len) in [(100, 64), (4090, 12), (4096, 4096), (3000, 2000), (8000, 3000), (9000, 5000), (20_000, 10)] {
        all.push(write("A/pages", at, len, 32));
    }
    // Sparse: into a hole, over its edge, over the end, over unwritten pages behind the end.
    for (at, len) in [(100, 50), (4096, 8192), (14_000, 9000), (21_000, 100), (40_000, 10)] {
        all.push(write("B/sparse", at, len, 33));
    }
    all.extend(
        [("A/small", 9), ("A/small", 100), ("A/pages", 9000), ("B/sparse", 600)].map(|(at, len)| append(at, len, 34)),
    );
    for (at, sizes) in [
        ("A/small", &[0, 20, 128, 5000][..]),
        ("A/pages", &[0, 100, 4096, 8193, 9000, 9500, 30_000]),
        ("B/sparse", &[12_000, 15_000, 24_000]),
    ] {
        all.extend(sizes.iter().map(|&size| resize(at, size)));
    }
    let modes = [Allocate::Grow, Allocate::KeepSize, Allocate::Punch, Allocate::Zero, Allocate::ZeroKeepSize];
    for mode in modes {
        for (at, from, len) in
            [("A/small", 10, 50), ("A/pages", 4096, 4096), ("A/pages", 1000, 10_000), ("B/sparse", 5000, 20_000)]
        {
            all.push(allocate(at, from, len, mode));
        }
    }
    for (at, from, len) in [("A/pages", 0, 4096), ("A/pages", 4096, 4096), ("B/sparse", 4096, 4096)] {
        all.push(Op::Collapse { path: path(at), at: from, len });
        all.push(Op::Insert { path: path(at), at: from, len });
    }
    for (at, name, len) in [
        ("A/pages", "user.one", 60),
        ("A/pages", "user.new", 5000),
        ("A/pages", "user.one", 0),
        ("A/small", "user.one", 0),
        ("A/small", "user.two", 7),
        ("B", "user.one", 20),
        ("B", "user.one", 0),
    ] {
        all.push(Op::Xattr { path: path(at), name: name.into(), len, seed: 35 });
    }
    for at in ["A/small", "B/linked", "A"] {
        all.push(Op::Set { path: path(at), permissions: 0o4711, uid: 12 });
    }
    for (at, len) in [("new", 20), ("A/new", 6000)] {
        all.push(Op::MakeUnnamed { path: path(at), len, seed: 36 });
    }
    // Pages and a hole, to a file and to itself: shared pages, and copies of parts of them.
    for (from, at, to, to_at, len) in [
        ("A/pages", 0, "B/sparse", 4096, 4096),
        ("B/sparse", 0, "A/pages", 4096, 8192),
        ("A/pages", 0, "A/pages", 12_288, 8192),
    ] {
        let (from, to) = (path(from), path(to));
        all.push(Op::Clone { path: from.clone(), at, to: to.clone(), to_at, len });
        all.push(Op::Copy { path: from, at: at + 10, to, to_at: to_at + 100, len: len - 500 });
    }
    // A word: in the inode, in a page, in a hole.
    for (at, from) in [("A/small", 16), ("A/pages", 4104), ("B/sparse", 4104)] {
        all.push(Op::MapWrite { path: path(at), at: from, len: 8, seed: 37 });
    }
    all
}

/// The operations that a recovered volume sees first: they use pages that are free, and move ends
/// of files over bytes and slots that a crash may have left.
fn second() -> Vec<Op> {
    vec![
        make("second"),
        append("second", 30_000, 77),
        resize("A/pages", 50_000),
        resize("B/sparse", 45_000),
        resize("A/small", 120),
        rename("second", "third"),
    ]
}

/// Pages in use of a volume of [`LANES`] lanes without files: prime page, copy of the head, lanes,
/// two pages of the table, and a group of inodes, which has 16.
const EMPTY: u64 = 2 + LANES + 2 + 16;

/// Removes everything. The pages that are in use then are those of an empty volume, and those of
/// further pages of the root.
fn remove_all(volume: &Volume) -> Result<(), String> {
    let text = |error: everbyte_fs::Error| error.to_string();
    let root_pages = volume.attributes(Ino::ROOT).map_err(text)?.allocated / 4096;
    let mut directories = vec![Ino::ROOT];
    let mut emptied = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in volume.entries(directory, 0, usize::MAX).map_err(text)? {
            match entry.kind {
                FileKind::Directory => {
                    directories.push(entry.ino);
                    emptied.push((directory, entry.name));
                }
                _ => volume.unlink(directory, &entry.name).map_err(|error| format!("{entry:?}: {error}"))?,
            }
        }
    }
    while let Some((directory, name)) = emptied.pop() {
        volume.remove_directory(directory, &name).map_err(|error| format!("directory {name:?}: {error}"))?;
    }
    if let Some(finding) = volume.check().first() {
        return Err(format!("after all files were removed: {finding}"));
    }
    let usage = volume.usage();
    let used = usage.pages - usage.free_pages;
    let empty = EMPTY + root_pages;
    match used == empty && usage.free_inodes == usage.inodes - 1 {
        true => Ok(()),
        false => Err(format!("an empty volume has {used} pages in use, not {empty}: {usage:?}")),
    }
}

/// As [`observe`]; then everything is removed.
pub(crate) fn observe_all(media: &Media, seen: &Seen) -> Result<Timed, String> {
    let tree = observe(media, seen)?;
    remove_all(&open(media)?)?;
    Ok(tree)
}

/// Explores one sequence.
fn explore(
    case: &str,
    explorer: &Explorer,
    ground: &(Image, Timed),
    name: &str,
    ops: &[Op],
) -> Result<Report, Box<Failure>> {
    let numbers = name.to_owned();
    let command = format!("EVERBYTE_SEQUENCE={numbers} everbyte crash {case} --seed {{seed}} --image '{{image}}'");
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        if !volume.object().store().recovery().clean {
            second().iter().for_each(|op| step(&volume, twin, op));
        }
        for op in ops {
            if let Op::MapWrite { path, .. } = op {
                // A store to a mapping sets no time before it is synced: the file changes in the
                // same tick of the clock before.
                let at = twin.model().0.len(path).unwrap_or(0).saturating_sub(16);
                step(&volume, twin, &Op::Write { path: path.clone(), at, len: 16, seed: 38 });
            }
            step(&volume, twin, op);
        }
    };
    let explorer = explorer.clone().command(command);
    let explored =
        explorer.explore_twin(&ground.0, &ground.1, Order::InOrder, run, |media, seen| observe_all(&media, seen));
    explored.map_err(|mut failure| {
        failure.message = format!("sequence {numbers}, {ops:?}: {}", failure.message);
        failure
    })
}

/// The sum of several explorations, one profile with the like.
pub(crate) fn add(sum: &mut Option<Report>, more: Report) {
    let Some(sum) = sum else {
        *sum = Some(more);
        return;
    };
    sum.elapsed += more.elapsed;
    for (into, from) in sum.profiles.iter_mut().zip(more.profiles) {
        let ProfileReport { points, whole_points, images, repeated, possible, recovery_images, stores, fences, .. } =
            from;
        into.points += points;
        into.whole_points += whole_points;
        into.images += images;
        into.repeated += repeated;
        into.possible = (into.possible + possible).min(f64::MAX); // infinity is no number in JSON
        into.recovery_images += recovery_images;
        into.stores += stores;
        into.fences += fences;
    }
}

/// The sequences that the twin allows, of those whose numbers `draw` gives, or the one that the
/// environment names.
fn explore_all(
    case: &str,
    explorer: Explorer,
    sequences: impl Iterator<Item = Vec<usize>>,
) -> Result<Report, Box<Failure>> {
    let (ground, operations) = (ground_image(), operations());
    let only = std::env::var("EVERBYTE_SEQUENCE").ok().map(|text| {
        let number = |text: &str| text.parse::<usize>().expect("EVERBYTE_SEQUENCE: numbers and commas");
        text.split(',').map(number).collect::<Vec<usize>>()
    });
    let mut sum = None;
    for numbers in only.clone().into_iter().chain(sequences.take_while(|_| only.is_none())) {
        let ops: Vec<Op> = numbers.iter().map(|&number| operations[number].clone()).collect();
        if is_allowed(&ground.1, &ops) {
            let name = numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            add(&mut sum, explore(case, &explorer, &ground, &name, &ops)?);
        }
    }
    Ok(sum.expect("a sequence is allowed"))
}

fn is_allowed(tree: &Timed, ops: &[Op]) -> bool {
    let mut tree: Tree = tree.0.clone();
    ops.iter().all(|op| tree.apply(op).is_ok())
}

fn one(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let count = operations().len();
    explore_all("fs-one", bounded(explorer, if is_soak() { 2 } else { 1 }, 6), (0..count).map(|number| vec![number]))
}

/// Sequences are many, so each gets few recoveries that are crashed, and few second runs.
fn bounded(explorer: Explorer, starts: u64, images: u64) -> Explorer {
    let explorer = explorer.once().again(starts, images);
    if is_soak() { explorer } else { explorer.recoveries(12).floor(16) }
}

/// Random sequences of so many operations, without an end.
fn drawn(len: usize, seed: u64) -> impl Iterator<Item = Vec<usize>> {
    let (count, mut random) = (operations().len(), Random::new(seed));
    std::iter::repeat_with(move || (0..len).map(|_| random.index(count)).collect())
}

fn two(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let count = operations().len();
    if is_soak() {
        let all = (0..count * count).map(|number| vec![number / count, number % count]);
        return explore_all("fs-two", bounded(explorer, 1, 6), all);
    }
    let seed = everbyte_workload::seed(0x2ace, "-p everbyte-cases");
    explore_all("fs-two", bounded(explorer, 1, 6), drawn(2, seed).take(50))
}

fn three(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let seed = everbyte_workload::seed(0x3ace, "-p everbyte-cases");
    let count = if is_soak() { 4000 } else { 10 };
    explore_all("fs-three", bounded(explorer, 1, 6), drawn(3, seed).take(count))
}

/// Operations whose points of at most 12 words have up to 256 images: a name, a file in place of
/// another, bytes behind the end, bytes that leave the inode, pages.
fn few_words() -> [Op; 5] {
    [
        make("new"),
        rename("A/small", "A/pages"),
        write("B/sparse", 21_000, 100, 33),
        resize("A/small", 5000),
        allocate("A/pages", 1000, 10_000, Allocate::Grow),
    ]
}

/// Every image of each point that has at most 4096. Crashes of recovery and second runs are the
/// business of `fs-one`.
fn whole(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (operations, usual) = (operations(), few_words());
    let numbers = (0..operations.len()).filter(|&number| is_soak() || usual.contains(&operations[number]));
    explore_all("fs-whole", explorer.once().depth(1).whole(), numbers.map(|number| vec![number]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::NOW;
    use everbyte_fs::model;
    use std::sync::atomic::Ordering;

    /// The clock is one for all tests of this process.
    static ONE_AT_A_TIME: parking_lot::Mutex<()> = parking_lot::const_mutex(());

    /// Without a crash: the volume holds what its twin holds, and the next opening finds the same
    /// free pages and inodes.
    fn run_plain((image, tree): &(Image, Timed), ops: &[Op]) {
        let media = image.media();
        let volume = open(&media).unwrap();
        let mut tree = tree.0.clone();
        for op in ops {
            tree.now += 1;
            NOW.store(tree.now, Ordering::Relaxed);
            model::apply(&volume, op).unwrap_or_else(|error| panic!("{ops:?}: {error}"));
            tree.apply(op).unwrap();
        }
        let found = model::read(&volume).unwrap();
        assert_eq!(found, tree, "{ops:?}");
        assert_eq!(found.times(), tree.times(), "{ops:?}");
        assert_eq!(volume.check(), [], "{ops:?}");
        let usage = volume.usage();
        drop(volume);
        let volume = open(&media).unwrap();
        assert_eq!(volume.usage(), usage, "{ops:?}: no page and no inode is lost");
        assert_eq!(model::read(&volume).unwrap(), tree, "{ops:?}");
        remove_all(&volume).unwrap_or_else(|error| panic!("{ops:?}: {error}"));
    }

    #[test]
    fn sequences_without_a_crash_leave_what_their_twin_has() {
        let _one = ONE_AT_A_TIME.lock();
        let (ground, operations) = (ground_image(), operations());
        let count = operations.len();
        let pairs = (0..count * count).map(|number| vec![number / count, number % count]);
        let all = (0..count).map(|number| vec![number]).chain(pairs);
        let every = if everbyte_workload::is_long() { 1 } else { 17 };
        let mut ran = 0;
        for (number, numbers) in all.enumerate() {
            let ops: Vec<Op> = numbers.iter().map(|&number| operations[number].clone()).collect();
            if (number < count || number % every == 0) && is_allowed(&ground.1, &ops) {
                run_plain(&ground, &ops);
                ran += 1;
            }
        }
        assert!(ran > 500, "{ran}");
    }

    /// A refused operation is an error of the volume, too, and has changed nothing.
    #[test]
    fn refused_operations_change_nothing() {
        let _one = ONE_AT_A_TIME.lock();
        let (image, tree) = ground_image();
        let volume = open(&image.media()).unwrap();
        let usage = volume.usage();
        let mut refused = 0;
        for op in operations().iter().filter(|op| tree.0.clone().apply(op).is_err()) {
            assert!(model::apply(&volume, op).is_err(), "{op:?}");
            assert!(Timed(model::read(&volume).unwrap()) == tree, "{op:?}");
            assert_eq!((volume.usage(), volume.check()), (usage, vec![]), "{op:?}");
            refused += 1;
        }
        assert!(refused > 10, "{refused}");
    }
}

//! Words that a dead process stored and did not flush, and words that recovery stores itself: the
//! next process rests on them, and a power cut must not take them away again (FS-13).
//!
//! Behind a death the images of a second run count from its first acknowledgement on, so each one
//! begins with an operation that has no part in it.
//!
//! Each program does one thing to a clean volume. On what a crash has left it uses the inodes and
//! the pages that are free now, and moves ends over slots that were cleared.

use crate::fs::{
    Timed, append, case, directory, image, link, make, observe, open, path, rename, resize, step, unlink, write,
};
use crate::fs_sequences::add;
use crate::{Case, is_soak};
use everbyte_fs::model::{self, Op};
use everbyte_fs::{Rename, Volume, layout};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Twin};

pub(crate) const CASES: &[Case] = &[
    case(
        "fs-orphan-reuse",
        "opening frees a file without a name, whose number and pages are used at once",
        3000,
        orphan,
    ),
    case("fs-inode-reuse", "a process dies while a file without a name becomes free; its number is used", 3000, freed),
    case(
        "fs-word-stays",
        "a process dies while one word of a page changes: it stays what the next one reads",
        3000,
        word,
    ),
    case("fs-group-dead", "a process dies while it adds a group of inodes, from which the next one takes", 3000, group),
    case("fs-dead-each", "a process dies during each kind of change; the next one works on", 60, each),
    case("fs-chain-reuse", "a process dies while slots of a chain change alone; the pages are used", 6000, chain),
];

/// Starts of second runs of one recording, and images of each: most of what these cases show.
const STARTS: u64 = 24;
const IMAGES: u64 = 60;

pub(crate) fn explore(
    explorer: Explorer,
    whole: &(Image, Timed),
    first: impl Fn(&Volume, &Twin<'_, Timed>),
    then: &[Op],
) -> Result<Report, Box<Failure>> {
    let then = |volume: &Volume, twin: &Twin<'_, Timed>| then.iter().for_each(|op| step(volume, twin, op));
    explore_with(explorer.again(STARTS, IMAGES), whole, first, then)
}

/// Runs `first` in a clean volume, and `then` in each.
pub(crate) fn explore_with(
    explorer: Explorer,
    (image, tree): &(Image, Timed),
    first: impl Fn(&Volume, &Twin<'_, Timed>),
    then: impl Fn(&Volume, &Twin<'_, Timed>),
) -> Result<Report, Box<Failure>> {
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        if volume.object().store().recovery().clean {
            first(&volume, twin);
        }
        then(&volume, twin);
    };
    explorer.explore_twin(image, tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}

fn files() -> Vec<Op> {
    vec![make("a"), append("a", 9000, 1), make("b"), append("b", 5000, 2)]
}

/// A process died with the file open: the program finds it without a name.
fn orphan(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (image, mut tree) = image(&files());
    let image = image.then(|media| {
        let volume = open(&media).expect("a whole image");
        let held = volume.hold(model::find(&volume, &path("a")).expect("it exists")).expect("it lives");
        model::apply(&volume, &unlink("a")).expect("it has a name");
        std::mem::forget(held);
    });
    tree.0.apply(&unlink("a")).expect("it has a name");
    explore(
        explorer,
        &(image, tree),
        |_, _| (),
        &[write("b", 9, 20, 5), make("c"), append("c", 12_000, 3), append("b", 9000, 4)],
    )
}

fn freed(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let first = |volume: &Volume, twin: &Twin<'_, Timed>| {
        let held = model::find(volume, &path("a")).and_then(|ino| volume.hold(ino)).expect("it lives");
        step(volume, twin, &unlink("a"));
        twin.on_its_thread(move || drop(held));
    };
    explore(
        explorer,
        &image(&files()),
        first,
        &[write("b", 9, 20, 5), make("c"), append("c", 12_000, 3), append("b", 9000, 4)],
    )
}

fn chain(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let mut before = files();
    before.push(make("sparse"));
    before.extend((0..14).map(|number| write("sparse", number * 8192, 5, number as u8)));
    let first = |volume: &Volume, twin: &Twin<'_, Timed>| {
        step(volume, twin, &write("sparse", 12 * 8192, 4096, 7)); // one word of a slot
        step(volume, twin, &resize("sparse", 11 * 8192)); // slots are cleared
    };
    let then = |volume: &Volume, twin: &Twin<'_, Timed>| {
        let ops = [append("b", 20_000, 3), resize("sparse", 120_000), append("a", 9000, 4)];
        ops.iter().for_each(|op| step(volume, twin, op));
    };
    explore_with(explorer.again(72, 100), &image(&before), first, then)
}

/// Both writes fall into one tick of the clock, so the second one changes one word alone.
fn word(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let first = |volume: &Volume, twin: &Twin<'_, Timed>| {
        step(volume, twin, &write("a", 100, 64, 5));
        step(volume, twin, &write("a", 200, 2, 6));
    };
    explore(explorer, &image(&files()), first, &[append("b", 200, 3), make("c"), append("b", 9000, 4)])
}

/// The table has one group of inodes, which is full.
fn group(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let mut before = vec![directory("d")];
    before.extend((3..layout::GROUP_INODES).map(|number| make(&format!("d/{number}"))));
    let first = |volume: &Volume, twin: &Twin<'_, Timed>| step(volume, twin, &make("first"));
    let then = |volume: &Volume, twin: &Twin<'_, Timed>| {
        [write("d/9", 9, 20, 5), make("c"), append("c", 12_000, 3)].iter().for_each(|op| step(volume, twin, op));
    };
    explore_with(explorer.again(60, 100), &image(&before), first, then)
}

/// A process dies in one change of a clean volume. The next one changes other files, and takes
/// pages, inodes and names. The usual run tries every third kind: those whose
/// words no other case leaves in the caches.
fn each(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let mut before = files();
    before.extend([make("shared"), append("shared", 9000, 3), directory("d"), make("d/x"), directory("e")]);
    before.extend([Op::Snapshot { name: b"old".to_vec() }, make("gone"), append("gone", 50_000, 9), unlink("gone")]);
    let changes = [
        make("new"),
        directory("new"),
        Op::MakeLink { path: path("new"), target: vec![b'l'; 300] },
        rename("shared", "d/x"),
        link("shared", "d/y"),
        unlink("d/x"),
        Op::Rename { from: path("shared"), to: path("d/x"), mode: Rename::Exchange },
        Op::RemoveDirectory { path: path("e") },
        Op::Set { path: path("d/x"), permissions: 0o600, uid: 7 },
        Op::Snapshot { name: b"new".to_vec() },
        Op::Xattr { path: path("d/x"), name: b"user.a".to_vec(), len: 5000, seed: 1 },
        Op::Clone { path: path("shared"), at: 0, to: path("d/x"), to_at: 0, len: 0 },
        Op::RemoveSnapshot { name: b"old".to_vec() },
        Op::Insert { path: path("shared"), at: 4096, len: 4096 },
        resize("shared", 5000),
        Op::Collapse { path: path("shared"), at: 4096, len: 4096 },
        write("shared", 4096, 4096, 5),
        append("d/x", 9000, 5),
    ];
    let mut sum = None;
    let whole = image(&before);
    for change in changes.into_iter().step_by(if is_soak() { 1 } else { 3 }) {
        let first = |volume: &Volume, twin: &Twin<'_, Timed>| step(volume, twin, &change);
        let then = |volume: &Volume, twin: &Twin<'_, Timed>| {
            [write("b", 9, 20, 5), make("c"), append("c", 12_000, 3), unlink("a")]
                .iter()
                .for_each(|op| step(volume, twin, op));
        };
        add(&mut sum, explore_with(explorer.clone().recoveries(12).floor(16).again(6, 20), &whole, first, then)?);
    }
    Ok(sum.expect("there are changes"))
}

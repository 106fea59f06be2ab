//! Cases of file volumes: each call is whole or absent after a crash, and what returned is there.

use crate::Case;
use everbyte_fs::layout::{self, Place};
use everbyte_fs::model::{self, Op, Path, Times, Tree};
use everbyte_fs::{Allocate, FileKind, OpenVolume, Rename, Volume, VolumeOptions};
use everbyte_media::{Checked, Media};
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::{CLUSTER, FormatOptions, Store};
use everbyte_workload::Random;
use std::sync::atomic::{AtomicI64, Ordering};

pub(crate) const CASES: &[Case] = &[
    case("fs-names", "files, directories and links are made and removed, one call at a time", 9000, names),
    case("fs-rename", "renames that move, replace and exchange files and directories", 9000, renames),
    case("fs-write", "writes to small files, behind the end, over one page and over several", 9000, writes),
    case("fs-resize", "files shrink and grow: bytes behind an end never come back", 6000, sizes),
    case("fs-holes", "pages are allocated ahead, zeroed and taken away", 6000, holes),
    case("fs-grow", "a directory, the inode table and a chain of extents grow", 6000, grows),
    case("fs-orphans", "files lose their last name while they are held: a crash frees them", 4000, orphans),
    case("fs-trim", "a write behind the end is interrupted; then the end moves over its place as a hole", 3000, trim),
    case("fs-shrink", "a file shrinks: opening after a crash clears only slots that its end has left", 6000, shrink),
    case("fs-long", "a change of more words than a lane holds: its further segments are pages", 1500, long),
    case("fs-saved", "volumes are closed and opened again: no saved state outlives the next opening", 9000, saved),
    case("fs-create", "a volume is made and used: it is there whole, or not at all", 3000, |explorer| {
        creation(explorer, &options())
    }),
    case(
        "fs-create-sized",
        "a volume is made with a size and checksums: it has both, or is not there",
        400,
        |explorer| creation(explorer, &VolumeOptions { size: 2 << 20, checksums: true, ..options() }),
    ),
    case("fs-sequences", "sequences of one to three random operations on files of every form", 12_000, sequences),
];

pub(crate) const fn case(
    name: &'static str,
    about: &'static str,
    total: u64,
    program: fn(Explorer) -> Result<Report, Box<Failure>>,
) -> Case {
    Case { name, crate_name: "fs", about, total, program }
}

const MAX: u64 = 8 << 20;
const SPAN: u64 = 4 << 20;

pub(crate) fn path(text: &str) -> Path {
    text.split('/').filter(|name| !name.is_empty()).map(|name| name.as_bytes().to_vec()).collect()
}

pub(crate) fn make(at: &str) -> Op {
    Op::Make { path: path(at), kind: FileKind::Regular, permissions: 0o644 }
}

pub(crate) fn directory(at: &str) -> Op {
    Op::Make { path: path(at), kind: FileKind::Directory, permissions: 0o755 }
}

pub(crate) fn write(at: &str, offset: u64, len: u64, seed: u8) -> Op {
    Op::Write { path: path(at), at: offset, len, seed }
}

pub(crate) fn append(at: &str, len: u64, seed: u8) -> Op {
    Op::Append { path: path(at), len, seed }
}

pub(crate) fn resize(at: &str, to: u64) -> Op {
    Op::Resize { path: path(at), to }
}

pub(crate) fn link(at: &str, new: &str) -> Op {
    Op::Link { path: path(at), new: path(new) }
}

pub(crate) fn unlink(at: &str) -> Op {
    Op::Unlink { path: path(at) }
}

pub(crate) fn rename(from: &str, to: &str) -> Op {
    Op::Rename { from: path(from), to: path(to), mode: Rename::Replace }
}

pub(crate) fn allocate(at: &str, offset: u64, len: u64, mode: Allocate) -> Op {
    Op::Allocate { path: path(at), at: offset, len, mode }
}

/// The time of the operation that runs.
pub(crate) static NOW: AtomicI64 = AtomicI64::new(FIRST);
pub(crate) const FIRST: i64 = 1_000_000_000;

fn clock() -> i64 {
    NOW.load(Ordering::Relaxed)
}

/// A twin with the times of its files, which a crash may have stored before the bytes (FS-10): a
/// time that is found is that of the twin, or later than all operations that the twin has seen.
#[derive(Clone, Debug)]
pub(crate) struct Timed(pub Tree);

impl PartialEq for Timed {
    fn eq(&self, found: &Timed) -> bool {
        let fits = |own: i64, found: i64| found == own || found > self.0.now;
        let times = found.0.times();
        let is_right = |(path, own): (&Path, &Times)| {
            let found = times.get(path);
            found.is_some_and(|found| fits(own.modified, found.modified) && fits(own.changed, found.changed))
        };
        self.0 == found.0 && self.0.times().iter().all(is_right)
    }
}

impl Timed {
    /// Applies an operation at the time after the latest one. A short write inside of a
    /// file falls into the same tick of the clock as the operation before: its change may be of one
    /// word. So do stores to a
    /// mapping, which set no time before they are synced. An operation that
    /// changes nothing leaves no time on media, and none here.
    pub(crate) fn apply(&mut self, op: &Op) -> Result<(), model::Refused> {
        let before = self.0.clone();
        let is_inside = |path: &Path, end: u64| self.0.len(path).is_some_and(|len| end <= len);
        let is_short = match op {
            Op::Write { path, at, len: len @ ..=8, .. } => is_inside(path, at + len),
            op => matches!(op, Op::MapWrite { .. }),
        };
        self.0.now += i64::from(!is_short);
        let applied = self.0.apply(op);
        if applied.is_err() || self.0 == before && self.0.times() == before.times() {
            self.0.now = before.now;
        }
        applied
    }
}

/// Lanes of most volumes that are explored.
pub(crate) const LANES: u64 = 3;

pub(crate) fn options() -> VolumeOptions {
    VolumeOptions {
        label: "explored".into(),
        uuid: Some([9; 16]),
        lanes: LANES as u32,
        span: Some(SPAN),
        clock,
        ..VolumeOptions::default()
    }
}

fn empty_store() -> Image {
    Image::zeroed(CLUSTER).with_max(MAX).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        Store::format(media, &options).expect("a small store").close().expect("sim barriers do not fail");
    })
}

/// A store with a volume after some operations, and its twin.
pub(crate) fn image(ops: &[Op]) -> (Image, Timed) {
    image_of(&options(), ops)
}

/// As [`image`], of a volume with other options.
pub(crate) fn image_of(options: &VolumeOptions, ops: &[Op]) -> (Image, Timed) {
    image_that(options, ops, false)
}

/// As [`image_of`]; the volume was closed, or only its store.
fn image_that(options: &VolumeOptions, ops: &[Op], is_closed: bool) -> (Image, Timed) {
    let mut tree = Timed(Tree::made_at(FIRST));
    tree.0.page_size = options.page_size;
    ops.iter().for_each(|op| tree.0.apply(op).expect("the operation is allowed"));
    NOW.store(FIRST, Ordering::Relaxed);
    let image = empty_store().then(|media| {
        let store = Store::attach(media).expect("a whole store");
        let volume = Volume::create(&store, "volume", options).expect("room for a volume");
        ops.iter().for_each(|op| model::apply(&volume, op).expect("the operation is allowed"));
        if is_closed {
            volume.close().expect("sim barriers do not fail");
        }
        store.close().expect("sim barriers do not fail");
    });
    (image, tree)
}

pub(crate) fn open(media: &Media) -> Result<Volume, String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    let object = store.object("volume").map_err(|error| error.to_string())?;
    Volume::open_with(object, &OpenVolume { clock, ..OpenVolume::default() }).map_err(|error| error.to_string())
}

/// Recovers, checks everything, and reads the tree.
pub(crate) fn observe(media: &Media, seen: &Seen) -> Result<Timed, String> {
    let volume = open(media)?;
    seen.recovered();
    if let Some(damaged) = volume.recovery().damaged.first() {
        return Err(format!("inode {damaged} is damaged"));
    }
    if let Some(finding) = volume.check().first() {
        return Err(finding.to_string());
    }
    model::read(&volume).map(Timed).map_err(|error| error.to_string())
}

/// One call, which is durable when it returns if fences settle, and after `settle` otherwise.
pub(crate) fn step(volume: &Volume, twin: &Twin<'_, Timed>, op: &Op) {
    let mut model = twin.model();
    if model.apply(op).is_err() {
        // On a crash image that an earlier run has left.
        assert!(model::apply(volume, op).is_err(), "the twin refuses {op:?}");
        return;
    }
    NOW.store(model.0.now, Ordering::Relaxed);
    let change = op.clone();
    twin.step(
        format!("{op:?}"),
        move |tree: &mut Timed| drop(tree.apply(&change)),
        || {
            model::apply(volume, op).unwrap_or_else(|error| panic!("{op:?}: {error}"));
            settle(volume);
        },
    );
}

fn settle(volume: &Volume) {
    if !volume.object().media().fences_settle() {
        volume.settle().expect("sim barriers do not fail");
    }
}

/// Explores operations on a volume that others have made.
pub(crate) fn explore(explorer: Explorer, before: &[Op], ops: &[Op]) -> Result<Report, Box<Failure>> {
    let (image, tree) = image(before);
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        ops.iter().for_each(|op| step(&volume, twin, op));
    };
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}

fn names(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let long = "n".repeat(200);
    let before = [directory("home"), make("home/a"), write("home/a", 0, 9000, 1), make("full")];
    let ops = [
        make("home/b"),
        directory("home/notes"),
        Op::Make { path: path(&format!("home/{long}")), kind: FileKind::Pipe, permissions: 0o600 },
        Op::MakeLink { path: path("home/short"), target: b"a".to_vec() },
        Op::MakeLink { path: path("home/long"), target: vec![b'l'; 300] },
        link("home/a", "a"),
        unlink("home/a"),
        Op::Set { path: path("a"), permissions: 0o4711, uid: 12 },
        Op::Xattr { path: path("a"), name: b"user.one".to_vec(), len: 5000, seed: 1 },
        Op::Xattr { path: path("a"), name: b"user.two".to_vec(), len: 20, seed: 2 },
        Op::Xattr { path: path("a"), name: b"user.one".to_vec(), len: 0, seed: 0 },
        unlink("a"),
        write("full", 0, 9000, 7), // takes the pages of the removed file
        Op::RemoveDirectory { path: path("home/notes") },
        make("home/notes"),
        unlink(&format!("home/{long}")),
    ];
    explore(explorer, &before, &ops)
}

fn renames(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [
        directory("one"),
        directory("two"),
        make("one/a"),
        append("one/a", 50, 1),
        make("one/b"),
        append("one/b", 5000, 2),
        directory("one/sub"),
        make("one/sub/deep"),
    ];
    let exchange = |from: &str, to: &str| Op::Rename { from: path(from), to: path(to), mode: Rename::Exchange };
    let ops = [
        rename("one/a", "one/c"),
        rename("one/c", "two/c"),
        rename("two/c", "one/b"), // the pages of `b` become free
        rename("one/sub", "two/sub"),
        directory("one/empty"),
        rename("two/sub", "one/empty"),
        exchange("one/empty", "one/b"),
        exchange("one/b", "two"),
        Op::Rename { from: path("one/empty"), to: path("last"), mode: Rename::NoReplace },
        make("fresh"),
        append("fresh", 9000, 3),
    ];
    explore(explorer, &before, &ops)
}

fn writes(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [make("small"), append("small", 30, 1), make("large"), append("large", 20_000, 2), make("new")];
    let ops = [
        append("small", 40, 3),
        write("small", 10, 30, 4),
        write("small", 100, 20, 5),
        write("small", 120, 200, 6), // leaves the inode
        append("new", 700, 7),
        append("new", 700, 8),
        append("new", 5000, 9),
        write("large", 4096, 4096, 10), // splits the extent
        write("large", 4096, 4096, 11), // one word
        write("large", 5000, 64, 12),   // at its place
        write("large", 8190, 2, 18),    // one word
        write("large", 3000, 9000, 13),
        write("large", 19_000, 3000, 14), // over the end
        write("large", 30_000, 10, 15),   // behind a gap
        write("new", 40_000, 100, 16),
        write("new", 6390, 20, 17),
    ];
    explore(explorer, &before, &ops)
}

fn sizes(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [make("a"), append("a", 10_000, 1), make("small"), append("small", 100, 2), make("b")];
    let ops = [
        resize("a", 5000),
        write("a", 6000, 10, 7), // behind old bytes of the page
        resize("a", 9000),       // zeros, not the old bytes
        append("b", 9000, 3),
        resize("a", 4096),
        append("a", 100, 4),
        resize("small", 20),
        write("small", 70, 10, 8), // behind a gap that had bytes
        resize("small", 20),
        resize("small", 120),
        resize("small", 60),
        resize("small", 300),
        resize("a", 0),
        append("b", 9000, 5),
        resize("a", 20_000),
        write("a", 8192, 10, 6),
        resize("a", 8197),
        resize("a", 12_000),
    ];
    explore(explorer, &before, &ops)
}

fn holes(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [make("a"), append("a", 20_000, 1), make("b"), append("b", 100, 2), make("c")];
    let ops = [
        allocate("a", 4096, 8192, Allocate::Punch),
        write("a", 6000, 100, 3),
        allocate("b", 0, 20_000, Allocate::Grow),
        write("b", 5000, 4000, 4), // in place, into unwritten pages
        allocate("c", 0, 30_000, Allocate::KeepSize),
        append("c", 5000, 5),
        append("c", 5000, 6),
        allocate("a", 1000, 10_000, Allocate::Zero),
        allocate("b", 3000, 100, Allocate::Punch),
        write("b", 8192, 4096, 7),
        allocate("b", 19_000, 9000, Allocate::Zero),
        allocate("c", 2000, 40_000, Allocate::ZeroKeepSize),
        append("a", 4000, 8),
        resize("c", 3000),
        Op::Insert { path: path("b"), at: 4096, len: 8192 },
        Op::Collapse { path: path("b"), at: 8192, len: 8192 },
        append("c", 5000, 9), // takes pages that the range had
        allocate("a", 0, 30_000, Allocate::Punch),
    ];
    explore(explorer, &before, &ops)
}

fn grows(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let mut before = vec![make("dirty"), append("dirty", 200_000, 9), directory("many")];
    before.extend((0..250).map(|number| make(&format!("many/{number:03}"))));
    before.push(directory("d"));
    before.extend((0..63).map(|number| link("many/000", &format!("d/{number}"))));
    before.push(make("sparse"));
    before.extend((0..7).map(|number| write("sparse", number * 8192, 10, 1)));
    before.push(unlink("dirty")); // so that free pages are not zeros
    // One inode of the first group is free, a page of `d` has one free line, and
    // one slot is left in the inode of `sparse`.
    let ops = [
        link("many/000", "d/long enough to need a second line, which the page does not have"),
        write("sparse", 60_000, 10, 2),
        write("sparse", 80_000, 10, 3),
        write("sparse", 100_000, 10, 4),
        make("many/253"),
        make("many/254"),
        write("many/254", 0, 5000, 5),
        unlink("sparse"),
        write("many/253", 0, 40_000, 6),
    ];
    explore(explorer, &before, &ops)
}

/// The held files have no name, so the tree is what a crash leaves.
fn orphans(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [make("a"), append("a", 9000, 1), make("b"), append("b", 20, 2), directory("d"), make("taker")];
    let (image, tree) = image(&before);
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        let held: Vec<_> = ["a", "b", "d"]
            .into_iter()
            .filter_map(|name| volume.hold(model::find(&volume, &path(name)).ok()?).ok())
            .collect();
        step(&volume, twin, &unlink("a"));
        step(&volume, twin, &rename("taker", "b"));
        step(&volume, twin, &Op::RemoveDirectory { path: path("d") });
        twin.on_its_thread(|| {
            let nameless = held.iter().filter(|held| volume.attributes(held.ino()).is_ok_and(|file| file.links == 0));
            nameless.for_each(|held| drop(volume.write(held.ino(), 0, &model::bytes(5000, 9))));
        });
        twin.on_its_thread(move || drop(held));
        step(&volume, twin, &append("b", 9000, 3));
        let unnamed = twin.on_its_thread(|| {
            let new = everbyte_fs::NewFile::new(FileKind::Regular, 0o600);
            let held = volume.make_unnamed(&new).expect("room for a file");
            volume.write(held.ino(), 0, &model::bytes(6000, 4)).expect("room for pages");
            held
        });
        step(&volume, twin, &append("b", 5000, 5));
        twin.on_its_thread(move || drop(unnamed));
        step(&volume, twin, &make("c"));
        step(&volume, twin, &append("c", 9000, 6));
    };
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}

/// The first run is interrupted, and the second one makes the file larger and uses free pages.
fn trim(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [make("a"), append("a", 4096, 1), make("b"), append("b", 4096, 2), make("c"), append("c", 9000, 3)];
    let (image, tree) = image(&before);
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        if volume.object().store().recovery().clean {
            step(&volume, twin, &append("a", 9000, 3));
        }
        step(&volume, twin, &resize("a", 40_000));
        step(&volume, twin, &append("b", 9000, 4));
    };
    // Second runs from the few crash points that lie between the slots and the size.
    explorer.again(60, 24).explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}

fn long(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let mut before = vec![make("a"), make("b"), make("c")];
    for at in ["a", "c"] {
        before.extend((0..120).map(|number| write(at, number * 8192, 10, number as u8)));
    }
    let insert = Op::Insert { path: path("a"), at: 0, len: 4096 };
    // Pages become free with the end of their change, and not for the records of it.
    let punch = allocate("c", 0, 120 * 8192, Allocate::Punch);
    let over = write("a", 0, 121 * 8192, 5);
    explore(explorer, &before, &[insert, append("b", 20_000, 3), punch, over])
}

fn shrink(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, &[make("a"), append("a", 9000, 1)], &[resize("a", 100)])
}

/// A volume that was closed is opened, changed and closed, three times.
fn saved(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [make("a"), append("a", 9000, 1), make("b"), append("b", 5000, 2)];
    let (image, tree) = image_that(&options(), &before, true);
    let rounds = [
        [append("b", 5000, 3), unlink("a"), make("c"), append("c", 9000, 4)],
        [append("c", 5000, 5), make("d"), append("d", 300, 6), resize("c", 4000)],
        [make("e"), append("e", 12_000, 7), unlink("b"), append("d", 9000, 8)],
    ];
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        for ops in &rounds {
            let volume = twin.on_its_thread(|| open(&media).expect("a whole image"));
            ops.iter().for_each(|op| step(&volume, twin, op));
            twin.on_its_thread(move || volume.close().expect("no other clone, and no failed write"));
        }
    };
    let object = Store::attach(image.media()).and_then(|store| store.object("volume")).expect("a whole image");
    let start = object.prime().get();
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| {
        let led_to = state_of(&media, start);
        let tree = observe(&media, seen)?;
        match led_to {
            Some(Err(at)) => Err(format!("the word of the saved state leads to {at:#x}, where no whole one is")),
            _ => Ok(tree),
        }
    })
}

/// The place that the word of the saved state leads to. `Err`: the head of a state of this opening,
/// or of an earlier one, does not lie there.
fn state_of(media: &Media, start: u64) -> Option<Result<u64, u64>> {
    let at = start + Place::of(media.load(start + layout::SAVED_AT))?.page * layout::PAGE;
    let head: layout::SavedHead = media.get(at + layout::LIST_HEAD);
    let is_whole = head.magic == layout::SAVED_MAGIC && head.checksum_agrees();
    Some(if is_whole && head.opened <= media.load(start + layout::OPENED_AT) { Ok(at) } else { Err(at) })
}

/// The twin is the volume's tree once the volume exists.
fn creation(explorer: Explorer, options: &VolumeOptions) -> Result<Report, Box<Failure>> {
    let exists = |media: &Media| {
        Store::attach(media.clone()).and_then(|store| store.objects()).is_ok_and(|objects| !objects.is_empty())
    };
    let mut made = Tree::made_at(FIRST);
    made.apply(&Op::Size { bytes: options.size }).expect("any size will do");
    let run = |media: Media, twin: &Twin<'_, Option<Timed>>| {
        let store = Store::attach(media).expect("a whole store");
        let mut volume = None;
        if twin.model().is_none() {
            let made = made.clone();
            twin.step(
                "create",
                move |tree: &mut Option<Timed>| *tree = Some(Timed(made.clone())),
                || {
                    NOW.store(FIRST, Ordering::Relaxed);
                    volume = Some(Volume::create(&store, "volume", options).expect("room for a volume"));
                },
            );
        }
        let volume = volume.unwrap_or_else(|| {
            let object = store.object("volume").expect("it exists");
            Volume::open_with(object, &OpenVolume { clock, ..OpenVolume::default() }).expect("a whole volume")
        });
        for op in [make("a"), append("a", 5000, 1), directory("d")] {
            let mut tree = twin.model().expect("it was made");
            if tree.apply(&op).is_err() {
                continue;
            }
            NOW.store(tree.0.now, Ordering::Relaxed);
            let change = op.clone();
            let change = move |tree: &mut Option<Timed>| _ = tree.as_mut().map(|tree| tree.apply(&change));
            twin.step(format!("{op:?}"), change, || {
                model::apply(&volume, &op).expect("room in the volume");
                settle(&volume);
            });
        }
    };
    explorer.explore_twin(&empty_store(), &None, Order::InOrder, run, |media, seen| {
        if !exists(&media) {
            return Ok(None);
        }
        let tree = observe(&media, seen)?;
        let object = Store::attach(media.clone()).and_then(|store| store.object("volume"));
        let start = object.map_err(|error| error.to_string())?.prime().get();
        match (media.load(start + layout::SUMS_AT) != 0) == options.checksums {
            true => Ok(Some(tree)),
            false => Err(format!("checksums: {}, and their word says the opposite", options.checksums)),
        }
    })
}

/// The files that sequences begin with: of each form one.
fn forms() -> Vec<Op> {
    vec![
        directory("A"),
        directory("B"),
        make("A/small"),
        append("A/small", 100, 1),
        make("A/pages"),
        append("A/pages", 9000, 2),
        make("B/sparse"),
        write("B/sparse", 10_000, 5000, 3),
        allocate("B/sparse", 20_000, 8192, Allocate::KeepSize),
        link("A/pages", "B/linked"),
        directory("B/empty"),
    ]
}

/// An operation of those that the files of [`forms`] allow.
fn any(random: &mut Random) -> Op {
    let file = random.pick(&["A/small", "A/pages", "B/sparse", "B/linked", "new"]);
    let other = random.pick(&["A/small", "B/linked", "B/new", "new", "B/empty", "A", "B/empty/in"]);
    let offset = random.pick(&[0, 90, 4000, 4096, 8192, 9000, 12_000, 15_000, 21_000]);
    let len = random.pick(&[1, 30, 96, 200, 4096, 5000, 9000]);
    let seed = 16 + random.below(200) as u8;
    match random.below(14) {
        0 => make(other),
        1 => directory(other),
        2 | 3 => write(file, offset, len, seed),
        4 | 5 => append(file, len, seed),
        6 | 7 => resize(file, offset + random.pick(&[0, 1, 100])),
        8 => {
            let modes = [Allocate::Grow, Allocate::KeepSize, Allocate::Punch, Allocate::Zero, Allocate::ZeroKeepSize];
            allocate(file, offset, len, random.pick(&modes))
        }
        9 => link(file, other),
        10 => unlink(file),
        11 => Op::RemoveDirectory { path: path(other) },
        _ => {
            let mode = random.pick(&[Rename::Replace, Rename::Exchange]);
            Op::Rename { from: path(random.pick(&[file, "A", "B/empty"])), to: path(other), mode }
        }
    }
}

/// Sequences of operations that the twin allows, each crashed on its own.
fn sequences(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (image, tree) = image(&forms());
    let mut random = Random::new(everbyte_workload::seed(0x51, "--package everbyte-cases"));
    let rounds = everbyte_workload::long_or(8, 60);
    let mut ops = Vec::new();
    let mut model = tree.clone();
    while ops.len() < 3 * rounds as usize {
        let op = any(&mut random);
        if model.apply(&op).is_ok() {
            ops.push(op);
        }
        if ops.len() % 9 == 8 {
            model = tree.clone(); // other sequences from the same start are taken as far as they fit
        }
    }
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        ops.iter().for_each(|op| step(&volume, twin, op));
    };
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}

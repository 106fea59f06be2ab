//! Repair: damage is removed with a line that tells it, the check finds nothing then, a second
//! repair has nothing to do, and files that no line names are as they were.

use everbyte_fs::{
    Attributes, Error, FileKind, Ino, NewFile, QuotaKind, QuotaLimit, QuotaLimits, SetXattr, Volume, VolumeOptions,
    VolumeRepair, layout, model,
};
use everbyte_media::sealed::seal_low;
use everbyte_media::{Capabilities, Media, Recorder};
use everbyte_sim::Image;
use everbyte_store::{CLUSTER, FormatOptions, Object, RepairStep, Store};
use everbyte_workload::Random;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

const LANES: u64 = 2;
const LONG: &str = "a name of more than one line, which is longer than 48 bytes";

fn clock() -> i64 {
    1_000_000_000
}

/// A volume with every structure: long names, links, a chain of extents, clones, attributes, two
/// groups of inodes and snapshots.
fn image() -> Image {
    Image::zeroed(CLUSTER).with_max(16 << 20).then(|media| {
        let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some([7; 16]) }).unwrap();
        let options = VolumeOptions {
            lanes: LANES as u32,
            span: Some(8 << 20),
            uuid: Some([1; 16]),
            clock,
            ..Default::default()
        };
        let volume = Volume::create(&store, "volume", &options).unwrap();
        fill(&volume);
        drop(volume);
        store.close().unwrap();
    })
}

fn fill(volume: &Volume) {
    let file = NewFile::new(FileKind::Regular, 0o644);
    let directory = NewFile::new(FileKind::Directory, 0o755);
    let home = volume.make(Ino::ROOT, b"home", &directory).unwrap();
    let deep = volume.make(home, b"deep", &directory).unwrap();
    let small = volume.make(home, b"small", &file).unwrap();
    volume.append(small, &model::bytes(100, 1)).unwrap();
    let large = volume.make(home, b"large", &file).unwrap();
    for number in 0..20 {
        volume.write(large, number * 16_384, &model::bytes(5000, 2)).unwrap();
    }
    let long = volume.make(deep, b"long", &file).unwrap();
    volume.write(long, 0, &model::bytes(40_000, 4)).unwrap();
    volume.link(long, home, b"again").unwrap();
    let clone = volume.make(deep, b"clone", &file).unwrap();
    volume.clone_range(long, 0, clone, 0, 0).unwrap();
    let target = model::bytes(300, 3);
    let link = NewFile { target: &target, ..NewFile::new(FileKind::Link, 0o777) };
    volume.make(home, LONG.as_bytes(), &link).unwrap();
    volume.make(home, b"pipe", &NewFile::new(FileKind::Pipe, 0o600)).unwrap();
    volume.set_xattr(large, b"user.one", &[7; 5000], SetXattr::Any).unwrap();
    volume.snapshot(b"first").unwrap();
    let many = volume.make(Ino::ROOT, b"many", &directory).unwrap();
    for number in 0..300 {
        volume.make(many, format!("file-{number}").as_bytes(), &file).unwrap();
    }
    volume.unlink(many, b"file-3").unwrap();
    volume.write(volume.lookup(many, b"file-7").unwrap().unwrap(), 0, &model::bytes(4096, 9)).unwrap();
    volume.snapshot(b"second").unwrap();
    for id in [0, 7, 9] {
        let limit = QuotaLimit { hard: 64 << 20, ..QuotaLimit::default() };
        let limits = QuotaLimits { bytes: limit, inodes: QuotaLimit { hard: 1000, ..limit } };
        volume.set_quota(QuotaKind::User, id, &limits).unwrap();
    }
    volume.set_size(7 << 20).unwrap();
}

fn open(media: &Media) -> everbyte_fs::Result<Volume> {
    Volume::open(Store::attach(media.clone())?.object("volume")?)
}

fn plan(media: &Media) -> everbyte_fs::Result<VolumeRepair> {
    VolumeRepair::plan(Store::attach(media.clone())?.object("volume")?, clock(), &|_, _| ())
}

fn start(media: &Media) -> u64 {
    Store::attach(media.clone()).unwrap().object("volume").unwrap().prime().get()
}

/// The offsets of the groups of inodes.
fn groups(media: &Media) -> Vec<u64> {
    let start = start(media);
    let to = |at: u64| start + layout::Place::of(media.load(at)).unwrap().page * layout::PAGE;
    let page = to(to(start + layout::TABLE_AT));
    (0..3).map(|index| to(page + 8 * index)).collect()
}

/// One file as far as it can be read.
type Seen = (Attributes, Vec<u8>, Vec<Vec<u8>>);

/// All files of the volume and of its snapshots, by path.
fn read(volume: &Volume) -> BTreeMap<String, Seen> {
    let mut found = BTreeMap::new();
    let mut open = vec![("/".to_string(), Ino::ROOT)];
    open.extend(
        volume
            .snapshots()
            .unwrap()
            .into_iter()
            .map(|snapshot| (format!("@{}", String::from_utf8_lossy(&snapshot.name)), snapshot.root)),
    );
    while let Some((path, ino)) = open.pop() {
        let attributes = volume.attributes(ino).unwrap();
        let mut bytes = Vec::new();
        match attributes.kind {
            FileKind::Regular => {
                bytes = vec![0; attributes.size.min(1 << 20) as usize];
                volume.read(ino, 0, &mut bytes).unwrap();
            }
            FileKind::Link => bytes = volume.read_link(ino).unwrap(),
            _ => (),
        }
        let names = volume.xattrs(ino).unwrap();
        let xattrs = names.into_iter().map(|name| volume.xattr(ino, &name).unwrap()).collect();
        for entry in volume.entries(ino, 0, 10_000).unwrap_or_default() {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            open.push((format!("{}/{name}", path.trim_end_matches('/')), entry.ino));
        }
        found.insert(path, (Attributes { links: 0, ..attributes }, bytes, xattrs));
    }
    found
}

/// Repairs a volume, and returns the steps: nothing is found then, and nothing is left to do.
fn repair(media: &Media) -> Vec<RepairStep> {
    let planned = plan(media).unwrap();
    let token = planned.token();
    assert_eq!(plan_of(media, planned), token, "a plan changes nothing");
    let planned = plan(media).unwrap();
    let steps = if planned.is_empty() { Vec::new() } else { planned.run().unwrap() };
    let again = plan(media).unwrap();
    assert!(again.is_empty(), "{:?} after {steps:?}", again.steps());
    drop(again);
    let volume = open(media).unwrap_or_else(|error| panic!("{error} after {steps:?}"));
    assert_eq!(volume.check(), [], "after {steps:?}");
    assert_eq!(volume.recovery().damaged, [], "after {steps:?}");
    steps
}

fn plan_of(media: &Media, first: VolumeRepair) -> everbyte_store::Token {
    drop(first);
    plan(media).unwrap().token()
}

/// The paths that a step may have changed: those that it names, and all below them. `None`: any.
fn is_told(steps: &[RepairStep], path: &str) -> bool {
    steps.iter().any(|step| {
        let RepairStep::Mend { paths, .. } = step else { return true };
        paths.is_empty()
            || paths.iter().any(|told| path == told || told == "/" || path.starts_with(&format!("{told}/")))
    })
}

/// Files that no step names are as they were; but for those of `damaged` inodes, with all below
/// them: sizes and times have no check. Neither has data.
fn require_untouched(
    before: &BTreeMap<String, Seen>,
    after: &BTreeMap<String, Seen>,
    steps: &[RepairStep],
    damaged: &[Ino],
    has_data: bool,
) {
    let of_damaged = before.iter().filter(|(_, (attributes, ..))| damaged.contains(&attributes.ino));
    let above: Vec<String> = of_damaged.map(|(path, _)| path.clone()).collect();
    let is_below = |path: &str| above.iter().any(|of| of == "/" || path == of || path.starts_with(&format!("{of}/")));
    let part = |seen: &Seen| (seen.0, if has_data { Vec::new() } else { seen.1.clone() }, seen.2.clone());
    for (path, seen) in before.iter().filter(|(path, _)| !is_told(steps, path) && !is_below(path)) {
        // A line of zeros is a free one: the file has lost its name, and is kept by its number.
        let is_adopted = |of: &str| {
            before
                .get(of)
                .is_some_and(|seen| after.keys().any(|path| path.ends_with(&format!("lost+found/#{}", seen.0.ino))))
        };
        if path.match_indices('/').map(|(at, _)| &path[..at]).chain([&path[..]]).any(is_adopted) {
            continue;
        }
        let found = after.get(path).map(part);
        if found != Some(part(seen)) {
            let attributes = [after.get(path).map(|seen| seen.0), Some(seen.0)];
            panic!("{path}: {attributes:?} after {steps:?}");
        }
    }
}

#[test]
fn a_whole_volume_needs_no_repair() {
    let image = image();
    let media = image.media();
    assert!(plan(&media).unwrap().is_empty());
    let volume = open(&media).unwrap();
    assert!(matches!(plan_claimed(&volume), Err(Error::Store(_))), "the volume is open");
    assert_eq!(repair(&image.media()), []);
}

fn plan_claimed(volume: &Volume) -> everbyte_fs::Result<VolumeRepair> {
    VolumeRepair::plan(volume.object().clone(), clock(), &|_, _| ())
}

/// Flipped bits, zeros, numbers at random: the repair removes the damage and tells it.
#[test]
fn random_damage_is_repaired() {
    let image = image();
    let clean = image.media();
    let start = start(&clean);
    let before = read(&open(&image.media()).unwrap());
    let groups = groups(&clean);
    let used: Vec<u64> =
        (start + 512..clean.len()).step_by(8).filter(|&at| clean.holds(at, 8) && clean.load(at) != 0).collect();
    let end = start + (layout::LANES_PAGE + LANES + 2 + layout::GROUP_PAGES + 2) * layout::PAGE;
    let metadata: Vec<u64> = used.iter().copied().filter(|&at| at < end).collect();
    let mut random = Random::new(everbyte_workload::seed(13, "-p everbyte-fs --test repair random_damage"));
    let mut repaired = 0;
    for _ in 0..everbyte_workload::long_or(100, 5000) {
        let media = image.media();
        let (mut damaged, mut has_data) = (Vec::new(), false);
        for _ in 0..random.pick(&[1, 1, 3, 20]) {
            let from = if random.chance(70) { &metadata } else { &used };
            let at = from[random.index(from.len())];
            let word = match random.below(10) {
                0..7 => media.load(at) ^ 1 << random.below(64),
                7 => 0,
                _ => random.next(),
            };
            media.store(at, word);
            let group = groups.iter().position(|&group| (group..group + 16 * layout::PAGE).contains(&at));
            damaged.extend(group.map(|index| Ino(index as u64 * 256 + (at - groups[index]) / layout::INODE)));
            has_data |= at >= end && group.is_none();
        }
        match plan(&media) {
            Ok(planned) => drop(planned),
            Err(error) => {
                assert!(matches!(error, Error::Damaged(_) | Error::NewerFormat { .. }), "{error}");
                continue;
            }
        }
        let steps = repair(&media);
        repaired += u64::from(!steps.is_empty());
        let after = read(&open(&media).unwrap());
        require_untouched(&before, &after, &steps, &damaged, has_data);
    }
    assert!(repaired > 40, "{repaired}");
}

/// The offset of an inode.
fn inode_at(media: &Media, ino: Ino) -> u64 {
    groups(media)[(ino.0 / 256) as usize] + ino.0 % 256 * layout::INODE
}

fn ino_of(volume: &Volume, path: &str) -> Ino {
    let names = path.split('/').filter(|name| !name.is_empty());
    names.fold(Ino::ROOT, |at, name| volume.lookup(at, name.as_bytes()).unwrap().unwrap())
}

/// The offset of the page that the word at `at` leads to.
fn led_to(media: &Media, at: u64) -> u64 {
    start(media) + layout::Place::of(media.load(at)).unwrap().page * layout::PAGE
}

/// The structures on media, each with the offsets of its words that mean something.
fn structures(media: &Media) -> Vec<(&'static str, Vec<u64>)> {
    use layout::inode;
    let volume = open(media).unwrap();
    let ino = |path: &str| inode_at(media, ino_of(&volume, path));
    let (home, large, long) = (ino("home"), ino("home/large"), ino("home/again"));
    let link = ino(&format!("home/{LONG}"));
    let start = start(media);
    let snapshots = inode_at(media, Ino(layout_number(media.load(start + layout::SNAPSHOTS_AT))));
    drop(volume);
    let table = led_to(media, start + layout::TABLE_AT);
    let words = |at: u64, count: u64| (0..count).map(|index| at + 8 * index).collect::<Vec<u64>>();
    let lines = led_to(media, home + inode::INLINE + 8);
    let list = led_to(media, large + inode::LIST);
    let run = led_to(media, large + inode::ATTRIBUTES);
    let listed = led_to(media, snapshots + inode::INLINE + 8);
    vec![
        ("head", words(start + layout::HEAD_AT, 15)),
        ("copy of the head", words(start + layout::HEAD_COPY_AT, 15)),
        ("word of the inode table", vec![start + layout::TABLE_AT]),
        ("first page of the inode table", words(table, 1)),
        ("page of the inode table", words(led_to(media, table), 3)),
        ("word of the saved state", vec![start + layout::SAVED_AT]),
        ("word of the snapshots", vec![start + layout::SNAPSHOTS_AT]),
        ("word of the quotas", vec![start + layout::QUOTAS_AT]),
        ("list of quotas", words(led_to(media, start + layout::QUOTAS_AT), 32)),
        ("size", vec![start + layout::SIZE_AT]),
        ("lane", words(start + layout::LANES_PAGE * layout::PAGE, 16)),
        ("state, links and size of a file", words(large, 3)),
        ("state, links and size of a directory", words(home, 3)),
        ("state, links and size of a link", words(link, 3)),
        ("state, links and size of the root", words(inode_at(media, Ino::ROOT), 3)),
        ("chain and attributes of a file", words(large + inode::LIST, 2)),
        ("owner of a file", words(large + inode::OWNER, 8)),
        ("owner of a directory", words(home + inode::OWNER, 8)),
        ("owner of the directory of snapshots", words(snapshots + inode::OWNER, 8)),
        ("slots of an inode", words(large + inode::INLINE, 16)),
        ("slot of a directory", words(home + inode::INLINE, 2)),
        ("slot of shared pages", words(long + inode::INLINE, 2)),
        ("page of a chain", words(list, 40)),
        ("extended attributes", words(run, 6)),
        ("lines of a directory", words(lines, 64)),
        ("lines of the directory of snapshots", words(listed, 16)),
        (
            "state and slots of the directory of snapshots",
            [words(snapshots, 3), words(snapshots + inode::INLINE, 2)].concat(),
        ),
    ]
}

fn layout_number(word: u64) -> u64 {
    everbyte_media::sealed::unseal_low(word).unwrap()
}

/// Every structure, a bit, zeros or another number in each of its words: an error or a finding, or
/// nothing that means something, and never a panic; after the repair nothing is found.
#[test]
fn every_structure_is_repaired() {
    let image = image();
    let mut random = Random::new(everbyte_workload::seed(17, "-p everbyte-fs --test repair every_structure"));
    for (name, words) in structures(&image.media()) {
        let mut told = 0;
        for &at in &words {
            for damage in 0..3 {
                if everbyte_workload::long_or(0, 1) == 0 && words.len() > 8 && random.chance(60) {
                    continue;
                }
                let media = image.media();
                let old = media.load(at);
                media.store(at, [old ^ 1 << random.below(64), 0, random.next()][damage]);
                match plan(&media) {
                    Ok(planned) => drop(planned),
                    Err(error) => {
                        assert!(
                            matches!(error, Error::NewerFormat { .. } | Error::OldFormat { .. }),
                            "{name}: {error}"
                        );
                        continue;
                    }
                }
                let steps = repair(&media);
                told += usize::from(!steps.is_empty());
                read(&open(&media).unwrap());
            }
        }
        let is_checked = !name.starts_with("word of the saved");
        assert_eq!(told > 0, is_checked, "{name}: {told} of {} words", words.len());
    }
}

fn details(steps: &[RepairStep]) -> String {
    let detail = |step: &RepairStep| match step {
        RepairStep::Mend { detail, paths, .. } => format!("{detail} {paths:?}\n"),
        _ => String::new(),
    };
    steps.iter().map(detail).collect()
}

/// The steps of repairing one kind of damage, and what is there then.
fn after(damage: impl FnOnce(&Media, &dyn Fn(&str) -> u64)) -> (String, BTreeMap<String, Seen>) {
    let image = image();
    let media = image.media();
    let clean = image.media();
    let volume = open(&clean).unwrap();
    damage(&media, &|path| inode_at(&clean, ino_of(&volume, path)));
    let steps = details(&repair(&media));
    (steps, read(&open(&media).unwrap()))
}

/// One wrong bit in a word that leads to 256 inodes loses none of them.
#[test]
fn a_flipped_bit_of_the_inode_table_loses_no_file() {
    let before = read(&open(&image().media()).unwrap());
    for (level, bit) in [(0, 3), (1, 50), (2, 0), (3, 20), (3, 60)] {
        let (steps, found) = after(|media, _| {
            let start = start(media);
            let table = led_to(media, start + layout::TABLE_AT);
            let page = led_to(media, table);
            let at = [start + layout::TABLE_AT, table, page, page + 8][level];
            media.store(at, media.load(at) ^ 1 << bit);
        });
        assert!(steps.contains("corrected"), "{steps}");
        assert_eq!(found, before);
    }
}

/// A word of the table that cannot be corrected loses its inodes, and later ones keep their
/// numbers.
#[test]
fn a_lost_group_is_told_and_others_stay() {
    let (steps, found) = after(|media, _| {
        let page = led_to(media, led_to(media, start(media) + layout::TABLE_AT));
        media.store(page + 8, 0);
    });
    assert!(steps.contains("inodes 256 to 511 are lost"), "{steps}");
    assert!(steps.contains("leads to no file: it is removed"), "{steps}");
    assert!(found.contains_key("/home/again") && found.contains_key("/many/file-10"));
    assert!(!found.contains_key("/many/file-290"));
}

/// A file whose entry is lost moves to `lost+found`, with its bytes, under its number.
#[test]
fn a_file_without_a_name_moves_to_lost_and_found() {
    let (steps, found) = after(|media, inode| {
        let lines = led_to(media, inode("home") + layout::inode::INLINE + 8);
        let of_small = (0..64).map(|line| lines + line * 64).find(|at| media.read_vec(at + 16, 5) == b"small").unwrap();
        media.store(of_small, 0);
        media.store(of_small + 64, media.load(of_small + 64) ^ 3); // `large`
    });
    let small = &found["/lost+found/#4"];
    assert_eq!(small.1, model::bytes(100, 1));
    assert_eq!(small.0.permissions, 0o644);
    assert!(found.contains_key("/lost+found/#5"), "{steps}");
    assert!(steps.contains(r#"`#4` in directory 629 now ["/lost+found/#4"]"#), "{steps}");
    assert_eq!(found["/lost+found"].0.permissions, 0o700);
}

/// Directories that hold each other, and that no root leads to, are found and kept.
#[test]
fn a_circle_of_directories_is_cut() {
    let (steps, found) = after(|media, inode| {
        // The root's entry of `home` leads to `many`, and `deep` has an entry that leads to `home`.
        let deep = led_to(media, inode("home/deep") + layout::inode::INLINE + 8);
        let root = led_to(media, inode_at(media, Ino::ROOT) + layout::inode::INLINE + 8);
        let line = |page: u64, name: &[u8]| {
            (0..64).map(|line| page + line * 64).find(|at| media.read_vec(at + 16, name.len()) == name).unwrap()
        };
        let home = line(root, b"home");
        let bytes = media.read_vec(home, 64);
        media.store(home, 0);
        media.write(line(deep, b"clone"), &bytes);
    });
    assert!(found.contains_key("/lost+found/#2/small"), "{steps}");
    assert!(found.contains_key("/lost+found/#2/deep/long"), "{steps}");
}

/// Of two files with one page, and no flag, that with the lower number keeps it.
#[test]
fn a_page_with_two_owners_stays_with_the_first() {
    let (steps, found) = after(|media, inode| {
        let slot = |path: &str| inode(path) + layout::inode::INLINE;
        let of_large = media.load(slot("home/large") + 8);
        media.store(slot("many/file-7") + 8, layout::Place::page(layout::Place::raw_page(of_large)).word());
    });
    assert!(steps.contains("belong to another owner, too"), "{steps}");
    assert_eq!(found["/many/file-7"].1, [0; 4096]);
    assert_eq!(found["/home/large"].1[..5000], model::bytes(5000, 2)[..]);
}

/// Links that are counted wrong become the number of names; a file with names and without links is
/// not freed.
#[test]
fn links_are_counted_again() {
    let before = read(&open(&image().media()).unwrap());
    for links in [0, 1, 77] {
        let (steps, found) = after(|media, inode| {
            media.store(inode("home/again") + layout::inode::LINKS, seal_low(links));
        });
        assert!(
            steps.contains(&format!("counts {links} links and has 2 [\"/home/again\", \"/home/deep/long\"]")),
            "{steps}"
        );
        assert_eq!(found, before);
    }
}

/// The owner of an inode that fails its checksum is root, and no other user may read it.
#[test]
fn a_damaged_owner_becomes_root() {
    let (steps, found) = after(|media, inode| {
        let at = inode("home/large") + layout::inode::OWNER;
        media.store(at, media.load(at) ^ 1 << 40);
    });
    assert!(steps.contains("belongs to root, with rights 0600"), "{steps}");
    let large = &found["/home/large"];
    assert_eq!((large.0.uid, large.0.permissions), (0, 0o600));
    assert_eq!(large.1[..5000], model::bytes(5000, 2)[..]);
}

/// A volume without a whole head is opened again, with all of its files.
#[test]
fn both_heads_are_made_anew() {
    let before = read(&open(&image().media()).unwrap());
    let (steps, found) = after(|media, _| {
        let start = start(media);
        [layout::HEAD_AT, layout::HEAD_COPY_AT].into_iter().for_each(|at| media.store(start + at + 24, 5));
    });
    assert!(steps.contains("new identity"), "{steps}");
    assert_eq!(found, before);
}

/// A volume that cannot grow repairs what needs no page, and refuses the rest without a change.
#[test]
fn a_repair_without_room_changes_nothing() {
    let image = image();
    let media = image.media();
    let volume = open(&media).unwrap();
    volume.remove_quotas().unwrap();
    volume.set_size(0).unwrap(); // a repair may pass it
    let fill = volume.make(Ino::ROOT, b"fill", &NewFile::new(FileKind::Regular, 0o600)).unwrap();
    while volume.append(fill, &[9; 4096]).is_ok() {}
    drop(volume);
    let page = led_to(&media, led_to(&media, start(&media) + layout::TABLE_AT));
    media.store(page + 8, 0);
    let planned = plan(&media).unwrap();
    assert!(!planned.is_empty());
    let before = media.read_vec(start(&media) + 2 * layout::PAGE, 4096 * 60);
    let refused = planned.run();
    assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
    assert_eq!(media.read_vec(start(&media) + 2 * layout::PAGE, 4096 * 60), before);
}

/// Every structure is decoded, and a damaged one is named.
#[test]
fn structures_are_dumped() {
    use everbyte_fs::{Dump, dump};
    let image = image();
    let media = image.media();
    let object = |media: &Media| Store::attach(media.clone()).unwrap().object("volume").unwrap();
    let volume = open(&image.media()).unwrap();
    let all: Vec<Dump> = ["", "home", "home/large", "home/again", "many", LONG]
        .map(|path| {
            Dump::Inode(if path == LONG { ino_of(&volume, &format!("home/{LONG}")) } else { ino_of(&volume, path) })
        })
        .into_iter()
        .chain([Dump::Volume, Dump::Page(0), Dump::Page(1 << 40), Dump::Inode(Ino(1 << 50))])
        .collect();
    let texts = |media: &Media, of: Dump| -> Vec<(String, bool)> {
        let lines = dump(&object(media), of);
        lines.into_iter().map(|line| (format!("{}: {}", line.field, line.value), line.is_whole)).collect()
    };
    let has = |of: Dump, text: &str| assert!(texts(&media, of).iter().any(|(line, _)| line.contains(text)), "{text}");
    has(Dump::Volume, "head: lanes: 2");
    has(Dump::Volume, "inodes 256 to 511: page ");
    has(Dump::Volume, "directory of snapshots: ");
    has(Dump::Volume, "limits of user 7: bytes soft 0 hard 67108864, inodes soft 0 hard 1000");
    has(Dump::Volume, "size in pages: 1792");
    has(all[1], "`small`");
    has(all[2], "slot 8: pages ");
    has(all[3], ", flags 8");
    for &of in &all[..7] {
        assert!(texts(&media, of).iter().all(|(_, is_whole)| *is_whole), "{of:?}");
    }
    let (large, mut random) = (ino_of(&volume, "home/large"), Random::new(3));
    media.store(inode_at(&media, large) + layout::inode::INLINE, 5);
    assert!(texts(&media, Dump::Inode(large)).iter().any(|(line, is_whole)| line.contains("run 0x5") && !is_whole));
    for _ in 0..everbyte_workload::long_or(100, 2000) {
        let media = image.media();
        let start = start(&media);
        for _ in 0..50 {
            media.store(start + 1024 + random.below(60_000) * 8, random.next());
        }
        let object = Store::attach(media.clone()).unwrap().object("volume").unwrap();
        all.iter().for_each(|&of| drop(dump(&object, of)));
    }
}

/// A damaged record takes the limits of its owner along, and no others.
#[test]
fn the_limits_of_other_owners_stay() {
    let image = image();
    let media = image.media();
    let second = led_to(&media, start(&media) + layout::QUOTAS_AT) + 128;
    media.store(second + 8, media.load(second + 8) ^ 1 << 40);
    let told = details(&repair(&media));
    assert!(told.contains("a record of the list of quotas is damaged"), "{told}");
    let quotas = open(&media).unwrap().quotas().unwrap();
    assert_eq!(quotas.iter().map(|quota| quota.id).collect::<Vec<_>>(), [0, 9]);
    let flipped = image.media();
    let at = start(&flipped) + layout::SIZE_AT;
    flipped.store(at, flipped.load(at) ^ 1 << 9);
    let told = details(&repair(&flipped));
    assert!(told.contains("the size of the volume is corrected: 1792 pages"), "{told}");
    assert_eq!(open(&flipped).unwrap().size(), Some(7 << 20));
}

/// Flushed ranges of memory that processes may share.
struct Flushes(Arc<Mutex<Vec<Range<u64>>>>);

impl Recorder for Flushes {
    fn store(&mut self, _: u64, _: &[u8]) {}
    fn flush(&mut self, at: u64, len: u64) {
        self.0.lock().unwrap().push(at..at + len);
    }
    fn fence(&mut self) {}
    fn barrier(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn allocate(&mut self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { shared: true, fence_settles: true, huge_pages: false }
    }
}

/// Another member of the store may have died while it changed an inode, and left it unflushed: the
/// next opening, or repair, flushes it again (FS-13), though the store was closed before.
#[test]
fn inodes_that_a_member_may_have_left_are_flushed_again() {
    let image = image();
    let bytes = image.media().read_vec(0, image.len() as usize);
    let media = image.media();
    let untouched = groups(&media)[2];
    let links = groups(&media)[0] + 2 * layout::INODE + layout::inode::LINKS;
    let flushes_of = |is_shared: bool, body: fn(Object)| {
        let flushes = Arc::new(Mutex::new(Vec::new()));
        let recorder = Box::new(Flushes(Arc::clone(&flushes)));
        let recorded = Media::recorded(16 << 20, &bytes, recorder).unwrap();
        recorded.store(links, seal_low(layout::number(recorded.load(links)) + 1));
        let attach = || match is_shared {
            true => Store::attach_shared(recorded.clone()).unwrap(),
            false => Store::attach(recorded.clone()).unwrap(),
        };
        let first = attach();
        let store = if is_shared { attach() } else { first.clone() };
        let object = store.object("volume").unwrap();
        flushes.lock().unwrap().clear();
        body(object);
        let flushed = flushes.lock().unwrap();
        flushed.iter().any(|range| range.contains(&untouched))
    };
    let opening = |object| drop(Volume::open(object).unwrap());
    let repairing = |object| {
        let steps = VolumeRepair::plan(object, clock(), &|_, _| ()).unwrap().run().unwrap();
        assert!(!steps.is_empty());
    };
    assert!(!flushes_of(false, opening) && !flushes_of(false, repairing), "no process has died");
    assert!(flushes_of(true, opening), "opening");
    assert!(flushes_of(true, repairing), "repair");
}

//! Damage: an error with its place, other files go on, and never a panic.

use everbyte_fs::{Error, FileKind, Ino, MapOptions, NewFile, Volume, VolumeOptions, layout, model};
use everbyte_media::Media;
use everbyte_sim::Image;
use everbyte_store::{CLUSTER, FormatOptions, Store};
use everbyte_workload::Random;

fn image() -> Image {
    image_that(false)
}

/// A store with a volume, which was closed, or only the store was.
fn image_that(is_closed: bool) -> Image {
    Image::zeroed(CLUSTER).with_max(8 << 20).then(|media| {
        let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some([7; 16]) }).unwrap();
        let options = VolumeOptions { lanes: 2, span: Some(4 << 20), uuid: Some([1; 16]), ..Default::default() };
        let volume = Volume::create(&store, "volume", &options).unwrap();
        let file = NewFile::new(FileKind::Regular, 0o644);
        let directory = volume.make(Ino::ROOT, b"directory", &NewFile::new(FileKind::Directory, 0o755)).unwrap();
        let small = volume.make(directory, b"small", &file).unwrap();
        volume.append(small, &model::bytes(100, 1)).unwrap();
        let large = volume.make(directory, b"large", &file).unwrap();
        for number in 0..12 {
            volume.write(large, number * 8192, &model::bytes(5000, 2)).unwrap();
        }
        let target = model::bytes(300, 3);
        let link = NewFile { target: &target, ..NewFile::new(FileKind::Link, 0o777) };
        volume
            .make(directory, "a name of more than one line, which is longer than 48 bytes".as_bytes(), &link)
            .unwrap();
        if is_closed {
            volume.close().unwrap();
        }
        store.close().unwrap();
    })
}

fn open(media: &Media) -> everbyte_fs::Result<Volume> {
    Volume::open(Store::attach(media.clone())?.object("volume")?)
}

fn start(image: &Image) -> u64 {
    Store::attach(image.media()).unwrap().object("volume").unwrap().prime().get()
}

#[test]
fn either_head_is_written_again_from_the_other() {
    let image = image();
    let start = start(&image);
    let heads = [start + layout::HEAD_AT, start + layout::HEAD_COPY_AT];
    for at in heads {
        let media = image.media();
        media.store(at + 32, media.load(at + 32) ^ 1);
        let volume = open(&media).unwrap();
        assert!(volume.recovery().head_repaired);
        assert_eq!(volume.check(), []);
        drop(volume);
        assert_eq!(media.read_vec(heads[0], 256), media.read_vec(heads[1], 256));
        assert!(!open(&media).unwrap().recovery().head_repaired);
    }
    let media = image.media();
    heads.iter().for_each(|at| media.store(at + 32, 0xff));
    assert!(matches!(open(&media), Err(Error::Damaged(_))), "both are damaged");
}

#[test]
fn a_newer_or_older_volume_is_refused() {
    use everbyte_media::Checked;
    let image = image();
    let (media, start) = (image.media(), start(&image));
    let head: layout::Head = media.get(start + layout::HEAD_AT);
    let newer = layout::Head { format: layout::FORMAT + 1, ..head }.sealed();
    for at in [layout::HEAD_AT, layout::HEAD_COPY_AT] {
        media.put(start + at, &newer);
    }
    let text = open(&media).unwrap_err().to_string();
    assert!(text.contains("newer"), "{text}");
    let older = layout::Head { format: 1, ..head }.sealed();
    for at in [layout::HEAD_AT, layout::HEAD_COPY_AT] {
        media.put(start + at, &older);
    }
    assert!(matches!(open(&media), Err(Error::OldFormat { .. })));
}

#[test]
fn a_page_size_that_no_volume_has_is_damage_with_its_place() {
    use everbyte_media::{Checked, ErrorInfo};
    let image = image();
    let (media, start) = (image.media(), start(&image));
    let head: layout::Head = media.get(start + layout::HEAD_AT);
    let other = layout::Head { page_size: 22, ..head }.sealed();
    for at in [layout::HEAD_AT, layout::HEAD_COPY_AT] {
        media.put(start + at, &other);
    }
    let damage = open(&media).unwrap_err().damage().unwrap();
    assert_eq!(damage.offset, Some(start + layout::HEAD_AT + 108));
}

/// Flags of a page size that contradict each other, and one of a directory.
#[test]
fn page_sizes_that_a_file_cannot_have_are_damage() {
    let image = image();
    for (ino, flags, is_whole) in [(4, 4, true), (4, 8, true), (4, 12, false), (2, 4, false), (5, 8, false)] {
        let (media, start) = (image.media(), start(&image));
        let at = start + (2 + 2 + 2) * layout::PAGE + ino * layout::INODE;
        let state = layout::State::of(media.load(at));
        media.store(at, layout::State { flags: state.flags | flags, ..state }.word());
        let volume = open(&media).unwrap();
        assert_eq!(volume.attributes(Ino(ino)).is_ok(), is_whole, "inode {ino}, flags {flags}");
        assert_eq!(volume.recovery().damaged.is_empty(), is_whole);
    }
}

/// Reads all that a volume holds, as far as it can be, and changes some of it.
fn use_all(volume: &Volume) {
    drop(volume.check());
    let mut directories = vec![Ino::ROOT];
    let mut seen = 0;
    while let Some(directory) = directories.pop() {
        seen += 1;
        for entry in volume.entries(directory, 0, 1000).unwrap_or_default() {
            drop(volume.attributes(entry.ino));
            let mut bytes = vec![0; 200_000];
            drop(volume.read(entry.ino, 0, &mut bytes));
            drop(volume.read_link(entry.ino));
            drop(volume.pages(entry.ino));
            let options = MapOptions { writable: true, populate: true, ..MapOptions::default() };
            if entry.name == b"large"
                && let Ok(map) = volume.map(entry.ino, 0, 200_000, &options)
            {
                let mut bytes = vec![0; map.len() as usize];
                drop(map.read(0, &mut bytes));
                drop(map.store(0, 1));
                drop(volume.write(entry.ino, 100, &[2; 5000]));
                drop(map.sync(0, map.len()));
            }
            drop(volume.write(entry.ino, 4090, &[1; 20]));
            drop(volume.append(entry.ino, &[1; 5000]));
            drop(volume.resize(entry.ino, 100));
            drop(volume.parent(entry.ino));
            if entry.kind == FileKind::Directory && seen < 20 {
                directories.push(entry.ino);
            }
        }
        drop(volume.make(directory, b"new", &NewFile::new(FileKind::Regular, 0o600)));
        drop(volume.unlink(directory, b"large"));
    }
}

#[test]
fn flipped_bits_are_errors_and_never_a_panic() {
    let (refused, damaged, _) = flip_bits(false);
    assert!(refused > 10 && damaged > 200, "{refused} refused, {damaged} damaged");
}

/// Files of a volume that is not scanned are damaged, too.
#[test]
fn flipped_bits_of_a_closed_volume_are_errors_and_never_a_panic() {
    let (refused, damaged, saved) = flip_bits(true);
    assert!(refused > 10 && damaged > 150 && saved > 300, "{refused} refused, {damaged} damaged, {saved} not scanned");
}

/// The numbers of volumes that were refused, were damaged, and were not scanned.
fn flip_bits(is_closed: bool) -> (u64, u64, u64) {
    let image = image_that(is_closed);
    let start = start(&image);
    let clean = image.media();
    let used: Vec<u64> =
        (start + 512..clean.len()).step_by(8).filter(|&at| clean.holds(at, 8) && clean.load(at) != 0).collect();
    let end = start + (layout::LANES_PAGE + 2 + 2 + layout::GROUP_PAGES + 2) * layout::PAGE;
    let metadata: Vec<u64> = used.iter().copied().filter(|&at| at < end).collect();
    let mut random = Random::new(everbyte_workload::seed(11, "-p everbyte-fs flipped"));
    let (mut refused, mut damaged, mut saved) = (0, 0, 0);
    for _ in 0..everbyte_workload::long_or(600, 20_000) {
        let media = image.media();
        for _ in 0..random.pick(&[1, 1, 3]) {
            let from = if random.chance(85) { &metadata } else { &used };
            let at = from[random.index(from.len())];
            let word = if random.chance(70) { media.load(at) ^ 1 << random.below(64) } else { random.next() };
            media.store(at, word);
        }
        match open(&media) {
            Ok(volume) => {
                saved += u64::from(volume.recovery().saved);
                damaged += u64::from(!volume.recovery().damaged.is_empty() || !volume.check().is_empty());
                use_all(&volume);
                volume.close().unwrap();
                drop(open(&media)); // the state of a damaged volume
            }
            Err(error) => {
                assert!(matches!(error, Error::Damaged(_) | Error::Log(_) | Error::NewerFormat { .. }), "{error}");
                refused += 1;
            }
        }
    }
    (refused, damaged, saved)
}

/// One bit makes a file look like a part of a snapshot that was never finished, which an opening
/// frees: the file is damaged instead, and whole once the bit is back.
#[test]
fn the_flag_of_snapshots_frees_no_file_of_the_volume() {
    let image = image();
    let (media, start) = (image.media(), start(&image));
    let volume = open(&media).unwrap();
    let before = model::read(&volume).unwrap();
    drop(volume);
    let group = start + (layout::LANES_PAGE + 2 + 2) * layout::PAGE;
    let mut found = 0;
    for number in 1..64 {
        let at = group + number * layout::INODE + layout::inode::STATE;
        let state = layout::State::of(media.load(at));
        if state.mode == 0 {
            continue;
        }
        found += 1;
        media.store(at, layout::State { flags: state.flags | layout::STATE_SNAPSHOT, ..state }.word());
        match open(&media) {
            Ok(volume) => assert_eq!(volume.recovery().damaged, [Ino(number)]),
            Err(error) => assert!(matches!(error, Error::Damaged(_)), "{number}: {error}"),
        }
        media.store(at, state.word());
        let volume = open(&media).unwrap();
        assert_eq!((model::read(&volume).unwrap(), volume.check()), (before.clone(), vec![]), "{number}");
    }
    assert_eq!(found, 5);
}

/// A bit of the state, the links or the size of an inode neither frees the file nor cuts its pages
/// (FS-46), whether the volume is scanned or was closed: the opening or the reading fails with the
/// place, and all is there once the bit is back.
#[test]
fn a_flipped_bit_of_an_inode_loses_no_data() {
    use everbyte_media::ErrorInfo;
    for is_closed in [false, true] {
        let image = image_that(is_closed).then(|media| {
            let store = Store::attach(media).unwrap();
            let volume = Volume::open(store.object("volume").unwrap()).unwrap();
            let directory = volume.lookup(Ino::ROOT, b"directory").unwrap().unwrap();
            let small = volume.lookup(directory, b"small").unwrap().unwrap();
            volume.link(small, Ino::ROOT, b"again").unwrap();
            volume.snapshot(b"one").unwrap();
            match is_closed {
                true => volume.close().unwrap(),
                false => drop(volume),
            }
            store.close().unwrap();
        });
        let (media, start) = (image.media(), start(&image));
        let read = |volume: &Volume| model::read(volume);
        let before = read(&open(&image.media()).unwrap()).unwrap();
        let group = start + (layout::LANES_PAGE + 2 + 2) * layout::PAGE;
        let inodes = (1..64).map(|number| (Ino(number), group + number * layout::INODE));
        let live = inodes.filter(|(_, at)| layout::State::of(media.load(at + layout::inode::STATE)).mode != 0);
        let live: Vec<(Ino, u64)> = live.collect();
        assert_eq!(live.len(), 5 + 5 + 1, "the tree, its snapshot, the directory of snapshots");
        for (ino, at) in live {
            for offset in [layout::inode::STATE, layout::inode::LINKS, layout::inode::SIZE] {
                let (at, mut media) = (at + offset, image.media());
                // In the usual run every eighth bit, another one of each inode.
                let every = everbyte_workload::long_or(8, 1);
                for bit in (0..64_u64).filter(|bit| (bit + ino.0).is_multiple_of(every)) {
                    if is_closed {
                        media = image.media(); // an opening uses the saved state up
                    }
                    let flip = || media.store(at, media.load(at) ^ 1 << bit);
                    flip();
                    let what = format!("bit {bit} of word {offset} of inode {ino}");
                    let error = open(&media).and_then(|volume| {
                        let recovery = volume.recovery();
                        assert!(recovery.saved == is_closed && recovery.orphans.is_empty(), "{what}");
                        assert_eq!((recovery.trimmed, recovery.snapshot_files), (0, 0), "{what}");
                        assert_eq!(recovery.damaged, if is_closed { vec![] } else { vec![ino] }, "{what}");
                        assert!(bit % 2 > 0 || !volume.check().is_empty(), "{what}");
                        read(&volume)
                    });
                    let error = error.expect_err(&what);
                    assert!(error.damage().is_some_and(|damage| damage.offset.is_some()), "{what}: {error}");
                    flip();
                }
                let volume = open(&media).unwrap();
                assert_eq!((read(&volume).unwrap(), volume.check()), (before.clone(), vec![]), "{ino}, {offset}");
            }
        }
    }
}

/// Damage of one file leaves the others usable, and its pages are not given to them.
#[test]
fn a_damaged_file_leaves_the_others_usable() {
    let image = image();
    let (media, start) = (image.media(), start(&image));
    let volume = open(&media).unwrap();
    let directory = volume.lookup(Ino::ROOT, b"directory").unwrap().unwrap();
    let large = volume.lookup(directory, b"large").unwrap().unwrap();
    drop(volume);
    let group = start + (layout::LANES_PAGE + 2 + 2) * layout::PAGE;
    let slot = group + large.0 * layout::INODE + layout::inode::INLINE;
    media.store(slot, media.load(slot) ^ 1 << 40);
    let volume = open(&media).unwrap();
    assert_eq!(volume.recovery().damaged, [large]);
    assert!(matches!(volume.read(large, 0, &mut [0; 10]), Err(Error::Damaged(_))));
    assert!(!volume.check().is_empty());
    let before = volume.usage();
    let error = volume.snapshot(b"taken").unwrap_err();
    let is_told = matches!(&error, Error::Damaged(_)) && error.to_string().contains(&format!("inode {large} "));
    assert!(is_told, "{error}");
    assert!(volume.usage() == before && volume.snapshots().unwrap().is_empty());
    let fill = volume.make(Ino::ROOT, b"fill", &NewFile::new(FileKind::Regular, 0o600)).unwrap();
    while volume.append(fill, &[9; 4096]).is_ok() {}
    drop(volume);
    media.store(slot, media.load(slot) ^ 1 << 40);
    let volume = open(&media).unwrap();
    let mut bytes = [0; 5000];
    volume.read(large, 8192, &mut bytes).unwrap();
    assert!(bytes[..] == model::bytes(5000, 2), "a repaired file has its bytes");
    let small = volume.lookup(directory, b"small").unwrap().unwrap();
    let mut bytes = [0; 100];
    volume.read(small, 0, &mut bytes).unwrap();
    assert_eq!(bytes[..], model::bytes(100, 1));
}

/// A snapshot has no copy of an inode whose owner is damaged, and takes nothing then.
#[test]
fn a_snapshot_over_a_damaged_owner_is_refused() {
    let image = image();
    let (media, start) = (image.media(), start(&image));
    let volume = open(&media).unwrap();
    volume.snapshot(b"first").unwrap();
    volume.remove_snapshot(b"first").unwrap(); // the directory of snapshots stays
    let directory = volume.lookup(Ino::ROOT, b"directory").unwrap().unwrap();
    let small = volume.lookup(directory, b"small").unwrap().unwrap();
    let group = start + (layout::LANES_PAGE + 2 + 2) * layout::PAGE;
    let at = group + small.0 * layout::INODE + layout::inode::OWNER + 8;
    media.store(at, media.load(at) + 1);
    let before = volume.usage();
    let error = volume.snapshot(b"second").unwrap_err();
    assert!(error.to_string().contains(&format!("the owner of inode {small} fails its checksum")), "{error}");
    assert!(volume.usage() == before && volume.snapshots().unwrap().is_empty());
    media.store(at, media.load(at) - 1);
    volume.snapshot(b"second").unwrap();
    assert_eq!(volume.check(), []);
}

/// Every kind of contradiction between whole words is a finding of the check.
#[test]
fn the_check_finds_each_contradiction() {
    let image = image();
    let start = start(&image);
    let group = start + (layout::LANES_PAGE + 2 + 2) * layout::PAGE;
    let at = |ino: Ino, offset: u64| group + ino.0 * layout::INODE + offset;
    let volume = open(&image.media()).unwrap();
    let directory = volume.lookup(Ino::ROOT, b"directory").unwrap().unwrap();
    let long = "a name of more than one line, which is longer than 48 bytes";
    let [small, large, link] =
        ["small", "large", long].map(|name| volume.lookup(directory, name.as_bytes()).unwrap().unwrap());
    let finds = |what: &str, change: &dyn Fn(&Media)| {
        let media = image.media();
        change(&media);
        let volume = open(&media).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found: Vec<String> = volume.check().iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|finding| finding.contains(what)), "{what}: {found:?}");
    };
    let add = |media: &Media, at: u64, more: u64| media.store(at, media.load(at).wrapping_add(more));
    let count = |media: &Media, ino, links| {
        media.store(at(ino, layout::inode::LINKS), everbyte_media::sealed::seal_low(links));
    };
    finds("counts 2 links and has 1", &|media| count(media, small, 2));
    finds("counts 3 links and has 2", &|media| count(media, directory, 3));
    finds("fails its checksum", &|media| add(media, at(small, layout::inode::OWNER + 8), 1));
    finds("as the one that holds it", &|media| {
        let mut inode: layout::Inode = media.get(at(directory, 0));
        inode.parent = directory.0;
        inode.checksum = inode.owner_sum();
        media.put(at(directory, 0), &inode);
    });
    finds("leads to no file", &|media| media.store(at(small, 0), 0));
    finds("has another type", &|media| {
        let state = layout::State::of(media.load(at(small, 0)));
        let other = layout::State { mode: state.mode ^ (0o010_000 ^ 0o100_000), flags: 0, ..state };
        media.store(at(small, 0), other.word());
    });
    finds("share", &|media| {
        let place = media.load(at(large, layout::inode::INLINE + 8));
        media.store(at(link, layout::inode::INLINE + 8), place);
    });
}

/// Directories that hold each other, with whole checksums, are found and end a walk upwards.
#[test]
fn a_circle_of_directories_is_damage() {
    let image = image();
    let (media, start) = (image.media(), start(&image));
    let volume = open(&media).unwrap();
    let new = NewFile::new(FileKind::Directory, 0o755);
    let mut at = volume.lookup(Ino::ROOT, b"directory").unwrap().unwrap();
    let chain: Vec<Ino> = (0..6)
        .map(|_| {
            at = volume.make(at, b"below", &new).unwrap();
            at
        })
        .collect();
    let other = volume.make(Ino::ROOT, b"other", &new).unwrap();
    assert!(volume.is_above(chain[0], at).unwrap() && volume.is_above(Ino::ROOT, at).unwrap());
    assert!(!volume.is_above(at, chain[0]).unwrap() && !volume.is_above(other, at).unwrap());
    let group = start + (layout::LANES_PAGE + 2 + 2) * layout::PAGE;
    for (held, below) in chain.iter().enumerate() {
        let at = group + chain[0].0 * layout::INODE;
        let mut inode: layout::Inode = media.get(at);
        inode.parent = below.0;
        inode.checksum = inode.owner_sum();
        let section = media.section();
        media.put(at, &inode);
        drop(section);
        for from in &chain {
            match (volume.is_above(other, *from), held) {
                (Ok(false), 0) => (), // as the root of a snapshot
                (Err(Error::Damaged(damage)), 1..) => assert!(damage.to_string().contains("below itself")),
                (found, _) => panic!("{held}: {found:?}"),
            }
        }
    }
}

/// A changed byte of extended attributes is an error, wherever it lies.
#[test]
fn damaged_attributes_are_errors() {
    use everbyte_fs::SetXattr;
    let image = image().then(|media| {
        let volume = open(&media).unwrap();
        volume.set_xattr(Ino::ROOT, b"user.one", &[7; 5000], SetXattr::Any).unwrap();
    });
    let start = start(&image);
    let clean = image.media();
    let group = start + (layout::LANES_PAGE + 2 + 2) * layout::PAGE;
    let word = clean.load(group + layout::INODE + layout::inode::ATTRIBUTES);
    let run = start + layout::Place::of(word).unwrap().page * layout::PAGE;
    for at in [0, 4, 8, 16, 20, 30, 4095, 5020] {
        let media = image.media();
        media.write(run + at, &[media.read_vec(run + at, 1)[0] ^ 0x40]);
        let Ok(volume) = open(&media) else { continue };
        let found = volume.xattr(Ino::ROOT, b"user.one");
        assert!(matches!(found, Err(Error::Damaged(_))), "byte {at}: {:?}", found.map(|value| value.len()));
        assert!(!volume.check().is_empty(), "byte {at}");
    }
}

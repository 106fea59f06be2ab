//! Sealed pages: their checksums are verified, and no change of a file leaves a wrong one.

use everbyte_fs::{
    Allocate, Error, FileKind, Ino, MapOptions, NewFile, OpenVolume, SEAL_AFTER, ScrubCursor, SealCursor, SealedShare,
    StepLimits, Volume, VolumeOptions, VolumeRepair, layout,
};
use everbyte_media::{Media, Options};
use everbyte_store::{ErrorInfo, FormatOptions, RepairStep, Store};
use everbyte_workload::Random;

/// Flips bits of guarded pages, as no thread does by a stray store.
fn flip(media: &Media, at: u64, bits: u64) {
    let _section = media.section();
    media.store(at, media.load(at) ^ bits);
}

const NOW: i64 = 1_000_000_000;

fn clock() -> i64 {
    NOW
}

fn volume_of(checksums: bool) -> (Media, Volume) {
    let media = Media::anonymous(32 << 20, &Options::default()).unwrap();
    let store = Store::format(media.clone(), &FormatOptions::default()).unwrap();
    let options = VolumeOptions { checksums, clock, span: Some(16 << 20), ..VolumeOptions::default() };
    (media, Volume::create(&store, "volume", &options).unwrap())
}

fn open(media: &Media, verify: bool) -> Volume {
    let object = Store::attach(media.clone()).unwrap().object("volume").unwrap();
    Volume::open_with(object, &OpenVolume { clock, verify, ..OpenVolume::default() }).unwrap()
}

/// Bytes of which no two pages are the same.
fn content(len: u64, seed: u8) -> Vec<u8> {
    let mut random = Random::new(seed.into());
    (0..len).map(|_| random.below(256) as u8).collect()
}

fn file(volume: &Volume, name: &str, len: usize, seed: u8) -> Ino {
    let ino = volume.make(Ino::ROOT, name.as_bytes(), &NewFile::new(FileKind::Regular, 0o644)).unwrap();
    volume.append(ino, &content(len as u64, seed)).unwrap();
    ino
}

/// A file with pages of 2 MiB.
fn large(volume: &Volume) -> Ino {
    let ino = volume.make(Ino::ROOT, b"large", &NewFile::new(FileKind::Regular, 0o644)).unwrap();
    volume.resize(ino, 2 << 20).unwrap();
    volume.resize(ino, 30_000).unwrap();
    volume.write(ino, 0, &content(30_000, 4)).unwrap();
    assert_eq!(volume.pages(ino).unwrap().aligned, 2 << 20);
    ino
}

/// Stores to a mapping of a file that ends at once.
fn map_write(volume: &Volume, ino: Ino, at: u64, bytes: &[u8]) -> everbyte_fs::Result<()> {
    let map = volume.map(ino, 0, u64::MAX, &MapOptions { writable: true, ..MapOptions::default() })?;
    map.write(at.min(map.len()), &bytes[..bytes.len().min(map.len().saturating_sub(at) as usize)])
}

/// A pass of sealing; the number of steps.
fn seal(volume: &Volume, pages: u64) -> u64 {
    let (mut cursor, mut steps) = (SealCursor::default(), 0);
    loop {
        let read = volume.seal_step(&mut cursor, &StepLimits { inodes: 100, pages }, NOW + SEAL_AFTER).unwrap();
        assert!(read <= pages);
        steps += 1;
        if cursor.is_at_start() {
            return steps;
        }
    }
}

fn scrub(volume: &Volume) -> (u64, Vec<(Ino, u64)>) {
    let (mut cursor, mut pages, mut damaged) = (ScrubCursor::default(), 0, Vec::new());
    loop {
        let done = volume.scrub_step(&mut cursor, &StepLimits { inodes: 100, pages: 3 }).unwrap();
        assert!(done.pages <= 3);
        pages += done.pages;
        damaged.extend(done.damaged.iter().map(|(ino, at, _)| (*ino, *at)));
        if cursor.is_at_start() {
            return (pages, damaged);
        }
    }
}

fn share(volume: &Volume) -> (u64, u64) {
    let SealedShare { sealed, written } = volume.sealed_share();
    (sealed, written)
}

/// The offset of a page of bytes on media.
fn place_of(media: &Media, bytes: &[u8]) -> u64 {
    (0..media.len())
        .step_by(4096)
        .find(|&at| media.holds(at, 4096) && media.read_vec(at, bytes.len()) == bytes)
        .unwrap()
}

#[test]
fn files_are_sealed_after_ten_seconds_and_unsealed_by_a_change() {
    let (_media, volume) = volume_of(true);
    let a = file(&volume, "a", 20_000, 1);
    assert!(volume.has_checksums());
    let mut cursor = SealCursor::default();
    let early = volume.seal_step(&mut cursor, &StepLimits::default(), NOW + SEAL_AFTER - 1).unwrap();
    assert!(early == 0 && cursor.is_at_start());
    assert_eq!(share(&volume), (0, 5));
    assert!(seal(&volume, 2) >= 3, "an extent is sealed in several steps");
    assert_eq!(share(&volume), (5, 5));
    assert_eq!(scrub(&volume), (5, vec![]));
    volume.write(a, 5000, &[9; 64]).unwrap(); // at its place
    assert_eq!(share(&volume), (0, 5));
    seal(&volume, 100);
    volume.append(a, &[8; 100]).unwrap(); // into the last page
    assert_eq!(share(&volume), (0, 5));
    seal(&volume, 100);
    volume.write(a, 4096, &[7; 4096]).unwrap(); // a new page: the others stay sealed
    assert_eq!(share(&volume), (4, 5));
    seal(&volume, 100);
    volume.allocate(a, 4096, 8192, Allocate::Zero).unwrap();
    assert_eq!(share(&volume), (3, 3));
    volume.resize(a, 18_000).unwrap();
    volume.resize(a, 19_000).unwrap();
    seal(&volume, 100);
    let (media, name) = (volume.object().media().clone(), volume.object().name().to_owned());
    volume.close().unwrap();
    assert_eq!(name, "volume");
    let volume = open(&media, true);
    assert!(volume.recovery().saved, "pages of checksums are no free ones");
    assert_eq!(volume.check(), []);
    assert_eq!(share(&volume), (3, 3));
    let mut bytes = vec![0; 19_000];
    assert_eq!(volume.read(a, 0, &mut bytes).unwrap(), 19_000);
    assert!(bytes[18_000..].iter().all(|&byte| byte == 0) && bytes[4096..12_288].iter().all(|&byte| byte == 0));
}

#[test]
fn a_volume_without_checksums_is_not_sealed() {
    let (_media, volume) = volume_of(false);
    file(&volume, "a", 20_000, 1);
    assert!(!volume.has_checksums());
    assert_eq!(seal(&volume, 100), 1);
    assert_eq!(share(&volume), (0, 5));
}

/// A file that changes while an extent of it is sealed in part is sealed with its new bytes; the
/// clock stands still.
#[test]
fn a_change_between_two_steps_is_seen() {
    let (_media, volume) = volume_of(true);
    let a = file(&volume, "a", 20_000, 1);
    let (mut cursor, limits) = (SealCursor::default(), StepLimits { inodes: 100, pages: 2 });
    assert_eq!(volume.seal_step(&mut cursor, &limits, NOW + SEAL_AFTER).unwrap(), 2);
    volume.write(a, 100, &[9; 64]).unwrap();
    while !cursor.is_at_start() {
        volume.seal_step(&mut cursor, &limits, NOW + SEAL_AFTER).unwrap();
    }
    assert_eq!(share(&volume), (5, 5));
    assert_eq!(scrub(&volume), (5, vec![]));
}

/// A changed bit of a sealed page: each call that needs the page is an error with its place, other
/// pages go on, and a repair takes the seal off.
#[test]
fn damage_of_a_sealed_page_is_found() {
    let (media, volume) = volume_of(true);
    let a = file(&volume, "a", 20_000, 1);
    let b = file(&volume, "b", 100, 1);
    seal(&volume, 100);
    let page = place_of(&media, &content(20_000, 1)[8192..12_288]);
    flip(&media, page + 800, 1 << 5);
    let is_damaged = |outcome: Result<usize, Error>| {
        let error = outcome.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("inode {a} at its offset 8192")), "{text}");
        assert_eq!(error.damage().unwrap().offset, Some(page));
    };
    let mut bytes = vec![0; 20_000];
    is_damaged(volume.read(a, 0, &mut bytes));
    is_damaged(volume.read(a, 9000, &mut bytes[..10]));
    assert_eq!(volume.read(a, 4096, &mut bytes[..4096]).unwrap(), 4096);
    assert_eq!(volume.read(a, 12_288, &mut bytes[..4096]).unwrap(), 4096);
    is_damaged(volume.write(a, 9000, &[1; 10]).map(|()| 0)); // the seal would cover the damage no more
    is_damaged(volume.write(a, 9000, &[1; 1000]).map(|()| 0));
    is_damaged(volume.allocate(a, 9000, 100, Allocate::Punch).map(|()| 0));
    is_damaged(volume.copy_range(a, 8000, b, 100, 5000).map(|_| 0));
    volume.copy_range(a, 0, b, 200, 5000).unwrap();
    assert_eq!(scrub(&volume), (5, vec![(a, 8192)]));
    assert!(volume.check()[0].to_string().contains("at its offset 8192"));
    drop(volume);
    let volume = open(&media, false);
    assert_eq!(volume.read(a, 0, &mut bytes).unwrap(), 20_000, "the caller does not want it verified");
    let object = volume.object().clone();
    drop(volume);
    let planned = VolumeRepair::plan(object, NOW, &|_, _| ()).unwrap();
    let [RepairStep::Mend { at, paths, detail }] = planned.steps() else { panic!("{:?}", planned.steps()) };
    assert_eq!((*at, paths.join(" ")), (page, "/a".to_string()));
    assert!(detail.contains("from its offset 8192 on"), "{detail}");
    planned.run().unwrap();
    let volume = open(&media, true);
    assert_eq!(volume.check(), []);
    assert_eq!(volume.read(a, 0, &mut bytes).unwrap(), 20_000);
    volume.write(a, 8192, &[1; 4096]).unwrap();
    seal(&volume, 100);
    assert_eq!(scrub(&volume).1, []);
}

/// The last page of a file that is damaged is not appended to.
#[test]
fn a_damaged_tail_is_not_stored_to() {
    let (media, volume) = volume_of(true);
    let a = file(&volume, "a", 5000, 1);
    seal(&volume, 100);
    let page = place_of(&media, &content(5000, 1)[4096..]);
    flip(&media, page, 1);
    for outcome in [volume.append(a, &[1; 10]).map(|_| ()), volume.resize(a, 6000), volume.write(a, 5100, &[1; 9000])] {
        assert!(matches!(outcome, Err(Error::Damaged(_))), "{outcome:?}");
    }
    volume.resize(a, 4096).unwrap();
    volume.append(a, &[1; 10]).unwrap();
    assert_eq!(scrub(&volume).1, []);
}

/// Pages that were sealed before they were shared stay sealed, and each keeps one checksum; pages
/// that are shared are not sealed, so that no damage gets a checksum.
#[test]
fn shared_pages_keep_one_checksum() {
    let (media, volume) = volume_of(true);
    let a = file(&volume, "a", 20_000, 1);
    let b = file(&volume, "b", 100, 2);
    seal(&volume, 100);
    volume.clone_range(a, 0, b, 0, 0).unwrap();
    assert_eq!(share(&volume), (10, 10));
    volume.write(a, 100, &[3; 10]).unwrap(); // a new page
    assert_eq!(share(&volume), (9, 10));
    volume.snapshot(b"one").unwrap();
    assert_eq!(share(&volume), (18, 20));
    volume.append(b, &[4; 10]).unwrap(); // the last page of its own
    volume.write(b, 4096, &[5; 20]).unwrap();
    assert_eq!(scrub(&volume).1, []);
    let before = share(&volume);
    seal(&volume, 100);
    let page = place_of(&media, &content(20_000, 1)[8192..12_288]);
    flip(&media, page, 1);
    let damaged = scrub(&volume).1;
    assert_eq!(damaged.iter().filter(|(_, at)| *at == 8192).count(), damaged.len());
    assert!(damaged.len() >= 4 && share(&volume).0 > before.0, "{damaged:?}");
    assert_eq!(volume.remove_snapshot(b"one").ok(), Some(()));
    assert!(matches!(volume.read(b, 8192, &mut [0; 10]), Err(Error::Damaged(_))));
}

/// A word of the table of checksums that is damaged: what is sealed by it cannot be read before the
/// repair, which tells each file.
#[test]
fn a_damaged_table_of_checksums_is_repaired() {
    for level in 0..4 {
        let (media, volume) = volume_of(true);
        let a = file(&volume, "a", 20_000, 1);
        seal(&volume, 100);
        let object = volume.object().clone();
        let start = object.prime().get();
        drop(volume);
        let mut at = start + layout::SUMS_AT;
        for _ in 0..level {
            let page = start + layout::Place::of(media.load(at)).unwrap().page * layout::PAGE;
            at = (0..512).map(|word| page + 8 * word).find(|&at| media.load(at) != 0).unwrap();
        }
        flip(&media, at, 1 << 13);
        let volume = open(&media, true);
        assert!(matches!(volume.read(a, 0, &mut [0; 10]), Err(Error::Damaged(_))), "level {level}");
        assert!(!volume.check().is_empty());
        drop(volume);
        let planned = VolumeRepair::plan(object.clone(), NOW, &|_, _| ()).unwrap();
        assert_eq!(planned.steps().len(), 2, "level {level}: {:?}", planned.steps());
        planned.run().unwrap();
        assert!(VolumeRepair::plan(object, NOW, &|_, _| ()).unwrap().is_empty());
        let volume = open(&media, true);
        assert_eq!(volume.check(), []);
        let mut bytes = vec![0; 20_000];
        volume.read(a, 0, &mut bytes).unwrap();
        assert_eq!(bytes, content(20_000, 1));
        seal(&volume, 100);
        assert_eq!((share(&volume), scrub(&volume)), ((5, 5), (5, vec![])));
    }
}

/// Random changes with steps of sealing between them: every sealed page has its checksum.
#[test]
fn no_sequence_of_changes_leaves_a_wrong_checksum() {
    let mut random = Random::new(everbyte_workload::seed(23, "-p everbyte-fs --test seal no_sequence"));
    let (media, volume) = volume_of(true);
    let files = [file(&volume, "a", 9000, 1), file(&volume, "b", 20_000, 2), file(&volume, "c", 1, 3)];
    let files = [files[0], files[1], files[2], large(&volume)];
    let (mut cursor, mut sealed, mut maps) = (SealCursor::default(), 0, Vec::new());
    for round in 0..everbyte_workload::long_or(3000, 100_000) {
        let (ino, other) = (random.pick(&files), random.pick(&files));
        let most = random.pick(&[20, 500, 9000]);
        let (at, len) = (random.below(40_000), 1 + random.below(most));
        let outcome = match random.below(22) {
            0..4 => volume.write(ino, at, &content(len, round as u8)),
            4 => volume.append(ino, &content(len, round as u8)).map(|_| ()),
            5 => volume.resize(ino, random.below(50_000)),
            6 => volume.allocate(ino, at, len, random.pick(&[Allocate::Punch, Allocate::Zero, Allocate::Grow])),
            7 => volume.copy_range(ino, at, other, random.below(40_000), len).map(|_| ()),
            8 => volume.clone_range(ino, 0, other, 0, 0).map(|_| ()),
            9 => volume.collapse(ino, at / 4096 * 4096, 4096),
            10 => map_write(&volume, ino, at, &content(len, round as u8)),
            11 => match volume.snapshots().unwrap().first() {
                Some(snapshot) => volume.remove_snapshot(&snapshot.name),
                None => volume.snapshot(b"one").map(drop),
            },
            12 if maps.len() == 2 => {
                maps.remove(0);
                Ok(())
            }
            12 => volume.map(ino, 0, 8192, &MapOptions { writable: true, ..MapOptions::default() }).map(|map| {
                map.write(0, &content(100, round as u8)).unwrap();
                maps.push(map);
            }),
            13 if !maps.is_empty() => maps[0].write(random.below(100), &content(9, round as u8)),
            _ => {
                let limits = StepLimits { inodes: 1 + random.below(4), pages: 1 + random.below(9) };
                volume.seal_step(&mut cursor, &limits, NOW + SEAL_AFTER).map(|_| ())
            }
        };
        if let Err(error) = outcome {
            let is_refusal = matches!(
                error,
                Error::Overlap { .. }
                    | Error::Unaligned { .. }
                    | Error::NoSpace { .. }
                    | Error::Mapped { .. }
                    | Error::Outside { .. }
            );
            assert!(is_refusal, "{error}");
        }
        if round % 50 == 0 {
            assert_eq!(scrub(&volume).1, [], "round {round}");
            sealed += share(&volume).0;
        }
    }
    assert!(sealed > 100, "{sealed}");
    maps.clear();
    assert_eq!(volume.check(), []);
    drop(volume);
    assert_eq!(open(&media, true).check(), []);
}

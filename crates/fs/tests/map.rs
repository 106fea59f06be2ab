//! Mapped ranges: loads and stores on the medium, beside calls on the same file.

use everbyte_fs::{Allocate, Error, FileKind, FileMap, Ino, MapOptions, MapPages, NewFile, Volume, VolumeOptions};
use everbyte_media::{Media, Options};
use everbyte_store::{CreateOptions, FormatOptions, Store};
use everbyte_workload::Random;
use std::cell::Cell;

const PAGE: u64 = 4096;
const READABLE: MapOptions =
    MapOptions { writable: false, populate: true, private: false, as_is: false, pages: MapPages::Any };
const WRITABLE: MapOptions = MapOptions { writable: true, populate: false, ..READABLE };

thread_local! {
    static NOW: Cell<i64> = const { Cell::new(1) };
}

fn store(max: u64) -> Store {
    Store::format(Media::anonymous(max, &Options::default()).unwrap(), &FormatOptions::default()).unwrap()
}

fn volume(store: &Store) -> Volume {
    let options = VolumeOptions { span: Some(8 << 20), clock: || NOW.get(), ..Default::default() };
    Volume::create(store, "volume", &options).unwrap()
}

fn make(volume: &Volume, name: &str, bytes: &[u8]) -> Ino {
    let ino = volume.make(Ino::ROOT, name.as_bytes(), &NewFile::new(FileKind::Regular, 0o644)).unwrap();
    volume.append(ino, bytes).unwrap();
    ino
}

fn bytes(len: u64, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len).map(|_| random.below(256) as u8).collect()
}

fn read(volume: &Volume, ino: Ino) -> Vec<u8> {
    let mut into = vec![0; volume.attributes(ino).unwrap().size as usize];
    assert_eq!(volume.read(ino, 0, &mut into).unwrap(), into.len());
    into
}

fn mapped(map: &FileMap) -> Vec<u8> {
    let mut into = vec![0; map.len() as usize];
    map.read(0, &mut into).unwrap();
    into
}

fn is_mapped<T>(outcome: everbyte_fs::Result<T>) -> bool {
    matches!(outcome, Err(Error::Mapped { .. }))
}

#[test]
fn a_store_is_read_at_once_and_a_write_is_loaded_at_once() {
    let volume = volume(&store(32 << 20));
    let file = make(&volume, "file", &bytes(20_000, 1));
    let (map, other) = (volume.map(file, 4096, 1 << 20, &WRITABLE).unwrap(), volume.map(file, 0, 20_000, &READABLE));
    let other = other.unwrap();
    assert_eq!((map.len(), other.len()), (20_000 - 4096, 20_000));
    map.write(1000, b"stored").unwrap();
    map.store(4096, 77).unwrap();
    assert_eq!(read(&volume, file)[5096..5102], *b"stored");
    assert_eq!((map.load(4096).unwrap(), other.load(8192).unwrap()), (77, 77));
    for (at, len) in [(5000, 10), (4090, 20), (4096, 4096), (100, 19_000), (19_000, 3000)] {
        let new = bytes(len, at);
        volume.write(file, at, &new).unwrap();
        let whole = read(&volume, file);
        assert_eq!(whole[at as usize..(at + len) as usize], new);
        assert_eq!(mapped(&map), whole[4096..20_000], "{at} {len}");
        assert_eq!(mapped(&other), whole[..20_000]);
    }
    let (at, copied) = (volume.append(file, &[7; 100]).unwrap(), volume.copy_range(file, 0, file, 6000, 3000).unwrap());
    assert_eq!((at, copied), (22_000, 3000));
    assert_eq!(mapped(&map), read(&volume, file)[4096..20_000]);
    drop((map, other));
    assert_eq!(volume.check(), []);
}

#[test]
fn pages_of_a_mapped_range_stay_until_the_mapping_ends() {
    let volume = volume(&store(32 << 20));
    let file = make(&volume, "file", &bytes(10 * PAGE, 1));
    let map = volume.map(file, 4 * PAGE, 2 * PAGE, &WRITABLE).unwrap();
    assert!(is_mapped(volume.resize(file, 6 * PAGE - 1)) && is_mapped(volume.resize(file, 0)));
    for mode in [Allocate::Punch, Allocate::Zero, Allocate::ZeroKeepSize] {
        assert!(is_mapped(volume.allocate(file, 0, 4 * PAGE + 1, mode)));
        assert!(is_mapped(volume.allocate(file, 6 * PAGE - 1, PAGE, mode)));
        volume.allocate(file, 0, PAGE, mode).unwrap();
        volume.allocate(file, 6 * PAGE, 100, mode).unwrap();
    }
    assert!(is_mapped(volume.collapse(file, 0, PAGE)) && is_mapped(volume.insert(file, 5 * PAGE, PAGE)));
    volume.collapse(file, 6 * PAGE, PAGE).unwrap();
    volume.insert(file, 6 * PAGE, PAGE).unwrap();
    volume.allocate(file, 0, 20 * PAGE, Allocate::Grow).unwrap();
    volume.resize(file, 9 * PAGE).unwrap();
    map.write(0, &[9; 2 * PAGE as usize]).unwrap();
    volume.unlink(Ino::ROOT, b"file").unwrap();
    assert_eq!(read(&volume, file)[4 * PAGE as usize..6 * PAGE as usize], [9; 2 * PAGE as usize]);
    assert!(is_mapped(volume.resize(file, 0)));
    drop(map);
    assert!(matches!(volume.attributes(file), Err(Error::Stale { .. })), "the mapping kept the file");
    let again = make(&volume, "again", &bytes(PAGE, 3));
    volume.map(again, 0, PAGE, &WRITABLE).unwrap();
    volume.resize(again, 0).unwrap();
    assert_eq!(volume.check(), []);
}

#[test]
fn holes_and_unwritten_and_shared_pages_get_pages_of_the_file_alone() {
    let volume = volume(&store(32 << 20));
    let file = make(&volume, "file", &bytes(3 * PAGE, 1));
    let clone = make(&volume, "clone", b"");
    volume.clone_range(file, 0, clone, 0, 0).unwrap();
    volume.write(clone, 2 * PAGE, &bytes(PAGE, 5)).unwrap(); // its own, in a piece of shared pages
    volume.allocate(clone, 3 * PAGE, 2 * PAGE, Allocate::Grow).unwrap();
    volume.resize(clone, 8 * PAGE + 100).unwrap();
    let (before, of_file) = (read(&volume, clone), read(&volume, file));
    let map = volume.map(clone, PAGE, 8 * PAGE, &WRITABLE).unwrap();
    assert_eq!(mapped(&map), before[PAGE as usize..]);
    for page in 0..7 {
        map.store(page * PAGE, 1 + page).unwrap();
    }
    map.write(7 * PAGE + 90, &[3; 10]).unwrap();
    assert!(matches!(map.write(7 * PAGE + 91, &[3; 10]), Err(Error::Outside { .. })), "behind the end of the file");
    assert_eq!(read(&volume, clone)[PAGE as usize..], mapped(&map));
    assert_eq!(read(&volume, file), of_file, "the other side stays");
    assert_eq!(read(&volume, clone)[..PAGE as usize], of_file[..PAGE as usize]);
    drop(map);
    assert_eq!(volume.check(), []);
}

#[test]
fn clones_copies_and_snapshots_of_a_mapped_file_keep_their_bytes() {
    let volume = volume(&store(32 << 20));
    let file = make(&volume, "file", &bytes(6 * PAGE, 1));
    let other = make(&volume, "other", &bytes(6 * PAGE, 2));
    let (map, before) = (volume.map(file, 2 * PAGE, 2 * PAGE, &WRITABLE).unwrap(), read(&volume, file));
    volume.clone_range(file, 0, other, 0, 0).unwrap();
    let root = volume.snapshot(b"one").unwrap().root;
    let copy = volume.lookup(root, b"file").unwrap().unwrap();
    map.write(0, &[1; 2 * PAGE as usize]).unwrap();
    assert_eq!((read(&volume, other), read(&volume, copy)), (before.clone(), before.clone()));
    volume.clone_range(other, 0, file, PAGE, 3 * PAGE).unwrap();
    assert_eq!(mapped(&map), before[PAGE as usize..3 * PAGE as usize], "a copy to a mapped range");
    map.store(0, 5).unwrap();
    assert_eq!(read(&volume, other), before);
    let fixed = volume.map(copy, 0, 6 * PAGE, &READABLE).unwrap();
    assert_eq!(mapped(&fixed), before);
    assert!(matches!(volume.map(copy, 0, PAGE, &WRITABLE), Err(Error::ReadOnly { .. })));
    assert!(matches!(fixed.store(0, 1), Err(Error::ReadOnly { .. })));
    drop((map, fixed));
    assert_eq!(volume.check(), []);
}

/// A mapping that takes no pages has pages that other files have, too: the end of its file moves
/// over the last one when the others are gone, which leave it to no new file.
#[test]
fn a_shared_last_page_of_a_mapping_stays_until_the_mapping_ends() {
    let volume = volume(&store(32 << 20));
    let file = make(&volume, "file", &bytes(5000, 1));
    let other = make(&volume, "other", &bytes(9000, 2));
    for options in [MapOptions { as_is: true, ..READABLE }, MapOptions { private: true, ..READABLE }] {
        volume.snapshot(b"one").unwrap();
        let (map, before) = (volume.map(file, 0, 5000, &options).unwrap(), read(&volume, file));
        assert!(is_mapped(volume.append(file, b"more")) && is_mapped(volume.write(file, 6000, b"more")));
        assert!(is_mapped(volume.resize(file, 6000)) && is_mapped(volume.allocate(file, 0, 6000, Allocate::Grow)));
        assert!(is_mapped(volume.copy_range(other, 0, file, 8192, 4096)));
        assert_eq!(read(&volume, file), before, "refused calls change nothing");
        volume.remove_snapshot(b"one").unwrap();
        let others: Vec<Ino> = (0..9).map(|number| make(&volume, &format!("{number}"), &bytes(PAGE, 3))).collect();
        assert_eq!(mapped(&map), before);
        volume.append(file, b"more").unwrap();
        assert_eq!(mapped(&map)[..5000], before);
        drop(map);
        volume.resize(file, 5000).unwrap();
        (0..others.len()).for_each(|number| volume.unlink(Ino::ROOT, format!("{number}").as_bytes()).unwrap());
    }
    assert_eq!(volume.check(), []);
}

/// A copy into a mapped range needs memory for all of its bytes; one that the volume has no pages
/// for is refused before.
#[test]
fn a_copy_into_a_mapped_range_that_cannot_fit_takes_no_memory() {
    let volume = volume(&store(32 << 20));
    let (from, to) = (make(&volume, "from", b""), make(&volume, "to", &bytes(2 * PAGE, 1)));
    volume.resize(from, 1 << 47).unwrap();
    let map = volume.map(to, 0, PAGE, &WRITABLE).unwrap();
    let before = (mapped(&map), volume.usage());
    for outcome in [volume.clone_range(from, 0, to, 0, 0), volume.copy_range(from, 0, to, 100, 1 << 46)] {
        assert!(matches!(outcome, Err(Error::NoSpace { .. })), "{outcome:?}");
    }
    assert_eq!((mapped(&map), volume.usage()), before);
    assert_eq!(volume.copy_range(from, 0, to, 0, 100_000).unwrap(), 100_000);
    assert_eq!(mapped(&map), [0; PAGE as usize]);
}

#[test]
fn ranges_outside_of_a_file_are_not_mapped() {
    let volume = volume(&store(32 << 20));
    let (file, small) = (make(&volume, "file", &bytes(5000, 1)), make(&volume, "small", b"remember"));
    let outside = |outcome: everbyte_fs::Result<FileMap>| matches!(outcome, Err(Error::Outside { .. }));
    assert!(outside(volume.map(file, 8192, 1, &WRITABLE)) && outside(volume.map(file, 0, 0, &WRITABLE)));
    assert!(matches!(volume.map(file, 100, 1, &WRITABLE), Err(Error::Unaligned { .. })));
    assert!(matches!(volume.map(Ino::ROOT, 0, 1, &WRITABLE), Err(Error::IsADirectory { .. })));
    let map = volume.map(file, 4096, 4096, &WRITABLE).unwrap();
    assert_eq!((map.len(), map.part_count(), map.is_empty()), (904, 1, false));
    assert!(matches!(map.load(904), Err(Error::Outside { .. })) && matches!(map.load(4), Err(Error::Unaligned { .. })));
    assert!(matches!(map.sync(900, 5), Err(Error::Outside { .. })) && map.flush(u64::MAX, 2).is_err());
    let as_is = volume.map(small, 0, 100, &MapOptions { as_is: true, ..READABLE }).unwrap();
    assert_eq!(mapped(&as_is), b"remember", "bytes in the inode");
    let large = make(&volume, "large", b"remember");
    let as_is = volume.map(large, 0, 100, &MapOptions { as_is: true, ..READABLE }).unwrap();
    volume.write(large, 4, &[b'x'; 200]).unwrap();
    assert_eq!(mapped(&as_is), b"remember", "the bytes have left the inode");
    drop(as_is);
    let map = volume.map(small, 0, 100, &WRITABLE).unwrap();
    map.write(2, b"tire").unwrap();
    assert_eq!(read(&volume, small), b"retireer");
    volume.resize(file, 5 * PAGE).unwrap();
    let as_is = volume.map(file, 0, 5 * PAGE, &MapOptions { as_is: true, ..READABLE }).unwrap();
    assert_eq!(mapped(&as_is), read(&volume, file));
    assert_eq!(volume.attributes(file).unwrap().allocated, 2 * PAGE, "it took no pages");
}

#[test]
fn syncing_a_mapping_sets_the_times_of_what_was_stored() {
    let volume = volume(&store(32 << 20));
    let file = make(&volume, "file", &bytes(3 * PAGE, 1));
    let map = volume.map(file, 0, 3 * PAGE, &WRITABLE).unwrap();
    let modified = || volume.attributes(file).unwrap().modified;
    let first = modified();
    NOW.set(50);
    map.sync(0, map.len()).unwrap();
    assert_eq!(modified(), first, "nothing was stored");
    map.store(PAGE, 1).unwrap();
    map.sync(0, PAGE).unwrap();
    assert_eq!(modified(), first, "the page lies outside");
    map.sync(0, 2 * PAGE).unwrap();
    assert_eq!(modified(), 50);
    NOW.set(60);
    map.sync(0, map.len()).unwrap();
    assert_eq!(modified(), 50, "it was synced already");
    assert!(map.as_ptr().is_some());
    map.sync(0, 8).unwrap();
    assert_eq!(modified(), 60, "stores through the address are not seen");
    NOW.set(70);
    let map = volume.map(file, 0, PAGE, &WRITABLE).unwrap();
    map.store(8, 1).unwrap();
    drop(map);
    assert_eq!(modified(), 70, "the end of a mapping is a sync of what is left");
}

/// The address is that of the bytes, and a flush takes as many lines as the range has.
#[test]
fn a_mapping_in_one_part_has_an_address() {
    let volume = volume(&store(32 << 20));
    let file = make(&volume, "file", &bytes(4 * PAGE, 1));
    let map = volume.map(file, PAGE, 2 * PAGE, &WRITABLE).unwrap();
    let media = volume.object().media();
    let address = map.as_ptr().unwrap();
    let at = address.as_ptr().addr() - media.address().as_ptr().addr();
    map.store(64, 0x1122).unwrap();
    assert_eq!(media.load(at as u64 + 64), 0x1122);
    let before = media.counts();
    map.flush(60, 72).unwrap();
    map.fence();
    let spent = media.counts() - before;
    assert_eq!((spent.lines, spent.fences), (3, 1));
    // A page that was replaced before lies elsewhere.
    volume.write(file, 3 * PAGE, &bytes(PAGE, 2)).unwrap();
    let map = volume.map(file, 0, 4 * PAGE, &WRITABLE).unwrap();
    assert_eq!((map.part_count(), map.as_ptr()), (2, None));
}

/// A page of a mapping of two parts, which is a second mapping of its pages, has a memory error:
/// the bytes stored there since stay in this process.
#[test]
fn a_sync_of_a_lost_page_of_a_mapping_of_several_parts_is_an_error() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = CreateOptions { max: 1 << 30, ..CreateOptions::default() };
    let volume = volume(&Store::create(&folder.path().join("store"), &options).unwrap());
    let file = make(&volume, "file", &bytes(4 * PAGE, 1));
    drop(volume.map(file, 0, 4 * PAGE, &WRITABLE).unwrap());
    volume.write(file, 3 * PAGE, &bytes(PAGE, 2)).unwrap(); // a page that is replaced lies elsewhere
    let (map, before) = (volume.map(file, 0, 4 * PAGE, &WRITABLE).unwrap(), read(&volume, file));
    assert_eq!(map.part_count(), 2);
    Media::raise_memory_error_at(map.as_ptr().unwrap().addr().get() + 3 * PAGE as usize);
    map.store(PAGE, 5).unwrap();
    map.sync(0, 3 * PAGE).unwrap();
    map.store(3 * PAGE + 64, 5).unwrap();
    let (synced, loaded) = (map.sync(0, 4 * PAGE), map.load(3 * PAGE + 64));
    for refused in [synced.unwrap_err(), loaded.unwrap_err()] {
        assert!(refused.to_string().contains("cannot be read"), "{refused}");
    }
    assert_eq!(read(&volume, file)[3 * PAGE as usize..], before[3 * PAGE as usize..], "the medium's bytes");
}

/// Random calls and stores on files of which ranges are mapped, against plain vectors.
#[test]
fn mapped_files_are_what_their_twins_are() {
    everbyte_workload::programs(12, |random, is_long| {
        let store = store(32 << 20);
        let volume = volume(&store);
        let mut twins: Vec<Vec<u8>> = vec![Vec::new(); 3];
        let files: Vec<Ino> = (0..3).map(|index| make(&volume, &format!("{index}"), b"")).collect();
        let mut maps: Vec<(usize, u64, FileMap)> = Vec::new();
        for step in 0..if is_long { 4000 } else { 400 } {
            let (index, seed) = (random.index(3), step + 1);
            let (file, size) = (files[index], twins[index].len() as u64);
            let (at, most) = (random.below(90_000), random.pick(&[700, 30_000]));
            let len = 1 + random.below(most);
            let pages = at / PAGE..(at + len).div_ceil(PAGE);
            let meets = |from: u64, to: u64| {
                let part = |(of, first, map): &(usize, u64, FileMap)| {
                    *of == index && *first < to && from < (first + map.len()).next_multiple_of(PAGE)
                };
                maps.iter().any(part)
            };
            match random.below(12) {
                0..3 => {
                    let new = bytes(len, seed);
                    volume.write(file, at, &new).unwrap();
                    put(&mut twins[index], at, &new);
                }
                3 if maps.len() < 6 && size > 0 => {
                    let first = random.below(size.div_ceil(PAGE)) * PAGE;
                    let options = if random.chance(70) { WRITABLE } else { READABLE };
                    maps.push((index, first, volume.map(file, first, len, &options).unwrap()));
                }
                4 if !maps.is_empty() => drop(maps.swap_remove(random.index(maps.len()))),
                5..8 if !maps.is_empty() => {
                    let (of, first, map) = &maps[random.index(maps.len())];
                    let at = random.below(map.len());
                    let new = bytes(len.min(map.len() - at), seed);
                    match map.write(at, &new) {
                        Ok(()) => put(&mut twins[*of], first + at, &new),
                        Err(error) => assert!(matches!(error, Error::ReadOnly { .. })),
                    }
                    if random.chance(30) {
                        map.sync(at, new.len() as u64).unwrap();
                    }
                }
                8 => {
                    let outcome = volume.resize(file, at);
                    assert_eq!(is_mapped(outcome), at < size && meets(at / PAGE * PAGE, size));
                    if at >= size || !meets(at / PAGE * PAGE, size) {
                        twins[index].resize(at as usize, 0);
                    }
                }
                9 => {
                    let mode = random.pick(&[Allocate::Punch, Allocate::ZeroKeepSize, Allocate::KeepSize]);
                    let end =
                        if mode == Allocate::Punch { (at + len).min(size.next_multiple_of(PAGE)) } else { at + len };
                    let refused = mode != Allocate::KeepSize && at < end && meets(at / PAGE * PAGE, end);
                    assert_eq!(is_mapped(volume.allocate(file, at, len, mode)), refused, "{mode:?} {pages:?}");
                    if !refused && mode != Allocate::KeepSize && at < size {
                        twins[index][at as usize..(at + len).min(size) as usize].fill(0);
                    }
                }
                10 => {
                    let to = random.index(3);
                    let to_at = if random.chance(50) { at % PAGE } else { random.below(60_000) };
                    if to == index && at < to_at + len && to_at < at + len {
                        continue;
                    }
                    let done = volume.copy_range(file, at, files[to], to_at, len).unwrap();
                    if done > 0 {
                        let copied = twins[index][at as usize..(at + done) as usize].to_vec();
                        put(&mut twins[to], to_at, &copied);
                    }
                }
                _ => {
                    assert_eq!(read(&volume, file), twins[index], "step {step}");
                    for (of, first, map) in &maps {
                        let first = *first as usize;
                        assert_eq!(mapped(map), twins[*of][first..first + map.len() as usize], "step {step}");
                    }
                }
            }
        }
        drop(maps);
        assert_eq!(volume.check(), []);
    });
}

fn put(into: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let end = at as usize + bytes.len();
    into.resize(into.len().max(end), 0);
    into[at as usize..end].copy_from_slice(bytes);
}

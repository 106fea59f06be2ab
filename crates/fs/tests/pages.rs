//! Files with pages of 2 MiB and 1 GiB: which pages they get, and that they stay whole.

use everbyte_fs::{
    Allocate, Error, FileKind, FilePages, Ino, MapOptions, NewFile, OpenVolume, PageSize, Volume, VolumeOptions,
};
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::Random;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn store(max: u64) -> Store {
    Store::format(Media::anonymous(max, &Options::default()).unwrap(), &FormatOptions::default()).unwrap()
}

fn volume(store: &Store, span: u64, page_size: PageSize) -> Volume {
    let options = VolumeOptions { span: Some(span), page_size, ..Default::default() };
    Volume::create(store, "volume", &options).unwrap()
}

fn make(volume: &Volume, name: &str) -> Ino {
    volume.make(Ino::ROOT, name.as_bytes(), &NewFile::new(FileKind::Regular, 0o644)).unwrap()
}

fn bytes(len: u64, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(len as usize).collect()
}

fn read(volume: &Volume, ino: Ino) -> Vec<u8> {
    let mut into = vec![0; volume.attributes(ino).unwrap().size as usize];
    assert_eq!(volume.read(ino, 0, &mut into).unwrap(), into.len());
    into
}

fn pages(volume: &Volume, ino: Ino) -> FilePages {
    let found = volume.pages(ino).unwrap();
    assert_eq!(volume.attributes(ino).unwrap().page_size, found.size);
    found
}

/// Appends of any length fill large pages one after the other, which few extents cover, and no
/// write takes them apart.
#[test]
fn large_pages_are_filled_and_stay_whole() {
    let volume = volume(&store(64 * MIB), 32 * MIB, PageSize::Large);
    let file = make(&volume, "file");
    let (mut twin, mut random) = (Vec::new(), Random::new(1));
    while twin.len() < 5 * MIB as usize {
        let most = random.pick(&[100, 5000, 300_000]);
        let new = bytes(1 + random.below(most), twin.len() as u64);
        volume.append(file, &new).unwrap();
        twin.extend(new);
    }
    let whole = FilePages { size: PageSize::Large, allocated: 6 * MIB, aligned: 6 * MIB, extents: 0 };
    let found = pages(&volume, file);
    assert_eq!(FilePages { extents: 0, ..found }, whole);
    assert!(found.extents <= 4, "{} extents", found.extents);
    for _ in 0..300 {
        let most = random.pick(&[8, 600, 9000, 3 * MIB]);
        let (at, new) = (random.below(4 * MIB), bytes(1 + random.below(most), random.below(1 << 40)));
        volume.write(file, at, &new).unwrap();
        let end = at as usize + new.len();
        twin.resize(twin.len().max(end), 0);
        twin[at as usize..end].copy_from_slice(&new);
    }
    assert!(read(&volume, file) == twin);
    let found = pages(&volume, file);
    assert_eq!((found.allocated, found.aligned), (8 * MIB, 8 * MIB));
    assert_eq!(volume.check(), []);
}

#[test]
fn the_default_page_size_is_that_of_the_volume_or_of_its_opening() {
    let store = store(64 * MIB);
    let volume = volume(&store, 16 * MIB, PageSize::Large);
    let (first, link) = (make(&volume, "first"), volume.make(Ino::ROOT, b"l", &NewFile::new(FileKind::Pipe, 0o644)));
    assert_eq!(volume.attributes(link.unwrap()).unwrap().page_size, PageSize::Small, "regular files alone have one");
    volume.append(first, &[1; 100]).unwrap();
    assert_eq!(pages(&volume, first).allocated, 0, "small files lie in their inodes");
    volume.append(first, &[1; 100]).unwrap();
    assert_eq!((pages(&volume, first).aligned, pages(&volume, first).extents), (2 * MIB, 2));
    volume.close().unwrap();
    for (page_size, expected) in [(Some(PageSize::Small), PageSize::Small), (None, PageSize::Large)] {
        let options = OpenVolume { page_size, ..OpenVolume::default() };
        let volume = Volume::open_with(store.object("volume").unwrap(), &options).unwrap();
        let file = make(&volume, &format!("{expected}"));
        volume.append(file, &[2; 5000]).unwrap();
        assert_eq!(pages(&volume, file).size, expected);
        assert_eq!(pages(&volume, file).aligned, if expected == PageSize::Small { 0 } else { 2 * MIB });
        assert_eq!(pages(&volume, first).size, PageSize::Large, "files keep theirs");
        volume.close().unwrap();
    }
}

#[test]
fn allocation_and_size_of_an_empty_file_select_its_page_size() {
    let volume = volume(&store(128 * MIB), 64 * MIB, PageSize::Small);
    let [allocated, sized, small, used, cut] =
        ["allocated", "sized", "small", "used", "cut"].map(|name| make(&volume, name));
    volume.allocate(allocated, 0, 5 * MIB, Allocate::KeepSize).unwrap();
    let found = FilePages { size: PageSize::Large, allocated: 6 * MIB, aligned: 6 * MIB, extents: 0 };
    assert_eq!(FilePages { extents: 0, ..pages(&volume, allocated) }, found, "pages at once");
    volume.append(allocated, &[1; 10_000]).unwrap();
    assert_eq!(pages(&volume, allocated).aligned, 6 * MIB);
    volume.resize(sized, 5 * MIB).unwrap();
    assert_eq!((pages(&volume, sized).size, pages(&volume, sized).allocated), (PageSize::Large, 0), "pages later");
    volume.write(sized, 3 * MIB, b"x").unwrap();
    assert_eq!((pages(&volume, sized).allocated, pages(&volume, sized).aligned), (2 * MIB, 2 * MIB));
    let map = volume.map(sized, 4096, 10, &MapOptions { writable: true, ..MapOptions::default() }).unwrap();
    assert_eq!(pages(&volume, sized).aligned, 4 * MIB, "a mapping takes large pages, too");
    drop(map);
    volume.resize(small, 2 * MIB - 1).unwrap();
    volume.append(used, b"bytes").unwrap();
    volume.resize(used, 2 * MIB).unwrap();
    volume.allocate(used, 0, 4 * MIB, Allocate::Grow).unwrap();
    volume.allocate(cut, 0, 4 * MIB, Allocate::ZeroKeepSize).unwrap();
    for file in [small, used, cut] {
        assert_eq!(pages(&volume, file).size, PageSize::Small);
    }
    volume.resize(used, 0).unwrap();
    volume.resize(used, 2 * MIB).unwrap();
    assert_eq!(pages(&volume, used).size, PageSize::Large, "it was empty again");
    assert_eq!(volume.check(), []);
}

/// Two of three blocks have a page in use.
#[test]
fn a_fragmented_volume_gives_smaller_pages() {
    let volume = volume(&store(64 * MIB), 8 * MIB, PageSize::Small);
    let filler = make(&volume, "filler");
    while volume.append(filler, &[1; 4096]).is_ok() {}
    let size = volume.attributes(filler).unwrap().size;
    for at in (0..size).step_by(4096).filter(|at| at / 4096 % 64 != 0) {
        volume.allocate(filler, at, 4096, Allocate::Punch).unwrap();
    }
    let file = make(&volume, "file");
    volume.allocate(file, 0, 2 * MIB, Allocate::Grow).unwrap();
    let found = pages(&volume, file);
    assert_eq!((found.size, found.allocated, found.aligned), (PageSize::Large, 2 * MIB, 0));
    volume.write(file, 1000, &bytes(MIB, 1)).unwrap();
    assert_eq!(read(&volume, file)[1000..1000 + MIB as usize], bytes(MIB, 1));
    volume.unlink(Ino::ROOT, b"filler").unwrap();
    let next = make(&volume, "next");
    volume.allocate(next, 0, 2 * MIB, Allocate::Grow).unwrap();
    assert_eq!(pages(&volume, next).aligned, 2 * MIB);
    assert_eq!(volume.check(), []);
}

#[test]
fn a_refused_call_gives_its_large_pages_back() {
    let volume = volume(&store(64 * MIB), 8 * MIB, PageSize::Large);
    let (file, other) = (make(&volume, "file"), make(&volume, "other"));
    volume.append(file, &bytes(300, 1)).unwrap();
    let grown = || volume.usage().pages - volume.usage().free_pages;
    let before = grown();
    assert!(matches!(volume.write(file, MIB, &bytes(9 * MIB, 2)), Err(Error::NoSpace { .. })));
    assert!(matches!(volume.allocate(other, 0, 100 * MIB, Allocate::Grow), Err(Error::NoSpace { .. })));
    assert_eq!((grown(), volume.attributes(file).unwrap().size), (before, 300));
    volume.resize(other, 9 * MIB).unwrap();
    let map = volume.map(other, 0, 9 * MIB, &MapOptions { writable: true, ..MapOptions::default() });
    assert!(matches!(map, Err(Error::NoSpace { .. })));
    assert_eq!(grown(), before);
    assert_eq!(volume.check(), []);
}

/// No 1 GiB of memory is touched: the pages stay unwritten but for two.
#[test]
fn pages_of_a_gibibyte_are_aligned_and_taken_whole() {
    let store = store(8 * GIB);
    let volume = volume(&store, 4 * GIB, PageSize::Small);
    let (file, small) = (make(&volume, "file"), make(&volume, "small"));
    volume.allocate(file, 0, GIB, Allocate::Grow).unwrap();
    let found = pages(&volume, file);
    assert_eq!((found.size, found.allocated, found.aligned, found.extents), (PageSize::Giant, GIB, GIB, 1));
    volume.append(small, &bytes(3 * MIB, 1)).unwrap();
    volume.write(file, GIB - 5000, &bytes(5000, 2)).unwrap();
    volume.write(file, GIB + 5, b"another page").unwrap();
    let found = pages(&volume, file);
    assert_eq!((found.allocated, found.aligned), (2 * GIB, 2 * GIB));
    let options = MapOptions { writable: true, ..MapOptions::default() };
    for at in [0, GIB] {
        let map = volume.map(file, at, 4096, &options).unwrap();
        let place = map.as_ptr().unwrap().as_ptr().addr() - volume.object().media().address().as_ptr().addr();
        assert!((place as u64 - volume.object().prime().get()).is_multiple_of(GIB), "aligned in the volume");
        assert!((place as u64).is_multiple_of(GIB), "and in the store, whose spans are aligned");
    }
    // The third is no longer whole, so that the file goes on in pages of 2 MiB.
    volume.write(file, 2 * GIB, b"x").unwrap();
    let found = pages(&volume, file);
    assert_eq!((found.allocated, found.aligned), (3 * GIB, 3 * GIB));
    volume.write(file, 3 * GIB, b"x").unwrap();
    let found = pages(&volume, file);
    assert_eq!((found.allocated, found.aligned), (3 * GIB + 2 * MIB, 3 * GIB + 2 * MIB));
    volume.unlink(Ino::ROOT, b"small").unwrap();
    assert_eq!(volume.check(), []);
}

/// A range that needs more pages than there are is refused before the volume grows for it.
#[test]
fn an_allocation_that_cannot_fit_takes_nothing() {
    for page_size in PageSize::ALL {
        let store = store(64 * MIB);
        let volume = volume(&store, 32 * MIB, page_size);
        let file = make(&volume, "file");
        volume.append(file, &[1; 5000]).unwrap();
        let before = (volume.usage(), pages(&volume, file));
        for mode in [Allocate::Grow, Allocate::KeepSize, Allocate::Zero, Allocate::ZeroKeepSize] {
            for len in [33 * MIB, 8 * GIB] {
                let refused = volume.allocate(file, 100, len, mode);
                assert!(matches!(refused, Err(Error::NoSpace { .. })), "{mode:?} {len}: {refused:?}");
                assert_eq!((volume.usage(), pages(&volume, file)), before, "{mode:?} {len}");
            }
        }
        volume.resize(file, 8 * GIB).unwrap();
        let map = volume.map(file, 0, 8 * GIB, &MapOptions { writable: true, ..MapOptions::default() });
        assert!(matches!(map, Err(Error::NoSpace { .. })), "{map:?}");
        assert_eq!((volume.usage(), pages(&volume, file)), before);
        let free = volume.available_pages() - 64; // for the chain of extents and undo records
        volume.resize(file, 5000).unwrap();
        volume.allocate(file, 0, free / 512 * 512 * 4096, Allocate::KeepSize).unwrap();
        volume.set_size(volume.usage().pages * 4096).unwrap();
        let refused = volume.allocate(file, 64 * MIB, 8 * MIB, Allocate::KeepSize);
        assert!(matches!(refused, Err(Error::SizeReached { .. })), "{refused:?}");
        assert_eq!(volume.check(), []);
    }
}

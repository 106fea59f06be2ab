//! Mapped ranges of open files: what they allow, and what they refuse.

use crate::{MAKE, files, make, root, store, volume};
use everbyte_media::{BackendChoice, Options};
use everbyte_posix::{AllocateMode, Errno, FileMap, Files, FilesOptions, MapOptions, MapPages, OpenFlags};
use everbyte_store::{CreateOptions, Store};

const READABLE: MapOptions = MapOptions { writable: false, private: false, populate: true, pages: MapPages::Any };
const WRITABLE: MapOptions = MapOptions { writable: true, populate: false, ..READABLE };
const PRIVATE: MapOptions = MapOptions { private: true, ..WRITABLE };

fn bytes(map: &FileMap) -> Vec<u8> {
    let mut into = vec![0; map.len() as usize];
    map.read(0, &mut into).unwrap();
    into
}

#[test]
fn a_mapping_is_the_file() {
    let files = files();
    let process = root(&files);
    let file = make(&process, "f", &[1; 10_000]);
    let map = file.map(4096, 1 << 20, &WRITABLE).unwrap();
    assert_eq!(map.len(), 10_000 - 4096);
    map.write(10, b"stored").unwrap();
    map.store(64, 9).unwrap();
    let mut into = [0; 6];
    file.read_at(&mut into, 4106).unwrap();
    assert_eq!(&into, b"stored");
    file.write_at(&[2; 9000], 500).unwrap();
    assert_eq!(bytes(&map)[..100], [2; 100]);
    map.flush(0, 8).unwrap();
    map.fence();
    map.sync(0, map.len()).unwrap();
    let address = map.as_ptr().map(|address| address.as_ptr().addr());
    assert!(address.is_none_or(|address| address.is_multiple_of(4096)), "a file in parts has none");
    assert!(map.part_count() > 0 && !map.is_empty());
    let read = process.open("f", OpenFlags::empty(), 0).unwrap().map(0, 10_000, &READABLE).unwrap();
    drop(file);
    assert_eq!(bytes(&read)[4096..], bytes(&map));
    process.remove("f").unwrap();
    map.store(0, 5).unwrap();
    assert_eq!(read.load(4096).unwrap(), 5, "mappings keep the file");
}

#[test]
fn mappings_are_refused_as_linux_refuses_them() {
    let files = files();
    let process = root(&files);
    let file = make(&process, "f", &[1; 10_000]);
    let map = file.map(0, 10_000, &READABLE).unwrap();
    assert_eq!(map.write(0, b"x").unwrap_err(), Errno::EACCES);
    assert_eq!(map.store(0, 1).unwrap_err(), Errno::EACCES);
    assert_eq!(map.load(4).unwrap_err(), Errno::EINVAL);
    assert_eq!(map.read(9999, &mut [0; 2]).unwrap_err(), Errno::EFAULT);
    assert_eq!(map.sync(10_000, 1).unwrap_err(), Errno::EFAULT);
    for (at, len, errno) in [(0, 0, Errno::EINVAL), (8, 8, Errno::EINVAL), (12_288, 1, Errno::ENXIO)] {
        assert_eq!(file.map(at, len, &WRITABLE).unwrap_err(), errno);
    }
    let open = |path: &str, flags: OpenFlags| process.open(path, flags, 0o644).unwrap();
    let errno = |flags: OpenFlags, options: &MapOptions| open("f", flags).map(0, 1, options).unwrap_err().errno();
    assert_eq!(errno(OpenFlags::empty(), &WRITABLE), Errno::EACCES);
    assert_eq!(errno(OpenFlags::WRONLY, &WRITABLE), Errno::EACCES);
    assert_eq!(errno(OpenFlags::WRONLY, &READABLE), Errno::EACCES);
    assert_eq!(errno(OpenFlags::PATH, &READABLE), Errno::EACCES);
    process.make_directory("d", 0o755).unwrap();
    assert_eq!(open("d", OpenFlags::empty()).map(0, 1, &READABLE).unwrap_err(), Errno::ENODEV);
    // Calls that would take its pages.
    assert_eq!(file.set_size(9999).unwrap_err(), Errno::EBUSY);
    assert_eq!(process.open("f", OpenFlags::RDWR | OpenFlags::TRUNC, 0).unwrap_err(), Errno::EBUSY);
    let punch = AllocateMode::PUNCH_HOLE | AllocateMode::KEEP_SIZE;
    assert_eq!(file.allocate(punch, 0, 4096).unwrap_err(), Errno::EBUSY);
    assert_eq!(file.allocate(AllocateMode::COLLAPSE_RANGE, 0, 4096).unwrap_err(), Errno::EBUSY);
    drop(map);
    file.allocate(punch, 0, 4096).unwrap();
}

/// A read-only use takes no pages: holes stay.
#[test]
fn a_read_only_volume_is_mapped_as_it_is() {
    let volume = volume(&store(), everbyte_fs::system_clock);
    let process = root(&Files::new(volume.clone(), FilesOptions::default()));
    make(&process, "f", b"bytes").set_size(20_000).unwrap();
    let before = process.status("f").unwrap();
    let files = Files::new(volume, FilesOptions { read_only: true, ..FilesOptions::default() });
    let file = root(&files).open("f", OpenFlags::empty(), 0).unwrap();
    let map = file.map(0, 20_000, &READABLE).unwrap();
    assert_eq!((&bytes(&map)[..7], map.len()), (&b"bytes\0\0"[..], 20_000));
    assert_eq!(process.status("f").unwrap(), before);
}

/// Stores that were not synced are there after the volume was closed, also on a disk.
#[test]
fn the_end_of_a_mapping_loses_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (store, files) = created(&path, BackendChoice::File);
    let process = root(&files);
    let file = process.open("f", MAKE, 0o644).unwrap();
    file.set_size(3 * 4096).unwrap();
    let map = file.map(0, 3 * 4096, &WRITABLE).unwrap();
    assert_eq!(map.as_ptr(), None, "stores through an address would not reach the log");
    map.write(5000, b"stored").unwrap();
    drop((map, file, process));
    files.close().unwrap();
    store.close().unwrap();
    drop(store);
    let store = Store::open(&path, &Options::default()).unwrap();
    let volume = everbyte_fs::Volume::open(store.object("files").unwrap()).unwrap();
    let process = root(&Files::new(volume, FilesOptions::default()));
    let mut into = [0; 6];
    process.open("f", OpenFlags::empty(), 0).unwrap().read_at(&mut into, 5000).unwrap();
    assert_eq!(&into, b"stored");
}

fn created(path: &std::path::Path, backend: BackendChoice) -> (Store, Files) {
    let media = Options { backend, ..Options::default() };
    let store = Store::create(path, &CreateOptions { max: 64 << 20, media, ..CreateOptions::default() }).unwrap();
    let files = Files::new(volume(&store, everbyte_fs::system_clock), FilesOptions::default());
    (store, files)
}

/// A page was replaced, so that the file lies in three parts: one range of addresses where the
/// store is shared memory, and the same answers where it is not.
#[test]
fn a_file_in_parts_is_mapped_side_by_side() {
    for backend in [BackendChoice::Shm, BackendChoice::File] {
        let folder = tempfile::tempdir().unwrap();
        let (_store, files) = created(&folder.path().join("store"), backend);
        let process = root(&files);
        let file = make(&process, "f", &[1; 10 * 4096]);
        file.write_at(&[2; 4096], 5 * 4096).unwrap();
        for pages in [MapPages::Any, MapPages::Small, MapPages::Large] {
            let map = file.map(4096, 9 * 4096, &MapOptions { populate: true, pages, ..WRITABLE }).unwrap();
            assert_eq!(map.part_count(), 3);
            assert_eq!(map.as_ptr().is_some(), backend == BackendChoice::Shm);
            let mut whole = vec![0; 10 * 4096];
            file.read_at(&mut whole, 0).unwrap();
            assert_eq!(bytes(&map), whole[4096..]);
            map.write(4 * 4096 - 3, b"over the edge").unwrap();
            map.store(8, 7).unwrap();
            map.sync(0, map.len()).unwrap();
            file.write_at(&[3; 9000], 8000).unwrap();
            file.read_at(&mut whole, 0).unwrap();
            assert_eq!(whole[5 * 4096 - 3..5 * 4096 + 10], *b"over the edge");
            assert_eq!(bytes(&map), whole[4096..]);
            assert_eq!(map.load(8).unwrap(), 7);
            assert_eq!(map.load(4096).unwrap(), u64::from_le_bytes([3; 8]));
        }
    }
}

#[test]
fn stores_to_a_private_mapping_stay_in_it() {
    for backend in [BackendChoice::Shm, BackendChoice::File] {
        let folder = tempfile::tempdir().unwrap();
        let (_store, files) = created(&folder.path().join("store"), backend);
        let process = root(&files);
        make(&process, "f", &[1; 3 * 4096]).set_size(5 * 4096).unwrap();
        make(&process, "small", b"remember");
        let before = process.status("f").unwrap();
        let file = process.open("f", OpenFlags::empty(), 0).unwrap();
        let map = file.map(4096, 4 * 4096, &PRIVATE).unwrap();
        map.write(4090, b"over the edge").unwrap();
        map.store(3 * 4096, 5).unwrap();
        map.sync(0, map.len()).unwrap();
        assert_eq!((map.load(3 * 4096).unwrap(), map.load(0).unwrap()), (5, u64::from_le_bytes([1; 8])));
        let mut content = vec![0; 5 * 4096];
        file.read_at(&mut content, 0).unwrap();
        assert_eq!(content, [vec![1; 3 * 4096], vec![0; 2 * 4096]].concat(), "the file is as it was");
        assert!(map.as_ptr().is_some());
        let now = process.status("f").unwrap();
        assert_eq!((now.modified, now.allocated), (before.modified, before.allocated));
        let small = process.open("small", OpenFlags::empty(), 0).unwrap().map(0, 100, &PRIVATE).unwrap();
        small.write(2, b"tire").unwrap();
        assert_eq!(bytes(&small), b"retireer");
        let read_only = MapOptions { private: true, ..READABLE };
        let map = file.map(0, 4096, &read_only).unwrap();
        assert_eq!(map.write(0, b"x").unwrap_err(), Errno::EACCES);
        drop((map, small));
        process.open("small", OpenFlags::RDWR, 0).unwrap().set_size(0).unwrap();
        assert_eq!(files.volume().check(), []);
    }
}

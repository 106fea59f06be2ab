//! Options of a volume in use, and what of it is durable when.

use crate::{MAKE, files, make, root, store, volume};
use everbyte_fs::{SealCursor, StepLimits, Volume};
use everbyte_media::{BackendChoice, Options};
use everbyte_posix::{AllocateMode, Errno, Files, FilesOptions, OpenFlags, RenameFlags, Rights, Seek};
use everbyte_store::{CreateOptions, OpenOptions, Store};
use std::path::{Path, PathBuf};

/// A read-only volume answers all that changes nothing, and refuses the rest.
#[test]
fn a_read_only_volume_refuses_changes() {
    let volume = volume(&store(), everbyte_fs::system_clock);
    let process = root(&Files::new(volume.clone(), FilesOptions::default()));
    make(&process, "f", b"bytes");
    process.make_directory("d", 0o755).unwrap();
    let before = process.status("f").unwrap();
    let files = Files::new(volume, FilesOptions { read_only: true, ..FilesOptions::default() });
    let process = root(&files);
    let file = process.open("f", OpenFlags::empty(), 0).unwrap();
    assert_eq!(file.read(&mut [0; 9]).unwrap(), 5);
    process.open("f", OpenFlags::CREAT, 0o600).unwrap();
    let refused = [
        process.open("f", OpenFlags::RDWR, 0).map(drop),
        process.open("f", OpenFlags::TRUNC, 0).map(drop),
        process.open("new", MAKE, 0o600).map(drop),
        process.make_directory("new", 0o700).map(drop),
        process.remove("f"),
        process.remove_directory("d"),
        process.rename("f", "g", RenameFlags::empty()),
        process.link("f", "g"),
        process.set_mode("f", 0o600),
        process.truncate("f", 0),
        process.access("f", Rights::WRITE),
        files.seal_step(&mut SealCursor::default(), &StepLimits::default()).map(drop),
    ];
    refused.into_iter().for_each(|refused| assert_eq!(refused.unwrap_err(), Errno::EROFS));
    assert_eq!(process.status("f").unwrap(), before, "no time has changed");
    assert!(files.status().read_only);
}

/// A snapshot is read by paths from its root, and refuses changes; a clone brings a file back.
#[test]
fn a_snapshot_is_read_by_paths() {
    let files = files();
    let process = root(&files);
    for path in ["d", "d/below", "e"] {
        process.make_directory(path, 0o755).unwrap();
    }
    make(&process, "d/file", b"old bytes");
    let snapshot = files.volume().snapshot(b"monday").unwrap().root;
    make(&process, "d/file", b"new").set_size(3).unwrap();
    let file = process.open((snapshot, "d/file"), OpenFlags::empty(), 0).unwrap();
    let mut bytes = [0; 20];
    assert_eq!(file.read(&mut bytes).unwrap(), 9);
    assert_eq!(&bytes[..9], b"old bytes");
    assert_eq!(process.status((snapshot, "d/../d/file")).unwrap().size, 9);
    let listed = process.open((snapshot, "."), OpenFlags::DIRECTORY, 0).unwrap().entries(9).unwrap();
    assert_eq!(listed.len(), 4);
    let refused = [
        process.set_mode((snapshot, "d"), 0o700),
        process.remove((snapshot, "d/file")),
        process.open((snapshot, "d/file"), OpenFlags::RDWR, 0).and_then(|file| file.write(b"x")).map(drop),
        process.open((snapshot, "d/new"), MAKE, 0o600).map(drop),
        process.rename((snapshot, "d/file"), "taken", RenameFlags::empty()),
        process.rename("d", (snapshot, "x"), RenameFlags::empty()),
        process.rename((snapshot, "d/below"), (snapshot, "e/moved"), RenameFlags::empty()),
    ];
    refused.into_iter().for_each(|refused| assert_eq!(refused.unwrap_err(), Errno::EROFS));
    let back = process.open("d/back", MAKE, 0o644).unwrap();
    file.clone_range(0, &back, 0, 0).unwrap();
    assert_eq!(back.status().unwrap().size, 9);
    assert_eq!(files.volume().check(), []);
}

/// The figures follow what files take and give back.
#[test]
fn figures_follow_the_files() {
    let files = files();
    let process = root(&files);
    make(&process, "first", b""); // the directory has a page now
    let before = files.status();
    let file = make(&process, "f", &[1; 40_960]);
    let with = files.status();
    assert_eq!(before.free_blocks - with.free_blocks, 10);
    assert_eq!(before.blocks, with.blocks);
    assert_eq!(file.status().unwrap().allocated, 40_960);
    file.allocate(AllocateMode::KEEP_SIZE, 40_960, 8192).unwrap();
    assert_eq!(before.free_blocks - files.status().free_blocks, 12);
    file.allocate(AllocateMode::PUNCH_HOLE | AllocateMode::KEEP_SIZE, 0, 16_384).unwrap();
    assert_eq!(before.free_blocks - files.status().free_blocks, 8);
    assert_eq!(file.seek(Seek::Data(0)).unwrap(), 16_384);
    assert_eq!(file.seek(Seek::Hole(16_384)).unwrap(), 40_960);
    drop(file);
    process.remove("f").unwrap();
    assert_eq!((files.status().free_blocks, files.status().free_inodes), (before.free_blocks, before.free_inodes));
}

/// Modes of `fallocate` that exclude each other, and ranges that are no pages.
#[test]
fn modes_of_allocation() {
    let files = files();
    let process = root(&files);
    let file = make(&process, "f", &[1; 20_000]);
    let errno = |mode: AllocateMode, at, len| file.allocate(mode, at, len).unwrap_err().errno();
    let (punch, keep) = (AllocateMode::PUNCH_HOLE, AllocateMode::KEEP_SIZE);
    assert_eq!(errno(punch, 0, 4096), Errno::EOPNOTSUPP);
    assert_eq!(errno(punch | AllocateMode::ZERO_RANGE | keep, 0, 4096), Errno::EINVAL);
    assert_eq!(errno(AllocateMode::COLLAPSE_RANGE | keep, 0, 4096), Errno::EINVAL);
    assert_eq!(errno(AllocateMode::from_bits_retain(0x8000), 0, 4096), Errno::EOPNOTSUPP);
    assert_eq!(errno(AllocateMode::empty(), 0, 0), Errno::EINVAL);
    assert_eq!(errno(AllocateMode::empty(), u64::MAX - 5, 10), Errno::EFBIG);
    assert_eq!(errno(AllocateMode::COLLAPSE_RANGE, 100, 4096), Errno::EINVAL);
    assert_eq!(errno(AllocateMode::COLLAPSE_RANGE, 4096, 16_384), Errno::EINVAL, "to the end");
    assert_eq!(errno(AllocateMode::INSERT_RANGE, 20_480, 4096), Errno::EINVAL, "behind the end");
    file.allocate(AllocateMode::INSERT_RANGE, 4096, 8192).unwrap();
    file.allocate(AllocateMode::COLLAPSE_RANGE, 0, 4096).unwrap();
    assert_eq!(file.status().unwrap().size, 20_000 + 4096);
    let mut bytes = vec![9; 24_096];
    file.read_at(&mut bytes, 0).unwrap();
    assert!(bytes[..8192].iter().all(|&byte| byte == 0) && bytes[8192..].iter().all(|&byte| byte == 1));
    file.allocate(AllocateMode::ZERO_RANGE, 8192, 100_000).unwrap();
    assert_eq!(file.status().unwrap().size, 108_192);
    process.make_directory("d", 0o755).unwrap();
    let reader = process.open("f", OpenFlags::empty(), 0).unwrap();
    assert_eq!(reader.allocate(keep, 0, 1).unwrap_err(), Errno::EBADF);
}

/// A name, and the size of its file; `None`: there is none.
type NamedSize = (&'static str, Option<u64>);

/// Copies of a store, each as a power cut would leave it then, and the sizes of files in it.
struct PowerCuts<'a> {
    store: &'a Path,
    copies: Vec<(PathBuf, Vec<NamedSize>)>,
}

impl PowerCuts<'_> {
    fn expect(&mut self, sizes: &[NamedSize]) {
        let copy = self.store.with_extension(self.copies.len().to_string());
        std::fs::copy(self.store, &copy).unwrap();
        self.copies.push((copy, sizes.to_vec()));
    }

    /// Opens the copies, once the store is closed, whose identity they have.
    fn check(self) {
        for (index, (copy, sizes)) in self.copies.into_iter().enumerate() {
            let opened = OpenOptions::new(&copy).open(&Options::default()).unwrap();
            let volume = Volume::open(opened.object("files").unwrap()).unwrap();
            let process = root(&Files::new(volume, FilesOptions::default()));
            for (name, size) in sizes {
                assert_eq!(process.status(name).ok().map(|status| status.size), size, "power cut {index}: {name}");
            }
            drop(process);
            opened.close().unwrap();
        }
    }
}

/// In a file on a disk a call is durable after `sync`, with the flag of synchronous writes, or with
/// the option `sync`; other calls are ordered before it.
#[test]
fn on_a_disk_calls_are_durable_when_they_say_so() {
    let folder = tempfile::tempdir().unwrap();
    for sync in [false, true] {
        let path = folder.path().join(format!("store-{sync}"));
        let media = Options { backend: BackendChoice::File, background: false, ..Options::default() };
        let options = CreateOptions { media, max: 256 << 20, ..CreateOptions::default() };
        let store = Store::create(&path, &options).unwrap();
        let volume = volume(&store, everbyte_fs::system_clock);
        let files = Files::new(volume, FilesOptions { sync, ..FilesOptions::default() });
        let process = root(&files);
        files.sync().unwrap();
        let first = make(&process, "first", b"1");
        let mut cuts = PowerCuts { store: &path, copies: Vec::new() };
        cuts.expect(&[("first", if sync { Some(1) } else { None })]);
        first.sync().unwrap();
        cuts.expect(&[("first", Some(1))]);
        first.write_at(b"22", 0).unwrap();
        let second = process.open("second", MAKE | OpenFlags::DSYNC, 0o644).unwrap();
        second.write(b"333").unwrap();
        cuts.expect(&[("first", Some(2)), ("second", Some(3))]); // with all that came before it
        second.allocate(AllocateMode::empty(), 0, 3 * 4096).unwrap();
        cuts.expect(&[("second", Some(3 * 4096))]);
        process.rename("second", "third", RenameFlags::empty()).unwrap();
        let allocated = Some(3 * 4096);
        let (old, new) = if sync { (None, allocated) } else { (allocated, None) };
        cuts.expect(&[("second", old), ("third", new)]);
        drop(process.open_handle(&process.handle("first").unwrap(), OpenFlags::RDWR | OpenFlags::TRUNC).unwrap());
        cuts.expect(&[("first", if sync { Some(0) } else { Some(2) })]);
        drop((first, second, process, files));
        drop(store);
        cuts.check();
    }
}

//! A volume in which few pages are left: a call that is refused has changed nothing and has given
//! back all that it took, wherever on its way the pages ended.

use everbyte_fs::{
    Allocate, Error, FileKind, Ino, MapOptions, NewFile, QuotaKind, QuotaLimit, QuotaLimits, Rename, Result, SetXattr,
    Volume, VolumeOptions, model,
};
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};

const ROOT: Ino = Ino::ROOT;
const FILE: NewFile<'_> =
    NewFile { kind: FileKind::Regular, permissions: 0o644, uid: 0, gid: 0, device: 0, target: b"", xattrs: &[] };

/// The files of every volume of this test.
struct Files {
    small: Ino,
    large: Ino,
    /// Its inode has no slot left.
    sparse: Ino,
    /// A change of all of its extents is longer than a lane.
    fragments: Ino,
    /// Another file has its pages, too.
    shared: Ino,
    /// A directory without a free line.
    directory: Ino,
    /// Free pages follow its last one.
    fill: Ino,
}

/// A volume with so many free pages, which cannot grow.
fn nearly_full(free: u64) -> Result<(Volume, Files)> {
    let store = Store::format(Media::anonymous(8 << 20, &Options::default())?, &FormatOptions::default())?;
    let options = VolumeOptions { lanes: 1, span: Some(2 << 20), ..Default::default() };
    let volume = Volume::create(&store, "volume", &options)?;
    let [small, large, sparse, fragments, shared, other] = [b"small", b"large", b"spars", b"fragm", b"share", b"other"]
        .map(|name| volume.make(ROOT, name, &FILE).unwrap());
    volume.append(small, &[1; 100])?;
    volume.append(large, &[2; 20_000])?;
    for number in 0..8 {
        volume.write(sparse, number * 8192, &[3; 10])?;
    }
    for number in 0..90 {
        volume.write(fragments, number * 8192, &[4; 10])?;
    }
    volume.append(shared, &[7; 5000])?;
    volume.clone_range(shared, 0, other, 0, 0)?;
    let directory = volume.make(ROOT, b"directory", &NewFile { kind: FileKind::Directory, ..FILE })?;
    for number in 0..64 {
        volume.link(small, directory, format!("name {number}").as_bytes())?;
    }
    while volume.usage().free_inodes > 0 {
        volume.make(ROOT, format!("inode {}", volume.usage().free_inodes).as_bytes(), &FILE)?;
    }
    volume.unlink(ROOT, b"inode 1")?; // one inode is free
    let (fill, spare) = (volume.lookup(ROOT, b"inode 2")?.unwrap(), volume.lookup(ROOT, b"inode 3")?.unwrap());
    for _ in 0..free / 2 {
        volume.append(spare, &[5; 4096])?;
    }
    while volume.append(fill, &[6; 4096]).is_ok() {}
    volume.resize(spare, 0)?;
    // The other half lies behind the pages of `fill`.
    volume.resize(fill, volume.attributes(fill)?.size - (free - free / 2) * 4096)?;
    assert_eq!(volume.usage().free_pages, free);
    Ok((volume, Files { small, large, sparse, fragments, shared, directory, fill }))
}

type Call = fn(&Volume, &Files) -> Result<()>;

/// Calls that need between one page and many.
const CALLS: &[(&str, Call)] = &[
    ("a small file leaves its inode", |volume, files| volume.write(files.small, 50, &[9; 200])),
    ("a small file gets holes and pages", |volume, files| volume.write(files.small, 9000, &[9; 9000])),
    ("an append", |volume, files| volume.append(files.large, &[9; 30_000]).map(drop)),
    ("an append to the next pages, and others", |volume, files| volume.append(files.fill, &[9; 30_000]).map(drop)),
    ("an append that needs a slot", |volume, files| volume.write(files.sparse, 100_000, &[9; 10_000])),
    ("an overwrite", |volume, files| volume.write(files.large, 100, &[9; 16_000])),
    ("an overwrite that splits an extent", |volume, files| volume.write(files.large, 4096, &[9; 4096])),
    ("a write into a hole", |volume, files| volume.write(files.sparse, 4096, &[9; 4096])),
    ("a write over holes and pages", |volume, files| volume.write(files.sparse, 100, &[9; 30_000])),
    ("a hole with two edges", |volume, files| volume.allocate(files.large, 100, 10_000, Allocate::Punch)),
    ("zeros with two edges", |volume, files| volume.allocate(files.sparse, 5, 30_000, Allocate::Zero)),
    ("zeros behind the end", |volume, files| volume.allocate(files.large, 100, 40_000, Allocate::ZeroKeepSize)),
    ("allocation", |volume, files| volume.allocate(files.sparse, 0, 60_000, Allocate::Grow)),
    ("allocation behind the end", |volume, files| volume.allocate(files.large, 0, 60_000, Allocate::KeepSize)),
    ("a range comes in", |volume, files| volume.insert(files.fragments, 8192, 8192)),
    ("a range comes into a small file", |volume, files| volume.insert(files.small, 0, 4096)),
    ("a range leaves", |volume, files| volume.collapse(files.fragments, 8192, 8192)),
    ("an attribute", |volume, files| volume.set_xattr(files.large, b"user.a", &[9; 9000], SetXattr::Any)),
    ("a name in a full directory", |volume, files| volume.link(files.large, files.directory, b"new")),
    ("a file in a full directory", |volume, files| volume.make(files.directory, b"new", &FILE).map(drop)),
    ("a rename into a full directory", |volume, files| {
        volume.rename(ROOT, b"large", files.directory, b"new", Rename::Replace)
    }),
    ("a whiteout of a rename into a full directory", |volume, files| {
        let file = NewFile { kind: FileKind::CharDevice, ..FILE };
        volume.rename(ROOT, b"large", files.directory, b"new", Rename::Whiteout { replace: false, file })
    }),
    ("a small file gets a larger size", |volume, files| volume.resize(files.small, 9000)),
    ("a mapping of holes", |volume, files| {
        volume.map(files.sparse, 0, 60_000, &MapOptions { writable: true, ..MapOptions::default() }).map(drop)
    }),
    ("a clone into a file with no slot", |volume, files| {
        volume.clone_range(files.fragments, 0, files.sparse, 0, 0).map(drop)
    }),
    ("a copy of parts of pages", |volume, files| {
        volume.copy_range(files.large, 100, files.sparse, 50, 15_000).map(drop)
    }),
    ("a write to a shared page", |volume, files| volume.write(files.shared, 100, &[9; 64])),
    ("an append to a shared page", |volume, files| volume.append(files.shared, &[9; 64]).map(drop)),
    ("a special file with a long attribute", |volume, _| {
        let xattrs: &[(&[u8], &[u8])] = &[(b"user.a", &[9; 9000])];
        volume.make(ROOT, b"pipe", &NewFile { kind: FileKind::Pipe, xattrs, ..FILE }).map(drop)
    }),
    ("limits", |volume, _| {
        let limit = QuotaLimit { hard: 1 << 30, ..QuotaLimit::default() };
        volume.set_quota(QuotaKind::User, 7, &QuotaLimits { bytes: limit, inodes: limit })
    }),
    ("a snapshot", |volume, _| volume.snapshot(b"snapshot").map(drop)),
    ("a long target", |volume, _| {
        let target = [b'x'; 500];
        volume.make(ROOT, b"link", &NewFile { kind: FileKind::Link, target: &target, ..FILE }).map(drop)
    }),
    ("a long target without a name", |volume, _| {
        let target = [b'x'; 500];
        volume.make_unnamed(&NewFile { kind: FileKind::Link, target: &target, ..FILE }).map(drop)
    }),
    ("two files, of which one needs a group of inodes", |volume, files| {
        let one = volume.make(files.directory, b"one", &FILE);
        let undo = |_: Error| one.is_ok().then(|| volume.unlink(files.directory, b"one").unwrap());
        volume.make(files.directory, b"two", &FILE).map(drop).inspect_err(|_| _ = undo(Error::Exists))
    }),
];

#[test]
fn a_refused_call_gives_back_all_that_it_took() {
    let mut refused = 0;
    for free in 0..9 {
        for (what, call) in CALLS {
            let (volume, files) = nearly_full(free).unwrap();
            let (before, usage) = (model::read(&volume).unwrap(), volume.usage());
            let outcome = call(&volume, &files);
            assert_eq!(volume.check(), [], "{what}, {free} free pages");
            let Err(error) = outcome else { continue };
            refused += 1;
            assert!(matches!(error, Error::NoSpace { .. }), "{what}: {error}");
            assert_eq!(model::read(&volume).unwrap(), before, "{what}, {free} free pages");
            let found = volume.usage();
            // A page that a directory or a chain of extents got stays theirs.
            let object = volume.object().clone();
            assert_eq!(found.free_inodes, usage.free_inodes, "{what}, {free} free pages");
            drop(volume);
            let volume = Volume::open(object).unwrap();
            assert_eq!(volume.usage(), found, "{what}, {free} free pages: none is lost");
            assert!(found.free_pages + 2 >= usage.free_pages, "{what}: {usage:?}, then {found:?}");
        }
    }
    assert!(refused > 60, "{refused} calls were refused");
}

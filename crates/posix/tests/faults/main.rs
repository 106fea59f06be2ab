//! Bad days: damage and its policies, a disk whose syncs fail, a volume that is full in the middle
//! of each call.

use everbyte_fs::{Volume, VolumeOptions, layout};
use everbyte_media::{BackendChoice, ErrorInfo, ErrorKind, Media, OpenOptions as OpenMedia, Options};
use everbyte_posix::{
    AllocateMode, At, Errno, Files, FilesOptions, MapOptions, OnDamage, OpenFlags, Process, RenameFlags, Result, Seek,
    SetXattr, User,
};
use everbyte_sim::{DiskCall, Image, RecordedDisk, fault_loop};
use everbyte_store::{CLUSTER, CreateOptions, FormatOptions, Store};
use std::sync::Mutex;

const MAKE: OpenFlags = OpenFlags::CREAT.union(OpenFlags::RDWR);

fn create(media: Media) -> (Store, Volume) {
    let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some([7; 16]) }).unwrap();
    let options = VolumeOptions { lanes: 2, span: Some(8 << 20), uuid: Some([1; 16]), ..Default::default() };
    let volume = Volume::create(&store, "home", &options).unwrap();
    (store, volume)
}

fn root(volume: &Volume, options: FilesOptions) -> Process {
    Files::new(volume.clone(), options).process(User::root()).unwrap()
}

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

static RENAMED: Mutex<Vec<String>> = Mutex::new(Vec::new());

static CLOSED: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn lines() -> Vec<String> {
    std::mem::take(&mut LINES.lock().unwrap())
}

/// Damage of one file is the errno of its calls and one line of the log, with the volume, the path
/// and the place. Other files go on, or not, as the policy says.
#[test]
fn damage_is_told_once_a_call_and_rules_what_follows() {
    for on_damage in [OnDamage::Continue, OnDamage::ReadOnly, OnDamage::Stop] {
        let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
        let (_store, volume) = create(media.clone());
        let log = |line: &str| LINES.lock().unwrap().push(line.into());
        let process = root(&volume, FilesOptions { on_damage, log, ..FilesOptions::default() });
        process.make_directory("d", 0o755).unwrap();
        for name in ["d/good", "d/bad"] {
            process.open(name, MAKE, 0o644).unwrap().write(b"bytes").unwrap();
        }
        // The owner of the inode fails its checksum.
        let bad = process.status("d/bad").unwrap().ino;
        let made = process.status("d/bad").unwrap().accessed;
        let start = volume.object().prime().get();
        let inode = (start..media.len())
            .step_by(layout::INODE as usize)
            .filter(|&at| media.holds(at, layout::INODE))
            .find(|&at| media.load(at + layout::inode::ACCESSED) as i64 == made)
            .unwrap();
        let section = media.section(); // its pages are guarded
        media.store(inode + layout::inode::OWNER, media.load(inode + layout::inode::OWNER) ^ 1 << 40);
        drop(section);
        drop(lines());
        assert_eq!(process.status("d/bad").unwrap_err(), Errno::EUCLEAN);
        let told = lines();
        assert_eq!(told.len(), 1, "{told:?}");
        for part in ["home", "d/bad", &format!("inode {bad}"), "EUCLEAN", "fsck"] {
            assert!(told[0].contains(part), "{part}: {}", told[0]);
        }
        let reads = process.open("d/good", OpenFlags::empty(), 0).map(drop);
        let writes = process.open("d/new", MAKE, 0o600).map(drop);
        match on_damage {
            OnDamage::Continue => assert!(reads.is_ok() && writes.is_ok()),
            OnDamage::ReadOnly => {
                reads.unwrap();
                assert_eq!(writes.unwrap_err(), Errno::EROFS);
            }
            OnDamage::Stop => {
                assert_eq!(reads.unwrap_err(), Errno::EIO);
                assert_eq!(writes.unwrap_err(), Errno::EIO);
                let files = process.files();
                assert_eq!(files.sync().unwrap_err(), Errno::EIO);
                files.settle().unwrap(); // what had returned before
            }
        }
    }
}

/// The extent of an open file is damaged: each call that needs it is one line with the path.
#[test]
fn calls_on_a_damaged_open_file_are_told() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let (store, volume) = create(media.clone());
    let process = root(&volume, FilesOptions::default());
    let other = process.open("other", MAKE, 0o644).unwrap();
    other.write(b"bytes").unwrap();
    let bad = process.open("bad", MAKE, 0o644).unwrap();
    bad.write(&[7; 9000]).unwrap();
    let ino = bad.ino();
    drop((bad, other, process, volume)); // the index of its extents, too
    let volume = Volume::open(store.object("home").unwrap()).unwrap();
    let log = |line: &str| TOLD.lock().unwrap().push(line.into());
    let process = root(&volume, FilesOptions { log, ..FilesOptions::default() });
    let [bad, other] = ["bad", "other"].map(|name| process.open(name, OpenFlags::RDWR, 0).unwrap());
    let inodes = volume.object().prime().get() + (layout::LANES_PAGE + 2 + 2) * layout::PAGE;
    let place = inodes + ino.0 * layout::INODE + layout::inode::INLINE + 8;
    let section = media.section(); // its pages are guarded
    media.store(place, media.load(place) ^ 1 << 40);
    drop(section);
    let mut buffer = [0; 10];
    let calls: [(&str, &mut dyn FnMut() -> Result<()>); 9] = [
        ("read", &mut || bad.read_at(&mut buffer, 0).map(drop)),
        ("write", &mut || bad.write_at(&[1; 9], 0).map(drop)),
        ("seek to data", &mut || bad.seek(Seek::Data(0)).map(drop)),
        ("seek to a hole", &mut || bad.seek(Seek::Hole(0)).map(drop)),
        ("set_size", &mut || bad.set_size(1)),
        ("allocate", &mut || bad.allocate(AllocateMode::empty(), 0, 4096)),
        ("copy_range", &mut || bad.copy_range(0, &other, 0, 9000).map(drop)),
        ("clone_range", &mut || bad.clone_range(0, &other, 0, 4096).map(drop)),
        ("map", &mut || bad.map(0, 4096, &MapOptions::default()).map(drop)),
    ];
    for (name, call) in calls {
        assert_eq!(call().unwrap_err(), Errno::EUCLEAN, "{name}");
        let told = std::mem::take(&mut *TOLD.lock().unwrap());
        assert_eq!(told.len(), 1, "{name}: {told:?}");
        let path = if name.contains("_range") { "`bad` to `other`: " } else { "`bad`: " };
        for part in ["home", "EUCLEAN", &format!("inode {ino}"), path] {
            assert!(told[0].contains(part), "{name}: {part}: {}", told[0]);
        }
    }
    // By its number, as a mount opens files.
    let bad = process.open(At::file(ino), OpenFlags::empty(), 0).unwrap();
    assert_eq!(bad.read_at(&mut buffer, 0).unwrap_err(), Errno::EUCLEAN);
    let told = std::mem::take(&mut *TOLD.lock().unwrap()).concat();
    assert!(told.contains("home") && told.contains(&format!("inode {ino}")) && !told.contains("``"), "{told}");
    other.read_at(&mut buffer, 0).unwrap();
}

/// A flipped bit of the word that leads to the directory above, which could lead in a circle: a
/// rename below it is refused, and ends. The line of the log names both paths.
#[test]
fn a_damaged_parent_ends_a_rename() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let (_store, volume) = create(media.clone());
    let log = |line: &str| RENAMED.lock().unwrap().push(line.into());
    let process = root(&volume, FilesOptions { log, ..FilesOptions::default() });
    let [above, below, start] = ["a", "a/b", "a/b/c"].map(|path| process.make_directory(path, 0o755).unwrap());
    process.make_directory("moved", 0o755).unwrap();
    assert_eq!(above.0 ^ below.0, 1, "one bit apart");
    let inodes = volume.object().prime().get() + (layout::LANES_PAGE + 2 + 2) * layout::PAGE;
    let parent = inodes + below.0 * layout::INODE + layout::inode::PARENT;
    assert_eq!(media.load(parent), above.0);
    let section = media.section(); // its pages are guarded
    media.store(parent, below.0);
    drop(section);
    // The damaged directory lies above the start, so that the path itself does not meet it.
    let renamed = process.rename("moved", (start, "into"), RenameFlags::empty());
    assert_eq!(renamed.unwrap_err(), Errno::EUCLEAN);
    let told = std::mem::take(&mut *RENAMED.lock().unwrap());
    assert!(told.len() == 1 && told[0].contains("`moved` to `into`: "), "{told:?}");
    process.rename("moved", "a/moved", RenameFlags::empty()).unwrap();
}

/// A disk whose syncs fail: the call says so, the store is poisoned and later changes fail whatever
/// the policy of damage, and the log tells of the failed closing.
#[test]
fn a_failed_sync_ends_all_changes() {
    [OnDamage::Continue, OnDamage::ReadOnly, OnDamage::Stop].into_iter().for_each(fail_a_sync);
}

fn fail_a_sync(on_damage: OnDamage) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let media = Options { backend: BackendChoice::File, log_bytes: 1 << 20, background: false, ..Options::default() };
    let created = CreateOptions { media: media.clone(), max: 64 << 20, ..CreateOptions::default() };
    Store::create(&path, &created).unwrap().close().unwrap();
    let disk = RecordedDisk::new(&std::fs::read(&path).unwrap()).unwrap();
    let store = Store::attach(OpenMedia::new(&path).on_disk(disk.clone()).open(&media).unwrap()).unwrap();
    let volume = Volume::create(&store, "home", &VolumeOptions::default()).unwrap();
    let log = |line: &str| CLOSED.lock().unwrap().push(line.into());
    let files = Files::new(volume.clone(), FilesOptions { on_damage, log, ..FilesOptions::default() });
    let process = files.process(User::root()).unwrap();
    let file = process.open("kept", MAKE, 0o644).unwrap();
    file.write(b"kept").unwrap();
    file.sync().unwrap();
    file.write(b"and lost").unwrap();
    disk.fail(DiskCall::Sync, 0, 5);
    assert_eq!(file.sync().unwrap_err(), Errno::EIO);
    disk.heal();
    assert_eq!(file.sync().unwrap_err(), Errno::EIO, "the disk is well again, and what it lost stays lost");
    let change = if on_damage == OnDamage::ReadOnly { Errno::EROFS } else { Errno::EIO };
    for refused in [file.write(b"x").map(drop), process.make_directory("d", 0o755).map(drop)] {
        assert_eq!(refused.unwrap_err(), change, "{on_damage:?}");
    }
    // The store itself, below the policy.
    for refused in [volume.settle(), store.media().barrier().map_err(Into::into)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Poisoned, "{on_damage:?}");
    }
    drop((file, process, volume));
    CLOSED.lock().unwrap().clear();
    let refused = files.close().unwrap_err();
    let told = CLOSED.lock().unwrap().concat();
    assert!(told.contains("home") && told.contains(&refused.to_string()), "{told:?}: {refused}");
}

/// Calls of each kind, on a new volume of one cluster.
fn program(process: &Process) -> Result<()> {
    process.make_directory("d", 0o755)?;
    let file = process.open("d/file", MAKE, 0o644)?;
    for round in 0..12 {
        file.write(&vec![round; 200_000])?;
    }
    file.allocate(AllocateMode::KEEP_SIZE, 3 << 20, 1 << 20)?;
    file.allocate(AllocateMode::PUNCH_HOLE | AllocateMode::KEEP_SIZE, 5000, 100_000)?;
    process.set_xattr("d/file", b"user.note", &[1; 40_000], SetXattr::Any)?;
    process.make_link("x".repeat(3000), "d/link")?;
    for number in 0..100 {
        process.open(format!("d/{number}-{}", "n".repeat(200)).as_str(), MAKE, 0o600)?.write(&[1; 5000])?;
    }
    process.rename("d/file", "d/renamed", RenameFlags::WHITEOUT)?;
    let copy = process.open("d/copy", MAKE, 0o600)?;
    process.open("d/renamed", OpenFlags::empty(), 0)?.copy_range(0, &copy, 0, 500_000)?;
    Ok(())
}

/// Each allocation of the store fails once, as on a full disk, and each barrier from one on: the
/// call has the errno of a full volume or of a failed medium, and the volume is sound.
#[test]
fn a_full_volume_refuses_and_stays_sound() {
    let image = Image::zeroed(CLUSTER).with_max(32 << 20).then(|media| {
        let (store, volume) = create(media);
        drop(volume);
        store.close().unwrap();
    });
    let run = |media: Media| {
        let opened = Store::attach(media).and_then(|store| store.object("home"));
        let Ok(volume) = opened.map_err(|_| Errno::EIO).and_then(|object| Volume::open(object).map_err(|_| Errno::EIO))
        else {
            return Err(Errno::EIO.into());
        };
        let process = root(&volume, FilesOptions::default());
        let done = program(&process);
        let findings = volume.check();
        assert!(findings.is_empty(), "{findings:?}");
        done
    };
    let report = fault_loop(&image, run, |_, done| match done {
        Ok(()) => Ok(()),
        Err(error) if *error == Errno::ENOSPC || *error == Errno::EIO => Ok(()),
        Err(error) => Err(format!("{error}")),
    });
    assert!(report.allocations > 0, "{report:?}");
}

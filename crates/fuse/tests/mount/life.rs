//! Ends of a mount: signals, kill -9 under load, full stores and disks, a disk that fails.

use crate::harness::{Mounted, make, media, unmount_soon, works};
use everbyte_fs::{Volume, VolumeOptions};
use everbyte_fuse::{Mount, MountOptions};
use everbyte_media::{BackendChoice, ErrorInfo, ErrorKind, OpenOptions as OpenMedia};
use everbyte_sim::{DiskCall, RecordedDisk};
use everbyte_store::{CreateOptions, Store};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Calls of one writer, each followed by `fsync` where the backend needs it, noted once they have
/// returned; until the daemon is gone.
fn load(at: &Path, writer: usize, syncs: bool, done: &Mutex<Vec<(String, usize)>>) {
    let folder = at.join(format!("w{writer}"));
    for number in 0.. {
        let (name, temporary) = (folder.join(number.to_string()), folder.join("new"));
        let len = 1 + number * 977 % 20_000;
        let step = || -> std::io::Result<()> {
            if number == 0 {
                fs::create_dir(&folder)?;
            }
            let mut file = File::create(&temporary)?;
            file.write_all(&vec![number as u8; len])?;
            fs::rename(&temporary, &name)?;
            if syncs {
                file.sync_all()?;
            }
            Ok(())
        };
        if step().is_err() {
            return;
        }
        done.lock().unwrap().push((name.to_str().unwrap().into(), len));
    }
}

fn kills(backend: BackendChoice, folder: &str) {
    let mut on = Mounted::on(backend, tempfile::tempdir_in(folder).unwrap(), "");
    for round in 0..4_u64 {
        let (at, done) = (on.at.clone(), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            let (at, done) = (&at, &done);
            let writer = |writer| move || load(at, writer, backend == BackendChoice::File, done);
            let writers: Vec<_> = (0..2).map(|number| scope.spawn(writer(round as usize * 2 + number))).collect();
            let until = 20 + round as usize * 37;
            while done.lock().unwrap().len() < until {
                assert!(writers.iter().any(|writer| !writer.is_finished()), "both writers met an error");
                thread::yield_now();
            }
            on.kill();
        });
        assert_eq!(rustix::fs::statvfs(&on.at).err(), Some(rustix::io::Errno::NOTCONN), "the mount is dead");
        on.mount(); // over the dead one
        let done = done.into_inner().unwrap();
        for (name, len) in done {
            let bytes = fs::read(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
            let number: usize = Path::new(&name).file_name().unwrap().to_str().unwrap().parse().unwrap();
            assert!(bytes == vec![number as u8; len], "{name} has other bytes");
        }
        on.unmount();
        on.check();
        on.mount();
    }
}

/// After kill -9 of the daemon under load all is there that `fsync` has returned for.
#[test]
fn on_a_disk_synced_files_survive_the_daemon() {
    if works() {
        kills(BackendChoice::File, env!("CARGO_TARGET_TMPDIR"));
    }
}

/// After kill -9 of the daemon under load all is there that a call has returned for.
#[test]
fn in_memory_finished_calls_survive_the_daemon() {
    if works() {
        kills(BackendChoice::Shm, "/dev/shm");
    }
}

/// SIGTERM unmounts and closes the volume; programs that hold files open lose the use of them, not
/// the bytes.
#[test]
fn a_signal_unmounts_and_loses_nothing() {
    if !works() {
        return;
    }
    let mut on = Mounted::new();
    fs::write(on.path("a"), b"unsynced").unwrap();
    assert_eq!(on.terminate(), 0);
    assert_eq!(fs::read_dir(&on.at).unwrap().count(), 0, "the directory is no mount any more");
    on.mount();
    assert_eq!(fs::read(on.path("a")).unwrap(), b"unsynced");
    let mut open = File::create(on.path("b")).unwrap();
    open.write_all(b"written by a program that stays").unwrap();
    let start = Instant::now();
    assert_eq!(on.terminate(), 0);
    assert!(start.elapsed() < Duration::from_secs(60));
    assert_eq!(open.write_all(b"more").unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
    drop(open);
    on.mount();
    assert_eq!(fs::read(on.path("b")).unwrap(), b"written by a program that stays");
    on.unmount();
    on.check();
}

/// SIGINT and SIGHUP, as of a terminal that goes away, do as SIGTERM; also while a program holds a
/// file open and the message about that is refused.
#[test]
fn signals_of_a_terminal_unmount() {
    if !works() {
        return;
    }
    let mut on = Mounted::new();
    for signal in [Signal::INT, Signal::HUP] {
        fs::write(on.path("a"), signal.as_raw().to_string()).unwrap();
        let end = on.signal(signal);
        assert!(end.success(), "{end}");
        assert_eq!(fs::read_dir(&on.at).unwrap().count(), 0, "the directory is no mount any more");
        on.mount();
        assert_eq!(fs::read_to_string(on.path("a")).unwrap(), signal.as_raw().to_string());
    }
    on.unmount();
    let (reader, messages) = std::io::pipe().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.stderr(messages);
    on.mount_by(command);
    drop(reader);
    let open = File::create(on.path("b")).unwrap();
    let end = on.signal(Signal::HUP);
    assert!(end.success(), "{end}");
    drop(open);
    on.check();
}

/// A daemon of nohup(1) goes on when the terminal goes away.
#[test]
fn an_ignored_hangup_stays_ignored() {
    if !works() {
        return;
    }
    let mut on = Mounted::new();
    on.unmount();
    let mut command = Command::new("nohup");
    command.arg(std::env::current_exe().unwrap());
    on.mount_by(command);
    let status = fs::read_to_string(format!("/proc/{}/status", on.daemon_id())).unwrap();
    let set = |name: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap()
    };
    let bit = |signal: Signal| 1 << (signal.as_raw() - 1);
    assert_eq!(set("SigCgt:") & (bit(Signal::TERM) | bit(Signal::HUP)), bit(Signal::TERM));
    assert_eq!(set("SigIgn:") & bit(Signal::HUP), bit(Signal::HUP));
    on.unmount();
}

/// A full volume, and a full disk below the store: `ENOSPC`, and room again after a removal.
#[test]
fn a_full_store_is_told_and_has_room_again() {
    if !works() {
        return;
    }
    // Each call ends within seconds, with ENOSPC or all of its bytes.
    let fill = |on: &mut Mounted| {
        let (mut written, mut longest) = (0_u64, Duration::ZERO);
        let file = File::create(on.path("fill")).unwrap();
        let error = loop {
            let start = Instant::now();
            let done = file.write_all_at(&[9; 1 << 18], written).and_then(|()| file.sync_data());
            longest = longest.max(start.elapsed());
            match done {
                Ok(()) => written += 1 << 18,
                Err(error) => break error,
            }
            assert!(written < 1 << 30);
        };
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "after {written} bytes: {error}");
        assert!(written > 2 << 20);
        assert!(longest < Duration::from_secs(30), "a call took {longest:?}");
        drop(file);
        on.kill();
        on.mount();
        let mut bytes = fs::read(on.path("fill")).unwrap();
        bytes.truncate(written as usize);
        assert!(bytes.len() as u64 == written && bytes.iter().all(|&byte| byte == 9), "synced bytes are there");
        fs::remove_file(on.path("fill")).unwrap();
    };
    let again = |on: &mut Mounted| {
        fs::write(on.path("small"), b"fits").unwrap();
        on.unmount();
        on.check();
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut small = Mounted::of_span(BackendChoice::File, folder, "", 8 << 20);
    fill(&mut small);
    again(&mut small);

    let folder = tempfile::tempdir().unwrap();
    let disk = |words: &[&str]| Command::new(words[0]).args(&words[1..]).arg(folder.path()).status().unwrap().success();
    assert!(disk(&["mount", "-t", "tmpfs", "-o", "size=32m", "everbyte-test"]));
    let inner = tempfile::tempdir_in(folder.path()).unwrap();
    let mut on = Mounted::on(BackendChoice::File, inner, "");
    fill(&mut on);
    again(&mut on);
    drop(on);
    // As in `Mounted::unmount`: a program that another test starts has this process's files open.
    let attempts = (0..1000).take_while(|_| !disk(&["umount", "-q"])).count();
    assert!(attempts < 1000, "the disk stays busy");
}

/// A disk whose syncs fail: programs get `EIO`, nothing hangs, and the mount can be taken away.
#[test]
fn a_failed_disk_is_an_error_and_no_hang() {
    if !works() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (path, at) = (folder.path().join("store"), folder.path().join("at"));
    fs::create_dir(&at).unwrap();
    let options = everbyte_media::Options { background: false, ..media(BackendChoice::File) };
    let created = CreateOptions { media: options.clone(), max: 256 << 20, ..CreateOptions::default() };
    Store::create(&path, &created).unwrap().close().unwrap();
    let disk = RecordedDisk::new(&fs::read(&path).unwrap()).unwrap();
    let store = Store::attach(OpenMedia::new(&path).on_disk(disk.clone()).open(&options).unwrap()).unwrap();
    let volume = Volume::create(&store, "home", &VolumeOptions::default()).unwrap();
    let mount = Mount::new(volume, &at, "failing:home", &MountOptions::default()).unwrap();
    let served = thread::spawn(move || mount.run());
    let file = File::create(at.join("a")).unwrap();
    fs::write(at.join("synced"), [5; 30_000]).unwrap();
    file.write_all_at(b"kept", 0).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(b"lost", 0).unwrap();
    disk.fail(DiskCall::Sync, 0, 5);
    let start = Instant::now();
    let refused = [
        file.sync_all(),
        file.write_all_at(b"more", 0),
        fs::create_dir(at.join("d")),
        fs::remove_file(at.join("a")),
        fs::rename(at.join("a"), at.join("b")),
    ];
    for outcome in refused {
        assert_eq!(outcome.unwrap_err().raw_os_error(), Some(libc::EIO));
    }
    assert!(fs::metadata(at.join("a")).is_ok(), "reads go on");
    assert_eq!(fs::read(at.join("synced")).unwrap(), [5; 30_000]);
    assert!(start.elapsed() < Duration::from_secs(60));
    drop(file);
    unmount_soon(&at);
    assert!(served.join().unwrap().is_err(), "the volume cannot be closed in good order");
    drop(store);
    fs::write(&path, disk.content()).unwrap();
    let store = Store::open(&path, &options).unwrap();
    let volume = Volume::open(store.object("home").unwrap()).unwrap();
    assert_eq!(volume.check(), []);
    let read = |name: &[u8], len| {
        let (ino, mut bytes) = (volume.lookup(everbyte_fs::Ino::ROOT, name).unwrap().unwrap(), vec![0; len]);
        let len = volume.read(ino, 0, &mut bytes).unwrap();
        bytes[..len].to_vec()
    };
    assert_eq!(read(b"synced", 30_000), [5; 30_000]);
    assert!([b"kept", b"lost"].contains(&read(b"a", 4).as_slice().try_into().unwrap()));
    volume.close().unwrap();
    store.close().unwrap();
}

/// A mount that ends at once ends in good order.
#[test]
fn a_mount_may_end_at_once() {
    if !works() {
        return;
    }
    let mut on = Mounted::new();
    for _ in 0..20 {
        on.unmount();
        on.mount();
    }
    on.unmount();
    on.check();
}

/// Work beside a mount knows its place, and its end; changes that it makes are seen by programs
/// that had cached what was there before.
#[test]
fn work_beside_a_mount_sees_its_end() {
    if !works() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (path, at) = (folder.path().join("store"), folder.path().canonicalize().unwrap().join("at"));
    fs::create_dir(&at).unwrap();
    make(&path, BackendChoice::File, 64 << 20);
    let store = Store::open(&path, &media(BackendChoice::File)).unwrap();
    let volume = Volume::open(store.object("home").unwrap()).unwrap();
    let options = MountOptions::parse("commit=1,threads=2").unwrap();
    let serving = Mount::new(volume, &at, &format!("{}:home", path.display()), &options).unwrap().start().unwrap();
    let beside = serving.volume();
    assert!(beside.is_mounted() && !beside.is_read_only() && beside.path() == at);
    // By a clone, as a program that mounts it twice would do.
    let second = beside.with(|volume| Mount::new(volume.clone(), folder.path(), "twice:home", &options).err());
    let second = second.flatten().expect("it is refused");
    assert!(second.kind() == ErrorKind::Busy && second.to_string().contains("already"), "{second}");
    assert!(fs::metadata(at.join("made")).is_err(), "the kernel caches that it is absent");
    let root = everbyte_fs::Ino::ROOT;
    let new = everbyte_fs::NewFile::new(everbyte_fs::FileKind::Directory, 0o755);
    beside.with(|volume| volume.make(root, b"made", &new).unwrap()).unwrap();
    beside.changed(everbyte_fuse::Changed::Name(root, b"made"));
    assert!(fs::metadata(at.join("made")).unwrap().is_dir());
    // Bytes alone, and bytes with a size, of a file whose pages and attributes the kernel has.
    fs::write(at.join("bytes"), [1; 5000]).unwrap();
    for (byte, len) in [(2, 5000), (3, 6000)] {
        assert!(fs::read(at.join("bytes")).unwrap()[0] == byte - 1);
        beside.with(|volume| {
            let ino = volume.lookup(root, b"bytes").unwrap().unwrap();
            volume.write(ino, 0, &vec![byte; len]).unwrap();
            beside.changed(everbyte_fuse::Changed::File(ino));
        });
        assert!(fs::read(at.join("bytes")).unwrap() == vec![byte; len]);
    }
    assert_eq!(beside.paused(|volume| volume.check()), Some(Vec::new()));
    assert!(serving.stop().unwrap());
    assert!(!beside.is_mounted() && beside.with(|_| ()).is_none() && beside.paused(|_| ()).is_none());
    store.close().unwrap();
}

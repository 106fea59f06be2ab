//! Options of `-o`, and the limits that FUSE sets: each as docs/semantics/posix.md tells it.

use crate::harness::{Mounted, works};
use everbyte_media::BackendChoice;
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, StatVfsMountFlags, StatxFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

fn mounted(options: &str) -> Mounted {
    Mounted::on(BackendChoice::File, tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), options)
}

fn remounted(on: &mut Mounted, options: &str) {
    on.unmount();
    on.set_options(options);
    on.mount();
}

/// With `sync` calls of every kind survive kill -9 of the daemon on a disk, without `fsync`.
#[test]
fn with_sync_each_finished_call_survives() {
    if !works() {
        return;
    }
    let mut on = mounted("sync");
    fs::write(on.path("renamed"), [1; 9000]).unwrap();
    fs::write(on.path("cut"), [2; 9000]).unwrap();
    fs::write(on.path("removed"), [3; 9000]).unwrap();
    fs::create_dir(on.path("d")).unwrap();
    fs::remove_file(on.path("removed")).unwrap();
    File::options().write(true).open(on.path("cut")).unwrap().set_len(10).unwrap();
    fs::set_permissions(on.path("cut"), fs::Permissions::from_mode(0o751)).unwrap();
    fs::rename(on.path("renamed"), on.path("d/a")).unwrap();
    on.kill();
    on.mount();
    assert_eq!(fs::read(on.path("d/a")).unwrap(), [1; 9000]);
    assert_eq!(fs::read(on.path("cut")).unwrap(), [2; 10]);
    assert_eq!(fs::metadata(on.path("cut")).unwrap().mode() & 0o777, 0o751);
    assert!(!on.path("renamed").exists() && !on.path("removed").exists());
}

/// With `writeback` the kernel keeps writes: kill -9 of the daemon may take those that `fsync` has
/// not covered, and takes no other, on both backends; the volume stays sound.
#[test]
fn with_writeback_synced_bytes_survive_the_daemon() {
    if !works() {
        return;
    }
    for (backend, folder) in [(BackendChoice::File, env!("CARGO_TARGET_TMPDIR")), (BackendChoice::Shm, "/dev/shm")] {
        let mut on = Mounted::on(backend, tempfile::tempdir_in(folder).unwrap(), "writeback");
        let file = File::create(on.path("a")).unwrap();
        file.write_all_at(&[1; 50_000], 0).unwrap();
        file.sync_all().unwrap();
        file.write_all_at(&[2; 30_000], 50_000).unwrap();
        file.sync_data().unwrap();
        file.write_all_at(&[3; 10_000], 80_000).unwrap();
        on.kill();
        drop(file);
        on.mount();
        let bytes = fs::read(on.path("a")).unwrap();
        assert!(bytes.len() >= 80_000, "{backend:?}: {}", bytes.len());
        assert!(bytes[..50_000].iter().all(|&byte| byte == 1) && bytes[50_000..80_000].iter().all(|&byte| byte == 2));
        assert!(bytes[80_000..].iter().all(|&byte| byte == 3 || byte == 0), "bytes that were never written");
        on.unmount();
        on.check();
    }
}

/// The losses of `writeback` at the death of the daemon, in memory, where without it nothing is
/// lost: bytes of open files, also below a name that a rename has given. A close hands them over.
#[test]
fn writeback_loses_bytes_of_open_files() {
    if !works() {
        return;
    }
    // Crashes, after each of which the file below the new name must be as the kernel had handed it
    // over: the number of those in which it has lost bytes.
    let crashes = |options: &str, rounds: usize| {
        let mut on = Mounted::on(BackendChoice::Shm, tempfile::tempdir_in("/dev/shm").unwrap(), options);
        let mut losses = 0;
        for _ in 0..rounds {
            fs::write(on.path("named"), b"the old content").unwrap();
            fs::write(on.path("closed"), [1; 50_000]).unwrap();
            let open = File::options().read(true).write(true).create_new(true).open(on.path("new")).unwrap();
            open.write_all_at(&[2; 50_000], 0).unwrap();
            fs::rename(on.path("new"), on.path("named")).unwrap();
            let mut seen = [0; 50_000];
            open.read_exact_at(&mut seen, 0).unwrap(); // another descriptor would be closed
            assert!(seen == [2; 50_000] && fs::metadata(on.path("named")).unwrap().len() == 50_000);
            on.kill();
            drop(open);
            on.mount();
            assert_eq!(fs::read(on.path("closed")).unwrap(), [1; 50_000]);
            let named = fs::read(on.path("named")).unwrap();
            assert!(named.iter().all(|&byte| byte == 2 || byte == 0), "names are handed over at once");
            losses += usize::from(named != [2; 50_000]);
        }
        on.unmount();
        on.check();
        losses
    };
    assert_eq!(crashes("", 2), 0);
    // The kernel may hand bytes over at any time, when memory is short.
    assert!(crashes("writeback", 5) > 0, "the page docs/semantics/posix.md tells of losses");
}

/// Options that the kernel carries out: they are told by `statvfs`, and programs meet them.
#[test]
fn the_kernel_carries_out_its_options() {
    if !works() {
        return;
    }
    let mut on = mounted("noexec,nosuid,nodev");
    fs::copy("/bin/true", on.path("program")).unwrap();
    fs::set_permissions(on.path("program"), fs::Permissions::from_mode(0o755)).unwrap();
    let flags = |on: &Mounted| rustix::fs::statvfs(&on.at).unwrap().f_flag;
    let strict = StatVfsMountFlags::NOEXEC | StatVfsMountFlags::NOSUID | StatVfsMountFlags::NODEV;
    assert!(flags(&on).contains(strict));
    assert_eq!(Command::new(on.path("program")).status().unwrap_err().raw_os_error(), Some(libc::EACCES));
    remounted(&mut on, "exec,private");
    assert!(!flags(&on).intersects(strict), "root's default");
    assert!(Command::new(on.path("program")).status().unwrap().success());
    let by_another = |on: &Mounted| {
        let mut command = Command::new("test");
        command.arg("-e").arg(on.path("program")).uid(65_534).gid(65_534).status().unwrap().success()
    };
    fs::set_permissions(&on.at, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(!by_another(&on), "another user may not use it");
    remounted(&mut on, "");
    assert!(by_another(&on));
    on.unmount();
    fs::write(on.path("hidden"), b"below").unwrap();
    on.set_options("nonempty");
    on.mount();
    assert!(!on.path("hidden").exists() && on.path("program").exists());
    on.unmount();
    assert_eq!(fs::read(on.path("hidden")).unwrap(), b"below");
    fs::remove_file(on.path("hidden")).unwrap();
}

/// The kernel's own figures of a mount: the readahead of its device, the requests that it sends
/// beside those that programs wait for, and the options that it told.
#[test]
fn the_kernel_has_the_figures_of_the_mount() {
    if !works() {
        return;
    }
    let on = mounted("");
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table.lines().find(|line| line.contains(&format!(" {} ", on.at.display()))).unwrap();
    let device = line.split(' ').nth(2).unwrap();
    let told = line.split(" - ").nth(1).unwrap();
    assert!(told.starts_with("fuse"), "{line}");
    for option in ["user_id=0", "group_id=0", "default_permissions", "allow_other"] {
        assert!(told.split([',', ' ']).any(|word| word == option), "{option}: {line}");
    }
    let figure = |path: String| fs::read_to_string(&path).map(|text| text.trim().parse::<u64>().unwrap());
    let readahead = figure(format!("/sys/class/bdi/{device}/read_ahead_kb")).unwrap();
    assert!(readahead >= 128, "{readahead} KiB"); // the kernel's own limit for a device
    let minor = device.split(':').nth(1).unwrap();
    let connections = tempfile::tempdir().unwrap();
    let at = connections.path();
    assert!(Command::new("mount").args(["-t", "fusectl", "none"]).arg(at).status().unwrap().success());
    let most = figure(format!("{}/{minor}/max_background", at.display()));
    assert!(Command::new("umount").arg(at).status().unwrap().success());
    assert_eq!(most.unwrap(), 64);
}

/// The time of the last read follows the option, for reads that reach the volume.
#[test]
fn reads_set_times_by_the_option() {
    if !works() {
        return;
    }
    let mut on = mounted("");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    // `relatime` leaves a time that is later than the last change, which `utimensat` is.
    let (later, week) = (now + 3600, now - 7 * 24 * 3600);
    fs::create_dir(on.path("d")).unwrap();
    fs::write(on.path("a"), b"text").unwrap();
    // The option, the time of the last read, and whether reads of a file and a directory set it.
    for (options, before, of_file, of_directory) in [
        ("", later, false, false),
        ("relatime", week, true, true),
        ("strictatime", later, true, true),
        ("noatime", week, false, false),
        ("nodiratime", week, true, false),
    ] {
        for name in ["a", "d"] {
            let time = |tv_sec| Timespec { tv_sec, tv_nsec: 5 };
            let times = Timestamps { last_access: time(before), last_modification: time(week - 60) };
            rustix::fs::utimensat(CWD, on.path(name), &times, AtFlags::empty()).unwrap();
        }
        remounted(&mut on, options); // with nothing in the page cache
        assert_eq!(fs::read(on.path("a")).unwrap(), b"text");
        assert_eq!(fs::read_dir(on.path("d")).unwrap().count(), 0);
        let is_set = |name: &str| fs::metadata(on.path(name)).unwrap().atime() != before;
        assert_eq!((is_set("a"), is_set("d")), (of_file, of_directory), "`{options}`");
    }
}

/// A remount past the helper of FUSE refuses changes, and the next permits them.
#[test]
fn a_remount_makes_a_mount_read_only() {
    if !works() {
        return;
    }
    let on = mounted("");
    fs::write(on.path("a"), b"before").unwrap();
    let remount = |options: &str| {
        // Busy while the kernel has not told the daemon of the last closed file.
        let once = || Command::new("mount").args(["-i", "-o", options]).arg(&on.at).output().unwrap().status.success();
        assert!((0..1000).any(|_| once()), "{options}");
    };
    remount("remount,ro");
    assert_eq!(fs::write(on.path("a"), b"x").unwrap_err().raw_os_error(), Some(libc::EROFS));
    assert_eq!(fs::read(on.path("a")).unwrap(), b"before");
    remount("remount,rw");
    fs::write(on.path("a"), b"after").unwrap();
}

/// Calls that do not reach a mount have the errno that the page tells.
#[test]
fn calls_beyond_fuse_are_refused() {
    if !works() {
        return;
    }
    let on = mounted("");
    let open = |path: &Path, flags| rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
    assert_eq!(open(&on.at, OFlags::TMPFILE | OFlags::RDWR).unwrap_err(), Errno::OPNOTSUPP);
    fs::write(on.path("a"), [1; 8192]).unwrap();
    let file = open(&on.path("a"), OFlags::RDWR).unwrap();
    let copy = open(&on.path("b"), OFlags::RDWR | OFlags::CREATE).unwrap();
    assert_eq!(rustix::fs::ioctl_ficlone(&copy, &file).unwrap_err(), Errno::OPNOTSUPP);
    for mode in [FallocateFlags::COLLAPSE_RANGE, FallocateFlags::INSERT_RANGE] {
        assert_eq!(rustix::fs::fallocate(&file, mode, 0, 4096).unwrap_err(), Errno::OPNOTSUPP);
    }
    assert_eq!(rustix::fs::ioctl_getflags(&file).unwrap_err(), Errno::NOTTY);
    let told = rustix::fs::statx(CWD, on.path("a"), AtFlags::empty(), StatxFlags::BTIME).unwrap();
    assert_eq!(told.stx_mask & StatxFlags::BTIME.bits(), 0, "no birth time");
}

/// `syncfs` succeeds without a request to the daemon, so changes before it are lost if the daemon
/// dies without a sync of its own. `fsync` covers those before it.
#[test]
fn syncfs_does_not_reach_the_daemon() {
    if !works() {
        return;
    }
    let mut on = mounted("commit=0");
    fs::write(on.path("a"), b"old").unwrap();
    let directory = File::open(&on.at).unwrap();
    directory.sync_all().unwrap();
    fs::write(on.path("a"), b"new").unwrap();
    fs::write(on.path("b"), b"new").unwrap();
    rustix::fs::syncfs(&directory).unwrap();
    on.kill();
    drop(directory);
    on.mount();
    assert_eq!(fs::read(on.path("a")).unwrap(), b"old", "`syncfs` made nothing durable");
    assert!(!on.path("b").exists());
    on.unmount();
    on.check();
}

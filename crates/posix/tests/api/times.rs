//! Times of files: their exact nanoseconds, and the policies of the last read.

use crate::{MAKE, root, store, volume};
use everbyte_posix::{AccessTimes, Errno, Files, FilesOptions, NewTime, OpenFlags, Process, RenameFlags, User};
use std::sync::atomic::{AtomicI64, Ordering};

static NOW: AtomicI64 = AtomicI64::new(0);

const DAY: i64 = 86_400_000_000_000;

/// Tests that set the clock run one after the other.
static CLOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn at(now: i64) {
    NOW.store(now, Ordering::SeqCst);
}

fn in_use(access_times: AccessTimes) -> Process {
    let volume = volume(&store(), || NOW.load(Ordering::SeqCst));
    root(&Files::new(volume, FilesOptions { access_times, ..FilesOptions::default() }))
}

fn read(process: &Process, path: &str, flags: OpenFlags) -> i64 {
    process.open(path, flags, 0).unwrap().read(&mut [0; 4]).unwrap();
    process.status(path).unwrap().accessed
}

#[test]
fn reads_change_times_as_the_policy_says() {
    let _clock = CLOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for policy in [AccessTimes::Relative, AccessTimes::Strict, AccessTimes::Never, AccessTimes::NeverOfDirectories] {
        at(100);
        let process = in_use(policy);
        process.open("f", MAKE, 0o644).unwrap().write(b"bytes").unwrap();
        process.make_directory("d", 0o755).unwrap();
        let list = |now: i64| {
            at(now);
            process.open("d", OpenFlags::empty(), 0).unwrap().entries(9).unwrap();
            process.status("d").unwrap().accessed
        };
        let read_at = |now: i64| {
            at(now);
            read(&process, "f", OpenFlags::empty())
        };
        let seen = [read_at(200), read_at(300), read_at(200 + DAY), list(400)];
        let expected = match policy {
            // Older than the change; not older; a day old.
            AccessTimes::Relative => [200, 200, 200 + DAY, 400],
            AccessTimes::Strict => [200, 300, 200 + DAY, 400],
            AccessTimes::Never => [100; 4],
            AccessTimes::NeverOfDirectories => [200, 200, 200 + DAY, 100],
        };
        assert_eq!(seen, expected, "{policy:?}");
        let copied_at = |now: i64| {
            at(now);
            let [from, to] = ["f", "t"].map(|path| process.open(path, MAKE, 0o644).unwrap());
            from.copy_range(0, &to, 0, 5).unwrap();
            process.status("f").unwrap().accessed
        };
        let copied = copied_at(200 + 2 * DAY);
        assert_eq!(copied, if policy == AccessTimes::Never { 100 } else { 200 + 2 * DAY }, "a copy reads its source");
        let changed = process.status("f").unwrap().changed;
        assert_eq!(changed, 100, "a read is no change");
        at(3 * DAY);
        let before = process.status("f").unwrap().accessed;
        assert_eq!(read(&process, "f", OpenFlags::NOATIME), before, "{policy:?}");
    }
}

/// Each call sets the times that POSIX lists for it, and no others.
#[test]
fn calls_set_the_times_that_they_change() {
    let _clock = CLOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    at(1);
    let process = in_use(AccessTimes::Never);
    process.make_directory("d", 0o755).unwrap();
    let file = process.open("d/f", MAKE, 0o644).unwrap();
    let times = |path: &str| {
        let status = process.link_status(path).unwrap();
        [status.accessed, status.modified, status.changed, status.born]
    };
    assert_eq!((times("d/f"), times("d")), ([1; 4], [1; 4]));
    at(2);
    file.write(b"1").unwrap();
    assert_eq!((times("d/f"), times("d")), ([1, 2, 2, 1], [1; 4]));
    at(3);
    process.set_mode("d/f", 0o600).unwrap();
    assert_eq!(times("d/f"), [1, 2, 3, 1]);
    at(4);
    process.link("d/f", "d/g").unwrap();
    assert_eq!((times("d/f"), times("d")), ([1, 2, 4, 1], [1, 4, 4, 1]));
    at(5);
    process.set_times("d/f", NewTime::At(-7_000_000_001), NewTime::Omit).unwrap();
    assert_eq!(times("d/f"), [-7_000_000_001, 2, 5, 1]);
    at(6);
    process.set_times("d/f", NewTime::Omit, NewTime::Now).unwrap();
    assert_eq!(times("d/f"), [-7_000_000_001, 6, 6, 1]);
    at(7);
    process.set_times("d/f", NewTime::Omit, NewTime::Omit).unwrap();
    assert_eq!(times("d/f"), [-7_000_000_001, 6, 6, 1], "nothing is asked for");
    process.rename("d/g", "d/h", RenameFlags::empty()).unwrap();
    assert_eq!((times("d/f"), times("d")), ([-7_000_000_001, 6, 7, 1], [1, 7, 7, 1]));
    at(8);
    process.truncate("d/f", 1).unwrap();
    assert_eq!(times("d/f")[1..3], [8, 8], "also where the size is the same");
    at(9);
    process.remove("d/h").unwrap();
    assert_eq!((times("d/f")[2], times("d")), (9, [1, 9, 9, 1]));
    at(10);
    process.set_xattr("d/f", b"user.a", b"1", everbyte_posix::SetXattr::Any).unwrap();
    assert_eq!(times("d/f")[1..3], [8, 10]);
    at(11);
    process.set_owner("d/f", Some(5), None).unwrap();
    assert_eq!(times("d/f")[1..3], [8, 11]);
}

#[test]
fn times_of_others_are_refused() {
    let _clock = CLOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let owner = in_use(AccessTimes::Never);
    owner.open("open", MAKE, 0o666).unwrap();
    owner.set_mode("open", 0o666).unwrap();
    owner.open("closed", MAKE, 0o600).unwrap();
    let other = owner.files().process(User::new(7, 7)).unwrap();
    other.set_times("open", NewTime::Now, NewTime::Now).unwrap();
    assert_eq!(other.set_times("open", NewTime::Now, NewTime::Omit).unwrap_err(), Errno::EPERM);
    assert_eq!(other.set_times("open", NewTime::At(1), NewTime::At(1)).unwrap_err(), Errno::EPERM);
    assert_eq!(other.set_times("closed", NewTime::Now, NewTime::Now).unwrap_err(), Errno::EACCES);
    assert_eq!(other.open("open", OpenFlags::NOATIME, 0).unwrap_err(), Errno::EPERM);
    let file = other.open("open", OpenFlags::empty(), 0).unwrap();
    assert_eq!(file.set_flags(OpenFlags::NOATIME).unwrap_err(), Errno::EPERM);
}

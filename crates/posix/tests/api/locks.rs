//! Locks of files and of ranges.

use crate::{MAKE, files, make, root};
use everbyte_posix::{Errno, LockBy, LockKind, OpenFile, OpenFlags};

/// `flock`: owned by the open file with its clones, and apart from range locks.
#[test]
fn a_whole_lock_belongs_to_an_open_file() {
    let files = files();
    let process = root(&files);
    let one = make(&process, "f", b"");
    let other = process.open("f", OpenFlags::empty(), 0).unwrap();
    let clone = one.duplicate();
    one.lock_whole(LockKind::Exclusive, false).unwrap();
    clone.lock_whole(LockKind::Exclusive, false).unwrap();
    assert_eq!(other.lock_whole(LockKind::Shared, false).unwrap_err(), Errno::EAGAIN);
    other.lock_range(LockBy::OpenFile, LockKind::Shared, 0..9, false).unwrap();
    drop(one);
    assert_eq!(other.lock_whole(LockKind::Shared, false).unwrap_err(), Errno::EAGAIN, "the clone has it");
    drop(clone);
    other.lock_whole(LockKind::Shared, false).unwrap();
    let third = process.open("f", OpenFlags::empty(), 0).unwrap();
    third.lock_whole(LockKind::Shared, false).unwrap();
    assert_eq!(third.lock_whole(LockKind::Exclusive, false).unwrap_err(), Errno::EAGAIN);
    other.unlock_whole().unwrap();
    third.lock_whole(LockKind::Exclusive, false).unwrap();
}

/// Locks of a process end when it closes any open file of the same file; those of open files do
/// not.
#[test]
fn closing_any_descriptor_ends_the_locks_of_the_process() {
    let files = files();
    let process = root(&files);
    let (file, again) = (make(&process, "f", b""), process.open("f", OpenFlags::RDWR, 0).unwrap());
    let other = root(&files).open("f", OpenFlags::RDWR, 0).unwrap();
    file.lock_range(LockBy::Process, LockKind::Exclusive, 0..10, false).unwrap();
    again.lock_range(LockBy::Process, LockKind::Shared, 0..5, false).unwrap(); // the same owner
    let held = other.blocking_lock(LockBy::Process, LockKind::Exclusive, 0..100).unwrap().unwrap();
    assert_eq!((held.kind, held.range), (LockKind::Shared, 0..5));
    assert_eq!(other.lock_range(LockBy::Process, LockKind::Shared, 4..6, false).unwrap_err(), Errno::EAGAIN);
    other.lock_range(LockBy::Process, LockKind::Shared, 4..5, false).unwrap();
    file.lock_range(LockBy::OpenFile, LockKind::Exclusive, 50..60, false).unwrap();
    drop(process.open("f", OpenFlags::PATH, 0).unwrap());
    let by_path = other.lock_range(LockBy::Process, LockKind::Exclusive, 0..50, false);
    assert_eq!(by_path.unwrap_err(), Errno::EAGAIN, "an open path is no open file");
    drop(again);
    other.lock_range(LockBy::Process, LockKind::Exclusive, 0..50, false).unwrap();
    let kept = other.lock_range(LockBy::Process, LockKind::Exclusive, 0..51, false);
    assert_eq!(kept.unwrap_err(), Errno::EAGAIN, "the lock of the open file is there");
    assert!(file.blocking_lock(LockBy::OpenFile, LockKind::Exclusive, 50..u64::MAX).unwrap().is_none());
}

/// A process closes a file that it had for reading alone, or that it has from another process: its
/// own locks end, and those of the other process stay. The last close of an open file ends its
/// locks.
#[test]
fn closing_ends_the_locks_of_the_process_that_closes() {
    let files = files();
    let (process, other) = (root(&files), root(&files));
    let child = process.fork();
    let (file, asks) = (make(&process, "f", b""), other.open("f", OpenFlags::RDWR, 0).unwrap());
    let holder =
        || asks.blocking_lock(LockBy::Process, LockKind::Exclusive, 0..u64::MAX).unwrap().map(|held| held.range);
    let lock = |file: &OpenFile, by, range| file.lock_range(by, LockKind::Exclusive, range, false).unwrap();
    lock(&file, LockBy::Process, 0..10);
    drop(process.open("f", OpenFlags::empty(), 0).unwrap());
    assert_eq!(holder(), None, "closed for reading");
    lock(&file, LockBy::Process, 0..10);
    let inherited = file.inherited(&child);
    lock(&inherited, LockBy::Process, 20..30); // by the child
    drop(inherited);
    assert_eq!(holder(), Some(0..10), "the parent's");
    drop(file.duplicate());
    assert_eq!(holder(), None, "the child's ended with its own descriptor");
    let clone = file.duplicate();
    lock(&file, LockBy::OpenFile, 40..50);
    lock(&clone, LockBy::OpenFile, 60..70);
    drop(file);
    assert_eq!(holder(), Some(40..50), "the open file has a descriptor still");
    drop(clone);
    assert_eq!(holder(), None);
}

/// As on Linux, a lock that changes its kind is released first: two that both want to change are
/// not in each other's way, and a refused change loses the lock.
#[test]
fn a_whole_lock_that_changes_its_kind_is_released_first() {
    let files = files();
    let process = root(&files);
    let one = make(&process, "f", b"");
    let [other, third] = [0; 2].map(|_| process.open("f", OpenFlags::empty(), 0).unwrap());
    for file in [&one, &other] {
        file.lock_whole(LockKind::Shared, false).unwrap();
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for file in [one.duplicate(), other.duplicate()] {
            let sender = sender.clone();
            scope.spawn(move || {
                file.lock_whole(LockKind::Exclusive, true).unwrap();
                sender.send(()).unwrap();
                file.unlock_whole().unwrap();
            });
        }
        receiver.iter().take(2).for_each(drop);
    });
    for file in [&one, &other] {
        file.lock_whole(LockKind::Shared, false).unwrap();
    }
    assert_eq!(one.lock_whole(LockKind::Exclusive, false).unwrap_err(), Errno::EAGAIN);
    other.unlock_whole().unwrap();
    third.lock_whole(LockKind::Exclusive, false).unwrap();
    assert_eq!(one.lock_whole(LockKind::Shared, false).unwrap_err(), Errno::EAGAIN);
}

/// Locks need the way of opening that they lock for.
#[test]
fn a_lock_needs_an_open_file() {
    let files = files();
    let process = root(&files);
    make(&process, "f", b"");
    let reader = process.open("f", OpenFlags::empty(), 0).unwrap();
    let writer = process.open("f", OpenFlags::WRONLY, 0).unwrap();
    let path = process.open("f", OpenFlags::PATH, 0).unwrap();
    let lock = |file: &everbyte_posix::OpenFile, kind| file.lock_range(LockBy::OpenFile, kind, 0..1, false);
    assert_eq!(lock(&reader, LockKind::Exclusive).unwrap_err(), Errno::EBADF);
    assert_eq!(lock(&writer, LockKind::Shared).unwrap_err(), Errno::EBADF);
    assert_eq!(path.lock_whole(LockKind::Shared, false).unwrap_err(), Errno::EBADF);
    assert_eq!(reader.unlock_range(LockBy::Process, 5..5).unwrap_err(), Errno::EINVAL);
    lock(&reader, LockKind::Shared).unwrap();
}

/// A waiting lock is taken as soon as the one in its way is gone, whichever way it goes.
#[test]
fn a_waiting_lock_is_taken_when_the_other_ends() {
    let files = files();
    for ends_by_close in [false, true] {
        let (first, second) = (root(&files), root(&files));
        let held = make(&first, "f", b"");
        held.lock_range(LockBy::Process, LockKind::Exclusive, 0..10, false).unwrap();
        held.lock_whole(LockKind::Exclusive, false).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || {
                let file = second.open("f", MAKE, 0o600).unwrap();
                file.lock_range(LockBy::Process, LockKind::Exclusive, 5..6, true).unwrap();
                file.lock_whole(LockKind::Shared, true).unwrap();
            });
            if ends_by_close {
                drop(held);
            } else {
                held.unlock_range(LockBy::Process, 0..10).unwrap();
                held.unlock_whole().unwrap();
            }
            waiting.join().unwrap();
        });
    }
}

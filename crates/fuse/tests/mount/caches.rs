//! What the kernel caches is what the volume has.

use crate::harness::{Mounted, works};
use crate::programs::{has, run};
use everbyte_media::BackendChoice;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;

/// Attributes that another path, another name or another call changes are seen at once.
#[test]
fn cached_attributes_follow_every_call() {
    if !works() {
        return;
    }
    let on = Mounted::on(BackendChoice::Shm, tempfile::tempdir_in("/dev/shm").unwrap(), "");
    let (a, b) = (on.path("a"), on.path("b"));
    assert!(fs::metadata(&a).is_err());
    fs::write(&a, b"1").unwrap();
    assert_eq!(fs::metadata(&a).unwrap().len(), 1, "an absent name was cached");
    fs::hard_link(&a, &b).unwrap();
    assert_eq!(fs::metadata(&a).unwrap().nlink(), 2);
    let before = fs::metadata(&b).unwrap();
    File::options().write(true).open(&a).unwrap().write_all_at(&[1; 9000], 0).unwrap();
    let after = fs::metadata(&b).unwrap();
    assert_eq!((after.len(), after.blocks()), (9000, 24));
    assert!((after.mtime(), after.mtime_nsec()) > (before.mtime(), before.mtime_nsec()));
    fs::remove_file(&a).unwrap();
    assert_eq!(fs::metadata(&b).unwrap().nlink(), 1);
    assert!(fs::metadata(&a).is_err());
    fs::create_dir(on.path("d")).unwrap();
    let root = fs::metadata(&on.at).unwrap();
    fs::create_dir(on.path("d/e")).unwrap();
    assert_eq!(fs::metadata(on.path("d")).unwrap().nlink(), 3);
    fs::rename(on.path("d/e"), on.path("e")).unwrap();
    let now = fs::metadata(&on.at).unwrap();
    assert_eq!((now.nlink(), fs::metadata(on.path("d")).unwrap().nlink()), (root.nlink() + 1, 2));
    assert!((now.mtime(), now.mtime_nsec()) > (root.mtime(), root.mtime_nsec()));
}

/// Repeated lookups (of absent names too), attributes, links, listings and reads are answered by
/// the kernel: all of them go on when the daemon is dead.
#[test]
fn what_is_cached_is_read_without_the_daemon() {
    if !works() {
        return;
    }
    let mut on = Mounted::new();
    fs::write(on.path("a"), [5; 30_000]).unwrap();
    symlink("a", on.path("link")).unwrap();
    let file = File::open(on.path("a")).unwrap();
    let round = |on: &Mounted| {
        let mut bytes = [0; 30_000];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [5; 30_000]);
        assert_eq!(fs::symlink_metadata(on.path("a")).unwrap().len(), 30_000);
        assert_eq!(fs::metadata(on.path("none")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::read_link(on.path("link")).unwrap(), Path::new("a"));
        let mut names: Vec<_> = fs::read_dir(&on.at).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["a", "link"]);
    };
    round(&on);
    round(&on);
    on.kill();
    round(&on);
    let refused = fs::metadata(on.path("other")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENOTCONN), "a name that was never asked for");
}

/// Pages stay in the kernel's cache when a file is opened again, after it was made and after it was
/// opened.
#[test]
fn pages_stay_cached_over_openings() {
    if !works() || !has("fincore") {
        return;
    }
    let on = Mounted::new();
    fs::write(on.path("a"), [5; 40_960]).unwrap();
    for _ in 0..2 {
        // It opens the file, as any program does.
        let cached = run(&on.at, "fincore --noheadings --output PAGES a");
        assert_eq!(cached.trim(), "10");
    }
}

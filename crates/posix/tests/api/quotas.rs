//! Quotas, projects and sizes of volumes, as calls of a process meet them.

use crate::{MAKE, files, make, root};
use everbyte_fs::{Ino, QuotaKind, QuotaLimit, QuotaLimits};
use everbyte_posix::{Errno, OpenFlags, RenameFlags, User};

fn hard(bytes: u64, inodes: u64) -> QuotaLimits {
    let limit = |hard| QuotaLimit { hard, ..QuotaLimit::default() };
    QuotaLimits { bytes: limit(bytes), inodes: limit(inodes) }
}

#[test]
fn a_reached_quota_is_an_errno_of_its_own() {
    let files = files();
    root(&files).set_mode("/", 0o777).unwrap();
    files.volume().set_quota(QuotaKind::User, 7, &hard(8192, 2)).unwrap();
    let user = files.process(User::new(7, 7)).unwrap();
    let file = make(&user, "a", &[1; 8000]);
    assert_eq!(file.write_at(&[1; 9000], 0).unwrap_err(), Errno::EDQUOT);
    assert_eq!(file.status().unwrap().size, 8000);
    make(&user, "b", b"");
    assert_eq!(user.open("c", MAKE, 0o600).unwrap_err(), Errno::EDQUOT);
    assert_eq!(user.make_directory("d", 0o700).unwrap_err(), Errno::EDQUOT);
    // The files of others do not count.
    make(&root(&files), "c", &[1; 50_000]);
    user.remove("b").unwrap();
    make(&user, "b", b"");
    let usage = files.volume().usage();
    let size = (usage.pages - usage.free_pages + 4) * 4096;
    files.volume().set_size(size).unwrap();
    let status = files.status();
    assert_eq!((status.blocks * 4096, status.free_blocks), (size, 4));
    assert_eq!(make(&root(&files), "e", b"").write_at(&[1; 30_000], 0).unwrap_err(), Errno::ENOSPC);
    assert_eq!(files.volume().check(), []);
}

#[test]
fn a_project_is_passed_on_and_kept_apart() {
    let files = files();
    let process = root(&files);
    process.make_directory("home", 0o777).unwrap();
    process.set_project("home", 9).unwrap();
    process.set_project_inherited("home", true).unwrap();
    make(&process, "home/a", b"1");
    make(&process, "other", b"1");
    assert_eq!(process.set_project_inherited("other", true).unwrap_err(), Errno::ENOTDIR);
    assert_eq!(process.rename("other", "home/b", RenameFlags::empty()).unwrap_err(), Errno::EXDEV);
    process.rename("home/a", "out", RenameFlags::empty()).unwrap();
    let unnamed = process.open("home", OpenFlags::TMPFILE | OpenFlags::RDWR, 0o600).unwrap();
    process.link_open(&unnamed, "home/named").unwrap();
    let volume = files.volume();
    let project = |name: &[u8]| volume.attributes(volume.lookup(Ino::ROOT, name).unwrap().unwrap()).unwrap().project;
    assert_eq!((project(b"home"), project(b"out"), project(b"other")), (9, 9, 0));
    let user = files.process(User::new(7, 7)).unwrap();
    assert_eq!(user.set_project_inherited("home", false).unwrap_err(), Errno::EPERM);
    process.set_project_inherited("home", false).unwrap();
    process.rename("other", "home/b", RenameFlags::empty()).unwrap();
}

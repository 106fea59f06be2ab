//! Mount points and options that are refused, with the reason.

use crate::harness::{DAEMON, Mounted, WORDS, make, media, words, works};
use crate::programs::has;
use everbyte_fs::Volume;
use everbyte_fuse::{Error, Mount, MountOptions, unmount};
use everbyte_media::{BackendChoice, ErrorInfo, ErrorKind};
use everbyte_store::Store;
use std::fs;
use std::path::Path;
use std::process::Command;

fn refused(volume: &Volume, at: &Path) -> Error {
    Mount::new(volume.clone(), at, "store:home", &MountOptions::default()).err().expect("it is refused")
}

#[test]
fn bad_mount_points_are_refused_with_the_reason() {
    if !works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    make(&path, BackendChoice::File, 16 << 20);
    let store = Store::open(&path, &media(BackendChoice::File)).unwrap();
    let volume = Volume::open(store.object("home").unwrap()).unwrap();
    let absent = refused(&volume, &folder.path().join("none"));
    assert!(matches!(absent, Error::BadMountPoint { .. }) && absent.to_string().contains("no such directory"));
    let file = refused(&volume, &path);
    assert!(matches!(file, Error::BadMountPoint { .. }) && file.to_string().contains("not a directory"));
    let full = refused(&volume, folder.path());
    assert!(full.to_string().contains("nonempty"), "{full}");
    let busy = refused(&volume, Path::new("/proc"));
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
    let none = unmount(folder.path(), false).unwrap_err();
    assert!(matches!(none, Error::BadMountPoint { .. }), "{none}");
}

/// Without `/dev/fuse`, and for a process without the right to mount, a mount is refused with the
/// reason, and leaves the store closed.
#[test]
fn a_machine_without_fuse_and_a_process_without_rights_are_told_so() {
    if !works() || !has("setpriv") {
        return;
    }
    if !Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mount namespace can be made");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, at) = (folder.path().join("store"), folder.path().join("at"));
    make(&path, BackendChoice::File, 16 << 20);
    fs::create_dir(&at).unwrap();
    let program = folder.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for (script, reason) in [
        ("mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; exec \"$@\"", "/dev/fuse is absent"),
        ("exec setpriv --bounding-set=-sys_admin \"$@\"", "at: cannot mount: "),
    ] {
        let mut command = Command::new("unshare");
        command.args(["-m", "--propagation", "private", "sh", "-euc", script, "sh"]).arg(&program).args(DAEMON);
        command.env(WORDS, words(&path, &at, "", "file")).current_dir(folder.path());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(reason), "{script}: {said}");
    }
    Store::open(&path, &media(BackendChoice::File)).unwrap().close().unwrap();
}

/// A volume in use, and a mount point in use.
#[test]
fn a_volume_is_mounted_once() {
    if !works() {
        return;
    }
    let on = Mounted::new();
    let second = Store::open(&on.store, &media(BackendChoice::File)).map(drop).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::Busy);
    let _open = fs::File::create(on.path("open")).unwrap();
    let busy = unmount(&on.at, false).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
}

#[test]
fn a_read_only_mount_changes_nothing() {
    if !works() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = folder.path().join("store");
    let mut on = Mounted::on(BackendChoice::File, folder, "");
    fs::write(on.path("a"), b"kept").unwrap();
    on.unmount();
    let before = fs::read(&store).unwrap();
    on.set_options("ro");
    on.mount();
    assert_eq!(fs::read(on.path("a")).unwrap(), b"kept");
    let refused = fs::write(on.path("b"), b"new").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
    on.unmount();
    assert!(fs::read(&store).unwrap() == before, "the bytes of the store are the same");
}

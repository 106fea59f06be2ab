//! `everbyte fs mount` and `fs umount`, and `mount -t everbyte`. Skipped, with the reason, without
//! `/dev/fuse` or root.

use crate::common::{Place, said};
use everbyte_media::Options;
use everbyte_store::Store;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

fn works() -> bool {
    let found = fs::File::options().read(true).write(true).open("/dev/fuse");
    let works = found.is_ok() && rustix::process::geteuid().is_root();
    if !works {
        eprintln!("skipped: mounts are tested as root, with /dev/fuse");
    }
    works
}

/// A volume is mounted in the background, used, refused to other commands, and unmounted so that
/// the next command finds the store closed.
#[test]
fn a_volume_is_mounted_and_unmounted() {
    if !works() {
        return;
    }
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    fs::create_dir(place.path("at")).unwrap();
    let said = place.good(&["--json", "fs", "mount", "everbyte.store:home", "at", "--background"]);
    assert!(said.contains("\"mounted\":") && said.contains("everbyte.store:home"), "{said}");
    fs::write(place.path("at/note"), b"hello").unwrap();
    place.bad(&["fs", "ls", "home:/"], 4, &["in use"]);
    place.bad(&["fs", "mount", "everbyte.store:home", "at"], 4, &["in use"]);
    let open = fs::File::open(place.path("at/note")).unwrap();
    place.bad(&["fs", "umount", "at"], 4, &["--lazy"]);
    drop(open);
    place.good(&["fs", "umount", "at"]);
    assert_eq!(place.good(&["fs", "ls", "home:/"]), "note\n");
    place.good(&["fs", "fsck", "home"]);
}

#[test]
fn mounts_that_cannot_be_are_refused() {
    if !works() {
        return;
    }
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/file"), b"").unwrap();
    let mount = |source, at| ["fs", "mount", source, at];
    place.bad(&mount("everbyte.store", "full"), 2, &["STORE:VOLUME"]);
    place.bad(&mount("none.store:home", "full"), 5, &["no such store"]);
    place.bad(&mount("everbyte.store:none", "full"), 1, &["none"]);
    place.bad(&mount("everbyte.store:home", "full"), 2, &["not empty", "nonempty"]);
    place.bad(&mount("everbyte.store:home", "absent"), 2, &["no such directory"]);
    place.bad(&mount("everbyte.store:home", "everbyte.store"), 2, &["not a directory"]);
    place.bad(&["fs", "mount", "everbyte.store:home", "full", "-o", "fast"], 2, &["fast", "noatime"]);
    place.bad(&["fs", "umount", "full"], 2, &["no volume is mounted here"]);
    place.bad(&["fs", "mount", "everbyte.store:home", "full", "--background"], 2, &["not empty", "not mounted"]);
}

/// A store with the volume `home`, the directory `at`, and the helper of mount(8) in `sbin`.
fn with_helper() -> Place {
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    fs::create_dir(place.path("at")).unwrap();
    fs::create_dir(place.path("sbin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_everbyte"), place.path("sbin/mount.everbyte")).unwrap();
    place
}

/// The helper mounts with the arguments that mount(8) gives it, and is silent unless it is told
/// `-v`; its exit codes are those of mount(8).
#[test]
fn the_helper_of_mount_mounts() {
    if !works() {
        return;
    }
    let place = with_helper();
    let run = |words: &str| {
        let mut command = Command::new(place.path("sbin/mount.everbyte"));
        said(command.args(words.split(' ')).current_dir(place.folder.path()).stdin(Stdio::null()).output().unwrap())
    };
    let said = run("everbyte.store:home at -n -f -o rw");
    assert!(said.code == 0 && everbyte_fuse::source_of(&place.path("at")).is_none(), "{said:?}");
    for (words, code, why) in [
        ("everbyte.store:home", 1, "usage"),
        ("everbyte.store:home at -o rw,fast", 1, "fast"),
        ("everbyte.store:none at -o rw", 32, "none"),
    ] {
        let said = run(words);
        assert!(said.code == code && said.err.contains(why), "{words}: {said:?}");
    }
    let said = run("everbyte.store:home at -s -n -o rw,noatime,fast,_netdev,threads=2,backend=auto,durability=process");
    assert!(said.code == 0 && said.out.is_empty() && said.err.is_empty(), "{said:?}");
    fs::write(place.path("at/note"), b"hello").unwrap();
    place.good(&["fs", "umount", "at"]);
    let said = run("everbyte.store:home at -v -o ro,nosuid,x-systemd.automount");
    assert!(said.code == 0 && said.out.contains("read-only"), "{said:?}");
    assert_eq!(fs::read(place.path("at/note")).unwrap(), b"hello");
    assert!(fs::write(place.path("at/note"), b"").is_err());
    place.good(&["fs", "umount", "at"]);
}

/// A store that another process closes soon, as after umount(8), is waited for.
#[test]
fn the_helper_of_mount_waits_for_a_closing_store() {
    if !works() {
        return;
    }
    let place = with_helper();
    let store = Store::open(&place.path("everbyte.store"), &Options::default()).unwrap();
    let mut command = Command::new(place.path("sbin/mount.everbyte"));
    command.args(["everbyte.store:home", "at", "-v"]).current_dir(place.folder.path());
    let mut helper = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(helper.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("waiting"));
    store.close().unwrap();
    drop(store);
    assert!(lines.next().unwrap().unwrap().starts_with("mounted"));
    assert!(helper.wait().unwrap().success());
    place.good(&["fs", "umount", "at"]);
}

/// mount(8) finds the helper, by its type and by a line of fstab. It looks in /sbin alone, so these
/// mounts are in a namespace that has another /sbin.
#[test]
fn mount_finds_its_helper() {
    if !works() {
        return;
    }
    let private = Command::new("unshare").args(["-m", "true"]).status();
    if !private.is_ok_and(|status| status.success()) {
        eprintln!("skipped: unshare makes no namespace of mounts");
        return;
    }
    let place = with_helper();
    let fstab = "HERE/everbyte.store:home HERE/at everbyte noauto,nofail,noatime,user,exec,x-systemd.automount 0 0\n";
    let here = place.folder.path().to_str().unwrap();
    fs::write(place.path("fstab"), fstab.replace("HERE", here)).unwrap();
    let script = r#"mount --bind sbin /sbin
        mount -t everbyte everbyte.store:home at -o nosuid,threads=2
        echo one > at/note
        "$EVERBYTE" fs umount at
        mount -T fstab "$PWD/at"
        cat at/note
        grep -c "$PWD/at .*nosuid.*noatime .*everbyte.store:home" /proc/self/mountinfo
        umount at
        mount -T fstab "$PWD/at"
        "$EVERBYTE" fs umount at"#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-euc", script]).current_dir(here).env("EVERBYTE", env!("CARGO_BIN_EXE_everbyte"));
    let said = said(command.stdin(Stdio::null()).output().unwrap());
    assert!(said.code == 0 && said.out.contains("\none\n1\n"), "{said:?}");
    place.good(&["fs", "fsck", "home"]);
}

/// The units that `make install` copies are such that systemd takes them.
#[test]
fn systemd_takes_the_units() {
    let installed = Command::new("systemd-analyze").arg("--version").stdout(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_everbyte"), place.path("bin/everbyte")).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/systemd");
    for name in ["everbyte.service", "srv-everbyte.mount"] {
        let unit = fs::read_to_string(folder.join(name)).unwrap();
        let unit = unit.replace("@PREFIX@", place.folder.path().to_str().unwrap());
        fs::write(place.path(name), unit).unwrap();
        let said = said(Command::new("systemd-analyze").arg("verify").arg(place.path(name)).output().unwrap());
        assert!(said.code == 0 && said.err.is_empty(), "{name}: {said:?}");
    }
}

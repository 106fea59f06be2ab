//! `everbyte fs mount` and `fs umount`. Skipped, with the reason, without `/dev/fuse` or root.

use crate::common::Place;
use std::fs;

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

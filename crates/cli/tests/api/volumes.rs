//! `fs ..`: volumes, and trees of files that go in and out.

use crate::common::Place;
use everbyte_fs::layout;
use everbyte_media::{Checked, Options};
use everbyte_store::Store;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// All that a copy keeps of a tree: path, kind and rights, links, size, time, bytes.
fn tree(root: &Path, path: &Path, found: &mut Vec<String>) {
    let metadata = fs::symlink_metadata(path).unwrap();
    let bytes = match metadata.is_file() {
        true => format!("{:x?}", crc(&fs::read(path).unwrap())),
        false => fs::read_link(path).map(|target| target.display().to_string()).unwrap_or_default(),
    };
    let links = if metadata.is_dir() { 0 } else { metadata.nlink() };
    let size = if metadata.is_dir() { 0 } else { metadata.size() };
    let times = (metadata.mtime(), metadata.mtime_nsec());
    let name = path.strip_prefix(root).unwrap().display();
    found.push(format!("{name} {:o} {links} {size} {times:?} {bytes}", metadata.mode()));
    if metadata.is_dir() {
        let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names.iter().for_each(|path| tree(root, path, found));
    }
}

fn crc(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum: u64, &byte| sum.wrapping_mul(1_000_003) ^ u64::from(byte))
}

#[test]
fn a_tree_goes_into_a_volume_and_out_of_it() {
    let place = Place::with_store();
    assert_eq!(place.good(&["fs", "mkfs", "home", "--label", "mine"]), "made volume home\n");
    let source = place.path("source");
    fs::create_dir_all(source.join("inner/empty")).unwrap();
    fs::write(source.join("small"), "remember").unwrap();
    fs::write(source.join("large"), vec![7; 300_001]).unwrap();
    fs::write(source.join("inner/a b\n"), "odd name").unwrap();
    fs::hard_link(source.join("small"), source.join("inner/linked")).unwrap();
    symlink("../small", source.join("inner/link")).unwrap();
    let sparse = File::create(source.join("sparse")).unwrap();
    sparse.set_len(50 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"x", 20_000_000).unwrap();
    fs::set_permissions(source.join("large"), Permissions::from_mode(0o4711)).unwrap();
    File::open(source.join("large")).unwrap().set_modified(UNIX_EPOCH + Duration::new(1_000_000, 123_456_789)).unwrap();

    let xattr = |path: &Path| {
        let mut value = [0; 64];
        rustix::fs::lgetxattr(path, "user.colour", &mut value[..]).map(|len| value[..len].to_vec())
    };
    // where the file system of the test has them
    let set = rustix::fs::lsetxattr(source.join("small"), "user.colour", b"blue", rustix::fs::XattrFlags::empty());

    let copied = "copied 5 files, 3 directories, 1 links, 52728817 bytes\n";
    assert_eq!(place.good(&["fs", "put", "source", "home:/"]), copied);
    place.bad(&["fs", "put", "source", "home"], 2, &["exists", "--replace"]);
    assert_eq!(place.good(&["fs", "put", "source", "home", "--replace"]), copied);
    assert_eq!(place.good(&["fs", "fsck", "home"]), "volume home is whole: nothing was interrupted\n");
    assert_eq!(place.good(&["fs", "ls", "home:/source"]), "inner\nlarge\nsmall\nsparse\n");
    assert!(place.good(&["fs", "ls", "--long", "home:/source/inner/link"]).contains("link -> ../small"));
    assert_eq!(place.good(&["fs", "ls", "home:/source/inner"]), "a b\\n\nempty\nlink\nlinked\n");

    assert_eq!(place.good(&["fs", "get", "home:/source", "copy"]), copied);
    place.bad(&["fs", "get", "home:/source/small", "copy"], 2, &["exists already"]);
    let [mut before, mut after] = [Vec::new(), Vec::new()];
    tree(&source, &source, &mut before);
    tree(&place.path("copy"), &place.path("copy"), &mut after);
    assert_eq!(before, after);
    assert_eq!(xattr(&place.path("copy/small")).ok(), set.is_ok().then(|| b"blue".to_vec()));
    assert!(fs::metadata(place.path("copy/sparse")).unwrap().blocks() < 1000, "holes stay holes");

    let stat: serde_json::Value = serde_json::from_str(&place.good(&["--json", "fs", "stat", "home"])).unwrap();
    assert_eq!(stat["label"], "mine");
    assert!(stat["pages"].as_u64() > stat["free_pages"].as_u64());
    place.good(&["check"]);
    place.bad(&["fs", "ls", "home:/none"], 1, &["home:/none"]);
    place.bad(&["fs", "ls", "none:/"], 1, &["none"]);
    place.bad(&["fs", "mkfs", "home"], 2, &["home"]);
    place.bad(&["fs", "mkfs", "other", "--page-size", "8KiB"], 2, &["4KiB, 2MiB and 1GiB"]);
    place.bad(&["fs", "mkfs", "other", "--lanes", "0"], 2, &["1 to 256 lanes"]);
    place.bad(&["fs", "put", "absent", "home"], 5, &["absent"]);
    place.good(&["kv", "put", "a", "b"]);
    place.bad(&["fs", "ls", "kv:/"], 3, &["kv"]);
}

/// Both kinds of lists, with the mode that one of them rules.
#[test]
fn access_lists_go_into_a_volume_and_out_of_it() {
    const ACCESS: &str = "system.posix_acl_access";
    const DEFAULT: &str = "system.posix_acl_default";
    let entry =
        |tag: u16, bits: u16, id: u32| [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat();
    // Owner rw-, user 5 r-x, group ---, mask r-x, other ---.
    let list = [(1, 6, u32::MAX), (2, 5, 5), (4, 0, u32::MAX), (16, 5, u32::MAX), (32, 0, u32::MAX)];
    let list: Vec<u8> =
        [2, 0, 0, 0].into_iter().chain(list.iter().flat_map(|&(tag, bits, id)| entry(tag, bits, id))).collect();
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home"]);
    fs::create_dir(place.path("folder")).unwrap();
    fs::write(place.path("folder/file"), "secret").unwrap();
    for (path, name) in [("folder/file", ACCESS), ("folder", DEFAULT)] {
        if rustix::fs::lsetxattr(place.path(path), name, &list, rustix::fs::XattrFlags::empty()).is_err() {
            eprintln!("skipped: the file system of the test has no access control lists");
            return;
        }
    }
    place.good(&["fs", "put", "folder", "home"]);
    place.good(&["fs", "get", "home:/folder", "copy"]);
    let found = |path: &str, name: &str| {
        let mut value = [0; 100];
        rustix::fs::lgetxattr(place.path(path), name, &mut value[..]).map(|len| value[..len].to_vec())
    };
    assert_eq!(found("copy/file", ACCESS), Ok(list.clone()));
    assert_eq!(found("copy", DEFAULT), Ok(list));
    assert!(found("copy", ACCESS).is_err() && found("copy/file", DEFAULT).is_err());
    assert_eq!(fs::metadata(place.path("copy/file")).unwrap().mode() & 0o7777, 0o650);
}

/// `stat` tells the share of written pages that are sealed: 3 of 4; a hole counts for nothing.
#[test]
fn stat_tells_the_sealed_share() {
    use everbyte_fs::{SEAL_AFTER, SealCursor, StepLimits, Volume};
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--checksums"]);
    let sealed = |percent: u64| {
        let stat: serde_json::Value = serde_json::from_str(&place.good(&["--json", "fs", "stat", "home"])).unwrap();
        assert_eq!((&stat["checksums"], &stat["sealed_percent"]), (&true.into(), &percent.into()));
    };
    sealed(0);
    let store = everbyte_store::Store::open(&place.path("everbyte.store"), &Default::default()).unwrap();
    let volume = Volume::open(store.object("home").unwrap()).unwrap();
    let file = everbyte_fs::NewFile::new(everbyte_fs::FileKind::Regular, 0o644);
    let [three, one] =
        ["three", "one"].map(|name| volume.make(everbyte_fs::Ino::ROOT, name.as_bytes(), &file).unwrap());
    volume.append(three, &[3; 3 * 4096]).unwrap();
    volume.write(one, 8 * 4096, &[1; 4096]).unwrap();
    let up_to = StepLimits { inodes: three.0, pages: 100 };
    assert!(
        three < one && volume.seal_step(&mut SealCursor::default(), &up_to, volume.now() + SEAL_AFTER).unwrap() == 3
    );
    volume.close().unwrap();
    store.close().unwrap();
    drop(store);
    sealed(75);
}

/// A link is copied as it is; a path without a name of its own has that of its directory.
#[test]
fn a_link_that_leads_nowhere_is_copied() {
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home"]);
    symlink("nowhere", place.path("link")).unwrap();
    fs::create_dir_all(place.path("outer/inner")).unwrap();
    symlink("nowhere", place.path("outer/link")).unwrap();
    assert!(place.good(&["fs", "put", "link", "home"]).starts_with("copied 1 files, 0 directories"));
    assert!(place.good(&["fs", "put", "outer/inner/..", "home"]).contains("2 directories"));
    assert_eq!(place.good(&["fs", "ls", "home"]), "link\nouter\n");
    for from in ["home:/link", "home:/outer/link"] {
        place.good(&["fs", "get", from, "copy"]);
        assert_eq!(fs::read_link(place.path("copy")).unwrap(), Path::new("nowhere"));
        fs::remove_file(place.path("copy")).unwrap();
    }
}

/// Neither way reads a hole, which would take minutes.
#[test]
fn a_file_of_a_tebibyte_is_copied_by_its_data() {
    use std::os::unix::fs::FileExt;
    const TIB: u64 = 1 << 40;
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home"]);
    let source = File::create(place.path("sparse")).unwrap();
    if source.set_len(TIB + 5).is_err() {
        eprintln!("skipped: the file system of the test has no files of a tebibyte");
        return;
    }
    for at in [4090, TIB / 2, TIB - 3] {
        source.write_all_at(b"edge", at).unwrap();
    }
    assert!(place.good(&["fs", "put", "sparse", "home"]).ends_with(&format!("{} bytes\n", TIB + 5)));
    assert!(place.good(&["fs", "get", "home:/sparse", "copy"]).ends_with(&format!("{} bytes\n", TIB + 5)));
    let copy = File::open(place.path("copy")).unwrap();
    let found = copy.metadata().unwrap();
    assert!(found.len() == TIB + 5 && found.blocks() < 1000, "{found:?}");
    for (at, expected) in
        [(0, &[0; 8]), (4088, b"\0\0edge\0\0"), (TIB / 2, b"edge\0\0\0\0"), (TIB - 3, b"edge\0\0\0\0")]
    {
        let mut bytes = [0; 8];
        copy.read_exact_at(&mut bytes, at).unwrap();
        assert_eq!(&bytes, expected, "at {at}");
    }
    assert_eq!(place.good(&["fs", "fsck", "home"]), "volume home is whole: nothing was interrupted\n");
}

/// Nor does it change the file, or what a link leads to.
#[test]
fn a_directory_is_not_put_where_a_file_is() {
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home"]);
    fs::write(place.path("file"), "secret").unwrap();
    fs::set_permissions(place.path("file"), Permissions::from_mode(0o600)).unwrap();
    symlink("everbyte.store", place.path("link")).unwrap();
    for name in ["file", "link"] {
        place.good(&["fs", "put", name, "home"]);
        fs::remove_file(place.path(name)).unwrap();
        fs::create_dir(place.path(name)).unwrap();
    }
    fs::write(place.path("link/inner"), "bytes").unwrap();
    let list = || place.good(&["fs", "ls", "--long", "home:/"]);
    let before = list();
    for name in ["file", "link"] {
        place.bad(&["fs", "put", name, "home"], 2, &[name, "no directory"]);
        place.bad(&["fs", "put", "--replace", name, "home"], 2, &[name, "no directory"]);
    }
    assert_eq!(list(), before);
    fs::create_dir(place.path("folder")).unwrap();
    for words in [&["fs", "put", "folder", "home"][..], &["fs", "put", "--replace", "folder", "home"]] {
        assert!(place.good(words).contains("1 directories"), "into one that is there");
    }
}

/// Root without the right to give files to other users, and in one more group.
#[test]
fn a_file_that_does_not_get_its_owner_loses_its_set_id_bits() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root makes files of other users");
        return;
    }
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home"]);
    for (name, uid, gid) in [("group", 4001, 5001), ("none", 4001, 5002), ("both", 0, 5001)] {
        fs::write(place.path(name), "program").unwrap();
        std::os::unix::fs::chown(place.path(name), Some(uid), Some(gid)).unwrap();
        fs::set_permissions(place.path(name), Permissions::from_mode(0o6755)).unwrap();
        place.good(&["fs", "put", name, "home"]);
    }
    let get = place.command(&["fs", "get", "home:/", "copy"]);
    let mut limited = std::process::Command::new("setpriv");
    limited.args(["--bounding-set=-chown", "--inh-caps=-chown", "--groups=5001"]).current_dir(place.folder.path());
    limited.arg(get.get_program()).args(get.get_args());
    let said = crate::common::said(limited.output().expect("setpriv"));
    assert_eq!(said.code, 0, "{said:?}");
    let of = |name: &str| {
        let found = fs::metadata(place.path("copy").join(name)).unwrap();
        (found.uid(), found.gid(), found.mode() & 0o7777)
    };
    let own = rustix::process::getegid().as_raw();
    assert_eq!(of("group"), (0, 5001, 0o2755));
    assert_eq!(of("none"), (0, own, 0o755));
    assert_eq!(of("both"), (0, 5001, 0o6755));
}

/// The kernel takes them from a file that gets another owner.
#[test]
fn capabilities_of_files_are_kept() {
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home"]);
    fs::write(place.path("program"), "program").unwrap();
    // CAP_NET_BIND_SERVICE, permitted and effective, in the format's second version
    let capability: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let flags = rustix::fs::XattrFlags::empty();
    if rustix::fs::lsetxattr(place.path("program"), "security.capability", &capability, flags).is_err() {
        eprintln!("skipped: this user, or this file system, gives files no capabilities");
        return;
    }
    place.good(&["fs", "put", "program", "home"]);
    place.good(&["fs", "get", "home:/program", "copy"]);
    let mut found = [0; 64];
    let len = rustix::fs::lgetxattr(place.path("copy"), "security.capability", &mut found[..]).unwrap();
    assert_eq!(found[..len], capability);
}

#[test]
fn snapshots_are_made_read_and_removed() {
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home"]);
    fs::create_dir_all(place.path("notes/inner")).unwrap();
    fs::write(place.path("notes/today"), "remember").unwrap();
    fs::write(place.path("notes/inner/large"), vec![7; 100_000]).unwrap();
    place.good(&["fs", "put", "notes", "home"]);
    assert_eq!(place.good(&["fs", "snapshot", "list", "home"]), "");
    assert_eq!(place.good(&["fs", "snapshot", "create", "home", "monday"]), "made snapshot monday of volume home\n");
    place.bad(&["fs", "snapshot", "create", "home", "monday"], 2, &["monday", "already"]);
    fs::write(place.path("notes/today"), "forget").unwrap();
    place.good(&["fs", "put", "--replace", "notes", "home"]);
    let made = place.good(&["--json", "fs", "snapshot", "create", "home", "tues day"]);
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    assert_eq!((&made["volume"], &made["snapshot"]), (&"home".into(), &"tues day".into()));
    assert_eq!(place.good(&["fs", "snapshot", "list", "home"]), "monday\ntues day\n");

    assert_eq!(place.good(&["fs", "ls", "--snapshot", "monday", "home:/notes"]), "inner\ntoday\n");
    place.good(&["fs", "get", "--snapshot", "monday", "home:/notes", "copy"]);
    assert_eq!(fs::read(place.path("copy/today")).unwrap(), b"remember");
    assert_eq!(fs::read(place.path("copy/inner/large")).unwrap(), vec![7; 100_000]);
    place.good(&["fs", "get", "home:/notes/today", "today"]);
    assert_eq!(fs::read(place.path("today")).unwrap(), b"forget");
    let json = |words: &[&str]| serde_json::from_str::<serde_json::Value>(&place.good(words)).unwrap();
    let stat = json(&["--json", "fs", "stat", "home", "--snapshot", "monday"]);
    assert!(stat["inodes"] == 5 && stat["taken_ns"].as_i64() > Some(0), "{stat}");
    assert_eq!(json(&["--json", "fs", "stat", "home"])["snapshots"], 2);
    assert_eq!(place.good(&["fs", "fsck", "home"]), "volume home is whole: nothing was interrupted\n");
    place.good(&["check", "--deep"]);

    place.bad(&["fs", "ls", "--snapshot", "friday", "home:/"], 1, &["friday"]);
    place.bad(&["fs", "snapshot", "remove", "home", "friday"], 1, &["friday"]);
    assert_eq!(place.good(&["fs", "snapshot", "remove", "home", "monday"]), "removed snapshot monday of volume home\n");
    assert_eq!(place.good(&["fs", "snapshot", "list", "home"]), "tues day\n");
    place.bad(&["fs", "get", "--snapshot", "monday", "home:/notes", "again"], 1, &["monday"]);
}

#[test]
fn quotas_and_sizes_are_set_listed_and_removed() {
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--size", "1MiB"]);
    assert_eq!(place.good(&["fs", "quota", "list", "home"]), "");
    let uid = rustix::process::getuid().as_raw();
    let owner = uid.to_string();
    let set = place.good(&["fs", "quota", "set", "home", "user", &owner, "--bytes", "400KiB", "--inodes", "3"]);
    assert_eq!(set, format!("user {uid}: bytes 0 soft - hard 409600, inodes 1 soft - hard 3\n"));
    fs::write(place.path("a"), vec![7; 200_000]).unwrap();
    fs::write(place.path("b"), vec![7; 300_000]).unwrap();
    place.good(&["fs", "put", "a", "home"]);
    place.bad(&["fs", "put", "b", "home"], 5, &[&format!("user {uid}"), "limit of bytes"]);
    let json = |words: &[&str]| serde_json::from_str::<serde_json::Value>(&place.good(words)).unwrap();
    let soft = ["--json", "fs", "quota", "set", "home", "user", &owner, "--bytes", "0", "--soft-bytes", "100KiB"];
    let set = json(&soft);
    assert_eq!((&set["bytes"]["soft"], &set["bytes"]["grace_s"]), (&102_400.into(), &604_800.into()));
    assert!(set["bytes"]["above_since_ns"].as_i64() > Some(0) && set["inodes"]["hard"] == 3, "{set}");
    assert!(place.good(&["fs", "quota", "list", "home"]).contains("(above soft)"));
    place.good(&["fs", "put", "b", "home"]); // in the time of grace
    place.bad(&["fs", "put", "--replace", "a", "home"], 5, &["limit of inodes"]);
    assert_eq!(json(&["--json", "fs", "stat", "home"])["quotas"], 1);
    let removed = format!("removed the limits of user {uid} of volume home\n");
    assert_eq!(place.good(&["fs", "quota", "remove", "home", "user", &owner]), removed);
    place.bad(&["fs", "quota", "remove", "home", "group", "5"], 1, &["group 5"]);
    place.bad(&["fs", "quota", "set", "home", "user", "1", "--bytes", "5000"], 2, &["4096"]);

    fs::write(place.path("c"), vec![7; 700_000]).unwrap();
    place.bad(&["fs", "put", "c", "home"], 5, &["1048576 bytes", "fs grow"]);
    place.bad(&["fs", "grow", "home", "8KiB"], 2, &["in use"]);
    assert_eq!(place.good(&["fs", "grow", "home", "2MiB"]), "volume home may have 2 MiB\n");
    place.good(&["fs", "put", "c", "home"]);
    let stat = json(&["--json", "fs", "stat", "home"]);
    assert_eq!((&stat["size"], &stat["pages_max"]), (&(2 << 20).into(), &512.into()));
    assert!(stat["available_pages"].as_u64() < Some(256), "{stat}");
    place.good(&["fs", "grow", "home", "0"]);
    assert!(json(&["--json", "fs", "stat", "home"])["size"].is_null());
    assert_eq!(place.good(&["fs", "fsck", "home"]), "volume home is whole: nothing was interrupted\n");
}

/// Damage is told with the paths of its files; `fsck` and `check` repair it after a dry run.
#[test]
fn a_damaged_volume_is_repaired() {
    use std::os::unix::fs::FileExt;
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home"]);
    fs::create_dir_all(place.path("notes")).unwrap();
    for name in ["today", "tomorrow"] {
        fs::write(place.path("notes").join(name), name.repeat(1000)).unwrap();
    }
    place.good(&["fs", "put", "notes", "home"]);
    // The number of links of `today` on media, wherever its inode lies.
    let path = place.path("everbyte.store");
    let damage = || {
        let bytes = fs::read(&path).unwrap();
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let is_inode = |at: &usize| {
            let numbers = [words[at + 1], words[at + 2]].map(layout::number);
            words[*at] & 0xf000 == 0x8000 && numbers == [1, 5000] && at.is_multiple_of(32)
        };
        let at = (0..words.len() - 4).find(is_inode).expect("the inode of `today`");
        let links = everbyte_media::sealed::seal_low(3).to_le_bytes();
        File::options().write(true).open(&path).unwrap().write_all_at(&links, at as u64 * 8 + 8).unwrap();
    };
    damage();
    let found = place.bad(&["fs", "fsck", "home"], 1, &["--repair"]).out;
    assert!(found.contains("counts 3 links and has 1") && found.contains("(/notes/today)"), "{found}");
    for dry in [["fs", "fsck", "home", "--repair", "--dry-run"].as_slice(), &["check", "--repair", "--dry-run"]] {
        let told = place.bad(dry, 1, &["--repair"]).out;
        assert!(told.contains("to be done: `home` at ") && told.contains("has 1 (/notes/today)"), "{told}");
    }
    let done = place.good(&["fs", "fsck", "home", "--repair"]);
    assert!(
        done.contains("done: `home` at ") && done.ends_with("volume home is whole: nothing was interrupted\n"),
        "{done}"
    );
    assert!(place.good(&["fs", "fsck", "home", "--repair", "--dry-run"]).contains("needs no repair"));
    damage();
    let done = place.good(&["check", "--repair"]);
    assert!(done.contains("done: `home` at ") && done.contains("no damage"), "{done}");
    damage();
    let told = place.bad(&["check", "--deep", "--repair"], 1, &["--token"]).out;
    let token = told.lines().find_map(|line| line.split_once("token: ")).unwrap().1;
    assert!(place.good(&["check", "--deep", "--repair", "--token", token]).contains("counts 3 links"));
    place.good(&["check", "--deep"]);
    place.good(&["fs", "get", "home:/notes", "copy"]);
    assert_eq!(fs::read_to_string(place.path("copy/today")).unwrap(), "today".repeat(1000));
}

/// Each command on a volume of a later format ends with the code of such stores and names the
/// volume and the way out; a mount of it begins nothing.
#[test]
fn a_volume_of_a_newer_format_is_refused() {
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    let store = Store::open(&place.path("everbyte.store"), &Options::default()).unwrap();
    let (media, start) = (store.media(), store.object("home").unwrap().prime().get());
    let head: layout::Head = media.get(start + layout::HEAD_AT);
    let newer = layout::Head { format: layout::FORMAT + 1, ..head }.sealed();
    for at in [layout::HEAD_AT, layout::HEAD_COPY_AT] {
        media.put(start + at, &newer);
        media.flush(start + at, size_of::<layout::Head>() as u64);
    }
    store.close().unwrap();
    drop(store);
    fs::create_dir(place.path("at")).unwrap();
    let why = ["`home`", "use a newer Everbyte"];
    place.bad(&["fs", "ls", "home:/"], 3, &why);
    place.bad(&["fs", "stat", "home"], 3, &why);
    place.bad(&["fs", "mount", "everbyte.store:home", "at"], 3, &why);
    place.bad(&["fs", "mount", "everbyte.store:home", "at", "-o", "ro"], 3, &why);
    place.bad(&["serve", "--listen", "127.0.0.1:0", "--mount", "home=at"], 3, &why);
    assert_eq!(fs::read_dir(place.path("at")).unwrap().count(), 0);
}

//! Bad input and faults: each has a clear error that names the place and the way out, and loses no
//! data.

#![forbid(unsafe_code)]

mod common;

use common::{Place, flip};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_store_that_is_not_there_says_how_to_make_one() {
    Place::new().bad(&["info"], 5, &["./everbyte.store", "everbyte create"]);
}

#[test]
fn a_file_that_is_not_a_store_is_refused_and_left_alone() {
    let place = Place::new();
    for (name, body) in [("empty", &b""[..]), ("short", b"hello"), ("long", &[7; 100_000])] {
        fs::write(place.path(name), body).unwrap();
        place.bad(&["info", name], 3, &[name, "not an Everbyte store", "everbyte create"]);
        place.bad(&["check", name], 3, &["not an Everbyte store"]);
        assert_eq!(fs::read(place.path(name)).unwrap(), body, "{name} is unchanged");
    }
}

#[test]
fn creating_over_a_file_is_refused() {
    let place = Place::with_store();
    let before = place.good(&["info", "--json"]);
    place.bad(&["create"], 5, &["everbyte.store", "exists"]);
    let identity = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap()["identity"].clone();
    assert_eq!(identity(&before), identity(&place.good(&["info", "--json"])));
}

#[test]
fn one_torn_superblock_is_repaired_and_two_are_damage() {
    let place = Place::with_store();
    let path = place.path("everbyte.store");
    for at in [16, 4096 + 16] {
        flip(&path, at);
        let info = place.good(&["info", "--json"]);
        assert!(info.contains("\"superblocks\":["), "{info}");
        place.good(&["kv", "put", "a", "1"]); // an opening that writes
        assert_eq!(place.good(&["check"]).lines().count(), 1, "the copy was written again");
    }
    flip(&path, 40);
    flip(&path, 4096 + 40);
    let said = place.bad(&["info"], 3, &["everbyte.store", "0x"]);
    assert!(said.err.contains("damaged"), "{said:?}");
}

#[test]
fn a_truncated_store_says_so() {
    let place = Place::with_store();
    let path = place.path("everbyte.store");
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(64 << 10).unwrap();
    place.bad(&["info"], 3, &["truncated"]);
    place.bad(&["check"], 3, &["truncated"]);
}

#[test]
fn a_store_grown_from_outside_still_opens() {
    let place = Place::with_store();
    let path = place.path("everbyte.store");
    let len = fs::metadata(&path).unwrap().len();
    fs::File::options().write(true).open(&path).unwrap().set_len(len + (1 << 20)).unwrap();
    place.good(&["check"]);
}

#[test]
fn a_directory_that_does_not_exist_and_one_that_is_read_only() {
    let place = Place::new();
    place.bad(&["create", "nowhere/x.store"], 5, &["nowhere/x.store", "No such file"]);
    let folder = place.path("locked");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(folder.join("probe"), b"").is_ok() {
        fs::remove_file(folder.join("probe")).unwrap();
        // Root may write anywhere; only a read-only file system refuses it.
        place.bad(&["create", "/proc/x.store"], 5, &["/proc/x.store"]);
    } else {
        place.bad(&["create", "locked/x.store"], 5, &["locked/x.store", "denied"]);
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_directory_in_the_place_of_a_store() {
    let place = Place::new();
    fs::create_dir(place.path("folder")).unwrap();
    place.bad(&["info", "folder"], 5, &["folder", "directory"]);
}

#[test]
fn sizes_that_make_no_sense_are_explained() {
    let place = Place::new();
    place.bad(&["create", "--max", "plenty"], 2, &["KiB"]);
    place.bad(&["create", "--max", "64KiB"], 2, &["too small"]);
    place.bad(&["create", "--max", "4096TiB"], 2, &["64 TiB"]);
    place.bad(&["create", "--durability", "perhaps"], 2, &["always", "interval:", "process"]);
    assert!(!place.path("everbyte.store").exists(), "nothing is left behind");
}

#[test]
fn persistent_memory_that_is_not_there_names_what_would_work() {
    let place = Place::new();
    let said = place.run(&["create", "--backend", "pmem"]);
    if said.code != 0 {
        assert!(said.code == 5 && said.err.contains("-o dax") && said.err.contains("`file`"), "{said:?}");
    }
}

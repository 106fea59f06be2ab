//! `everbyte backup` and `everbyte restore`.

use crate::common::Place;
use serde_json::Value;
use std::fs;
use std::process::Stdio;

#[test]
fn a_backup_and_its_increment_are_restored() {
    let place = Place::with_store();
    place.good(&["kv", "put", "city", "Oslo"]);
    let said = place.good(&["backup", "everbyte.store", "monday"]);
    assert!(said.starts_with("backed up everbyte.store to monday: ") && said.contains("held back for"), "{said}");
    place.good(&["kv", "put", "city", "Bergen"]);
    let said = place.good(&["backup", "everbyte.store", "tuesday", "--since", "monday", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert!(said["stored"].as_u64() < said["pages"].as_u64() && said["parent"].is_string(), "{said}");

    let told = place.good(&["restore", "monday", "a.store"]);
    assert!(told.starts_with("restored a.store of 1 files: identity "), "{told}");
    assert_eq!(place.good(&["kv", "get", "city", "--store", "a.store"]), "Oslo\n");
    let told = place.good(&["restore", "monday", "tuesday", "b.store", "--new-identity", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_ne!(told["identity"], said["identity"]);
    assert_eq!(told["findings"], serde_json::json!([]));
    assert_eq!(place.good(&["kv", "get", "city", "--store", "b.store"]), "Bergen\n");
    place.good(&["check", "b.store", "--deep"]);
}

/// A volume with a snapshot: the increment has the pages that changed alone, and both are restored.
#[test]
fn a_volume_is_restored_from_an_increment() {
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home"]);
    let large: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
    fs::write(place.path("large"), &large).unwrap();
    fs::write(place.path("note"), "monday").unwrap();
    place.good(&["fs", "put", "large", "note", "home"]);
    place.good(&["fs", "snapshot", "create", "home", "kept"]);
    place.good(&["backup", "everbyte.store", "monday"]);
    fs::write(place.path("note"), "tuesday").unwrap();
    place.good(&["fs", "put", "--replace", "note", "home"]);
    let said = place.good(&["backup", "everbyte.store", "tuesday", "--since", "monday", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert!(said["stored"].as_u64().is_some_and(|stored| stored > 0 && stored < 73), "no page of `large`: {said}");
    for (files, note) in [(&["monday"][..], "monday"), (&["monday", "tuesday"], "tuesday")] {
        place.good(&[&["restore"], files, &["again.store"]].concat());
        let get = |from: &str, words: &[&str]| {
            let get = ["fs", "get", "--replace", "--store", "again.store"];
            place.good(&[&get, words, &[from, "copy"]].concat());
            fs::read(place.path("copy")).unwrap()
        };
        assert_eq!(get("home:/note", &[]), note.as_bytes());
        assert!(get("home:/large", &[]) == large);
        assert_eq!(get("home:/note", &["--snapshot", "kept"]), b"monday");
        let said = place.good(&["fs", "fsck", "home", "--store", "again.store"]);
        assert_eq!(said, "volume home is whole: nothing was interrupted\n");
        fs::remove_file(place.path("again.store")).unwrap();
    }
}

#[test]
fn what_cannot_be_backed_up_or_restored_is_told() {
    let place = Place::with_store();
    place.good(&["kv", "put", "city", "Oslo"]);
    place.good(&["backup", "everbyte.store", "b"]);
    place.bad(&["backup", "nowhere", "c"], 5, &["nowhere", "no such store"]);
    place.bad(&["backup", "everbyte.store", "b"], 2, &["b: cannot create"]);
    place.bad(&["backup", "everbyte.store", "nowhere/c"], 5, &["nowhere/c", "No such file"]);
    place.bad(&["backup", "everbyte.store", "c", "--since", "everbyte.store"], 3, &["not a backup"]);
    place.bad(&["restore", "b", "everbyte.store"], 2, &["everbyte.store: cannot create"]);
    place.bad(&["restore", "b"], 2, &["STORE"]);
    place.bad(&["restore", "b", "b", "c.store"], 2, &["a whole backup"]);
    let bytes = fs::read(place.path("b")).unwrap();
    fs::write(place.path("cut"), &bytes[..bytes.len() - 9]).unwrap();
    place.bad(&["restore", "cut", "c.store"], 3, &["cut", "end mark"]);
    let mut writer = place.command(&["kv", "import", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    while place.run(&["check"]).code != 4 {
        assert!(writer.try_wait().unwrap().is_none(), "the import waits for its input");
    }
    place.bad(&["backup", "everbyte.store", "c"], 4, &["in use", &format!("pid {}", writer.id())]);
    drop(writer.stdin.take());
    assert!(writer.wait().unwrap().success());
    assert_eq!(fs::read_dir(place.folder.path()).unwrap().count(), 3, "nothing is left behind");
}

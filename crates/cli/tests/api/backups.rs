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

//! `everbyte import` and `everbyte export`. The same beside a real Redis: the server's model tests.

use crate::common::Place;
use serde_json::Value;
use std::fs;

#[test]
fn keys_go_out_as_an_rdb_file_and_come_back() {
    let place = Place::with_store();
    place.good(&["kv", "put", "city", "Oslo"]);
    place.good(&["kv", "put", "year", "2026"]);
    let said = place.good(&["export", "everbyte.store", "keys.rdb"]);
    assert!(said.starts_with("exported 2 keys to keys.rdb, "), "{said}");
    assert!(fs::read(place.path("keys.rdb")).unwrap().starts_with(b"REDIS0010"));

    let said = place.good(&["import", "keys.rdb", "new.store", "--create"]);
    assert_eq!(said, "imported 2 keys\n");
    assert_eq!(place.good(&["kv", "get", "year", "--store", "new.store"]), "2026\n");
    place.good(&["check", "new.store", "--deep"]);
    place.good(&["kv", "put", "city", "Bergen", "--store", "new.store"]);
    place.bad(&["import", "keys.rdb", "new.store"], 2, &["\"city\"", "--replace", "nothing was imported"]);
    assert_eq!(place.good(&["kv", "get", "city", "--store", "new.store"]), "Bergen\n");
    let said = place.good(&["import", "keys.rdb", "new.store", "--replace", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["keys"], &said["replaced"]), (&Value::from(2), &Value::from(2)));
    assert_eq!(place.good(&["kv", "get", "city", "--store", "new.store"]), "Oslo\n");
}

#[test]
fn sources_that_cannot_be_imported_are_told() {
    let place = Place::with_store();
    place.good(&["kv", "put", "city", "Oslo"]);
    place.good(&["export", "everbyte.store", "keys.rdb"]);
    let bytes = fs::read(place.path("keys.rdb")).unwrap();
    fs::write(place.path("cut.rdb"), &bytes[..bytes.len() - 9]).unwrap();
    fs::write(place.path("new.rdb"), [b"REDIS0099", &bytes[9..]].concat()).unwrap();
    fs::write(place.path("text"), "no file of Redis\n").unwrap();
    fs::write(place.path("one.aof"), "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$3\r\nSE").unwrap();
    let nothing = "nothing was imported";
    place.bad(&["import", "cut.rdb", "--replace"], 3, &["cut.rdb: damaged at offset", nothing]);
    place.bad(&["import", "new.rdb"], 5, &["version 99", nothing]);
    place.bad(&["import", "text"], 3, &["no RDB file begins so", nothing]);
    place.bad(&["import", "nowhere"], 5, &["nowhere", "No such file"]);
    place.bad(&["import", "one.aof"], 2, &["the store has keys", "--clear", nothing]);
    place.bad(&["import", "keys.rdb", "--once"], 2, &["redis://"]);
    place.bad(&["import", "rediss://127.0.0.1:1"], 2, &["TLS"]);
    place.bad(&["import", "redis://127.0.0.1:1", "--clear"], 5, &["127.0.0.1:1: cannot connect", nothing]);
    place.bad(&["export", "everbyte.store", "keys.rdb"], 2, &["keys.rdb exists already"]);
    assert_eq!(place.good(&["kv", "get", "city"]), "Oslo\n");
    let said = place.good(&["import", "one.aof", "--clear"]);
    assert!(said.contains("1 commands executed") && said.contains("from offset 27 on"), "{said}");
    assert_eq!(place.good(&["kv", "scan", "--keys"]), "a\n");
}

/// Files are written under a name that no other process can foresee, for their owner alone.
#[test]
fn a_planted_link_is_neither_followed_nor_replaced() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let place = Place::with_store();
    place.good(&["kv", "put", "city", "Oslo"]);
    fs::write(place.path("victim"), "precious").unwrap();
    for (words, file) in [(&["export", "everbyte.store"][..], "keys.rdb"), (&["kv", "dump"], "keys.dump")] {
        let part = format!("{file}.part");
        symlink("victim", place.path(&part)).unwrap();
        place.good(&[words, &[file]].concat());
        assert_eq!(fs::metadata(place.path(file)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_link(place.path(&part)).unwrap().to_str(), Some("victim"));
        symlink("nowhere", place.path("link")).unwrap();
        place.bad(&[words, &["link"]].concat(), 2, &["link exists already"]);
        fs::remove_file(place.path("link")).unwrap();
    }
    assert_eq!(fs::read(place.path("victim")).unwrap(), b"precious");
    let names = fs::read_dir(place.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let parts: Vec<_> = names.filter(|name| name.to_string_lossy().contains(".part-")).collect();
    assert!(parts.is_empty() && !place.path("nowhere").exists(), "{parts:?}");
}

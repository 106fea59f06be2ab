//! `kv dump` and `kv load`: all tables in a file, and back. `kv repair`: what is left of a damaged
//! store.

use crate::common::{Place, flip};
use serde_json::Value;
use std::process::Stdio;

/// A store with two tables and a named version.
fn filled() -> Place {
    let place = Place::with_store();
    let lines: String = (0..3000).map(|number| format!("key/{number:05}\tvalue {number}\n")).collect();
    std::fs::write(place.path("in.tsv"), lines).unwrap();
    place.good(&["kv", "import", "in.tsv"]);
    place.good(&["kv", "put", "--in", "stock", "apple", "97"]);
    place.good(&["kv", "name", "monday"]);
    place.good(&["kv", "put", "--in", "stock", "pear", "5"]);
    place
}

#[test]
fn a_store_is_dumped_and_loaded() {
    let place = filled();
    let said: Value = serde_json::from_str(&place.good(&["kv", "dump", "all.dump", "--json"])).unwrap();
    assert_eq!((said["tables"].as_u64(), said["entries"].as_u64()), (Some(2), Some(3002)));
    assert_eq!(said["versions"].as_u64(), Some(1));
    place.bad(&["kv", "dump", "all.dump"], 2, &["exists already"]);
    let said = place.good(&["kv", "load", "--table", "copy", "all.dump"]);
    assert!(said.starts_with("loaded copy: 2 tables, 3002 entries, "), "{said}");
    for table in [&["--table", "kv"], &["--table", "copy"]] {
        let scan = |more: &[&str]| place.good(&[&["kv", "scan"], &table[..], more].concat());
        assert_eq!(scan(&["--in", "stock"]), "apple\t97\npear\t5\n");
        assert_eq!(scan(&[]), std::fs::read_to_string(place.path("in.tsv")).unwrap());
    }
    assert!(place.good(&["kv", "versions", "--table", "copy"]).starts_with("monday"));
    place.bad(&["kv", "load", "--table", "copy", "all.dump"], 2, &["copy"]);
    place.bad(&["kv", "load", "--in", "stock", "all.dump"], 2, &["--in"]);
    // A named version, into another store that is made.
    place.good(&["kv", "dump", "--at", "monday", "monday.dump"]);
    place.good(&["kv", "--store", "new.store", "load", "--create", "monday.dump"]);
    assert_eq!(place.good(&["kv", "--store", "new.store", "scan", "--in", "stock"]), "apple\t97\n");
    place.bad(&["kv", "dump", "--at", "tuesday"], 1, &["no version", "tuesday"]);
    assert!(place.good(&["check"]).contains("no damage"));
}

#[test]
fn a_dump_goes_through_a_pipe() {
    let place = filled();
    let mut dump = place.command(&["kv", "dump"]).stdout(Stdio::piped()).spawn().unwrap();
    let to = &["kv", "--store", "new.store", "load", "-", "--create"];
    let load = place.command(to).stdin(dump.stdout.take().unwrap()).output().unwrap();
    assert!(dump.wait().unwrap().success() && load.status.success(), "{load:?}");
    assert_eq!(place.good(&["kv", "--store", "new.store", "tables"]), "stock\t2 keys\n");
}

#[test]
fn a_damaged_dump_is_refused_with_its_place_and_leaves_nothing() {
    let place = filled();
    place.good(&["kv", "dump", "all.dump"]);
    let bytes = std::fs::read(place.path("all.dump")).unwrap();
    std::fs::write(place.path("cut.dump"), &bytes[..5000]).unwrap();
    place.bad(&["kv", "load", "--table", "new", "cut.dump"], 3, &["offset 0x1388", "cut off"]);
    flip(&place.path("all.dump"), 6000);
    place.bad(&["kv", "load", "--table", "new", "all.dump"], 3, &["offset 0xd0", "checksum", "nothing was loaded"]);
    place.bad(&["kv", "load", "--table", "new", "in.tsv"], 3, &["not a dump"]);
    place.bad(&["kv", "load", "--table", "new", "absent"], 5, &["absent"]);
    assert_eq!(place.good(&["ls"]), "kv\n");
}

#[test]
fn a_damaged_store_is_repaired_to_a_new_one() {
    let place = filled();
    let said = place.good(&["kv", "repair", "copy"]);
    assert!(said.starts_with("saved 3002 entries, "), "{said}");
    place.bad(&["kv", "repair", "copy"], 2, &["copy"]);
    place.good(&["rm", "copy"]);
    let mut bytes = std::fs::read(place.path("everbyte.store")).unwrap();
    // Each copy of it: nodes that were replaced have some.
    let copies: Vec<_> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(b"value 1234")).collect();
    copies.iter().for_each(|&at| bytes[at] ^= 0x55);
    std::fs::write(place.path("everbyte.store"), bytes).unwrap();
    place.bad(&["kv", "dump", "all.dump"], 3, &["checksum"]);
    place.good(&["create", "other.store"]);
    let said = place.bad(&["kv", "repair", "saved", "--into", "other.store"], 1, &["kv is damaged: 1 losses"]).out;
    assert!(
        said.contains(": key key/01234: ")
            && said.contains("saved 3001 entries")
            && said.contains("1 keys are missing")
    );
    place.bad(&["kv", "--store", "other.store", "--table", "saved", "get", "key/01234"], 1, &[]);
    assert_eq!(place.good(&["kv", "--store", "other.store", "--table", "saved", "get", "key/01233"]), "value 1233\n");
    let said: Value =
        serde_json::from_str(place.run(&["kv", "repair", "saved", "--json"]).out.lines().last().unwrap()).unwrap();
    assert_eq!((said["entries"].as_u64(), said["missing"].as_u64()), (Some(3001), Some(1)));
}

//! The key-value commands, alone and across processes.

use crate::common::Place;
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

#[test]
fn put_get_and_delete() {
    let place = Place::with_store();
    place.good(&["kv", "put", "fruit/apple", "red"]);
    place.good(&["kv", "put", "fruit/\\xff", "a\\tb"]);
    assert_eq!(place.good(&["kv", "get", "fruit/apple"]), "red\n");
    assert_eq!(place.good(&["kv", "get", "fruit/\\xff"]), "a\tb\n");
    let got: Value = serde_json::from_str(&place.good(&["kv", "get", "fruit/\\xff", "--json"])).unwrap();
    assert_eq!((got["key_b64"].as_str(), got["value"].as_str()), (Some("ZnJ1aXQv/w=="), Some("a\tb")));
    place.good(&["kv", "del", "fruit/apple"]);
    place.bad(&["kv", "get", "fruit/apple"], 1, &["fruit/apple"]);
    place.bad(&["kv", "del", "fruit/apple", "fruit/\\xff"], 1, &["fruit/apple"]);
    place.bad(&["kv", "get", "fruit/\\xff"], 1, &[]);
    place.bad(&["kv", "get", "\\q"], 2, &["\\q", "escape"]);
}

#[test]
fn a_value_comes_from_standard_input_and_may_be_large() {
    let place = Place::with_store();
    let value: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let mut child = place.command(&["kv", "put", "large"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&value).unwrap();
    assert!(child.wait().unwrap().success());
    let out = place.command(&["kv", "get", "large"]).output().unwrap();
    assert_eq!(&out.stdout[..value.len()], value);
}

#[test]
fn scan_knows_ranges_prefixes_limits_and_both_directions() {
    let place = Place::with_store();
    let lines: String = ["a", "b/1", "b/2", "b/3", "c"].iter().map(|key| format!("{key}\t{key}!\n")).collect();
    std::fs::write(place.path("in.tsv"), lines).unwrap();
    place.good(&["kv", "import", "in.tsv"]);
    let scan =
        |words: &[&str]| place.good(&[&["kv", "scan", "--keys"], words].concat()).lines().collect::<Vec<_>>().join(" ");
    assert_eq!(scan(&[]), "a b/1 b/2 b/3 c");
    assert_eq!(scan(&["--reverse"]), "c b/3 b/2 b/1 a");
    assert_eq!(scan(&["--prefix", "b/"]), "b/1 b/2 b/3");
    assert_eq!(scan(&["--prefix", "b/", "--reverse", "--limit", "2"]), "b/3 b/2");
    assert_eq!(scan(&["--start", "b/2", "--end", "c"]), "b/2 b/3");
    assert_eq!(place.good(&["kv", "scan", "--limit", "1"]), "a\ta!\n");
    assert_eq!(place.good(&["kv", "scan", "--limit", "1", "--json"]), "{\"key\":\"a\",\"value\":\"a!\"}\n");
}

#[test]
fn import_and_export_are_each_others_inverse() {
    let place = Place::with_store();
    let lines: String =
        (0..2500).map(|n| format!("{{\"key\":\"key/{n:05}\",\"value_b64\":\"/wD+\",\"note\":{n}}}\n")).collect();
    std::fs::write(place.path("in.jsonl"), lines).unwrap();
    let said: Value = serde_json::from_str(&place.good(&["kv", "import", "in.jsonl", "--json"])).unwrap();
    assert_eq!(said["imported"], 2500);
    for name in ["out.jsonl", "out.tsv"] {
        place.good(&["kv", "export", name]);
        let other = Place::new();
        std::fs::copy(place.path(name), other.path(name)).unwrap();
        other.good(&["kv", "import", name, "--create", "--batch", "333"]);
        other.good(&["kv", "export", "again.jsonl"]);
        place.good(&["kv", "export", &format!("{name}.first.jsonl")]);
        let read = |path| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(other.path("again.jsonl")), read(place.path(&format!("{name}.first.jsonl"))));
        assert!(other.good(&["check"]).contains("no damage"));
    }
    place.bad(&["kv", "export", "out.tsv"], 2, &["exists already"]);
}

#[test]
fn a_wrong_line_is_named_and_what_came_before_is_kept() {
    let place = Place::with_store();
    std::fs::write(place.path("in.tsv"), "a\t1\nb\t2\nno tab here\nc\t3\n").unwrap();
    place.bad(&["kv", "import", "in.tsv", "--batch", "1"], 2, &["in.tsv line 3", "tab", "2 entries"]);
    assert_eq!(place.good(&["kv", "scan", "--keys"]), "a\nb\n");
}

#[test]
fn keys_of_nothing_and_of_a_megabyte() {
    let place = Place::with_store();
    let long = "k".repeat(1 << 20);
    std::fs::write(place.path("in.tsv"), format!("\tempty key\n{long}\tlong key\n")).unwrap();
    place.good(&["kv", "import", "in.tsv"]);
    assert_eq!(place.good(&["kv", "get", ""]), "empty key\n");
    assert_eq!(place.good(&["kv", "scan", "--prefix", "kk"]), format!("{long}\tlong key\n"));
    assert!(place.good(&["check"]).contains("no damage"));
}

#[test]
fn tables_are_apart_and_an_absent_one_is_named() {
    let place = Place::with_store();
    place.good(&["kv", "--table", "one", "put", "k", "1"]);
    place.good(&["kv", "--table", "two", "put", "k", "2"]);
    assert_eq!(place.good(&["kv", "get", "k", "--table", "one"]), "1\n");
    place.bad(&["kv", "get", "k"], 1, &["`kv`"]);
    let info = place.good(&["info"]);
    assert!(info.contains("one") && info.contains("two"), "{info}");
}

#[test]
fn tables_with_names_and_versions_with_names() {
    let place = Place::with_store();
    place.good(&["kv", "put", "apple", "red"]);
    place.good(&["kv", "put", "--in", "stock", "apple", "97"]);
    assert_eq!(place.good(&["kv", "get", "--in", "stock", "apple"]), "97\n");
    assert_eq!(place.good(&["kv", "tables"]), "stock\t1 keys\n");
    place.bad(&["kv", "get", "--in", "nothing", "apple"], 1, &["no table", "nothing"]);
    place.good(&["kv", "name", "monday"]);
    place.bad(&["kv", "name", "monday"], 2, &["monday", "already"]);
    std::fs::write(place.path("in.tsv"), "apple\t96\npear\t5\n").unwrap();
    place.good(&["kv", "import", "--in", "stock", "in.tsv"]);
    place.good(&["kv", "del", "apple"]);
    assert_eq!(place.good(&["kv", "changes", "monday"]), "-apple\tred\n");
    assert_eq!(place.good(&["kv", "changes", "--in", "stock", "monday"]), "-apple\t97\n+apple\t96\n+pear\t5\n");
    let said: Value = serde_json::from_str(&place.good(&["kv", "versions", "--json"])).unwrap();
    assert_eq!((said["versions"][0]["name"].as_str(), said["versions"][0]["keys"].as_u64()), (Some("monday"), Some(1)));
    place.good(&["kv", "restore", "monday"]);
    assert_eq!(place.good(&["kv", "scan"]), "apple\tred\n");
    assert_eq!(place.good(&["kv", "scan", "--in", "stock"]), "apple\t97\n");
    place.good(&["kv", "drop-table", "stock"]);
    assert_eq!(place.good(&["kv", "tables", "--json"]), "{\"tables\":[]}\n");
    place.good(&["kv", "forget", "monday"]);
    place.bad(&["kv", "restore", "monday"], 1, &["no version", "monday"]);
    place.good(&["check"]);
}

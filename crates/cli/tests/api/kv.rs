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
fn a_table_is_read_beside_its_writer() {
    let place = Place { folder: tempfile::tempdir_in("/dev/shm").unwrap() };
    place.good(&["create", "--max", "64MiB"]);
    let (path, options) = (place.path("everbyte.store"), everbyte_media::Options::default());
    let alone = everbyte_store::Store::open(&path, &options).unwrap();
    place.bad(&["kv", "--beside", "get", "pear"], 4, &["in use", "does not share it"]);
    drop(alone);
    let store = everbyte_store::Store::options(&path).shared().open(&options).unwrap();
    place.bad(&["kv", "--beside", "get", "pear"], 1, &["kv"]);
    let kv = everbyte_kv::Kv::create(&store, "kv").unwrap();
    let table = kv.create_table("prices").unwrap();
    for price in ["3", "4"] {
        kv.put(b"pear", b"ripe").unwrap();
        table.put(b"pear", price.as_bytes()).unwrap();
        assert_eq!(place.good(&["kv", "--beside", "get", "pear"]), "ripe\n");
        assert_eq!(place.good(&["kv", "--beside", "--in", "prices", "get", "pear"]), format!("{price}\n"));
    }
    let got: Value = serde_json::from_str(&place.good(&["kv", "--beside", "get", "pear", "--json"])).unwrap();
    assert_eq!((got["key"].as_str(), got["value"].as_str()), (Some("pear"), Some("ripe")));
    assert_eq!(place.good(&["kv", "--beside", "scan", "--prefix", "p"]), "pear\tripe\n");
    assert_eq!(place.good(&["kv", "--beside", "tables"]), "prices\t1 keys\n");
    place.bad(&["kv", "--beside", "get", "plum"], 1, &["plum"]);
    place.bad(&["kv", "--beside", "--in", "none", "scan"], 1, &["none"]);
    place.bad(&["kv", "--beside", "put", "a", "b"], 2, &["--beside"]);
    place.bad(&["kv", "--beside", "--read-only", "get", "a"], 2, &["--read-only"]);
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
    let said: serde_json::Value = serde_json::from_str(&place.good(&["kv", "compact", "--json"])).unwrap();
    assert!(said["entries"].as_u64() > Some(0) && said["bytes_after"].as_u64() <= said["bytes_before"].as_u64());
    assert!(place.good(&["kv", "compact"]).contains("entries: 0 leaves"), "there is no more to do");
    place.bad(&["kv", "restore", "monday"], 1, &["no version", "monday"]);
    place.good(&["check"]);
}

#[test]
fn figures_tell_keys_versions_and_space() {
    let place = Place::with_store();
    let stat = |words: &[&str]| -> Value {
        serde_json::from_str(&place.good(&[&["kv", "stat", "--json"], words].concat())).unwrap()
    };
    place.bad(&["kv", "stat"], 1, &["`kv`"]);
    std::fs::write(place.path("in.tsv"), "apple\tred\npear\tgreen\n").unwrap();
    place.good(&["kv", "import", "in.tsv"]);
    place.good(&["kv", "put", "--in", "stock", "apple", "97"]);
    let before = stat(&[]);
    assert_eq!((&before["keys"], &before["tables"], &before["keys_in_tables"]), (&2.into(), &1.into(), &1.into()));
    assert_eq!((&before["oldest_version_in_use"], &before["named_versions"]), (&before["version"], &0.into()));
    assert_eq!((&before["bytes_of_entries"], &before["oldest_name"]), (&Value::Null, &Value::Null));
    place.good(&["kv", "name", "monday"]);
    place.good(&["kv", "name", "tuesday"]);
    place.good(&["kv", "put", "fig", "blue"]);
    let after = stat(&["--entries", "--read-only"]);
    assert_eq!(
        (&after["keys"], &after["named_versions"], &after["oldest_name"]),
        (&3.into(), &2.into(), &"monday".into())
    );
    assert_eq!(after["oldest_version_in_use"], before["version"], "that of the oldest name");
    assert!(after["version"].as_u64() > before["version"].as_u64() && after["levels"].as_u64() >= Some(2), "{after}");
    let payload = ["apple", "red", "pear", "green", "fig", "blue", "apple", "97"].concat().len() as u64;
    assert_eq!(after["bytes_of_entries"], payload);
    let blocks = after["bytes_in_blocks"].as_u64().unwrap();
    assert!(blocks > payload && blocks < 1 << 20, "{after}");
    let ratio = after["space_amplification"].as_f64().unwrap();
    assert!((ratio - blocks as f64 / payload as f64).abs() < 0.01, "{after}");
    let text = place.good(&["kv", "stat"]);
    assert!(text.contains("keys in tables") && text.contains("monday") && !text.contains("amplification"), "{text}");
}

#[test]
fn keys_are_compared_and_counted() {
    let place = Place::with_store();
    place.good(&["kv", "cas", "owner", "--new", "Ada"]);
    place.bad(&["kv", "cas", "owner", "--new", "Bob"], 1, &["`owner`", "unchanged", "`Ada`"]);
    place.good(&["kv", "cas", "owner", "--expected", "Ada", "--new", "Bob"]);
    assert_eq!(place.good(&["kv", "get", "owner"]), "Bob\n");
    place.good(&["kv", "cas", "owner", "--expected", "Bob"]);
    place.bad(&["kv", "get", "owner"], 1, &["no key"]);
    place.bad(&["kv", "cas", "owner", "--expected", "Bob", "--json"], 1, &["not there"]);
    assert_eq!(place.good(&["kv", "incr", "--in", "counts", "visits"]), "1\n");
    assert_eq!(place.good(&["kv", "incr", "--in", "counts", "visits", "41", "--json"]), "{\"sum\":42}\n");
    assert_eq!(place.good(&["kv", "incr", "--in", "counts", "visits", "-43"]), "-1\n");
    place.bad(&["kv", "incr", "--in", "counts", "visits", &i64::MIN.to_string()], 2, &["beyond the range", "visits"]);
    place.good(&["kv", "put", "word", "hello"]);
    place.bad(&["kv", "incr", "word"], 2, &["no counter", "5 bytes"]);
    place.good(&["check"]);
}

/// Keys and values of a typed table are readable; bytes that are none of its types are refused.
#[test]
fn typed_tables_are_shown_and_verified() {
    let place = Place::with_store();
    place.good(&["kv", "put", "a", "b"]);
    {
        let store = everbyte_store::Store::open(&place.path("everbyte.store"), &Default::default()).unwrap();
        let kv = everbyte_kv::Kv::open(&store, "kv").unwrap();
        let table = kv.create_typed::<(String, u8), Option<bool>>("typed").unwrap();
        table.put(&("a".into(), 65), &Some(true)).unwrap();
        drop((table, kv));
        store.close().unwrap();
    }
    let (key, value) = ("a\\x00\\x00A", "\\x01\\x01");
    assert_eq!(place.good(&["kv", "get", "--in", "typed", key]), "Some(true)\n");
    let got: Value = serde_json::from_str(&place.good(&["kv", "get", "--in", "typed", key, "--json"])).unwrap();
    assert_eq!((&got["key_shown"], &got["value_shown"]), (&"(\"a\", 65)".into(), &"Some(true)".into()));
    assert_eq!((&got["key"], &got["value"]), (&"a\0\0A".into(), &"\u{1}\u{1}".into()));

    place.bad(&["kv", "put", "--in", "typed", "a", value], 2, &["the key is no encoding of `(String, u8)`", "byte 1"]);
    place.bad(&["kv", "put", "--in", "typed", key, "9"], 2, &["the value is no encoding of `Option<bool>`"]);
    place.bad(
        &["kv", "cas", "--in", "typed", key, "--expected", value, "--new", "9"],
        2,
        &["the value is no encoding"],
    );
    place.bad(&["kv", "incr", "--in", "typed", key], 2, &["has no counters"]);
    std::fs::write(place.path("in.tsv"), format!("{key}\t{value}\na\t{value}\n")).unwrap();
    place.bad(&["kv", "import", "--in", "typed", "in.tsv"], 2, &["line 2: the key is no encoding"]);
    place.good(&["kv", "put", "--in", "typed", "b\\x00\\x00B", "\\x00"]);
    assert_eq!(place.good(&["kv", "scan", "--in", "typed"]), "(\"a\", 65)\tSome(true)\n(\"b\", 66)\tNone\n");
    assert_eq!(place.good(&["kv", "scan", "--in", "typed", "--keys", "--limit", "1"]), "(\"a\", 65)\n");
    let line: Value =
        serde_json::from_str(&place.good(&["kv", "scan", "--in", "typed", "--json", "--reverse", "--limit", "1"]))
            .unwrap();
    assert_eq!((&line["key_shown"], &line["value_shown"]), (&"(\"b\", 66)".into(), &"None".into()));
}

/// A table that is empty is filled in bulk as long as keys ascend, over any number of batches; the
/// rest is put, and what is there already is replaced.
#[test]
fn an_import_into_an_empty_table_is_loaded_in_bulk() {
    let place = Place::with_store();
    let import = |words: &[&str]| -> (u64, u64) {
        let words = [&["kv", "import", "--json", "--batch", "100"], words].concat();
        let said: Value = serde_json::from_str(&place.good(&words)).unwrap();
        (said["imported"].as_u64().unwrap(), said["in_bulk"].as_u64().unwrap())
    };
    let line = |n: u32| format!("{n:05}\tvalue {n}\n");
    let all: String = (0..950).map(line).collect();
    std::fs::write(place.path("sorted.tsv"), &all).unwrap();
    std::fs::write(place.path("turns.tsv"), (0..450).chain(440..950).map(line).collect::<String>()).unwrap();
    std::fs::write(place.path("twice.tsv"), format!("{}{}", line(1), line(1))).unwrap();
    assert_eq!(import(&["sorted.tsv"]), (950, 950));
    assert_eq!(import(&["sorted.tsv"]), (950, 0), "keys are there");
    assert_eq!(import(&["--in", "t", "sorted.tsv"]), (950, 950));
    assert_eq!(import(&["--in", "turns", "turns.tsv"]), (960, 400));
    assert_eq!(import(&["--in", "twice", "twice.tsv"]), (2, 0));
    for table in [&[][..], &["--in", "t"], &["--in", "turns"]] {
        assert_eq!(place.good(&[&["kv", "scan"], table].concat()), all);
    }
    assert!(place.good(&["check"]).contains("no damage"));
}

/// `put --ttl` makes a table with deadlines; every other command shows and keeps what they mean.
#[test]
fn entries_with_a_time_to_live() {
    let place = Place::with_store();
    place.bad(&["kv", "put", "k", "v", "--ttl", "1s"], 2, &["--in"]);
    place.bad(&["kv", "put", "--in", "s", "k", "v", "--ttl", "1x"], 2, &["30s"]);
    place.good(&["kv", "put", "--in", "s", "short", "lived", "--ttl", "1ms"]);
    place.good(&["kv", "put", "--in", "s", "long", "lived", "--ttl", "1d"]);
    place.good(&["kv", "put", "--in", "s", "for ever", "there"]);
    std::thread::sleep(std::time::Duration::from_millis(5));
    place.bad(&["kv", "get", "--in", "s", "short"], 1, &["short"]);
    place.bad(&["kv", "del", "--in", "s", "short"], 1, &["short"]);
    assert_eq!(place.good(&["kv", "get", "--in", "s", "long"]), "lived\n");
    let got =
        |key: &str| -> Value { serde_json::from_str(&place.good(&["kv", "get", "--in", "s", key, "--json"])).unwrap() };
    assert!(
        got("long")["deadline_ms"].as_u64().unwrap() > 1_700_000_000_000 && got("for ever")["deadline_ms"].is_null()
    );
    assert_eq!(place.good(&["kv", "scan", "--in", "s"]), "for ever\tthere\nlong\tlived\n");
    assert_eq!(place.good(&["kv", "scan", "--in", "s", "--reverse", "--prefix", "l"]), "long\tlived\n");
    place.good(&["kv", "export", "--in", "s", "out.tsv"]);
    assert_eq!(std::fs::read_to_string(place.path("out.tsv")).unwrap(), "for ever\tthere\nlong\tlived\n");
    // Commands that know nothing of deadlines do not write there.
    for words in [
        &["cas", "--in", "s", "long", "--new", "x"][..],
        &["incr", "--in", "s", "n"],
        &["import", "--in", "s", "out.tsv"],
    ] {
        place.bad(&[&["kv"], words].concat(), 2, &["`s` have deadlines", "kv put"]);
    }
    place.bad(&["kv", "put", "--in", "s.expiry", "k", "v"], 2, &["deadlines of `s`"]);
    place.bad(&["kv", "del", "--in", "s.expiry", "k"], 2, &["deadlines of `s`"]);
    assert_eq!(place.good(&["kv", "expire", "--in", "s"]), "removed 1 entries\n");
    assert_eq!(place.good(&["kv", "expire", "--in", "s"]), "removed 0 entries\n");
    place.bad(&["kv", "expire"], 2, &["--in"]);
    place.good(&["kv", "del", "--in", "s", "long"]);
    assert_eq!(place.good(&["kv", "scan", "--in", "s", "--keys"]), "for ever\n");
    // A table without deadlines gets none.
    place.good(&["kv", "put", "--in", "plain", "k", "v"]);
    place.bad(&["kv", "put", "--in", "plain", "k", "v", "--ttl", "1s"], 2, &["plain"]);
}

/// With `--read-only` no byte of the file changes, a file without write permission will do, and
/// every command that writes is refused.
#[test]
fn reading_alone_changes_nothing() {
    let place = Place::with_store();
    place.good(&["kv", "put", "k", "v"]);
    place.good(&["kv", "put", "--in", "s", "k", "v", "--ttl", "1ms"]);
    place.good(&["kv", "name", "monday"]);
    let before = std::fs::read(place.path("everbyte.store")).unwrap();
    assert_eq!(place.good(&["kv", "get", "k", "--read-only"]), "v\n");
    assert_eq!(place.good(&["kv", "scan", "--read-only"]), "k\tv\n");
    assert_eq!(place.good(&["kv", "versions", "--read-only"]).lines().count(), 1);
    place.good(&["kv", "export", "out.tsv", "--read-only"]);
    place.good(&["kv", "dump", "out.dump", "--read-only"]);
    for words in [&["put", "k", "w"][..], &["incr", "n"], &["cas", "k", "--expected", "v"], &["import", "out.tsv"]] {
        place.bad(&[&["kv", "--read-only"], words].concat(), 2, &["--read-only"]);
    }
    for words in [
        &["del", "k"][..],
        &["name", "tuesday"],
        &["forget", "monday"],
        &["drop-table", "s"],
        &["expire", "--in", "s"],
        &["compact"],
    ] {
        place.bad(&[&["kv", "--read-only"], words].concat(), 5, &["read-only"]);
    }
    assert!(std::fs::read(place.path("everbyte.store")).unwrap() == before, "the file has changed");
}

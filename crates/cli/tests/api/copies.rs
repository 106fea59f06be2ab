//! Copies of stores: clones, manual copies, and their identities.

use crate::common::{Place, flip};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

/// A store in ./everbyte.store that holds one key.
fn place() -> Place {
    let place = Place::with_store();
    place.good(&["kv", "put", "city", "Oslo"]);
    place
}

fn info(place: &Place, store: &str) -> Value {
    serde_json::from_str(&place.good(&["info", store, "--json"])).unwrap()
}

#[test]
fn a_clone_is_used_by_one_process_while_another_has_the_original() {
    let place = place();
    let said = place.good(&["store", "clone", "everbyte.store", "b.store"]);
    assert!(said.contains("cloned everbyte.store to b.store: identity "), "{said}");
    assert_ne!(info(&place, "everbyte.store")["identity"], info(&place, "b.store")["identity"]);
    let mut writer = place.command(&["kv", "import", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    while place.run(&["check"]).code != 4 {
        assert!(writer.try_wait().unwrap().is_none(), "the import waits for its input");
    }
    place.good(&["kv", "put", "city", "Bergen", "--store", "b.store"]);
    place.bad(&["store", "clone", "everbyte.store", "c.store"], 4, &["in use", &format!("pid {}", writer.id())]);
    drop(writer.stdin.take());
    assert!(writer.wait().unwrap().success());
    assert_eq!(place.good(&["kv", "get", "city", "--store", "b.store"]), "Bergen\n");
    assert_eq!(place.good(&["kv", "get", "city"]), "Oslo\n");
    let said = place.good(&["store", "clone", "everbyte.store", "c.store", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["identity"], info(&place, "c.store")["identity"]);
    assert!(said["copied"].as_u64() > Some(0));
}

#[test]
fn a_copy_made_by_hand_gets_an_identity() {
    let place = place();
    let before = info(&place, "everbyte.store")["identity"].clone();
    fs::copy(place.path("everbyte.store"), place.path("b.store")).unwrap();
    assert_eq!(info(&place, "b.store")["identity"], before);
    assert!(place.good(&["store", "rebase", "b.store"]).contains("b.store now has the identity"));
    let after = info(&place, "b.store")["identity"].clone();
    assert_ne!(after, before);
    let said: Value = serde_json::from_str(&place.good(&["store", "rebase", "b.store", "--json"])).unwrap();
    assert!(said["identity"] != after && said["identity"] == info(&place, "b.store")["identity"]);
    assert_eq!(place.good(&["kv", "get", "city", "--store", "b.store"]), "Oslo\n");
    assert_eq!(info(&place, "everbyte.store")["identity"], before);
}

#[test]
fn what_cannot_be_cloned_is_told() {
    let place = place();
    place.bad(&["store", "clone", "nowhere", "b.store"], 5, &["nowhere", "no such store"]);
    place.bad(&["store", "clone", "everbyte.store", "everbyte.store"], 2, &["exists already"]);
    place.bad(&["store", "clone", "everbyte.store", "nowhere/b.store"], 5, &["nowhere/b.store", "No such file"]);
    place.bad(&["store", "clone", "everbyte.store"], 2, &["TARGET"]);
    place.bad(&["store", "rebase", "nowhere"], 5, &["nowhere", "no such store"]);
    flip(&place.path("everbyte.store"), (16 << 10) + 16);
    place.bad(&["store", "clone", "everbyte.store", "b.store"], 3, &["everbyte.store", "damaged", "everbyte check"]);
    assert_eq!(fs::read_dir(place.folder.path()).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn stores_are_merged_and_an_interrupted_merge_is_resumed() {
    let place = place();
    place.good(&["create", "b.store", "--max", "1GiB", "--log", "1MiB"]);
    place.good(&["kv", "put", "city", "Bergen", "--store", "b.store"]);
    place.good(&["kv", "put", "fish", "cod", "--store", "b.store", "--table", "food"]);
    let get = |key: &str, table: &str| place.good(&["kv", "get", key, "--table", table]);

    place.bad(
        &["store", "merge", "everbyte.store", "b.store"],
        2,
        &["b.store", "`kv`", "prefix", "nothing was merged"],
    );
    let words = ["store", "merge", "everbyte.store", "b.store", "--prefix", "b/"];
    let said = place.good(&[&words[..], &["--dry-run"]].concat());
    assert!(said.contains("b/food  to be copied") && said.contains("2 to be copied"), "{said}");
    assert_eq!(info(&place, "everbyte.store")["objects"].as_array().unwrap().len(), 1);
    let said = place.good(&words);
    assert!(said.contains("b/kv  copied: `kv` of b.store") && said.contains("2 copied"), "{said}");
    assert_eq!([get("city", "kv"), get("city", "b/kv"), get("fish", "b/food")], ["Oslo\n", "Bergen\n", "cod\n"]);
    place.bad(&words, 2, &["merged before", "resume"]);
    let said = place.good(&[&words[..], &["--resume", "--json"]].concat());
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["state"], &lines[0]["name"]), (&"there already".into(), &"b/food".into()));
    assert_eq!((&lines[2]["copied"], &lines[2]["present"]), (&0.into(), &2.into()));

    let words = ["store", "merge", "everbyte.store", "b.store", "--rename", "kv=west", "--skip", "food"];
    assert!(place.good(&words).contains("1 copied"));
    assert_eq!(get("city", "west"), "Bergen\n");
    place.good(&["check"]);
    place.good(&["check", "b.store"]);
}

#[test]
fn what_cannot_be_merged_is_told() {
    let place = place();
    place.bad(&["store", "merge", "everbyte.store"], 2, &["SOURCES"]);
    place.bad(&["store", "merge", "everbyte.store", "./everbyte.store"], 2, &["into itself"]);
    place.bad(&["store", "merge", "everbyte.store", "nowhere"], 5, &["nowhere", "no such store"]);
    place.bad(&["store", "merge", "nowhere", "everbyte.store"], 5, &["nowhere", "no such store"]);
    place.good(&["store", "clone", "everbyte.store", "b.store"]);
    place.bad(&["store", "merge", "b.store", "everbyte.store", "--rename", "kv"], 2, &["`kv`", "new name"]);
    place.bad(&["store", "merge", "b.store", "everbyte.store", "--skip", "fish"], 2, &["`fish`"]);
    let mut writer = place.command(&["kv", "import", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    while place.run(&["check"]).code != 4 {
        assert!(writer.try_wait().unwrap().is_none(), "the import waits for its input");
    }
    let words = ["store", "merge", "b.store", "everbyte.store", "--prefix", "a/"];
    place.bad(&words, 4, &["everbyte.store", "in use", &format!("pid {}", writer.id())]);
    drop(writer.stdin.take());
    assert!(writer.wait().unwrap().success());
    flip(&place.path("everbyte.store"), (16 << 10) + 16);
    place.bad(&words, 3, &["everbyte.store", "damaged", "everbyte check"]);
}

//! The command line treats every engine alike, by the engines' tools.

use crate::common::Place;
use everbyte_store::{CustomEngine, Engine, Object, ObjectOptions, Store};
use everbyte_tx::redo::Truncation;
use everbyte_tx::{Error, Redo};

/// The file of a store that a process left without closing it: three transactions of a redo object
/// have committed, and their records are not truncated.
fn left_by_a_crash() -> (Place, std::path::PathBuf) {
    let place = Place::with_store();
    let store = Store::open(&place.path("everbyte.store"), &Default::default()).unwrap();
    let options = ObjectOptions { engine: Engine::Redo, fingerprint: 0, span: Some(1 << 20) };
    let redo = Redo::open(store.create_object("accounts", options, Redo::format).unwrap()).unwrap();
    redo.set_truncation(Truncation::Asynchronous);
    let block = redo.atomically(|tx| tx.allocate(64)).unwrap();
    for amount in 1..=2 {
        redo.atomically(|tx| tx.store(block.at, amount)).unwrap();
    }
    let copy = place.path("crashed.store");
    std::fs::copy(place.path("everbyte.store"), &copy).unwrap();
    (place, copy)
}

#[test]
fn a_deep_check_knows_the_redo_engine() {
    let (place, crashed) = left_by_a_crash();
    let said = place.good(&["check", "--deep", crashed.to_str().unwrap()]);
    assert!(said.contains("`accounts`: not walked: what its blocks hold only its program knows"), "{said}");
}

#[test]
fn a_repair_recovers_redo_objects() {
    let (place, crashed) = left_by_a_crash();
    let crashed = crashed.to_str().unwrap();
    let said = place.good(&["check", "--repair", crashed]);
    assert!(said.contains("`accounts`: 3 committed transactions brought to their places"), "{said}");
    let again = place.good(&["check", "--repair", crashed]);
    assert!(!again.contains("`accounts`"), "{again}");
}

#[test]
fn a_name_that_is_taken_is_no_damage() {
    let place = Place::with_store();
    let store = Store::open(&place.path("everbyte.store"), &Default::default()).unwrap();
    for name in ["a", "b"] {
        store.create_object(name, ObjectOptions::default(), |_: &Object| Ok::<(), everbyte_store::Error>(())).unwrap();
    }
    store.close().unwrap();
    drop(store);
    place.bad(&["mv", "a", "b"], 2, &["`b` exists already"]);
    place.bad(&["mv", "c", "d"], 1, &["no object is named `c`"]);
}

#[test]
fn an_engine_of_another_program_is_named_and_left_alone() {
    const OTHER: Engine = Engine::Custom(CustomEngine::new(0x1_0007));
    let place = Place::with_store();
    let store = Store::open(&place.path("everbyte.store"), &Default::default()).unwrap();
    let options = ObjectOptions { engine: OTHER, fingerprint: 0, span: None };
    store.create_object("theirs", options, |_: &Object| Ok::<(), Error>(())).unwrap();
    store.close().unwrap();
    drop(store);
    let said = place.good(&["check"]);
    assert!(said.contains("this program has no engine `custom 0x10007`"), "{said}");
    assert!(place.good(&["info"]).contains("theirs  engine custom 0x10007"));
}

//! Pools as lines of JSON: written by their description, made of them again, and refused where the
//! text is wrong.

#[path = "../common/mod.rs"]
mod common;
mod forms;
mod kinds;
mod refused;
mod shapes;

use everbyte_object::{PoolOptions, Result, UntypedPool, load};
use everbyte_store::Store;

/// The lines of a pool.
fn dump(store: &Store, name: &str) -> Vec<String> {
    let mut text = Vec::new();
    UntypedPool::open(store, name).unwrap().dump(&mut text, &|_| ()).unwrap();
    String::from_utf8(text).unwrap().lines().map(String::from).collect()
}

/// Makes a pool of lines.
fn make(store: &Store, name: &str, lines: &[impl AsRef<str>]) -> Result<everbyte_object::Loaded> {
    let text: String = lines.iter().flat_map(|line| [line.as_ref(), "\n"]).collect();
    load(store, name, &PoolOptions::default(), &mut text.as_bytes(), &|_| ())
}

/// Dumps a pool, and makes another of it that must be whole and give the same dump.
#[track_caller]
fn copy(store: &Store, name: &str, copy: &str) -> Vec<String> {
    copy_of(store, name, copy, |line| line.into())
}

/// [`copy`] whose lines are compared in a form of theirs.
#[track_caller]
fn copy_of(store: &Store, name: &str, copy: &str, form: fn(&str) -> String) -> Vec<String> {
    let lines = dump(store, name);
    let loaded = make(store, copy, &lines).unwrap();
    assert_eq!(loaded.lines, lines.len() as u64);
    let findings = UntypedPool::open(store, copy).unwrap().examine(&|_| ()).findings();
    assert!(findings.iter().all(|finding| !finding.is_damage()), "{findings:?}");
    assert!(!findings.iter().any(|finding| format!("{finding:?}").contains("leak")), "{findings:?}");
    let again = dump(store, copy);
    assert_eq!(again.len(), lines.len());
    for (line, (old, new)) in lines.iter().zip(&again).enumerate().skip(1) {
        assert!(form(old) == form(new), "line {line}");
    }
    lines
}

//! The examples of two pages of the manual run. Those of a page are one program: the lines of its
//! examples, without indentation, are the lines between `begin` and `end` in the program's file.

#![forbid(unsafe_code)]

mod changing;
mod store;

use std::path::Path;

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

#[track_caller]
fn is_of_page(page: &str, program: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/manual").join(page);
    let page = std::fs::read_to_string(path).unwrap();
    let examples = page.split("```rust\n").skip(1).map(|block| block.split("```").next().unwrap());
    let shown: Vec<&str> = examples.flat_map(lines).collect();
    let run = program.split_once("// begin\n").and_then(|(_, rest)| rest.split_once("// end\n"));
    assert_eq!(lines(run.expect("both marks").0), shown);
}

fn in_a_folder(run: fn(&Path) -> Result<(), Box<dyn std::error::Error>>) {
    let folder = tempfile::tempdir().unwrap();
    run(&folder.path().join("store")).unwrap();
}

#[test]
fn the_chapter_on_the_store_runs() {
    is_of_page("kv.md", include_str!("store.rs"));
    in_a_folder(store::run);
}

#[test]
fn the_chapter_on_other_stores_runs() {
    is_of_page("from-lmdb-redb-rocksdb.md", include_str!("changing.rs"));
    in_a_folder(changing::run);
}

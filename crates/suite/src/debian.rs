//! Real input: the package index that every Debian machine has, tens of thousands of records, tens
//! of megabytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const LISTS: &str = "/var/lib/apt/lists";

/// Every stanza of the index under its package's name; of several versions the one read last.
///
/// # Panics
/// When there is no index: `apt-get update` brings it.
pub fn packages() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(LISTS)
        .unwrap_or_else(|error| panic!("{LISTS}: {error}; this test needs a Debian machine"))
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains("_Packages")))
        .collect();
    paths.sort();
    let mut packages = BTreeMap::new();
    for path in paths {
        for stanza in text(&path).split("\n\n") {
            if let Some(name) = stanza.lines().find_map(|line| line.strip_prefix("Package: ")) {
                packages.insert(name.as_bytes().to_vec(), stanza.as_bytes().to_vec());
            }
        }
    }
    assert!(packages.len() > 10_000, "{} packages in {LISTS}: run `apt-get update` first", packages.len());
    packages
}

/// A list as text; apt itself unpacks those it keeps compressed.
fn text(path: &Path) -> String {
    let bytes = match path.extension() {
        None => std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        Some(_) => {
            let helper = "/usr/lib/apt/apt-helper";
            let output = Command::new(helper).arg("cat-file").arg(path).output();
            output.unwrap_or_else(|error| panic!("{helper}: {error}; this test needs apt")).stdout
        }
    };
    String::from_utf8_lossy(&bytes).into_owned()
}

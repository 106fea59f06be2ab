//! Bytes on media change only on purpose: a hash of each description of them, against
//! ci/layout-hashes.txt.
//!
//! Hashed are the `repr(C)` items and the constants of a file, without comments and spacing, so
//! that explaining a layout better is free. A file is read if it is called `layout.rs` or derives
//! `IntoBytes` beside a `repr(C)`.

use super::{Text, Tree};
use crate::shell::Result;
use std::fmt::Write;

const LIST: &str = "ci/layout-hashes.txt";

pub(super) fn check(tree: &Tree, bless: bool) -> Result<Vec<String>> {
    let mut now = String::new();
    for text in tree.texts(".rs").filter(|text| describes_media(text)) {
        let _ = writeln!(now, "{:016x} {}", hash(&layout(&text.body)), text.path);
    }
    let list = tree.root.join(LIST);
    if bless {
        std::fs::write(&list, &now).map_err(|error| format!("{LIST}: {error}"))?;
        println!("tidy: {LIST} records the present layouts");
        return Ok(Vec::new());
    }
    let before = std::fs::read_to_string(&list).unwrap_or_default();
    let changed = |one: &str, other: &str| -> Vec<String> {
        one.lines().filter(|line| !other.lines().any(|old| old == *line)).map(str::to_string).collect()
    };
    let mut paths: Vec<String> = changed(&now, &before).into_iter().chain(changed(&before, &now)).collect();
    paths.iter_mut().for_each(|line| *line = line.split(' ').nth(1).unwrap_or_default().to_string());
    paths.sort();
    paths.dedup();
    let say = |path| {
        format!(
            "{path}: bytes on media changed. If that is meant: raise the format version where stores of the old layout exist, \
             bring docs/formats/ up to date, then `cargo xtask tidy --bless`"
        )
    };
    Ok(paths.into_iter().map(say).collect())
}

fn describes_media(text: &Text) -> bool {
    let sources = text.path.starts_with("crates/") && text.path.contains("/src/");
    let layout = text.path.ends_with("/layout.rs");
    sources && (layout || (text.body.contains("\n#[repr(C") && text.body.contains("IntoBytes")))
}

/// The `repr(C)` items and constants of a file, one token-ish run of text.
fn layout(body: &str) -> String {
    let mut kept = String::new();
    let mut inside = false;
    let mut constant = false;
    let body = body.split("#[cfg(test)]").next().unwrap_or_default();
    for line in body.lines() {
        let code = line.split("//").next().unwrap_or_default().trim_end();
        let starts_constant = ["const ", "pub const ", "pub(crate) const "].iter().any(|start| code.starts_with(start));
        inside |= code.starts_with("#[repr(C");
        constant |= starts_constant && !code.contains(" fn ");
        if inside || constant {
            kept.extend(code.chars().filter(|c| !c.is_whitespace()));
        }
        inside &= code != "}" && !(code.contains("struct") && code.ends_with(';'));
        constant &= !code.ends_with(';');
    }
    kept
}

/// FNV-1a: the list is not exposed to attacks.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_free_and_fields_are_not() {
        let one =
            "#[repr(C)]\npub struct A {\n    /// first\n    a: u64, // here\n}\nfn other() {}\nconst M: u64 = 4;\n";
        let explained = "//! Says more.\n#[repr(C)]\npub struct A {\n    a: u64,\n}\nconst M: u64 = 4; // four\n";
        let changed = "#[repr(C)]\npub struct A {\n    a: u32,\n}\nconst M: u64 = 4;\n";
        assert_eq!(layout(one), layout(explained));
        assert_ne!(layout(one), layout(changed));
        assert!(layout(one).contains("constM:u64=4;") && !layout(one).contains("other"));
    }
}

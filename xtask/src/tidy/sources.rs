//! Source files: a header, a bearable length, no loose ends, instructions only in `media`, and
//! invariant ids that exist.
//!
//! An invariant is defined in a file's header, as a line `//! LOG-1 what holds`, and in one header
//! only. A word of that shape with a defined prefix must be a defined id wherever it appears.

use super::{Ceiling, Text, Tree, ceilings};
use std::collections::{BTreeMap, BTreeSet};

const LINES_MAX: usize = 800;

/// The one crate whose types may gain variants and fields under their users.
const FACADE: &str = "crates/everbyte/";

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut findings: Vec<String> = tree.texts(".rs").flat_map(one).collect();
    findings.append(&mut invariants(tree));
    findings
}

fn one(text: &Text) -> Vec<String> {
    let path = &text.path;
    let mut findings = Vec::new();
    if !text.body.starts_with("//!") && !text.body.starts_with("#![") {
        findings.push(format!("{path}: does not open with a header (`//! what this file is for`)"));
    }
    let lines = text.body.lines().count();
    if lines > LINES_MAX {
        findings.push(format!("{path}: {lines} lines; over {LINES_MAX} it is probably two files"));
    }
    // Spelt apart, so that this file does not find itself.
    let loose = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("#[ig", "nore"),
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
    ];
    let low = [concat!("_mm_", "clwb"), concat!("_mm_", "sfence"), concat!("_mm_", "clflush"), concat!("asm", "!(")];
    for (number, line) in text.body.lines().enumerate() {
        if let Some(word) = loose.iter().find(|word| line.contains(**word)) {
            findings.push(format!("{path}:{}: `{word}`: finish it, or say it in docs/rows.md", number + 1));
        }
        let trusted = ["crates/media/", "crates/sim/"].iter().any(|start| path.starts_with(start));
        // Registers and calls as compilers make them; no instruction of persistence.
        let calls = path.starts_with("crates/capi/src/itm/");
        let bad = |word: &str| !trusted && line.contains(word) && !(calls && word.starts_with("asm"));
        if let Some(word) = low.iter().find(|word| bad(word)) {
            findings.push(format!("{path}:{}: `{word}`: nothing above `media` issues such instructions", number + 1));
        }
        if is_non_exhaustive(line) && !path.starts_with(FACADE) {
            let detail = "only the facade is non-exhaustive: matches inside the workspace name every case";
            findings.push(format!("{path}:{}: {detail}", number + 1));
        }
        if line.contains(concat!("capabilities().", "fence_settles")) && !path.ends_with("media/src/order.rs") {
            findings.push(format!("{path}:{}: ask `Media::fences_settle`", number + 1));
        }
        if is_open_clamp(line) {
            let detail = "write `x.clamp(C, D)`: rustc 1.95 with -O makes wrong code of this form";
            findings.push(format!("{path}:{}: {detail}", number + 1));
        }
    }
    findings
}

/// Whether a line is the attribute that takes exhaustive matches from other crates.
fn is_non_exhaustive(line: &str) -> bool {
    line.trim_start().starts_with(concat!("#[non_", "exhaustive]"))
}

/// Whether a line holds a clamp written out: the larger of a value and C, but at most D, where the
/// value is larger.
fn is_open_clamp(line: &str) -> bool {
    let parts = || {
        let (condition, rest) = line.split_once("if ")?.1.split_once(" {")?;
        let (then, rest) = rest.split_once("} else {")?;
        let otherwise = rest.split_once('}')?.0.trim();
        let (value, bound) = condition.split_once(" > ").or_else(|| condition.split_once(" >= "))?;
        Some(then.trim().starts_with(&format!("{value}.min(")) && otherwise == bound)
    };
    parts().unwrap_or(false)
}

/// Ids that several headers define.
pub(super) fn ids(tree: &Tree) -> Vec<Ceiling> {
    let doubled = definitions(tree).into_iter().filter(|(_, places)| places.len() > 1);
    let places = doubled.map(|(id, places)| format!("{id} is defined in {}", places.join(", "))).collect();
    vec![Ceiling { rule: "ids", what: "invariant ids that several headers define", max: ceilings::IDS, places }]
}

/// Ids of invariants, each with the places of its definitions.
fn definitions(tree: &Tree) -> BTreeMap<&str, Vec<String>> {
    let mut defined: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for text in tree.texts(".rs").chain(tree.texts(".md")) {
        for (number, line) in text.body.lines().enumerate() {
            let Some(rest) = line.trim_start().strip_prefix("//!") else { continue };
            if let Some((id, _)) = rest.trim_start().split_once(' ')
                && rest.starts_with("  ")
                && is_id(id)
            {
                defined.entry(id).or_default().push(format!("{}:{}", text.path, number + 1));
            }
        }
    }
    defined
}

fn invariants(tree: &Tree) -> Vec<String> {
    let defined = definitions(tree);
    let prefixes: BTreeSet<&str> =
        defined.keys().filter_map(|id| id.rsplit_once('-')).map(|(prefix, _)| prefix).collect();
    let mut findings = Vec::new();
    for text in tree.texts(".rs") {
        for (number, line) in text.body.lines().enumerate() {
            for word in line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').filter(|word| is_id(word)) {
                let known = word.rsplit_once('-').is_some_and(|(prefix, _)| prefixes.contains(prefix));
                if known && !defined.contains_key(word) {
                    findings.push(format!("{}:{}: cites {word}, which no header defines", text.path, number + 1));
                }
            }
        }
    }
    findings
}

/// Two or more capitals or digits, a dash, a number: LOG-1.
fn is_id(word: &str) -> bool {
    let Some((prefix, number)) = word.rsplit_once('-') else { return false };
    let capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    prefix.len() >= 2
        && prefix.starts_with(|c: char| c.is_ascii_uppercase())
        && prefix.chars().all(capital)
        && !number.is_empty()
        && number.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use crate::tidy::Text;

    #[test]
    fn non_exhaustive_types_are_found_outside_of_the_facade() {
        let body = concat!("//! A crate.\n\n#[non_", "exhaustive]\npub enum Error {}\n");
        let found = |path: &str| super::one(&Text { path: path.into(), body: body.into() }).len();
        assert_eq!((found("crates/store/src/error.rs"), found("crates/everbyte/src/error.rs")), (1, 0));
    }

    #[test]
    fn clamps_written_out_are_found() {
        assert!(super::is_open_clamp(concat!("    let n = if len > MIN ", "{ len.min(MAX) } else { MIN };")));
        assert!(super::is_open_clamp(concat!("if a.b >= 4 ", "{ a.b.min(c) } else { 4 }")));
        for fine in
            ["if a > b { a.min(c) } else { d }", "if a > b { c.min(a) } else { b }", "if a > b { a } else { b }", "x"]
        {
            assert!(!super::is_open_clamp(fine), "{fine}");
        }
    }

    #[test]
    fn an_id_with_two_definitions_is_found() {
        let body = "//!   LOG-1  First.\n//! LOG-1 is cited.\n//!   LOG-2  Second.";
        let places = |files: &[(&str, &str)]| super::ids(&crate::tidy::tree_of(files))[0].places.len();
        assert_eq!(places(&[("a.rs", body)]), 0);
        assert_eq!(places(&[("a.rs", body), ("b.rs", "//!   LOG-2  Another.")]), 1);
    }

    #[test]
    fn ids_are_told_from_words() {
        assert!(super::is_id("LOG-1") && super::is_id("HEAP2-14"));
        assert!(!super::is_id("log-1") && !super::is_id("LOG-a") && !super::is_id("-1") && !super::is_id("A-1"));
    }
}

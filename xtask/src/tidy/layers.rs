//! The map: ARCHITECTURE.md's table of layers against cargo's metadata, and the list of crates that
//! may hold unsafe code.
//!
//! A crate depends only on lower layers; nothing depends on layer `-`; development dependencies may
//! reach the test instruments that ARCHITECTURE.md names. Outside the list every crate root carries
//! `forbid(unsafe_code)`.

use super::Tree;
use std::collections::BTreeMap;

const PAGE: &str = "ARCHITECTURE.md";
const TOOLS: &str = "Development dependencies may reach up for test instruments: ";
const UNSAFE: &str = "Crates that may hold unsafe code: ";

/// Layer `-`.
const TOP: u32 = u32::MAX;

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let page = tree.text(PAGE);
    let table = table(page);
    let mut findings = Vec::new();
    let Some(tools) = names_after(page, TOOLS) else {
        return vec![format!("{PAGE}: the line `{TOOLS}` is gone")];
    };
    let Some(trusted) = names_after(page, UNSAFE) else {
        return vec![format!("{PAGE}: the line `{UNSAFE}` is gone")];
    };
    let packages = tree.metadata["packages"].as_array().cloned().unwrap_or_default();
    for package in &packages {
        let name = short(package["name"].as_str().unwrap_or_default());
        let Some(&layer) = table.get(name) else {
            findings.push(format!("{PAGE}: the table of layers lacks `{name}`"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let on = short(dependency["name"].as_str().unwrap_or_default());
            let dev = dependency["kind"] == "dev";
            if dependency["path"].is_null() || (dev && tools.iter().any(|tool| tool == on)) {
                continue;
            }
            let below = table.get(on).is_some_and(|&other| other != TOP && other < layer);
            if !below && on != name {
                findings.push(format!("`{name}` depends on `{on}`, which is not on a lower layer ({PAGE})"));
            }
        }
        if !trusted.iter().any(|crate_| crate_ == name) {
            findings.extend(forbids(package));
        }
    }
    let known: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).map(short).collect();
    for name in table.keys().chain(&tools).chain(&trusted).filter(|name| !known.contains(&name.as_str())) {
        findings.push(format!("{PAGE} names `{name}`, and there is no such crate"));
    }
    findings
}

/// Crate name without the prefix.
fn short(name: &str) -> &str {
    name.strip_prefix("everbyte-").unwrap_or(name)
}

/// `| layer | names | ..` rows: layer by crate.
fn table(page: &str) -> BTreeMap<String, u32> {
    let mut table = BTreeMap::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", layer, names, ..] = cells.as_slice() else { continue };
        let layer = if *layer == "-" { Some(TOP) } else { layer.parse().ok() };
        let Some(layer) = layer else { continue };
        table.extend(quoted(names).map(|name| (name.to_string(), layer)));
    }
    table
}

/// The names in backticks on the line that starts with `start`.
fn names_after(page: &str, start: &str) -> Option<Vec<String>> {
    let from = if page.starts_with(start) { 0 } else { page.find(&format!("\n{start}"))? + 1 };
    let paragraph = page[from..].split("\n\n").next()?;
    Some(quoted(paragraph).map(str::to_string).collect())
}

/// Everything in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Each root file of the package (library, binaries, tests, benches, examples) must forbid unsafe
/// code.
fn forbids(package: &serde_json::Value) -> Vec<String> {
    let roots = package["targets"].as_array().into_iter().flatten().filter_map(|target| target["src_path"].as_str());
    let lacks = |path: &&str| std::fs::read_to_string(path).is_ok_and(|body| !body.contains("#![forbid(unsafe_code)]"));
    let say =
        |path: &str| format!("{path} lacks #![forbid(unsafe_code)]; only the crates listed in {PAGE} may do without");
    roots.filter(|path| path.contains("/src/")).filter(lacks).map(say).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let table = table(
            "| layer | crate | x |\n|---|---|---|\n| 8 | `kv`, `tier` | a `b` |\n| - | `xtask` | |\n| `pmem` | shared |",
        );
        assert_eq!(
            table.into_iter().collect::<Vec<_>>(),
            [("kv".into(), 8), ("tier".into(), 8), ("xtask".into(), TOP)]
        );
    }
}

//! Dependencies: each outside crate stands in the workspace manifest with its reason; members take
//! it from there.

use super::Tree;

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for text in tree.texts("Cargo.toml") {
        let workspace = text.path == "Cargo.toml";
        let mut section = "";
        for (number, line) in text.body.lines().enumerate() {
            if line.starts_with('[') {
                section = line;
            } else if line.contains('=') && section.contains("dependencies") && !line.trim_start().starts_with('#') {
                let name = line.split(['=', '.']).next().unwrap_or_default().trim();
                let ours = line.contains("path =") || name.starts_with("everbyte");
                let reason = line.contains(" # ");
                let inherited = line.contains("workspace = true");
                if !ours && !reason && (workspace || !inherited) {
                    findings.push(format!("{}:{}: `{name}` lacks its reason (` # why`)", text.path, number + 1));
                }
            }
        }
        let policy = text.body.contains("[lints]\nworkspace = true");
        if !workspace && text.body.contains("[package]") && !policy {
            findings.push(format!("{}: lacks [lints] workspace = true", text.path));
        }
    }
    findings
}

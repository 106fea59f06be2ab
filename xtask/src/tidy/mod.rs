//! `cargo xtask tidy`: the rules of the project, each a small file here. All findings are printed
//! before it fails.
//!
//! Rules that count ([`Ceiling`]) have a limit in `ceilings.rs`; `cargo xtask tidy --list RULE`
//! prints every place that such a rule counts, with RULE one of `language`, `columns`, `terms`,
//! `ids`, `circles`.

mod ceilings;
mod circles;
mod columns;
mod deps;
mod docs;
mod imports;
mod language;
mod layers;
mod layouts;
mod prose;
mod source_text;
mod sources;
mod terms;

use crate::shell::{self, Result, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One tracked text file.
pub(crate) struct Text {
    /// Relative to the root.
    pub path: String,
    pub body: String,
}

/// The input of all rules.
pub(crate) struct Tree {
    pub root: PathBuf,
    /// Rust, C, Markdown and TOML files that git tracks or could track.
    pub texts: Vec<Text>,
    pub metadata: serde_json::Value,
}

impl Tree {
    fn read() -> Result<Tree> {
        let root = root();
        let mut list = Command::new("git");
        list.args(["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"]).current_dir(&root);
        let listed = shell::output(&mut list)?;
        let wanted =
            |path: &&str| [".rs", ".md", ".toml", ".h", ".hpp", ".c", ".cpp"].iter().any(|end| path.ends_with(end));
        let read = |path: &str| {
            let body = std::fs::read_to_string(root.join(path)).ok()?; // deleted, or not text
            Some(Text { path: path.to_string(), body })
        };
        let texts = listed.lines().filter(wanted).filter_map(read).collect();
        Ok(Tree { texts, metadata: shell::metadata()?, root })
    }

    pub(crate) fn texts(&self, end: &str) -> impl Iterator<Item = &Text> {
        self.texts.iter().filter(move |text| text.path.ends_with(end))
    }

    pub(crate) fn text(&self, path: &str) -> &str {
        self.texts.iter().find(|text| text.path == path).map_or("", |text| &text.body)
    }

    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.root.join(path).exists()
    }
}

/// Breaches that are counted, and the most that may be there.
pub(crate) struct Ceiling {
    pub rule: &'static str,
    pub what: &'static str,
    pub max: usize,
    /// `path:line: text` of each.
    pub places: Vec<String>,
}

impl Ceiling {
    /// Nothing up to the limit; beyond it a sum, and the places if they are few.
    fn findings(self) -> Vec<String> {
        const SHOWN_MAX: usize = 40;
        let Ceiling { rule, what, max, places } = self;
        if places.len() <= max {
            return Vec::new();
        }
        let sum = format!("{rule}: {} {what}, and {max} are permitted", places.len());
        if places.len() > SHOWN_MAX {
            return vec![format!("{sum}; `cargo xtask tidy --list {rule}` shows them")];
        }
        places.into_iter().chain([sum]).collect()
    }
}

fn counted(tree: &Tree) -> Vec<Ceiling> {
    [language::check, columns::check, terms::check, sources::ids, circles::check]
        .into_iter()
        .flat_map(|rule| rule(tree))
        .collect()
}

/// Checks everything; with `--bless`, records the present layouts first.
pub(crate) fn run(words: &[&str]) -> Result {
    let bless = match words {
        [] => false,
        ["--bless"] => true,
        ["--list", rule] => return list(rule),
        other => return Err(format!("tidy knows only --bless and --list RULE, not {other:?}")),
    };
    let tree = Tree::read()?;
    let mut findings = layouts::check(&tree, bless)?;
    for rule in [layers::check, sources::check, deps::check, docs::check] {
        findings.append(&mut rule(&tree));
    }
    findings.extend(counted(&tree).into_iter().flat_map(Ceiling::findings));
    for finding in &findings {
        println!("tidy: {finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files follow the rules of the project", tree.texts.len());
            Ok(())
        }
        n => Err(format!("{n} breaches of the rules of the project")),
    }
}

/// Prints every place that `rule` counts.
fn list(rule: &str) -> Result {
    let ceilings = counted(&Tree::read()?);
    let chosen: Vec<&Ceiling> = ceilings.iter().filter(|ceiling| ceiling.rule == rule).collect();
    if chosen.is_empty() {
        return Err(format!("no rule `{rule}` counts; see `cargo xtask help`"));
    }
    for ceiling in chosen {
        for place in &ceiling.places {
            println!("{place}");
        }
        println!("{rule}: {} {}, at most {}", ceiling.places.len(), ceiling.what, ceiling.max);
    }
    Ok(())
}

/// A tree of the given paths and texts, for tests of rules.
#[cfg(test)]
fn tree_of(files: &[(&str, &str)]) -> Tree {
    let text = |&(path, body): &(&str, &str)| Text { path: path.into(), body: body.into() };
    let texts = files.iter().map(text).collect();
    Tree { root: PathBuf::new(), texts, metadata: serde_json::Value::Null }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_quiet_up_to_its_limit() {
        let ceiling = |count: usize| Ceiling { rule: "r", what: "w", max: 1, places: vec!["p".into(); count] };
        assert_eq!(ceiling(1).findings(), [] as [String; 0]);
        assert_eq!(ceiling(2).findings().len(), 3);
        assert_eq!(ceiling(200).findings().len(), 1);
    }
}

//! `cargo xtask tidy`: the rules of the house, each a small file here. All findings are printed
//! before it fails.

mod deps;
mod docs;
mod floors;
mod layouts;
mod sources;

use crate::shell::{self, Result, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One tracked text file.
pub struct Text {
    /// Relative to the root.
    pub path: String,
    pub body: String,
}

/// What all rules look at.
pub struct Tree {
    pub root: PathBuf,
    /// Rust, markdown and TOML files that git tracks or could track.
    pub texts: Vec<Text>,
    pub metadata: serde_json::Value,
}

impl Tree {
    fn read() -> Result<Tree> {
        let root = root();
        let mut list = Command::new("git");
        list.args(["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"]).current_dir(&root);
        let listed = shell::output(&mut list)?;
        let wanted = |path: &&str| [".rs", ".md", ".toml"].iter().any(|end| path.ends_with(end));
        let read = |path: &str| {
            let body = std::fs::read_to_string(root.join(path)).ok()?; // deleted, or not text
            Some(Text { path: path.to_string(), body })
        };
        let texts = listed.lines().filter(wanted).filter_map(read).collect();
        Ok(Tree { texts, metadata: shell::metadata()?, root })
    }

    pub fn texts(&self, end: &str) -> impl Iterator<Item = &Text> {
        self.texts.iter().filter(move |text| text.path.ends_with(end))
    }

    pub fn text(&self, path: &str) -> &str {
        self.texts.iter().find(|text| text.path == path).map_or("", |text| &text.body)
    }

    pub fn exists(&self, path: &Path) -> bool {
        self.root.join(path).exists()
    }
}

/// Checks everything; with `--bless`, records the present layouts first.
pub fn run(words: &[&str]) -> Result {
    let bless = match words {
        [] => false,
        ["--bless"] => true,
        other => return Err(format!("tidy knows only --bless, not {other:?}")),
    };
    let tree = Tree::read()?;
    let mut findings = layouts::check(&tree, bless)?;
    for rule in [floors::check, sources::check, deps::check, docs::check] {
        findings.append(&mut rule(&tree));
    }
    for finding in &findings {
        println!("tidy: {finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files follow the rules of the house", tree.texts.len());
            Ok(())
        }
        n => Err(format!("{n} breaches of the rules of the house")),
    }
}

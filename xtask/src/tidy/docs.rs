//! Documentation that is still true: links and pages that exist, rows called done whose test
//! exists, promises whose tests exist, and design notes that the code cites.

use super::{Text, Tree};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const ROWS: &str = "docs/rows.md";
const DESIGN: &str = "docs/design/";

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for text in tree.texts(".md") {
        findings.append(&mut links(tree, text));
    }
    for text in tree.texts(".rs").chain(tree.texts(".md")) {
        findings.append(&mut pages(tree, text));
    }
    findings.append(&mut rows(tree));
    findings.append(&mut promises(tree));
    findings.append(&mut uncited(tree));
    findings
}

/// A design note is named by a comment of the code that it explains.
fn uncited(tree: &Tree) -> Vec<String> {
    let notes = tree.texts(".md").map(|text| text.path.as_str());
    let notes = notes.filter(|path| path.starts_with(DESIGN) && !path.ends_with("README.md"));
    let lacking = notes.filter(|path| !tree.texts(".rs").any(|text| text.body.contains(path)));
    lacking.map(|path| format!("{path}: no source file cites it; add `//! Design: {path}` to one")).collect()
}

/// `](target)` with a relative target must exist.
fn links(tree: &Tree, text: &Text) -> Vec<String> {
    let folder = Path::new(&text.path).parent().unwrap_or(Path::new(""));
    let targets = text.body.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|target| !target.contains("://") && !target.starts_with('#') && !target.contains(' '));
    let plain = local.map(|target| target.split('#').next().unwrap_or_default());
    let broken = plain.filter(|target| !tree.exists(&normal(&folder.join(target))));
    broken.map(|target| format!("{}: links to {target}, which does not exist", text.path)).collect()
}

/// `docs/ROOM/NAME.md` written anywhere must exist.
fn pages(tree: &Tree, text: &Text) -> Vec<String> {
    let mut findings = Vec::new();
    for (at, _) in text.body.match_indices("docs/") {
        let rest = &text.body[at..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "/-_.".contains(c))).unwrap_or(rest.len());
        let page = rest[..end].trim_end_matches('.');
        let whole = at == 0 || !text.body[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c));
        if whole && page.ends_with(".md") && !page.contains("NAME") && !tree.exists(Path::new(page)) {
            findings.push(format!("{}: names {page}, which does not exist", text.path));
        }
    }
    findings
}

/// `| ROW | done | .. |` must name, in backticks, a test (or a chore) that exists.
fn rows(tree: &Tree) -> Vec<String> {
    let (tests, cases) = (tests(tree), cases(tree));
    let mut findings = Vec::new();
    for (number, line) in tree.text(ROWS).lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", row, state, rest @ ..] = cells.as_slice() else { continue };
        if !state.starts_with("done") {
            continue;
        }
        let rest = rest.join("|");
        let named: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
        let real = |name: &&str| {
            let last = name.trim_end_matches("()").rsplit("::").next().unwrap_or_default();
            tests.contains(last)
                || cases.contains(*name)
                || name.starts_with("cargo xtask ")
                || (name.contains('/') && tree.exists(Path::new(name)))
        };
        if !named.iter().any(real) {
            findings.push(format!("{ROWS}:{}: {row} is called done, and names no test that exists", number + 1));
        }
    }
    findings
}

/// A page of promises names the tests and the cases that hold them: `*Tests*: ..`, to the end of
/// the paragraph, or in a column of a table. Each of them must exist, and so must those that
/// [`ROWS`] names.
fn promises(tree: &Tree) -> Vec<String> {
    let (tests, cases) = (tests(tree), cases(tree));
    let by_macro = |name: &str| {
        let mut files = tree.texts(".rs").filter(|text| text.path.contains("/tests/"));
        files.any(|text| text.body.contains(&format!("{name},")) || text.body.contains(&format!("{name}:")))
    };
    let absent = |text: &str| -> Vec<String> {
        let named = text.split('`').skip(1).step_by(2).filter(|name| {
            let of = |sign: char| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == sign);
            let test = of('_') && name.matches('_').count() > 2 && !tests.contains(name) && !by_macro(name);
            test || of('-') && name.contains('-') && !cases.contains(name)
        });
        named.map(str::to_owned).collect()
    };
    let mut findings = Vec::new();
    for text in tree.texts(".md").filter(|text| text.path.starts_with("docs/semantics/")) {
        let mut named = cells(&text.body);
        for rest in text.body.split("*Tests*:").skip(1).chain(text.body.split("\nTests:").skip(1)) {
            let ends = ["\n* ", "\n\n"].iter().filter_map(|end| rest.find(end)).min();
            named.push(&rest[..ends.unwrap_or(rest.len())]);
        }
        let names = named.into_iter().flat_map(&absent);
        findings.extend(names.map(|name| format!("{}: names the test `{name}`, which does not exist", text.path)));
    }
    for (number, line) in tree.text(ROWS).lines().enumerate().filter(|(_, line)| line.contains("| done |")) {
        let names = absent(line).into_iter();
        findings.extend(names.map(|name| format!("{ROWS}:{}: no test or case `{name}`", number + 1)));
    }
    findings
}

/// The cells of tables of promises in which tests are named.
fn cells(page: &str) -> Vec<&str> {
    let (mut cells, mut columns) = (Vec::new(), None);
    for line in page.lines() {
        if !line.starts_with('|') {
            columns = None;
            continue;
        }
        let names_tests = |cell: &str| ["held by", "held off by", "test"].contains(&cell.trim());
        match &columns {
            None => columns = Some(line.split('|').map(names_tests).collect::<Vec<_>>()),
            Some(columns) => {
                cells.extend(line.split('|').zip(columns).filter(|(_, tests)| **tests).map(|(cell, _)| cell))
            }
        }
    }
    cells
}

/// Names of cases of the explorer, and of seeded bugs.
fn cases(tree: &Tree) -> BTreeSet<&str> {
    let mut cases = BTreeSet::new();
    for text in tree.texts(".rs").filter(|text| text.path.starts_with("crates/cases/src/")) {
        let between = text.body.split('"').skip(1).step_by(2);
        cases.extend(between.filter(|name| name.contains('-') && !name.contains(' ')));
    }
    cases
}

/// Names of functions in files that hold tests.
fn tests(tree: &Tree) -> BTreeSet<&str> {
    let holds = |text: &&Text| text.body.contains("#[test]") || text.body.contains("proptest!");
    let mut tests = BTreeSet::new();
    for text in tree.texts(".rs").filter(holds) {
        for rest in text.body.split("fn ").skip(1) {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            tests.insert(&rest[..end]);
        }
    }
    tests
}

/// The path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(normal.pop()),
            std::path::Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_design_note_that_no_code_cites_is_found() {
        let note = concat!("docs/", "design/NAME.md");
        let cites = format!("//! Design: {note}");
        assert_eq!(uncited(&crate::tidy::tree_of(&[(note, "# A"), ("a.rs", "//! B")])).len(), 1);
        assert_eq!(uncited(&crate::tidy::tree_of(&[(note, "# A"), ("a.rs", &cites)])).len(), 0);
    }

    #[test]
    fn a_promise_whose_test_is_gone_is_found() {
        let page = "* It holds.\n  *Tests*: `it_holds_for_all`, case `kv-holds`.\n* `not_a_test_name` is code.\n";
        let test = ("crates/a/tests/api.rs", "#[test]\nfn it_holds_for_all() {}");
        let case = ("crates/cases/src/kv.rs", "name: \"kv-holds\",");
        let page = (concat!("docs/", "semantics/a.md"), page);
        assert_eq!(promises(&crate::tidy::tree_of(&[page, test, case])).len(), 0);
        assert_eq!(promises(&crate::tidy::tree_of(&[page, test])).len(), 1);
        assert_eq!(promises(&crate::tidy::tree_of(&[page])).len(), 2);
        let table = "| promise | held by |\n|---|---|\n| `not_a_test_name` is kept | `it_holds_for_all` |\n\n\
            | call | errno |\n|---|---|\n| a | `no_test_of_a_call` |\n\nTests: `it_holds_for_all`.\n";
        let table = (page.0, table);
        assert_eq!(promises(&crate::tidy::tree_of(&[table, test])).len(), 0);
        assert_eq!(promises(&crate::tidy::tree_of(&[table])).len(), 2);
    }

    #[test]
    fn parents_are_resolved() {
        assert_eq!(normal(Path::new("docs/formats/../rows.md")), Path::new("docs/rows.md"));
    }
}

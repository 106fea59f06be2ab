//! Lines that fit: comments and prose have at most 100 columns.
//!
//! Tables, code in fences and definitions of links may be longer, and so may a line that holds one
//! word that cannot be divided.

use super::prose::{self, Line, Place};
use super::{Ceiling, Tree, ceilings};

const COLUMNS_MAX: usize = 100;

pub(super) fn check(tree: &Tree) -> Vec<Ceiling> {
    let lines = prose::lines(tree);
    let long = lines.iter().filter(|line| is_long(line));
    let places = long.map(|line| format!("{}:{}: {} columns", line.path, line.number, line.columns)).collect();
    vec![Ceiling { rule: "columns", what: "lines of prose over 100 columns", max: ceilings::COLUMNS, places }]
}

fn is_long(line: &Line<'_>) -> bool {
    let prose = matches!(line.place, Place::Comment | Place::Page) && !line.fenced;
    let table = line.text.starts_with('|');
    let definition = line.text.starts_with('[') && line.text.contains("]: ");
    line.columns > COLUMNS_MAX
        && prose
        && !table
        && !definition
        && line.text.trim_start_matches(['*', '-', ' ']).contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree_of;

    fn found(path: &str, body: &str) -> usize {
        check(&tree_of(&[(path, body)])).iter().map(|ceiling| ceiling.places.len()).sum()
    }

    #[test]
    fn long_prose_is_found() {
        let long = "word ".repeat(25);
        assert_eq!(found("docs/NAME.md", &long), 1);
        assert_eq!(found("crates/a/src/b.rs", &format!("/// {long}\nfn f() {{}}")), 1);
        assert_eq!(found("include/a.h", &format!("/* a\n * {long} */")), 1);
    }

    #[test]
    fn tables_code_and_links_may_be_long() {
        let long = "word ".repeat(25);
        assert_eq!(
            found("docs/NAME.md", &format!("| {long} |\n```\n{long}\n```\n[a]: {long}\n* {}", "w".repeat(200))),
            0
        );
        assert_eq!(found("crates/a/src/b.rs", &format!("/// ```\n/// {long}\n/// ```\nf(\"{long}\"); // {long}")), 0);
    }
}

//! Plain English: pronouns without a person behind them, and sentences whose subject is a relative
//! clause.
//!
//! Read are comments of Rust and C, Markdown, and the string literals of sources that are built. A
//! question may begin as it likes.

use super::prose::{self, Line, Place};
use super::{Ceiling, Tree, ceilings};

// Spelt apart, so that this file does not find itself.
const PRONOUNS: [&str; 4] =
    [concat!("no", "body"), concat!("some", "body"), concat!("any", "body"), concat!("who", "ever")];
const OPENERS: [&str; 5] =
    [concat!("Wh", "o"), concat!("Wh", "at"), concat!("Wh", "ere"), concat!("Wh", "ose"), concat!("Wh", "atever")];

pub(super) fn check(tree: &Tree) -> Vec<Ceiling> {
    let lines = prose::lines(tree);
    vec![
        Ceiling { rule: "language", what: "indefinite pronouns", max: ceilings::PRONOUNS, places: pronouns(&lines) },
        Ceiling {
            rule: "language",
            what: "sentences opened by a relative clause",
            max: ceilings::OPENERS,
            places: openers(&lines),
        },
    ]
}

fn pronouns(lines: &[Line<'_>]) -> Vec<String> {
    let mut places = Vec::new();
    for line in lines {
        // A literal of one word is a name, such as the user that owns nothing.
        if line.place == Place::Literal && !line.text.contains(' ') {
            continue;
        }
        let words = line.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').map(str::to_ascii_lowercase);
        let found = words.filter(|word| PRONOUNS.contains(&word.as_str()));
        places.extend(found.map(|_| format!("{}:{}: {}", line.path, line.number, line.text)));
    }
    places
}

fn openers(lines: &[Line<'_>]) -> Vec<String> {
    let mut places = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        for word in OPENERS {
            for (at, _) in line.text.match_indices(word) {
                let after = &line.text[at + word.len()..];
                let whole = !after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                if whole && opens(&line.text[..at]) && !line.fenced && !is_question(&lines[index..], at) {
                    places.push(format!("{}:{}: {}", line.path, line.number, line.text));
                }
            }
        }
    }
    places
}

/// Whether a sentence or a phrase begins after `before`.
fn opens(before: &str) -> bool {
    let ends = [". ", ": ", "; ", "! ", "? ", "| ", "# ", "* ", "- ", "**", "(", "\""];
    before.is_empty() || ends.iter().any(|end| before.ends_with(end))
}

/// Whether the sentence at `at` of the first line ends in a question mark, perhaps lines later.
fn is_question(lines: &[Line<'_>], at: usize) -> bool {
    let first = &lines[0];
    for (index, line) in lines.iter().enumerate() {
        let adjacent = line.number == first.number + index && line.path == first.path && !line.text.is_empty();
        if !adjacent && index > 0 {
            return false;
        }
        let text = if index == 0 { &line.text[at..] } else { line.text };
        let ends = text.char_indices().filter(|(_, c)| ['.', '?', '!', '|'].contains(c));
        let mut ends = ends.filter(|&(at, _)| text[at + 1..].chars().next().is_none_or(|c| !c.is_alphanumeric()));
        if let Some((_, end)) = ends.next() {
            return end == '?';
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree_of;

    fn found(path: &str, body: &str) -> (usize, usize) {
        let tree = tree_of(&[(path, body)]);
        let [pronouns, openers] = check(&tree).try_into().map_err(drop).unwrap();
        (pronouns.places.len(), openers.places.len())
    }

    #[test]
    fn pronouns_are_found_in_comments_pages_and_literals() {
        let pronoun = PRONOUNS[0];
        assert_eq!(found("crates/a/src/b.rs", &format!("// {pronoun} waits\nf(\"so {pronoun} waits\");")).0, 2);
        assert_eq!(found("docs/NAME.md", &format!("The {pronoun}'s, and `{pronoun}_waits`")).0, 1);
        assert_eq!(found("include/a.h", &format!("/* a\n * {pronoun} */")).0, 1);
        assert_eq!(found("crates/a/src/b.rs", &format!("chown(\"{pronoun}\"); let {pronoun} = 1;")).0, 0);
    }

    #[test]
    fn relative_openers_are_found_and_questions_are_not() {
        let [who, what, ..] = OPENERS;
        assert_eq!(found("docs/NAME.md", &format!("# {what} it is\n\nIt waits. {who} waits, loses. So {what}.")).1, 2);
        assert_eq!(found("docs/NAME.md", &format!("{what} is\nit then? {who} knows.")).1, 1);
        assert_eq!(found("docs/NAME.md", &format!("```\n{what} is it\n```\n{what}soever")).1, 0);
    }
}

//! The prose of the tree, line by line: comments of Rust and C, Markdown, and the string literals
//! of sources that are built.

use super::source_text::{self, Part};
use super::{Text, Tree};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A line that holds nothing but a comment.
    Comment,
    /// A comment after code.
    Trailing,
    Page,
    Literal,
}

/// One line of prose.
pub(super) struct Line<'t> {
    pub path: &'t str,
    /// From 1.
    pub number: usize,
    pub place: Place,
    /// Without comment marks and indentation.
    pub text: &'t str,
    /// Columns of the whole line of the file.
    pub columns: usize,
    /// In a fence of a page or of a doc comment.
    pub fenced: bool,
}

/// All prose of `tree`, in the order of the files.
pub(super) fn lines(tree: &Tree) -> Vec<Line<'_>> {
    tree.texts.iter().flat_map(of).collect()
}

fn of(text: &Text) -> Vec<Line<'_>> {
    let mut lines = if text.path.ends_with(".md") {
        page(text)
    } else if [".rs", ".h", ".hpp", ".c", ".cc", ".cpp"].iter().any(|end| text.path.ends_with(end)) {
        source(text)
    } else {
        Vec::new()
    };
    mark_fences(&mut lines);
    lines
}

fn page(text: &Text) -> Vec<Line<'_>> {
    let (mut lines, mut code, mut blank) = (Vec::new(), false, true);
    for (at, line) in text.body.lines().enumerate() {
        let (path, number, columns) = (text.path.as_str(), at + 1, line.chars().count());
        // Code without a fence is indented, behind an empty line.
        code = line.starts_with("    ") && (code || blank);
        blank = line.trim().is_empty();
        lines.push(Line { path, number, place: Place::Page, text: line.trim(), columns, fenced: code });
    }
    lines
}

fn source(text: &Text) -> Vec<Line<'_>> {
    let starts: Vec<usize> = std::iter::once(0).chain(text.body.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let built = text.path.contains("/src/");
    let mut found = Vec::new();
    for (part, range) in source_text::parts(&text.body) {
        if part == Part::Code || (part == Part::Literal && !built) {
            continue;
        }
        let mut at = range.start;
        for piece in text.body[range].split('\n') {
            let number = starts.partition_point(|&start| start <= at);
            let whole = text.body[starts[number - 1]..].lines().next().unwrap_or_default();
            let alone = text.body[starts[number - 1]..at].trim().is_empty();
            let place = match part {
                Part::Literal => Place::Literal,
                _ if alone => Place::Comment,
                _ => Place::Trailing,
            };
            let text_of = if part == Part::Literal { piece } else { plain(piece) };
            found.push(Line {
                path: &text.path,
                number,
                place,
                text: text_of.trim(),
                columns: whole.chars().count(),
                fenced: false,
            });
            at += piece.len() + 1;
        }
    }
    found
}

/// A line of a comment without its marks.
fn plain(line: &str) -> &str {
    let line = line.trim();
    let line = line.strip_suffix("*/").unwrap_or(line);
    for mark in ["//!", "///", "//", "/**", "/*", "*"] {
        if let Some(rest) = line.strip_prefix(mark) {
            return rest;
        }
    }
    line
}

/// Fences open and close in the comments and pages of one file; a gap in the lines closes one.
fn mark_fences(lines: &mut [Line<'_>]) {
    let (mut open, mut last) = (false, 0);
    for line in lines.iter_mut().filter(|line| matches!(line.place, Place::Comment | Place::Page)) {
        open &= line.number == last + 1;
        last = line.number;
        let fence = line.text.starts_with("```") || line.text.starts_with("~~~");
        line.fenced |= open || fence;
        open ^= fence;
    }
}

#[cfg(test)]
pub(super) fn of_file(path: &str, body: &str) -> Text {
    Text { path: path.into(), body: body.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_found_with_their_lines() {
        let file =
            of_file("crates/a/src/b.rs", "//! Head.\n/// ```\n/// code\n/// ```\nfn f() { g(\"said\") } // why\n");
        let read: Vec<_> = of(&file).iter().map(|line| (line.number, line.place, line.text, line.fenced)).collect();
        assert_eq!(
            read,
            [
                (1, Place::Comment, "Head.", false),
                (2, Place::Comment, "```", true),
                (3, Place::Comment, "code", true),
                (4, Place::Comment, "```", true),
                (5, Place::Literal, "said", false),
                (5, Place::Trailing, "why", false),
            ]
        );
    }

    #[test]
    fn indented_code_of_pages_is_code() {
        let file = of_file("docs/NAME.md", "One:\n\n    code\n    code\n\nTwo,\n    goes on");
        let read: Vec<_> = of(&file).iter().map(|line| line.fenced).collect();
        assert_eq!(read, [false, false, true, true, false, false, false]);
    }

    #[test]
    fn literals_of_tests_are_not_read() {
        assert!(of(&of_file("crates/a/tests/b.rs", "f(\"said\")")).is_empty());
    }

    #[test]
    fn comments_of_c_are_read() {
        let file = of_file("include/a.h", "/* One.\n * Two. */\nint a;");
        let read: Vec<_> = of(&file).iter().map(|line| line.text).collect();
        assert_eq!(read, ["One.", "Two."]);
    }
}

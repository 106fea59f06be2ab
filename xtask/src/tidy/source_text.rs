//! A plain reading of Rust and C: which bytes of a file are code, comments and string literals.
//!
//! This is no parser. It knows comments, strings, raw strings, and character literals beside
//! lifetimes; that is enough to find prose, `use` lines and definitions in formatted sources.

use std::ops::Range;

/// A stretch of a file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Code,
    /// With its slashes or stars.
    Comment,
    /// Without its quotes.
    Literal,
}

/// All of `body`, except quotes and delimiters of literals, in order.
pub(super) fn parts(body: &str) -> Vec<(Part, Range<usize>)> {
    let bytes = body.as_bytes();
    let (mut parts, mut code, mut at) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        let rest = &body[at..];
        let (part, inner, end) = if rest.starts_with("//") {
            let end = at + rest.find('\n').unwrap_or(rest.len());
            (Part::Comment, at..end, end)
        } else if let Some(inner) = rest.strip_prefix("/*") {
            let end = inner.find("*/").map_or(bytes.len(), |found| at + found + 4);
            (Part::Comment, at..end, end)
        } else if bytes[at] == b'"' {
            let inner = at + 1..closing_quote(bytes, at + 1);
            (Part::Literal, inner.clone(), (inner.end + 1).min(bytes.len()))
        } else if let Some((inner, end)) = raw_string(body, at) {
            (Part::Literal, inner, end)
        } else {
            at += match bytes[at] {
                b'\'' => quoted_char(rest),
                _ => rest.chars().next().map_or(1, char::len_utf8),
            };
            continue;
        };
        parts.push((Part::Code, code..at));
        parts.push((part, inner));
        (code, at) = (end, end);
    }
    parts.push((Part::Code, code..bytes.len()));
    parts.retain(|(_, range)| !range.is_empty());
    parts
}

/// Only the code of `body`: comments and the texts of literals are blanks, so places stay.
pub(super) fn code(body: &str) -> String {
    let mut code = vec![b' '; body.len()];
    for (part, range) in parts(body) {
        if part == Part::Code {
            code[range.clone()].copy_from_slice(&body.as_bytes()[range]);
        }
    }
    for (at, byte) in body.bytes().enumerate() {
        if byte == b'\n' {
            code[at] = byte;
        }
    }
    String::from_utf8(code).unwrap_or_default()
}

/// `code` without its items for tests: the item after each `#[cfg(test)]`, to its closing brace or
/// semicolon, is blanks.
pub(super) fn without_tests(code: &str) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for mark in ["#[cfg(test)]", "#[cfg(all(test"] {
        for (start, _) in code.match_indices(mark) {
            for byte in &mut bytes[start..item_end(code, start)] {
                *byte = if *byte == b'\n' { b'\n' } else { b' ' };
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// The end of the item that begins with an attribute at `start`.
fn item_end(code: &str, start: usize) -> usize {
    let (mut braces, mut others) = (0_i32, 0_i32);
    for (at, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'{' => braces += 1,
            b'(' | b'[' => others += 1,
            b')' | b']' => others -= 1,
            b'}' => braces -= 1,
            _ => {}
        }
        let ends = matches!(byte, b'}' | b';') && braces == 0 && others == 0;
        // A brace of the item that encloses this one: a last field or arm without a comma.
        if ends || braces < 0 {
            return at + usize::from(ends);
        }
    }
    code.len()
}

fn closing_quote(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

/// `r".."` or `r#".."#` at `at`: the range of its text, and its end.
fn raw_string(body: &str, at: usize) -> Option<(Range<usize>, usize)> {
    let rest = body[at..].strip_prefix('r')?;
    let before = body[..at].trim_end_matches('b');
    if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    if !rest[hashes..].starts_with('"') {
        return None;
    }
    let start = at + 1 + hashes + 1;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = start + body[start..].find(&close)?;
    Some((start..end, end + close.len()))
}

/// The length of a character literal, or 1 for the quote of a lifetime.
fn quoted_char(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((escaped, c))) => {
            let after = escaped + c.len_utf8();
            rest[after..].find('\'').map_or(1, |close| after + close + 1)
        }
        (Some(_), Some((close, '\''))) => close + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Vec<(Part, &str)> {
        parts(body).into_iter().map(|(part, range)| (part, &body[range])).collect()
    }

    #[test]
    fn comments_strings_and_code_are_told_apart() {
        let body = "let a = \"x // \\\" y\"; // a \"comment\"\n/* b */ c('\"', '\\'', 'é', r#\"raw \" \"#)";
        assert_eq!(
            read(body),
            [
                (Part::Code, "let a = "),
                (Part::Literal, "x // \\\" y"),
                (Part::Code, "; "),
                (Part::Comment, "// a \"comment\""),
                (Part::Code, "\n"),
                (Part::Comment, "/* b */"),
                (Part::Code, " c('\"', '\\'', 'é', "),
                (Part::Literal, "raw \" "),
                (Part::Code, ")"),
            ]
        );
    }

    #[test]
    fn a_lifetime_opens_no_literal() {
        assert_eq!(read("fn f<'a>(x: &'a str) // y"), [(Part::Code, "fn f<'a>(x: &'a str) "), (Part::Comment, "// y")]);
    }

    #[test]
    fn tests_are_blanked_and_the_rest_stays_in_its_place() {
        let code = "use a;\n#[cfg(test)]\nmod tests { fn f() { x(); } }\n#[cfg(test)]\nuse b;\nuse c;";
        let left = without_tests(code);
        assert_eq!(left.len(), code.len());
        assert_eq!(left.split_whitespace().collect::<Vec<_>>(), ["use", "a;", "use", "c;"]);
    }
}

//! Inline commands: one line of words, as typed into a terminal.
//!
//! Words are separated by blanks. "double quotes" know \n \r \t \b \a \xHH and \" \\; 'single
//! quotes' know \' only; a closing quote is followed by a blank or the end. A NUL byte ends the
//! line, as it does in Redis.

use super::parse::ArgumentSpan;

/// The quotes of an inline line do not match.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unbalanced;

fn blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// Splits `line` into words; their bytes go to `words`, their places to `spans`.
pub(crate) fn split(line: &[u8], words: &mut Vec<u8>, spans: &mut Vec<ArgumentSpan>) -> Result<(), Unbalanced> {
    let line = line.split(|byte| *byte == 0).next().unwrap_or_default();
    let mut at = 0;
    loop {
        while line.get(at).copied().is_some_and(blank) {
            at += 1;
        }
        if at >= line.len() {
            return Ok(());
        }
        let start = words.len();
        at = word(line, at, words)?;
        spans.push(ArgumentSpan { start: start as u32, size: (words.len() - start) as u32 });
    }
}

/// The words of a line; `None` if its quotes do not match.
pub(crate) fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut words, mut spans) = (Vec::new(), Vec::new());
    split(line, &mut words, &mut spans).ok()?;
    Some(spans.iter().map(|span| span.of(&words).to_vec()).collect())
}

/// Reads one word that starts at `at`; returns where it ends.
fn word(line: &[u8], mut at: usize, words: &mut Vec<u8>) -> Result<usize, Unbalanced> {
    loop {
        match line.get(at) {
            None => return Ok(at),
            Some(b'"') => return closed(line, double_quoted(line, at + 1, words)?),
            Some(b'\'') => return closed(line, single_quoted(line, at + 1, words)?),
            Some(byte) if blank(*byte) => return Ok(at),
            Some(byte) => words.push(*byte),
        }
        at += 1;
    }
}

fn closed(line: &[u8], at: usize) -> Result<usize, Unbalanced> {
    match line.get(at) {
        Some(byte) if !blank(*byte) => Err(Unbalanced),
        _ => Ok(at),
    }
}

fn double_quoted(line: &[u8], mut at: usize, words: &mut Vec<u8>) -> Result<usize, Unbalanced> {
    loop {
        match &line[at.min(line.len())..] {
            [] => return Err(Unbalanced),
            [b'"', ..] => return Ok(at + 1),
            [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                words.push(hex(*high) << 4 | hex(*low));
                at += 4;
            }
            [b'\\', escaped, ..] => {
                words.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                at += 2;
            }
            [byte, ..] => {
                words.push(*byte);
                at += 1;
            }
        }
    }
}

fn single_quoted(line: &[u8], mut at: usize, words: &mut Vec<u8>) -> Result<usize, Unbalanced> {
    loop {
        match &line[at.min(line.len())..] {
            [] => return Err(Unbalanced),
            [b'\'', ..] => return Ok(at + 1),
            [b'\\', b'\'', ..] => {
                words.push(b'\'');
                at += 2;
            }
            [byte, ..] => {
                words.push(*byte);
                at += 1;
            }
        }
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A').wrapping_add(10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: Option<&[&[u8]]>) {
        let (mut words, mut spans) = (Vec::new(), Vec::new());
        let result = split(line.as_bytes(), &mut words, &mut spans);
        let found: Vec<&[u8]> = spans.iter().map(|span| span.of(&words)).collect();
        match expect {
            Some(expect) => assert_eq!((result, found.as_slice()), (Ok(()), expect), "{line:?}"),
            None => assert_eq!(result, Err(Unbalanced), "{line:?}"),
        }
    }

    #[test]
    fn words_quotes_and_escapes() {
        check("", Some(&[]));
        check("  \t ", Some(&[]));
        check(" GET  a ", Some(&[b"GET", b"a"]));
        check(r#"set "a b" 'c d'"#, Some(&[b"set", b"a b", b"c d"]));
        check(r#""\x41\n\xzz\"" '\n\''"#, Some(&[b"A\nxzz\"", b"\\n'"]));
        check(r#""" ''"#, Some(&[b"", b""]));
        check(r#"pre"fix" x"#, Some(&[b"prefix", b"x"]));
        check(r#""a"b"#, None);
        check(r#""a"#, None);
        check(r#"'a"#, None);
        check(r#""a\"#, None);
        check(r#"'a\'"#, None);
        check("a\0b", Some(&[b"a"]));
    }
}

//! Glob patterns as Redis reads them, in bounded time.
//!
//! `*` any bytes, `?` one byte, `[abc]`, `[^a-z]`, `\x` the byte x itself. Only the last `*` is
//! ever tried again, so a match costs at most pattern times text, where trying every `*` again
//! costs an exponent. Two corners are kept because clients see them: a class without its `]` ends
//! with the pattern, and the empty text matches the empty pattern only.

/// Whether upper and lower case letters are the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LetterCase {
    /// Bytes are compared as they are.
    Exact,
    /// ASCII letters match in either case.
    Folded,
}

/// Whether `text` matches `pattern`.
pub(crate) fn matches(pattern: &[u8], text: &[u8], case: LetterCase) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // behind the last `*`, and the next text place to try there
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t + 1));
            continue;
        }
        match element(&pattern[p..], text[t], case) {
            Some(size) => {
                p += size;
                t += 1;
            }
            None => match retry {
                None => return false,
                Some((star, next)) => {
                    p = star;
                    t = next;
                    retry = Some((star, next + 1));
                }
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Matches one byte against the first element of `pattern`; its size when it fits.
fn element(pattern: &[u8], byte: u8, case: LetterCase) -> Option<usize> {
    let fold = |byte: u8| if case == LetterCase::Folded { byte.to_ascii_lowercase() } else { byte };
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => self::class(class, byte, fold).map(|size| size + 1),
        [b'\\', literal, ..] => (fold(*literal) == fold(byte)).then_some(2),
        [literal, ..] => (fold(*literal) == fold(byte)).then_some(1),
    }
}

/// Matches a class, given from behind its `[`; its size with the `]` when the byte is in it.
fn class(class: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> Option<usize> {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &class[at..] {
            [] => break,
            [b'\\', literal, ..] => {
                found |= *literal == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [low, b'-', high, ..] => {
                // Redis compares signed bytes here.
                let (low, high, byte) = (fold(*low) as i8, fold(*high) as i8, fold(byte) as i8);
                found |= (low.min(high)..=low.max(high)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= fold(*literal) == fold(byte);
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

/// The bytes every match of `pattern` begins with, and whether the pattern is exactly these bytes
/// and a `*`.
pub(crate) fn literal_prefix(pattern: &[u8]) -> (Vec<u8>, bool) {
    let (mut prefix, mut at) = (Vec::new(), 0);
    loop {
        match &pattern[at..] {
            [b'\\', literal, ..] => {
                prefix.push(*literal);
                at += 2;
            }
            [b'*' | b'?' | b'[', ..] | [] => return (prefix, &pattern[at..] == b"*"),
            [literal, ..] => {
                prefix.push(*literal);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expect: bool) {
        assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), LetterCase::Exact), expect, "{pattern:?} on {text:?}");
    }

    #[test]
    fn patterns_match_as_in_redis() {
        check("", "", true);
        check("*", "", false);
        check("*", "a", true);
        check("a*", "a", true);
        check("a*c", "abbc", true);
        check("a*c", "abcd", false);
        check("a**c*", "abcd", true);
        check("h?llo", "hello", true);
        check("h?llo", "hllo", false);
        check("h[ae]llo", "hallo", true);
        check("h[^e]llo", "hello", false);
        check("h[a-c]llo", "hbllo", true);
        check("h[c-a]llo", "hbllo", true);
        check("[\\]]", "]", true);
        check("[abc", "c", true);
        check("[abc", "d", false);
        check("[^", "x", true);
        check("[", "[", false);
        check("a\\*", "a*", true);
        check("a\\*", "ab", false);
        check("a\\", "a\\", true);
        check("*a*b*c*", "xxaxxbxxc", true);
    }

    /// The pattern that made matchers take an exponent of the text.
    #[test]
    fn many_stars_stay_cheap() {
        let pattern = [b"a*".repeat(1000), b"b".to_vec()].concat();
        let text = vec![b'a'; 20_000];
        let start = std::time::Instant::now();
        assert!(!matches(&pattern, &text, LetterCase::Exact));
        assert!(start.elapsed().as_secs() < 5);
    }

    #[test]
    fn prefixes_are_what_every_match_begins_with() {
        for (pattern, prefix, pure) in [
            ("", "", false),
            ("*", "", true),
            ("ab*", "ab", true),
            ("ab", "ab", false),
            ("ab*c", "ab", false),
            ("a\\*b?", "a*b", false),
            ("a\\", "a\\", false),
            ("[a]*", "", false),
        ] {
            assert_eq!(literal_prefix(pattern.as_bytes()), (prefix.as_bytes().to_vec(), pure), "{pattern:?}");
        }
    }
}

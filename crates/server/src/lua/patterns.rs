//! Patterns of Lua 5.1, matched with bounds of depth and of time.
//!
//! The interpreter's own matcher recurses once an item of the pattern, on the stack of the server's
//! thread, and may take exponential time between two calls of the hook that ends a script. This one
//! fails at [`DEPTH_MAX`] nested items, and checks every [`STEPS`] steps whether the script has to
//! end.
//!
//! As in Lua 5.1 a pattern ends at its first zero byte.

/// Levels of recursion: items whose match depends on the rest of the pattern.
const DEPTH_MAX: usize = 200;
/// Captures of a pattern.
pub(super) const CAPTURES_MAX: usize = 32;
/// Steps between two checks whether the script has to end.
const STEPS: usize = 1 << 14;

/// The reason why a search was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The pattern is malformed: the text of Lua.
    Malformed(&'static str),
    /// The script has to end.
    Ended,
}

/// A part of the subject that a pattern has captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// It began here and has no end yet.
    Open(usize),
    /// Begin and end.
    Part(usize, usize),
    /// A position.
    Position(usize),
}

/// A search in one subject.
pub(super) struct Matcher<'m> {
    subject: &'m [u8],
    pattern: &'m [u8],
    captures: [Capture; CAPTURES_MAX],
    count: usize,
    depth: usize,
    steps: usize,
    /// Whether the script has to end.
    ended: &'m dyn Fn() -> bool,
}

type Found = Result<Option<usize>, Refused>;

/// The pattern up to its first zero byte.
fn until_zero(pattern: &[u8]) -> &[u8] {
    &pattern[..pattern.iter().position(|byte| *byte == 0).unwrap_or(pattern.len())]
}

/// Whether a pattern has no special characters, so that it is found as it is.
pub(super) fn is_plain(pattern: &[u8]) -> bool {
    !until_zero(pattern).iter().any(|byte| b"^$*+?.([%-".contains(byte))
}

/// The first place of `needle` from `from` on.
pub(super) fn find_plain(subject: &[u8], needle: &[u8], from: usize, ended: &dyn Fn() -> bool) -> Found {
    let Some((first, rest)) = needle.split_first() else { return Ok(Some(from)) };
    let (mut at, mut steps) = (from, 0_usize);
    while let Some(found) = subject[at..].iter().position(|byte| byte == first) {
        at += found + 1;
        if subject[at..].starts_with(rest) {
            return Ok(Some(at - 1));
        }
        steps += 1 + rest.len() / 16;
        if steps > STEPS {
            steps = 0;
            if ended() {
                return Err(Refused::Ended);
            }
        }
    }
    Ok(None)
}

impl<'m> Matcher<'m> {
    /// A search of a pattern, without an anchor at its begin.
    pub(super) fn new(subject: &'m [u8], pattern: &'m [u8], ended: &'m dyn Fn() -> bool) -> Matcher<'m> {
        let captures = [Capture::Position(0); CAPTURES_MAX];
        Matcher { subject, pattern: until_zero(pattern), captures, count: 0, depth: 0, steps: 0, ended }
    }

    /// The end of a match that begins at `start`.
    pub(super) fn match_at(&mut self, start: usize) -> Found {
        (self.count, self.depth) = (0, 0);
        self.matches(start, 0)
    }

    /// The captures of the last match.
    pub(super) fn captures(&self) -> &[Capture] {
        &self.captures[..self.count]
    }

    /// Counts a step and the bytes that it examines.
    fn step(&mut self, bytes: usize) -> Result<(), Refused> {
        self.steps = self.steps.saturating_add(1 + bytes / 16);
        if self.steps >= STEPS {
            self.steps = 0;
            if (self.ended)() {
                return Err(Refused::Ended);
            }
        }
        Ok(())
    }

    /// The rest of the pattern, as an item waits for it.
    fn nested(&mut self, at: usize, item: usize) -> Found {
        if self.depth >= DEPTH_MAX {
            return Err(Refused::Malformed("pattern too complex"));
        }
        self.depth += 1;
        let found = self.matches(at, item);
        self.depth -= 1;
        found
    }

    fn matches(&mut self, mut at: usize, mut item: usize) -> Found {
        loop {
            self.step(0)?;
            let Some(&byte) = self.pattern.get(item) else { return Ok(Some(at)) };
            match (byte, self.pattern.get(item + 1)) {
                (b'(', Some(b')')) => return self.open(at, item + 2, Capture::Position(at)),
                (b'(', _) => return self.open(at, item + 1, Capture::Open(at)),
                (b')', _) => return self.close(at, item + 1),
                (b'$', None) => return Ok((at == self.subject.len()).then_some(at)),
                (b'%', Some(b'b')) => match self.balance(at, item + 2)? {
                    Some(end) => (at, item) = (end, item + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    let set = item + 2;
                    if self.pattern.get(set) != Some(&b'[') {
                        return Err(Refused::Malformed("missing '[' after '%f' in pattern"));
                    }
                    let end = self.item_end(set)?;
                    self.step(end - set)?;
                    let before = if at == 0 { 0 } else { self.subject[at - 1] };
                    let here = self.subject.get(at).copied().unwrap_or(0);
                    if self.in_set(before, set, end - 1) || !self.in_set(here, set, end - 1) {
                        return Ok(None);
                    }
                    item = end;
                }
                (b'%', Some(digit)) if digit.is_ascii_digit() => {
                    let Some((start, end)) = self.captured(*digit)? else { return Ok(None) };
                    self.step(end - start)?;
                    if !self.subject[at..].starts_with(&self.subject[start..end]) {
                        return Ok(None);
                    }
                    (at, item) = (at + end - start, item + 2);
                }
                _ => {
                    let end = self.item_end(item)?;
                    self.step(end - item)?;
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if self.fits(at, item, end)
                                && let Some(found) = self.nested(at + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            item = end + 1;
                        }
                        Some(b'*') => return self.most(at, at, item, end),
                        Some(b'+') if self.fits(at, item, end) => return self.most(at, at + 1, item, end),
                        Some(b'+') => return Ok(None),
                        Some(b'-') => return self.least(at, item, end),
                        _ if self.fits(at, item, end) => (at, item) = (at + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// The most repetitions of an item from `start` on that let the rest match; they end at `least`
    /// or behind it.
    fn most(&mut self, start: usize, least: usize, item: usize, end: usize) -> Found {
        let mut at = start;
        while self.fits(at, item, end) {
            self.step(end - item)?;
            at += 1;
        }
        loop {
            if let Some(found) = self.nested(at, end + 1)? {
                return Ok(Some(found));
            }
            if at <= least {
                return Ok(None);
            }
            at -= 1;
        }
    }

    /// The fewest repetitions.
    fn least(&mut self, mut at: usize, item: usize, end: usize) -> Found {
        loop {
            if let Some(found) = self.nested(at, end + 1)? {
                return Ok(Some(found));
            }
            if !self.fits(at, item, end) {
                return Ok(None);
            }
            self.step(end - item)?;
            at += 1;
        }
    }

    fn open(&mut self, at: usize, item: usize, capture: Capture) -> Found {
        if self.count >= CAPTURES_MAX {
            return Err(Refused::Malformed("too many captures"));
        }
        self.captures[self.count] = capture;
        self.count += 1;
        let found = self.nested(at, item)?;
        if found.is_none() {
            self.count -= 1;
        }
        Ok(found)
    }

    fn close(&mut self, at: usize, item: usize) -> Found {
        let open = self.captures[..self.count].iter().rposition(|capture| matches!(capture, Capture::Open(_)));
        let Some(index) = open else { return Err(Refused::Malformed("invalid pattern capture")) };
        let before = self.captures[index];
        if let Capture::Open(start) = before {
            self.captures[index] = Capture::Part(start, at);
        }
        let found = self.nested(at, item)?;
        if found.is_none() {
            self.captures[index] = before;
        }
        Ok(found)
    }

    /// The part that a digit names; `None` if it is a position, which matches no text.
    fn captured(&self, digit: u8) -> Result<Option<(usize, usize)>, Refused> {
        let index = usize::from(digit).checked_sub(usize::from(b'1')).filter(|index| *index < self.count);
        match index.map(|index| self.captures[index]) {
            Some(Capture::Part(start, end)) => Ok(Some((start, end))),
            Some(Capture::Position(_)) => Ok(None),
            Some(Capture::Open(_)) | None => Err(Refused::Malformed("invalid capture index")),
        }
    }

    fn balance(&mut self, at: usize, item: usize) -> Found {
        let (Some(&open), Some(&close)) = (self.pattern.get(item), self.pattern.get(item + 1)) else {
            return Err(Refused::Malformed("unbalanced pattern"));
        };
        if self.subject.get(at) != Some(&open) {
            return Ok(None);
        }
        let (mut level, subject) = (1_usize, self.subject);
        for (offset, byte) in subject[at + 1..].iter().enumerate() {
            if offset % 4096 == 4095 {
                self.step(4096)?;
            }
            if *byte == close {
                level -= 1;
                if level == 0 {
                    return Ok(Some(at + offset + 2));
                }
            } else if *byte == open {
                level += 1;
            }
        }
        Ok(None)
    }

    /// The end of the item that begins here: a character, a class or a set.
    fn item_end(&self, item: usize) -> Result<usize, Refused> {
        match self.pattern[item] {
            b'%' if item + 1 >= self.pattern.len() => Err(Refused::Malformed("malformed pattern (ends with '%')")),
            b'%' => Ok(item + 2),
            b'[' => {
                let mut at = item + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                loop {
                    // The first one stands for itself, also if it is a bracket.
                    let byte = *self.pattern.get(at).ok_or(Refused::Malformed("malformed pattern (missing ']')"))?;
                    at += 1;
                    if byte == b'%' && at < self.pattern.len() {
                        at += 1;
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(item + 1),
        }
    }

    /// Whether the item from `item` to `end` fits the byte at `at`.
    fn fits(&self, at: usize, item: usize, end: usize) -> bool {
        let Some(&byte) = self.subject.get(at) else { return false };
        match self.pattern[item] {
            b'.' => true,
            b'%' => in_class(byte, self.pattern[item + 1]),
            b'[' => self.in_set(byte, item, end - 1),
            other => other == byte,
        }
    }

    /// Whether a set, from its `[` to its `]`, holds a byte.
    fn in_set(&self, byte: u8, item: usize, close: usize) -> bool {
        let mut at = item + 1;
        let inverted = self.pattern[at] == b'^';
        if inverted {
            at += 1;
        }
        while at < close {
            let first = self.pattern[at];
            if first == b'%' && at + 1 < close {
                if in_class(byte, self.pattern[at + 1]) {
                    return !inverted;
                }
                at += 2;
            } else if self.pattern[at + 1] == b'-' && at + 2 < close {
                if (first..=self.pattern[at + 2]).contains(&byte) {
                    return !inverted;
                }
                at += 3;
            } else {
                if first == byte {
                    return !inverted;
                }
                at += 1;
            }
        }
        inverted
    }
}

/// Whether a class, named by a letter, holds a byte; an upper case letter names the other bytes.
fn in_class(byte: u8, class: u8) -> bool {
    let holds = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | 9..=13),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    holds != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(subject: &str, pattern: &str) -> Result<Option<(usize, usize)>, Refused> {
        let mut matcher = Matcher::new(subject.as_bytes(), pattern.as_bytes(), &|| false);
        for start in 0..=subject.len() {
            if let Some(end) = matcher.match_at(start)? {
                return Ok(Some((start, end)));
            }
        }
        Ok(None)
    }

    #[test]
    fn patterns_match_as_in_lua() {
        for (subject, pattern, expect) in [
            ("hello world", "o w", Some((4, 7))),
            ("hello", "l+", Some((2, 4))),
            ("hello", "l-o", Some((2, 5))),
            ("hello", "x*", Some((0, 0))),
            ("key:12", "%a+:(%d+)$", Some((0, 6))),
            ("f(a(b)c)d", "%b()", Some((1, 8))),
            ("THE (quick) fox", "%f[%a]%a+%f[%A]", Some((0, 3))),
            ("abcabc", "(abc)%1", Some((0, 6))),
            ("a]b", "[]]", Some((1, 2))),
            ("a-b", "[a%-]+", Some((0, 2))),
            ("x^y", "[%^]", Some((1, 2))),
            ("abc", "[^a-b]", Some((2, 3))),
            ("ab", "a?b?c?", Some((0, 2))),
            ("ab", "()b()", Some((1, 2))),
            ("ab", "()%1", None),
            ("abc", "d", None),
        ] {
            assert_eq!(first(subject, pattern), Ok(expect), "{subject} {pattern}");
        }
        for (pattern, text) in [
            ("[a", "malformed pattern (missing ']')"),
            ("[", "malformed pattern (missing ']')"),
            ("[]", "malformed pattern (missing ']')"),
            ("[%", "malformed pattern (missing ']')"),
            ("%", "malformed pattern (ends with '%')"),
            (")", "invalid pattern capture"),
            ("%1", "invalid capture index"),
            ("%b", "unbalanced pattern"),
            ("%f", "missing '[' after '%f' in pattern"),
        ] {
            assert_eq!(first("aaa", pattern), Err(Refused::Malformed(text)), "{pattern}");
        }
    }

    /// A pattern uses up neither the stack nor the time of the server.
    #[test]
    fn hostile_patterns_end() {
        let many = "a?".repeat(100_000);
        assert_eq!(first(&"a".repeat(100_000), &many), Err(Refused::Malformed("pattern too complex")));
        let asked = std::cell::Cell::new(0);
        let ended = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };
        let (subject, pattern) = ("a".repeat(1000), ".-".repeat(30) + "b");
        let mut matcher = Matcher::new(subject.as_bytes(), pattern.as_bytes(), &ended);
        assert_eq!(matcher.match_at(0), Err(Refused::Ended));
        for pattern in ["(a*)b?%1$", "%b()", "[a-z]*%d"]
            .map(str::to_string)
            .into_iter()
            .chain(["[".to_string() + &"b".repeat(10_000) + "]"])
        {
            let ended = || true;
            let subject = "(".to_string() + &"a".repeat(1 << 20);
            let mut matcher = Matcher::new(subject.as_bytes(), pattern.as_bytes(), &ended);
            let found = (0..1 << 10).find_map(|start| matcher.match_at(start).err());
            assert_eq!(found, Some(Refused::Ended), "{pattern}");
        }
        let (subject, needle) = (vec![b'a'; 200_000], [vec![b'a'; 100_000], b"b".to_vec()].concat());
        assert_eq!(find_plain(&subject, &needle, 0, &|| true), Err(Refused::Ended));
        assert_eq!(find_plain(b"abcabd", b"abd", 0, &|| false), Ok(Some(3)));
    }
}

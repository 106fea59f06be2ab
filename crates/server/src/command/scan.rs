//! SCAN and KEYS: the keys that match a pattern, in order.
//!
//! The keyspace is ordered, so a pattern's literal start is a range, and keys outside it are never
//! looked at. A cursor stands for the last key looked at (`cursor.rs`); what follows it in the
//! order is what is still to come. Hence the guarantee: a key present from the first call to the
//! last is returned exactly once, in order.

pub(super) mod members;

use super::fail::{CURSOR, CURSOR_UNKNOWN, NOT_INTEGER, SYNTAX};
use super::{Call, Fail, Outcome, is_word};
use crate::glob::{LetterCase, literal_prefix, matches};
use crate::keyspace::{KeySpan, Visited, after_prefix};
use crate::resp::number::{parse_integer, parse_unsigned_loosely, write_unsigned};
use crate::resp::reply::Replies;
use std::ops::Bound;

/// Which keys are wanted, and where they can be.
struct Filter {
    pattern: Option<Vec<u8>>,
    prefix: Vec<u8>,
    end: Option<Vec<u8>>,
}

impl Filter {
    fn new(pattern: Option<&[u8]>) -> Filter {
        let (prefix, pure) = pattern.map(literal_prefix).unwrap_or_default();
        // "*" alone means every key, the empty one too; a prefix and a star needs no matcher.
        let pattern = pattern.filter(|pattern| *pattern != b"*" && (!pure || prefix.is_empty()));
        Filter { pattern: pattern.map(<[u8]>::to_vec), end: after_prefix(&prefix), prefix }
    }

    fn wants(&self, key: &[u8]) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| matches(pattern, key, LetterCase::Exact))
    }

    fn from(&self, after: Option<&[u8]>) -> Bound<Vec<u8>> {
        match after {
            Some(key) if key >= &self.prefix[..] => Bound::Excluded(key.to_vec()),
            _ => Bound::Included(self.prefix.clone()),
        }
    }

    fn to(&self) -> Bound<&[u8]> {
        self.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded)
    }
}

/// A cursor as C's `strtoul` reads it, which is what clients were written against.
fn parse_cursor(text: &[u8]) -> Result<u64, Fail> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    match text {
        [] => Ok(0),
        [b' ' | b'\t'..=b'\r', ..] => Err(CURSOR),
        _ => parse_unsigned_loosely(text).ok_or(CURSOR),
    }
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub(super) fn scan(call: &mut Call<'_, '_>) -> Outcome {
    let cursor = parse_cursor(call.args.get(1))?;
    let (mut pattern, mut count, mut wanted) = (None, 10, None);
    let mut index = 2;
    while index < call.args.len() {
        let option = call.args.get(index);
        if index + 1 == call.args.len() {
            return Err(SYNTAX);
        }
        let value = call.args.get(index + 1);
        match option {
            _ if is_word(option, "match") => pattern = Some(value),
            _ if is_word(option, "count") => count = parse_integer(value).ok_or(NOT_INTEGER)?,
            _ if is_word(option, "type") => wanted = Some(value),
            _ => return Err(SYNTAX),
        }
        if count < 1 {
            return Err(SYNTAX);
        }
        index += 2;
    }
    let after = match cursor {
        0 => None,
        id => Some(call.shared.cursors.find(id).ok_or(CURSOR_UNKNOWN)?.to_vec()),
    };
    let filter = Filter::new(pattern);
    call.room()?;
    let (mut found, mut found_count) = (Replies::default(), 0);
    let (mut looked, mut last, mut more) = (0, Vec::new(), false);
    let room = call.room_left();
    let from = filter.from(after.as_deref());
    let span = KeySpan { from: from.as_ref().map(Vec::as_slice), to: filter.to(), backwards: false };
    call.keys.visit(span, false, &mut |Visited { key, kind, .. }| {
        if looked == count || found.pending() > room {
            more = true;
            return false;
        }
        looked += 1;
        last.clear();
        last.extend_from_slice(key);
        if wanted.is_none_or(|wanted| is_word(wanted, kind.name())) && filter.wants(key) {
            found.bulk(key);
            found_count += 1;
        }
        true
    })?;
    let next = if more { call.shared.cursors.keep(&last) } else { 0 };
    let mut text = Vec::with_capacity(20);
    write_unsigned(&mut text, next);
    call.out.array(2);
    call.out.bulk(&text);
    call.out.array(found_count);
    call.out.append(found);
    Ok(())
}

/// `KEYS pattern`
pub(super) fn keys(call: &mut Call<'_, '_>) -> Outcome {
    let filter = Filter::new(Some(call.args.get(1)));
    let (mut found, mut count, mut over) = (Replies::default(), 0, false);
    let room = call.room_left();
    let from = filter.from(None);
    let span = KeySpan { from: from.as_ref().map(Vec::as_slice), to: filter.to(), backwards: false };
    call.keys.visit(span, false, &mut |Visited { key, .. }| {
        if filter.wants(key) {
            found.bulk(key);
            count += 1;
            over = found.pending() > room;
        }
        !over
    })?;
    if over {
        return Err(Fail::OutputLimit);
    }
    call.out.array(count);
    call.out.append(found);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_c_reads_them() {
        for (text, expect) in
            [("0", Some(0)), ("", Some(0)), ("+3", Some(3)), ("-1", Some(u64::MAX)), ("007", Some(7)), (" 1", None)]
        {
            assert_eq!(parse_cursor(text.as_bytes()).ok(), expect, "{text:?}");
        }
        for text in ["a", "1a", "1 ", "-", "+", "99999999999999999999"] {
            assert!(parse_cursor(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    /// A pattern's literal start bounds what is looked at, and a start of the highest bytes has no
    /// end.
    #[test]
    fn patterns_become_ranges() {
        let filter = Filter::new(Some(b"ab*c"));
        assert_eq!(filter.from(None), Bound::Included(b"ab".to_vec()));
        assert_eq!(filter.to(), Bound::Excluded(&b"ac"[..]));
        assert_eq!(filter.from(Some(b"aa")), Bound::Included(b"ab".to_vec()));
        for last in [&b"ab"[..], b"abx"] {
            assert_eq!(filter.from(Some(last)), Bound::Excluded(last.to_vec()));
        }
        assert!(filter.wants(b"abc") && !filter.wants(b"abd"));
        assert_eq!(Filter::new(Some(b"\xff*")).to(), Bound::Unbounded);
        assert!(Filter::new(Some(b"*")).wants(b"") && Filter::new(None).wants(b""));
        assert!(!Filter::new(Some(b"**")).wants(b""));
    }
}

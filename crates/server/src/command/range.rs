//! Keys and values in order, in one command: RANGE, REVRANGE, PREFIX, COUNTRANGE and DELRANGE.
//!
//! | bound  | as start                        | as end                          |
//! |--------|---------------------------------|---------------------------------|
//! | `-`    | from the first key              | nothing                         |
//! | `+`    | nothing                         | to the last key                 |
//! | `[k`   | from k, k included              | to k, k included                |
//! | `(k`   | from k, k excluded              | to k, k excluded                |
//! | other  | the key itself, included        | the key itself, excluded        |
//!
//! A key that is `-` or `+`, or begins with `[` or `(`, is written with a `[` or `(` before it. The
//! reply is a list of key, value, key, value; in RESP3 a list of pairs. Without LIMIT everything is
//! returned, up to the connection's output limit. The value of a key that is no string is null.

use super::fail::{NOT_INTEGER, SYNTAX};
use super::{Call, Fail, Outcome, is_word};
use crate::keyspace::{KeySpan, Visited, after_prefix};
use crate::resp::number::parse_integer;
use crate::resp::reply::{Protocol, Replies};
use std::ops::Bound;

/// The position that a bound names; `None`: it lies beyond the other end, so the range is empty.
fn bound(text: &[u8], start: bool) -> Option<Bound<&[u8]>> {
    match text {
        b"-" => start.then_some(Bound::Unbounded),
        b"+" => (!start).then_some(Bound::Unbounded),
        [b'[', key @ ..] => Some(Bound::Included(key)),
        [b'(', key @ ..] => Some(Bound::Excluded(key)),
        key if start => Some(Bound::Included(key)),
        key => Some(Bound::Excluded(key)),
    }
}

/// Whether no key can lie between the bounds; the store is not asked then.
fn empty(from: &Bound<&[u8]>, to: &Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
        _ => false,
    }
}

/// The keys between two bounds; `None`: no key can lie there.
pub(super) fn span<'b>(start: &'b [u8], end: &'b [u8], backwards: bool) -> Option<KeySpan<'b>> {
    let (from, to) = (bound(start, true)?, bound(end, false)?);
    (!empty(&from, &to)).then_some(KeySpan { from, to, backwards })
}

/// The option LIMIT from the argument `place` on.
fn limit(call: &Call<'_, '_>, place: usize) -> Result<u64, Fail> {
    let options: Vec<&[u8]> = call.args.from(place).collect();
    match options[..] {
        [] => Ok(u64::MAX),
        [word, count] if is_word(word, "limit") => {
            parse_integer(count).and_then(|count| u64::try_from(count).ok()).ok_or(NOT_INTEGER)
        }
        _ => Err(SYNTAX),
    }
}

/// Writes a key and its value, null if it is no string.
pub(super) fn write_pair(out: &mut Replies, key: &[u8], value: Option<&[u8]>) {
    if out.protocol == Protocol::Resp3 {
        out.array(2);
    }
    out.bulk(key);
    match value {
        Some(value) => out.bulk(value),
        None => out.null(),
    }
}

/// Replies with keys and values.
fn pairs(call: &mut Call<'_, '_>, span: Option<KeySpan<'_>>, limit: u64) -> Outcome {
    let mut found = Replies::default();
    found.protocol = call.out.protocol;
    let (mut count, mut over) = (0, false);
    if let Some(span) = span.filter(|_| limit > 0) {
        let room = call.room_left();
        call.keys.visit(span, true, &mut |Visited { key, value, .. }| {
            write_pair(&mut found, key, value);
            count += 1;
            over = found.pending() > room;
            (count as u64) < limit && !over
        })?;
    }
    if over {
        return Err(Fail::OutputLimit);
    }
    call.out.array(if found.protocol == Protocol::Resp3 { count } else { 2 * count });
    call.out.append(found);
    Ok(())
}

/// `RANGE start end [LIMIT n]`
pub(super) fn range(call: &mut Call<'_, '_>) -> Outcome {
    let limit = limit(call, 3)?;
    let span = span(call.args.get(1), call.args.get(2), false);
    pairs(call, span, limit)
}

/// `REVRANGE end start [LIMIT n]`: the pairs of `RANGE start end`, from the last to the first.
pub(super) fn revrange(call: &mut Call<'_, '_>) -> Outcome {
    let limit = limit(call, 3)?;
    let span = span(call.args.get(2), call.args.get(1), true);
    pairs(call, span, limit)
}

/// `PREFIX prefix [LIMIT n]`
pub(super) fn prefix(call: &mut Call<'_, '_>) -> Outcome {
    let limit = limit(call, 2)?;
    let prefix = call.args.get(1);
    let end = after_prefix(prefix);
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    pairs(call, Some(KeySpan { from: Bound::Included(prefix), to, backwards: false }), limit)
}

/// `COUNTRANGE start end`
pub(super) fn countrange(call: &mut Call<'_, '_>) -> Outcome {
    let count = match span(call.args.get(1), call.args.get(2), false) {
        Some(span) => call.keys.count_between(span.from, span.to)?,
        None => 0,
    };
    call.out.integer(count as i64);
    Ok(())
}

/// `DELRANGE start end [LIMIT n]`
pub(super) fn delrange(call: &mut Call<'_, '_>) -> Outcome {
    let limit = limit(call, 3)?;
    let deleted = match span(call.args.get(1), call.args.get(2), false) {
        Some(span) => call.keys.delete_between(span.from, span.to, limit)?,
        None => 0,
    };
    call.out.integer(deleted as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_name_every_key() {
        assert_eq!(bound(b"-", true), Some(Bound::Unbounded));
        assert_eq!(bound(b"-", false), None);
        assert_eq!(bound(b"+", false), Some(Bound::Unbounded));
        assert_eq!(bound(b"+", true), None);
        assert_eq!(bound(b"[-", true), Some(Bound::Included(&b"-"[..])));
        assert_eq!(bound(b"[[", false), Some(Bound::Included(&b"["[..])));
        assert_eq!(bound(b"(a", true), Some(Bound::Excluded(&b"a"[..])));
        assert_eq!(bound(b"a", true), Some(Bound::Included(&b"a"[..])));
        assert_eq!(bound(b"a", false), Some(Bound::Excluded(&b"a"[..])));
        assert_eq!(bound(b"", true), Some(Bound::Included(&b""[..])));
    }

    #[test]
    fn crossed_bounds_are_empty() {
        assert!(empty(&Bound::Included(b"b"), &Bound::Excluded(b"b")));
        assert!(!empty(&Bound::Included(b"b"), &Bound::Included(b"b")));
        assert!(empty(&Bound::Excluded(b"b"), &Bound::Included(b"b")));
        assert!(empty(&Bound::Included(b"c"), &Bound::Included(b"b")));
        assert!(!empty(&Bound::Unbounded, &Bound::Excluded(b"")));
    }
}

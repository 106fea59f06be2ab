//! `RANGE start end [LIMIT n]`: keys and values in order, in one command.
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
//! returned, up to the connection's output limit.

use super::fail::{NOT_INTEGER, SYNTAX};
use super::{Call, Fail, Outcome, is_word};
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

/// See the head of this file.
pub(super) fn range(call: &mut Call<'_, '_>) -> Outcome {
    let options: Vec<&[u8]> = call.args.from(3).collect();
    let limit = match options[..] {
        [] => usize::MAX,
        [word, count] if is_word(word, "limit") => {
            parse_integer(count).and_then(|count| usize::try_from(count).ok()).ok_or(NOT_INTEGER)?
        }
        _ => return Err(SYNTAX),
    };
    let bounds = (bound(call.args.get(1), true), bound(call.args.get(2), false));
    let mut found = Replies::default();
    found.protocol = call.out.protocol;
    let (mut count, mut over) = (0, false);
    if let (Some(from), Some(to)) = bounds
        && !empty(&from, &to)
        && limit > 0
    {
        let room = call.shared.options.output_size_max;
        call.keys.visit(from, to, &mut |key, value| {
            if found.protocol == Protocol::Resp3 {
                found.array(2);
            }
            found.bulk(key);
            found.bulk(value);
            count += 1;
            over = found.pending() > room;
            count < limit && !over
        })?;
    }
    if over {
        return Err(Fail::OutputLimit);
    }
    call.out.array(if found.protocol == Protocol::Resp3 { count } else { 2 * count });
    call.out.append(found);
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

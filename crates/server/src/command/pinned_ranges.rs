//! CURSOR: ranges of keys as of one version, in parts: that of the command, or one with a name.
//!
//! The reply is the number of the cursor, 0 if nothing is left, and keys and values as RANGE has
//! them. A part ends early where the next pair would exceed the output limit.

use super::describe::help_of;
use super::fail::{NOT_INTEGER, SYNTAX};
use super::range::{span, write_pair};
use super::snapshots::{NO_SNAPSHOT, snapshot_name};
use super::{Call, Fail, Outcome, is_word};
use crate::keyspace::{KEY_SIZE_MAX, KeySpan, Keyspace, Visited, after_prefix};
use crate::pinned_cursors::PinnedCursor;
use crate::resp::number::parse_integer;
use crate::resp::reply::{Protocol, Replies};
use everbyte_kv::Error;
use everbyte_media::seeded;
use std::ops::Bound;
use std::sync::Arc;

/// Pairs of a part, if no LIMIT is given.
const LIMIT: u64 = 1000;
const TOO_MANY: Fail = Fail::text("ERR too many cursors are open: end some with CURSOR CLOSE, or use a larger LIMIT");
const NO_CURSOR: Fail =
    Fail::text("ERR no such cursor: it was closed, has reached its end, or was not used for a minute");

/// The options `LIMIT n` and `AT name`, in any order, from the argument `place` on.
fn options<'a>(call: &Call<'a, '_>, place: usize, may_be_at: bool) -> Result<(u64, Option<&'a [u8]>), Fail> {
    let (mut limit, mut at, mut index) = (None, None, place);
    while index < call.args.len() {
        if index + 1 == call.args.len() {
            return Err(SYNTAX);
        }
        let (word, value) = (call.args.get(index), call.args.get(index + 1));
        match word {
            _ if is_word(word, "limit") && limit.is_none() => {
                let number = parse_integer(value).ok_or(NOT_INTEGER)?;
                let number = u64::try_from(number).ok().filter(|number| *number > 0);
                limit = Some(number.ok_or(Fail::text("ERR LIMIT must be positive"))?);
            }
            _ if is_word(word, "at") && at.is_none() && may_be_at => at = Some(value),
            _ => return Err(SYNTAX),
        }
        index += 2;
    }
    Ok((limit.unwrap_or(LIMIT), at))
}

/// The bound that a cursor keeps. No key is longer than [`KEY_SIZE_MAX`], so the first bytes of a
/// longer bound have the same keys before them.
fn owned(bound: Bound<&[u8]>) -> Bound<Vec<u8>> {
    bound.map(|bytes| bytes[..bytes.len().min(KEY_SIZE_MAX + 1)].to_vec())
}

fn parse_number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Opens a cursor over a range, and replies with its first part.
fn open(call: &mut Call<'_, '_>, span: Option<KeySpan<'_>>, limit: u64, at: Option<&[u8]>) -> Outcome {
    let version = match at {
        None => call.shared.kv.snapshot(),
        Some(name) => match call.keys.open_version(&snapshot_name(name)?) {
            Err(Error::NoVersion { .. }) => return Err(NO_SNAPSHOT),
            version => version?,
        },
    };
    let Some(span) = span else {
        write(call, 0, Part::default());
        return Ok(());
    };
    let (from, to) = (owned(span.from), owned(span.to));
    let mut cursor = PinnedCursor { version, database: call.keys.database(), from, to, backwards: span.backwards };
    let mut part = next_part(call, &cursor, limit)?;
    let mut number = 0;
    if part.more {
        part.advance(&mut cursor);
        if !call.shared.pinned.has_room(cursor.size()) {
            return Err(TOO_MANY);
        }
        number = call.shared.pinned.add(cursor, call.keys.random(), call.shared.now);
    }
    write(call, number, part);
    Ok(())
}

/// A part of a range.
#[derive(Default)]
struct Part {
    pairs: Replies,
    count: usize,
    /// Its last key.
    last: Option<Vec<u8>>,
    /// Whether something is left behind it.
    more: bool,
}

impl Part {
    /// The cursor stands behind the part; its bound before that.
    fn advance(&mut self, cursor: &mut PinnedCursor) -> Option<Bound<Vec<u8>>> {
        let end = if cursor.backwards { &mut cursor.to } else { &mut cursor.from };
        self.last.take().map(|last| std::mem::replace(end, Bound::Excluded(last)))
    }
}

/// Reads the next part of a cursor.
fn next_part(call: &mut Call<'_, '_>, cursor: &PinnedCursor, limit: u64) -> Result<Part, Fail> {
    let tables = Arc::clone(&call.shared.tables);
    let version = match seeded("server-cursor-unpinned") {
        true => call.shared.kv.snapshot(),
        false => cursor.version.clone(),
    };
    let mut keys = Keyspace::at(&tables, version, cursor.database, call.keys.now())?;
    let (room, mut part, mut over) = (call.room_left(), Part::default(), false);
    part.pairs.protocol = call.out.protocol;
    let span = KeySpan {
        from: cursor.from.as_ref().map(Vec::as_slice),
        to: cursor.to.as_ref().map(Vec::as_slice),
        backwards: cursor.backwards,
    };
    keys.visit(span, true, &mut |Visited { key, value, .. }| {
        if part.count as u64 == limit {
            part.more = true;
            return false;
        }
        let before = part.pairs.position();
        write_pair(&mut part.pairs, key, value);
        if part.pairs.pending() > room {
            part.pairs.cut(before);
            (part.more, over) = (true, part.count == 0);
            return false;
        }
        part.count += 1;
        part.last = Some(key.to_vec());
        true
    })?;
    if over {
        return Err(Fail::OutputLimit);
    }
    Ok(part)
}

fn write(call: &mut Call<'_, '_>, number: u64, part: Part) {
    call.out.array(2);
    call.out.bulk(number.to_string().as_bytes());
    call.out.array(if call.out.protocol == Protocol::Resp3 { part.count } else { 2 * part.count });
    call.out.append(part.pairs);
}

/// `CURSOR RANGE start end [LIMIT n] [AT name]`
pub(super) fn range(call: &mut Call<'_, '_>) -> Outcome {
    let (limit, at) = options(call, 4, true)?;
    let args = call.args;
    open(call, span(args.get(2), args.get(3), false), limit, at)
}

/// `CURSOR REVRANGE end start [LIMIT n] [AT name]`
pub(super) fn revrange(call: &mut Call<'_, '_>) -> Outcome {
    let (limit, at) = options(call, 4, true)?;
    let args = call.args;
    open(call, span(args.get(3), args.get(2), true), limit, at)
}

/// `CURSOR PREFIX prefix [LIMIT n] [AT name]`
pub(super) fn prefix(call: &mut Call<'_, '_>) -> Outcome {
    let (limit, at) = options(call, 3, true)?;
    let args = call.args;
    let end = after_prefix(args.get(2));
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    open(call, Some(KeySpan { from: Bound::Included(args.get(2)), to, backwards: false }), limit, at)
}

/// `CURSOR NEXT number [LIMIT n]`
pub(super) fn next(call: &mut Call<'_, '_>) -> Outcome {
    let (limit, _) = options(call, 3, false)?;
    let number = parse_number(call.args.get(2)).ok_or(NO_CURSOR)?;
    let mut cursor = call.shared.pinned.take(number).ok_or(NO_CURSOR)?;
    let mut part = next_part(call, &cursor, limit);
    let before = part.as_mut().ok().and_then(|part| part.advance(&mut cursor));
    let has_room = call.shared.pinned.has_room(cursor.size());
    if let (false, Some(before)) = (has_room, before) {
        *if cursor.backwards { &mut cursor.to } else { &mut cursor.from } = before;
    }
    let more = part.as_ref().map_or(true, |part| part.more);
    if more {
        call.shared.pinned.restore(number, cursor, call.shared.now);
    }
    let part = part?;
    if more && !has_room {
        return Err(TOO_MANY);
    }
    write(call, if more { number } else { 0 }, part);
    Ok(())
}

/// `CURSOR CLOSE number`: 1 if it was open.
pub(super) fn close(call: &mut Call<'_, '_>) -> Outcome {
    let closed = parse_number(call.args.get(2)).is_some_and(|number| call.shared.pinned.take(number).is_some());
    call.out.integer(i64::from(closed));
    Ok(())
}

/// `CURSOR HELP`
pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    help_of(call, "cursor")
}

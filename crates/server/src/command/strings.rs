//! Byte strings: GET, SET and their kin. A value is exactly its bytes.

use super::expiry::{self, Unit};
use super::fail::{NOT_INTEGER, OFFSET, SYNTAX, TOO_LONG};
use super::{Call, Fail, Outcome, is_word};
use crate::keyspace::KeyError;
use crate::resp::number::parse_integer;
use crate::resp::parse::Args;

/// Replies with a value that may be absent.
fn value(call: &mut Call<'_, '_>, value: Option<Vec<u8>>) -> Outcome {
    match value {
        Some(value) => call.out.bulk_owned(value),
        None => call.out.null(),
    }
    call.room()
}

/// Fails when a reply with this value would be above the output limit: to be asked before anything
/// is changed, as an error after that would undo what the iteration has written (ITER-3).
fn room_for(call: &Call<'_, '_>, value: Option<&[u8]>) -> Outcome {
    const FRAME: usize = 32; // more than the size line and the line end
    let after = call.out.pending() + value.map_or(0, <[u8]>::len) + FRAME;
    if after > call.shared.options.output_size_max { Err(Fail::OutputLimit) } else { Ok(()) }
}

/// `GET key`
pub(super) fn get(call: &mut Call<'_, '_>) -> Outcome {
    let found = call.keys.get(call.args.get(1))?;
    call.shared.metrics.look_up(found.is_some());
    value(call, found)
}

/// The options of SET and GETEX.
#[derive(Default)]
struct Options<'a> {
    if_absent: bool,
    if_present: bool,
    get: bool,
    keep: bool,
    persist: bool,
    expiry: Option<(Unit, &'a [u8])>,
}

/// The options from the argument `from` on; `set`: those of SET, else those of GETEX.
fn options<'a>(args: &Args<'a>, from: usize, set: bool) -> Result<Options<'a>, Fail> {
    let mut options = Options::default();
    let mut rest = args.from(from);
    while let Some(arg) = rest.next() {
        let lasting = options.keep || options.persist;
        let fits = match arg {
            _ if set && is_word(arg, "nx") => {
                options.if_absent = true;
                !options.if_present
            }
            _ if set && is_word(arg, "xx") => {
                options.if_present = true;
                !options.if_absent
            }
            _ if set && is_word(arg, "get") => {
                options.get = true;
                true
            }
            _ if set && is_word(arg, "keepttl") => {
                options.keep = true;
                options.expiry.is_none()
            }
            _ if !set && is_word(arg, "persist") => {
                options.persist = true;
                options.expiry.is_none()
            }
            _ => match (Unit::named(arg), rest.next()) {
                (Some(unit), Some(time)) => {
                    let other = options.expiry.replace((unit, time)).is_some_and(|(before, _)| before != unit);
                    !lasting && !other
                }
                _ => false,
            },
        };
        if !fits {
            return Err(SYNTAX);
        }
    }
    Ok(options)
}

/// `SET key value [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`
pub(super) fn set(call: &mut Call<'_, '_>) -> Outcome {
    let (key, new) = (call.args.get(1), call.args.get(2));
    if call.args.len() == 3 {
        call.keys.put(key, new)?;
        call.out.ok();
        return Ok(());
    }
    let options = options(&call.args, 3, true)?;
    let deadline = match options.expiry {
        Some((unit, time)) => Some(unit.deadline(time, call.keys.now(), "set")?),
        None => None,
    };
    let old = match options.get {
        true => call.keys.get(key)?,
        false => None,
    };
    let found = match options.get {
        true => old.is_some(),
        false => (options.if_absent || options.if_present) && call.keys.contains(key)?,
    };
    let stored = !(options.if_absent && found || options.if_present && !found);
    if stored {
        room_for(call, old.as_deref())?;
        let kept = if options.keep { call.keys.deadline(key)? } else { None };
        call.keys.put_until(key, new, deadline.or(kept).unwrap_or(0))?;
    }
    match (options.get, stored) {
        (true, _) => return value(call, old),
        (false, true) => call.out.ok(),
        (false, false) => call.out.null(),
    }
    Ok(())
}

fn set_until(call: &mut Call<'_, '_>, unit: Unit, name: &str) -> Outcome {
    let deadline = unit.deadline(call.args.get(2), call.keys.now(), name)?;
    call.keys.put_until(call.args.get(1), call.args.get(3), deadline)?;
    call.out.ok();
    Ok(())
}

/// `SETEX key seconds value`
pub(super) fn setex(call: &mut Call<'_, '_>) -> Outcome {
    set_until(call, Unit::Seconds, "setex")
}

/// `PSETEX key milliseconds value`
pub(super) fn psetex(call: &mut Call<'_, '_>) -> Outcome {
    set_until(call, Unit::Millis, "psetex")
}

/// `SETNX key value`
pub(super) fn setnx(call: &mut Call<'_, '_>) -> Outcome {
    let absent = !call.keys.contains(call.args.get(1))?;
    if absent {
        call.keys.put(call.args.get(1), call.args.get(2))?;
    }
    call.out.integer(i64::from(absent));
    Ok(())
}

/// `GETSET key value`
pub(super) fn getset(call: &mut Call<'_, '_>) -> Outcome {
    let old = call.keys.get(call.args.get(1))?;
    room_for(call, old.as_deref())?;
    call.keys.put(call.args.get(1), call.args.get(2))?;
    value(call, old)
}

/// `GETDEL key`
pub(super) fn getdel(call: &mut Call<'_, '_>) -> Outcome {
    let old = call.keys.get(call.args.get(1))?;
    if old.is_some() {
        room_for(call, old.as_deref())?;
        call.keys.delete(call.args.get(1))?;
    }
    value(call, old)
}

/// `GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]`
pub(super) fn getex(call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.get(1);
    let options = options(&call.args, 2, false)?;
    let found = call.keys.get(key)?;
    call.shared.metrics.look_up(found.is_some());
    if found.is_some() {
        room_for(call, found.as_deref())?;
        match options.expiry {
            Some((unit, time)) => {
                let deadline = unit.deadline(time, call.keys.now(), "getex")?;
                expiry::set(call, key, deadline)?;
            }
            None if options.persist && call.keys.deadline(key)? != Some(0) => call.keys.set_deadline(key, 0)?,
            None => {}
        }
    }
    value(call, found)
}

/// `MGET key [key ...]`
pub(super) fn mget(call: &mut Call<'_, '_>) -> Outcome {
    call.out.array(call.args.len() - 1);
    for key in call.args.from(1) {
        // A key of another type is as good as absent.
        let found = match call.keys.get(key) {
            Err(KeyError::WrongType) => None,
            other => other?,
        };
        call.shared.metrics.look_up(found.is_some());
        value(call, found)?;
    }
    Ok(())
}

fn pairs_given(call: &Call<'_, '_>, name: &str) -> Outcome {
    match call.args.len() % 2 {
        1 => Ok(()),
        _ => Err(Fail::arity(name)),
    }
}

/// All lengths are checked before the first key is put: an error after that would undo what the
/// iteration has written (ITER-3).
fn put_pairs(call: &mut Call<'_, '_>) -> Outcome {
    call.args.from(1).step_by(2).try_for_each(|key| call.keys.check_key(key))?;
    for index in (1..call.args.len()).step_by(2) {
        call.keys.put(call.args.get(index), call.args.get(index + 1))?;
    }
    Ok(())
}

/// `MSET key value [key value ...]`
pub(super) fn mset(call: &mut Call<'_, '_>) -> Outcome {
    pairs_given(call, "mset")?;
    put_pairs(call)?;
    call.out.ok();
    Ok(())
}

/// `MSETNX key value [key value ...]`
pub(super) fn msetnx(call: &mut Call<'_, '_>) -> Outcome {
    pairs_given(call, "msetnx")?;
    for index in (1..call.args.len()).step_by(2) {
        if call.keys.contains(call.args.get(index))? {
            call.out.integer(0);
            return Ok(());
        }
    }
    put_pairs(call)?;
    call.out.integer(1);
    Ok(())
}

/// Fails when a value of `size` bytes would be above the limit.
pub(super) fn fits(call: &Call<'_, '_>, size: Option<usize>) -> Outcome {
    match size {
        Some(size) if size <= call.shared.options.bulk_size_max => Ok(()),
        _ => Err(TOO_LONG),
    }
}

/// `APPEND key value`
pub(super) fn append(call: &mut Call<'_, '_>) -> Outcome {
    let (key, more) = (call.args.get(1), call.args.get(2));
    let size = call.keys.size(key)?.unwrap_or(0);
    fits(call, size.checked_add(more.len()))?;
    let mut all = call.keys.get(key)?.unwrap_or_default();
    all.extend_from_slice(more);
    call.keys.replace(key, &all)?;
    call.out.integer(all.len() as i64);
    Ok(())
}

/// `STRLEN key`
pub(super) fn strlen(call: &mut Call<'_, '_>) -> Outcome {
    let size = call.keys.size(call.args.get(1))?;
    call.shared.metrics.look_up(size.is_some());
    call.out.integer(size.unwrap_or(0) as i64);
    Ok(())
}

fn integer(arg: &[u8]) -> Result<i64, Fail> {
    parse_integer(arg).ok_or(NOT_INTEGER)
}

/// The bytes `first..=last` of a value of `size` bytes, negatives counted from its end.
pub(super) fn part(first: i64, last: i64, size: u64) -> std::ops::Range<u64> {
    let size = size as i64; // a value is far below 2^63
    if first < 0 && last < 0 && first > last {
        return 0..0;
    }
    let place = |at: i64| if at < 0 { size.saturating_add(at).max(0) } else { at };
    let (first, last) = (place(first), place(last).min(size - 1));
    if first <= last && size > 0 { first as u64..last as u64 + 1 } else { 0..0 }
}

/// `GETRANGE key start end`
pub(super) fn getrange(call: &mut Call<'_, '_>) -> Outcome {
    let (first, last) = (integer(call.args.get(2))?, integer(call.args.get(3))?);
    let found = call.keys.part(call.args.get(1), |size| part(first, last, size))?;
    call.shared.metrics.look_up(found.is_some());
    call.out.bulk_owned(found.unwrap_or_default());
    call.room()
}

/// `SETRANGE key offset value`
pub(super) fn setrange(call: &mut Call<'_, '_>) -> Outcome {
    let (key, part) = (call.args.get(1), call.args.get(3));
    let offset = usize::try_from(integer(call.args.get(2))?).map_err(|_| OFFSET)?;
    let mut size = call.keys.size(key)?.unwrap_or(0);
    if !part.is_empty() {
        fits(call, offset.checked_add(part.len()))?;
        let end = offset + part.len();
        let mut whole = call.keys.get(key)?.unwrap_or_default();
        if whole.len() < end {
            whole.resize(end, 0);
        }
        whole[offset..end].copy_from_slice(part);
        call.keys.replace(key, &whole)?;
        size = whole.len();
    }
    call.out.integer(size as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn parts_are_counted_from_either_end() {
        for (first, last, expect) in [
            (0, -1, 0..5),
            (1, 2, 1..3),
            (-2, -1, 3..5),
            (-1, -2, 0..0),
            (-100, 1, 0..2),
            (3, 1, 0..0),
            (0, 100, 0..5),
            (5, 9, 0..0),
            (i64::MIN, i64::MAX, 0..5),
            (i64::MAX, i64::MIN, 0..0),
        ] {
            assert_eq!(part(first, last, 5), expect, "{first} {last}");
        }
        assert_eq!(part(0, -1, 0), 0..0);
    }
}

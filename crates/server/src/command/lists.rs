//! Lists: LPUSH, LRANGE and their kin. `keyspace/lists.rs` has the elements.

use super::fail::{INDEX, NO_KEY, NOT_INTEGER, NOT_POSITIVE, RANK, SYNTAX};
use super::{Call, Fail, Outcome, is_word};
use crate::keyspace::{Collection, End, ValueType, damaged};
use crate::resp::number::parse_integer;
use crate::resp::reply::Replies;
use std::ops::Range;

fn integer(arg: &[u8]) -> Result<i64, Fail> {
    parse_integer(arg).ok_or(NOT_INTEGER)
}

/// A number from `least` on, or the error `text`.
pub(super) fn at_least(arg: &[u8], least: i64, text: &'static str) -> Result<u64, Fail> {
    let number = parse_integer(arg).filter(|number| *number >= least);
    number.map(|number| number as u64).ok_or(Fail::text(text))
}

fn list(call: &mut Call<'_, '_>, key: &[u8]) -> Result<Option<Collection>, Fail> {
    Ok(call.keys.collection(key, ValueType::List)?)
}

/// For a command that only reads.
fn read(call: &mut Call<'_, '_>) -> Result<Option<Collection>, Fail> {
    let found = list(call, call.args.get(1))?;
    call.shared.metrics.look_up(found.is_some());
    Ok(found)
}

/// LEFT or RIGHT.
pub(super) fn end(arg: &[u8]) -> Result<End, Fail> {
    match arg {
        _ if is_word(arg, "left") => Ok(End::Head),
        _ if is_word(arg, "right") => Ok(End::Tail),
        _ => Err(SYNTAX),
    }
}

fn push(call: &mut Call<'_, '_>, end: End, create: bool) -> Outcome {
    let key = call.args.get(1);
    let mut list = match list(call, key)? {
        Some(list) => list,
        None if create => {
            call.keys.check_key(key)?;
            call.keys.new_collection(key, ValueType::List)?
        }
        None => {
            call.out.integer(0);
            return Ok(());
        }
    };
    for value in call.args.from(2) {
        call.keys.push_list(&mut list, end, value)?;
    }
    call.keys.store(key, &list)?;
    call.out.integer(list.count as i64);
    Ok(())
}

/// `LPUSH key element [element ...]`
pub(super) fn lpush(call: &mut Call<'_, '_>) -> Outcome {
    push(call, End::Head, true)
}

/// `RPUSH key element [element ...]`
pub(super) fn rpush(call: &mut Call<'_, '_>) -> Outcome {
    push(call, End::Tail, true)
}

/// `LPUSHX key element [element ...]`
pub(super) fn lpushx(call: &mut Call<'_, '_>) -> Outcome {
    push(call, End::Head, false)
}

/// `RPUSHX key element [element ...]`
pub(super) fn rpushx(call: &mut Call<'_, '_>) -> Outcome {
    push(call, End::Tail, false)
}

/// The elements at `indexes` as replies; an error if they are more than the client may have.
fn elements(call: &mut Call<'_, '_>, list: &Collection, indexes: Range<u64>, backwards: bool) -> Result<Replies, Fail> {
    let (mut found, mut missing) = (Replies::default(), indexes.end - indexes.start);
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    call.keys.visit_list(list, indexes, backwards, &mut |value| {
        found.bulk(value);
        missing = missing.saturating_sub(1);
        found.pending() <= room
    })?;
    match missing {
        _ if found.pending() > room => Err(Fail::OutputLimit),
        0 => Ok(found),
        // The reply would announce more elements than it has.
        _ => Err(damaged().into()),
    }
}

/// Removes up to `count` elements from an end, and replies with the list of them.
pub(super) fn pop_several(call: &mut Call<'_, '_>, key: &[u8], mut list: Collection, end: End, count: u64) -> Outcome {
    let count = count.min(list.count);
    let indexes = if end == End::Head { 0..count } else { list.count - count..list.count };
    let found = elements(call, &list, indexes, end == End::Tail)?;
    call.keys.cut_list(&mut list, end, count)?;
    call.keys.store(key, &list)?;
    call.out.array(count as usize);
    call.out.append(found);
    Ok(())
}

/// Removes an element from an end, and replies with it.
pub(super) fn pop_one(call: &mut Call<'_, '_>, key: &[u8], mut list: Collection, end: End) -> Outcome {
    let index = if end == End::Head { 0 } else { list.count - 1 };
    let found = elements(call, &list, index..index + 1, false)?;
    call.keys.cut_list(&mut list, end, 1)?;
    call.keys.store(key, &list)?;
    call.out.append(found);
    Ok(())
}

fn pop(call: &mut Call<'_, '_>, end: End) -> Outcome {
    if call.args.len() > 3 {
        return Err(Fail::arity(if end == End::Head { "lpop" } else { "rpop" }));
    }
    let key = call.args.get(1);
    let count = match call.args.from(2).next() {
        Some(arg) => Some(at_least(arg, 0, NOT_POSITIVE)?),
        None => None,
    };
    match (list(call, key)?, count) {
        (None, None) => call.out.null(),
        (None, Some(_)) => call.out.null_array(),
        (Some(list), Some(count)) => {
            if count == 0 {
                call.out.array(0);
                return Ok(());
            }
            return pop_several(call, key, list, end, count);
        }
        (Some(list), None) => return pop_one(call, key, list, end),
    }
    Ok(())
}

/// `LPOP key [count]`
pub(super) fn lpop(call: &mut Call<'_, '_>) -> Outcome {
    pop(call, End::Head)
}

/// `RPOP key [count]`
pub(super) fn rpop(call: &mut Call<'_, '_>) -> Outcome {
    pop(call, End::Tail)
}

/// `LLEN key`
pub(super) fn llen(call: &mut Call<'_, '_>) -> Outcome {
    let count = read(call)?.map_or(0, |list| list.count);
    call.out.integer(count as i64);
    Ok(())
}

/// The index that a number means: negative ones count from the end.
fn index_of(list: &Collection, number: i64) -> Option<u64> {
    let index = if number < 0 { number.checked_add_unsigned(list.count)? } else { number };
    u64::try_from(index).ok().filter(|index| *index < list.count)
}

/// `LINDEX key index`
pub(super) fn lindex(call: &mut Call<'_, '_>) -> Outcome {
    let Some(list) = read(call)? else {
        call.out.null();
        return Ok(());
    };
    match index_of(&list, integer(call.args.get(2))?) {
        Some(index) => {
            let value = call.keys.list_element(&list, index)?;
            call.out.bulk_owned(value);
        }
        None => call.out.null(),
    }
    call.room()
}

/// The indexes between two numbers, both included; negative ones count from the end.
fn between(list: &Collection, start: i64, end: i64) -> Range<u64> {
    let count = list.count as i64;
    let from = if start < 0 { start.saturating_add(count).max(0) } else { start };
    let last = if end < 0 { end.saturating_add(count) } else { end.min(count - 1) };
    if from > last || from >= count { 0..0 } else { from as u64..last as u64 + 1 }
}

/// `LRANGE key start stop`
pub(super) fn lrange(call: &mut Call<'_, '_>) -> Outcome {
    let (start, end) = (integer(call.args.get(2))?, integer(call.args.get(3))?);
    let Some(list) = read(call)? else {
        call.out.array(0);
        return Ok(());
    };
    let indexes = between(&list, start, end);
    let count = (indexes.end - indexes.start) as usize;
    let found = elements(call, &list, indexes, false)?;
    call.out.array(count);
    call.out.append(found);
    Ok(())
}

/// `LTRIM key start stop`
pub(super) fn ltrim(call: &mut Call<'_, '_>) -> Outcome {
    let (start, end) = (integer(call.args.get(2))?, integer(call.args.get(3))?);
    let key = call.args.get(1);
    if let Some(mut list) = list(call, key)? {
        let kept = between(&list, start, end);
        if kept.is_empty() {
            call.keys.delete(key)?;
        } else {
            let behind = list.count - kept.end;
            call.keys.cut_list(&mut list, End::Tail, behind)?;
            call.keys.cut_list(&mut list, End::Head, kept.start)?;
            call.keys.store(key, &list)?;
        }
    }
    call.out.ok();
    Ok(())
}

/// `LSET key index element`
pub(super) fn lset(call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.get(1);
    let list = list(call, key)?.ok_or(NO_KEY)?;
    let index = index_of(&list, integer(call.args.get(2))?).ok_or(INDEX)?;
    call.keys.set_list_element(&list, index, call.args.get(3))?;
    call.keys.touch_collection(key);
    call.out.ok();
    Ok(())
}

/// `LINSERT key BEFORE | AFTER pivot element`
pub(super) fn linsert(call: &mut Call<'_, '_>) -> Outcome {
    let (key, side, pivot) = (call.args.get(1), call.args.get(2), call.args.get(3));
    let behind = match side {
        _ if is_word(side, "after") => 1,
        _ if is_word(side, "before") => 0,
        _ => return Err(SYNTAX),
    };
    let Some(mut list) = list(call, key)? else {
        call.out.integer(0);
        return Ok(());
    };
    let (mut index, mut found) = (0, false);
    call.keys.visit_list(&list, 0..list.count, false, &mut |value| {
        found = value == pivot;
        index += u64::from(!found);
        !found
    })?;
    if !found {
        call.out.integer(-1);
        return Ok(());
    }
    call.keys.insert_in_list(&mut list, index + behind, call.args.get(4))?;
    call.keys.store(key, &list)?;
    call.out.integer(list.count as i64);
    Ok(())
}

/// `LREM key count element`: from the end if the count is negative, all if it is 0.
pub(super) fn lrem(call: &mut Call<'_, '_>) -> Outcome {
    let (key, count) = (call.args.get(1), integer(call.args.get(2))?);
    let Some(mut list) = list(call, key)? else {
        call.out.integer(0);
        return Ok(());
    };
    let end = if count < 0 { End::Tail } else { End::Head };
    let limit = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let removed = call.keys.remove_from_list(&mut list, call.args.get(3), end, limit)?;
    if removed > 0 {
        call.keys.store(key, &list)?;
    }
    call.out.integer(removed as i64);
    Ok(())
}

/// `LPOS key element [RANK rank] [COUNT count] [MAXLEN length]`
pub(super) fn lpos(call: &mut Call<'_, '_>) -> Outcome {
    let (mut rank, mut wanted, mut length) = (1, None, 0);
    let mut options = call.args.from(3);
    while let Some(option) = options.next() {
        let value = options.next().ok_or(SYNTAX)?;
        match option {
            _ if is_word(option, "rank") => {
                rank = match integer(value)? {
                    0 => return Err(RANK),
                    rank => rank,
                };
            }
            _ if is_word(option, "count") => wanted = Some(at_least(value, 0, "ERR COUNT can't be negative")?),
            _ if is_word(option, "maxlen") => length = at_least(value, 0, "ERR MAXLEN can't be negative")?,
            _ => return Err(SYNTAX),
        }
    }
    let Some(list) = read(call)? else {
        match wanted {
            Some(_) => call.out.array(0),
            None => call.out.null(),
        }
        return Ok(());
    };
    let (element, count) = (call.args.get(2), list.count);
    // The rank without a positive twin overflows in Redis: every match is reported, from the end.
    let (first, no_limit) = if rank == i64::MIN { (1, true) } else { (rank.unsigned_abs(), wanted == Some(0)) };
    let length = if length == 0 { count } else { length.min(count) };
    let indexes = if rank > 0 { 0..length } else { count - length..count };
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    let (mut at, mut matches, mut found, mut found_count) = (0, 0, Replies::default(), 0);
    call.keys.visit_list(&list, indexes, rank < 0, &mut |value| {
        if value == element {
            matches += 1;
            if matches >= first {
                found.integer(if rank > 0 { at } else { count - 1 - at } as i64);
                found_count += 1;
            }
        }
        at += 1;
        let enough = match wanted {
            None => found_count == 1,
            Some(wanted) => !no_limit && found_count == wanted,
        };
        !enough && found.pending() <= room
    })?;
    if found.pending() > room {
        return Err(Fail::OutputLimit);
    }
    match wanted {
        Some(_) => call.out.array(found_count as usize),
        None if found_count == 0 => call.out.null(),
        None => {}
    }
    call.out.append(found);
    Ok(())
}

/// Moves an element from a list, named by argument 1, to that of argument 2, and replies with it.
pub(super) fn move_element(call: &mut Call<'_, '_>, from: End, to: End) -> Outcome {
    let (source, target) = (call.args.get(1), call.args.get(2));
    let Some(mut list) = list(call, source)? else {
        call.out.null();
        return Ok(());
    };
    let other = self::list(call, target)?;
    call.keys.check_key(target)?;
    let value = call.keys.list_element(&list, if from == End::Head { 0 } else { list.count - 1 })?;
    let mut found = Replies::default();
    found.bulk(&value);
    if call.out.pending() + found.pending() > call.shared.options.output_size_max {
        return Err(Fail::OutputLimit);
    }
    call.keys.cut_list(&mut list, from, 1)?;
    if source == target {
        call.keys.push_list(&mut list, to, &value)?;
    } else {
        let mut other = match other {
            Some(other) => other,
            None => call.keys.new_collection(target, ValueType::List)?,
        };
        call.keys.push_list(&mut other, to, &value)?;
        call.keys.store(target, &other)?;
    }
    call.keys.store(source, &list)?;
    call.out.append(found);
    Ok(())
}

/// `LMOVE source destination LEFT | RIGHT LEFT | RIGHT`
pub(super) fn lmove(call: &mut Call<'_, '_>) -> Outcome {
    let (from, to) = (end(call.args.get(3))?, end(call.args.get(4))?);
    move_element(call, from, to)
}

/// `RPOPLPUSH source destination`
pub(super) fn rpoplpush(call: &mut Call<'_, '_>) -> Outcome {
    move_element(call, End::Tail, End::Head)
}

/// The words of LMPOP and ZMPOP from the number of keys on, which is argument `first`: the
/// arguments that are keys, the word behind them, and the number of elements.
pub(super) fn pop_words<'a>(
    call: &Call<'a, '_>,
    first: usize,
    ends: [&str; 2],
) -> Result<(Range<usize>, &'a [u8], u64), Fail> {
    let count = at_least(call.args.get(first), 1, "ERR numkeys should be greater than 0")? as usize;
    let place = count.saturating_add(first + 1);
    if place >= call.args.len() {
        return Err(SYNTAX);
    }
    let end = call.args.get(place);
    if !ends.iter().any(|word| is_word(end, word)) {
        return Err(SYNTAX);
    }
    let mut wanted = None;
    let mut options = call.args.from(place + 1);
    while let Some(option) = options.next() {
        match options.next() {
            Some(number) if wanted.is_none() && is_word(option, "count") => {
                wanted = Some(at_least(number, 1, "ERR count should be greater than 0")?);
            }
            _ => return Err(SYNTAX),
        }
    }
    Ok((first + 1..place, end, wanted.unwrap_or(1)))
}

/// The words of LMPOP: the arguments that are keys, the end, and the number of elements.
pub(super) fn lmpop_words(call: &Call<'_, '_>, first: usize) -> Result<(Range<usize>, End, u64), Fail> {
    let (keys, word, count) = pop_words(call, first, ["left", "right"])?;
    Ok((keys, end(word)?, count))
}

/// `LMPOP numkeys key [key ...] LEFT | RIGHT [COUNT count]`
pub(super) fn lmpop(call: &mut Call<'_, '_>) -> Outcome {
    let (keys, end, count) = lmpop_words(call, 1)?;
    for index in keys {
        let key = call.args.get(index);
        if let Some(list) = list(call, key)? {
            call.out.array(2);
            call.out.bulk(key);
            return pop_several(call, key, list, end, count);
        }
    }
    call.out.null_array();
    Ok(())
}

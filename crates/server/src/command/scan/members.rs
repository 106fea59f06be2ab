//! Members of sets and sorted sets and fields of hashes: some in order (HSCAN, SSCAN, ZSCAN), and
//! some at random.

use super::{matches, parse_cursor};
use crate::command::fail::{NOT_INTEGER, OUT_OF_RANGE, SYNTAX};
use crate::command::{Call, Fail, Outcome, is_word};
use crate::glob::LetterCase;
use crate::keyspace::{Collection, HashedMember, ValueType, decode_score};
use crate::resp::double::whole_text;
use crate::resp::number::{parse_integer, write_unsigned};
use crate::resp::reply::{Protocol, Replies};
use std::collections::HashSet;

/// A collection of up to so many elements is given whole, as clients of Redis are used to.
const WHOLE_MAX: u64 = 128;

/// HSCAN, SSCAN and ZSCAN: the key, the cursor, and options.
pub(in crate::command) fn scan(call: &mut Call<'_, '_>, kind: ValueType) -> Outcome {
    let cursor = parse_cursor(call.args.get(2))?;
    let found = looked_up(call, call.args.get(1), kind)?;
    let (mut replies, mut shown, mut next, mut odd) = (Replies::default(), 0, 0, None);
    // The options of a key that is absent are not looked at, as in Redis.
    if let Some(collection) = found {
        let (pattern, count) = options(call)?;
        let count = if collection.count <= WHOLE_MAX { u64::MAX } else { count };
        call.room()?;
        let room = call.room_left();
        next = call.keys.scan_elements(&collection, cursor, count, &mut |member, value| {
            if pattern.is_none_or(|pattern| pattern == b"*" || matches(pattern, member, LetterCase::Exact)) {
                replies.bulk(member);
                shown += 1;
                match kind {
                    ValueType::Hash => replies.bulk(value),
                    ValueType::SortedSet => match decode_score(value) {
                        Ok(score) => replies.bulk(whole_text(score).as_bytes()),
                        Err(error) => odd = Some(error),
                    },
                    _ => shown -= 1,
                }
                shown += 1;
            }
            odd.is_none() && replies.pending() <= room
        })?;
    }
    if let Some(error) = odd {
        return Err(Fail::from(error));
    }
    let mut text = Vec::with_capacity(20);
    write_unsigned(&mut text, next);
    call.out.array(2);
    call.out.bulk(&text);
    call.out.array(shown);
    call.out.append(replies);
    Ok(())
}

fn options<'a>(call: &Call<'a, '_>) -> Result<(Option<&'a [u8]>, u64), Fail> {
    let (mut pattern, mut count, mut rest) = (None, 10, call.args.from(3));
    while let Some(option) = rest.next() {
        let value = rest.next().ok_or(SYNTAX)?;
        match option {
            _ if is_word(option, "match") => pattern = Some(value),
            _ if is_word(option, "count") => count = parse_integer(value).ok_or(NOT_INTEGER)?,
            _ => return Err(SYNTAX),
        }
        if count < 1 {
            return Err(SYNTAX);
        }
    }
    Ok((pattern, count.unsigned_abs()))
}

/// HRANDFIELD and ZRANDMEMBER: the key, a count, and the `word` that asks for values or scores.
pub(in crate::command) fn random(call: &mut Call<'_, '_>, kind: ValueType, word: &str) -> Outcome {
    let key = call.args.get(1);
    if call.args.len() == 2 {
        let found = looked_up(call, key, kind)?;
        match found.map(|found| call.keys.random_element(&found)).transpose()?.flatten() {
            Some(member) => call.out.bulk(&member),
            None => call.out.null(),
        }
        return call.room();
    }
    let count = wanted(call.args.get(2))?;
    let values = match call.args.len() {
        3 => false,
        4 if is_word(call.args.get(3), word) => true,
        _ => return Err(SYNTAX),
    };
    if values && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(OUT_OF_RANGE);
    }
    let Some(of) = looked_up(call, key, kind)?.filter(|_| count != 0) else {
        call.out.array(0);
        return Ok(());
    };
    let paired = call.out.protocol == Protocol::Resp3;
    let (mut found, mut chosen, mut odd) = (Replies::default(), 0, None);
    found.protocol = call.out.protocol;
    sample(call, &of, count, values, &mut |member, value| {
        chosen += 1;
        if values && paired {
            found.array(2);
        }
        found.bulk(member);
        match kind {
            ValueType::SortedSet if values => match decode_score(value) {
                Ok(score) => found.double(score),
                Err(error) => odd = Some(error),
            },
            _ if values => found.bulk(value),
            _ => {}
        }
        found.pending()
    })?;
    if let Some(error) = odd {
        return Err(Fail::from(error));
    }
    call.out.array(if values && !paired { 2 * chosen } else { chosen });
    call.out.append(found);
    Ok(())
}

fn looked_up(call: &mut Call<'_, '_>, key: &[u8], kind: ValueType) -> Result<Option<Collection>, Fail> {
    let found = call.keys.collection(key, kind)?;
    call.shared.metrics.look_up(found.is_some());
    Ok(found)
}

/// How many random members are asked for; below 0: the same one may come again.
pub(in crate::command) fn wanted(arg: &[u8]) -> Result<i64, Fail> {
    let count = parse_integer(arg).ok_or(NOT_INTEGER)?;
    if count == i64::MIN {
        return Err(Fail::text(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    Ok(count)
}

/// Members drawn again before a sample stops drawing, beside as many as it needs.
const REPEATS: u64 = 32;

/// Members that are read in order in the time of one that is drawn, about.
const DRAWS_WORTH: u64 = 16;

/// Bytes of memory that a member in a list or table costs beside its own.
const EACH: usize = 64;

/// A member or field, and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// All members, with their values if `values`; `None` if these need more than `room` bytes.
fn all_members(call: &mut Call<'_, '_>, of: &Collection, values: bool, room: usize) -> Result<Option<Vec<Pair>>, Fail> {
    let (mut all, mut size) = (Vec::new(), 0);
    call.keys.walk_members(of, 0, values, &mut |HashedMember { member, value, .. }| {
        size += member.len() + value.len() + EACH;
        all.push((member.to_vec(), value.to_vec()));
        size <= room
    })?;
    Ok((size <= room).then_some(all))
}

/// Gives `each` random members: `count` different ones, or `-count` of which each may come again.
/// Their values are read if `values`. `each` returns the bytes that the reply has by now, which
/// must stay below the output limit, together with the members that were drawn.
pub(in crate::command) fn sample(
    call: &mut Call<'_, '_>,
    of: &Collection,
    count: i64,
    values: bool,
    each: &mut dyn FnMut(&[u8], &[u8]) -> usize,
) -> Outcome {
    let room = call.room_left();
    let (mut size, count_max) = (0, count.unsigned_abs());
    if count > 0 && count_max.saturating_mul(3) > of.count {
        // Selection sampling: of the elements left, each is as likely as any other.
        let (mut needed, mut left) = (count_max.min(of.count), of.count);
        let mut seed = call.keys.random();
        call.keys.walk_members(of, 0, values, &mut |HashedMember { member, value, .. }| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let draw = (u128::from(seed ^ (seed >> 32)) * u128::from(left)) >> 64;
            if draw < u128::from(needed) {
                size = each(member, value);
                needed -= 1;
            }
            left = left.saturating_sub(1);
            needed > 0 && size <= room
        })?;
        return if size > room { Err(Fail::OutputLimit) } else { Ok(()) };
    }
    // A member is 6 bytes of the reply at least.
    if count < 0 && count_max.saturating_mul(if values { 12 } else { 6 }) > room as u64 {
        return Err(Fail::OutputLimit);
    }
    if count < 0
        && of.count <= count_max.saturating_mul(DRAWS_WORTH)
        && let Some(all) = all_members(call, of, values, room)?
    {
        for _ in 0..count_max {
            let place = (u128::from(call.keys.random()) * all.len() as u128) >> 64;
            let Some((member, value)) = all.get(place as usize) else { break };
            if each(member, value) > room {
                return Err(Fail::OutputLimit);
            }
        }
        return Ok(());
    }
    let (mut seen, mut held, mut chosen, mut repeats) = (HashSet::new(), 0, 0, 0);
    while chosen < count_max && repeats <= REPEATS.saturating_add(count_max) {
        let Some(member) = call.keys.random_element(of)? else { break };
        if count > 0 {
            if !seen.insert(member.clone()) {
                repeats += 1;
                continue;
            }
            held += member.len() + EACH;
        }
        let value = match values {
            true => call.keys.element(of, &of.member_element(&member))?.unwrap_or_default(),
            false => Vec::new(),
        };
        chosen += 1;
        if each(&member, &value) + held > room {
            return Err(Fail::OutputLimit);
        }
    }
    if count > 0 && chosen < count_max {
        // Only hashes that clients have chosen, or a damaged count, lead here: the first others do.
        call.keys.walk_members(of, 0, values, &mut |HashedMember { member, value, .. }| {
            if !seen.contains(member) {
                size = each(member, value);
                chosen += 1;
            }
            chosen < count_max && size + held <= room
        })?;
    }
    if size + held > room { Err(Fail::OutputLimit) } else { Ok(()) }
}

//! Hashes: HSET, HGET and their kin. An element is a field behind its hash; the element's value is
//! the field's.
//!
//! A command that changes a hash checks all it was given before its first change (ITER-3), and
//! touches no other fields than those it names.

use super::fail::{NOT_FINITE, NOT_FLOAT, NOT_INTEGER, OVERFLOW};
use super::scan::members;
use super::{Call, Fail, Outcome};
use crate::keyspace::{Collection, ElementSpan, HASH, ValueType, hashed};
use crate::resp::extended::Extended;
use crate::resp::number::{parse_integer, write_integer};
use crate::resp::reply::Replies;

/// The hash at the first key; `None` without one.
fn hash(call: &mut Call<'_, '_>) -> Result<Option<Collection>, Fail> {
    Ok(call.keys.collection(call.args.get(1), ValueType::Hash)?)
}

/// The hash that a command reads.
fn looked_up(call: &mut Call<'_, '_>) -> Result<Option<Collection>, Fail> {
    let found = hash(call)?;
    call.shared.metrics.look_up(found.is_some());
    Ok(found)
}

/// Gives fields their values, which come behind the key in pairs; how many fields are new.
fn put_pairs(call: &mut Call<'_, '_>, old: Option<Collection>) -> Result<u64, Fail> {
    let key = call.args.get(1);
    call.keys.check_key(key)?;
    call.args.from(2).step_by(2).try_for_each(|field| call.keys.check_key(field))?;
    let mut hash = match old {
        Some(hash) => hash,
        None => call.keys.new_collection(key, ValueType::Hash)?,
    };
    let before = hash.count;
    for index in (2..call.args.len() - 1).step_by(2) {
        let (field, value) = (call.args.get(index), call.args.get(index + 1));
        hash.count += u64::from(!call.keys.put_element(&hash, &hashed(field), value)?);
    }
    match hash.count == before {
        true => call.keys.touch_collection(key),
        false => call.keys.store(key, &hash)?,
    }
    Ok(hash.count - before)
}

/// Gives one field a value; the hash is made if there is none.
fn put_field(call: &mut Call<'_, '_>, old: Option<Collection>, field: &[u8], value: &[u8]) -> Outcome {
    let key = call.args.get(1);
    call.keys.check_key(key)?;
    call.keys.check_key(field)?;
    let mut hash = match old {
        Some(hash) => hash,
        None => call.keys.new_collection(key, ValueType::Hash)?,
    };
    match call.keys.put_element(&hash, &hashed(field), value)? {
        true => call.keys.touch_collection(key),
        false => {
            hash.count += 1;
            call.keys.store(key, &hash)?;
        }
    }
    Ok(())
}

fn set_pairs(call: &mut Call<'_, '_>, name: &str) -> Result<u64, Fail> {
    if call.args.len() % 2 == 1 {
        return Err(Fail::arity(name));
    }
    let old = hash(call)?;
    put_pairs(call, old)
}

/// `HSET key field value [field value ...]`
pub(super) fn hset(call: &mut Call<'_, '_>) -> Outcome {
    let new = set_pairs(call, "hset")?;
    call.out.integer(new as i64);
    Ok(())
}

/// `HMSET key field value [field value ...]`
pub(super) fn hmset(call: &mut Call<'_, '_>) -> Outcome {
    set_pairs(call, "hmset")?;
    call.out.ok();
    Ok(())
}

/// `HSETNX key field value`
pub(super) fn hsetnx(call: &mut Call<'_, '_>) -> Outcome {
    let (old, field) = (hash(call)?, call.args.get(2));
    let absent = match &old {
        Some(hash) => call.keys.element_size(hash, &hashed(field))?.is_none(),
        None => true,
    };
    if absent {
        put_pairs(call, old)?;
    }
    call.out.integer(i64::from(absent));
    Ok(())
}

fn field_value(call: &mut Call<'_, '_>, hash: Option<&Collection>, field: &[u8]) -> Outcome {
    let found = match hash {
        Some(hash) => call.keys.element(hash, &hashed(field))?,
        None => None,
    };
    match found {
        Some(value) => call.out.bulk_owned(value),
        None => call.out.null(),
    }
    call.room()
}

/// `HGET key field`
pub(super) fn hget(call: &mut Call<'_, '_>) -> Outcome {
    let (hash, field) = (looked_up(call)?, call.args.get(2));
    field_value(call, hash.as_ref(), field)
}

/// `HMGET key field [field ...]`
pub(super) fn hmget(call: &mut Call<'_, '_>) -> Outcome {
    let hash = looked_up(call)?;
    call.out.array(call.args.len() - 2);
    call.args.from(2).try_for_each(|field| field_value(call, hash.as_ref(), field))
}

/// `HDEL key field [field ...]`
pub(super) fn hdel(call: &mut Call<'_, '_>) -> Outcome {
    let (old, key) = (hash(call)?, call.args.get(1));
    let mut removed = 0;
    if let Some(mut hash) = old {
        call.args.from(2).try_for_each(|field| call.keys.check_key(field))?;
        for field in call.args.from(2) {
            removed += u64::from(call.keys.remove_element(&hash, &hashed(field))?);
        }
        if removed > 0 {
            hash.count = hash.count.saturating_sub(removed);
            call.keys.store(key, &hash)?;
        }
    }
    call.out.integer(removed as i64);
    Ok(())
}

/// `HLEN key`
pub(super) fn hlen(call: &mut Call<'_, '_>) -> Outcome {
    let hash = looked_up(call)?;
    call.out.integer(hash.map_or(0, |hash| hash.count as i64));
    Ok(())
}

/// The size of the value of the field that is named behind the key; it is not read.
fn field_size(call: &mut Call<'_, '_>) -> Result<Option<u64>, Fail> {
    let (hash, field) = (looked_up(call)?, call.args.get(2));
    match hash {
        Some(hash) => Ok(call.keys.element_size(&hash, &hashed(field))?),
        None => Ok(None),
    }
}

/// `HEXISTS key field`
pub(super) fn hexists(call: &mut Call<'_, '_>) -> Outcome {
    let found = field_size(call)?.is_some();
    call.out.integer(i64::from(found));
    Ok(())
}

/// `HSTRLEN key field`
pub(super) fn hstrlen(call: &mut Call<'_, '_>) -> Outcome {
    let size = field_size(call)?.unwrap_or(0);
    call.out.integer(size as i64);
    Ok(())
}

/// Writes the fields, the values, or both, of all elements.
fn all(call: &mut Call<'_, '_>, fields: bool, values: bool) -> Outcome {
    let Some(hash) = looked_up(call)? else {
        if fields && values {
            call.out.map(0)
        } else {
            call.out.array(0)
        }
        return Ok(());
    };
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    let (mut found, mut count) = (Replies::default(), 0);
    call.keys.walk(&hash, ElementSpan::ALL, values, &mut |element, value| {
        if fields {
            found.bulk(element.get(HASH..).unwrap_or_default());
        }
        if values {
            found.bulk(value);
        }
        count += 1;
        found.pending() <= room
    })?;
    if found.pending() > room {
        return Err(Fail::OutputLimit);
    }
    if fields && values {
        call.out.map(count)
    } else {
        call.out.array(count)
    }
    call.out.append(found);
    Ok(())
}

/// `HGETALL key`
pub(super) fn hgetall(call: &mut Call<'_, '_>) -> Outcome {
    all(call, true, true)
}

/// `HKEYS key`
pub(super) fn hkeys(call: &mut Call<'_, '_>) -> Outcome {
    all(call, true, false)
}

/// `HVALS key`
pub(super) fn hvals(call: &mut Call<'_, '_>) -> Outcome {
    all(call, false, true)
}

/// `HINCRBY key field amount`
pub(super) fn hincrby(call: &mut Call<'_, '_>) -> Outcome {
    let amount = parse_integer(call.args.get(3)).ok_or(NOT_INTEGER)?;
    let (found, field) = (hash(call)?, call.args.get(2));
    let text = match &found {
        Some(hash) => call.keys.element(hash, &hashed(field))?,
        None => None,
    };
    let old = match text {
        Some(text) => parse_integer(&text).ok_or(Fail::text("ERR hash value is not an integer"))?,
        None => 0,
    };
    let new = old.checked_add(amount).ok_or(OVERFLOW)?;
    let mut text = Vec::with_capacity(20);
    write_integer(&mut text, new);
    put_field(call, found, field, &text)?;
    call.out.integer(new);
    Ok(())
}

/// `HINCRBYFLOAT key field amount`
pub(super) fn hincrbyfloat(call: &mut Call<'_, '_>) -> Outcome {
    let amount = Extended::parse(call.args.get(3)).ok_or(NOT_FLOAT)?;
    if amount == Extended::Infinite {
        return Err(Fail::text("ERR value is NaN or Infinity"));
    }
    let (found, field) = (hash(call)?, call.args.get(2));
    let text = match &found {
        Some(hash) => call.keys.element(hash, &hashed(field))?,
        None => None,
    };
    let old = match text {
        Some(text) => Extended::parse(&text).ok_or(Fail::text("ERR hash value is not a float"))?,
        None => Extended::ZERO,
    };
    let text = old.plus(amount).ok_or(NOT_FINITE)?.text();
    call.out.bulk(text.as_bytes());
    call.room()?; // before anything is changed
    put_field(call, found, field, text.as_bytes())
}

/// `HRANDFIELD key [count [WITHVALUES]]`
pub(super) fn hrandfield(call: &mut Call<'_, '_>) -> Outcome {
    members::random(call, ValueType::Hash, "withvalues")
}

/// `HSCAN key cursor [MATCH pattern] [COUNT count]`
pub(super) fn hscan(call: &mut Call<'_, '_>) -> Outcome {
    members::scan(call, ValueType::Hash)
}

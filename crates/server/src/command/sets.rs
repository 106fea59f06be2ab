//! Sets: SADD, SREM and their kin, and members at random. An element is a member behind its hash,
//! without a value.
//!
//! A command that changes a set checks all it was given before its first change (ITER-3), and
//! touches no other members than those it names.

use super::fail::SYNTAX;
use super::scan::members;
use super::{Call, Fail, Outcome};
use crate::keyspace::{Collection, ElementSpan, HASH, ValueType, hashed};
use crate::resp::number::parse_integer;
use crate::resp::reply::Replies;

/// The set at a key; `None` without one.
fn set_at(call: &mut Call<'_, '_>, key: &[u8]) -> Result<Option<Collection>, Fail> {
    Ok(call.keys.collection(key, ValueType::Set)?)
}

/// The set that a command reads.
fn looked_up(call: &mut Call<'_, '_>) -> Result<Option<Collection>, Fail> {
    let found = set_at(call, call.args.get(1))?;
    call.shared.metrics.look_up(found.is_some());
    Ok(found)
}

/// `SADD key member [member ...]`
pub(super) fn sadd(call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.get(1);
    let old = set_at(call, key)?;
    call.args.from(1).try_for_each(|name| call.keys.check_key(name))?;
    let mut set = match old {
        Some(set) => set,
        None => call.keys.new_collection(key, ValueType::Set)?,
    };
    let before = set.count;
    for member in call.args.from(2) {
        set.count += u64::from(!call.keys.put_element(&set, &hashed(member), &[])?);
    }
    if set.count > before {
        call.keys.store(key, &set)?;
    }
    call.out.integer((set.count - before) as i64);
    Ok(())
}

/// `SREM key member [member ...]`
pub(super) fn srem(call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.get(1);
    let mut removed = 0;
    if let Some(mut set) = set_at(call, key)? {
        call.args.from(2).try_for_each(|member| call.keys.check_key(member))?;
        for member in call.args.from(2) {
            removed += u64::from(call.keys.remove_element(&set, &hashed(member))?);
        }
        if removed > 0 {
            set.count = set.count.saturating_sub(removed);
            call.keys.store(key, &set)?;
        }
    }
    call.out.integer(removed as i64);
    Ok(())
}

/// Whether a set has a member.
fn has(call: &mut Call<'_, '_>, set: Option<&Collection>, member: &[u8]) -> Result<bool, Fail> {
    match set {
        Some(set) => Ok(call.keys.element_size(set, &hashed(member))?.is_some()),
        None => Ok(false),
    }
}

/// `SISMEMBER key member`
pub(super) fn sismember(call: &mut Call<'_, '_>) -> Outcome {
    let set = looked_up(call)?;
    let found = has(call, set.as_ref(), call.args.get(2))?;
    call.out.integer(i64::from(found));
    Ok(())
}

/// `SMISMEMBER key member [member ...]`
pub(super) fn smismember(call: &mut Call<'_, '_>) -> Outcome {
    let set = looked_up(call)?;
    call.out.array(call.args.len() - 2);
    for member in call.args.from(2) {
        let found = has(call, set.as_ref(), member)?;
        call.out.integer(i64::from(found));
    }
    call.room()
}

/// `SCARD key`
pub(super) fn scard(call: &mut Call<'_, '_>) -> Outcome {
    let set = looked_up(call)?;
    call.out.integer(set.map_or(0, |set| set.count as i64));
    Ok(())
}

/// All members of a set as a reply, which fails above the output limit.
fn members_of(call: &mut Call<'_, '_>, set: &Collection) -> Result<(usize, Replies), Fail> {
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    let (mut found, mut count) = (Replies::default(), 0);
    call.keys.walk(set, ElementSpan::ALL, false, &mut |element, _| {
        found.bulk(element.get(HASH..).unwrap_or_default());
        count += 1;
        found.pending() <= room
    })?;
    if found.pending() > room { Err(Fail::OutputLimit) } else { Ok((count, found)) }
}

/// `SMEMBERS key`
pub(super) fn smembers(call: &mut Call<'_, '_>) -> Outcome {
    let (count, found) = match looked_up(call)? {
        Some(set) => members_of(call, &set)?,
        None => Default::default(),
    };
    call.out.set(count);
    call.out.append(found);
    Ok(())
}

/// `SMOVE source destination member`
pub(super) fn smove(call: &mut Call<'_, '_>) -> Outcome {
    let (source, target, member) = (call.args.get(1), call.args.get(2), call.args.get(3));
    // A source that is absent is an answer, whatever the destination is.
    if !call.keys.contains(source)? {
        call.out.integer(0);
        return Ok(());
    }
    let (from, to) = (set_at(call, source)?, set_at(call, target)?);
    let found = has(call, from.as_ref(), member)?;
    if let Some(mut from) = from.filter(|_| found && source != target) {
        [target, member].into_iter().try_for_each(|name| call.keys.check_key(name))?;
        let mut to = match to {
            Some(to) => to,
            None => call.keys.new_collection(target, ValueType::Set)?,
        };
        call.keys.remove_element(&from, &hashed(member))?;
        from.count = from.count.saturating_sub(1);
        call.keys.store(source, &from)?;
        if !call.keys.put_element(&to, &hashed(member), &[])? {
            to.count += 1;
            call.keys.store(target, &to)?;
        }
    }
    call.out.integer(i64::from(found));
    Ok(())
}

/// Removes members that were chosen, which the set has.
fn remove(call: &mut Call<'_, '_>, mut set: Collection, members: &[Vec<u8>]) -> Outcome {
    for member in members {
        set.count = set.count.saturating_sub(u64::from(call.keys.remove_element(&set, &hashed(member))?));
    }
    let key = call.args.get(1);
    Ok(call.keys.store(key, &set)?)
}

/// `SPOP key [count]`
pub(super) fn spop(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() == 2 {
        let set = looked_up(call)?;
        let member = set.map(|set| call.keys.random_element(&set)).transpose()?.flatten();
        let (Some(set), Some(member)) = (set, member) else {
            call.out.null();
            return Ok(());
        };
        call.out.bulk(&member);
        call.room()?; // before anything is changed
        return remove(call, set, &[member]);
    }
    if call.args.len() > 3 {
        return Err(SYNTAX);
    }
    let count = match parse_integer(call.args.get(2)) {
        Some(count @ 0..) => count,
        _ => return Err(Fail::text("ERR value is out of range, must be positive")),
    };
    let (mut chosen, mut size) = (Vec::new(), 0);
    let found = looked_up(call)?.filter(|_| count > 0);
    if let Some(set) = &found {
        members::sample(call, set, count, false, &mut |member, _| {
            size += member.len() + 32;
            chosen.push(member.to_vec());
            size
        })?;
    }
    call.out.set(chosen.len());
    chosen.iter().for_each(|member| call.out.bulk(member));
    call.room()?; // before anything is changed
    match found {
        Some(set) => remove(call, set, &chosen),
        None => Ok(()),
    }
}

/// `SRANDMEMBER key [count]`
pub(super) fn srandmember(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() == 2 {
        let set = looked_up(call)?;
        match set.map(|set| call.keys.random_element(&set)).transpose()?.flatten() {
            Some(member) => call.out.bulk(&member),
            None => call.out.null(),
        }
        return call.room();
    }
    if call.args.len() > 3 {
        return Err(SYNTAX);
    }
    let count = members::wanted(call.args.get(2))?;
    let (mut found, mut chosen) = (Replies::default(), 0);
    if let Some(set) = looked_up(call)?.filter(|_| count != 0) {
        members::sample(call, &set, count, false, &mut |member, _| {
            chosen += 1;
            found.bulk(member);
            found.pending()
        })?;
    }
    call.out.array(chosen);
    call.out.append(found);
    Ok(())
}

/// `SSCAN key cursor [MATCH pattern] [COUNT count]`
pub(super) fn sscan(call: &mut Call<'_, '_>) -> Outcome {
    members::scan(call, ValueType::Set)
}

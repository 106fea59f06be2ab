//! Intersections, unions and differences of sets: SINTER, SUNION, SDIFF, their STORE forms, and
//! SINTERCARD.
//!
//! A command walks one set after the other, some members at a time, and looks each member up in the
//! other sets; so no set is ever held whole. A STORE form makes the result under an id of its own
//! before it removes what the destination was, which may be one of the sets.

use super::fail::SYNTAX;
use super::lists::at_least;
use super::sorted_operations::{Input, Operation, TOGETHER};
use super::{Call, Fail, Outcome, is_word};
use crate::keyspace::{Collection, HASH, ValueType};
use crate::resp::reply::Replies;

/// The sets at keys; absent ones are `None`. Every key is looked at, whatever the others are.
fn sets_at<'a>(call: &mut Call<'a, '_>, keys: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Option<Collection>>, Fail> {
    let mut sets = Vec::new();
    for key in keys {
        let found = call.keys.collection(key, ValueType::Set)?;
        call.shared.metrics.look_up(found.is_some());
        sets.push(found);
    }
    Ok(sets)
}

/// Takes an element of a result; whether there may be more.
type Taker<'t> = dyn FnMut(&mut Call<'_, '_>, &[u8]) -> Result<bool, Fail> + 't;

/// Gives `each` the elements of the result, each once, until it says `false`.
fn combine(
    call: &mut Call<'_, '_>,
    operation: Operation,
    mut sets: Vec<Option<Collection>>,
    each: &mut Taker<'_>,
) -> Outcome {
    if operation == Operation::Intersection {
        if sets.iter().any(Option::is_none) {
            return Ok(());
        }
        sets.sort_by_key(|set| set.map_or(0, |set| set.count)); // the smallest is walked
    }
    let walked = if operation == Operation::Union { sets.len() } else { 1 };
    for (place, set) in sets.iter().enumerate().take(walked) {
        let Some(set) = set else { continue };
        // In a union, a member belongs to the first set that has it.
        let others = if operation == Operation::Union { &sets[..place] } else { &sets[1..] };
        let mut last: Option<Vec<u8>> = None;
        loop {
            let part = Input::part(call, set, last.as_deref())?;
            for (element, _) in &part {
                let mut is_in = true;
                for other in others.iter().flatten() {
                    let found = call.keys.element_size(other, element)?.is_some();
                    is_in = found == (operation == Operation::Intersection);
                    if !is_in {
                        break;
                    }
                }
                if is_in && !each(call, element)? {
                    return Ok(());
                }
            }
            if part.len() < TOGETHER {
                break;
            }
            last = part.into_iter().next_back().map(|(element, _)| element);
        }
    }
    Ok(())
}

/// The result as a reply, which fails above the output limit.
fn reply(call: &mut Call<'_, '_>, operation: Operation) -> Outcome {
    let sets = sets_at(call, call.args.from(1))?;
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    let (mut found, mut count) = (Replies::default(), 0);
    combine(call, operation, sets, &mut |_, element| {
        found.bulk(element.get(HASH..).unwrap_or_default());
        count += 1;
        if found.pending() > room { Err(Fail::OutputLimit) } else { Ok(true) }
    })?;
    call.out.set(count);
    call.out.append(found);
    Ok(())
}

/// Stores the result at the first key.
fn store(call: &mut Call<'_, '_>, operation: Operation) -> Outcome {
    let target = call.args.get(1);
    let sets = sets_at(call, call.args.from(2))?;
    call.keys.check_key(target)?;
    let mut made: Option<Collection> = None;
    combine(call, operation, sets, &mut |call, element| {
        let set = match &mut made {
            Some(set) => set,
            None => made.insert(call.keys.collection_without_key(ValueType::Set)?),
        };
        call.keys.put_element(set, element, &[])?;
        set.count += 1;
        Ok(true)
    })?;
    call.keys.store_in_place(target, made.as_ref())?;
    call.out.integer(made.map_or(0, |set| set.count as i64));
    Ok(())
}

/// `SINTER key [key ...]`
pub(super) fn sinter(call: &mut Call<'_, '_>) -> Outcome {
    reply(call, Operation::Intersection)
}

/// `SUNION key [key ...]`
pub(super) fn sunion(call: &mut Call<'_, '_>) -> Outcome {
    reply(call, Operation::Union)
}

/// `SDIFF key [key ...]`
pub(super) fn sdiff(call: &mut Call<'_, '_>) -> Outcome {
    reply(call, Operation::Difference)
}

/// `SINTERSTORE destination key [key ...]`
pub(super) fn sinterstore(call: &mut Call<'_, '_>) -> Outcome {
    store(call, Operation::Intersection)
}

/// `SUNIONSTORE destination key [key ...]`
pub(super) fn sunionstore(call: &mut Call<'_, '_>) -> Outcome {
    store(call, Operation::Union)
}

/// `SDIFFSTORE destination key [key ...]`
pub(super) fn sdiffstore(call: &mut Call<'_, '_>) -> Outcome {
    store(call, Operation::Difference)
}

/// `SINTERCARD numkeys key [key ...] [LIMIT limit]`
pub(super) fn sintercard(call: &mut Call<'_, '_>) -> Outcome {
    let keys = at_least(call.args.get(1), 1, "ERR numkeys should be greater than 0")? as usize;
    if keys > call.args.len() - 2 {
        return Err(Fail::text("ERR Number of keys can't be greater than number of args"));
    }
    let mut limit = 0;
    let mut options = call.args.from(2 + keys);
    while let Some(option) = options.next() {
        match options.next() {
            Some(number) if is_word(option, "limit") => {
                limit = at_least(number, 0, "ERR LIMIT can't be negative")?;
            }
            _ => return Err(SYNTAX),
        }
    }
    let sets = sets_at(call, call.args.from(2).take(keys))?;
    let mut count = 0;
    combine(call, Operation::Intersection, sets, &mut |_, _| {
        count += 1;
        Ok(count != limit)
    })?;
    call.out.integer(count as i64);
    Ok(())
}

//! Keys whatever their values: DEL, EXISTS, RENAME, COPY, MOVE, RANDOMKEY, SWAPDB, DBSIZE,
//! FLUSHALL.

use super::fail::{DATABASE, NO_KEY, NOT_INT, NOT_INTEGER, SAME, SYNTAX};
use super::{Call, Fail, Outcome, is_word};
use crate::keyspace::{DATABASES, Touch, ValueType};
use crate::resp::number::parse_integer;

/// `DEL key [key ...]`
pub(super) fn del(call: &mut Call<'_, '_>) -> Outcome {
    let mut count = 0;
    call.args.from(1).try_for_each(|key| call.keys.check_key(key))?;
    for key in call.args.from(1) {
        count += i64::from(call.keys.delete(key)?);
    }
    call.out.integer(count);
    Ok(())
}

/// `EXISTS key [key ...]`: a key given twice counts twice.
pub(super) fn exists(call: &mut Call<'_, '_>) -> Outcome {
    let mut count = 0;
    for key in call.args.from(1) {
        let found = call.keys.contains(key)?;
        call.shared.metrics.look_up(found);
        count += i64::from(found);
    }
    call.out.integer(count);
    Ok(())
}

/// `TYPE key`
pub(super) fn type_of(call: &mut Call<'_, '_>) -> Outcome {
    let kind = call.keys.kind(call.args.get(1))?;
    call.out.simple(kind.map_or("none", ValueType::name));
    Ok(())
}

fn rename_to(call: &mut Call<'_, '_>, replace: bool) -> Result<bool, Fail> {
    let (source, target) = (call.args.get(1), call.args.get(2));
    if !call.keys.contains(source)? {
        return Err(NO_KEY);
    }
    if source == target {
        return Ok(replace);
    }
    if !replace && call.keys.contains(target)? {
        return Ok(false);
    }
    call.keys.check_key(target)?;
    call.keys.rename(source, target)?;
    Ok(true)
}

/// `RENAME key newkey`
pub(super) fn rename(call: &mut Call<'_, '_>) -> Outcome {
    rename_to(call, true)?;
    call.out.ok();
    Ok(())
}

/// `RENAMENX key newkey`
pub(super) fn renamenx(call: &mut Call<'_, '_>) -> Outcome {
    let moved = rename_to(call, false)?;
    call.out.integer(i64::from(moved));
    Ok(())
}

/// The number of a database among the arguments.
pub(super) fn database(arg: &[u8]) -> Result<u8, Fail> {
    let index = parse_integer(arg).ok_or(NOT_INTEGER)?;
    let index = i32::try_from(index).map_err(|_| NOT_INT)?;
    u8::try_from(index).ok().filter(|index| usize::from(*index) < DATABASES).ok_or(DATABASE)
}

/// `COPY source destination [DB database] [REPLACE]`
pub(super) fn copy(call: &mut Call<'_, '_>) -> Outcome {
    let (source, target) = (call.args.get(1), call.args.get(2));
    let (here, mut there, mut replace) = (call.keys.database(), call.keys.database(), false);
    let mut rest = call.args.from(3);
    while let Some(option) = rest.next() {
        match option {
            _ if is_word(option, "replace") => replace = true,
            _ if is_word(option, "db") => there = database(rest.next().ok_or(SYNTAX)?)?,
            _ => return Err(SYNTAX),
        }
    }
    if here == there && source == target {
        return Err(SAME);
    }
    call.keys.check_key(target)?;
    let copied = call.keys.contains(source)? && (replace || !contains_in(call, there, target)?);
    if copied {
        call.keys.copy(source, there, target)?;
    }
    call.out.integer(i64::from(copied));
    Ok(())
}

fn contains_in(call: &mut Call<'_, '_>, space: u8, key: &[u8]) -> Result<bool, Fail> {
    let here = call.keys.database();
    call.keys.select(space);
    let found = call.keys.contains(key);
    call.keys.select(here);
    Ok(found?)
}

/// `MOVE key database`
pub(super) fn move_to(call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.get(1);
    let there = database(call.args.get(2))?;
    if there == call.keys.database() {
        return Err(SAME);
    }
    let moved = call.keys.contains(key)? && !contains_in(call, there, key)?;
    if moved {
        call.keys.copy(key, there, key)?;
        call.keys.delete(key)?;
    }
    call.out.integer(i64::from(moved));
    Ok(())
}

/// `RANDOMKEY`
pub(super) fn randomkey(call: &mut Call<'_, '_>) -> Outcome {
    match call.keys.random_key()? {
        Some(key) => call.out.bulk(&key),
        None => call.out.null(),
    }
    call.room()
}

/// `SWAPDB first second`: what a client watches, or waits for, changes if it is in either database.
pub(super) fn swapdb(call: &mut Call<'_, '_>) -> Outcome {
    let mut databases = [0; 2];
    for (place, text) in ["ERR invalid first DB index", "ERR invalid second DB index"].into_iter().enumerate() {
        let index = parse_integer(call.args.get(place + 1)).and_then(|index| i32::try_from(index).ok());
        databases[place] = index.ok_or(Fail::text(text))?;
    }
    let known = databases.map(|index| u8::try_from(index).ok().filter(|index| usize::from(*index) < DATABASES));
    let [Some(one), Some(other)] = known else { return Err(DATABASE) };
    if one != other {
        let here = call.keys.database();
        let mut changed = Vec::new();
        for database in [one, other] {
            // These try also where there is nothing, or what is there has expired.
            let tried = call.shared.waiters.tried_absent(database);
            changed.extend(tried);
            let watched = call.shared.watches.keys_of(database);
            for key in watched.into_iter().chain(call.shared.waiters.keys_of(database)) {
                if contains_in(call, one, &key)? || contains_in(call, other, &key)? {
                    changed.push((database, key));
                }
            }
        }
        call.keys.swap(one, other)?;
        changed.iter().for_each(|(database, key)| call.keys.touch_in(*database, key));
        call.keys.select(here);
        // Copies are kept by key, whatever its database.
        call.shared.note_changes(&[Touch::Cleared(one)], Some(&*call.client));
    }
    call.out.ok();
    Ok(())
}

/// `DBSIZE`
pub(super) fn dbsize(call: &mut Call<'_, '_>) -> Outcome {
    let count = call.keys.len()?;
    call.out.integer(count as i64);
    Ok(())
}

fn flush_mode(call: &Call<'_, '_>) -> Outcome {
    let options: Vec<&[u8]> = call.args.from(1).collect();
    match options[..] {
        [] => Ok(()),
        [mode] if is_word(mode, "sync") || is_word(mode, "async") => Ok(()),
        _ => Err(SYNTAX),
    }
}

/// `FLUSHALL [ASYNC | SYNC]`: both are one batch of the store.
pub(super) fn flush_all(call: &mut Call<'_, '_>) -> Outcome {
    flush_mode(call)?;
    call.keys.clear_all()?;
    call.out.ok();
    Ok(())
}

/// `FLUSHDB [ASYNC | SYNC]`: both are one batch of the store.
pub(super) fn flush_database(call: &mut Call<'_, '_>) -> Outcome {
    flush_mode(call)?;
    call.keys.clear()?;
    call.out.ok();
    Ok(())
}

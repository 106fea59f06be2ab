//! Keys whatever their values: DEL, EXISTS, RENAME, DBSIZE, FLUSHALL.

use super::fail::{NO_KEY, SYNTAX};
use super::{Call, Outcome, is_word};

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
    let found = call.keys.contains(call.args.get(1))?;
    call.out.simple(if found { "string" } else { "none" });
    Ok(())
}

fn rename_to(call: &mut Call<'_, '_>, replace: bool) -> Result<bool, super::Fail> {
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
    let value = call.keys.get(source)?.ok_or(NO_KEY)?;
    call.keys.put(target, &value)?;
    call.keys.delete(source)?;
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

/// `TTL key`, `PTTL key`: a key is there for good, or not there.
pub(super) fn ttl(call: &mut Call<'_, '_>) -> Outcome {
    let found = call.keys.contains(call.args.get(1))?;
    call.out.integer(if found { -1 } else { -2 });
    Ok(())
}

/// `PERSIST key`: no key expires, so nothing changes.
pub(super) fn persist(call: &mut Call<'_, '_>) -> Outcome {
    call.out.integer(0);
    Ok(())
}

/// `DBSIZE`
pub(super) fn dbsize(call: &mut Call<'_, '_>) -> Outcome {
    let count = call.keys.len()?;
    call.out.integer(count as i64);
    Ok(())
}

/// `FLUSHALL [ASYNC | SYNC]`: both are one batch of the store.
pub(super) fn flush(call: &mut Call<'_, '_>) -> Outcome {
    let options: Vec<&[u8]> = call.args.from(1).collect();
    match options[..] {
        [] => {}
        [mode] if is_word(mode, "sync") || is_word(mode, "async") => {}
        _ => return Err(SYNTAX),
    }
    call.keys.clear()?;
    call.out.ok();
    Ok(())
}

//! Numbers kept as text: INCR and its kin.

use super::fail::{DECREMENT, NOT_FINITE, NOT_FLOAT, NOT_INTEGER, OVERFLOW};
use super::{Call, Fail, Outcome};
use crate::resp::extended::{Extended, TEXT_SIZE_MAX};
use crate::resp::number::{parse_integer, write_integer};

fn add(call: &mut Call<'_, '_>, amount: i64) -> Outcome {
    let key = call.args.get(1);
    // No number has more than 20 bytes, so no more is read.
    let old = match call.keys.part(key, |size| 0..size.min(21))? {
        Some(text) => parse_integer(&text).ok_or(NOT_INTEGER)?,
        None => 0,
    };
    let new = old.checked_add(amount).ok_or(OVERFLOW)?;
    let mut text = Vec::with_capacity(20);
    write_integer(&mut text, new);
    call.keys.replace(key, &text)?;
    call.out.integer(new);
    Ok(())
}

fn amount(call: &Call<'_, '_>) -> Result<i64, Fail> {
    parse_integer(call.args.get(2)).ok_or(NOT_INTEGER)
}

/// `INCR key`
pub(super) fn incr(call: &mut Call<'_, '_>) -> Outcome {
    add(call, 1)
}

/// `DECR key`
pub(super) fn decr(call: &mut Call<'_, '_>) -> Outcome {
    add(call, -1)
}

/// `INCRBY key amount`
pub(super) fn incrby(call: &mut Call<'_, '_>) -> Outcome {
    let amount = amount(call)?;
    add(call, amount)
}

/// `DECRBY key amount`
pub(super) fn decrby(call: &mut Call<'_, '_>) -> Outcome {
    let amount = amount(call)?.checked_neg().ok_or(DECREMENT)?;
    add(call, amount)
}

/// `INCRBYFLOAT key amount`
pub(super) fn incrbyfloat(call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.get(1);
    // No number has a longer text, so no more is read.
    let old = match call.keys.part(key, |size| 0..size.min(TEXT_SIZE_MAX as u64 + 1))? {
        Some(text) => Extended::parse(&text).ok_or(NOT_FLOAT)?,
        None => Extended::ZERO,
    };
    let amount = Extended::parse(call.args.get(2)).ok_or(NOT_FLOAT)?;
    let text = old.plus(amount).ok_or(NOT_FINITE)?.text();
    call.out.bulk(text.as_bytes());
    call.room()?; // before anything is changed
    Ok(call.keys.replace(key, text.as_bytes())?)
}

//! PFADD, PFCOUNT, PFMERGE: estimated counts in strings (`hyperloglog.rs`).
//!
//! PFCOUNT of one key keeps the estimate in the value, as in Redis: it is a command that reads, by
//! its flags, and may write.

use super::{Call, Fail, Outcome};
use crate::hyperloglog::{Estimate, Odd, REGISTERS, count};

impl From<Odd> for Fail {
    fn from(odd: Odd) -> Fail {
        Fail::text(match odd {
            Odd::Foreign => "WRONGTYPE Key is not a valid HyperLogLog string value.",
            Odd::Corrupt => "INVALIDOBJ Corrupted HLL object detected",
        })
    }
}

/// The estimate at a key; `None` without such a key.
fn estimate(call: &mut Call<'_, '_>, key: &[u8]) -> Result<Option<Estimate>, Fail> {
    // A string of this size has more registers than there are; all of it need not be read.
    const LARGE: usize = 64 << 10;
    let Some(size) = call.keys.size(key)? else { return Ok(None) };
    if size > LARGE {
        let head = call.keys.part(key, |_| 0..LARGE as u64)?.unwrap_or_default();
        return Err(Estimate::of(head).map_or_else(Fail::from, |_| Fail::from(Odd::Corrupt)));
    }
    let found = call.keys.get(key)?;
    Ok(found.map(Estimate::of).transpose()?)
}

/// `PFADD key [element ...]`
pub(super) fn pfadd(call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.get(1);
    let old = estimate(call, key)?;
    let mut changed = old.is_none();
    let mut new = old.unwrap_or_default();
    for element in call.args.from(2) {
        changed |= new.add(element)?;
    }
    if changed {
        new.forget();
        call.keys.replace(key, new.bytes())?;
    }
    call.out.integer(i64::from(changed));
    Ok(())
}

/// The highest values of the registers of several keys.
fn merged(call: &mut Call<'_, '_>, first: usize) -> Result<(Vec<u8>, bool), Fail> {
    let (mut all, mut dense) = (vec![0; REGISTERS], false);
    for key in call.args.from(first) {
        let Some(one) = estimate(call, key)? else { continue };
        dense |= one.is_dense();
        for (highest, value) in all.iter_mut().zip(one.registers()?) {
            *highest = value.max(*highest);
        }
    }
    Ok((all, dense))
}

/// `PFCOUNT key [key ...]`
pub(super) fn pfcount(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 2 {
        let (registers, _) = merged(call, 1)?;
        call.out.integer(count(&registers) as i64);
        return Ok(());
    }
    let key = call.args.get(1);
    let found = estimate(call, key)?;
    call.shared.metrics.look_up(found.is_some());
    let number = match found {
        None => 0,
        Some(mut estimate) => match estimate.kept() {
            Some(kept) => kept,
            None => {
                let number = estimate.count()?;
                estimate.keep(number);
                // A replica's keys are those of its primary, to the byte.
                if !call.shared.replication.is_replica() {
                    call.keys.replace(key, estimate.bytes())?;
                }
                number
            }
        },
    };
    call.out.integer(number as i64);
    Ok(())
}

/// `PFMERGE destination [source ...]`
pub(super) fn pfmerge(call: &mut Call<'_, '_>) -> Outcome {
    let (registers, dense) = merged(call, 1)?;
    let key = call.args.get(1);
    let mut target = estimate(call, key)?.unwrap_or_default();
    if dense {
        target.make_dense()?;
    }
    for (index, value) in registers.into_iter().enumerate().filter(|(_, value)| *value > 0) {
        target.raise(index, value)?;
    }
    target.forget();
    call.keys.replace(key, target.bytes())?;
    call.out.ok();
    Ok(())
}

//! Strings as arrays of bits, the highest bit of the first byte first: SETBIT, GETBIT, BITCOUNT,
//! BITPOS and BITOP. `bitfields.rs` has numbers of some bits.

use super::fail::{NOT_INTEGER, SYNTAX};
use super::strings::{fits, part};
use super::{Call, Fail, Outcome, is_word};
use crate::resp::number::parse_integer;
use std::ops::Range;

/// Bytes of a value read at a time.
const TOGETHER: u64 = 4 << 20;
/// An offset that is no number, or beyond the largest value.
pub(super) const BIT_OFFSET: Fail = Fail::text("ERR bit offset is not an integer or out of range");

/// The place of a bit.
fn offset(call: &Call<'_, '_>, arg: &[u8]) -> Result<u64, Fail> {
    parse_integer(arg).and_then(|offset| checked_offset(call, offset)).ok_or(BIT_OFFSET)
}

/// An offset that a value may have.
pub(super) fn checked_offset(call: &Call<'_, '_>, offset: i64) -> Option<u64> {
    u64::try_from(offset).ok().filter(|offset| offset / 8 < call.shared.options.bulk_size_max as u64)
}

/// `SETBIT key offset value`
pub(super) fn setbit(call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.get(1);
    let offset = offset(call, call.args.get(2))?;
    let bit = match parse_integer(call.args.get(3)) {
        Some(bit @ 0..=1) => bit as u8,
        _ => return Err(Fail::text("ERR bit is not an integer or out of range")),
    };
    let (place, shift) = ((offset / 8) as usize, 7 - offset % 8);
    let mut whole = call.keys.get(key)?.unwrap_or_default();
    fits(call, place.checked_add(1))?;
    let grows = whole.len() <= place;
    if grows {
        whole.resize(place + 1, 0);
    }
    let old = whole[place] >> shift & 1;
    // A bit that stays changes no key, as in Redis.
    if grows || old != bit {
        whole[place] = whole[place] & !(1 << shift) | bit << shift;
        call.keys.replace(key, &whole)?;
    }
    call.out.integer(i64::from(old));
    Ok(())
}

/// `GETBIT key offset`
pub(super) fn getbit(call: &mut Call<'_, '_>) -> Outcome {
    let offset = offset(call, call.args.get(2))?;
    let byte = call.keys.part(call.args.get(1), |size| (offset / 8).min(size)..(offset / 8 + 1).min(size))?;
    call.shared.metrics.look_up(byte.is_some());
    let byte = byte.and_then(|part| part.first().copied()).unwrap_or(0);
    call.out.integer(i64::from(byte >> (7 - offset % 8) & 1));
    Ok(())
}

/// The bits between two places of a value of `size` bytes, negatives counted from its end, in bytes
/// or in bits; an empty range if there are none.
fn span(first: i64, last: i64, in_bits: bool, size: u64) -> Range<u64> {
    let (unit, total) = if in_bits { (1, size * 8) } else { (8, size) };
    let found = part(first, last, total);
    found.start * unit..found.end * unit
}

/// Whether places are in bits: the argument `place`, if it is there.
fn in_bits(call: &Call<'_, '_>, place: usize) -> Result<bool, Fail> {
    match call.args.from(place).next() {
        None => Ok(false),
        Some(word) if is_word(word, "byte") => Ok(false),
        Some(word) if is_word(word, "bit") => Ok(true),
        Some(_) => Err(SYNTAX),
    }
}

/// Gives `each` the bytes of a span of bits, part by part, with the number of the first bit, until
/// it says `false`. Bits of these bytes outside of the span are `fill`.
fn parts(call: &mut Call<'_, '_>, span: &Range<u64>, fill: bool, each: &mut dyn FnMut(u64, &[u8]) -> bool) -> Outcome {
    let end = span.end.div_ceil(8);
    let mut at = span.start / 8;
    while at < end {
        let next = (at + TOGETHER).min(end);
        let mut bytes = call.keys.part(call.args.get(1), |size| at.min(size)..next.min(size))?.unwrap_or_default();
        let mut mask = |place: u64, outside: u8| {
            if let Some(byte) = place.checked_sub(at).and_then(|index| bytes.get_mut(index as usize)) {
                *byte = if fill { *byte | outside } else { *byte & !outside };
            }
        };
        mask(span.start / 8, !(0xff >> (span.start % 8)));
        if !span.end.is_multiple_of(8) {
            mask(end - 1, 0xff >> (span.end % 8));
        }
        if !each(at * 8, &bytes) {
            break;
        }
        at = next;
    }
    Ok(())
}

/// `BITCOUNT key [start end [BYTE | BIT]]`
pub(super) fn bitcount(call: &mut Call<'_, '_>) -> Outcome {
    let size = call.keys.size(call.args.get(1))?;
    call.shared.metrics.look_up(size.is_some());
    let mut count = 0;
    if let Some(size) = size {
        let bits = match call.args.len() {
            2 => 0..size as u64 * 8,
            4 | 5 => {
                let first = parse_integer(call.args.get(2)).ok_or(NOT_INTEGER)?;
                let last = parse_integer(call.args.get(3)).ok_or(NOT_INTEGER)?;
                let empty = first < 0 && last < 0 && first > last; // Redis looks no further
                span(first, last, !empty && in_bits(call, 4)?, size as u64)
            }
            _ => return Err(SYNTAX),
        };
        parts(call, &bits, false, &mut |_, bytes| {
            count += bytes.iter().map(|byte| i64::from(byte.count_ones())).sum::<i64>();
            true
        })?;
    }
    call.out.integer(count);
    Ok(())
}

/// `BITPOS key bit [start [end [BYTE | BIT]]]`: without an end, the value goes on with zeros.
pub(super) fn bitpos(call: &mut Call<'_, '_>) -> Outcome {
    let bit = match parse_integer(call.args.get(2)).ok_or(NOT_INTEGER)? {
        bit @ 0..=1 => bit == 1,
        _ => return Err(Fail::text("ERR The bit argument must be 1 or 0.")),
    };
    let size = call.keys.size(call.args.get(1))?;
    call.shared.metrics.look_up(size.is_some());
    let Some(size) = size.map(|size| size as u64) else {
        call.out.integer(if bit { -1 } else { 0 });
        return Ok(());
    };
    let place = |index| match call.args.from(index).next() {
        Some(place) => parse_integer(place).map(Some).ok_or(NOT_INTEGER),
        None => Ok(None),
    };
    if call.args.len() > 6 {
        return Err(SYNTAX);
    }
    let first = place(3)?.unwrap_or(0);
    let in_bits = in_bits(call, 5)?;
    let last = place(4)?;
    // Places before the start are the start, also where BITCOUNT sees an empty range.
    let total = if in_bits { size * 8 } else { size } as i64;
    let from_start = |place: i64| if place < 0 { place.saturating_add(total).max(0) } else { place };
    let bits = span(from_start(first), from_start(last.unwrap_or(-1)), in_bits, size);
    let mut found = -1;
    parts(call, &bits, !bit, &mut |base, bytes| {
        let other = if bit { 0x00 } else { 0xff };
        if let Some(index) = bytes.iter().position(|byte| *byte != other) {
            let bits = if bit { bytes[index] } else { !bytes[index] };
            found = (base + index as u64 * 8) as i64 + i64::from(bits.leading_zeros());
        }
        found < 0
    })?;
    if found < 0 && !bit && last.is_none() && !bits.is_empty() {
        found = bits.end as i64;
    }
    call.out.integer(found);
    Ok(())
}

/// `BITOP AND | OR | XOR | NOT destination key [key ...]`: shorter values go on with zeros.
pub(super) fn bitop(call: &mut Call<'_, '_>) -> Outcome {
    let (name, target) = (call.args.get(1), call.args.get(2));
    let operation: fn(u8, u8) -> u8 = match name {
        _ if is_word(name, "and") => |left, right| left & right,
        _ if is_word(name, "or") => |left, right| left | right,
        _ if is_word(name, "xor") => |left, right| left ^ right,
        _ if is_word(name, "not") => |left, _| !left,
        _ => return Err(SYNTAX),
    };
    if is_word(name, "not") && call.args.len() != 4 {
        return Err(Fail::text("ERR BITOP NOT must be called with a single source key."));
    }
    let mut size = 0;
    for key in call.args.from(3) {
        size = size.max(call.keys.size(key)?.unwrap_or(0));
    }
    call.keys.check_key(target)?;
    let mut result = call.keys.get(call.args.get(3))?.unwrap_or_default();
    result.resize(size, 0);
    if is_word(name, "not") {
        result.iter_mut().for_each(|byte| *byte = operation(*byte, 0));
    }
    for key in call.args.from(4) {
        let other = call.keys.get(key)?.unwrap_or_default();
        let (head, tail) = result.split_at_mut(other.len());
        head.iter_mut().zip(&other).for_each(|(byte, other)| *byte = operation(*byte, *other));
        tail.iter_mut().for_each(|byte| *byte = operation(*byte, 0));
    }
    if result.is_empty() {
        call.keys.delete(target)?;
    } else {
        call.keys.put(target, &result)?;
    }
    call.out.integer(size as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn places_are_counted_from_either_end_in_bytes_and_bits() {
        for (first, last, in_bits, expect) in [
            (0, -1, false, 0..16),
            (1, 1, false, 8..16),
            (-1, -1, false, 8..16),
            (-1, -2, false, 0..0),
            (-100, 100, false, 0..16),
            (2, 5, false, 0..0),
            (3, 4, true, 3..5),
            (-3, -1, true, 13..16),
            (i64::MIN, i64::MAX, true, 0..16),
            (i64::MAX, i64::MIN, true, 0..0),
        ] {
            assert_eq!(span(first, last, in_bits, 2), expect, "{first} {last} {in_bits}");
        }
        assert_eq!(span(0, -1, false, 0), 0..0);
    }
}

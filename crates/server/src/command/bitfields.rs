//! `BITFIELD key [GET type offset | SET type offset value | INCRBY type offset amount | OVERFLOW
//! WRAP | SAT | FAIL ...]`: numbers of 1 to 64 bits at any bit of a string.
//!
//! A type is `i` or `u` and a number of bits; an offset is a bit, or behind `#` a multiple of the
//! type's size. All parts are read before the first of them is done. Parts that only read fetch the
//! bytes they need; one that writes has the whole value written anew, once.

use super::bitmaps::{BIT_OFFSET, checked_offset};
use super::fail::{NOT_INTEGER, SYNTAX};
use super::strings::fits;
use super::{Call, Fail, Outcome, is_word};
use crate::resp::number::parse_integer;
use crate::resp::reply::Replies;

/// The treatment of a number that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    /// Its low bits are kept.
    Wrap,
    /// The nearest number that fits.
    Saturate,
    /// Nothing is changed, and the reply is null.
    Fail,
}

/// The action of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

/// A number's place and form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    signed: bool,
    bits: u64,
    offset: u64,
}

struct Part {
    action: Action,
    field: Field,
    overflow: Overflow,
}

impl Field {
    /// The number in bytes that begin with byte `base` of the value; bits beyond them are 0.
    fn read(self, bytes: &[u8], base: u64) -> i128 {
        let mut value: u128 = 0;
        for bit in self.offset..self.offset + self.bits {
            let byte = (bit / 8).checked_sub(base).and_then(|index| bytes.get(index as usize)).unwrap_or(&0);
            value = value << 1 | u128::from(byte >> (7 - bit % 8) & 1);
        }
        self.wrapped(value as i128)
    }

    /// Stores the low bits of a number; the value is long enough.
    fn write(self, bytes: &mut [u8], number: i128) {
        for bit in self.offset..self.offset + self.bits {
            let (place, shift) = ((bit / 8) as usize, 7 - bit % 8);
            let new = (number >> (self.offset + self.bits - 1 - bit)) as u8 & 1;
            bytes[place] = bytes[place] & !(1 << shift) | new << shift;
        }
    }

    /// The number that the low bits make.
    fn wrapped(self, number: i128) -> i128 {
        let low = number & ((1 << self.bits) - 1);
        if self.signed && low >> (self.bits - 1) & 1 == 1 { low - (1 << self.bits) } else { low }
    }

    /// A number as the field has it; `None`: it does not fit, and shall not.
    fn fitted(self, number: i128, overflow: Overflow) -> Option<i128> {
        let (min, max) = match self.signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        };
        match overflow {
            _ if (min..=max).contains(&number) => Some(number),
            Overflow::Wrap => Some(self.wrapped(number)),
            Overflow::Saturate => Some(number.clamp(min, max)),
            Overflow::Fail => None,
        }
    }

    /// The bytes of the value that hold it.
    fn bytes(self) -> std::ops::Range<u64> {
        self.offset / 8..(self.offset + self.bits).div_ceil(8)
    }
}

/// The type and the offset.
fn field(call: &Call<'_, '_>, kind: &[u8], offset: &[u8]) -> Result<Field, Fail> {
    const KIND: Fail =
        Fail::text("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.");
    let (signed, digits) = match kind {
        [b'i', digits @ ..] => (true, digits),
        [b'u', digits @ ..] => (false, digits),
        _ => return Err(KIND),
    };
    let max = if signed { 64 } else { 63 };
    let bits = parse_integer(digits).filter(|bits| (1..=max).contains(bits)).ok_or(KIND)?;
    let parsed = match offset {
        [b'#', count @ ..] => parse_integer(count).and_then(|count| count.checked_mul(bits)),
        offset => parse_integer(offset),
    };
    let offset = parsed.and_then(|offset| checked_offset(call, offset)).ok_or(BIT_OFFSET)?;
    Ok(Field { signed, bits: bits as u64, offset })
}

/// The parts of a request.
fn parsed(call: &Call<'_, '_>) -> Result<Vec<Part>, Fail> {
    let (mut parts, mut overflow) = (Vec::new(), Overflow::Wrap);
    let mut rest = call.args.from(2);
    while let Some(word) = rest.next() {
        if is_word(word, "overflow") {
            overflow = match rest.next().ok_or(SYNTAX)? {
                name if is_word(name, "wrap") => Overflow::Wrap,
                name if is_word(name, "sat") => Overflow::Saturate,
                name if is_word(name, "fail") => Overflow::Fail,
                _ => return Err(Fail::text("ERR Invalid OVERFLOW type specified")),
            };
            continue;
        }
        let numbers = match word {
            _ if is_word(word, "get") => 0,
            _ if is_word(word, "set") || is_word(word, "incrby") => 1,
            _ => return Err(SYNTAX),
        };
        let (kind, offset) = (rest.next().ok_or(SYNTAX)?, rest.next().ok_or(SYNTAX)?);
        let number = if numbers == 1 { Some(rest.next().ok_or(SYNTAX)?) } else { None };
        let field = field(call, kind, offset)?;
        let action = match number {
            None => Action::Get,
            Some(number) => {
                let number = parse_integer(number).ok_or(NOT_INTEGER)?;
                if is_word(word, "set") { Action::Set(number) } else { Action::Add(number) }
            }
        };
        parts.push(Part { action, field, overflow });
    }
    Ok(parts)
}

/// Does a part on a value, and replies. Whether it stores another number.
fn perform(part: &Part, value: &mut [u8], out: &mut Replies) -> bool {
    let old = part.field.read(value, 0);
    let (wanted, shows_old) = match part.action {
        Action::Get => (None, true),
        // An unsigned number takes a negative one as 64 bits without a sign.
        Action::Set(number) if part.field.signed => (Some(i128::from(number)), true),
        Action::Set(number) => (Some(i128::from(number as u64)), true),
        Action::Add(amount) => (Some(old + i128::from(amount)), false),
    };
    let (mut shown, mut changed) = (old, false);
    if let Some(wanted) = wanted {
        let Some(new) = part.field.fitted(wanted, part.overflow) else {
            out.null();
            return false;
        };
        part.field.write(value, new);
        shown = if shows_old { old } else { new };
        changed = new != old;
    }
    out.integer(shown as i64);
    changed
}

fn bitfield_of(call: &mut Call<'_, '_>, reads_only: bool) -> Outcome {
    let parts = parsed(call)?;
    let size = parts.iter().filter(|part| part.action != Action::Get).map(|part| part.field.bytes().end).max();
    if reads_only && size.is_some() {
        return Err(Fail::text("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    let key = call.args.get(1);
    let found = call.keys.size(key)?;
    call.shared.metrics.look_up(found.is_some());
    let mut replies = Replies::default();
    replies.protocol = call.out.protocol;
    match size {
        None => {
            for part in &parts {
                let bytes = part.field.bytes();
                let held = call.keys.part(key, |size| bytes.start.min(size)..bytes.end.min(size))?.unwrap_or_default();
                replies.integer(part.field.read(&held, bytes.start) as i64);
            }
        }
        Some(size) => {
            fits(call, usize::try_from(size).ok())?;
            let mut value = call.keys.get(key)?.unwrap_or_default();
            let grows = found.is_none() || value.len() < size as usize;
            value.resize(value.len().max(size as usize), 0);
            let changes = parts.iter().filter(|part| perform(part, &mut value, &mut replies)).count();
            if call.out.pending() + replies.pending() > call.shared.options.output_size_max {
                return Err(Fail::OutputLimit);
            }
            // Numbers that stay change no key, as in Redis.
            if grows || changes > 0 {
                call.keys.replace(key, &value)?;
            }
        }
    }
    call.out.array(parts.len());
    call.out.append(replies);
    Ok(())
}

/// See the head of this file.
pub(super) fn bitfield(call: &mut Call<'_, '_>) -> Outcome {
    bitfield_of(call, false)
}

/// `BITFIELD_RO key [GET type offset ...]`
pub(super) fn bitfield_ro(call: &mut Call<'_, '_>) -> Outcome {
    bitfield_of(call, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest number of 64 bits saturates downwards, in every field.
    #[test]
    fn numbers_that_do_not_fit_are_wrapped_saturated_or_refused() {
        let field = |signed, bits| Field { signed, bits, offset: 3 };
        let smallest = i128::from(i64::MIN);
        for (field, number, wrapped, saturated) in [
            (field(true, 8), 128, -128, 127),
            (field(true, 33), smallest, 0, -(1 << 32)),
            (field(true, 64), smallest - 1, i128::from(i64::MAX), smallest),
            (field(false, 8), -1, 255, 0),
            (field(false, 63), 1 << 63, 0, (1 << 63) - 1),
        ] {
            assert_eq!(field.fitted(number, Overflow::Wrap), Some(wrapped), "{field:?} {number}");
            assert_eq!(field.fitted(number, Overflow::Saturate), Some(saturated), "{field:?} {number}");
            assert_eq!(field.fitted(number, Overflow::Fail), None, "{field:?} {number}");
            let mut bytes = vec![0xa5; 10];
            field.write(&mut bytes, wrapped);
            assert_eq!((field.read(&bytes, 0), bytes[0] >> 5, bytes[9]), (wrapped, 0xa5 >> 5, 0xa5));
        }
    }
}

//! The library `bit`: operations on numbers of 32 bits.

use super::base::bad_argument;
use super::numbers::number;
use mlua::{Lua, MultiValue, Result, Table};

/// The 32 bits of an argument.
fn bits(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> Result<u32> {
    let value = args.get(index - 1);
    let Some(number) = value.and_then(number) else {
        return Err(bad_argument(lua, index, function, "number", value));
    };
    // To the nearest whole number, ties to the even one; of that the lowest bits. Of numbers above
    // 2^51 these are the lowest bits of the fraction, as in Redis.
    const WHOLE: f64 = 6_755_399_441_055_744.0; // 2^52 + 2^51: one bit of the fraction is one
    Ok((number + WHOLE).to_bits() as u32)
}

fn signed(bits: u32) -> f64 {
    f64::from(bits as i32)
}

/// The digits of `bit.tohex`: the lowest ones; in upper case if so many is negative.
fn hexadecimal(bits: u32, count: i32) -> String {
    let digits = count.unsigned_abs().min(8) as usize;
    let all = if count < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
    all[8 - digits..].to_owned()
}

/// An operation on the bits of one number, or of two.
type OfOne = fn(u32) -> u32;
type OfTwo = fn(u32, u32) -> u32;

/// The library.
pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    let folds: [(&str, OfTwo); 3] =
        [("band", |one, other| one & other), ("bor", |one, other| one | other), ("bxor", |one, other| one ^ other)];
    for (name, fold) in folds {
        let function = move |lua: &Lua, args: MultiValue| {
            let mut result = bits(lua, &args, 1, name)?;
            for index in 2..=args.len() {
                result = fold(result, bits(lua, &args, index, name)?);
            }
            Ok(signed(result))
        };
        library.raw_set(name, lua.create_function(function)?)?;
    }
    let changes: [(&str, OfOne); 3] = [("tobit", |bits| bits), ("bnot", |bits| !bits), ("bswap", u32::swap_bytes)];
    for (name, change) in changes {
        let function = move |lua: &Lua, args: MultiValue| Ok(signed(change(bits(lua, &args, 1, name)?)));
        library.raw_set(name, lua.create_function(function)?)?;
    }
    let shifts: [(&str, OfTwo); 5] = [
        ("lshift", |bits, count| bits << count),
        ("rshift", |bits, count| bits >> count),
        ("arshift", |bits, count| (bits as i32 >> count) as u32),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    for (name, shift) in shifts {
        let function = move |lua: &Lua, args: MultiValue| {
            Ok(signed(shift(bits(lua, &args, 1, name)?, bits(lua, &args, 2, name)? & 31)))
        };
        library.raw_set(name, lua.create_function(function)?)?;
    }
    let hex = |lua: &Lua, args: MultiValue| {
        let value = bits(lua, &args, 1, "tohex")?;
        let count = if args.len() > 1 { bits(lua, &args, 2, "tohex")? as i32 } else { 8 };
        Ok(hexadecimal(value, count))
    };
    library.raw_set("tohex", lua.create_function(hex)?)?;
    Ok(library)
}

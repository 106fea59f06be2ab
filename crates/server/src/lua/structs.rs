//! The library `struct`: values as bytes of a format, and back.
//!
//! A format is a row of letters: `b` `h` `l` `i` and their upper cases are whole numbers of 1, 2, 8
//! and 4 bytes, `T` one of 8, `i` and `I` may say their size; `f` and `d` are floats; `s` is a text
//! up to a zero byte, `c` one of a size, where 0 takes the size from the value before; `x` is a
//! zero byte. `<`, `>` and `=` choose the order of bytes, `!` an alignment.

use super::SharedRun;
use super::base::bad_argument;
use super::fault::fault;
use super::numbers::{bytes, number, truncated};
use super::outside::Built;
use mlua::{Error, Lua, MultiValue, Result, Table, Value};
use std::sync::Arc;

/// Bytes of a whole number at most.
const NUMBER_SIZE_MAX: usize = 32;
/// The alignment that `!` alone means.
const ALIGNMENT: usize = 8;

/// One letter of a format, with its size and order.
struct Item {
    letter: u8,
    size: usize,
    little: bool,
    /// Zero bytes before it.
    padding: usize,
}

/// A format that is read letter by letter.
struct Format<'f> {
    text: &'f [u8],
    /// The function that reads it, for errors.
    function: &'static str,
    little: bool,
    alignment: usize,
}

impl<'f> Format<'f> {
    fn new(text: &'f [u8], function: &'static str) -> Format<'f> {
        Format { text, function, little: true, alignment: 1 }
    }

    fn digits(&mut self) -> Option<usize> {
        let count = self.text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.text.split_at(count);
        self.text = rest;
        let add = |value: usize, digit: &u8| value.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
        (count > 0).then(|| digits.iter().fold(0, add))
    }

    /// The next letter that stands for bytes, which come at `at`.
    fn next(&mut self, lua: &Lua, at: usize) -> Result<Option<Item>> {
        while let Some((&letter, rest)) = self.text.split_first() {
            self.text = rest;
            let size = match letter {
                b' ' => continue,
                b'<' | b'=' => {
                    self.little = true;
                    continue;
                }
                b'>' => {
                    self.little = false;
                    continue;
                }
                b'!' => {
                    let found = self.digits().unwrap_or(ALIGNMENT);
                    if !found.is_power_of_two() {
                        return Err(fault(lua, format!("alignment {found} is not a power of 2")));
                    }
                    self.alignment = found;
                    continue;
                }
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'l' | b'L' | b'T' | b'd' => 8,
                b'f' => 4,
                b's' => 0,
                b'c' => self.digits().unwrap_or(1),
                b'i' | b'I' => match self.digits() {
                    None => 4,
                    Some(size @ 1..=NUMBER_SIZE_MAX) => size,
                    Some(size) => {
                        let text = format!("integral size {size} is larger than limit of {NUMBER_SIZE_MAX}");
                        return Err(fault(lua, text));
                    }
                },
                _ if self.function == "size" => continue,
                other => {
                    let (function, option) = (self.function, char::from(other));
                    let text = format!("bad argument #1 to '{function}' (invalid format option '{option}')");
                    return Err(fault(lua, text));
                }
            };
            let aligned = size.min(self.alignment);
            let padding = match letter {
                b'c' | b's' | b'x' => 0,
                _ if aligned > 1 && aligned.is_power_of_two() => (aligned - at % aligned) % aligned,
                _ => 0,
            };
            return Ok(Some(Item { letter, size, little: self.little, padding }));
        }
        Ok(None)
    }
}

fn is_number(letter: u8) -> bool {
    b"bBhHlLTiI".contains(&letter)
}

fn number_argument(lua: &Lua, args: &MultiValue, index: usize) -> Result<f64> {
    let value = args.get(index - 1).or(Some(&Value::Nil));
    value.and_then(number).ok_or_else(|| bad_argument(lua, index, "pack", "number", value))
}

/// Appends bytes that are little-endian in the order of the item.
fn put(little: bool, bytes: &mut [u8], out: &mut Built<'_>) -> Result<()> {
    if !little {
        bytes.reverse();
    }
    out.add(bytes)
}

/// `struct.pack`
fn pack(lua: &Lua, run: &SharedRun, args: &MultiValue) -> Result<mlua::LuaString> {
    let text = args.front().and_then(bytes).ok_or_else(|| bad_argument(lua, 1, "pack", "string", args.front()))?;
    let (mut format, mut out, mut index) = (Format::new(&text, "pack"), Built::new(lua, run), 2);
    while let Some(item) = format.next(lua, out.len())? {
        out.step()?;
        out.repeat(&[0], item.padding)?;
        match item.letter {
            b'x' => {
                out.push(0)?;
                continue;
            }
            letter if is_number(letter) => {
                let value = number_argument(lua, args, index)?;
                let value = if value < 0.0 { truncated(value) as u64 } else { value as u64 };
                let (low, mut wide) = (value.to_le_bytes(), [0; NUMBER_SIZE_MAX]);
                wide[..8].copy_from_slice(&low);
                put(item.little, &mut wide[..item.size], &mut out)?;
            }
            b'f' => put(item.little, &mut (number_argument(lua, args, index)? as f32).to_le_bytes(), &mut out)?,
            b'd' => put(item.little, &mut number_argument(lua, args, index)?.to_le_bytes(), &mut out)?,
            letter => {
                let value = args.get(index - 1).or(Some(&Value::Nil));
                let text = value.and_then(bytes).ok_or_else(|| bad_argument(lua, index, "pack", "string", value))?;
                let size = if letter == b's' || item.size == 0 { text.len() } else { item.size };
                let part = text
                    .get(..size)
                    .ok_or_else(|| fault(lua, format!("bad argument #{index} to 'pack' (string too short)")))?;
                out.add(part)?;
                if letter == b's' {
                    out.push(0)?;
                }
            }
        }
        index += 1;
    }
    out.finish()
}

fn short(lua: &Lua) -> Error {
    fault(lua, "bad argument #2 to 'unpack' (data string too short)")
}

/// `struct.unpack`: the values, then the place behind them.
fn unpack(lua: &Lua, args: &MultiValue) -> Result<MultiValue> {
    let text = args.front().and_then(bytes).ok_or_else(|| bad_argument(lua, 1, "unpack", "string", args.front()))?;
    let data = args.get(1).and_then(bytes).ok_or_else(|| bad_argument(lua, 2, "unpack", "string", args.get(1)))?;
    let start = args.get(2).map_or(Some(1.0), number).filter(|start| *start >= 1.0);
    let start = start.ok_or_else(|| fault(lua, "bad argument #3 to 'unpack' (offset must be 1 or greater)"))?;
    let (mut format, mut values, mut at) =
        (Format::new(&text, "unpack"), Vec::new(), (start - 1.0).min(u32::MAX as f64) as usize);
    while let Some(item) = format.next(lua, at)? {
        if values.len() >= VALUES_MAX {
            return Err(fault(lua, "too many results to unpack"));
        }
        at = at.saturating_add(item.padding);
        let rest = data.get(at..).unwrap_or_default();
        let part = |size: usize| data.get(at..at.checked_add(size)?);
        let ordered = |bytes: &[u8]| {
            let mut low = bytes.to_vec();
            if !item.little {
                low.reverse();
            }
            low
        };
        match item.letter {
            b'x' => drop(part(1).ok_or_else(|| short(lua))?),
            letter if is_number(letter) => {
                let low = ordered(part(item.size).ok_or_else(|| short(lua))?);
                let mut wide = [0; 8];
                let kept = low.len().min(8);
                wide[..kept].copy_from_slice(&low[..kept]);
                let (value, shift) = (u64::from_le_bytes(wide), 64 - 8 * kept as u32);
                values.push(Value::Number(match letter.is_ascii_lowercase() {
                    true => ((value << shift) as i64 >> shift) as f64,
                    false => value as f64,
                }));
            }
            b'f' => {
                let low = ordered(part(4).ok_or_else(|| short(lua))?);
                let low = <[u8; 4]>::try_from(low).unwrap_or_default();
                values.push(Value::Number(f64::from(f32::from_le_bytes(low))));
            }
            b'd' => {
                let low = ordered(part(8).ok_or_else(|| short(lua))?);
                values.push(Value::Number(f64::from_le_bytes(<[u8; 8]>::try_from(low).unwrap_or_default())));
            }
            b's' => {
                let size = rest.iter().position(|byte| *byte == 0);
                let size = size.ok_or_else(|| fault(lua, "unfinished string in data"))?;
                values.push(Value::String(lua.create_string(&rest[..size])?));
                at += size + 1;
                continue;
            }
            _ => {
                let size = match item.size {
                    0 => match values.pop().as_ref().and_then(number) {
                        Some(size) if size >= 0.0 => size as usize,
                        _ => return Err(fault(lua, "format 'c0' needs a previous size")),
                    },
                    size => size,
                };
                values.push(Value::String(lua.create_string(part(size).ok_or_else(|| short(lua))?)?));
                at += size;
                continue;
            }
        }
        at += item.size;
    }
    values.push(Value::Number((at + 1) as f64));
    Ok(MultiValue::from_vec(values))
}

/// Values that one call returns: the interpreter's stack holds about 8000.
const VALUES_MAX: usize = 7000;

/// `struct.size`
fn size(lua: &Lua, args: &MultiValue) -> Result<f64> {
    let text = args.front().and_then(bytes).ok_or_else(|| bad_argument(lua, 1, "size", "string", args.front()))?;
    let (mut format, mut at) = (Format::new(&text, "size"), 0_usize);
    while let Some(item) = format.next(lua, at)? {
        match item.letter {
            b's' => return Err(fault(lua, "bad argument #1 to 'size' (option 's' has no fixed size)")),
            b'c' if item.size == 0 => {
                return Err(fault(lua, "bad argument #1 to 'size' (option 'c0' has no fixed size)"));
            }
            _ => at = at.saturating_add(item.padding).saturating_add(item.size),
        }
    }
    Ok(at as f64)
}

/// The library.
pub(super) fn library(lua: &Lua, shared: &SharedRun) -> Result<Table> {
    let library = lua.create_table()?;
    let run = Arc::clone(shared);
    library.raw_set("pack", lua.create_function(move |lua, args: MultiValue| pack(lua, &run, &args))?)?;
    library.raw_set("unpack", lua.create_function(|lua, args: MultiValue| unpack(lua, &args))?)?;
    library.raw_set("size", lua.create_function(|lua, args: MultiValue| size(lua, &args))?)?;
    Ok(library)
}

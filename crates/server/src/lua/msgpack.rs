//! The library `cmsgpack`: MessagePack as values and back.

use super::SharedRun;
use super::base::bad_argument;
use super::fault::fault;
use super::numbers::{bytes, number};
use super::outside::Built;
use mlua::{Lua, MultiValue, Result, Table, Value};
use std::sync::Arc;

/// Levels of nested tables that are written; a deeper table is written as nil, as in Redis.
const WRITE_DEPTH_MAX: usize = 16;
/// Levels of nested values that are read.
const READ_DEPTH_MAX: usize = 1000;

/// Writes a mark with a big-endian number of the smallest size that holds it: one byte or more.
fn sized(marks: [u8; 4], value: u64, out: &mut Built<'_>) -> Result<()> {
    let bytes = value.to_be_bytes();
    let (mark, size) = match value {
        0..=0xff => (marks[0], 1),
        0x100..=0xffff => (marks[1], 2),
        0x1_0000..=0xffff_ffff => (marks[2], 4),
        _ => (marks[3], 8),
    };
    marked(mark, &bytes[8 - size..], out)
}

/// Writes a mark and bytes.
fn marked(mark: u8, bytes: &[u8], out: &mut Built<'_>) -> Result<()> {
    out.push(mark)?;
    out.add(bytes)
}

fn integer(value: i64, out: &mut Built<'_>) -> Result<()> {
    match value {
        -32..=127 => out.push(value as u8),
        128.. => sized([0xcc, 0xcd, 0xce, 0xcf], value.unsigned_abs(), out),
        -128..=-33 => marked(0xd0, &[value as u8], out),
        -0x8000..=-129 => marked(0xd1, &(value as i16).to_be_bytes(), out),
        -0x8000_0000..=-0x8001 => marked(0xd2, &(value as i32).to_be_bytes(), out),
        _ => marked(0xd3, &value.to_be_bytes(), out),
    }
}

fn float(value: f64, out: &mut Built<'_>) -> Result<()> {
    let limit = 9_223_372_036_854_775_808.0;
    if value.fract() == 0.0 && (-limit..limit).contains(&value) {
        return integer(value as i64, out);
    }
    let short = value as f32;
    if f64::from(short).to_bits() == value.to_bits() {
        marked(0xca, &short.to_be_bytes(), out)
    } else {
        marked(0xcb, &value.to_be_bytes(), out)
    }
}

/// The length of a table that has the indexes from 1 on and nothing else.
fn array_length(table: &Table, out: &mut Built<'_>) -> Result<Option<usize>> {
    let (mut last, mut count) = (0, 0);
    for pair in table.pairs::<Value, Value>() {
        out.step()?;
        let Value::Integer(index @ 1..) = pair?.0 else { return Ok(None) };
        (last, count) = (last.max(index as usize), count + 1);
    }
    Ok((last == count).then_some(count))
}

fn write(value: &Value, depth: usize, out: &mut Built<'_>) -> Result<()> {
    out.step()?;
    match value {
        Value::String(text) => {
            let text = text.as_bytes();
            match text.len() {
                size @ 0..32 => out.push(0xa0 | size as u8)?,
                size => sized([0xd9, 0xda, 0xdb, 0xdb], size as u64, out)?,
            }
            out.add(&text)
        }
        Value::Boolean(value) => out.push(if *value { 0xc3 } else { 0xc2 }),
        Value::Integer(value) => integer(*value, out),
        Value::Number(value) => float(*value, out),
        Value::Table(table) if depth < WRITE_DEPTH_MAX => {
            match array_length(table, out)? {
                Some(length) => {
                    count(0x90, [0xdc, 0xdd], length, out)?;
                    for index in 1..=length {
                        write(&table.raw_get(index)?, depth + 1, out)?;
                    }
                }
                None => {
                    count(0x80, [0xde, 0xdf], table.pairs::<Value, Value>().count(), out)?;
                    for pair in table.pairs::<Value, Value>() {
                        let (key, value) = pair?;
                        write(&key, depth + 1, out)?;
                        write(&value, depth + 1, out)?;
                    }
                }
            }
            Ok(())
        }
        _ => out.push(0xc0),
    }
}

fn count(short: u8, marks: [u8; 2], length: usize, out: &mut Built<'_>) -> Result<()> {
    match length {
        0..16 => out.push(short | length as u8),
        16..0x1_0000 => marked(marks[0], &(length as u16).to_be_bytes(), out),
        _ => marked(marks[1], &(length as u32).to_be_bytes(), out),
    }
}

/// Errors of malformed input.
const MISSING: &str = "Missing bytes in input.";
const BAD: &str = "Bad data format in input.";

struct Reader<'r> {
    lua: &'r Lua,
    bytes: &'r [u8],
    at: usize,
}

impl<'r> Reader<'r> {
    fn take(&mut self, size: usize) -> Result<&'r [u8]> {
        let end = self.at.checked_add(size).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| fault(self.lua, MISSING))?;
        let bytes = &self.bytes[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    /// A big-endian number of so many bytes.
    fn number(&mut self, size: usize) -> Result<u64> {
        Ok(self.take(size)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, size: usize) -> Result<Value> {
        let shift = 64 - 8 * size as u32;
        Ok(Value::Number(((self.number(size)? << shift) as i64 >> shift) as f64))
    }

    fn size(&mut self, size: usize) -> Result<usize> {
        Ok(self.number(size)? as usize)
    }

    fn text(&mut self, size: usize) -> Result<Value> {
        let text = self.take(size)?;
        Ok(Value::String(self.lua.create_string(text)?))
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        if depth > READ_DEPTH_MAX {
            return Err(fault(self.lua, "Found too many nested data structures in input."));
        }
        let mark = self.take(1)?[0];
        Ok(match mark {
            0..=0x7f => Value::Number(f64::from(mark)),
            0xe0..=0xff => Value::Number(f64::from(mark as i8)),
            0xa0..=0xbf => self.text(usize::from(mark & 31))?,
            0x90..=0x9f => self.array(usize::from(mark & 15), depth)?,
            0x80..=0x8f => self.map(usize::from(mark & 15), depth)?,
            0xc0 => Value::Nil,
            0xc2 => Value::Boolean(false),
            0xc3 => Value::Boolean(true),
            0xcc..=0xcf => Value::Number(self.number(1 << (mark - 0xcc))? as f64),
            0xd0..=0xd3 => self.signed(1 << (mark - 0xd0))?,
            0xca => Value::Number(f64::from(f32::from_bits(self.number(4)? as u32))),
            0xcb => Value::Number(f64::from_bits(self.number(8)?)),
            0xd9..=0xdb => {
                let size = self.size(1 << (mark - 0xd9))?;
                self.text(size)?
            }
            0xc4..=0xc6 => {
                let size = self.size(1 << (mark - 0xc4))?;
                self.text(size)?
            }
            0xdc | 0xdd => {
                let count = self.size(2 << (mark - 0xdc))?;
                self.array(count, depth)?
            }
            0xde | 0xdf => {
                let count = self.size(2 << (mark - 0xde))?;
                self.map(count, depth)?
            }
            _ => return Err(fault(self.lua, BAD)),
        })
    }

    fn array(&mut self, count: usize, depth: usize) -> Result<Value> {
        let table = self.lua.create_table()?;
        for index in 1..=count {
            let value = self.value(depth + 1)?;
            table.raw_set(index, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize, depth: usize) -> Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..count {
            let (key, value) = (self.value(depth + 1)?, self.value(depth + 1)?);
            if key == Value::Nil || matches!(key, Value::Number(key) if key.is_nan()) {
                return Err(fault(self.lua, BAD));
            }
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }
}

/// Reads up to `limit` values; 0: all. With an offset of its own, the end comes first: -1 at the
/// end of the input.
fn unpack(lua: &Lua, args: &MultiValue, name: &str, limit: usize, offset: Option<f64>) -> Result<MultiValue> {
    let Some(input) = args.front().and_then(bytes) else {
        return Err(bad_argument(lua, 1, name, "string", args.front()));
    };
    let start = offset.unwrap_or(0.0);
    if start < 0.0 {
        return Err(fault(
            lua,
            format!("Invalid request to unpack with offset of {start} and limit of {}.", input.len()),
        ));
    }
    if start > input.len() as f64 {
        return Err(fault(lua, format!("Start offset {start} greater than input length {}.", input.len())));
    }
    let mut reader = Reader { lua, bytes: &input, at: start as usize };
    let mut values = Vec::new();
    while reader.at < input.len() && (limit == 0 || values.len() < limit) {
        if values.len() >= VALUES_MAX {
            return Err(fault(lua, "too many values to unpack"));
        }
        values.push(reader.value(0)?);
    }
    if offset.is_some() {
        let end = if reader.at < input.len() { reader.at as f64 } else { -1.0 };
        values.insert(0, Value::Number(end));
    }
    Ok(MultiValue::from_vec(values))
}

/// Values that one call returns: the interpreter's stack holds about 8000.
const VALUES_MAX: usize = 7000;

/// The library.
pub(super) fn library(lua: &Lua, shared: &SharedRun) -> Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("_NAME", "cmsgpack")?;
    library.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    let run = Arc::clone(shared);
    let pack = move |lua: &Lua, args: MultiValue| {
        if args.is_empty() {
            return Err(fault(lua, "bad argument #0 to 'pack' (MessagePack pack needs input.)"));
        }
        let mut out = Built::new(lua, &run);
        args.iter().try_for_each(|value| write(value, 0, &mut out))?;
        out.finish()
    };
    library.raw_set("pack", lua.create_function(pack)?)?;
    let all = |lua: &Lua, args: MultiValue| unpack(lua, &args, "unpack", 0, None);
    library.raw_set("unpack", lua.create_function(all)?)?;
    let offset = |lua: &Lua, args: &MultiValue, index: usize, name: &str| match args.get(index - 1) {
        None | Some(Value::Nil) => Ok(0.0),
        value => value.and_then(number).ok_or_else(|| bad_argument(lua, index, name, "number", value)),
    };
    let single = move |lua: &Lua, args: MultiValue| {
        let start = offset(lua, &args, 2, "unpack_one")?;
        unpack(lua, &args, "unpack_one", 1, Some(start))
    };
    library.raw_set("unpack_one", lua.create_function(single)?)?;
    let some = move |lua: &Lua, args: MultiValue| {
        let limit = offset(lua, &args, 2, "unpack_limit")?;
        let start = offset(lua, &args, 3, "unpack_limit")?;
        if limit < 0.0 {
            let size = args.front().and_then(bytes).map_or(0, |input| input.len());
            let text = format!("Invalid request to unpack with offset of {start} and limit of {size}.");
            return Err(fault(lua, text));
        }
        unpack(lua, &args, "unpack_limit", limit as usize, Some(start))
    };
    library.raw_set("unpack_limit", lua.create_function(some)?)?;
    Ok(library)
}

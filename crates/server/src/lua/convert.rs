//! Replies as values of Lua, and values as replies, by the rules of Redis.

use super::numbers;
use crate::resp::number::parse_integer;
use crate::resp::reply::{Protocol, Replies};
use mlua::{Lua, Result, Table, Value};

/// Values within values at most.
const DEPTH_MAX: usize = 1000;
/// The error of values that are too deep.
const TOO_DEEP: &[u8] = b"ERR reached lua stack limit";

/// Bytes of the reply that are still to be read.
struct Input<'r>(&'r [u8]);

impl<'r> Input<'r> {
    fn line(&mut self) -> &'r [u8] {
        let end = self.0.windows(2).position(|two| two == b"\r\n").unwrap_or(self.0.len());
        let line = &self.0[..end];
        self.0 = self.0.get(end + 2..).unwrap_or_default();
        line
    }

    fn bytes(&mut self, size: usize) -> &'r [u8] {
        let bytes = &self.0[..size.min(self.0.len())];
        self.0 = self.0.get(size + 2..).unwrap_or_default();
        bytes
    }
}

/// The value of a reply, which the server has made itself.
pub(super) fn read_reply(lua: &Lua, reply: &[u8]) -> Result<Value> {
    value(lua, &mut Input(reply))
}

fn single(lua: &Lua, name: &str, value: impl mlua::IntoLua) -> Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    Ok(Value::Table(table))
}

fn value(lua: &Lua, input: &mut Input<'_>) -> Result<Value> {
    let line = input.line();
    let Some((mark, text)) = line.split_first() else { return Ok(Value::Nil) };
    let count = parse_integer(text);
    let size = count.and_then(|count| usize::try_from(count).ok());
    let string = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
    match mark {
        b'+' => single(lua, "ok", string(text)?),
        b'-' => error_table(lua, text),
        b':' => Ok(Value::Number(count.unwrap_or(0) as f64)),
        b'$' => match size {
            Some(size) => string(input.bytes(size)),
            None => Ok(Value::Boolean(false)),
        },
        b'=' => {
            let bytes = input.bytes(size.unwrap_or(0));
            let table = lua.create_table()?;
            table.raw_set("format", string(bytes.get(..3).unwrap_or_default())?)?;
            table.raw_set("string", string(bytes.get(4..).unwrap_or_default())?)?;
            single(lua, "verbatim_string", table)
        }
        b'*' | b'>' => match size {
            Some(size) => {
                let list = lua.create_table_with_capacity(size, 0)?;
                for index in 1..=size {
                    list.raw_set(index, value(lua, input)?)?;
                }
                Ok(Value::Table(list))
            }
            None => Ok(Value::Boolean(false)),
        },
        b'%' => {
            let map = lua.create_table()?;
            for _ in 0..size.unwrap_or(0) {
                let key = value(lua, input)?;
                map.raw_set(key, value(lua, input)?)?;
            }
            single(lua, "map", map)
        }
        b'~' => {
            let set = lua.create_table()?;
            for _ in 0..size.unwrap_or(0) {
                set.raw_set(value(lua, input)?, true)?;
            }
            single(lua, "set", set)
        }
        b',' => {
            let number = match text {
                b"inf" => f64::INFINITY,
                b"-inf" => f64::NEG_INFINITY,
                text => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN),
            };
            single(lua, "double", number)
        }
        b'#' => Ok(Value::Boolean(text == b"t")),
        b'(' => single(lua, "big_number", string(text)?),
        _ => Ok(Value::Nil),
    }
}

/// The table of an error reply.
pub(super) fn error_table(lua: &Lua, text: &[u8]) -> Result<Value> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(text)?)?;
    table.raw_set("ignore_error_stats_update", true)?;
    Ok(Value::Table(table))
}

/// A line without line ends inside.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

/// Writes the reply that a value is; `protocol` is that of the script's replies. `false` where
/// there is no room for more.
pub(crate) fn write_value(value: &Value, protocol: Protocol, out: &mut Replies, size_max: usize) -> Result<bool> {
    write(value, protocol, out, size_max, 0)
}

fn write(value: &Value, protocol: Protocol, out: &mut Replies, size_max: usize, depth: usize) -> Result<bool> {
    match value {
        Value::String(text) => out.bulk(&text.as_bytes()),
        Value::Integer(number) => out.integer(*number),
        Value::Number(number) => out.integer(numbers::truncated(*number)),
        Value::Boolean(value) => match (protocol, value) {
            (Protocol::Resp2, true) => out.integer(1),
            (Protocol::Resp2, false) => out.null(),
            (Protocol::Resp3, _) => out.boolean(*value),
        },
        Value::Table(_) if depth >= DEPTH_MAX => out.error(TOO_DEEP),
        Value::Table(table) => return write_table(table, protocol, out, size_max, depth),
        _ => out.null(),
    }
    Ok(out.pending() <= size_max)
}

fn write_table(table: &Table, protocol: Protocol, out: &mut Replies, size_max: usize, depth: usize) -> Result<bool> {
    let nested = |value: &Value, out: &mut Replies| write(value, protocol, out, size_max, depth + 1);
    let field = |name: &str| table.raw_get::<Value>(name);
    // A number is a text here, as to Lua's own functions.
    let text = |name: &str| Ok::<_, mlua::Error>(numbers::bytes(&field(name)?));
    if let Value::String(text) = field("err")? {
        out.error(&text.as_bytes());
    } else if let Value::String(text) = field("ok")? {
        out.raw(b"+");
        out.raw(&one_line(&text.as_bytes()));
        out.raw(b"\r\n");
    } else if let number @ (Value::Integer(_) | Value::Number(_)) = field("double")? {
        out.double(numbers::number(&number).unwrap_or_default());
    } else if let Value::Table(map) = field("map")? {
        let pairs = map.pairs::<Value, Value>().collect::<Result<Vec<_>>>()?;
        out.map(pairs.len());
        for (key, value) in pairs {
            if !nested(&key, out)? || !nested(&value, out)? {
                return Ok(false);
            }
        }
    } else if let Value::Table(set) = field("set")? {
        let members = set.pairs::<Value, Value>().collect::<Result<Vec<_>>>()?;
        out.set(members.len());
        for (member, _) in members {
            if !nested(&member, out)? {
                return Ok(false);
            }
        }
    } else if let Some(number) = text("big_number")? {
        out.big_number(&one_line(&number));
    } else if let Value::Table(verbatim) = field("verbatim_string")? {
        let part = |name: &str| Ok::<_, mlua::Error>(numbers::bytes(&verbatim.raw_get(name)?));
        match (part("format")?, part("string")?) {
            (Some(format), Some(string)) => out.verbatim(&format, &string),
            _ => out.null(),
        }
    } else {
        let mut list = Vec::new();
        loop {
            match table.raw_get::<Value>(list.len() + 1)? {
                Value::Nil => break,
                value => list.push(value),
            }
        }
        out.array(list.len());
        for value in list {
            if !nested(&value, out)? {
                return Ok(false);
            }
        }
    }
    Ok(out.pending() <= size_max)
}

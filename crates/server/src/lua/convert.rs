//! Replies as values of Lua, and values as replies, by the rules of Redis.

use super::{Returned, fault, numbers};
use crate::resp::number::parse_integer;
use crate::resp::reply::{Protocol, Replies};
use mlua::{Error, Lua, Result, Table, Value};
use std::time::Instant;

/// Levels of nested values.
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

/// The reason why a value is no reply.
pub(crate) enum Unwritten {
    /// There is no room for more.
    Size,
    /// The script's time is over.
    Time,
    /// The interpreter's error, as a text.
    Failed(Vec<u8>),
}

impl From<Error> for Unwritten {
    fn from(error: Error) -> Unwritten {
        Unwritten::Failed(fault::text(&error))
    }
}

/// Writes the reply that a value is, of at most `size_max` bytes.
pub(crate) fn write_value(
    returned: &Returned,
    out: &mut Replies,
    size_max: usize,
) -> std::result::Result<(), Unwritten> {
    let Returned { protocol, deadline, .. } = *returned;
    Writer { protocol, deadline, out, size_max, steps: 0 }.write(&returned.value, 0)
}

/// Values written between two looks at the clock.
const STEPS: u32 = 1 << 10;

struct Writer<'w> {
    protocol: Protocol,
    deadline: Option<Instant>,
    out: &'w mut Replies,
    size_max: usize,
    steps: u32,
}

impl Writer<'_> {
    fn write(&mut self, value: &Value, depth: usize) -> std::result::Result<(), Unwritten> {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS) && self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Unwritten::Time);
        }
        match value {
            Value::String(text) => self.out.bulk(&text.as_bytes()),
            Value::Integer(number) => self.out.integer(*number),
            Value::Number(number) => self.out.integer(numbers::truncated(*number)),
            Value::Boolean(value) => match (self.protocol, value) {
                (Protocol::Resp2, true) => self.out.integer(1),
                (Protocol::Resp2, false) => self.out.null(),
                (Protocol::Resp3, _) => self.out.boolean(*value),
            },
            Value::Table(_) if depth >= DEPTH_MAX => self.out.error(TOO_DEEP),
            Value::Table(table) => self.table(table, depth)?,
            _ => self.out.null(),
        }
        if self.out.pending() <= self.size_max { Ok(()) } else { Err(Unwritten::Size) }
    }

    /// Values are read one by one: the bindings hold a few thousand at a time.
    fn table(&mut self, table: &Table, depth: usize) -> std::result::Result<(), Unwritten> {
        let field = |name: &str| table.raw_get::<Value>(name);
        if let Value::String(text) = field("err")? {
            self.out.error(&text.as_bytes());
        } else if let Value::String(text) = field("ok")? {
            self.out.raw(b"+");
            self.out.raw(&one_line(&text.as_bytes()));
            self.out.raw(b"\r\n");
        } else if let number @ (Value::Integer(_) | Value::Number(_)) = field("double")? {
            self.out.double(numbers::number(&number).unwrap_or_default());
        } else if let Value::Table(map) = field("map")? {
            self.out.map(map.pairs::<Value, Value>().count());
            for pair in map.pairs::<Value, Value>() {
                let (key, value) = pair?;
                self.write(&key, depth + 1)?;
                self.write(&value, depth + 1)?;
            }
        } else if let Value::Table(set) = field("set")? {
            self.out.set(set.pairs::<Value, Value>().count());
            for pair in set.pairs::<Value, Value>() {
                self.write(&pair?.0, depth + 1)?;
            }
        } else if let Some(number) = numbers::bytes(&field("big_number")?) {
            // A number is a text here, as to Lua's own functions.
            self.out.big_number(&one_line(&number));
        } else if let Value::Table(verbatim) = field("verbatim_string")? {
            let part = |name: &str| Ok::<_, Error>(numbers::bytes(&verbatim.raw_get(name)?));
            match (part("format")?, part("string")?) {
                (Some(format), Some(string)) => self.out.verbatim(&format, &string),
                _ => self.out.null(),
            }
        } else {
            let mut length = 0;
            while table.raw_get::<Value>(length + 1)? != Value::Nil {
                length += 1;
            }
            self.out.array(length);
            for index in 1..=length {
                self.write(&table.raw_get(index)?, depth + 1)?;
            }
        }
        Ok(())
    }
}

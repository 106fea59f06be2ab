//! The library `cjson`: JSON as values and back.
//!
//! Its settings are those of lua-cjson, and hold for one run (LUA-1).

mod read;
mod write;

use super::SharedRun;
use super::base::bad_argument;
use super::fault::fault;
use super::numbers::{bytes, number};
use super::outside::Built;
use mlua::{Lua, MultiValue, Result, Table, Value};
use std::sync::Arc;

/// Settings that a script may change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Levels of nested tables that are written.
    write_depth_max: usize,
    /// Levels of nested values that are read.
    read_depth_max: usize,
    /// Digits of numbers.
    precision: usize,
    /// Whether a sparse array is written as an object, and not refused.
    sparse_converts: bool,
    /// An array is sparse if its last index is above `sparse_safe` and above this multiple of the
    /// number of its elements; 0: no array is.
    sparse_ratio: usize,
    sparse_safe: usize,
    /// Whether numbers that JSON does not have are written: `None` as null.
    write_invalid: Option<bool>,
    /// Whether such numbers are read.
    read_invalid: bool,
    keeps_buffer: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            write_depth_max: 1000,
            read_depth_max: 1000,
            precision: 14,
            sparse_converts: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            write_invalid: Some(false),
            read_invalid: true,
            keeps_buffer: true,
        }
    }
}

/// The highest limit that a script may set: each level takes a part of the server's stack.
const DEPTH_MAX: usize = 1000;

/// A whole number of an argument, if it is given.
fn whole(lua: &Lua, args: &MultiValue, index: usize, function: &str, range: (usize, usize)) -> Result<Option<usize>> {
    match args.get(index - 1) {
        None | Some(Value::Nil) => Ok(None),
        value => match value.and_then(number) {
            Some(found) if (range.0 as f64..=range.1 as f64).contains(&found) => Ok(Some(found as usize)),
            Some(_) => {
                let text = format!(
                    "bad argument #{index} to '{function}' (expected integer between {} and {})",
                    range.0, range.1
                );
                Err(fault(lua, text))
            }
            None => Err(bad_argument(lua, index, function, "number", value)),
        },
    }
}

fn truth(args: &MultiValue, index: usize) -> Option<bool> {
    match args.get(index - 1)? {
        Value::Boolean(value) => Some(*value),
        Value::String(text) => Some(&*text.as_bytes() == b"on"),
        _ => None,
    }
}

/// A function that changes settings and returns them.
type Setter = fn(&Lua, &mut Settings, &MultiValue) -> Result<MultiValue>;

fn one(value: Value) -> MultiValue {
    MultiValue::from_vec(vec![value])
}

fn counted(value: usize) -> Value {
    Value::Number(value as f64)
}

const SETTERS: [(&str, Setter); 7] = [
    ("encode_max_depth", |lua, settings, args| {
        let found = whole(lua, args, 1, "encode_max_depth", (1, i32::MAX as usize))?;
        settings.write_depth_max = found.map_or(settings.write_depth_max, |depth| depth.min(DEPTH_MAX));
        Ok(one(counted(settings.write_depth_max)))
    }),
    ("decode_max_depth", |lua, settings, args| {
        let found = whole(lua, args, 1, "decode_max_depth", (1, i32::MAX as usize))?;
        settings.read_depth_max = found.map_or(settings.read_depth_max, |depth| depth.min(DEPTH_MAX));
        Ok(one(counted(settings.read_depth_max)))
    }),
    ("encode_number_precision", |lua, settings, args| {
        let found = whole(lua, args, 1, "encode_number_precision", (1, 14))?;
        settings.precision = found.unwrap_or(settings.precision);
        Ok(one(counted(settings.precision)))
    }),
    ("encode_sparse_array", |lua, settings, args| {
        settings.sparse_converts = truth(args, 1).unwrap_or(settings.sparse_converts);
        let name = "encode_sparse_array";
        settings.sparse_ratio = whole(lua, args, 2, name, (0, i32::MAX as usize))?.unwrap_or(settings.sparse_ratio);
        settings.sparse_safe = whole(lua, args, 3, name, (0, i32::MAX as usize))?.unwrap_or(settings.sparse_safe);
        let all = vec![
            Value::Boolean(settings.sparse_converts),
            counted(settings.sparse_ratio),
            counted(settings.sparse_safe),
        ];
        Ok(MultiValue::from_vec(all))
    }),
    ("encode_invalid_numbers", |lua, settings, args| {
        let is_null = matches!(args.front(), Some(Value::String(text)) if &*text.as_bytes() == b"null");
        settings.write_invalid = match truth(args, 1) {
            _ if is_null => None,
            Some(value) => Some(value),
            None => settings.write_invalid,
        };
        Ok(one(match settings.write_invalid {
            Some(value) => Value::Boolean(value),
            None => Value::String(lua.create_string("null")?),
        }))
    }),
    ("decode_invalid_numbers", |_, settings, args| {
        settings.read_invalid = truth(args, 1).unwrap_or(settings.read_invalid);
        Ok(one(Value::Boolean(settings.read_invalid)))
    }),
    ("encode_keep_buffer", |_, settings, args| {
        settings.keeps_buffer = truth(args, 1).unwrap_or(settings.keeps_buffer);
        Ok(one(Value::Boolean(settings.keeps_buffer)))
    }),
];

/// The library.
pub(super) fn library(lua: &Lua, shared: &SharedRun) -> Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("_NAME", "cjson")?;
    library.raw_set("_VERSION", "2.1.0")?;
    library.raw_set("null", Value::NULL)?;
    let run = Arc::clone(shared);
    let encode = move |lua: &Lua, args: MultiValue| {
        let (1, Some(value)) = (args.len(), args.front()) else {
            return Err(fault(lua, "bad argument #1 to 'encode' (expected 1 argument)"));
        };
        let settings = run.lock().json;
        let mut out = Built::new(lua, &run);
        write::write(value, &settings, 0, &mut out)?;
        out.finish()
    };
    library.raw_set("encode", lua.create_function(encode)?)?;
    let run = Arc::clone(shared);
    let decode = move |lua: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return Err(fault(lua, "bad argument #1 to 'decode' (expected 1 argument)"));
        }
        let Some(text) = args.front().and_then(bytes) else {
            return Err(bad_argument(lua, 1, "decode", "string", args.front()));
        };
        let settings = run.lock().json;
        read::read(lua, &text, &settings)
    };
    library.raw_set("decode", lua.create_function(decode)?)?;
    for (name, setter) in SETTERS {
        let run = Arc::clone(shared);
        let function = move |lua: &Lua, args: MultiValue| setter(lua, &mut run.lock().json, &args);
        library.raw_set(name, lua.create_function(function)?)?;
    }
    Ok(library)
}

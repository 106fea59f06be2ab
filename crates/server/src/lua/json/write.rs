//! Values as JSON.

use super::Settings;
use crate::lua::base::type_name;
use crate::lua::numbers::general;
use mlua::{Table, Value};

/// Bytes of a text: what is built here is outside of the interpreter's memory.
const TEXT_MAX: usize = 512 << 20;

/// Writes a value; an error is its text.
pub(super) fn write(value: &Value, settings: &Settings, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
    if out.len() > TEXT_MAX {
        return Err("Cannot serialise, excessive size".into());
    }
    match value {
        Value::String(text) => string(&text.as_bytes(), out),
        Value::Integer(value) => number(*value as f64, settings, out)?,
        Value::Number(value) => number(*value, settings, out)?,
        Value::Boolean(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Nil => out.extend_from_slice(b"null"),
        null if *null == Value::NULL => out.extend_from_slice(b"null"),
        Value::Table(table) => {
            let depth = depth + 1;
            if depth > settings.write_depth_max {
                return Err(format!("Cannot serialise, excessive nesting ({depth})"));
            }
            match array_length(table, settings)? {
                Some(length) => array(table, length, settings, depth, out)?,
                None => object(table, settings, depth, out)?,
            }
        }
        other => return Err(format!("Cannot serialise {}: type not supported", type_name(Some(other)))),
    }
    Ok(())
}

/// The length of a table that is an array with elements.
fn array_length(table: &Table, settings: &Settings) -> Result<Option<usize>, String> {
    let (mut last, mut count) = (0_usize, 0_usize);
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair.map_err(|error| error.to_string())?;
        let index = match key {
            Value::Integer(index) => usize::try_from(index).ok().filter(|index| *index > 0),
            _ => None,
        };
        let Some(index) = index else { return Ok(None) };
        (last, count) = (last.max(index), count + 1);
    }
    let sparse =
        settings.sparse_ratio > 0 && last > count.saturating_mul(settings.sparse_ratio) && last > settings.sparse_safe;
    match sparse {
        true if settings.sparse_converts => Ok(None),
        true => Err("Cannot serialise table: excessively sparse array".into()),
        false => Ok(Some(last).filter(|last| *last > 0)),
    }
}

fn array(table: &Table, length: usize, settings: &Settings, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
    out.push(b'[');
    for index in 1..=length {
        if index > 1 {
            out.push(b',');
        }
        let value = table.raw_get::<Value>(index).map_err(|error| error.to_string())?;
        write(&value, settings, depth, out)?;
    }
    out.push(b']');
    Ok(())
}

fn object(table: &Table, settings: &Settings, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
    out.push(b'{');
    let mut first = true;
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|error| error.to_string())?;
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        match key {
            Value::String(text) => string(&text.as_bytes(), out),
            Value::Integer(_) | Value::Number(_) => {
                out.push(b'"');
                number(crate::lua::numbers::number(&key).unwrap_or_default(), settings, out)?;
                out.push(b'"');
            }
            _ => return Err("Cannot serialise table: table key must be a number or string".into()),
        }
        out.push(b':');
        write(&value, settings, depth, out)?;
    }
    out.push(b'}');
    Ok(())
}

fn number(value: f64, settings: &Settings, out: &mut Vec<u8>) -> Result<(), String> {
    match settings.write_invalid {
        _ if value.is_finite() => out.extend_from_slice(general(value, settings.precision).as_bytes()),
        Some(true) => out.extend_from_slice(general(value, settings.precision).as_bytes()),
        Some(false) => return Err("Cannot serialise number: must not be NaN or Inf".into()),
        None => out.extend_from_slice(b"null"),
    }
    Ok(())
}

fn string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' | b'/' => out.extend_from_slice(&[b'\\', *byte]),
            8 => out.extend_from_slice(b"\\b"),
            9 => out.extend_from_slice(b"\\t"),
            10 => out.extend_from_slice(b"\\n"),
            12 => out.extend_from_slice(b"\\f"),
            13 => out.extend_from_slice(b"\\r"),
            0..32 | 127 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}

//! Values as JSON.

use super::Settings;
use crate::lua::base::type_name;
use crate::lua::fault::fault;
use crate::lua::numbers::general;
use crate::lua::outside::Built;
use mlua::{Result, Table, Value};

/// Writes a value.
pub(super) fn write(value: &Value, settings: &Settings, depth: usize, out: &mut Built<'_>) -> Result<()> {
    out.step()?;
    match value {
        Value::String(text) => string(&text.as_bytes(), out)?,
        Value::Integer(value) => number(*value as f64, settings, out)?,
        Value::Number(value) => number(*value, settings, out)?,
        Value::Boolean(value) => out.add(value.to_string().as_bytes())?,
        Value::Nil => out.add(b"null")?,
        null if *null == Value::NULL => out.add(b"null")?,
        Value::Table(table) => {
            let depth = depth + 1;
            if depth > settings.write_depth_max {
                return Err(fault(out.lua, format!("Cannot serialise, excessive nesting ({depth})")));
            }
            match array_length(table, settings, out)? {
                Some(length) => array(table, length, settings, depth, out)?,
                None => object(table, settings, depth, out)?,
            }
        }
        other => {
            let text = format!("Cannot serialise {}: type not supported", type_name(Some(other)));
            return Err(fault(out.lua, text));
        }
    }
    Ok(())
}

/// The length of a table that is an array with elements.
fn array_length(table: &Table, settings: &Settings, out: &mut Built<'_>) -> Result<Option<usize>> {
    let (mut last, mut count) = (0_usize, 0_usize);
    for pair in table.pairs::<Value, Value>() {
        out.step()?;
        let index = match pair?.0 {
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
        true => Err(fault(out.lua, "Cannot serialise table: excessively sparse array")),
        false => Ok(Some(last).filter(|last| *last > 0)),
    }
}

fn array(table: &Table, length: usize, settings: &Settings, depth: usize, out: &mut Built<'_>) -> Result<()> {
    out.push(b'[')?;
    for index in 1..=length {
        if index > 1 {
            out.push(b',')?;
        }
        write(&table.raw_get(index)?, settings, depth, out)?;
    }
    out.push(b']')
}

fn object(table: &Table, settings: &Settings, depth: usize, out: &mut Built<'_>) -> Result<()> {
    out.push(b'{')?;
    let mut first = true;
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        if !std::mem::take(&mut first) {
            out.push(b',')?;
        }
        match key {
            Value::String(text) => string(&text.as_bytes(), out)?,
            Value::Integer(_) | Value::Number(_) => {
                out.push(b'"')?;
                number(crate::lua::numbers::number(&key).unwrap_or_default(), settings, out)?;
                out.push(b'"')?;
            }
            _ => return Err(fault(out.lua, "Cannot serialise table: table key must be a number or string")),
        }
        out.push(b':')?;
        write(&value, settings, depth, out)?;
    }
    out.push(b'}')
}

fn number(value: f64, settings: &Settings, out: &mut Built<'_>) -> Result<()> {
    match settings.write_invalid {
        Some(false) if !value.is_finite() => Err(fault(out.lua, "Cannot serialise number: must not be NaN or Inf")),
        None if !value.is_finite() => out.add(b"null"),
        _ => out.add(general(value, settings.precision).as_bytes()),
    }
}

fn string(text: &[u8], out: &mut Built<'_>) -> Result<()> {
    out.push(b'"')?;
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | b'/' | 0..32 | 127);
    let mut rest = text;
    while let Some(size) = rest.iter().position(is_special) {
        out.add(&rest[..size])?;
        match rest[size] {
            byte @ (b'"' | b'\\' | b'/') => out.add(&[b'\\', byte])?,
            8 => out.add(b"\\b")?,
            9 => out.add(b"\\t")?,
            10 => out.add(b"\\n")?,
            12 => out.add(b"\\f")?,
            13 => out.add(b"\\r")?,
            byte => out.add(format!("\\u{byte:04x}").as_bytes())?,
        }
        rest = &rest[size + 1..];
    }
    out.add(rest)?;
    out.push(b'"')
}

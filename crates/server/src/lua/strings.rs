//! The functions of `string` that match patterns, and `rep`: as those of Lua 5.1, with bounds of
//! depth and of time (`patterns.rs`).

use super::base::{bad_argument, type_name};
use super::fault::{Raised, fault};
use super::numbers::{bytes, number};
use super::patterns::{Capture, Matcher, Refused, find_plain, is_plain};
use super::{SharedRun, ended};
use mlua::{Error, Lua, MultiValue, Result, Table, Value};
use std::sync::Arc;

fn refused(lua: &Lua, refused: Refused) -> Error {
    match refused {
        Refused::Malformed(text) => fault(lua, text),
        Refused::Ended => Raised::Ended.into(),
    }
}

fn text(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> Result<Vec<u8>> {
    let value = args.get(index - 1);
    value.and_then(bytes).ok_or_else(|| bad_argument(lua, index, function, "string", value))
}

fn optional(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> Result<Option<f64>> {
    match args.get(index - 1) {
        None | Some(Value::Nil) => Ok(None),
        value => match value.and_then(number) {
            Some(number) => Ok(Some(number)),
            None => Err(bad_argument(lua, index, function, "number", value)),
        },
    }
}

/// The value of a capture.
fn captured(lua: &Lua, subject: &[u8], capture: Capture) -> Result<Value> {
    match capture {
        Capture::Part(start, end) => Ok(Value::String(lua.create_string(&subject[start..end])?)),
        Capture::Position(at) | Capture::Open(at) => Ok(Value::Number((at + 1) as f64)),
    }
}

/// The captures of a match; the whole match where there are none.
fn all_captured(lua: &Lua, subject: &[u8], whole: (usize, usize), captures: &[Capture]) -> Result<Vec<Value>> {
    if captures.is_empty() {
        return Ok(vec![captured(lua, subject, Capture::Part(whole.0, whole.1))?]);
    }
    captures.iter().map(|capture| captured(lua, subject, *capture)).collect()
}

/// `string.find` and `string.match`.
fn search(lua: &Lua, run: &SharedRun, args: &MultiValue, finds: bool) -> Result<MultiValue> {
    let name = if finds { "find" } else { "match" };
    let (subject, pattern) = (text(lua, args, 1, name)?, text(lua, args, 2, name)?);
    let start = optional(lua, args, 3, name)?.unwrap_or(1.0);
    let start = if start < 0.0 { (subject.len() as f64 + start).max(0.0) } else { (start - 1.0).max(0.0) };
    let start = (start as usize).min(subject.len());
    let ended = || ended(run);
    let plain = !matches!(args.get(3), None | Some(Value::Nil | Value::Boolean(false)));
    let number = |at: usize| Value::Number(at as f64);
    if finds && (plain || is_plain(&pattern)) {
        let found = find_plain(&subject, &pattern, start, &ended).map_err(|reason| refused(lua, reason))?;
        return Ok(match found {
            Some(at) => MultiValue::from_vec(vec![number(at + 1), number(at + pattern.len())]),
            None => MultiValue::from_vec(vec![Value::Nil]),
        });
    }
    let anchored = pattern.first() == Some(&b'^');
    let mut matcher = Matcher::new(&subject, &pattern[usize::from(anchored)..], &ended);
    for at in start..=subject.len() {
        if let Some(end) = matcher.match_at(at).map_err(|reason| refused(lua, reason))? {
            let mut values = if finds { vec![number(at + 1), number(end)] } else { Vec::new() };
            if !finds || !matcher.captures().is_empty() {
                values.extend(all_captured(lua, &subject, (at, end), matcher.captures())?);
            }
            return Ok(MultiValue::from_vec(values));
        }
        if anchored {
            break;
        }
    }
    Ok(MultiValue::from_vec(vec![Value::Nil]))
}

/// `string.gmatch`: the function that finds one match after the other.
fn every(lua: &Lua, run: &SharedRun, args: &MultiValue) -> Result<mlua::Function> {
    let (subject, pattern) = (text(lua, args, 1, "gmatch")?, text(lua, args, 2, "gmatch")?);
    let (run, mut next) = (Arc::clone(run), 0);
    lua.create_function_mut(move |lua, _: MultiValue| {
        let ended = || ended(&run);
        let mut matcher = Matcher::new(&subject, &pattern, &ended);
        let first = next;
        for at in first..=subject.len() {
            if let Some(end) = matcher.match_at(at).map_err(|reason| refused(lua, reason))? {
                next = if end == at { end + 1 } else { end };
                return Ok(MultiValue::from_vec(all_captured(lua, &subject, (at, end), matcher.captures())?));
            }
        }
        next = subject.len() + 1;
        Ok(MultiValue::from_vec(vec![Value::Nil]))
    })
}

/// The replacement of a match by a text in which `%` and a digit stand for captures.
fn expanded(
    lua: &Lua,
    text: &[u8],
    subject: &[u8],
    whole: (usize, usize),
    captures: &[Capture],
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        match rest.next() {
            Some(b'0') => out.extend_from_slice(&subject[whole.0..whole.1]),
            Some(digit) if digit.is_ascii_digit() => {
                let index = usize::from(digit - b'1');
                match captures.get(index) {
                    Some(Capture::Part(start, end)) => out.extend_from_slice(&subject[*start..*end]),
                    Some(Capture::Position(at) | Capture::Open(at)) => {
                        out.extend_from_slice((at + 1).to_string().as_bytes());
                    }
                    None if index == 0 => out.extend_from_slice(&subject[whole.0..whole.1]),
                    None => return Err(fault(lua, "invalid capture index")),
                }
            }
            Some(other) => out.push(*other),
            None => out.push(0),
        }
    }
    Ok(())
}

/// `string.gsub`
fn replace(lua: &Lua, run: &SharedRun, args: &MultiValue) -> Result<MultiValue> {
    let (subject, pattern) = (text(lua, args, 1, "gsub")?, text(lua, args, 2, "gsub")?);
    let with = args.get(2).cloned().unwrap_or(Value::Nil);
    let template = bytes(&with);
    if template.is_none() && !matches!(with, Value::Table(_) | Value::Function(_)) {
        return Err(fault(lua, "bad argument #3 to 'gsub' (string/function/table expected)"));
    }
    let most = optional(lua, args, 4, "gsub")?.map_or(usize::MAX, |most| most.max(0.0) as usize);
    let anchored = pattern.first() == Some(&b'^');
    let ended = || ended(run);
    let mut matcher = Matcher::new(&subject, &pattern[usize::from(anchored)..], &ended);
    let (mut out, mut at, mut count) = (Vec::with_capacity(subject.len()), 0, 0);
    while count < most {
        let found = matcher.match_at(at).map_err(|reason| refused(lua, reason))?;
        if let Some(end) = found {
            count += 1;
            let captures = matcher.captures();
            let value = match (&template, &with) {
                (Some(template), _) => {
                    expanded(lua, template, &subject, (at, end), captures, &mut out)?;
                    None
                }
                (None, Value::Table(table)) => {
                    let key = all_captured(lua, &subject, (at, end), captures)?.swap_remove(0);
                    Some(table.get::<Value>(key)?)
                }
                (None, Value::Function(function)) => {
                    let values = all_captured(lua, &subject, (at, end), captures)?;
                    Some(function.call::<Value>(MultiValue::from_vec(values))?)
                }
                (None, _) => None,
            };
            match value {
                None => {}
                Some(Value::Nil | Value::Boolean(false)) => out.extend_from_slice(&subject[at..end]),
                Some(value) => match bytes(&value) {
                    Some(text) => out.extend_from_slice(&text),
                    None => {
                        let text = format!("invalid replacement value (a {})", type_name(Some(&value)));
                        return Err(fault(lua, text));
                    }
                },
            }
            if end > at {
                at = end;
                if anchored {
                    break;
                }
                continue;
            }
        }
        match subject.get(at) {
            Some(byte) => out.push(*byte),
            None => break,
        }
        at += 1;
        if anchored {
            break;
        }
        // The text that is built here is outside of the interpreter's memory.
        if out.len() > TEXT_MAX {
            return Err(fault(lua, "resulting string too large"));
        }
    }
    out.extend_from_slice(subject.get(at..).unwrap_or_default());
    Ok(MultiValue::from_vec(vec![Value::String(lua.create_string(out)?), Value::Number(count as f64)]))
}

/// Bytes of a text that is built outside of the interpreter's memory.
const TEXT_MAX: usize = 512 << 20;

/// `string.rep`
fn repeat(lua: &Lua, args: &MultiValue) -> Result<mlua::LuaString> {
    let part = text(lua, args, 1, "rep")?;
    let Some(count) = args.get(1).and_then(number) else {
        return Err(bad_argument(lua, 2, "rep", "number", args.get(1)));
    };
    let count = if part.is_empty() { 0 } else { count.max(0.0) as usize };
    match part.len().checked_mul(count).filter(|size| *size <= TEXT_MAX) {
        Some(_) => lua.create_string(part.repeat(count)),
        None => Err(fault(lua, "resulting string too large")),
    }
}

/// The functions that replace the interpreter's own.
pub(super) fn library(lua: &Lua, shared: &SharedRun) -> Result<Table> {
    let library = lua.create_table()?;
    let run = Arc::clone(shared);
    library.raw_set("find", lua.create_function(move |lua, args: MultiValue| search(lua, &run, &args, true))?)?;
    let run = Arc::clone(shared);
    library.raw_set("match", lua.create_function(move |lua, args: MultiValue| search(lua, &run, &args, false))?)?;
    let run = Arc::clone(shared);
    library.raw_set("gmatch", lua.create_function(move |lua, args: MultiValue| every(lua, &run, &args))?)?;
    let run = Arc::clone(shared);
    library.raw_set("gsub", lua.create_function(move |lua, args: MultiValue| replace(lua, &run, &args))?)?;
    library.raw_set("rep", lua.create_function(|lua, args: MultiValue| repeat(lua, &args))?)?;
    Ok(library)
}

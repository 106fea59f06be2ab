//! The functions of `string` that match patterns, and `rep`: as those of Lua 5.1, with bounds of
//! depth, of time (`patterns.rs`) and of memory (`outside.rs`).

use super::base::{bad_argument, type_name};
use super::fault::{self, Raised, fault};
use super::numbers::{Bytes, bytes, number};
use super::outside::Built;
use super::patterns::{Capture, Matcher, Refused, find_plain, is_plain};
use super::{SharedRun, ended};
use mlua::{Error, Function, Lua, MultiValue, Result, Table, Value};
use std::sync::Arc;

/// The registry's name of the function that makes the iterators of `string.gmatch`.
const MATCHES: &str = "matches";

fn refused(lua: &Lua, refused: Refused) -> Error {
    match refused {
        Refused::Malformed(text) => fault(lua, text),
        Refused::Ended => Raised::Ended.into(),
    }
}

fn text(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> Result<Bytes> {
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
        Capture::Position(at) => Ok(Value::Number((at + 1) as f64)),
        Capture::Open(_) => Err(fault(lua, "unfinished capture")),
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
    let subject = &*subject;
    let mut matcher = Matcher::new(subject, &pattern[usize::from(anchored)..], &ended);
    for at in start..=subject.len() {
        if let Some(end) = matcher.match_at(at).map_err(|reason| refused(lua, reason))? {
            let mut values = if finds { vec![number(at + 1), number(end)] } else { Vec::new() };
            if !finds || !matcher.captures().is_empty() {
                values.extend(all_captured(lua, subject, (at, end), matcher.captures())?);
            }
            return Ok(MultiValue::from_vec(values));
        }
        if anchored {
            break;
        }
    }
    Ok(MultiValue::from_vec(vec![Value::Nil]))
}

/// `string.gmatch`: the function that finds one match after the other. It keeps the two texts, so
/// it is one of the interpreter's.
fn every(lua: &Lua, args: &MultiValue) -> Result<Value> {
    let word = |index: usize| match args.get(index - 1) {
        Some(Value::String(word)) => Ok(word.clone()),
        _ => lua.create_string(&*text(lua, args, index, "gmatch")?),
    };
    lua.named_registry_value::<Function>(MATCHES)?.call((word(1)?, word(2)?))
}

/// The next match at or behind a place: the place for the one after it, and the captures.
fn match_from(lua: &Lua, run: &SharedRun, args: &MultiValue) -> Result<MultiValue> {
    let (subject, pattern) = (text(lua, args, 1, "gmatch")?, text(lua, args, 2, "gmatch")?);
    let (subject, first) = (&*subject, optional(lua, args, 3, "gmatch")?.unwrap_or(0.0) as usize);
    let ended = || ended(run);
    let mut matcher = Matcher::new(subject, &pattern, &ended);
    for at in first..=subject.len() {
        if let Some(end) = matcher.match_at(at).map_err(|reason| refused(lua, reason))? {
            let next = if end == at { end + 1 } else { end };
            let mut values = MultiValue::from_vec(all_captured(lua, subject, (at, end), matcher.captures())?);
            values.push_front(Value::Number(next as f64));
            return Ok(values);
        }
    }
    Ok(MultiValue::from_vec(vec![Value::Number((subject.len() + 1) as f64), Value::Nil]))
}

/// The replacement of a match by a text in which `%` and a digit stand for captures.
fn expanded(
    lua: &Lua,
    text: &[u8],
    subject: &[u8],
    whole: (usize, usize),
    captures: &[Capture],
    out: &mut Built<'_>,
) -> Result<()> {
    let mut rest = text;
    while let Some(size) = rest.iter().position(|byte| *byte == b'%') {
        out.add(&rest[..size])?;
        let after = rest.get(size + 1).copied().unwrap_or(0);
        rest = rest.get(size + 2..).unwrap_or_default();
        match after {
            b'0' => out.add(&subject[whole.0..whole.1])?,
            digit if digit.is_ascii_digit() => {
                let index = usize::from(digit - b'1');
                match captures.get(index) {
                    Some(Capture::Part(start, end)) => out.add(&subject[*start..*end])?,
                    Some(Capture::Position(at)) => out.add((at + 1).to_string().as_bytes())?,
                    Some(Capture::Open(_)) => return Err(fault(lua, "unfinished capture")),
                    None if index == 0 => out.add(&subject[whole.0..whole.1])?,
                    None => return Err(fault(lua, "invalid capture index")),
                }
            }
            other => out.push(other)?,
        }
    }
    out.add(rest)
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
    let (subject, ended) = (&*subject, || ended(run));
    let mut matcher = Matcher::new(subject, &pattern[usize::from(anchored)..], &ended);
    let (mut out, mut at, mut count) = (Built::new(lua, run), 0, 0);
    while count < most {
        let found = matcher.match_at(at).map_err(|reason| refused(lua, reason))?;
        if let Some(end) = found {
            count += 1;
            let captures = matcher.captures();
            let value = match (&template, &with) {
                (Some(template), _) => {
                    expanded(lua, template, subject, (at, end), captures, &mut out)?;
                    None
                }
                (None, Value::Table(table)) => {
                    let key = all_captured(lua, subject, (at, end), captures)?.swap_remove(0);
                    Some(match table.metatable() {
                        None => table.raw_get(key)?,
                        Some(_) => fault::call(lua, run, &lua.named_registry_value(INDEX)?, (table, key))?,
                    })
                }
                (None, Value::Function(function)) => {
                    let values = all_captured(lua, subject, (at, end), captures)?;
                    Some(fault::call(lua, run, function, MultiValue::from_vec(values))?)
                }
                (None, _) => None,
            };
            match value {
                None => {}
                Some(Value::Nil | Value::Boolean(false)) => out.add(&subject[at..end])?,
                Some(value) => match bytes(&value) {
                    Some(text) => out.add(&text)?,
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
            Some(byte) => out.push(*byte)?,
            None => break,
        }
        at += 1;
        if anchored {
            break;
        }
    }
    out.add(subject.get(at..).unwrap_or_default())?;
    Ok(MultiValue::from_vec(vec![Value::String(out.finish()?), Value::Number(count as f64)]))
}

/// The registry's name of the function that reads a field of a table with its metatable.
const INDEX: &str = "index";

/// `string.rep`
fn repeat(lua: &Lua, run: &SharedRun, args: &MultiValue) -> Result<mlua::LuaString> {
    let part = text(lua, args, 1, "rep")?;
    let Some(count) = args.get(1).and_then(number) else {
        return Err(bad_argument(lua, 2, "rep", "number", args.get(1)));
    };
    let mut out = Built::new(lua, run);
    out.repeat(&part, if part.is_empty() { 0 } else { count.max(0.0) as usize })?;
    out.finish()
}

/// The functions that replace the interpreter's own. `native` gets those that `sandbox.lua` needs
/// for them.
pub(super) fn library(lua: &Lua, native: &Table, shared: &SharedRun) -> Result<Table> {
    let keep = |name: &'static str| {
        lua.create_function(move |lua, function: Function| lua.set_named_registry_value(name, function))
    };
    native.raw_set("matches", keep(MATCHES)?)?;
    native.raw_set("index", keep(INDEX)?)?;
    let run = Arc::clone(shared);
    let next_match = lua.create_function(move |lua, args: MultiValue| match_from(lua, &run, &args))?;
    native.raw_set("match_from", next_match)?;
    let library = lua.create_table()?;
    let run = Arc::clone(shared);
    library.raw_set("find", lua.create_function(move |lua, args: MultiValue| search(lua, &run, &args, true))?)?;
    let run = Arc::clone(shared);
    library.raw_set("match", lua.create_function(move |lua, args: MultiValue| search(lua, &run, &args, false))?)?;
    library.raw_set("gmatch", lua.create_function(|lua, args: MultiValue| every(lua, &args))?)?;
    let run = Arc::clone(shared);
    library.raw_set("gsub", lua.create_function(move |lua, args: MultiValue| replace(lua, &run, &args))?)?;
    let run = Arc::clone(shared);
    library.raw_set("rep", lua.create_function(move |lua, args: MultiValue| repeat(lua, &run, &args))?)?;
    Ok(library)
}

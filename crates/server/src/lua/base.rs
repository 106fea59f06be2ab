//! Functions of the sandbox that know which tables are protected (LUA-1), and how errors are
//! caught (LUA-2).

use super::fault::{self, Raised, failure, fault, passing, raised, text, without_place};
use super::{SharedRun, ended, numbers};
use mlua::{Error, Function, Lua, MultiValue, Result, Table, Value};
use std::sync::Arc;

const MODIFY: &[u8] = b"Attempt to modify a readonly table";
/// The registry's name of the metatable of strings, as scripts see it.
const STRINGS: &str = "strings";

/// The name of a value's type in errors about arguments.
pub(super) fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None => "no value",
        Some(Value::Integer(_)) => "number",
        Some(Value::Error(_) | Value::LightUserData(_)) => "userdata",
        Some(value) => value.type_name(),
    }
}

/// The error of an argument that has the wrong type.
pub(super) fn bad_argument(lua: &Lua, index: usize, function: &str, wanted: &str, found: Option<&Value>) -> Error {
    let found = type_name(found);
    fault(lua, format!("bad argument #{index} to '{function}' ({wanted} expected, got {found})"))
}

/// The table that an argument has to be.
fn table(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> Result<Table> {
    match args.get(index - 1) {
        Some(Value::Table(table)) => Ok(table.clone()),
        other => Err(bad_argument(lua, index, function, "table", other)),
    }
}

/// The functions that `sandbox.lua` builds the globals from.
pub(super) fn native(lua: &Lua, shared: &SharedRun) -> Result<Table> {
    let native = lua.create_table()?;
    let behind = lua.create_table()?;
    native.raw_set("behind", &behind)?;
    let hidden = move |table: &Table| behind.raw_get::<Option<Table>>(table);
    let function = |name: &str, function: Function| native.raw_set(name, function);

    let raw_next: Function = lua.globals().get("next")?;
    let (look, of_any) = (hidden.clone(), raw_next.clone());
    let next = lua.create_function(move |lua, args: MultiValue| {
        let table = table(lua, &args, 1, "next")?;
        let table = look(&table)?.unwrap_or(table);
        let key = args.get(1).cloned().unwrap_or(Value::Nil);
        // Its only error is one without a place.
        of_any.call::<MultiValue>((table, key)).map_err(|error| Error::from(Raised::Text(text(&error))))
    })?;
    function("next", next.clone())?;
    let look = hidden.clone();
    function(
        "pairs",
        lua.create_function(move |lua, args: MultiValue| {
            let table = table(lua, &args, 1, "pairs")?;
            // The table behind a protected one stays behind it: `next` looks there itself.
            let next = if look(&table)?.is_some() { &next } else { &raw_next };
            Ok((next.clone(), table, Value::Nil))
        })?,
    )?;
    let look = hidden.clone();
    function(
        "rawget",
        lua.create_function(move |lua, args: MultiValue| {
            let table = table(lua, &args, 1, "rawget")?;
            look(&table)?.unwrap_or(table).raw_get::<Value>(args.get(1).cloned().unwrap_or(Value::Nil))
        })?,
    )?;
    let look = hidden.clone();
    function(
        "rawset",
        lua.create_function(move |lua, args: MultiValue| {
            let table = table(lua, &args, 1, "rawset")?;
            if look(&table)?.is_some() {
                return Err(Raised::Text(MODIFY.to_vec()).into());
            }
            let word = |index: usize| args.get(index).cloned().unwrap_or(Value::Nil);
            table.raw_set(word(1), word(2)).map_err(|error| Error::from(Raised::Text(text(&error))))?;
            Ok(table)
        })?,
    )?;
    let look = hidden.clone();
    function(
        "getmetatable",
        lua.create_function(move |lua, args: MultiValue| match args.front() {
            Some(Value::Table(table)) if look(table)?.is_none() => match table.metatable() {
                Some(metatable) => match metatable.raw_get("__metatable")? {
                    Value::Nil => Ok(Value::Table(metatable)),
                    shown => Ok(shown),
                },
                None => Ok(Value::Nil),
            },
            Some(Value::String(_)) => lua.named_registry_value(STRINGS),
            Some(_) => Ok(Value::Nil),
            None => Err(fault(lua, "bad argument #1 to 'getmetatable' (value expected)")),
        })?,
    )?;
    function(
        "setmetatable",
        lua.create_function(move |lua, args: MultiValue| {
            let table = table(lua, &args, 1, "setmetatable")?;
            let metatable = match args.get(1) {
                Some(Value::Nil) => None,
                Some(Value::Table(metatable)) => Some(metatable.clone()),
                _ => return Err(fault(lua, "bad argument #2 to 'setmetatable' (nil or table expected)")),
            };
            if hidden(&table)?.is_some() {
                return Err(Raised::Text(MODIFY.to_vec()).into());
            }
            if let Some(old) = table.metatable()
                && old.raw_get::<Value>("__metatable")? != Value::Nil
            {
                return Err(fault(lua, "cannot change a protected metatable"));
            }
            table.set_metatable(metatable)?;
            Ok(table)
        })?,
    )?;
    function(
        "strings",
        lua.create_function(|lua, metatable: Value| lua.set_named_registry_value(STRINGS, metatable))?,
    )?;
    function("guard", lua.create_function(|lua, guard: Function| lua.set_named_registry_value(fault::GUARD, guard))?)?;
    function("refuse", lua.create_function(|lua, text: mlua::LuaString| Err::<(), _>(fault(lua, &*text.as_bytes())))?)?;
    let run = Arc::clone(shared);
    function("keep", lua.create_function(move |lua, value: Value| fault::keep(lua, &run, &value))?)?;
    let run = Arc::clone(shared);
    function(
        "caught",
        lua.create_function(move |lua, (value, as_text): (Value, bool)| {
            if ended(&run) {
                return Err(Raised::Ended.into());
            }
            caught(lua, value, as_text)
        })?,
    )?;
    let run = Arc::clone(shared);
    function(
        "failed",
        lua.create_function(move |lua, value: Value| {
            run.lock().failure = Some(failure(lua, &value));
            Ok(true)
        })?,
    )?;
    numbers_of(lua, &native, shared)?;
    Ok(native)
}

/// The value of a caught error in the script. `pcall` gets the text of a table with a text as
/// `err`, as in Redis.
fn caught(lua: &Lua, value: Value, as_text: bool) -> Result<Value> {
    match value {
        Value::Error(error) => match raised(&error) {
            Some(Raised::Ended) => Err(Raised::Ended.into()),
            Some(Raised::Reply(text)) if !as_text => {
                let table = lua.create_table()?;
                table.raw_set("err", lua.create_string(text)?)?;
                table.raw_set("ignore_error_stats_update", true)?;
                Ok(Value::Table(table))
            }
            Some(Raised::Passing(_)) => caught(lua, passing(lua), as_text),
            _ => Ok(Value::String(lua.create_string(text(&error))?)),
        },
        Value::String(text) => {
            let bytes = text.as_bytes();
            let shown = without_place(&bytes);
            if shown.len() == bytes.len() {
                Ok(Value::String(text))
            } else {
                lua.create_string(shown).map(Value::String)
            }
        }
        Value::Table(table) if as_text => match table.raw_get("err")? {
            text @ (Value::String(_) | Value::Integer(_) | Value::Number(_)) => Ok(text),
            _ => Ok(Value::Table(table)),
        },
        other => Ok(other),
    }
}

/// `math.random` and `math.randomseed`.
fn numbers_of(lua: &Lua, native: &Table, shared: &SharedRun) -> Result<()> {
    let run = Arc::clone(shared);
    native.raw_set(
        "random",
        lua.create_function(move |lua, args: MultiValue| {
            let fraction = run.lock().random.fraction();
            let bound = |index: usize| match args.get(index).and_then(numbers::number) {
                Some(number) => Ok(number.trunc()),
                None => Err(bad_argument(lua, index + 1, "random", "number", args.get(index))),
            };
            let (low, high) = match args.len() {
                0 => return Ok(fraction),
                1 => (1.0, bound(0)?),
                2 => (bound(0)?, bound(1)?),
                _ => return Err(fault(lua, "wrong number of arguments")),
            };
            if low > high {
                let text = format!("bad argument #{} to 'random' (interval is empty)", args.len());
                return Err(fault(lua, text));
            }
            Ok((fraction * (high - low + 1.0)).floor() + low)
        })?,
    )?;
    let run = Arc::clone(shared);
    native.raw_set(
        "randomseed",
        lua.create_function(move |lua, args: MultiValue| {
            let Some(seed) = args.front().and_then(numbers::number) else {
                return Err(bad_argument(lua, 1, "randomseed", "number", args.front()));
            };
            run.lock().random = super::random::Random::new(numbers::truncated(seed) as u32);
            Ok(())
        })?,
    )
}

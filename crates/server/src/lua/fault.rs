//! Errors that functions of the server raise in scripts.

use super::{Failure, SharedRun, ended};
use mlua::{Error, Function, IntoLuaMulti, Lua, Result, Value};
use std::fmt;

/// The name of the chunks of the sandbox. Errors of scripts do not show it.
pub(super) const SANDBOX: &str = "=[sandbox]";
/// The registry's name of the function that calls a script's function and catches its error.
pub(super) const GUARD: &str = "guard";
/// The registry's name of the error that passes through a function of the server.
const PASSING: &str = "passing";

/// An error raised by a function of the server.
#[derive(Debug)]
pub(super) enum Raised {
    /// Lua's own kind: a text.
    Text(Vec<u8>),
    /// Redis's: a table with the text as `err`.
    Reply(Vec<u8>),
    /// A function of the script raised it, which a function of the server had called: the value is
    /// the registry's, under [`PASSING`], until it is caught. The place is that of the script.
    Passing(Option<Place>),
    /// The script has to end (LUA-2).
    Ended,
}

/// A chunk and a line.
pub(super) type Place = (String, usize);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raised::Text(text) | Raised::Reply(text) => f.write_str(&String::from_utf8_lossy(text)),
            Raised::Passing(_) => f.write_str("an error of a script"),
            Raised::Ended => f.write_str("the script has to end"),
        }
    }
}

impl std::error::Error for Raised {}

impl From<Raised> for Error {
    fn from(raised: Raised) -> Error {
        Error::external(raised)
    }
}

/// The error of a function of the server, if it was one.
pub(super) fn raised(error: &Error) -> Option<&Raised> {
    error.downcast_ref()
}

/// The text of an error.
pub(super) fn text(error: &Error) -> Vec<u8> {
    match (raised(error), error) {
        (Some(Raised::Text(text) | Raised::Reply(text)), _) => text.clone(),
        (None, Error::CallbackError { cause, .. }) => text(cause),
        (None, Error::MemoryError(_)) => b"not enough memory".to_vec(),
        (None, Error::StackError) => b"stack overflow".to_vec(),
        (None, Error::RuntimeError(text)) => {
            // The bindings append the stack to errors of the interpreter that pass through them.
            let text = text.split("\nstack traceback:\n").next().unwrap_or_default();
            without_place(text.as_bytes()).to_vec()
        }
        _ => error.to_string().into_bytes(),
    }
}

/// A text without a place in the sandbox in front of it.
pub(super) fn without_place(text: &[u8]) -> &[u8] {
    let Some(rest) = text.strip_prefix(&SANDBOX.as_bytes()[1..]).and_then(|rest| rest.strip_prefix(b":")) else {
        return text;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest[digits..].strip_prefix(b": ").unwrap_or(text)
}

/// The text that a value shows as an error.
pub(super) fn shown(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => without_place(&text.as_bytes()).to_vec(),
        Value::Integer(number) => number.to_string().into_bytes(),
        Value::Number(number) => super::numbers::short(*number).into_bytes(),
        Value::Boolean(value) => value.to_string().into_bytes(),
        Value::Nil => b"nil".to_vec(),
        Value::Error(error) => text(error),
        other => other.type_name().as_bytes().to_vec(),
    }
}

/// An error of Lua's kind, with the place of the script's function that called this one.
pub(super) fn fault(lua: &Lua, text: impl AsRef<[u8]>) -> Error {
    let caller = |level: usize| {
        lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let place = |line: usize| Some(format!("{}:{line}: ", source.short_src.as_ref()?));
            let own = source.source.as_ref().is_some_and(|source| source == SANDBOX);
            if own { None } else { Some(frame.current_line().and_then(place).unwrap_or_default()) }
        })
    };
    let place = (1..).map_while(caller).flatten().next().unwrap_or_default();
    Raised::Text([place.as_bytes(), text.as_ref()].concat()).into()
}

/// An error of Redis's kind. A text without a code gets one.
pub(super) fn refusal(text: impl AsRef<[u8]>) -> Error {
    Raised::Reply([b"ERR ", text.as_ref()].concat()).into()
}

/// The error of a run, in Redis's form: `value` was raised, and the stack is as it was then.
pub(super) fn failure(lua: &Lua, value: &Value) -> Failure {
    let code = |text: Vec<u8>| [b"ERR ", &text[..]].concat();
    let text = match value {
        Value::Table(table) => match table.raw_get::<Value>("err") {
            Ok(Value::String(text)) => text.as_bytes().to_vec(),
            _ => b"ERR unknown error".to_vec(),
        },
        Value::Error(error) => match raised(error) {
            Some(Raised::Reply(text)) => text.clone(),
            Some(Raised::Passing(place)) => return Failure { place: place.clone(), ..failure(lua, &passing(lua)) },
            _ => code(text(error)),
        },
        other => code(shown(other)),
    };
    Failure { text, place: first_place(lua) }
}

/// The place of the function of a script that is nearest on the stack.
fn first_place(lua: &Lua) -> Option<Place> {
    (1..).map_while(|level| place(lua, level)).flatten().next()
}

/// The chunk and the line of a level of the stack, if it is a script's; `None` behind the last
/// level.
fn place(lua: &Lua, level: usize) -> Option<Option<Place>> {
    lua.inspect_stack(level, |frame| {
        let source = frame.source().source?.into_owned();
        let line = frame.current_line()?;
        let own = SANDBOX == source || source == "=[C]";
        (!own).then_some((source, line))
    })
}

/// Calls a function that may be a script's. Its error is raised again as it is.
pub(super) fn call(lua: &Lua, run: &SharedRun, function: &Function, args: impl IntoLuaMulti) -> Result<Value> {
    let guard: Function = lua.named_registry_value(GUARD)?;
    let mut args = args.into_lua_multi(lua)?;
    args.push_front(Value::Function(function.clone()));
    match guard.call::<(bool, Value)>(args)? {
        (true, value) => Ok(value),
        _ if ended(run) => Err(Raised::Ended.into()),
        (false, Value::Boolean(true)) => Err(Raised::Passing(run.lock().passing.take()).into()),
        // The handler itself did not run: memory or the stack was short.
        (false, value) => Err(Raised::Text(shown(&value)).into()),
    }
}

/// The handler of [`call`]: keeps an error, while the stack is as it was.
pub(super) fn keep(lua: &Lua, run: &SharedRun, value: &Value) -> Result<bool> {
    let kept = match value {
        Value::Error(error) => raised(error),
        _ => None,
    };
    let place = match kept {
        Some(Raised::Passing(place)) => place.clone(),
        _ => {
            lua.set_named_registry_value(PASSING, value)?;
            first_place(lua)
        }
    };
    run.lock().passing = place;
    Ok(true)
}

/// The error that [`keep`] has kept; it is the registry's no longer.
pub(super) fn passing(lua: &Lua) -> Value {
    let value = lua.named_registry_value(PASSING).unwrap_or(Value::Nil);
    let _ = lua.unset_named_registry_value(PASSING);
    value
}

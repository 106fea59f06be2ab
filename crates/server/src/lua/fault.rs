//! Errors that functions of the server raise in scripts.

use super::Failure;
use mlua::{Error, Lua, Value};
use std::fmt;

/// The name of the chunk that makes the globals, which no script's error names.
pub(super) const SANDBOX: &str = "=sandbox";

/// An error raised by a function of the server.
#[derive(Debug)]
pub(super) enum Raised {
    /// Lua's own kind: a text.
    Text(Vec<u8>),
    /// Redis's: a table with the text as `err`.
    Reply(Vec<u8>),
    /// The script has to end (LUA-2).
    Ended,
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raised::Text(text) | Raised::Reply(text) => f.write_str(&String::from_utf8_lossy(text)),
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
        (None, Error::RuntimeError(text)) => text.clone().into_bytes(),
        _ => error.to_string().into_bytes(),
    }
}

/// The text that a value shows as an error.
pub(super) fn shown(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Integer(number) => number.to_string().into_bytes(),
        Value::Number(number) => super::numbers::short(*number).into_bytes(),
        Value::Boolean(value) => value.to_string().into_bytes(),
        Value::Nil => b"nil".to_vec(),
        Value::Error(error) => text(error),
        other => other.type_name().as_bytes().to_vec(),
    }
}

/// An error of Lua's kind, with the place of the function that called this one.
pub(super) fn fault(lua: &Lua, text: impl AsRef<[u8]>) -> Error {
    let place = lua.inspect_stack(1, |frame| {
        let line = frame.current_line()?;
        Some(format!("{}:{line}: ", frame.source().short_src?))
    });
    let place = place.flatten().unwrap_or_default();
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
            _ => code(text(error)),
        },
        other => code(shown(other)),
    };
    Failure { text, place: (1..).map_while(|level| place(lua, level)).flatten().next() }
}

/// The chunk and the line of a level of the stack, if it is a script's; `None` behind the last
/// level.
fn place(lua: &Lua, level: usize) -> Option<Option<(String, usize)>> {
    lua.inspect_stack(level, |frame| {
        let source = frame.source().source?.into_owned();
        let line = frame.current_line()?;
        let own = SANDBOX == source || source == "=[C]";
        (!own).then_some((source, line))
    })
}

//! The table `redis` of scripts.
//!
//! Questions to the server go through the function `reach`, which lives as long as a run: its first
//! argument is the kind of question.

use super::fault::{Raised, raised, refusal, text};
use super::header::{BAD_NAME, ScriptFlags, is_name};
use super::{Answer, HOST, Host, Kept, Purpose, Registered, SharedRun, convert, numbers};
use crate::resp::parse::{Args, ArgumentSpan};
use crate::resp::reply::Protocol;
use crate::sha1::sha1_hex;
use crate::version::REDIS_VERSION;
use mlua::{Function, Lua, MultiValue, Result, Table, Value};
use std::sync::Arc;

/// Levels of `redis.log`.
const LEVELS: [(&str, i64); 4] = [("LOG_DEBUG", 0), ("LOG_VERBOSE", 1), ("LOG_NOTICE", 2), ("LOG_WARNING", 3)];
/// Arguments of `redis.set_repl`. They have no effect: replicas get changes, not scripts.
const REPLICATION: [(&str, i64); 5] =
    [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)];
/// The question of `redis.acl_check_cmd`.
const PERMITS: i64 = 1;
/// The question of `redis.call`.
const COMMAND: i64 = 0;

const NO_WORDS: &str = "Please specify at least one argument for this redis lib call";

/// The words of a command.
#[derive(Default)]
pub(super) struct Words {
    bytes: Vec<u8>,
    spans: Vec<ArgumentSpan>,
}

impl Words {
    fn add(&mut self, word: &[u8], size_max: usize) -> Option<()> {
        let (start, size) = (u32::try_from(self.bytes.len()).ok()?, u32::try_from(word.len()).ok()?);
        if self.bytes.len() + word.len() > size_max {
            return None;
        }
        self.spans.push(ArgumentSpan { start, size });
        self.bytes.extend_from_slice(word);
        Some(())
    }

    fn read(values: impl Iterator<Item = Value>, size_max: usize) -> std::result::Result<Words, &'static str> {
        let mut words = Words::default();
        for value in values {
            let added = match value {
                Value::String(text) => words.add(&text.as_bytes(), size_max),
                Value::Integer(number) => words.add(numbers::general(number as f64, 17).as_bytes(), size_max),
                Value::Number(number) => words.add(numbers::general(number, 17).as_bytes(), size_max),
                _ => return Err("Lua redis lib command arguments must be strings or integers"),
            };
            added.ok_or("Lua redis lib command arguments are too large")?;
        }
        if words.spans.is_empty() { Err(NO_WORDS) } else { Ok(words) }
    }
}

/// Answers a question about [`super::Run::words`] by the host of the run: whether the value is an
/// error, and the value.
pub(super) fn reach(lua: &Lua, run: &SharedRun, host: &mut dyn Host, question: i64) -> Result<(bool, Value)> {
    let words = std::mem::take(&mut run.lock().words);
    let args = Args::new(&words.bytes, &words.spans);
    if question == PERMITS {
        return match host.permits(args) {
            Some(permitted) => Ok((false, Value::Boolean(permitted))),
            None => {
                let text = b"ERR Invalid command passed to redis.acl_check_cmd()";
                Ok((true, convert::error_table(lua, text)?))
            }
        };
    }
    let protocol = run.lock().protocol;
    match host.command(args, protocol) {
        Answer::Reply(reply) => {
            let value = convert::read_reply(lua, &reply)?;
            let collect_at = run.lock().collect_at;
            if lua.used_memory() > collect_at {
                lua.gc_collect()?;
                let mut run = run.lock();
                run.collect_at = collect_at.max(lua.used_memory() + run.collect_step);
            }
            Ok((reply.first() == Some(&b'-'), value))
        }
        Answer::End => {
            run.lock().end.get_or_insert(super::End::Host);
            Err(Raised::Ended.into())
        }
    }
}

/// Asks the host of the run.
fn ask(lua: &Lua, run: &SharedRun, question: i64, args: MultiValue) -> Result<(bool, Value)> {
    let Ok(reach) = lua.named_registry_value::<Function>(HOST) else {
        return Err(refusal("redis.call can only be called inside a script invocation"));
    };
    let words_max = run.lock().words_max;
    // The interpreter's stack has room for the arguments once: the words go beside it.
    match Words::read(args.into_iter(), words_max) {
        Ok(words) => run.lock().words = words,
        Err(text) => return Ok((true, convert::error_table(lua, format!("ERR {text}").as_bytes())?)),
    }
    reach.call(question).map_err(|error| match raised(&error) {
        Some(Raised::Ended) => Raised::Ended.into(),
        _ => Raised::Text(text(&error)).into(),
    })
}

/// The value of an answer, or its error.
fn raise(answer: (bool, Value)) -> Result<Value> {
    match answer {
        (true, Value::Table(table)) => match table.raw_get("err")? {
            Value::String(text) => Err(Raised::Reply(text.as_bytes().to_vec()).into()),
            _ => Err(refusal("unknown error")),
        },
        (_, value) => Ok(value),
    }
}

/// The text of an error reply: without a `-` in front, and with the code `ERR` if it has none.
fn coded(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    match text[..end].contains(&b' ') {
        true => text[..end].to_vec(),
        false => [b"ERR ", &text[..end]].concat(),
    }
}

fn constants(lua: &Lua, library: &Table) -> Result<()> {
    for (name, value) in LEVELS {
        library.raw_set(name, value)?;
    }
    let numbers: Vec<i64> = REDIS_VERSION.split('.').filter_map(|part| part.parse().ok()).collect();
    library.raw_set("REDIS_VERSION", REDIS_VERSION)?;
    library.raw_set("REDIS_VERSION_NUM", numbers.iter().fold(0, |version, part| version << 8 | part))?;
    library.raw_set("log", lua.create_function(log)?)
}

/// `redis.log`: arguments are checked; the server keeps no log.
fn log(_: &Lua, args: MultiValue) -> Result<()> {
    match args.front().map(numbers::number) {
        None | Some(_) if args.len() < 2 => Err(refusal("redis.log() requires two arguments or more.")),
        Some(Some(level)) if LEVELS.iter().any(|(_, known)| *known as f64 == level) => Ok(()),
        Some(Some(_)) => Err(refusal("Invalid debug level.")),
        _ => Err(refusal("First argument must be a number (log level).")),
    }
}

/// The library of scripts.
pub(super) fn library(lua: &Lua, shared: &SharedRun, purpose: Purpose) -> Result<Table> {
    let library = lua.create_table()?;
    constants(lua, &library)?;
    for (name, value) in REPLICATION {
        library.raw_set(name, value)?;
    }
    let set = |name: &str, function: Function| library.raw_set(name, function);
    let run = Arc::clone(shared);
    set("call", lua.create_function(move |lua, args: MultiValue| raise(ask(lua, &run, COMMAND, args)?))?)?;
    let run = Arc::clone(shared);
    set("pcall", lua.create_function(move |lua, args: MultiValue| Ok(ask(lua, &run, COMMAND, args)?.1))?)?;
    let run = Arc::clone(shared);
    set("acl_check_cmd", lua.create_function(move |lua, args: MultiValue| raise(ask(lua, &run, PERMITS, args)?))?)?;
    set(
        "sha1hex",
        lua.create_function(|_, args: MultiValue| match (args.len(), args.front().and_then(numbers::bytes)) {
            (1, Some(text)) => Ok(sha1_hex(&text)),
            (1, None) => Ok(sha1_hex(b"")),
            _ => Err(refusal("wrong number of arguments")),
        })?,
    )?;
    set(
        "error_reply",
        lua.create_function(|lua, args: MultiValue| {
            let text = match (args.len(), args.front()) {
                (1, Some(Value::String(text))) => coded(&text.as_bytes()),
                _ => b"ERR wrong number or type of arguments".to_vec(),
            };
            let table = lua.create_table()?;
            table.raw_set("err", lua.create_string(text)?)?;
            Ok(table)
        })?,
    )?;
    set(
        "status_reply",
        lua.create_function(|lua, args: MultiValue| {
            let table = lua.create_table()?;
            match (args.len(), args.front()) {
                (1, Some(Value::String(text))) => table.raw_set("ok", text)?,
                _ => table.raw_set("err", "ERR wrong number or type of arguments")?,
            }
            Ok(table)
        })?,
    )?;
    let run = Arc::clone(shared);
    set(
        "setresp",
        lua.create_function(move |_, args: MultiValue| {
            if args.len() != 1 {
                return Err(refusal("redis.setresp() requires one argument."));
            }
            run.lock().protocol = match args.front().and_then(numbers::number) {
                Some(2.0) => Protocol::Resp2,
                Some(3.0) => Protocol::Resp3,
                _ => return Err(refusal("RESP version must be 2 or 3.")),
            };
            Ok(())
        })?,
    )?;
    set(
        "set_repl",
        lua.create_function(|_, args: MultiValue| match (args.len(), args.front().and_then(numbers::number)) {
            (1, Some(flags)) if (0.0..=3.0).contains(&flags) => Ok(()),
            (1, _) => {
                let text = "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
                Err(refusal(text))
            }
            _ => Err(refusal("redis.set_repl() requires two arguments.")),
        })?,
    )?;
    if purpose == Purpose::Scripts {
        set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
        set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
        set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    }
    Ok(library)
}

/// The library while functions are registered.
pub(super) fn loading(lua: &Lua, shared: &SharedRun) -> Result<Table> {
    let library = lua.create_table()?;
    constants(lua, &library)?;
    let run = Arc::clone(shared);
    let register = lua.create_function(move |lua, args: MultiValue| register(lua, &run, &args))?;
    library.raw_set("register_function", register)?;
    Ok(library)
}

/// `redis.register_function`
fn register(lua: &Lua, run: &SharedRun, args: &MultiValue) -> Result<()> {
    let found = match (args.front(), args.get(1), args.len()) {
        (Some(Value::Table(named)), None, _) => by_names(lua, named)?,
        (_, _, 1) => {
            let text = "calling redis.register_function with a single argument is only applicable to Lua table \
                        (representing named arguments).";
            return Err(refusal(text));
        }
        (Some(name), Some(function), 2) => {
            let name = numbers::bytes(name)
                .ok_or_else(|| refusal("first argument to redis.register_function must be a string"))?;
            let Value::Function(function) = function else {
                return Err(refusal("second argument to redis.register_function must be a function"));
            };
            let function = Kept::new(lua, function.clone())?;
            Registered { name: name.to_vec(), description: None, flags: ScriptFlags::empty(), function }
        }
        _ => return Err(refusal("wrong number of arguments to redis.register_function")),
    };
    if !is_name(&found.name) {
        return Err(refusal(BAD_NAME));
    }
    let mut run = run.lock();
    if run.registered.iter().any(|other| other.name == found.name) {
        return Err(refusal("Function already exists in the library"));
    }
    run.registered.push(found);
    Ok(())
}

fn by_names(lua: &Lua, named: &Table) -> Result<Registered> {
    let (mut name, mut description, mut function, mut flags) = (None, None, None, ScriptFlags::empty());
    let unknown = || refusal("unknown argument given to redis.register_function");
    for pair in named.pairs::<Value, Value>() {
        let (Value::String(key), value) = pair? else { return Err(unknown()) };
        let string = || {
            let word = String::from_utf8_lossy(&key.as_bytes()).into_owned();
            let text = format!("{word} argument given to redis.register_function must be a string");
            numbers::bytes(&value).map(|text| text.to_vec()).ok_or_else(|| refusal(text))
        };
        match &*key.as_bytes() {
            b"function_name" => name = Some(string()?),
            b"description" => description = Some(string()?),
            b"callback" => match value {
                Value::Function(value) => function = Some(value),
                _ => return Err(refusal("callback argument given to redis.register_function must be a function")),
            },
            b"flags" => {
                let Value::Table(list) = value else {
                    let text = "flags argument to redis.register_function must be a table representing function flags";
                    return Err(refusal(text));
                };
                flags = flags_of(&list)?;
            }
            _ => return Err(unknown()),
        }
    }
    let name = name.ok_or_else(|| refusal("redis.register_function must get a function name argument"))?;
    let function = function.ok_or_else(|| refusal("redis.register_function must get a callback argument"))?;
    Ok(Registered { name, description, flags, function: Kept::new(lua, function)? })
}

fn flags_of(list: &Table) -> Result<ScriptFlags> {
    let mut flags = ScriptFlags::empty();
    for index in 1.. {
        let flag = match list.raw_get::<Value>(index)? {
            Value::Nil => break,
            value => numbers::bytes(&value).and_then(|name| ScriptFlags::named(&name)),
        };
        flags |= flag.ok_or_else(|| refusal("unknown flag given"))?;
    }
    Ok(flags)
}

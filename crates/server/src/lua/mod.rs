//! Scripts in Lua 5.1, in the dialect of Redis.
//!
//! An [`Interpreter`] is one state of Lua with the globals that scripts may have: the libraries of
//! Lua without files, processes and bytecode, those that Redis adds (`cjson`, `cmsgpack`, `bit`,
//! `struct`), and `redis`. A script asks the server for commands through a [`Host`], which lives as
//! long as the run.
//!
//! A run is bounded: by memory of the state, by time, and by depth wherever nested data or patterns
//! are followed. Nothing but loaded functions stays in the state between two runs.
//!
//! Invariants
//!   LUA-1  No script changes a table that another script can see.
//!   LUA-2  A script that has to end ends, whatever it catches.
//!
//! Files: `sandbox.lua` makes the globals, `api.rs` has `redis`, `base.rs` the functions that know
//! protected tables, `convert.rs` replies as values and back.
//!
//! Design: docs/design/server-scripts.md

mod api;
mod base;
mod bits;
mod convert;
mod fault;
mod header;
mod json;
mod known;
mod libraries;
mod msgpack;
mod numbers;
mod patterns;
mod random;
mod strings;
mod structs;
#[cfg(test)]
mod tests;

use crate::resp::parse::Args;
use crate::resp::reply::Protocol;
use fault::Raised;
use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use convert::write_value;
pub(crate) use header::{Header, ScriptFlags};
pub(crate) use known::Scripts;
pub(crate) use libraries::Functions;

/// Instructions between two looks at the clock.
const INSTRUCTIONS: u32 = 10_000;
/// The time that a library has to register its functions.
const LOADING: Duration = Duration::from_millis(500);
/// The registry's name of the function that reaches the host of the run.
const HOST: &str = "host";

/// Answers a script while it runs.
pub(crate) trait Host {
    /// Executes a command; the reply is an error's where it was refused.
    fn command(&mut self, args: Args<'_>, protocol: Protocol) -> Answer;
    /// Whether the caller may give this command; `None` if there is no such command.
    fn permits(&mut self, args: Args<'_>) -> Option<bool>;
}

/// The end of a command of a script.
pub(crate) enum Answer {
    /// The reply.
    Reply(Vec<u8>),
    /// The script may not go on.
    End,
}

/// The reason why a script had to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It ran for too long.
    Time,
    /// Its host said so.
    Host,
}

/// An error of a script, in Redis's form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The text.
    pub text: Vec<u8>,
    /// The chunk and the line.
    pub place: Option<(String, usize)>,
}

/// The end of a run.
pub(crate) enum Finished {
    /// It returned a value, and has chosen this protocol for replies.
    Value(Value, Protocol),
    /// It raised an error.
    Failed(Failure),
    /// It failed outside of the reach of its own error handler, with this text.
    Broken(Vec<u8>),
    /// It had to end.
    Ended(End),
}

/// The state of the run under way, which the functions of the interpreter share.
#[derive(Default)]
struct Run {
    deadline: Option<Instant>,
    end: Option<End>,
    /// The protocol of replies to commands.
    protocol: Protocol,
    /// Memory at which a command collects garbage, and how far above the rest the next one does:
    /// the interpreter's own steps are too short for large values.
    collect_at: usize,
    collect_step: usize,
    random: random::Random,
    json: json::Settings,
    failure: Option<Failure>,
    /// Functions that the library under way has registered.
    registered: Vec<Registered>,
}

type SharedRun = Arc<Mutex<Run>>;

/// A function of a library.
#[derive(Clone)]
pub(crate) struct Registered {
    /// Its name.
    pub name: Vec<u8>,
    /// Its description.
    pub description: Option<Vec<u8>>,
    /// Its flags.
    pub flags: ScriptFlags,
    /// The function itself.
    pub function: Function,
}

/// Whether the run has to end.
fn ended(run: &Mutex<Run>) -> bool {
    let mut run = run.lock();
    if run.end.is_none() && run.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        run.end = Some(End::Time);
    }
    run.end.is_some()
}

/// The scripts of EVAL, or functions: their globals differ a little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Scripts, with the globals KEYS and ARGV.
    Scripts,
    /// Functions of libraries.
    Functions,
}

impl Purpose {
    fn chunk(self) -> &'static str {
        match self {
            Purpose::Scripts => "@user_script",
            Purpose::Functions => "@user_function",
        }
    }
}

/// See the head of this file.
pub(crate) struct Interpreter {
    lua: Lua,
    purpose: Purpose,
    shared: SharedRun,
    /// The globals as scripts see them.
    globals: Table,
    /// The table behind it.
    base: Table,
    run: Function,
    load_library: Function,
    clean: Function,
    memory_max: usize,
}

/// Arguments of a run.
pub(crate) struct Input<'i> {
    /// The keys.
    pub keys: Vec<&'i [u8]>,
    /// The other arguments.
    pub args: Vec<&'i [u8]>,
    /// The time it may take; `None`: any.
    pub time_max: Option<Duration>,
    /// The seed of its random numbers.
    pub seed: u32,
}

impl Interpreter {
    /// A state without scripts, of at most `memory_max` bytes.
    pub(crate) fn new(purpose: Purpose, memory_max: usize) -> mlua::Result<Interpreter> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let shared = SharedRun::default();
        let native = base::native(&lua, &shared)?;
        let libraries = lua.create_table()?;
        libraries.raw_set("redis", api::library(&lua, &shared, purpose)?)?;
        libraries.raw_set("bit", bits::library(&lua)?)?;
        libraries.raw_set("cjson", json::library(&lua, &shared)?)?;
        libraries.raw_set("cmsgpack", msgpack::library(&lua)?)?;
        libraries.raw_set("struct", structs::library(&lua)?)?;
        native.raw_set("libraries", libraries)?;
        native.raw_set("string", strings::library(&lua, &shared)?)?;
        if purpose == Purpose::Functions {
            native.raw_set("loading", api::loading(&lua, &shared)?)?;
        }
        let chunk = lua.load(include_str!("sandbox.lua")).set_name(fault::SANDBOX);
        let (globals, base, run, load_library, clean) =
            chunk.call::<(Table, Table, Function, Function, Function)>(native)?;
        lua.set_globals(globals.clone())?;
        let watched = Arc::clone(&shared);
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(INSTRUCTIONS), move |_, _| {
            if ended(&watched) { Err(Raised::Ended.into()) } else { Ok(VmState::Continue) }
        })?;
        lua.set_memory_limit(memory_max)?;
        Ok(Interpreter { lua, purpose, shared, globals, base, run, load_library, clean, memory_max })
    }

    /// The same; an error is a text.
    pub(crate) fn make(purpose: Purpose, memory_max: usize) -> Result<Interpreter, String> {
        Interpreter::new(purpose, memory_max).map_err(|error| format!("the interpreter of scripts: {error}"))
    }

    /// Bytes of memory that the state holds.
    pub(crate) fn memory(&self) -> usize {
        self.lua.used_memory()
    }

    /// The function of a chunk; an error is the compiler's text.
    pub(crate) fn compile(&self, code: &[u8]) -> Result<Function, String> {
        if code.first() == Some(&0x1b) {
            return Err(format!("{}:1: unexpected symbol near '\u{1b}'", &self.purpose.chunk()[1..]));
        }
        let chunk = self.lua.load(code).set_name(self.purpose.chunk());
        match chunk.into_function() {
            Ok(function) => Ok(function),
            Err(mlua::Error::SyntaxError { message, .. }) => Err(message),
            Err(error) => Err(String::from_utf8_lossy(&fault::text(&error)).into_owned()),
        }
    }

    /// Runs a function.
    pub(crate) fn run(&self, function: &Function, input: &Input<'_>, host: &mut dyn Host) -> Finished {
        self.begin(input.time_max, input.seed);
        // A state that is not collected may be out of memory before the run begins.
        let result = self.call(function, input, host).or_else(|error| match error {
            mlua::Error::MemoryError(_) => {
                self.lua.gc_collect()?;
                Err(error)
            }
            error => Err(error),
        });
        self.end(result)
    }

    fn call(&self, function: &Function, input: &Input<'_>, host: &mut dyn Host) -> mlua::Result<(bool, Value)> {
        let list = |words: &[&[u8]]| {
            let words = words.iter().map(|word| self.lua.create_string(word));
            self.lua.create_sequence_from(words.collect::<mlua::Result<Vec<_>>>()?)
        };
        let (keys, args) = (list(&input.keys)?, list(&input.args)?);
        self.lua.scope(|scope| {
            let reach = scope.create_function_mut(|lua, args: MultiValue| api::reach(lua, &self.shared, host, args))?;
            self.lua.set_named_registry_value(HOST, reach)?;
            match self.purpose {
                Purpose::Scripts => {
                    function.set_environment(self.globals.clone())?;
                    self.base.raw_set("KEYS", keys)?;
                    self.base.raw_set("ARGV", args)?;
                    self.run.call(function)
                }
                Purpose::Functions => self.run.call((function, keys, args)),
            }
        })
    }

    fn begin(&self, time_max: Option<Duration>, seed: u32) {
        let mut run = self.shared.lock();
        run.deadline = time_max.and_then(|time| Instant::now().checked_add(time));
        (run.end, run.failure, run.protocol) = (None, None, Protocol::Resp2);
        (run.collect_at, run.collect_step) = (self.memory_max / 2, self.memory_max / 8);
        (run.random, run.json) = (random::Random::new(seed), json::Settings::default());
    }

    fn end(&self, result: mlua::Result<(bool, Value)>) -> Finished {
        let (end, failure, protocol) = {
            let mut run = self.shared.lock();
            run.deadline = None;
            (run.end.take(), run.failure.take(), run.protocol)
        };
        // Only tables that a script has filled past their protection cost anything here.
        if self.clean.call::<()>(()).is_err() || self.lua.used_memory() > self.memory_soft() {
            let _ = self.lua.gc_collect();
        }
        match (end, result) {
            (Some(end), _) => Finished::Ended(end),
            (None, Ok((true, value))) => Finished::Value(value, protocol),
            (None, Ok((false, value))) => match failure {
                Some(failure) if value == Value::Boolean(true) => Finished::Failed(failure),
                _ => Finished::Broken(fault::shown(&value)),
            },
            (None, Err(error)) => Finished::Broken(fault::text(&error)),
        }
    }

    /// Memory above which garbage is collected between runs.
    fn memory_soft(&self) -> usize {
        self.memory_max / 4
    }

    /// Runs the chunk of a library, which registers functions.
    pub(crate) fn load_library(&self, chunk: &Function) -> Result<Vec<Registered>, Vec<u8>> {
        self.begin(Some(LOADING), 0);
        self.shared.lock().registered.clear();
        let result = self.load_library.call::<(bool, Value)>(chunk);
        let registered = std::mem::take(&mut self.shared.lock().registered);
        match self.end(result) {
            Finished::Value(..) => Ok(registered),
            Finished::Failed(failure) => Err(failure.text),
            Finished::Broken(text) => Err([b"ERR ", &text[..]].concat()),
            Finished::Ended(_) => Err(b"ERR FUNCTION LOAD timeout".to_vec()),
        }
    }
}

/// Answers nothing: for fuzzers.
struct Nobody;

impl Host for Nobody {
    fn command(&mut self, _: Args<'_>, _: Protocol) -> Answer {
        Answer::Reply(b"*2\r\n:1\r\n$-1\r\n".to_vec())
    }

    fn permits(&mut self, _: Args<'_>) -> Option<bool> {
        Some(true)
    }
}

/// Runs a script on an argument within tight bounds; the class of what happened.
pub(crate) fn fuzz(code: &[u8], argument: &[u8]) -> String {
    let interpreter = Interpreter::new(Purpose::Scripts, 8 << 20).expect("memory for an empty state");
    let function = match interpreter.compile(code) {
        Ok(function) => function,
        Err(text) => return text.split('\'').next().unwrap_or_default().chars().rev().take(30).collect(),
    };
    let input = Input { keys: vec![], args: vec![argument], time_max: Some(Duration::from_millis(100)), seed: 1 };
    match interpreter.run(&function, &input, &mut Nobody) {
        Finished::Value(value, protocol) => {
            let mut out = crate::resp::reply::Replies::default();
            let whole = write_value(&value, protocol, &mut out, 1 << 20);
            let bytes = out.into_bytes();
            format!("{:?} {:?}", whole.is_ok(), bytes.first().map(|mark| char::from(*mark)))
        }
        Finished::Failed(failure) => {
            let text = String::from_utf8_lossy(&failure.text).into_owned();
            text.chars().filter(|letter| letter.is_ascii_alphabetic()).take(60).collect()
        }
        Finished::Broken(text) => String::from_utf8_lossy(&text).into_owned(),
        Finished::Ended(end) => format!("{end:?}"),
    }
}

//! Scripts in Lua 5.1, in the dialect of Redis.
//!
//! An [`Interpreter`] is one state of Lua with the globals that scripts may have: the libraries of
//! Lua without files, processes and bytecode, those that Redis adds (`cjson`, `cmsgpack`, `bit`,
//! `struct`), and `redis`. A script asks the server for commands through a [`Host`], which lives as
//! long as the run.
//!
//! A run is bounded: by memory, by time, and by depth wherever nested data or patterns are
//! followed. Only loaded functions stay in the state between two runs.
//!
//! Invariants
//!   LUA-1  No script changes a table that another script can see.
//!   LUA-2  A script that has to end ends, whatever it catches.
//!
//! Files: `sandbox.lua` makes the globals, `tables.lua` functions of `table`; `api.rs` has `redis`,
//! `base.rs` the functions that know protected tables, `convert.rs` replies as values and back.
//!
//! Design: docs/design/server-scripts.md

mod api;
mod base;
mod bits;
mod convert;
mod fault;
mod fuzz;
mod header;
mod json;
mod known;
mod libraries;
mod msgpack;
mod numbers;
mod outside;
mod patterns;
mod random;
mod strings;
mod structs;
#[cfg(test)]
mod tests;

use crate::resp::parse::Args;
use crate::resp::reply::Protocol;
use fault::Raised;
use mlua::{Function, HookTriggers, Lua, LuaOptions, RegistryKey, StdLib, Table, Value, VmState};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

pub(crate) use convert::{Unwritten, write_value};
pub(crate) use fuzz::fuzz;
pub(crate) use header::{Header, ScriptFlags};
pub(crate) use known::Scripts;
pub(crate) use libraries::Functions;

/// Instructions between two looks at the clock. Each call looks at it too: a call of a function in
/// C may be long, and a coroutine counts instructions of its own.
const INSTRUCTIONS: u32 = 1000;
/// The registry's name of the function that reaches the host of the run.
const HOST: &str = "host";

/// Answers a script while it runs.
pub(crate) trait Host {
    /// Executes a command; a refused one has an error as its reply.
    fn command(&mut self, args: Args<'_>, protocol: Protocol) -> Answer;
    /// Whether the caller may give this command; `None` if there is no such command.
    fn permits(&mut self, args: Args<'_>) -> Option<bool>;
    /// Bytes that the arguments of a command may have together.
    fn size_max(&self) -> usize;
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
    /// Its host refused to continue.
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
    /// It returned a value.
    Value(Returned),
    /// It raised an error.
    Failed(Failure),
    /// It failed outside of the error handler, with this text.
    Broken(Vec<u8>),
    /// It had to end.
    Ended(End),
}

/// The value of a run.
pub(crate) struct Returned {
    value: Value,
    /// The protocol of replies that the script has chosen.
    protocol: Protocol,
    /// The end of the script's time: its reply is part of it.
    deadline: Option<Instant>,
}

/// The state of the run under way, which the functions of the interpreter share.
#[derive(Default)]
struct Run {
    deadline: Option<Instant>,
    end: Option<End>,
    /// The protocol of replies to commands.
    protocol: Protocol,
    /// The words of the command that the script asks for, and their bytes at most.
    words: api::Words,
    words_max: usize,
    /// Memory at which a command collects garbage, and how far above the rest the next one does:
    /// the interpreter's own steps are too short for large values.
    collect_at: usize,
    collect_step: usize,
    /// Memory above which garbage is collected after a run.
    collect_after: usize,
    random: random::Random,
    json: json::Settings,
    failure: Option<Failure>,
    /// The place of an error that passes through a function of the server.
    passing: Option<fault::Place>,
    /// Functions that the library under way has registered.
    registered: Vec<Registered>,
}

/// State that the functions of the interpreter share.
struct InterpreterState {
    run: Mutex<Run>,
    /// Bytes that functions hold outside of the interpreter's memory.
    outside: AtomicUsize,
    /// Bytes of both together.
    memory_max: usize,
}

impl InterpreterState {
    fn lock(&self) -> MutexGuard<'_, Run> {
        self.run.lock()
    }
}

type SharedRun = Arc<InterpreterState>;

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
    pub function: Kept,
}

/// A function that an interpreter keeps: an entry of the registry of its state. A handle of the
/// bindings would occupy one of a few thousand slots.
#[derive(Clone)]
pub(crate) struct Kept(Arc<RegistryKey>);

impl Kept {
    fn new(lua: &Lua, function: Function) -> mlua::Result<Kept> {
        Ok(Kept(Arc::new(lua.create_registry_value(function)?)))
    }
}

/// Whether the run has to end.
fn ended(run: &InterpreterState) -> bool {
    let mut run = run.lock();
    if run.end.is_none() && run.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        run.end = Some(End::Time);
    }
    run.end.is_some()
}

/// The kind of code: scripts of EVAL and functions have different globals.
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
    /// The table behind [`Interpreter::globals`].
    base: Table,
    run: Function,
    /// Chooses the globals that functions see.
    globals_of: Function,
}

/// Arguments of a run.
pub(crate) struct Input<'i> {
    /// The keys.
    pub keys: Vec<&'i [u8]>,
    /// The other arguments.
    pub args: Vec<&'i [u8]>,
    /// The time limit; `None`: there is none.
    pub time_max: Option<Duration>,
    /// The seed of its random numbers.
    pub seed: u32,
}

impl Interpreter {
    /// A state without scripts, of at most `memory_max` bytes.
    pub(crate) fn new(purpose: Purpose, memory_max: usize) -> mlua::Result<Interpreter> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let run = Run { collect_after: memory_max / 4, ..Run::default() };
        let shared = Arc::new(InterpreterState { run: Mutex::new(run), outside: AtomicUsize::new(0), memory_max });
        let native = base::native(&lua, &shared)?;
        let libraries = lua.create_table()?;
        libraries.raw_set("redis", api::library(&lua, &shared, purpose)?)?;
        libraries.raw_set("bit", bits::library(&lua)?)?;
        libraries.raw_set("cjson", json::library(&lua, &shared)?)?;
        libraries.raw_set("cmsgpack", msgpack::library(&lua, &shared)?)?;
        libraries.raw_set("struct", structs::library(&lua, &shared)?)?;
        native.raw_set("libraries", libraries)?;
        native.raw_set("string", strings::library(&lua, &native, &shared)?)?;
        native.raw_set("chunk", fault::SANDBOX)?;
        if purpose == Purpose::Functions {
            native.raw_set("loading", api::loading(&lua, &shared)?)?;
        }
        let tables = lua.load(include_str!("tables.lua")).set_name(fault::SANDBOX).into_function()?;
        let chunk = lua.load(include_str!("sandbox.lua")).set_name(fault::SANDBOX);
        let (globals, base, run, globals_of) = chunk.call::<(Table, Table, Function, Function)>((native, tables))?;
        lua.set_globals(globals.clone())?;
        let watched = Arc::clone(&shared);
        lua.set_global_hook(HookTriggers::ON_CALLS.every_nth_instruction(INSTRUCTIONS), move |_, _| {
            if ended(&watched) { Err(Raised::Ended.into()) } else { Ok(VmState::Continue) }
        })?;
        lua.set_memory_limit(memory_max)?;
        Ok(Interpreter { lua, purpose, shared, globals, base, run, globals_of })
    }

    /// As [`Interpreter::new`], with a text as its error.
    pub(crate) fn make(purpose: Purpose, memory_max: usize) -> Result<Interpreter, String> {
        Interpreter::new(purpose, memory_max).map_err(|error| format!("the interpreter of scripts: {error}"))
    }

    /// Bytes of memory that the state holds.
    pub(crate) fn memory(&self) -> usize {
        self.lua.used_memory()
    }

    /// The function of a chunk; an error is the compiler's text.
    pub(crate) fn compile(&self, code: &[u8]) -> Result<Kept, String> {
        if code.first() == Some(&0x1b) {
            return Err(format!("{}:1: unexpected symbol near '\u{1b}'", &self.purpose.chunk()[1..]));
        }
        let compile = || {
            let chunk = self.lua.load(code).set_name(self.purpose.chunk());
            chunk.into_function().and_then(|function| Kept::new(&self.lua, function))
        };
        let compiled = compile().or_else(|error| match error {
            mlua::Error::MemoryError(_) => {
                self.lua.gc_collect()?;
                compile()
            }
            error => Err(error),
        });
        match compiled {
            Ok(function) => Ok(function),
            Err(mlua::Error::SyntaxError { message, .. }) => Err(message),
            Err(error) => Err(String::from_utf8_lossy(&fault::text(&error)).into_owned()),
        }
    }

    /// Runs a function.
    pub(crate) fn run(&self, function: &Kept, input: &Input<'_>, host: &mut dyn Host) -> Finished {
        self.begin(input.time_max, input.seed);
        self.shared.lock().words_max = host.size_max();
        let result = self.call(function, input, host);
        self.end(result)
    }

    fn call(&self, function: &Kept, input: &Input<'_>, host: &mut dyn Host) -> mlua::Result<(bool, Value)> {
        let function: Function = self.lua.registry_value(&function.0)?;
        let list = |words: &[&[u8]]| {
            let list = self.lua.create_table_with_capacity(words.len(), 0)?;
            for (index, word) in words.iter().enumerate() {
                list.raw_set(index + 1, self.lua.create_string(word)?)?;
            }
            Ok::<_, mlua::Error>(list)
        };
        let (keys, args) = (list(&input.keys)?, list(&input.args)?);
        self.lua.scope(|scope| {
            let reach =
                scope.create_function_mut(|lua, question: i64| api::reach(lua, &self.shared, host, question))?;
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
        (run.collect_at, run.collect_step) = (self.shared.memory_max / 2, self.shared.memory_max / 8);
        (run.random, run.json) = (random::Random::new(seed), json::Settings::default());
    }

    fn end(&self, result: mlua::Result<(bool, Value)>) -> Finished {
        let (end, failure, protocol, deadline) = {
            let mut run = self.shared.lock();
            (run.end.take(), run.failure.take(), run.protocol, run.deadline.take())
        };
        self.lua.expire_registry_values();
        self.collect();
        match (end, result) {
            (Some(end), _) => Finished::Ended(end),
            (None, Ok((true, value))) => Finished::Value(Returned { value, protocol, deadline }),
            (None, Ok((false, value))) => match failure {
                Some(failure) if value == Value::Boolean(true) => Finished::Failed(failure),
                _ => Finished::Broken(fault::shown(&value)),
            },
            (None, Err(error)) => Finished::Broken(fault::text(&error)),
        }
    }

    /// Collects garbage if the state uses much memory, so that the next run has room.
    fn collect(&self) {
        let memory_max = self.shared.memory_max;
        if self.lua.used_memory() > self.shared.lock().collect_after {
            let _ = self.lua.gc_collect();
            // The rest is alive: the next collection comes when half of the free memory is used.
            let live = self.lua.used_memory();
            let half = live + memory_max.saturating_sub(live) / 2;
            self.shared.lock().collect_after = half.max(memory_max / 4);
        }
    }

    /// Runs the chunk of a library, which registers functions.
    pub(crate) fn load_library(&self, chunk: &Kept, time_max: Option<Duration>) -> Result<Vec<Registered>, Vec<u8>> {
        self.shared.lock().registered.clear();
        let switched = self.globals_of.call::<()>(true);
        self.begin(time_max, 0);
        let result = switched.and_then(|()| {
            let chunk: Function = self.lua.registry_value(&chunk.0)?;
            self.run.call::<(bool, Value)>(chunk)
        });
        let registered = std::mem::take(&mut self.shared.lock().registered);
        let finished = self.end(result);
        // Without the limit this cannot fail for memory: later functions need the usual globals.
        let _ = self.lua.set_memory_limit(0);
        let switched = self.globals_of.call::<()>(false);
        let _ = self.lua.set_memory_limit(self.shared.memory_max);
        switched.map_err(|error| fault::text(&error))?;
        match finished {
            Finished::Value(_) => Ok(registered),
            Finished::Failed(failure) => Err(failure.text),
            Finished::Broken(text) => Err([b"ERR ", &text[..]].concat()),
            Finished::Ended(_) => Err(b"ERR FUNCTION LOAD timeout".to_vec()),
        }
    }
}

//! FUNCTION and FCALL: libraries of functions, which the store keeps
//! (`keyspace/functions.rs`).
//!
//! They are compiled when they are asked for. After a batch with a change was lost, those that the
//! store holds otherwise are compiled anew. A change is compiled first and written then, so a
//! library that does not compile has changed nothing.

use super::monitor::feed_always;
use super::scripts::{READS_ONLY, Running, error, keys_and_args, may_run, run};
use super::{Call, Fail, Outcome, describe, is_word};
use crate::glob::{LetterCase, matches};
use crate::lua::{Functions, Header, Registered, ScriptFlags};
use crate::rdb::{self, Input, Output, kind};

const NO_LIBRARY: Fail = Fail::text("ERR Library not found");

/// Lets `work` use the libraries as the store has them.
fn with<T>(
    call: &mut Call<'_, '_>,
    work: impl FnOnce(&mut Call<'_, '_>, &mut Functions) -> Result<T, Fail>,
) -> Result<T, Fail> {
    call.keys.read_functions();
    let version = Some(call.keys.functions_version());
    let mut functions = call.shared.scripts.functions.take().unwrap_or_default();
    if functions.version != version {
        functions.become_stored(call.keys.libraries()?, call.shared.options.script_memory_max);
        functions.version = version;
    }
    let result = work(call, &mut functions);
    call.shared.scripts.functions = Some(functions);
    result
}

/// `FUNCTION LOAD [REPLACE] code`
pub(super) fn load(call: &mut Call<'_, '_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.from(2).collect();
    let (options, code) = (&words[..words.len() - 1], words[words.len() - 1]);
    let mut replaces = false;
    for option in options {
        if !is_word(option, "replace") || replaces {
            return Err(error(format!("Unknown option given: {}", String::from_utf8_lossy(option))));
        }
        replaces = true;
    }
    let name = with(call, |call, functions| {
        let name = functions.add(code, replaces, call.shared.options.script_memory_max).map_err(error)?;
        // If the store refuses it, the number stays that of before, and the libraries become those
        // of the store again.
        call.keys.put_library(&name, code)?;
        functions.version = Some(call.keys.functions_version());
        Ok(name)
    })?;
    call.out.bulk(&name);
    Ok(())
}

/// `FUNCTION DELETE library`
pub(super) fn delete(call: &mut Call<'_, '_>) -> Outcome {
    let name = call.args.get(2);
    with(call, |call, functions| {
        if !functions.remove(name) {
            return Err(NO_LIBRARY);
        }
        call.keys.remove_library(name)?;
        functions.version = Some(call.keys.functions_version());
        Ok(())
    })?;
    call.out.ok();
    Ok(())
}

fn usage(call: &Call<'_, '_>) -> Fail {
    let word = String::from_utf8_lossy(call.args.get(1)).into_owned();
    error(format!("unknown subcommand or wrong number of arguments for '{word}'. Try FUNCTION HELP."))
}

/// Replaces all libraries by these, which the store gets.
fn become_these(call: &mut Call<'_, '_>, functions: &mut Functions, mut new: Functions) -> Outcome {
    for name in functions.libraries.keys().filter(|name| !new.libraries.contains_key(*name)) {
        call.keys.remove_library(name)?;
    }
    for (name, library) in &new.libraries {
        if functions.libraries.get(name).is_none_or(|old| old.code != library.code) {
            call.keys.put_library(name, &library.code)?;
        }
    }
    new.version = Some(call.keys.functions_version());
    *functions = new;
    Ok(())
}

/// `FUNCTION FLUSH [ASYNC | SYNC]`
pub(super) fn flush(call: &mut Call<'_, '_>) -> Outcome {
    match call.args.len() {
        2 => {}
        3 if is_word(call.args.get(2), "sync") || is_word(call.args.get(2), "async") => {}
        3 => return Err(Fail::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
        _ => return Err(usage(call)),
    }
    with(call, |call, functions| become_these(call, functions, Functions::default()))?;
    call.out.ok();
    Ok(())
}

/// `FUNCTION DUMP`
pub(super) fn dump(call: &mut Call<'_, '_>) -> Outcome {
    let payload = with(call, |_, functions| {
        let mut payload = Vec::new();
        for library in functions.libraries.values() {
            let mut out = Output::new(kind::LIBRARY);
            out.string(&library.code);
            payload.extend(out.into_bytes());
        }
        Ok(rdb::wrap_payload(payload))
    })?;
    call.out.bulk_owned(payload);
    call.room()
}

/// The code of the libraries of a payload.
fn libraries_of(payload: &[u8]) -> Result<Vec<Vec<u8>>, Fail> {
    let bad = || Fail::text("ERR DUMP payload version or checksum are wrong");
    let mut rest = rdb::unwrap_payload(payload).ok_or_else(bad)?;
    let mut list = Vec::new();
    while !rest.is_empty() {
        let mut input = Input::new(&mut rest);
        if input.byte().map_err(|_| bad())? != kind::LIBRARY {
            return Err(error("given type is not a function"));
        }
        list.push(input.string().map_err(|_| error("failed loading library data"))?);
    }
    Ok(list)
}

/// `FUNCTION RESTORE payload [FLUSH | APPEND | REPLACE]`
pub(super) fn restore(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 4 {
        return Err(usage(call));
    }
    let policy = call.args.from(3).next().unwrap_or(b"append");
    let (flushes, replaces) = (is_word(policy, "flush"), is_word(policy, "replace"));
    if !flushes && !replaces && !is_word(policy, "append") {
        return Err(error("Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."));
    }
    let given = libraries_of(call.args.get(2))?;
    with(call, |call, functions| {
        // All of them are compiled before anything changes.
        let (mut new, memory_max) = (Functions::default(), call.shared.options.script_memory_max);
        let names = given.iter().map(|code| Header::of_library(code).map(|(name, _)| name));
        let names = names.collect::<Result<Vec<_>, String>>().map_err(error)?;
        for name in &names {
            call.keys.check_key(name)?; // before any of them is written
        }
        for (name, library) in functions.libraries.iter().filter(|_| !flushes) {
            match names.contains(name) {
                true if replaces => {}
                true => {
                    return Err(error(format!("Library {} already exists", String::from_utf8_lossy(name))));
                }
                false if library.broken.is_some() => new.keep(name.clone(), library.code.clone(), memory_max),
                false => drop(new.add(&library.code, false, memory_max).map_err(error)?),
            }
        }
        for code in &given {
            new.add(code, false, memory_max).map_err(error)?;
        }
        become_these(call, functions, new)
    })?;
    call.out.ok();
    Ok(())
}

/// `FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]`
pub(super) fn list(call: &mut Call<'_, '_>) -> Outcome {
    let (mut pattern, mut with_code) = (None, false);
    let mut words = call.args.from(2);
    while let Some(word) = words.next() {
        if is_word(word, "withcode") && !with_code {
            with_code = true;
        } else if is_word(word, "libraryname") && pattern.is_none() {
            pattern = Some(words.next().ok_or(Fail::text("ERR library name argument was not given"))?);
        } else {
            return Err(error(format!("Unknown argument {}", String::from_utf8_lossy(word))));
        }
    }
    with(call, |call, functions| {
        let chosen = |name: &&Vec<u8>| pattern.is_none_or(|pattern| matches(pattern, name, LetterCase::Folded));
        call.out.array(functions.libraries.keys().filter(chosen).count());
        for (name, library) in functions.libraries.iter().filter(|(name, _)| chosen(name)) {
            call.out.map(3 + usize::from(with_code));
            call.out.bulk(b"library_name");
            call.out.bulk(name);
            call.out.bulk(b"engine");
            call.out.bulk(b"LUA");
            call.out.bulk(b"functions");
            call.out.array(library.functions.len());
            library.functions.iter().for_each(|function| describe_function(call, function));
            if with_code {
                call.out.bulk(b"library_code");
                call.out.bulk(&library.code);
            }
        }
        call.room()
    })
}

fn describe_function(call: &mut Call<'_, '_>, function: &Registered) {
    call.out.map(3);
    call.out.bulk(b"name");
    call.out.bulk(&function.name);
    call.out.bulk(b"description");
    match &function.description {
        Some(description) => call.out.bulk(description),
        None => call.out.null(),
    }
    call.out.bulk(b"flags");
    call.out.set(function.flags.names().count());
    function.flags.names().for_each(|name| call.out.simple(name));
}

/// `FUNCTION STATS`
pub(super) fn stats(call: &mut Call<'_, '_>) -> Outcome {
    let [_, libraries, functions] = with(call, |_, functions| Ok(functions.figures()))?;
    call.out.map(2);
    call.out.bulk(b"running_script");
    call.out.null();
    call.out.bulk(b"engines");
    call.out.map(1);
    call.out.bulk(b"LUA");
    call.out.map(2);
    call.out.bulk(b"libraries_count");
    call.out.integer(libraries as i64);
    call.out.bulk(b"functions_count");
    call.out.integer(functions as i64);
    Ok(())
}

/// `FUNCTION HELP`
pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    describe::help_of(call, "function")
}

fn not_found(functions: &Functions) -> Fail {
    match functions.broken() {
        None => Fail::text("ERR Function not found"),
        Some((name, reason)) => {
            let name = String::from_utf8_lossy(name);
            error(format!("Function not found; library '{name}' does not compile any more: {reason}"))
        }
    }
}

fn call_function(call: &mut Call<'_, '_>, read_only: bool) -> Outcome {
    feed_always(call.shared, call.client, &call.args);
    with(call, |call, functions| {
        let (interpreter, found) = functions.function(call.args.get(1)).ok_or_else(|| not_found(functions))?;
        let (keys, args) = keys_and_args(call, Fail::text("ERR Bad number of keys provided"))?;
        let says_so = found.flags.contains(ScriptFlags::NO_WRITES);
        if read_only && !says_so {
            return Err(READS_ONLY);
        }
        let needs_no_room = may_run(call, found.flags)?;
        let name = String::from_utf8_lossy(&found.name).into_owned();
        let (seed, read_only) = (call.keys.random() as u32, read_only || says_so);
        let function = &found.function;
        run(call, Running { interpreter, function, name: &name, keys, args, read_only, needs_no_room, seed })
    })
}

/// `FCALL function number [key ...] [argument ...]`
pub(super) fn fcall(call: &mut Call<'_, '_>) -> Outcome {
    call_function(call, false)
}

/// `FCALL_RO function number [key ...] [argument ...]`
pub(super) fn fcall_ro(call: &mut Call<'_, '_>) -> Outcome {
    call_function(call, true)
}

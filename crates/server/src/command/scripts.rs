//! EVAL, EVALSHA and SCRIPT.

use super::monitor::feed_always;
use super::script_host::ScriptHost;
use super::{Call, Fail, OUT_OF_MEMORY, Outcome, describe, is_word};
use crate::lua::{End, Failure, Finished, Input, Interpreter, Kept, ScriptFlags, Unwritten, write_value};
use crate::resp::number::parse_integer;
use crate::resp::reply::Replies;
use std::time::Duration;

const NO_SCRIPT: Fail = Fail::text("NOSCRIPT No matching script. Please use EVAL.");
const NOT_BUSY: Fail = Fail::text("NOTBUSY No scripts in execution right now.");
const NOT_INTEGER: Fail = super::fail::NOT_INTEGER;
pub(super) const READS_ONLY: Fail = Fail::text("ERR Can not execute a script with write flag using *_ro command.");

/// An error's reply.
pub(super) fn error(text: impl AsRef<str>) -> Fail {
    Fail::made(format!("ERR {}", text.as_ref()))
}

/// Arguments of a request.
type Words<'c> = Vec<&'c [u8]>;

/// The keys and the other arguments of a request with a number of keys at argument 2.
pub(super) fn keys_and_args<'c>(call: &Call<'c, '_>, not_a_number: Fail) -> Result<(Words<'c>, Words<'c>), Fail> {
    let count = parse_integer(call.args.get(2)).ok_or(not_a_number)?;
    let mut keys: Vec<&[u8]> = call.args.from(3).collect();
    match usize::try_from(count) {
        Ok(count) if count > keys.len() => Err(Fail::text("ERR Number of keys can't be greater than number of args")),
        Ok(count) => {
            let args = keys.split_off(count);
            Ok((keys, args))
        }
        Err(_) => Err(Fail::text("ERR Number of keys can't be negative")),
    }
}

/// A script or a function that is about to run.
pub(super) struct Running<'r> {
    pub interpreter: &'r Interpreter,
    pub function: &'r Kept,
    /// The name in errors.
    pub name: &'r str,
    pub keys: Vec<&'r [u8]>,
    pub args: Vec<&'r [u8]>,
    pub read_only: bool,
    /// Whether it runs although memory is short.
    pub needs_no_room: bool,
    pub seed: u32,
}

/// Runs a script and writes its reply. On an error nothing that it did stands.
pub(super) fn run(call: &mut Call<'_, '_>, running: Running<'_>) -> Outcome {
    call.shared.own_pushes = Replies::default();
    call.shared.own_pushes.protocol = call.out.protocol;
    let Running { interpreter, function, name, keys, args, read_only, needs_no_room, seed } = running;
    if !read_only && !call.client.executing {
        call.keys.begin_transaction()?;
    }
    let (database, executing, mark) = (call.client.database, call.client.executing, call.shared.mark);
    let threshold = call.shared.options.script_time_max;
    let time_max = (threshold > Duration::ZERO).then_some(threshold);
    (call.client.executing, call.client.scripting) = (true, true);
    let mut host = ScriptHost { call: &mut *call, read_only, changed: false, needs_no_room, fatal: None };
    let finished = interpreter.run(function, &Input { keys, args, time_max, seed }, &mut host);
    let (changed, fatal) = (host.changed, host.fatal.take());
    (call.client.executing, call.client.scripting) = (executing, false);
    // SELECT of a script is for itself; its time counts from its begin.
    (call.client.database, call.shared.mark) = (database, mark);
    call.keys.select(database);
    if changed {
        call.keys.note_part_changed();
    }
    call.out.append(std::mem::take(&mut call.shared.own_pushes));
    let position = call.out.position();
    let broken = |text: &[u8]| [format!("ERR Error running script {name}, ").as_bytes(), text].concat();
    let late = || {
        let text = if changed { "what it did is taken back" } else { "it did nothing" };
        Fail::made(format!(
            "ERR the script {name} ran for longer than busy-reply-threshold ({} ms) and was ended; {text}",
            threshold.as_millis()
        ))
    };
    let failure = match finished {
        Finished::Value(returned) => match write_value(&returned, call.out, call.shared.options.output_size_max) {
            Ok(()) => return Ok(()),
            Err(Unwritten::Size) => Fail::OutputLimit.reply().into_owned(),
            Err(Unwritten::Time) => return Err(late()),
            Err(Unwritten::Failed(text)) => broken(&text),
        },
        Finished::Failed(failure) => error_text(failure, name),
        Finished::Broken(text) => broken(&text[..text.len().min(100)]),
        Finished::Ended(End::Host) => return Err(fatal.unwrap_or(Fail::text("ERR the script had to end"))),
        Finished::Ended(End::Time) => return Err(late()),
    };
    // The script's writes stand, as in Redis.
    call.shared.metrics.count_error(&failure);
    call.out.cut(position);
    call.out.error(&failure);
    Ok(())
}

/// The reply to a script's error.
fn error_text(failure: Failure, name: &str) -> Vec<u8> {
    let mut text = failure.text;
    if let Some((source, line)) = failure.place {
        text.extend_from_slice(format!(" script: {name}, on {source}:{line}.").as_bytes());
    }
    text
}

/// Whether a script or a function with these flags runs although memory is short; an error if
/// memory is short and it does not.
pub(super) fn may_run(call: &Call<'_, '_>, flags: ScriptFlags) -> Result<bool, Fail> {
    let allowed = flags.intersects(ScriptFlags::ALLOW_OOM | ScriptFlags::NO_WRITES);
    if call.shared.data_bound.out_of_memory && !allowed {
        return Err(OUT_OF_MEMORY);
    }
    Ok(flags.contains(ScriptFlags::ALLOW_OOM))
}

/// Runs a known script.
fn evaluate(call: &mut Call<'_, '_>, name: &str, read_only: bool, input: (Vec<&[u8]>, Vec<&[u8]>)) -> Outcome {
    let script = call.shared.scripts.get(name).cloned().ok_or(NO_SCRIPT)?;
    let says_so = script.header.given && script.header.flags.contains(ScriptFlags::NO_WRITES);
    if read_only && script.header.given && !says_so {
        return Err(READS_ONLY);
    }
    let needs_no_room = script.header.given && may_run(call, script.header.flags)?;
    let Some(interpreter) = call.shared.scripts.interpreter.take() else { return Err(NO_SCRIPT) };
    let (keys, args) = input;
    let (read_only, function, seed) = (read_only || says_so, &script.function, call.keys.random() as u32);
    let running = Running { interpreter: &interpreter, function, name, keys, args, read_only, needs_no_room, seed };
    let result = run(call, running);
    call.shared.scripts.interpreter = Some(interpreter);
    result
}

fn evaluate_text(call: &mut Call<'_, '_>, read_only: bool) -> Outcome {
    feed_always(call.shared, call.client, &call.args);
    let input = keys_and_args(call, NOT_INTEGER)?;
    let memory_max = call.shared.options.script_memory_max;
    let name = call.shared.scripts.load(call.args.get(1), memory_max, false).map_err(error)?;
    evaluate(call, &name, read_only, input)
}

fn evaluate_known(call: &mut Call<'_, '_>, read_only: bool) -> Outcome {
    feed_always(call.shared, call.client, &call.args);
    let name = String::from_utf8_lossy(call.args.get(1)).to_ascii_lowercase();
    if name.len() != 40 {
        return Err(NO_SCRIPT);
    }
    let input = keys_and_args(call, NOT_INTEGER)?;
    evaluate(call, &name, read_only, input)
}

/// `EVAL script number [key ...] [argument ...]`
pub(super) fn eval(call: &mut Call<'_, '_>) -> Outcome {
    evaluate_text(call, false)
}

/// `EVAL_RO script number [key ...] [argument ...]`
pub(super) fn eval_ro(call: &mut Call<'_, '_>) -> Outcome {
    evaluate_text(call, true)
}

/// `EVALSHA name number [key ...] [argument ...]`
pub(super) fn evalsha(call: &mut Call<'_, '_>) -> Outcome {
    evaluate_known(call, false)
}

/// `EVALSHA_RO name number [key ...] [argument ...]`
pub(super) fn evalsha_ro(call: &mut Call<'_, '_>) -> Outcome {
    evaluate_known(call, true)
}

/// `SCRIPT LOAD script`
pub(super) fn load(call: &mut Call<'_, '_>) -> Outcome {
    let memory_max = call.shared.options.script_memory_max;
    let name = call.shared.scripts.load(call.args.get(2), memory_max, true).map_err(error)?;
    call.out.bulk(name.as_bytes());
    Ok(())
}

/// `SCRIPT EXISTS name [name ...]`
pub(super) fn exists(call: &mut Call<'_, '_>) -> Outcome {
    call.out.array(call.args.len() - 2);
    for name in call.args.from(2) {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        call.out.integer(i64::from(call.shared.scripts.get(&name).is_some()));
    }
    call.room()
}

/// `SCRIPT FLUSH [ASYNC | SYNC]`
pub(super) fn flush(call: &mut Call<'_, '_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.from(2).collect();
    if !matches!(words[..], []) && !matches!(words[..], [word] if is_word(word, "sync") || is_word(word, "async")) {
        return Err(Fail::text("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    call.shared.scripts.flush();
    call.out.ok();
    Ok(())
}

/// `SCRIPT KILL` and `FUNCTION KILL`: no command comes while a script runs.
pub(super) fn kill(_: &mut Call<'_, '_>) -> Outcome {
    Err(NOT_BUSY)
}

/// `SCRIPT DEBUG NO`: there is no debugger.
pub(super) fn debug(call: &mut Call<'_, '_>) -> Outcome {
    let word = call.args.get(2);
    match word {
        _ if is_word(word, "no") => {
            call.out.ok();
            Ok(())
        }
        _ if is_word(word, "yes") || is_word(word, "sync") => {
            Err(Fail::text("ERR there is no debugger of scripts here"))
        }
        _ => Err(Fail::text("ERR Use SCRIPT DEBUG YES/SYNC/NO")),
    }
}

/// `SCRIPT HELP`
pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    describe::help_of(call, "script")
}

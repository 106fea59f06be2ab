//! COMMAND: the table of commands, in the form that clients expect.

use super::key_places::{changes_bits, places};
use super::{CATEGORIES, Call, Command, CommandTable, Fail, Find, Flags, KeyUse, Outcome, category, is_word};
use crate::glob::{LetterCase, matches};
use crate::resp::parse::Args;
use crate::resp::reply::Replies;

/// Flags by the names and in the order that clients know.
const FLAG_NAMES: &[(Flags, &str)] = &[
    (Flags::WRITE, "write"),
    (Flags::READONLY, "readonly"),
    (Flags::DENYOOM, "denyoom"),
    (Flags::ADMIN, "admin"),
    (Flags::PUBSUB_KIND, "pubsub"),
    (Flags::NOSCRIPT, "noscript"),
    (Flags::BLOCKING, "blocking"),
    (Flags::LOADING, "loading"),
    (Flags::STALE, "stale"),
    (Flags::SKIP_MONITOR, "skip_monitor"),
    (Flags::SKIP_SLOWLOG, "skip_slowlog"),
    (Flags::FAST, "fast"),
    (Flags::NO_AUTH, "no_auth"),
    (Flags::NO_ASYNC_LOADING, "no_async_loading"),
    (Flags::NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (Flags::NO_MULTI, "no_multi"),
    (Flags::ALLOW_BUSY, "allow_busy"),
    (Flags::MOVABLE_KEYS, "movablekeys"),
];

/// The categories of a command.
fn categories(flags: Flags) -> Vec<String> {
    CATEGORIES.iter().filter(|(_, belongs)| belongs(flags)).map(|(name, _)| format!("@{name}")).collect()
}

fn words<'a>(out: &mut Replies, words: impl ExactSizeIterator<Item = &'a str>) {
    out.set(words.len());
    words.for_each(|word| out.simple(word));
}

fn key_use(out: &mut Replies, key: &KeyUse) {
    out.map(3 + usize::from(key.notes.is_some()));
    if let Some(notes) = key.notes {
        out.bulk(b"notes");
        out.bulk(notes.as_bytes());
    }
    out.bulk(b"flags");
    words(out, key.flags.iter().copied());
    out.bulk(b"begin_search");
    match key.find {
        Find::Behind(word) | Find::After(word) => {
            spec_head(out, "keyword", 2);
            out.bulk(b"keyword");
            out.bulk(word.as_bytes());
            out.bulk(b"startfrom");
            out.integer(i64::from(key.first));
        }
        Find::Unknown(_) => spec(out, "unknown", &[]),
        _ => spec(out, "index", &[("index", key.first)]),
    }
    out.bulk(b"find_keys");
    match key.find {
        Find::Range(last, step, limit) => spec(out, "range", &[("lastkey", last), ("keystep", step), ("limit", limit)]),
        Find::Behind(_) => spec(out, "range", &[("lastkey", -1), ("keystep", 1), ("limit", 2)]),
        Find::After(_) => spec(out, "range", &[("lastkey", 0), ("keystep", 1), ("limit", 0)]),
        Find::Unknown(_) => spec(out, "unknown", &[]),
        Find::Counted => spec(out, "keynum", &[("keynumidx", 0), ("firstkey", 1), ("keystep", 1)]),
    }
}

fn spec_head(out: &mut Replies, kind: &str, fields: usize) {
    out.map(2);
    out.bulk(b"type");
    out.bulk(kind.as_bytes());
    out.bulk(b"spec");
    out.map(fields);
}

fn spec(out: &mut Replies, kind: &str, fields: &[(&str, i32)]) {
    spec_head(out, kind, fields.len());
    for (name, value) in fields {
        out.bulk(name.as_bytes());
        out.integer(i64::from(*value));
    }
}

fn describe(out: &mut Replies, command: &Command) {
    out.array(10);
    out.bulk(command.name.as_bytes());
    out.integer(i64::from(command.arity));
    let flags: Vec<&str> =
        FLAG_NAMES.iter().filter(|(flag, _)| command.flags.contains(*flag)).map(|(_, name)| *name).collect();
    words(out, flags.into_iter());
    let (first, last, step) = command.keys;
    out.integer(i64::from(first));
    out.integer(i64::from(last));
    out.integer(i64::from(step));
    let categories = categories(command.flags);
    words(out, categories.iter().map(String::as_str));
    out.set(command.tips.len());
    command.tips.iter().for_each(|tip| out.bulk(tip.as_bytes()));
    out.set(command.key_uses.len());
    command.key_uses.iter().for_each(|key| key_use(out, key));
    match command.subcommands.len() {
        // a list when there are some, a set when there are none: as clients know it
        0 => out.set(0),
        count => out.array(count),
    }
    command.subcommands.iter().for_each(|sub| describe(out, sub));
}

/// Commands that are no subcommands.
fn tops() -> impl Iterator<Item = &'static Command> {
    CommandTable::get().rows.iter().copied().filter(|command| !command.name.contains('|'))
}

/// `COMMAND`
pub(super) fn all(call: &mut Call<'_, '_>) -> Outcome {
    call.room()?;
    call.out.array(tops().count());
    tops().for_each(|command| describe(call.out, command));
    Ok(())
}

/// `COMMAND COUNT`
pub(super) fn count(call: &mut Call<'_, '_>) -> Outcome {
    call.out.integer(tops().count() as i64);
    Ok(())
}

/// `COMMAND INFO [name ...]`
pub(super) fn info(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() == 2 {
        return all(call);
    }
    call.out.array(call.args.len() - 2);
    for name in call.args.from(2) {
        match CommandTable::get().find(name) {
            Some(index) => describe(call.out, CommandTable::get().rows[index]),
            None => call.out.null(),
        }
    }
    call.room()
}

fn document(out: &mut Replies, command: &Command) {
    out.bulk(command.name.as_bytes());
    out.map(4 + usize::from(!command.subcommands.is_empty()));
    for (field, value) in [
        ("summary", command.summary),
        ("since", command.since),
        ("group", command.group),
        ("complexity", command.complexity),
    ] {
        out.bulk(field.as_bytes());
        out.bulk(value.as_bytes());
    }
    if !command.subcommands.is_empty() {
        out.bulk(b"subcommands");
        out.map(command.subcommands.len());
        command.subcommands.iter().for_each(|sub| document(out, sub));
    }
}

/// `COMMAND DOCS [name ...]`: unknown names are left out.
pub(super) fn docs(call: &mut Call<'_, '_>) -> Outcome {
    let table = CommandTable::get();
    let wanted: Vec<&Command> = match call.args.len() {
        2 => tops().collect(),
        _ => call.args.from(2).filter_map(|name| table.find(name)).map(|index| table.rows[index]).collect(),
    };
    call.out.map(wanted.len());
    wanted.into_iter().for_each(|command| document(call.out, command));
    call.room()
}

/// `COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`
pub(super) fn list(call: &mut Call<'_, '_>) -> Outcome {
    let options: Vec<&[u8]> = call.args.from(2).collect();
    let chosen: Vec<&Command> = match options[..] {
        [] => tops().collect(),
        [by, kind, value] if is_word(by, "filterby") => match kind {
            _ if is_word(kind, "module") => Vec::new(),
            _ if is_word(kind, "aclcat") => {
                tops().filter(|command| category(value).is_some_and(|belongs| belongs(command.flags))).collect()
            }
            _ if is_word(kind, "pattern") => CommandTable::get()
                .rows
                .iter()
                .copied()
                .filter(|command| matches(value, command.name.as_bytes(), LetterCase::Folded))
                .collect(),
            _ => return Err(super::fail::SYNTAX),
        },
        _ => return Err(super::fail::SYNTAX),
    };
    call.room()?;
    call.out.array(chosen.len());
    chosen.iter().for_each(|command| call.out.bulk(command.name.as_bytes()));
    Ok(())
}

const INVALID: Fail = Fail::text("ERR Invalid arguments specified for command");

/// The command whose words begin at the third argument, if keys may be among them.
fn command_with_keys(call: &Call<'_, '_>) -> Result<&'static Command, Fail> {
    let count = call.args.len() as i64 - 2;
    let Some(index) = CommandTable::get().find(call.args.get(2)) else {
        return Err(Fail::text("ERR Invalid command specified"));
    };
    let command = CommandTable::get().rows[index];
    if command.key_uses.is_empty() {
        return Err(Fail::text("ERR The command has no key arguments"));
    }
    let arity = i64::from(command.arity);
    if (arity > 0 && count != arity) || count < -arity {
        return Err(Fail::text("ERR Invalid number of arguments specified for command"));
    }
    Ok(command)
}

/// `COMMAND GETKEYSANDFLAGS command arguments ...`
pub(super) fn get_keys_and_flags(call: &mut Call<'_, '_>) -> Outcome {
    let command = command_with_keys(call)?;
    let mut found = Vec::new();
    for key in command.key_uses {
        let places = self::places(key, &call.args, 2).ok_or(INVALID)?;
        found.extend(places.into_iter().map(|at| (at, flags_of(command, key, &call.args))));
    }
    if found.is_empty() {
        return Err(INVALID);
    }
    call.out.array(found.len());
    for (at, flags) in found {
        call.out.array(2);
        call.out.bulk(call.args.get(at));
        words(call.out, flags.into_iter());
    }
    Ok(())
}

/// The flags of a key of a request, whose words begin at the third argument: those of a few
/// commands depend on the words.
fn flags_of(command: &Command, key: &KeyUse, args: &Args<'_>) -> Vec<&'static str> {
    match command.name {
        "set" if !args.from(5).any(|word| is_word(word, "get")) => vec!["OW", "update"],
        "bitfield" if !changes_bits(args.from(4)) => vec!["RO", "access"],
        _ => key.flags.iter().copied().filter(|flag| *flag != "variable_flags" && *flag != "incomplete").collect(),
    }
}

/// `COMMAND GETKEYS command arguments ...`
pub(super) fn get_keys(call: &mut Call<'_, '_>) -> Outcome {
    let count = call.args.len() as i64 - 2;
    let command = command_with_keys(call)?;
    let places: Vec<usize> = if command.flags.contains(Flags::MOVABLE_KEYS) {
        let mut places = Vec::new();
        for key in command.key_uses {
            places.extend(self::places(key, &call.args, 2).ok_or(INVALID)?);
        }
        if places.is_empty() {
            return Err(INVALID);
        }
        places
    } else {
        let (first, last, step) = command.keys;
        let last = if last < 0 { count + i64::from(last) } else { i64::from(last) };
        (i64::from(first)..=last).step_by(step as usize).map(|at| at as usize + 2).collect()
    };
    call.out.array(places.len());
    places.into_iter().for_each(|at| call.out.bulk(call.args.get(at)));
    Ok(())
}

/// The subcommands of `container`, as lines for people.
pub(super) fn help_of(call: &mut Call<'_, '_>, container: &str) -> Outcome {
    let Some(index) = CommandTable::get().find(container.as_bytes()) else { return Err(super::fail::SYNTAX) };
    let command = CommandTable::get().rows[index];
    call.room()?;
    call.out.array(1 + 2 * command.subcommands.len());
    call.out.simple(&format!(
        "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        command.name.to_ascii_uppercase()
    ));
    for sub in command.subcommands {
        let name = sub.name.split('|').next_back().unwrap_or_default();
        call.out.simple(&name.to_ascii_uppercase());
        call.out.simple(&format!("    {}", sub.summary));
    }
    Ok(())
}

/// `COMMAND HELP`
pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    help_of(call, "command")
}

//! The keys among the arguments of a request, by the specifications of its command.

use super::{Command, Find, KeyUse, is_word};
use crate::resp::number::parse_integer;
use crate::resp::parse::Args;
use std::ops::Range;

/// A key of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyPlace {
    /// Its place among the arguments.
    pub index: usize,
    /// Whether the command tells about its value.
    pub reads: bool,
    /// Whether the command may change it.
    pub writes: bool,
}

/// Options of SORT, and the number of arguments behind each.
const SORT_OPTIONS: &[(&str, usize)] = &[("limit", 2), ("by", 1), ("get", 1), ("store", 1)];
/// Those of GEORADIUS and GEORADIUSBYMEMBER that take a key.
const AREA_OPTIONS: &[(&str, usize)] = &[("store", 1), ("storedist", 1)];
/// Those of XREAD and XREADGROUP before `STREAMS`.
const READ_OPTIONS: &[(&str, usize)] = &[("group", 2), ("count", 1), ("block", 1), ("noack", 0)];

/// The number of arguments behind an option.
fn values(options: &[(&str, usize)], word: &[u8]) -> Option<usize> {
    options.iter().find(|(option, _)| is_word(word, option)).map(|(_, values)| *values)
}

/// The argument behind the last option `keyword` of `range`, as the command reads its options: the
/// value of an option is none, whatever it says.
fn behind_option(args: &Args<'_>, range: Range<usize>, options: &[(&str, usize)], keyword: &str) -> Option<usize> {
    let (mut at, mut found) = (range.start, None);
    while at < range.end {
        let word = args.get(at);
        if is_word(word, keyword) && at + 1 < range.end {
            found = Some(at + 1);
        }
        at += 1 + values(options, word).unwrap_or(0);
    }
    found
}

/// The keys of XREAD and XREADGROUP as these read their options; `None` where they refuse them. The
/// specification names the first word `STREAMS`, which may be the name of a group.
fn streams(args: &Args<'_>, offset: usize) -> Option<Vec<usize>> {
    let mut at = offset + 1;
    while at < args.len() {
        let word = args.get(at);
        if is_word(word, "streams") {
            return Some((at + 1..).take((args.len() - at - 1) / 2).collect());
        }
        at += 1 + values(READ_OPTIONS, word)?;
    }
    None
}

/// The arguments that a specification names, of a request whose words begin at `offset`; `None`
/// where these make no sense.
pub(super) fn places(key: &KeyUse, args: &Args<'_>, offset: usize) -> Option<Vec<usize>> {
    let (begin, count) = (i64::from(key.first), args.len() as i64 - offset as i64);
    let word = |at: i64| Some(args.get(usize::try_from(at).ok().filter(|_| at < count)? + offset));
    let (first, last, step) = match key.find {
        Find::Range(last, step, 0) if last >= 0 => (begin, begin + i64::from(last), i64::from(step)),
        Find::Range(last, step, 0) => (begin, count + i64::from(last), i64::from(step)),
        Find::Range(_, step, part) => (begin, begin + (count - begin) / i64::from(part) - 1, i64::from(step)),
        Find::Counted => {
            let number = parse_integer(word(begin)?).filter(|number| *number > 0)?;
            (begin + 1, begin.checked_add(number)?, 1)
        }
        Find::After(keyword) | Find::Unknown(Some(keyword)) => {
            let options = if matches!(key.find, Find::After(_)) { AREA_OPTIONS } else { SORT_OPTIONS };
            let range = offset + usize::try_from(key.first).ok()?..args.len();
            return Some(behind_option(args, range, options, keyword).into_iter().collect());
        }
        Find::Unknown(None) => return Some(Vec::new()),
        Find::Behind(keyword) => {
            let place = (begin..count).find(|at| word(*at).is_some_and(|word| is_word(word, keyword)))? + 1;
            (place, place + (count - place) / 2 - 1, 1)
        }
    };
    (last < count).then(|| (first..=last).step_by(step as usize).map(|at| at as usize + offset).collect())
}

/// Whether operations of BITFIELD change anything, or make no sense.
pub(super) fn changes_bits<'a>(mut words: impl ExactSizeIterator<Item = &'a [u8]>) -> bool {
    while let Some(word) = words.next() {
        let rest = match word {
            _ if is_word(word, "get") => 2,
            _ if is_word(word, "overflow") => 1,
            _ => return true,
        };
        if words.len() < rest {
            return true;
        }
        words.nth(rest - 1);
    }
    false
}

/// Whether the command reads a key, and whether it changes it. Of some commands the options decide.
fn access(command: &Command, key: &KeyUse, args: &Args<'_>, offset: usize) -> (bool, bool) {
    let has = |flag| key.flags.contains(&flag);
    let (reads, writes) = (has("access"), has("insert") || has("update") || has("delete"));
    if !has("variable_flags") {
        return (reads, writes);
    }
    match command.name {
        "set" => (args.from(offset + 3).any(|word| is_word(word, "get")), true),
        "bitfield" => (true, changes_bits(args.from(offset + 2))),
        _ => (reads, writes),
    }
}

/// The keys of a request, whose words begin at `offset` of `args`; `None` where the request makes
/// no sense.
pub(crate) fn key_places(command: &Command, args: &Args<'_>, offset: usize) -> Option<Vec<KeyPlace>> {
    let mut list = Vec::new();
    for key in command.key_uses.iter().filter(|key| !key.flags.contains(&"not_key")) {
        let (reads, writes) = access(command, key, args, offset);
        let streams = if matches!(key.find, Find::Behind(_)) { streams(args, offset) } else { None };
        match streams.or_else(|| places(key, args, offset)) {
            Some(places) => list.extend(places.into_iter().map(|index| KeyPlace { index, reads, writes })),
            // An option that is not given names no key; the other keys count all the same.
            None if matches!(key.find, Find::Behind(_)) => {}
            None => return None,
        }
    }
    Some(list)
}

//! DUMP and RESTORE: a value as bytes, in the format of Redis (`rdb/`).
//!
//! RESTORE reads its payload twice: first all of it is checked, then it is stored, so that a
//! payload that is refused has changed nothing (ITER-3).

use super::fail::{NOT_INTEGER, SYNTAX};
use super::{Call, Fail, Outcome, is_word};
use crate::export::{number_of, write_value};
use crate::rdb::{self, Input, Malformed, Output, Part, kind, read_value};
use crate::resp::number::parse_integer;
use crate::transfer::{Refusal, ValueIn};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

const BAD: Fail = Fail::text("ERR Bad data format");

/// `DUMP key`
pub(super) fn dump(call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.get(1);
    let Some(kind) = call.keys.kind(key)? else {
        call.out.null();
        return Ok(());
    };
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    let mut out = Output::new(number_of(kind));
    match write_value(call.keys, key, kind, &mut out, &mut |out| out.len() <= room)? {
        true => call.out.bulk_owned(rdb::wrap_payload(out.into_bytes())),
        false => return Err(Fail::OutputLimit),
    }
    call.room()
}

/// The options of RESTORE.
#[derive(Default)]
struct Options {
    replace: bool,
    /// Whether the time to live is a time since 1970.
    absolute: bool,
}

fn options(call: &Call<'_, '_>) -> Result<Options, Fail> {
    let mut options = Options::default();
    let (mut idle, mut frequency) = (false, false);
    let mut rest = call.args.from(4);
    while let Some(option) = rest.next() {
        let number = |arg: Option<&[u8]>| parse_integer(arg.ok_or(SYNTAX)?).ok_or(NOT_INTEGER);
        match option {
            _ if is_word(option, "replace") => options.replace = true,
            _ if is_word(option, "absttl") => options.absolute = true,
            // Neither is kept.
            _ if is_word(option, "idletime") && !frequency => {
                if number(rest.next())? < 0 {
                    return Err(Fail::text("ERR Invalid IDLETIME value, must be >= 0"));
                }
                idle = true;
            }
            _ if is_word(option, "freq") && !idle => {
                if !(0..=255).contains(&number(rest.next())?) {
                    return Err(Fail::text("ERR Invalid FREQ value, must be >= 0 and <= 255"));
                }
                frequency = true;
            }
            _ => return Err(SYNTAX),
        }
    }
    Ok(options)
}

/// `RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`
pub(super) fn restore(call: &mut Call<'_, '_>) -> Outcome {
    let options = options(call)?;
    let (key, payload) = (call.args.get(1), call.args.get(3));
    let there = call.keys.contains(key)?;
    if there && !options.replace {
        return Err(Fail::text("BUSYKEY Target key name already exists."));
    }
    let ttl = parse_integer(call.args.get(2)).ok_or(NOT_INTEGER)?;
    let ttl = u64::try_from(ttl).map_err(|_| Fail::text("ERR Invalid TTL value, must be >= 0"))?;
    let value = rdb::unwrap_payload(payload).ok_or(Fail::text("ERR DUMP payload version or checksum are wrong"))?;
    check(call, value)?;
    call.keys.check_key(key)?;
    let now = call.keys.now();
    let deadline = match (ttl, options.absolute) {
        (0, _) => 0,
        (at, true) => at,
        (wait, false) => wait.saturating_add(now).min(i64::MAX as u64),
    };
    if there {
        call.keys.delete(key)?;
    }
    if deadline == 0 || !call.keys.has_passed(deadline) {
        store(call, key, value, deadline)?;
    }
    call.out.ok();
    Ok(())
}

/// Reads all of a value before anything is changed.
fn check(call: &mut Call<'_, '_>, value: &[u8]) -> Outcome {
    let mut seen = Seen::default();
    let (mut failed, mut size, size_max) = (None, 0_usize, call.shared.options.bulk_size_max);
    let keys = &call.keys;
    let mut short = |name: &[u8]| {
        if let Err(error) = keys.check_key(name) {
            failed = Some(error);
        }
    };
    let mut read = read(value, size_max, &mut |part| {
        match &part {
            Part::Member(name) | Part::Scored(name, _) | Part::Field(name, _) => short(name),
            Part::Group(name, ..) | Part::Consumer(name, _) => short(name),
            // Entries share the names of their fields in the payload, and not in the store.
            Part::Entry(_, fields) => {
                const EACH: usize = 4; // as the store has them
                fields.visit(&mut |text| size = size.saturating_add(text.len() + EACH));
                if size > size_max {
                    return Err(Malformed { detail: "the entries are too long" });
                }
            }
            _ => {}
        }
        seen.note(&part)
    });
    if read.is_ok() {
        read = seen.end_group();
    }
    read.map_err(|_| BAD)?;
    failed.map_or(Ok(()), |error| Err(Fail::Store(error)))
}

/// Names and ids of a value, which come once each. Of each member 128 bits of hashes are kept, by
/// keys that are drawn anew: members may be many, and no client finds two of one hash.
#[derive(Default)]
struct Seen {
    hashes: [RandomState; 2],
    members: HashSet<[u64; 2]>,
    groups: HashSet<Vec<u8>>,
    consumers: HashSet<Vec<u8>>,
    /// Pending entries of the group that no consumer has yet.
    unowned: HashSet<(u64, u64)>,
}

impl Seen {
    fn note(&mut self, part: &Part<'_>) -> rdb::Result<()> {
        let new = match part {
            Part::Member(name) | Part::Scored(name, _) | Part::Field(name, _) => {
                self.members.insert(self.hashes.each_ref().map(|state| state.hash_one(name)))
            }
            Part::Group(name, ..) => {
                self.end_group()?;
                self.consumers.clear();
                self.groups.insert(name.to_vec())
            }
            Part::Pending(id, ..) => self.unowned.insert(*id),
            Part::Consumer(name, _) => self.consumers.insert(name.to_vec()),
            Part::Owned(id) => self.unowned.remove(id),
            _ => true,
        };
        if new { Ok(()) } else { Err(Malformed { detail: "a part of a value comes twice, or without its other" }) }
    }

    fn end_group(&self) -> rdb::Result<()> {
        match self.unowned.is_empty() {
            true => Ok(()),
            false => Err(Malformed { detail: "a pending entry has no consumer" }),
        }
    }
}

/// Gives `each` the parts of a value behind its type, of which none has more than `size_max` bytes.
fn read(value: &[u8], size_max: usize, each: &mut dyn FnMut(Part<'_>) -> rdb::Result<()>) -> rdb::Result<()> {
    let mut rest = value;
    let mut input = Input::new(&mut rest).with_strings_up_to(size_max);
    match input.byte()? {
        kind if kind > kind::PAYLOAD_MAX => Err(Malformed { detail: "a value has an unknown type" }),
        kind => read_value(kind, &mut input, each),
    }
}

/// Stores a value that was checked at a key that is absent.
fn store(call: &mut Call<'_, '_>, key: &[u8], value: &[u8], deadline: u64) -> Outcome {
    let (mut new, mut failed) = (ValueIn::new(key, deadline, true), None);
    let size_max = call.shared.options.bulk_size_max;
    let keys = &mut *call.keys;
    let read = read(value, size_max, &mut |part| {
        new.put(keys, part).map_err(|refusal| {
            failed = Some(refusal);
            Malformed { detail: "the value is refused" }
        })
    });
    let done = match failed {
        Some(refusal) => Err(refusal),
        None => read.map_err(Refusal::Malformed).and_then(|()| new.finish(keys)),
    };
    done.map_err(|refusal| match refusal {
        Refusal::Malformed(_) => BAD,
        Refusal::Store(error) => Fail::Store(error),
    })
}

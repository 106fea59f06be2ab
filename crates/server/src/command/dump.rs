//! DUMP and RESTORE: a value as bytes, in the format of Redis (`rdb/`).
//!
//! RESTORE reads its payload twice: first all of it is checked, then it is stored, so that a
//! payload that is refused has changed nothing (ITER-3).

use super::fail::{NOT_INTEGER, SYNTAX};
use super::{Call, Fail, Outcome, is_word};
use crate::keyspace::{
    Collection, ElementSpan, End, EntryId, EntrySpan, HASH, HashedMember, ScoreSpan, ValueType, decode_fields, hashed,
    push_field,
};
use crate::rdb::{self, Input, Malformed, Output, Part, StreamOutput, kind, read_value};
use crate::resp::number::parse_integer;
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
    let out = match kind {
        ValueType::String => {
            let mut out = Output::new(kind::STRING);
            out.string(&call.keys.get(key)?.unwrap_or_default());
            Some(out)
        }
        ValueType::Stream => stream(call, key, room)?,
        _ => match call.keys.collection(key, kind)? {
            Some(of) => elements(call, &of, room)?,
            None => None,
        },
    };
    match out {
        Some(out) if out.len() <= room => call.out.bulk_owned(rdb::wrap_payload(out.into_bytes())),
        _ => return Err(Fail::OutputLimit),
    }
    call.room()
}

/// A collection with its elements; `None` above the output limit.
fn elements(call: &mut Call<'_, '_>, of: &Collection, room: usize) -> Result<Option<Output>, Fail> {
    let mut out = Output::new(match of.kind {
        ValueType::List => kind::LIST,
        ValueType::Set => kind::SET,
        ValueType::SortedSet => kind::SORTED_SET,
        _ => kind::HASH,
    });
    out.length(of.count);
    match of.kind {
        ValueType::List => call.keys.visit_list(of, 0..of.count, false, &mut |element| {
            out.string(element);
            out.len() <= room
        })?,
        ValueType::SortedSet => call.keys.walk_scores(of, &ScoreSpan::all(), true, 0, &mut |score, member| {
            out.string(member);
            out.score(score);
            out.len() <= room
        })?,
        ValueType::Set => call.keys.walk_members(of, 0, false, &mut |HashedMember { member, .. }| {
            out.string(member);
            out.len() <= room
        })?,
        _ => call.keys.visit_elements(of, ElementSpan::ALL, &mut |element, value| {
            out.string(element.get(HASH..).unwrap_or_default());
            out.string(value);
            out.len() <= room
        })?,
    }
    Ok((out.len() <= room).then_some(out))
}

fn stream(call: &mut Call<'_, '_>, key: &[u8], room: usize) -> Result<Option<Output>, Fail> {
    let Some(stream) = call.keys.stream(key)? else { return Ok(None) };
    let mut grouped = false;
    call.keys.visit_groups(&stream, &mut |_| {
        grouped = true;
        false
    })?;
    if grouped {
        return Err(Fail::text("ERR a stream with consumer groups cannot be dumped here"));
    }
    let mut out = StreamOutput::default();
    call.keys.visit_entries(&stream, EntrySpan { fields: true, ..EntrySpan::ALL }, &mut |id, fields| {
        out.entry((id.ms, id.seq), &decode_fields(fields)?);
        Ok(out.len() <= room)
    })?;
    if out.len() > room {
        return Ok(None);
    }
    let id = |id: EntryId| (id.ms, id.seq);
    Ok(Some(out.finish(id(stream.last), id(stream.deleted), stream.added)))
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
    if deadline == 0 || deadline > now {
        store(call, key, value)?;
        if deadline != 0 {
            call.keys.set_deadline(key, deadline)?;
        }
    }
    call.out.ok();
    Ok(())
}

/// Reads all of a value before anything is changed.
fn check(call: &mut Call<'_, '_>, value: &[u8]) -> Outcome {
    // Of each member 128 bits of hashes are kept, by keys that are drawn anew: members may be many,
    // and no client finds two of one hash.
    let (mut seen, mut failed, hashes) = (HashSet::new(), None, [RandomState::new(), RandomState::new()]);
    let keys = &call.keys;
    let mut new = |name: &[u8]| {
        if let Err(error) = keys.check_key(name) {
            failed = Some(error);
        }
        if seen.insert(hashes.each_ref().map(|state| state.hash_one(name))) {
            Ok(())
        } else {
            Err(Malformed { detail: "a member comes twice" })
        }
    };
    let (mut groups, mut size, size_max) = (false, 0_usize, call.shared.options.bulk_size_max);
    let read = read(value, size_max, &mut |part| match part {
        Part::Member(member) | Part::Scored(member, _) | Part::Field(member, _) => new(member),
        // Entries share the names of their fields in the payload, and not in the store.
        Part::Entry(_, fields) => {
            const EACH: usize = 4; // as the store has them
            fields.visit(&mut |text| size = size.saturating_add(text.len() + EACH));
            if size > size_max { Err(Malformed { detail: "the entries are too long" }) } else { Ok(()) }
        }
        Part::Group(..) => {
            groups = true;
            Ok(())
        }
        _ => Ok(()),
    });
    read.map_err(|_| BAD)?;
    if groups {
        return Err(Fail::text("ERR a stream with consumer groups cannot be restored here"));
    }
    failed.map_or(Ok(()), |error| Err(Fail::Store(error)))
}

/// Gives `each` the parts of a value behind its type, of which none has more than `size_max` bytes.
fn read(value: &[u8], size_max: usize, each: &mut dyn FnMut(Part<'_>) -> rdb::Result<()>) -> rdb::Result<()> {
    let mut rest = value;
    let mut input = Input::new(&mut rest).with_strings_up_to(size_max);
    let kind = input.byte()?;
    read_value(kind, &mut input, each)
}

/// Stores a value that was checked at a key that is absent.
fn store(call: &mut Call<'_, '_>, key: &[u8], value: &[u8]) -> Outcome {
    let size_max = call.shared.options.bulk_size_max;
    let (mut made, mut stream, mut failed) = (None, None, None);
    let keys = &mut *call.keys;
    let mut put = |part: Part<'_>| -> everbyte_kv::Result<()> {
        let kind = match &part {
            Part::String(_) => ValueType::String,
            Part::Element(_) => ValueType::List,
            Part::Member(_) => ValueType::Set,
            Part::Scored(..) => ValueType::SortedSet,
            Part::Field(..) => ValueType::Hash,
            _ => ValueType::Stream,
        };
        if kind == ValueType::Stream && stream.is_none() {
            stream = Some(keys.new_stream(key)?);
        } else if kind != ValueType::String && kind != ValueType::Stream && made.is_none() {
            made = Some(keys.new_collection(key, kind)?);
        }
        match (part, &mut made, &mut stream) {
            (Part::String(bytes), ..) => keys.put(key, bytes),
            (Part::Element(element), Some(list), _) => keys.push_list(list, End::Tail, element),
            (Part::Member(member), Some(set), _) => {
                set.count += u64::from(!keys.put_element(set, &hashed(member), &[])?);
                Ok(())
            }
            (Part::Scored(member, score), Some(set), _) => keys.put_score(set, member, None, score),
            (Part::Field(field, value), Some(hash), _) => {
                hash.count += u64::from(!keys.put_element(hash, &hashed(field), value)?);
                Ok(())
            }
            (Part::Entry((ms, seq), fields), _, Some(stream)) => {
                let mut encoded = Vec::new();
                fields.visit(&mut |text| push_field(&mut encoded, text));
                keys.add_entry(stream, EntryId { ms, seq }, &encoded)
            }
            (Part::State { last, deleted, added }, _, Some(stream)) => {
                let id = |(ms, seq)| EntryId { ms, seq };
                (stream.last, stream.deleted, stream.added) = (id(last), id(deleted), added);
                Ok(())
            }
            _ => Ok(()),
        }
    };
    let read = read(value, size_max, &mut |part| match put(part) {
        Ok(()) => Ok(()),
        Err(error) => {
            failed = Some(error);
            Err(Malformed { detail: "the store refuses" })
        }
    });
    if let Some(error) = failed {
        return Err(Fail::Store(error));
    }
    read.map_err(|_| BAD)?;
    if let Some(stream) = stream {
        call.keys.store_stream(key, &stream)?;
    }
    made.map_or(Ok(()), |made| Ok(call.keys.store(key, &made)?))
}

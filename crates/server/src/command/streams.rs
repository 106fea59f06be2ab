//! Streams: XADD and its kin. `keyspace/streams.rs` has the entries, `stream_reads.rs` XREAD and
//! XREADGROUP, `groups.rs` and `claims.rs` consumer groups, `stream_info.rs` XINFO.
//!
//! An id is `milliseconds-sequence`; without the second part it stands for the first or the last of
//! its millisecond, as the command needs. A stream that is trimmed has the number of entries that
//! was asked for, with `~` too, where Redis may keep some more.

use super::fail::{NO_KEY, NOT_INTEGER, SYNTAX};
use super::{Call, Fail, Outcome, is_word};
use crate::keyspace::{EntryId, EntrySpan, Stream, decode_fields, encode_fields};
use crate::resp::number::{parse_integer, parse_unsigned_loosely};
use crate::resp::reply::Replies;

pub(super) const BAD_ID: Fail = Fail::text("ERR Invalid stream ID specified as stream command argument");

/// Bytes of an id at most.
const ID_SIZE_MAX: usize = 127;

/// A number of an id: plain, or as C reads it. One below zero is none, unless blanks are before it.
fn number(text: &[u8]) -> Option<u64> {
    match parse_integer(text) {
        Some(number) => u64::try_from(number).ok(),
        None => parse_unsigned_loosely(text),
    }
}

/// The parts of an id, of which the second one may be missing: a C string of bounded size.
fn parts(arg: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let text = arg.split(|byte| *byte == 0).next().filter(|_| arg.len() <= ID_SIZE_MAX)?;
    Some(match text.iter().position(|byte| *byte == b'-') {
        Some(dash) => (&text[..dash], Some(&text[dash + 1..])),
        None => (text, None),
    })
}

/// An id; without a sequence number, with `seq`.
fn parsed(arg: &[u8], seq: u64) -> Option<EntryId> {
    let (ms, given) = parts(arg)?;
    Some(EntryId { ms: number(ms)?, seq: given.map_or(Some(seq), number)? })
}

/// An id that has to be one, without a sequence number the first of its millisecond.
pub(super) fn id(arg: &[u8]) -> Result<EntryId, Fail> {
    parsed(arg, 0).ok_or(BAD_ID)
}

/// The id that an entry is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewId {
    /// `*`: the time, or the one behind the last.
    Auto,
    /// `ms-*`: the next of this millisecond.
    InMs(u64),
    Given(EntryId),
}

impl NewId {
    fn read(arg: &[u8]) -> Result<NewId, Fail> {
        match arg {
            b"*" => Ok(NewId::Auto),
            arg => match parts(arg) {
                Some((ms, Some(b"*"))) => number(ms).map(NewId::InMs).ok_or(BAD_ID),
                _ => id(arg).map(NewId::Given),
            },
        }
    }

    /// The id behind the last one of the stream.
    fn behind(self, last: EntryId, now: u64) -> Result<EntryId, Fail> {
        const FULL: Fail = Fail::text("ERR The stream has exhausted the last possible ID, unable to add more items");
        const OLD: Fail =
            Fail::text("ERR The ID specified in XADD is equal or smaller than the target stream top item");
        if last == EntryId::MAX {
            return Err(FULL);
        }
        let id = match self {
            NewId::Auto if now > last.ms => Some(EntryId { ms: now, seq: 0 }),
            NewId::Auto => last.next(),
            NewId::InMs(ms) if ms == last.ms => last.seq.checked_add(1).map(|seq| EntryId { ms, seq }),
            NewId::InMs(ms) => Some(EntryId { ms, seq: 0 }),
            NewId::Given(id) => Some(id),
        };
        id.filter(|id| *id > last).ok_or(OLD)
    }
}

/// The entries to be trimmed away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trim {
    /// All but so many entries.
    Length(u64),
    /// Entries before an id.
    Before(EntryId),
}

/// The options of XADD and XTRIM.
#[derive(Default)]
struct TrimOptions {
    trim: Option<Trim>,
    /// At most so many entries are trimmed away; 0: any number.
    limit: u64,
    no_new_stream: bool,
    /// Of XADD, the id and its place.
    id: Option<(NewId, usize)>,
}

fn trim_options(call: &Call<'_, '_>, adds: bool) -> Result<TrimOptions, Fail> {
    let mut options = TrimOptions::default();
    let (mut loosely, mut limited, mut at) = (false, false, 2);
    let count = call.args.len();
    while at < count {
        let option = call.args.get(at);
        let more = at + 1 < count;
        if adds && option == b"*" {
            options.id = Some((NewId::Auto, at));
            break;
        } else if more && (is_word(option, "maxlen") || is_word(option, "minid")) {
            if options.trim.is_some() {
                return Err(Fail::text(
                    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
                ));
            }
            (loosely, at) = match call.args.get(at + 1) {
                b"~" if at + 2 < count => (true, at + 2),
                b"=" if at + 2 < count => (false, at + 2),
                _ => (false, at + 1),
            };
            options.trim = Some(if is_word(option, "maxlen") {
                match parse_integer(call.args.get(at)).ok_or(NOT_INTEGER)? {
                    length @ 0.. => Trim::Length(length as u64),
                    _ => return Err(Fail::text("ERR The MAXLEN argument must be >= 0.")),
                }
            } else {
                Trim::Before(id(call.args.get(at))?)
            });
        } else if more && is_word(option, "limit") {
            at += 1;
            match parse_integer(call.args.get(at)).ok_or(NOT_INTEGER)? {
                limit @ 0.. => options.limit = limit as u64,
                _ => return Err(Fail::text("ERR The LIMIT argument must be >= 0.")),
            }
            limited = true;
        } else if adds && is_word(option, "nomkstream") {
            options.no_new_stream = true;
        } else if adds {
            options.id = Some((NewId::read(option)?, at));
            break;
        } else {
            return Err(SYNTAX);
        }
        at += 1;
    }
    if options.limit > 0 && options.trim.is_none() {
        return Err(Fail::text("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"));
    }
    if !adds && options.trim.is_none() {
        return Err(Fail::text("ERR syntax error, XTRIM must be called with a trimming strategy"));
    }
    if limited && !loosely {
        return Err(Fail::text("ERR syntax error, LIMIT cannot be used without the special ~ option"));
    }
    Ok(options)
}

/// Trims a stream; how many entries are gone. It has to be stored afterwards.
fn trim(call: &mut Call<'_, '_>, stream: &mut Stream, options: &TrimOptions) -> Result<u64, Fail> {
    let end = |call: &mut Call<'_, '_>, skip| call.keys.first_entry(stream, EntrySpan { skip, ..EntrySpan::ALL });
    let limit = if options.limit == 0 { u64::MAX } else { options.limit };
    let end = match options.trim {
        None => return Ok(0),
        Some(Trim::Length(length)) => match stream.len().saturating_sub(length).min(limit) {
            0 => return Ok(0),
            extra => end(call, extra)?,
        },
        Some(Trim::Before(id)) if options.limit == 0 => Some(id),
        Some(Trim::Before(id)) => end(call, limit)?.map(|end| end.min(id)).or(Some(id)),
    };
    Ok(call.keys.remove_before(stream, end)?)
}

pub(super) fn id_text(id: EntryId) -> String {
    format!("{}-{}", id.ms, id.seq)
}

/// `XADD key [NOMKSTREAM] [MAXLEN | MINID [= | ~] threshold [LIMIT count]] * | id field value
/// [field value ...]`
pub(super) fn xadd(call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.get(1);
    let options = trim_options(call, true)?;
    let Some((new, place)) = options.id else { return Err(Fail::arity("xadd")) };
    let fields = call.args.len() - place - 1;
    if fields < 2 || fields % 2 == 1 {
        return Err(Fail::arity("xadd"));
    }
    if new == NewId::Given(EntryId::MIN) {
        return Err(Fail::text("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let found = call.keys.stream(key)?;
    if found.is_none() && options.no_new_stream {
        call.out.null();
        return Ok(());
    }
    call.keys.check_key(key)?;
    let last = found.map_or(EntryId::MIN, |stream| stream.last);
    let id = new.behind(last, call.keys.now())?;
    let mut stream = match found {
        Some(stream) => stream,
        None => call.keys.new_stream(key)?,
    };
    let fields = encode_fields(call.args.from(place + 1));
    call.keys.add_entry(&mut stream, id, &fields)?;
    trim(call, &mut stream, &options)?;
    call.keys.store_stream(key, &stream)?;
    call.out.bulk(id_text(id).as_bytes());
    Ok(())
}

/// `XTRIM key MAXLEN | MINID [= | ~] threshold [LIMIT count]`
pub(super) fn xtrim(call: &mut Call<'_, '_>) -> Outcome {
    let options = trim_options(call, false)?;
    let key = call.args.get(1);
    let mut removed = 0;
    if let Some(mut stream) = call.keys.stream(key)? {
        removed = trim(call, &mut stream, &options)?;
        if removed > 0 {
            call.keys.store_stream(key, &stream)?;
        }
    }
    call.out.integer(removed as i64);
    Ok(())
}

/// `XLEN key`
pub(super) fn xlen(call: &mut Call<'_, '_>) -> Outcome {
    let found = call.keys.stream(call.args.get(1))?;
    call.shared.metrics.look_up(found.is_some());
    call.out.integer(found.map_or(0, |stream| stream.len() as i64));
    Ok(())
}

/// `XDEL key id [id ...]`
pub(super) fn xdel(call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.get(1);
    let mut removed = 0;
    if let Some(mut stream) = call.keys.stream(key)? {
        let ids = call.args.from(2).map(id).collect::<Result<Vec<EntryId>, Fail>>()?;
        for id in ids {
            removed += i64::from(call.keys.remove_entry(&mut stream, id)?);
        }
        if removed > 0 {
            call.keys.store_stream(key, &stream)?;
        }
    }
    call.out.integer(removed);
    Ok(())
}

/// `XSETID key last-id [ENTRIESADDED count MAXDELETEDID id]`
pub(super) fn xsetid(call: &mut Call<'_, '_>) -> Outcome {
    let last = id(call.args.get(2))?;
    let (mut added, mut deleted) = (None, None);
    let mut rest = call.args.from(3);
    while let Some(option) = rest.next() {
        match rest.next() {
            Some(count) if is_word(option, "entriesadded") => match parse_integer(count).ok_or(NOT_INTEGER)? {
                count @ 0.. => added = Some(count as u64),
                _ => return Err(Fail::text("ERR entries_added must be positive")),
            },
            Some(name) if is_word(option, "maxdeletedid") => {
                let name = id(name)?;
                if last < name {
                    return Err(Fail::text(
                        "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                    ));
                }
                deleted = Some(name);
            }
            _ => return Err(SYNTAX),
        }
    }
    let key = call.args.get(1);
    let mut stream = call.keys.stream(key)?.ok_or(NO_KEY)?;
    if stream.len() > 0 {
        let top = call.keys.first_entry(&stream, EntrySpan { backwards: true, ..EntrySpan::ALL })?;
        if top.is_some_and(|top| last < top) {
            return Err(Fail::text("ERR The ID specified in XSETID is smaller than the target stream top item"));
        }
        if added.is_some_and(|added| added < stream.len()) {
            return Err(Fail::text(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            ));
        }
    }
    stream.last = last;
    stream.added = added.unwrap_or(stream.added);
    if let Some(id) = deleted.filter(|id| *id != EntryId::MIN) {
        stream.deleted = id;
    }
    call.keys.store_state(&stream)?;
    call.keys.tell_stream(key, "xsetid");
    call.out.ok();
    Ok(())
}

/// Writes an entry as a reply.
pub(super) fn entry(found: &mut Replies, id: EntryId, fields: &[u8]) -> Result<(), everbyte_kv::Error> {
    found.array(2);
    found.bulk(id_text(id).as_bytes());
    let fields = decode_fields(fields)?;
    found.array(fields.len());
    fields.iter().for_each(|field| found.bulk(field));
    Ok(())
}

/// Entries as replies, and their number; `each` is told their ids.
pub(super) fn entries(
    call: &mut Call<'_, '_>,
    stream: &Stream,
    span: EntrySpan,
    count: u64,
    each: &mut dyn FnMut(EntryId),
) -> Result<(usize, Replies), Fail> {
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    let (mut found, mut number) = (Replies::default(), 0);
    call.keys.visit_entries(stream, EntrySpan { fields: true, ..span }, &mut |id, fields| {
        entry(&mut found, id, fields)?;
        each(id);
        number += 1;
        Ok((number as u64) < count && found.pending() <= room)
    })?;
    if found.pending() > room { Err(Fail::OutputLimit) } else { Ok((number, found)) }
}

/// A bound of a range: `-`, `+`, an id, or behind `(` one that is left out. `None`: no id is there.
fn bound(arg: &[u8], start: bool) -> Result<Option<EntryId>, Fail> {
    let missing = if start { 0 } else { u64::MAX };
    match arg {
        b"-" => Ok(Some(EntryId::MIN)),
        b"+" => Ok(Some(EntryId::MAX)),
        [b'(', arg @ ..] => {
            let id = parsed(arg, missing).ok_or(BAD_ID)?;
            Ok(if start { id.next() } else { id.previous() })
        }
        arg => parsed(arg, missing).map(Some).ok_or(BAD_ID),
    }
}

/// The first id of a range.
pub(super) fn start_of(arg: &[u8]) -> Result<EntryId, Fail> {
    bound(arg, true)?.ok_or(Fail::text("ERR invalid start ID for the interval"))
}

/// The last id of a range.
pub(super) fn end_of(arg: &[u8]) -> Result<EntryId, Fail> {
    bound(arg, false)?.ok_or(Fail::text("ERR invalid end ID for the interval"))
}

fn range(call: &mut Call<'_, '_>, backwards: bool) -> Outcome {
    let (start, end) = if backwards { (3, 2) } else { (2, 3) };
    let (first, last) = (start_of(call.args.get(start))?, end_of(call.args.get(end))?);
    let mut count = u64::MAX;
    let mut rest = call.args.from(4);
    while let Some(option) = rest.next() {
        match rest.next() {
            Some(number) if is_word(option, "count") => {
                count = parse_integer(number).ok_or(NOT_INTEGER)?.max(0) as u64;
            }
            _ => return Err(SYNTAX),
        }
    }
    let stream = call.keys.stream(call.args.get(1))?;
    call.shared.metrics.look_up(stream.is_some());
    match stream {
        Some(_) if count == 0 => call.out.null_array(),
        Some(stream) => {
            let span = EntrySpan { first, last, backwards, ..EntrySpan::ALL };
            let (number, found) = entries(call, &stream, span, count, &mut |_| {})?;
            call.out.array(number);
            call.out.append(found);
        }
        None => call.out.array(0),
    }
    Ok(())
}

/// `XRANGE key start end [COUNT count]`
pub(super) fn xrange(call: &mut Call<'_, '_>) -> Outcome {
    range(call, false)
}

/// `XREVRANGE key end start [COUNT count]`
pub(super) fn xrevrange(call: &mut Call<'_, '_>) -> Outcome {
    range(call, true)
}

//! XREAD and XREADGROUP: entries behind those that a client, or a group, has read.
//!
//! With BLOCK a client that finds nothing waits (`waiting.rs`) until there is an entry for it. Its
//! ids are those of the beginning: `$` is the last id of then. An XREADGROUP ends with an error
//! when its stream or its group goes meanwhile.
//!
//! A delivery to a group changes in one batch the group's last id, its count of entries read, its
//! consumer and its pending entries. A reply above the output limit is refused before.

use super::blocking::{Wait, wait, wait_until};
use super::fail::{NOT_INTEGER, SYNTAX};
use super::groups::open_consumer;
use super::streams::{entries, entry, id, id_text};
use super::{Call, Fail, Outcome, is_word, shown};
use crate::keyspace::{EntryId, EntrySpan, Group, KeyError, OpenGroup, Pending, PendingSpan, Stream};
use crate::resp::number::parse_integer;
use crate::resp::parse::Args;
use crate::resp::reply::{Protocol, Replies};
use crate::transaction::Transaction;
use everbyte_media::seeded;
use std::collections::HashMap;

/// Entries of a stream that a client which waited gets, unless it asked for a number.
const WAITED_COUNT: u64 = 1000;

/// The words of XREAD and XREADGROUP.
struct ReadWords<'a> {
    /// A group and a consumer.
    group: Option<(&'a [u8], &'a [u8])>,
    no_ack: bool,
    /// 0: any number.
    count: u64,
    /// Milliseconds; 0: for ever.
    block: Option<u64>,
    /// The argument that is the first key.
    first: usize,
    /// The number of keys.
    keys: usize,
}

impl<'a> ReadWords<'a> {
    fn read(args: &Args<'a>) -> Result<ReadWords<'a>, Fail> {
        let grouped = is_word(args.get(0), "xreadgroup");
        let mut words = ReadWords { group: None, no_ack: false, count: 0, block: None, first: 0, keys: 0 };
        let (count, mut at) = (args.len(), 1);
        while words.first == 0 {
            if at >= count {
                return Err(SYNTAX);
            }
            let option = args.get(at);
            let more = count - at - 1;
            if more > 0 && is_word(option, "block") {
                at += 1;
                const TIMEOUT: Fail = Fail::text("ERR timeout is not an integer or out of range");
                let block = parse_integer(args.get(at)).ok_or(TIMEOUT)?;
                words.block = Some(u64::try_from(block).map_err(|_| Fail::text("ERR timeout is negative"))?);
            } else if more > 0 && is_word(option, "count") {
                at += 1;
                words.count = parse_integer(args.get(at)).ok_or(NOT_INTEGER)?.max(0) as u64;
            } else if more > 0 && is_word(option, "streams") {
                words.first = at + 1;
            } else if more > 1 && is_word(option, "group") {
                if !grouped {
                    return Err(Fail::text(
                        "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
                    ));
                }
                words.group = Some((args.get(at + 1), args.get(at + 2)));
                at += 2;
            } else if is_word(option, "noack") {
                if !grouped {
                    return Err(Fail::text(
                        "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
                    ));
                }
                words.no_ack = true;
            } else {
                return Err(SYNTAX);
            }
            at += 1;
        }
        let rest = count - words.first;
        if rest % 2 == 1 {
            return Err(Fail::text(
                "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
            ));
        }
        words.keys = rest / 2;
        if grouped && words.group.is_none() {
            return Err(Fail::text("ERR Missing GROUP option for XREADGROUP"));
        }
        Ok(words)
    }

    /// Entries of a stream at most.
    fn limit(&self) -> u64 {
        if self.count == 0 { u64::MAX } else { self.count }
    }
}

/// Bytes around the name of a stream and its entries, at most.
const HEAD_SIZE: usize = 64;

/// The entries behind an id. For a group these are new ones; a history has others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Id(EntryId),
    /// `>`: behind the last id of the group.
    Delivered,
}

/// The ids of a command; an error if one is none, or a stream or its group is not there.
fn read_ids(call: &mut Call<'_, '_>, words: &ReadWords<'_>) -> Result<Vec<After>, Fail> {
    let mut ids = Vec::with_capacity(words.keys);
    for place in words.first..words.first + words.keys {
        let key = call.args.get(place);
        let stream = call.keys.stream(key)?;
        if let Some((name, _)) = words.group {
            let group = match &stream {
                Some(stream) => call.keys.group(stream, name)?,
                None => None,
            };
            if group.is_none() {
                let names = [b"NOGROUP No such key '", shown(key, usize::MAX), b"' or consumer group '"].concat();
                return Err(Fail::made(
                    [&names, shown(name, usize::MAX), b"' in XREADGROUP with GROUP option"].concat(),
                ));
            }
        }
        ids.push(match (call.args.get(place + words.keys), words.group.is_some()) {
            (b"$", true) => {
                return Err(Fail::text(
                    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
                ));
            }
            (b"$", false) => After::Id(stream.map_or(EntryId::MIN, |stream| stream.last)),
            (b">", true) => After::Delivered,
            (b">", false) => {
                return Err(Fail::text(
                    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
                ));
            }
            (arg, grouped) => match id(arg)? {
                EntryId::MAX if grouped => After::Delivered,
                id => After::Id(id),
            },
        });
    }
    Ok(ids)
}

/// Begins the reply for a stream.
fn head(out: &mut Replies, protocol: Protocol, key: &[u8]) {
    if protocol == Protocol::Resp2 {
        out.array(2);
    }
    out.bulk(key);
}

/// Begins the reply for so many streams.
fn streams(out: &mut Replies, number: usize) {
    match out.protocol {
        Protocol::Resp3 => out.map(number),
        Protocol::Resp2 => out.array(number),
    }
}

/// The reply of a stream's entries, and their number.
type List = Option<(usize, Replies)>;

/// Entries behind an id; `None` if there are none.
fn plain(call: &mut Call<'_, '_>, key: &[u8], after: EntryId, limit: u64) -> Result<List, Fail> {
    let (Some(stream), Some(first)) = (call.keys.stream(key)?, after.next()) else { return Ok(None) };
    let found = entries(call, &stream, EntrySpan { first, ..EntrySpan::ALL }, limit, &mut |_| {})?;
    Ok(Some(found).filter(|(number, _)| *number > 0))
}

/// A group, its consumer, and how entries are delivered.
struct Delivery<'a> {
    key: &'a [u8],
    consumer: &'a [u8],
    no_ack: bool,
    limit: u64,
}

/// Entries that no consumer of the group was given, which this one is given; `None` if there are
/// none.
fn deliver(call: &mut Call<'_, '_>, stream: Stream, group: Group, delivery: &Delivery<'_>) -> Result<List, Fail> {
    let Some(first) = group.last.next() else { return Ok(None) };
    let mut ids = Vec::new();
    let span = EntrySpan { first, ..EntrySpan::ALL };
    let (number, list) = entries(call, &stream, span, delivery.limit, &mut |id| ids.push(id))?;
    let Some(last) = ids.last().copied() else { return Ok(None) };
    let oldest = call.keys.first_entry(&stream, EntrySpan::ALL)?;
    // A group that was set back, or XCLAIM, may have some of them pending.
    let highest = call.keys.pending_edge(&stream, &group, true)?;
    let mut open = OpenGroup::new(stream, group);
    let consumer = open_consumer(call, &mut open, delivery.key, delivery.consumer)?;
    let new = Pending { consumer, delivered: call.keys.now(), deliveries: 1 };
    for id in ids {
        open.group.read = read_up_to(&stream, oldest, open.group.read, id);
        if !delivery.no_ack {
            let old = match highest {
                Some(highest) if highest >= id => call.keys.pending(&stream, &open.group, id)?,
                _ => None,
            };
            call.keys.put_pending(&mut open, id, old, new)?;
        }
    }
    if !seeded("server-delivered-twice") {
        open.group.last = last;
    }
    call.keys.store_group(&open)?;
    Ok(Some((number, list)))
}

/// Whether entries from an id on were deleted by name, as far as the stream knows; those before its
/// oldest entry do not count.
pub(super) fn has_gaps(stream: &Stream, oldest: Option<EntryId>, from: EntryId) -> bool {
    let behind_oldest = oldest.is_some_and(|oldest| oldest <= stream.deleted);
    behind_oldest && stream.deleted != EntryId::MIN && from <= stream.deleted
}

/// The number of entries up to one that is delivered; `before`: up to the one before it.
fn read_up_to(stream: &Stream, oldest: Option<EntryId>, before: Option<u64>, id: EntryId) -> Option<u64> {
    match before {
        Some(count) if !has_gaps(stream, oldest, id) => Some(count.saturating_add(1)),
        _ if stream.added > 0 => counted_up_to(stream, oldest, id),
        _ => before,
    }
}

/// The number of entries that were ever added up to an id, if that can be told.
pub(super) fn counted_up_to(stream: &Stream, oldest: Option<EntryId>, id: EntryId) -> Option<u64> {
    if stream.added == 0 {
        return Some(0);
    }
    if stream.len() == 0 && id <= stream.last {
        return Some(stream.added);
    }
    if id >= stream.last {
        return Some(stream.added).filter(|_| id == stream.last);
    }
    let oldest = oldest?;
    if stream.deleted != EntryId::MIN && stream.deleted >= oldest || id > oldest {
        return None;
    }
    let before = stream.added.saturating_sub(stream.len());
    Some(if id == oldest { before + 1 } else { before })
}

/// Entries that are pending at a consumer, as a reply.
#[derive(Default)]
struct History {
    list: Replies,
    number: usize,
    /// Those that were not deleted: they count as delivered once more.
    again: Vec<(EntryId, Pending)>,
}

/// Reads entries that are pending at a consumer, from behind an id on.
fn read_history(
    call: &mut Call<'_, '_>,
    stream: &Stream,
    group: &Group,
    after: EntryId,
    delivery: &Delivery<'_>,
) -> Result<History, Fail> {
    let room = call.room_left();
    let found = call.keys.consumer(stream, group, delivery.consumer)?;
    let mut history = History::default();
    history.list.protocol = call.out.protocol;
    let mut first = after.next().filter(|_| found.is_some());
    while let Some(from) = first {
        let consumer = found.as_ref().map(|consumer| consumer.number);
        let span = PendingSpan { consumer, first: from, last: EntryId::MAX };
        let part = call.keys.pending_part(stream, group, span)?;
        first = part.last().filter(|_| part.len() == crate::keyspace::PENDING_TOGETHER).and_then(|(id, _)| id.next());
        for (id, pending) in part {
            match call.keys.entry(stream, id)? {
                Some(fields) => {
                    entry(&mut history.list, id, &fields)?;
                    history.again.push((id, pending));
                }
                None => {
                    history.list.array(2);
                    history.list.bulk(id_text(id).as_bytes());
                    history.list.null_array();
                }
            }
            history.number += 1;
            if history.list.pending() > room {
                return Err(Fail::OutputLimit);
            }
            if history.number as u64 == delivery.limit {
                return Ok(history);
            }
        }
    }
    Ok(history)
}

/// Entries that are pending at a consumer, from behind an id on, which are delivered once more.
fn history(
    call: &mut Call<'_, '_>,
    stream: Stream,
    group: Group,
    after: EntryId,
    delivery: &Delivery<'_>,
) -> Result<List, Fail> {
    let History { list, number, again } = read_history(call, &stream, &group, after, delivery)?;
    let mut open = OpenGroup::new(stream, group);
    open_consumer(call, &mut open, delivery.key, delivery.consumer)?;
    for (id, pending) in again {
        let deliveries = pending.deliveries.saturating_add(1);
        let new = Pending { delivered: call.keys.now(), deliveries, ..pending };
        call.keys.put_pending(&mut open, id, Some(pending), new)?;
    }
    call.keys.store_group(&open)?;
    Ok(Some((number, list)))
}

/// Entries of one stream for the command under way; `None` if there are none.
fn serve(call: &mut Call<'_, '_>, words: &ReadWords<'_>, key: &[u8], after: After) -> Result<List, Fail> {
    let (name, consumer) = match (words.group, after) {
        (Some(group), _) => group,
        (None, After::Id(after)) => return plain(call, key, after, words.limit()),
        (None, After::Delivered) => return Ok(None),
    };
    let Some(stream) = call.keys.stream(key)? else { return Ok(None) };
    let Some(group) = call.keys.group(&stream, name)? else { return Ok(None) };
    let delivery = Delivery { key, consumer, no_ack: words.no_ack, limit: words.limit() };
    match after {
        After::Delivered => deliver(call, stream, group, &delivery),
        After::Id(after) => history(call, stream, group, after, &delivery),
    }
}

/// Refuses a reply of several streams that would be too large, before the first one is changed. A
/// stream that is named several times is read on each time.
fn check_room(call: &mut Call<'_, '_>, words: &ReadWords<'_>, ids: &[After]) -> Outcome {
    let Some((name, consumer)) = words.group.filter(|_| words.keys > 1) else { return Ok(()) };
    let (room, mut size) = (call.room_left(), 0);
    // Of each stream that was named: the last id delivered, and the bytes of those delivered here.
    let mut delivered: HashMap<&[u8], (EntryId, usize)> = HashMap::new();
    for (place, after) in ids.iter().enumerate() {
        let key = call.args.get(words.first + place);
        let delivery = Delivery { key, consumer, no_ack: words.no_ack, limit: words.limit() };
        let Some(stream) = call.keys.stream(key)? else { continue };
        let Some(group) = call.keys.group(&stream, name)? else { continue };
        let (last, new) = delivered.entry(key).or_insert((group.last, 0));
        size += key.len() + HEAD_SIZE;
        size += match after {
            // Entries that the command itself delivers before may be among them.
            After::Id(after) => *new + read_history(call, &stream, &group, *after, &delivery)?.list.pending(),
            After::Delivered => {
                let Some(first) = last.next() else { continue };
                let mut see = |id| *last = id;
                let span = EntrySpan { first, ..EntrySpan::ALL };
                let list = entries(call, &stream, span, words.limit(), &mut see)?.1.pending();
                *new += if words.no_ack { 0 } else { list };
                list
            }
        };
        if size > room {
            return Err(Fail::OutputLimit);
        }
    }
    Ok(())
}

/// `XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]`, and
/// `XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key
/// [key ...] id [id ...]`
pub(super) fn xread(call: &mut Call<'_, '_>) -> Outcome {
    let words = ReadWords::read(&call.args)?;
    if let Some((_, consumer)) = words.group {
        call.keys.check_key(consumer)?;
    }
    let ids = read_ids(call, &words)?;
    check_room(call, &words, &ids)?;
    let (mut replies, mut number) = (Replies::default(), 0);
    replies.protocol = call.out.protocol;
    for (place, after) in ids.iter().enumerate() {
        let key = call.args.get(words.first + place);
        if let Some((found, list)) = serve(call, &words, key, *after)? {
            head(&mut replies, call.out.protocol, key);
            replies.array(found);
            replies.append(list);
            number += 1;
        }
    }
    match (number, words.block) {
        (0, Some(block)) if !call.client.executing => return begin_to_wait(call, &words, &ids, block),
        (0, _) => call.out.null_array(),
        _ => streams(call.out, number),
    }
    call.out.append(replies);
    // A group's entries were measured before.
    if words.group.is_some() { Ok(()) } else { call.room() }
}

fn begin_to_wait(call: &mut Call<'_, '_>, words: &ReadWords<'_>, ids: &[After], block: u64) -> Outcome {
    // `$` is the last id of now.
    let ids: Vec<Vec<u8>> = ids
        .iter()
        .map(|after| match after {
            After::Id(id) => id_text(*id).into_bytes(),
            After::Delivered => b">".to_vec(),
        })
        .collect();
    let args = call.args;
    let kept = args.from(0).take(words.first + words.keys);
    let mut command = Transaction::default();
    command.queue_words(0, kept.chain(ids.iter().map(Vec::as_slice)), true);
    let deadline = wait_until(call, block);
    let keys = args.from(words.first).take(words.keys);
    let (attempt, tries_absent) = (try_again, words.group.is_some());
    wait(call, keys, Wait { command, deadline, attempt, tries_absent, replicas: None });
    Ok(())
}

/// The attempt of a client that waits: another command has changed this key.
fn try_again(call: &mut Call<'_, '_>, key: &[u8]) -> Result<bool, Fail> {
    let mut words = ReadWords::read(&call.args)?;
    words.count = if words.count == 0 { WAITED_COUNT } else { words.count };
    let stream = match call.keys.stream(key) {
        Err(KeyError::WrongType) => None,
        other => other?,
    };
    if let Some((name, _)) = words.group {
        let stream = stream.ok_or(Fail::text("UNBLOCKED the stream key no longer exists"))?;
        const GONE: Fail = Fail::text("NOGROUP the consumer group this client was blocked on no longer exists");
        call.keys.group(&stream, name)?.ok_or(GONE)?;
    } else if stream.is_none() {
        return Ok(false);
    }
    let place = call.args.from(words.first).take(words.keys).position(|other| other == key).unwrap_or(0);
    let after = match call.args.get(words.first + words.keys + place) {
        b">" => After::Delivered,
        arg => After::Id(id(arg)?),
    };
    let Some((found, list)) = serve(call, &words, key, after)? else { return Ok(false) };
    streams(call.out, 1);
    let protocol = call.out.protocol;
    head(call.out, protocol, key);
    call.out.array(found);
    call.out.append(list);
    Ok(true)
}

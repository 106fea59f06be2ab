//! Consumer groups: XGROUP, XACK, XPENDING. `keyspace/groups.rs` has their elements, `claims.rs`
//! the commands that give pending entries to other consumers.
//!
//! Groups are no part of a stream's value for clients that watch its key, as in Redis.

use super::fail::{NOT_INTEGER, SYNTAX};
use super::streams::{end_of, id, id_text, start_of};
use super::{Call, Fail, Outcome, is_word, shown};
use crate::keyspace::{EntryId, Group, OpenGroup, PENDING_TOGETHER, PendingSpan, Stream};
use crate::resp::number::parse_integer;
use crate::resp::reply::Replies;
use everbyte_media::seeded;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A container's subcommand has other words than it takes.
pub(super) fn subcommand_syntax(call: &Call<'_, '_>, container: &str) -> Fail {
    let name = shown(call.args.get(1), 128);
    let text = [b"ERR unknown subcommand or wrong number of arguments for '", name, b"'. Try "].concat();
    Fail::made([&text, container.as_bytes(), b" HELP."].concat())
}

/// The stream has no such group, or the key is not there.
pub(super) fn no_key_or_group(key: &[u8], group: &[u8]) -> Fail {
    let (key, group) = (shown(key, usize::MAX), shown(group, usize::MAX));
    Fail::made([b"NOGROUP No such key '", key, b"' or consumer group '", group, b"'"].concat())
}

/// The stream has no such group.
pub(super) fn no_group(key: &[u8], group: &[u8]) -> Fail {
    let (key, group) = (shown(key, usize::MAX), shown(group, usize::MAX));
    Fail::made([b"NOGROUP No such consumer group '", group, b"' for key name '", key, b"'"].concat())
}

/// The stream and the group of the first two arguments.
pub(super) fn group_at(call: &mut Call<'_, '_>) -> Result<Option<(Stream, Group)>, Fail> {
    let Some(stream) = call.keys.stream(call.args.get(1))? else { return Ok(None) };
    Ok(call.keys.group(&stream, call.args.get(2))?.map(|group| (stream, group)))
}

/// The stream of a subcommand of XGROUP that needs one.
fn stream(call: &mut Call<'_, '_>) -> Result<Stream, Fail> {
    const MISSING: Fail = Fail::text(
        "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
    );
    call.keys.stream(call.args.get(2))?.ok_or(MISSING)
}

/// The stream and the group of a subcommand of XGROUP that needs both.
fn stream_and_group(call: &mut Call<'_, '_>) -> Result<(Stream, Group), Fail> {
    let (stream, name) = (stream(call)?, call.args.get(3));
    let group = call.keys.group(&stream, name)?.ok_or_else(|| no_group(call.args.get(2), name))?;
    Ok((stream, group))
}

/// The options of CREATE and SETID: whether the stream is made, and the number of entries read.
fn options(call: &Call<'_, '_>, creates: bool) -> Result<(bool, Option<u64>), Fail> {
    let (mut makes, mut read) = (false, None);
    let mut rest = call.args.from(5);
    while let Some(option) = rest.next() {
        if creates && is_word(option, "mkstream") {
            makes = true;
        } else if rest.len() > 0 && is_word(option, "entriesread") {
            read = match parse_integer(rest.next().unwrap_or_default()).ok_or(NOT_INTEGER)? {
                -1 => None,
                count @ 0.. => Some(count as u64),
                _ => return Err(Fail::text("ERR value for ENTRIESREAD must be positive or -1")),
            };
        } else {
            return Err(subcommand_syntax(call, "XGROUP"));
        }
    }
    let most = if creates { 8 } else { 7 };
    if call.args.len() > most {
        return Err(subcommand_syntax(call, "XGROUP"));
    }
    Ok((makes, read))
}

/// `XGROUP CREATE key group id | $ [MKSTREAM] [ENTRIESREAD count]`
pub(super) fn create(call: &mut Call<'_, '_>) -> Outcome {
    let (makes, read) = options(call, true)?;
    let (key, name) = (call.args.get(2), call.args.get(3));
    let found = if makes { call.keys.stream(key)? } else { Some(stream(call)?) };
    let last = match call.args.get(4) {
        b"$" => found.map_or(EntryId::MIN, |stream| stream.last),
        arg => id(arg)?,
    };
    call.keys.check_key(key)?;
    call.keys.check_key(name)?;
    let stream = match found {
        Some(stream) => {
            if call.keys.group(&stream, name)?.is_some() {
                return Err(Fail::text("BUSYGROUP Consumer Group name already exists"));
            }
            stream
        }
        None => {
            let stream = call.keys.new_stream(key)?;
            call.keys.store_stream(key, &stream)?;
            stream
        }
    };
    call.keys.new_group(&stream, name, last, read)?;
    call.keys.tell_stream(key, "xgroup-create");
    call.out.ok();
    Ok(())
}

/// `XGROUP SETID key group id | $ [ENTRIESREAD count]`
pub(super) fn set_id(call: &mut Call<'_, '_>) -> Outcome {
    let (_, read) = options(call, false)?;
    let (stream, mut group) = stream_and_group(call)?;
    let last = match call.args.get(4) {
        b"$" => stream.last,
        b"-" => EntryId::MIN,
        b"+" => EntryId::MAX,
        arg => id(arg)?,
    };
    (group.last, group.read) = (last, read);
    call.keys.put_group(&stream, &group)?;
    call.keys.tell_stream(call.args.get(2), "xgroup-setid");
    call.out.ok();
    Ok(())
}

/// `XGROUP DESTROY key group`
pub(super) fn destroy(call: &mut Call<'_, '_>) -> Outcome {
    let stream = stream(call)?;
    let found = call.keys.group(&stream, call.args.get(3))?;
    if let Some(group) = &found {
        call.keys.remove_group(&stream, group)?;
        call.keys.tell(call.args.get(2));
        call.keys.tell_stream(call.args.get(2), "xgroup-destroy");
    }
    call.out.integer(i64::from(found.is_some()));
    Ok(())
}

/// Opens the consumer of a name, a new one if there is none. Its number.
pub(super) fn open_consumer(
    call: &mut Call<'_, '_>,
    open: &mut OpenGroup,
    key: &[u8],
    name: &[u8],
) -> Result<u64, Fail> {
    let before = open.group.consumers;
    let number = call.keys.open_consumer(open, name)?;
    if open.group.consumers > before {
        call.keys.tell_stream(key, "xgroup-createconsumer");
    }
    Ok(number)
}

/// `XGROUP CREATECONSUMER key group consumer`
pub(super) fn create_consumer(call: &mut Call<'_, '_>) -> Outcome {
    let (stream, group) = stream_and_group(call)?;
    let name = call.args.get(4);
    let is_new = call.keys.consumer(&stream, &group, name)?.is_none();
    if is_new {
        call.keys.check_key(name)?;
        let mut open = OpenGroup::new(stream, group);
        open_consumer(call, &mut open, call.args.get(2), name)?;
        call.keys.store_group(&open)?;
    }
    call.out.integer(i64::from(is_new));
    Ok(())
}

/// `XGROUP DELCONSUMER key group consumer`
pub(super) fn delete_consumer(call: &mut Call<'_, '_>) -> Outcome {
    let (stream, group) = stream_and_group(call)?;
    let mut pending = 0;
    if let Some(consumer) = call.keys.consumer(&stream, &group, call.args.get(4))? {
        pending = consumer.pending;
        let mut open = OpenGroup::new(stream, group);
        call.keys.remove_consumer(&mut open, &consumer)?;
        call.keys.store_group(&open)?;
        call.keys.tell_stream(call.args.get(2), "xgroup-delconsumer");
    }
    call.out.integer(pending as i64);
    Ok(())
}

/// `XGROUP HELP`
pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    super::describe::help_of(call, "xgroup")
}

/// `XACK key group id [id ...]`
pub(super) fn xack(call: &mut Call<'_, '_>) -> Outcome {
    let mut acknowledged = 0;
    if let Some((stream, group)) = group_at(call)? {
        let ids = call.args.from(3).map(id).collect::<Result<Vec<EntryId>, Fail>>()?;
        let mut open = OpenGroup::new(stream, group);
        for id in ids {
            if let Some(pending) = call.keys.pending(&open.stream, &open.group, id)? {
                call.keys.remove_pending(&mut open, id, pending)?;
                acknowledged += 1;
            }
        }
        if acknowledged > 0 && !seeded("server-ack-uncounted") {
            call.keys.store_group(&open)?;
        }
    }
    call.out.integer(acknowledged);
    Ok(())
}

/// The pending entries that XPENDING is asked for.
struct Asked<'a> {
    idle: i64,
    first: EntryId,
    last: EntryId,
    count: u64,
    consumer: Option<&'a [u8]>,
}

impl<'a> Asked<'a> {
    /// Reads the words of XPENDING behind the group; `None` without any.
    fn read(call: &Call<'a, '_>) -> Result<Option<Asked<'a>>, Fail> {
        let (args, count) = (call.args, call.args.len());
        if count == 3 {
            return Ok(None);
        }
        if !(6..=9).contains(&count) {
            return Err(SYNTAX);
        }
        let (mut at, mut idle) = (3, 0);
        if is_word(args.get(3), "idle") {
            idle = parse_integer(args.get(4)).ok_or(NOT_INTEGER)?;
            if count < 8 {
                return Err(SYNTAX);
            }
            at = 5;
        }
        let wanted = parse_integer(args.get(at + 2)).ok_or(NOT_INTEGER)?.max(0) as u64;
        let (first, last) = (start_of(args.get(at))?, end_of(args.get(at + 1))?);
        Ok(Some(Asked { idle, first, last, count: wanted, consumer: args.from(at + 3).next() }))
    }
}

/// Milliseconds since a pending entry was delivered, by a clock that may have gone back.
pub(super) fn idle_since(call: &Call<'_, '_>, delivered: u64) -> i64 {
    (call.keys.now() as i64).saturating_sub(i64::try_from(delivered).unwrap_or(i64::MAX))
}

/// `XPENDING key group [[IDLE milliseconds] start end count [consumer]]`
pub(super) fn xpending(call: &mut Call<'_, '_>) -> Outcome {
    let asked = Asked::read(call)?;
    let found = group_at(call)?;
    call.shared.metrics.look_up(found.is_some());
    let (stream, group) = found.ok_or_else(|| no_key_or_group(call.args.get(1), call.args.get(2)))?;
    match asked {
        None => summary(call, &stream, &group),
        Some(asked) => listed(call, &stream, &group, &asked),
    }
}

fn summary(call: &mut Call<'_, '_>, stream: &Stream, group: &Group) -> Outcome {
    call.out.array(4);
    call.out.integer(group.pending as i64);
    let edges = (call.keys.pending_edge(stream, group, false)?, call.keys.pending_edge(stream, group, true)?);
    let (Some(first), Some(last)) = edges else {
        call.out.null();
        call.out.null();
        call.out.null_array();
        return Ok(());
    };
    call.out.bulk(id_text(first).as_bytes());
    call.out.bulk(id_text(last).as_bytes());
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    let (mut consumers, mut number) = (Replies::default(), 0);
    call.keys.visit_consumers(stream, group, &mut |consumer| {
        if consumer.pending > 0 {
            consumers.array(2);
            consumers.bulk(&consumer.name);
            consumers.bulk(consumer.pending.to_string().as_bytes());
            number += 1;
        }
        consumers.pending() <= room
    })?;
    call.out.array(number);
    call.out.append(consumers);
    call.room()
}

/// The names of consumers that a command has met, by their numbers.
#[derive(Default)]
pub(super) struct Names(HashMap<u64, Vec<u8>>);

impl Names {
    /// The name of a consumer.
    pub(super) fn of(
        &mut self,
        call: &mut Call<'_, '_>,
        stream: &Stream,
        group: &Group,
        number: u64,
    ) -> Result<&[u8], Fail> {
        Ok(match self.0.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(call.keys.consumer_name(stream, group, number)?),
        })
    }
}

fn listed(call: &mut Call<'_, '_>, stream: &Stream, group: &Group, asked: &Asked<'_>) -> Outcome {
    let consumer = match asked.consumer {
        None => None,
        Some(name) => match call.keys.consumer(stream, group, name)? {
            Some(consumer) => Some(consumer.number),
            None => {
                call.out.array(0);
                return Ok(());
            }
        },
    };
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    let (mut found, mut number, mut names) = (Replies::default(), 0, Names::default());
    let mut next = Some(asked.first);
    'parts: while let Some(first) = next {
        let span = PendingSpan { consumer, first, last: asked.last };
        let part = call.keys.pending_part(stream, group, span)?;
        next = part.last().filter(|_| part.len() == PENDING_TOGETHER).and_then(|(id, _)| id.next());
        for (id, pending) in part {
            if number as u64 == asked.count {
                break 'parts;
            }
            let idle = idle_since(call, pending.delivered);
            if asked.idle != 0 && idle < asked.idle {
                continue;
            }
            found.array(4);
            found.bulk(id_text(id).as_bytes());
            found.bulk(names.of(call, stream, group, pending.consumer)?);
            found.integer(idle.max(0));
            found.integer(pending.deliveries as i64);
            number += 1;
            if found.pending() > room {
                return Err(Fail::OutputLimit);
            }
        }
    }
    call.out.array(number);
    call.out.append(found);
    Ok(())
}

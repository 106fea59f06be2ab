//! XINFO: streams, their groups and consumers. There are no radix trees here: `radix-tree-keys` is
//! 1 for a stream with entries, else 0, and `radix-tree-nodes` is one more.

use super::fail::{NO_KEY, NOT_INTEGER};
use super::groups::{Names, no_group, subcommand_syntax};
use super::stream_reads::{counted_up_to, has_gaps};
use super::streams::{entries, entry, id_text};
use super::{Call, Fail, Outcome, is_word};
use crate::keyspace::{Consumer, EntryId, EntrySpan, Group, PENDING_TOGETHER, PendingSpan, Stream};
use crate::resp::number::parse_integer;
use crate::resp::reply::Replies;

/// The stream of a subcommand.
fn stream_of(call: &mut Call<'_, '_>) -> Result<Stream, Fail> {
    let found = call.keys.stream(call.args.get(2))?;
    call.shared.metrics.look_up(found.is_some());
    found.ok_or(NO_KEY)
}

/// The form of XINFO STREAM: `None` is the brief one, else the number of entries of each list.
fn form(call: &Call<'_, '_>) -> Result<Option<u64>, Fail> {
    const FULL_COUNT: u64 = 10;
    let wrong = || subcommand_syntax(call, "XINFO");
    let options: Vec<&[u8]> = call.args.from(3).collect();
    match options[..] {
        [] => Ok(None),
        [full] if is_word(full, "full") => Ok(Some(FULL_COUNT)),
        [full, count, number] if is_word(full, "full") && is_word(count, "count") => {
            Ok(Some(match parse_integer(number).ok_or(NOT_INTEGER)? {
                0 => u64::MAX,
                count @ 1.. => count as u64,
                _ => FULL_COUNT,
            }))
        }
        _ => Err(wrong()),
    }
}

/// The groups of a stream, if a reply has room for them.
fn groups_of(call: &mut Call<'_, '_>, stream: &Stream) -> Result<Vec<Group>, Fail> {
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    let (mut groups, mut size) = (Vec::new(), 0);
    call.keys.visit_groups(stream, &mut |group| {
        size += group.name.len() + 64;
        groups.push(group);
        size <= room
    })?;
    if size > room { Err(Fail::OutputLimit) } else { Ok(groups) }
}

fn field_id(out: &mut Replies, name: &str, id: EntryId) {
    out.bulk(name.as_bytes());
    out.bulk(id_text(id).as_bytes());
}

fn field_number(out: &mut Replies, name: &str, number: u64) {
    out.bulk(name.as_bytes());
    out.integer(number as i64);
}

/// The entries that a group has read, and those that it has not, as far as this can be told.
fn progress(out: &mut Replies, stream: &Stream, oldest: Option<EntryId>, group: &Group) {
    out.bulk(b"entries-read");
    match group.read {
        Some(read) => out.integer(read as i64),
        None => out.null(),
    }
    out.bulk(b"lag");
    let read = match group.read {
        _ if stream.added == 0 => Some(0),
        Some(read) if !has_gaps(stream, oldest, group.last) => Some(read),
        _ => counted_up_to(stream, oldest, group.last),
    };
    match read {
        Some(read) => out.integer((stream.added as i64).wrapping_sub(read as i64)),
        None => out.null(),
    }
}

/// `XINFO STREAM key [FULL [COUNT count]]`
pub(super) fn stream(call: &mut Call<'_, '_>) -> Outcome {
    let stream = stream_of(call)?;
    let form = form(call)?;
    let oldest = call.keys.first_entry(&stream, EntrySpan::ALL)?;
    call.out.map(if form.is_some() { 9 } else { 10 });
    let keys = u64::from(stream.len() > 0);
    field_number(call.out, "length", stream.len());
    field_number(call.out, "radix-tree-keys", keys);
    field_number(call.out, "radix-tree-nodes", keys + 1);
    field_id(call.out, "last-generated-id", stream.last);
    field_id(call.out, "max-deleted-entry-id", stream.deleted);
    field_number(call.out, "entries-added", stream.added);
    field_id(call.out, "recorded-first-entry-id", oldest.unwrap_or(EntryId::MIN));
    match form {
        None => brief(call, &stream, oldest)?,
        Some(count) => full(call, &stream, oldest, count)?,
    }
    call.room()
}

fn brief(call: &mut Call<'_, '_>, stream: &Stream, oldest: Option<EntryId>) -> Outcome {
    let mut groups = 0;
    call.keys.visit_groups(stream, &mut |_| {
        groups += 1;
        true
    })?;
    field_number(call.out, "groups", groups);
    let newest = call.keys.first_entry(stream, EntrySpan { backwards: true, ..EntrySpan::ALL })?;
    for (name, id) in [("first-entry", oldest), ("last-entry", newest)] {
        call.out.bulk(name.as_bytes());
        match id {
            Some(id) => {
                let fields = call.keys.entry(stream, id)?.unwrap_or_default();
                entry(call.out, id, &fields)?;
            }
            None => call.out.null(),
        }
    }
    Ok(())
}

fn full(call: &mut Call<'_, '_>, stream: &Stream, oldest: Option<EntryId>, count: u64) -> Outcome {
    let (number, list) = entries(call, stream, EntrySpan::ALL, count, &mut |_| {})?;
    call.out.bulk(b"entries");
    call.out.array(number);
    call.out.append(list);
    let groups = groups_of(call, stream)?;
    call.out.bulk(b"groups");
    call.out.array(groups.len());
    for group in groups {
        call.out.map(7);
        call.out.bulk(b"name");
        call.out.bulk(&group.name);
        field_id(call.out, "last-delivered-id", group.last);
        progress(call.out, stream, oldest, &group);
        field_number(call.out, "pel-count", group.pending);
        pending(call, stream, &group, None, count)?;
        let consumers = consumers_of(call, stream, &group)?;
        call.out.bulk(b"consumers");
        call.out.array(consumers.len());
        for consumer in consumers {
            call.out.map(4);
            call.out.bulk(b"name");
            call.out.bulk(&consumer.name);
            field_number(call.out, "seen-time", consumer.seen);
            field_number(call.out, "pel-count", consumer.pending);
            pending(call, stream, &group, Some(consumer.number), count)?;
        }
        call.room()?;
    }
    Ok(())
}

/// Pending entries of a group, with the names of their consumers, or of one consumer.
fn pending(call: &mut Call<'_, '_>, stream: &Stream, group: &Group, consumer: Option<u64>, count: u64) -> Outcome {
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    let (mut list, mut number, mut names) = (Replies::default(), 0, Names::default());
    let mut next = Some(EntryId::MIN);
    'parts: while let Some(first) = next {
        let part = call.keys.pending_part(stream, group, PendingSpan { consumer, first, last: EntryId::MAX })?;
        next = part.last().filter(|_| part.len() == PENDING_TOGETHER).and_then(|(id, _)| id.next());
        for (id, pending) in part {
            if number as u64 == count {
                break 'parts;
            }
            list.array(if consumer.is_some() { 3 } else { 4 });
            list.bulk(id_text(id).as_bytes());
            if consumer.is_none() {
                list.bulk(names.of(call, stream, group, pending.consumer)?);
            }
            list.integer(pending.delivered as i64);
            list.integer(pending.deliveries as i64);
            number += 1;
            if list.pending() > room {
                return Err(Fail::OutputLimit);
            }
        }
    }
    call.out.bulk(b"pending");
    call.out.array(number);
    call.out.append(list);
    Ok(())
}

/// The consumers of a group, if a reply has room for them.
fn consumers_of(call: &mut Call<'_, '_>, stream: &Stream, group: &Group) -> Result<Vec<Consumer>, Fail> {
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    let (mut consumers, mut size) = (Vec::new(), 0);
    call.keys.visit_consumers(stream, group, &mut |consumer| {
        size += consumer.name.len() + 32;
        consumers.push(consumer);
        size <= room
    })?;
    if size > room { Err(Fail::OutputLimit) } else { Ok(consumers) }
}

/// `XINFO GROUPS key`
pub(super) fn groups(call: &mut Call<'_, '_>) -> Outcome {
    let stream = stream_of(call)?;
    let oldest = call.keys.first_entry(&stream, EntrySpan::ALL)?;
    let groups = groups_of(call, &stream)?;
    call.out.array(groups.len());
    for group in groups {
        call.out.map(6);
        call.out.bulk(b"name");
        call.out.bulk(&group.name);
        field_number(call.out, "consumers", group.consumers);
        field_number(call.out, "pending", group.pending);
        field_id(call.out, "last-delivered-id", group.last);
        progress(call.out, &stream, oldest, &group);
    }
    call.room()
}

/// `XINFO CONSUMERS key group`
pub(super) fn consumers(call: &mut Call<'_, '_>) -> Outcome {
    let stream = stream_of(call)?;
    let name = call.args.get(3);
    let group = call.keys.group(&stream, name)?.ok_or_else(|| no_group(call.args.get(2), name))?;
    let consumers = consumers_of(call, &stream, &group)?;
    call.out.array(consumers.len());
    for consumer in consumers {
        call.out.map(3);
        call.out.bulk(b"name");
        call.out.bulk(&consumer.name);
        field_number(call.out, "pending", consumer.pending);
        call.out.bulk(b"idle");
        let idle = super::groups::idle_since(call, consumer.seen).max(0);
        call.out.integer(idle);
    }
    call.room()
}

/// `XINFO HELP`
pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    super::describe::help_of(call, "xinfo")
}

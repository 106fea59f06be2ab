//! A value on its way out of the keyspace: DUMP and exports.
//!
//! Elements are read in order and written as they come. `full` is asked between them: an export
//! takes the bytes out, DUMP stops above its limit. The entries of a stream are read twice, as the
//! number of listpacks comes before them.

use crate::keyspace::{
    Collection, Consumer, ElementSpan, EntryId, EntrySpan, Group, HASH, HashedMember, KeyError, Keyspace,
    PENDING_TOGETHER, PendingSpan, ScoreSpan, Stream, ValueType, decode_fields,
};
use crate::rdb::{Output, StreamOutput, kind};
use everbyte_kv::Result;

/// Takes bytes out of the output, or not; whether the value goes on.
pub(crate) type Full<'f> = dyn FnMut(&mut Output) -> bool + 'f;

/// The number of a type in the format, as values of it are written.
pub(crate) fn number_of(kind: ValueType) -> u8 {
    match kind {
        ValueType::String => kind::STRING,
        ValueType::List => kind::LIST,
        ValueType::Set => kind::SET,
        ValueType::SortedSet => kind::SORTED_SET,
        ValueType::Hash => kind::HASH,
        ValueType::Stream => kind::STREAM_2,
    }
}

/// Writes the value of a key that is there, without its type; `false` if `full` has stopped it.
pub(crate) fn write_value(
    keys: &mut Keyspace<'_>,
    key: &[u8],
    kind: ValueType,
    out: &mut Output,
    full: &mut Full<'_>,
) -> std::result::Result<bool, KeyError> {
    match kind {
        ValueType::String => {
            out.string(&keys.get(key)?.unwrap_or_default());
            Ok(full(out))
        }
        ValueType::Stream => match keys.stream(key)? {
            Some(stream) => Ok(write_stream(keys, &stream, out, full)?),
            None => Ok(false),
        },
        _ => match keys.collection(key, kind)? {
            Some(of) => Ok(write_elements(keys, &of, out, full)?),
            None => Ok(false),
        },
    }
}

fn write_elements(keys: &mut Keyspace<'_>, of: &Collection, out: &mut Output, full: &mut Full<'_>) -> Result<bool> {
    let mut more = true;
    let mut next = |out: &mut Output| {
        more = full(out);
        more
    };
    out.length(of.count);
    match of.kind {
        ValueType::List => keys.visit_list(of, 0..of.count, false, &mut |element| {
            out.string(element);
            next(out)
        })?,
        ValueType::SortedSet => keys.walk_scores(of, &ScoreSpan::all(), true, 0, &mut |score, member| {
            out.string(member);
            out.score(score);
            next(out)
        })?,
        ValueType::Set => keys.walk_members(of, 0, false, &mut |HashedMember { member, .. }| {
            out.string(member);
            next(out)
        })?,
        _ => keys.visit_elements(of, ElementSpan::ALL, &mut |element, value| {
            out.string(element.get(HASH..).unwrap_or_default());
            out.string(value);
            next(out)
        })?,
    }
    Ok(more)
}

/// Gives `each` the entries of a stream as listpacks, while it says `true`; the number of listpacks
/// and the first id.
fn visit_packs(keys: &mut Keyspace<'_>, stream: &Stream, each: &mut Full<'_>) -> Result<Option<(u64, (u64, u64))>> {
    let (mut packs, mut more) = (StreamOutput::default(), true);
    keys.visit_entries(stream, EntrySpan { fields: true, ..EntrySpan::ALL }, &mut |id, fields| {
        packs.entry((id.ms, id.seq), &decode_fields(fields)?);
        more = each(packs.parts());
        Ok(more)
    })?;
    packs.close();
    more = more && each(packs.parts());
    Ok(more.then(|| packs.sums()))
}

fn write_stream(keys: &mut Keyspace<'_>, stream: &Stream, out: &mut Output, full: &mut Full<'_>) -> Result<bool> {
    let mut counted = |part: &mut Output| {
        part.clear();
        true
    };
    let Some((count, first)) = visit_packs(keys, stream, &mut counted)? else { return Ok(false) };
    out.length(count);
    let written = visit_packs(keys, stream, &mut |part| {
        out.append(part);
        full(out)
    })?;
    if written.is_none() {
        return Ok(false);
    }
    let id = |id: EntryId| [id.ms, id.seq];
    out.length(stream.len());
    let ids = [id(stream.last), [first.0, first.1], id(stream.deleted)];
    ids.concat().into_iter().for_each(|word| out.length(word));
    out.length(stream.added);
    write_groups(keys, stream, out, full)
}

fn write_groups(keys: &mut Keyspace<'_>, stream: &Stream, out: &mut Output, full: &mut Full<'_>) -> Result<bool> {
    let mut groups = Vec::new();
    keys.visit_groups(stream, &mut |group| {
        groups.push(group);
        true
    })?;
    out.length(groups.len() as u64);
    for group in &groups {
        out.plain(&group.name);
        [group.last.ms, group.last.seq, group.read.unwrap_or(u64::MAX)].into_iter().for_each(|word| out.length(word));
        out.length(group.pending);
        if !write_pending(keys, stream, group, None, out, full)? {
            return Ok(false);
        }
        let mut consumers: Vec<Consumer> = Vec::new();
        keys.visit_consumers(stream, group, &mut |consumer| {
            consumers.push(consumer);
            true
        })?;
        out.length(consumers.len() as u64);
        for consumer in &consumers {
            out.plain(&consumer.name);
            out.word(consumer.seen);
            out.length(consumer.pending);
            if !write_pending(keys, stream, group, Some(consumer.number), out, full)? {
                return Ok(false);
            }
        }
    }
    Ok(full(out))
}

/// Writes the pending entries of a group, or the ids of those of a consumer.
fn write_pending(
    keys: &mut Keyspace<'_>,
    stream: &Stream,
    group: &Group,
    consumer: Option<u64>,
    out: &mut Output,
    full: &mut Full<'_>,
) -> Result<bool> {
    let mut first = Some(EntryId::MIN);
    while let Some(from) = first {
        let span = PendingSpan { consumer, first: from, last: EntryId::MAX };
        let part = keys.pending_part(stream, group, span)?;
        for (id, pending) in &part {
            out.id((id.ms, id.seq));
            if consumer.is_none() {
                out.word(pending.delivered);
                out.length(pending.deliveries);
            }
        }
        if !full(out) {
            return Ok(false);
        }
        first = part.last().filter(|_| part.len() == PENDING_TOGETHER).and_then(|(last, _)| last.next());
    }
    Ok(true)
}

//! XCLAIM and XAUTOCLAIM: pending entries that are given to another consumer.
//!
//! Either decides first what becomes of each entry, and writes the reply; then it changes the
//! group. So a reply above the output limit is refused before anything is changed, and so are more
//! decisions than have room beside it. A pending entry whose stream has lost it is not pending any
//! more.

use super::fail::SYNTAX;
use super::groups::{group_at, idle_since, no_key_or_group, open_consumer};
use super::streams::{entry, id, id_text, start_of};
use super::{Call, Fail, Outcome, is_word, shown};
use crate::keyspace::{EntryId, Group, OpenGroup, PENDING_TOGETHER, Pending, PendingSpan, Stream};
use crate::resp::number::parse_integer;
use crate::resp::reply::Replies;
use std::collections::HashMap;

/// The end of an entry's claim.
#[derive(Clone, Copy)]
enum Decision {
    /// It is not pending any more.
    Dropped(Pending),
    /// The claiming consumer has it, as of this time and with so many deliveries.
    Claimed { old: Option<Pending>, delivered: u64, deliveries: u64 },
}

/// Bytes of memory that a decision costs in a list that grows.
const EACH: usize = 2 * size_of::<(EntryId, Decision)>();

/// The decisions about pending entries, in order, and the reply about them.
struct Claims {
    decisions: Vec<(EntryId, Decision)>,
    reply: Replies,
    /// Entries in the reply.
    number: usize,
    just_ids: bool,
    room: usize,
}

impl Claims {
    fn new(call: &Call<'_, '_>) -> Claims {
        let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
        Claims { decisions: Vec::new(), reply: Replies::default(), number: 0, just_ids: false, room }
    }

    /// The fields of an entry as far as the reply has them; `None` without the entry.
    fn fields(&self, call: &mut Call<'_, '_>, stream: &Stream, id: EntryId) -> Result<Option<Vec<u8>>, Fail> {
        Ok(match self.just_ids {
            true => call.keys.has_entry(stream, id)?.then(Vec::new),
            false => call.keys.entry(stream, id)?,
        })
    }

    /// Takes a decision; an error if the decisions and the reply have more bytes than a reply may.
    fn decide(&mut self, id: EntryId, decision: Decision) -> Outcome {
        self.decisions.push((id, decision));
        let held = self.reply.pending() + self.decisions.len() * EACH;
        if held > self.room { Err(Fail::OutputLimit) } else { Ok(()) }
    }

    fn claim(&mut self, id: EntryId, fields: &[u8], decision: Decision) -> Outcome {
        if self.just_ids {
            self.reply.bulk(id_text(id).as_bytes());
        } else {
            entry(&mut self.reply, id, fields)?;
        }
        self.number += 1;
        self.decide(id, decision)
    }

    /// Changes the group; whether anything of it has changed.
    fn apply(&self, call: &mut Call<'_, '_>, open: &mut OpenGroup, name: &[u8]) -> Result<bool, Fail> {
        let claims = self.decisions.iter().any(|(_, decision)| matches!(decision, Decision::Claimed { .. }));
        let consumer = if claims { open_consumer(call, open, call.args.get(1), name)? } else { 0 };
        for (id, decision) in &self.decisions {
            match *decision {
                Decision::Dropped(old) => call.keys.remove_pending(open, *id, old)?,
                Decision::Claimed { old, delivered, deliveries } => {
                    // An entry that is named twice is pending already.
                    let old = match old {
                        Some(_) => call.keys.pending(&open.stream, &open.group, *id)?,
                        None => None,
                    };
                    call.keys.put_pending(open, *id, old, Pending { consumer, delivered, deliveries })?;
                }
            }
        }
        Ok(!self.decisions.is_empty())
    }
}

/// The options of XCLAIM.
#[derive(Default)]
struct ClaimOptions {
    forced: bool,
    just_ids: bool,
    /// Milliseconds since 1970 of the delivery, if given.
    time: Option<i64>,
    deliveries: Option<i64>,
    last: Option<EntryId>,
}

impl ClaimOptions {
    /// Reads the arguments from `first` on.
    fn read(call: &Call<'_, '_>, first: usize) -> Result<ClaimOptions, Fail> {
        let mut options = ClaimOptions::default();
        let mut rest = call.args.from(first);
        while let Some(option) = rest.next() {
            let more = rest.len() > 0;
            let mut number =
                |text: &'static str| parse_integer(rest.next().unwrap_or_default()).ok_or(Fail::text(text));
            match option {
                _ if is_word(option, "force") => options.forced = true,
                _ if is_word(option, "justid") => options.just_ids = true,
                _ if more && is_word(option, "idle") => {
                    let idle = number("ERR Invalid IDLE option argument for XCLAIM")?;
                    options.time = Some((call.keys.now() as i64).saturating_sub(idle));
                }
                _ if more && is_word(option, "time") => {
                    options.time = Some(number("ERR Invalid TIME option argument for XCLAIM")?);
                }
                _ if more && is_word(option, "retrycount") => {
                    options.deliveries = Some(number("ERR Invalid RETRYCOUNT option argument for XCLAIM")?);
                }
                _ if more && is_word(option, "lastid") => options.last = Some(id(rest.next().unwrap_or_default())?),
                _ => {
                    let text = [b"ERR Unrecognized XCLAIM option '", shown(option, usize::MAX), b"'"].concat();
                    return Err(Fail::made(text));
                }
            }
        }
        Ok(options)
    }

    /// The time of the delivery: now, unless one in the past was given.
    fn delivered(&self, now: u64) -> u64 {
        self.time.and_then(|time| u64::try_from(time).ok()).filter(|time| *time <= now).unwrap_or(now)
    }
}

fn min_idle(arg: &[u8], text: &'static str) -> Result<i64, Fail> {
    Ok(parse_integer(arg).ok_or(Fail::text(text))?.max(0))
}

fn found(call: &Call<'_, '_>, group: Option<(Stream, Group)>) -> Result<OpenGroup, Fail> {
    let (stream, group) = group.ok_or_else(|| no_key_or_group(call.args.get(1), call.args.get(2)))?;
    Ok(OpenGroup::new(stream, group))
}

/// `XCLAIM key group consumer min-idle-time id [id ...] [IDLE milliseconds] [TIME milliseconds]
/// [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID id]`
pub(super) fn xclaim(call: &mut Call<'_, '_>) -> Outcome {
    let group = group_at(call)?;
    let mut open = found(call, group)?;
    let idle = min_idle(call.args.get(4), "ERR Invalid min-idle-time argument for XCLAIM")?;
    let ids: Vec<EntryId> = call.args.from(5).map_while(|arg| id(arg).ok()).collect();
    let options = ClaimOptions::read(call, 5 + ids.len())?;
    let name = call.args.get(3);
    call.keys.check_key(name)?;
    let mut claims = Claims { just_ids: options.just_ids, ..Claims::new(call) };
    let delivered = options.delivered(call.keys.now());
    // The entries as those named before leave them.
    let mut known: HashMap<EntryId, Option<Pending>> = HashMap::new();
    for id in ids {
        let old = match known.get(&id) {
            Some(known) => *known,
            None => call.keys.pending(&open.stream, &open.group, id)?,
        };
        let Some(fields) = claims.fields(call, &open.stream, id)? else {
            if let Some(old) = old {
                claims.decide(id, Decision::Dropped(old))?;
                known.insert(id, None);
            }
            continue;
        };
        if old.is_none() && !options.forced || old.is_some_and(|old| idle > 0 && idle_since(call, old.delivered) < idle)
        {
            continue;
        }
        // A new one begins with one delivery, which this one follows.
        let before = old.map_or(1, |old| old.deliveries);
        let deliveries = match options.deliveries.and_then(|count| u64::try_from(count).ok()) {
            Some(count) => count,
            None if options.just_ids => before,
            None => before.saturating_add(1),
        };
        claims.claim(id, &fields, Decision::Claimed { old, delivered, deliveries })?;
        // Its consumer does not matter here.
        known.insert(id, Some(Pending { consumer: 0, delivered, deliveries }));
    }
    let mut changes = claims.apply(call, &mut open, name)?;
    if let Some(last) = options.last.filter(|last| *last > open.group.last) {
        open.group.last = last;
        changes = true;
    }
    if changes {
        call.keys.store_group(&open)?;
    }
    call.out.array(claims.number);
    call.out.append(claims.reply);
    Ok(())
}

/// `XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]`
pub(super) fn xautoclaim(call: &mut Call<'_, '_>) -> Outcome {
    /// Entries looked at for each that is asked for.
    const ATTEMPTS: u64 = 10;
    let idle = min_idle(call.args.get(4), "ERR Invalid min-idle-time argument for XAUTOCLAIM")?;
    let start = start_of(call.args.get(5))?;
    let mut claims = Claims::new(call);
    let mut count = 100_u64;
    let mut rest = call.args.from(6);
    while let Some(option) = rest.next() {
        if rest.len() > 0 && is_word(option, "count") {
            let number = parse_integer(rest.next().unwrap_or_default());
            let number = number.filter(|number| (1..=i64::MAX / 16).contains(number));
            count = number.ok_or(Fail::text("ERR COUNT must be > 0"))? as u64;
        } else if is_word(option, "justid") {
            claims.just_ids = true;
        } else {
            return Err(SYNTAX);
        }
    }
    let group = group_at(call)?;
    let mut open = found(call, group)?;
    let name = call.args.get(3);
    call.keys.check_key(name)?;
    let (now, mut attempts) = (call.keys.now(), count * ATTEMPTS);
    let (mut next, mut end) = (Some(start), None);
    'parts: while let Some(first) = next {
        let span = PendingSpan { consumer: None, first, last: EntryId::MAX };
        let part = call.keys.pending_part(&open.stream, &open.group, span)?;
        next = part.last().filter(|_| part.len() == PENDING_TOGETHER).and_then(|(id, _)| id.next());
        for (id, pending) in part {
            if attempts == 0 || count == 0 {
                end = Some(id);
                break 'parts;
            }
            attempts -= 1;
            let Some(fields) = claims.fields(call, &open.stream, id)? else {
                claims.decide(id, Decision::Dropped(pending))?;
                count -= 1;
                continue;
            };
            if idle > 0 && idle_since(call, pending.delivered) < idle {
                continue;
            }
            let deliveries = pending.deliveries.saturating_add(u64::from(!claims.just_ids));
            claims.claim(id, &fields, Decision::Claimed { old: Some(pending), delivered: now, deliveries })?;
            count -= 1;
        }
    }
    let (mut gone, mut deleted) = (Replies::default(), 0);
    for (id, _) in claims.decisions.iter().filter(|(_, decision)| matches!(decision, Decision::Dropped(_))) {
        gone.bulk(id_text(*id).as_bytes());
        deleted += 1;
    }
    if claims.reply.pending() + gone.pending() > claims.room {
        return Err(Fail::OutputLimit);
    }
    if claims.apply(call, &mut open, name)? {
        call.keys.store_group(&open)?;
    }
    call.out.array(3);
    call.out.bulk(id_text(end.unwrap_or(EntryId::MIN)).as_bytes());
    call.out.array(claims.number);
    call.out.append(claims.reply);
    call.out.array(deleted);
    call.out.append(gone);
    Ok(())
}

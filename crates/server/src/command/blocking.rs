//! BLPOP, BRPOP, BLMOVE, BRPOPLPUSH, BLMPOP, BZPOPMIN, BZPOPMAX, BZMPOP: commands that wait for an
//! element. `waiting.rs` has the clients that do, `stream_reads.rs` XREAD and XREADGROUP.

use super::lists::{end, lmpop_words, move_element, pop_one, pop_several, pop_words};
use super::sorted_sets::{self, ScoredReplies};
use super::{Call, Fail, Outcome, is_word};
use crate::clients::ReplyMode;
use crate::keyspace::{Collection, End, KeyError, ValueType};
use crate::outbox::Reader;
use crate::resp::extended::Extended;
use crate::transaction::Transaction;
use crate::waiting::{Attempt, ReplicaWait, Waiter};

/// The deadline that a timeout in seconds means; 0 is none.
fn deadline(call: &Call<'_, '_>, timeout: &[u8]) -> Result<Option<u64>, Fail> {
    const NO_NUMBER: Fail = Fail::text("ERR timeout is not a float or out of range");
    // Redis converts a time that is too long to the smallest number.
    let milliseconds = Extended::parse(timeout).ok_or(NO_NUMBER)?.thousandfold().unwrap_or(i64::MIN);
    match u64::try_from(milliseconds) {
        Ok(milliseconds) => Ok(wait_until(call, milliseconds)),
        Err(_) => Err(Fail::text("ERR timeout is negative")),
    }
}

/// The deadline of a wait of so many milliseconds from now; 0 is none. The iteration may have begun
/// before the request was sent, so its time does not count.
pub(super) fn wait_until(call: &Call<'_, '_>, milliseconds: u64) -> Option<u64> {
    (milliseconds > 0).then(|| call.shared.clock_up().saturating_add(milliseconds).min(i64::MAX as u64))
}

/// Tries for each key of `type_` in turn; if none has anything, waits until one does, unless in a
/// transaction. A key of another type is an error.
fn take_or_wait<'k>(
    call: &mut Call<'_, '_>,
    keys: impl Iterator<Item = &'k [u8]> + Clone,
    type_: ValueType,
    deadline: Option<u64>,
    attempt: Attempt,
) -> Result<bool, Fail> {
    for key in keys.clone() {
        if call.keys.collection(key, type_)?.is_some() && attempt(call, key)? {
            return Ok(true);
        }
    }
    if call.client.executing {
        return Ok(false);
    }
    let mut command = Transaction::default();
    command.queue(0, &call.args, true);
    let tries_absent = false;
    wait(call, keys, Wait { command, deadline, attempt, tries_absent, replicas: None });
    Ok(true)
}

/// A command that waits, and until when.
pub(super) struct Wait {
    pub command: Transaction,
    pub deadline: Option<u64>,
    pub attempt: Attempt,
    pub tries_absent: bool,
    pub replicas: Option<ReplicaWait>,
}

impl Wait {
    /// For something else than a key.
    pub(super) fn for_no_key(deadline: Option<u64>) -> Wait {
        let (command, attempt): (_, Attempt) = (Transaction::default(), |_, _| Ok(false));
        Wait { command, deadline, attempt, tries_absent: false, replicas: None }
    }
}

/// The client waits for these keys from now on.
pub(super) fn wait<'k>(call: &mut Call<'_, '_>, keys: impl Iterator<Item = &'k [u8]>, wait: Wait) {
    let Wait { command, deadline, attempt, tries_absent, replicas } = wait;
    let mut places: Vec<(u8, Vec<u8>)> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for key in keys.filter(|key| seen.insert(*key)) {
        places.push((call.keys.database(), key.to_vec()));
    }
    let silent = matches!(call.client.reply_mode, ReplyMode::Off | ReplyMode::Skip);
    let reader = Reader { client: call.client.id, slot: call.client.slot, protocol: call.out.protocol, silent };
    call.shared.waiters.add(call.client, Waiter { reader, command, places, deadline, attempt, tries_absent, replicas });
}

/// The collection under a key that another command has changed.
fn now(call: &mut Call<'_, '_>, key: &[u8], type_: ValueType) -> Result<Option<Collection>, Fail> {
    match call.keys.collection(key, type_) {
        Err(KeyError::WrongType) => Ok(None),
        other => Ok(other?),
    }
}

fn list_now(call: &mut Call<'_, '_>, key: &[u8]) -> Result<Option<Collection>, Fail> {
    now(call, key, ValueType::List)
}

fn pop(call: &mut Call<'_, '_>, type_: ValueType, attempt: Attempt) -> Outcome {
    let last = call.args.len() - 1;
    let deadline = deadline(call, call.args.get(last))?;
    let keys = call.args;
    if !take_or_wait(call, (1..last).map(|index| keys.get(index)), type_, deadline, attempt)? {
        call.out.null_array();
    }
    Ok(())
}

fn pop_from(call: &mut Call<'_, '_>, key: &[u8], end: End) -> Result<bool, Fail> {
    let Some(list) = list_now(call, key)? else { return Ok(false) };
    call.out.array(2);
    call.out.bulk(key);
    pop_one(call, key, list, end)?;
    Ok(true)
}

/// `BLPOP key [key ...] timeout`
pub(super) fn blpop(call: &mut Call<'_, '_>) -> Outcome {
    pop(call, ValueType::List, |call, key| pop_from(call, key, End::Head))
}

/// `BRPOP key [key ...] timeout`
pub(super) fn brpop(call: &mut Call<'_, '_>) -> Outcome {
    pop(call, ValueType::List, |call, key| pop_from(call, key, End::Tail))
}

fn move_from(call: &mut Call<'_, '_>, key: &[u8], from: End, to: End) -> Result<bool, Fail> {
    if list_now(call, key)?.is_none() {
        return Ok(false);
    }
    move_element(call, from, to)?;
    Ok(true)
}

fn move_or_wait(call: &mut Call<'_, '_>, timeout: &[u8], attempt: Attempt) -> Outcome {
    let deadline = deadline(call, timeout)?;
    let source = call.args.get(1);
    if !take_or_wait(call, std::iter::once(source), ValueType::List, deadline, attempt)? {
        call.out.null();
    }
    Ok(())
}

/// `BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout`
pub(super) fn blmove(call: &mut Call<'_, '_>) -> Outcome {
    end(call.args.get(3))?;
    end(call.args.get(4))?;
    move_or_wait(call, call.args.get(5), |call, key| {
        let (from, to) = (end(call.args.get(3))?, end(call.args.get(4))?);
        move_from(call, key, from, to)
    })
}

/// `BRPOPLPUSH source destination timeout`
pub(super) fn brpoplpush(call: &mut Call<'_, '_>) -> Outcome {
    move_or_wait(call, call.args.get(3), |call, key| move_from(call, key, End::Tail, End::Head))
}

/// `BLMPOP timeout numkeys key [key ...] LEFT | RIGHT [COUNT count]`
pub(super) fn blmpop(call: &mut Call<'_, '_>) -> Outcome {
    let deadline = deadline(call, call.args.get(1))?;
    let (keys, ..) = lmpop_words(call, 2)?;
    let args = call.args;
    let attempt: Attempt = |call, key| {
        let (_, end, count) = lmpop_words(call, 2)?;
        let Some(list) = list_now(call, key)? else { return Ok(false) };
        call.out.array(2);
        call.out.bulk(key);
        pop_several(call, key, list, end, count)?;
        Ok(true)
    };
    if !take_or_wait(call, keys.map(|index| args.get(index)), ValueType::List, deadline, attempt)? {
        call.out.null_array();
    }
    Ok(())
}

fn pop_scored(call: &mut Call<'_, '_>, key: &[u8], from_end: bool) -> Result<bool, Fail> {
    let Some(set) = now(call, key, ValueType::SortedSet)? else { return Ok(false) };
    call.out.array(3);
    call.out.bulk(key);
    sorted_sets::pop_one(call, key, set, from_end)?;
    Ok(true)
}

/// `BZPOPMIN key [key ...] timeout`
pub(super) fn bzpopmin(call: &mut Call<'_, '_>) -> Outcome {
    pop(call, ValueType::SortedSet, |call, key| pop_scored(call, key, false))
}

/// `BZPOPMAX key [key ...] timeout`
pub(super) fn bzpopmax(call: &mut Call<'_, '_>) -> Outcome {
    pop(call, ValueType::SortedSet, |call, key| pop_scored(call, key, true))
}

/// `BZMPOP timeout numkeys key [key ...] MIN | MAX [COUNT count]`
pub(super) fn bzmpop(call: &mut Call<'_, '_>) -> Outcome {
    const ENDS: [&str; 2] = ["min", "max"];
    let deadline = deadline(call, call.args.get(1))?;
    let (keys, ..) = pop_words(call, 2, ENDS)?;
    let args = call.args;
    let attempt: Attempt = |call, key| {
        let (_, end, count) = pop_words(call, 2, ENDS)?;
        let Some(set) = now(call, key, ValueType::SortedSet)? else { return Ok(false) };
        let mut found = ScoredReplies::new(call, true);
        found.paired = true;
        call.out.array(2);
        call.out.bulk(key);
        sorted_sets::pop_several(call, key, set, is_word(end, "max"), count, found)?;
        Ok(true)
    };
    if !take_or_wait(call, keys.map(|index| args.get(index)), ValueType::SortedSet, deadline, attempt)? {
        call.out.null_array();
    }
    Ok(())
}

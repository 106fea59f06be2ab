//! Sorted sets: ZADD, ZREM and their kin, and members one by one. `keyspace/sorted_sets.rs` has the
//! elements, `sorted_ranges.rs` the commands about ranges of members.
//!
//! A command that changes a sorted set checks all it was given before its first change (ITER-3),
//! and touches no other members than those it names.

use super::fail::{NOT_FLOAT, NOT_POSITIVE, SYNTAX};
use super::lists::{at_least, pop_words};
use super::scan::members;
use super::{Call, Fail, Outcome, is_word};
use crate::keyspace::{Collection, ScoreSpan, ValueType, damaged};
use crate::resp::double::parse_double;
use crate::resp::reply::{Protocol, Replies};

/// The sorted set at a key; `None` without one.
pub(super) fn set_at(call: &mut Call<'_, '_>, key: &[u8]) -> Result<Option<Collection>, Fail> {
    Ok(call.keys.collection(key, ValueType::SortedSet)?)
}

/// The sorted set that a command reads.
pub(super) fn looked_up(call: &mut Call<'_, '_>, key: &[u8]) -> Result<Option<Collection>, Fail> {
    let found = set_at(call, key)?;
    call.shared.metrics.look_up(found.is_some());
    Ok(found)
}

/// A score or a weight.
pub(super) fn double(arg: &[u8], text: Fail) -> Result<f64, Fail> {
    parse_double(arg).ok_or(text)
}

bitflags::bitflags! {
    /// The options of ZADD.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(super) struct AddOptions: u8 {
        /// New members only.
        const NX = 1;
        /// No new members.
        const XX = 1 << 1;
        /// Only greater scores than a member has.
        const GT = 1 << 2;
        /// Only smaller ones.
        const LT = 1 << 3;
        /// Count the members with changed scores.
        const CH = 1 << 4;
        /// Add to the score, and reply with it.
        const INCR = 1 << 5;
    }
}

impl AddOptions {
    fn named(arg: &[u8]) -> Option<AddOptions> {
        let names = ["nx", "xx", "gt", "lt", "ch", "incr"];
        let place = names.iter().position(|name| is_word(arg, name))?;
        AddOptions::from_bits(1 << place)
    }

    fn check(self, pairs: usize) -> Outcome {
        let both = |one: AddOptions, other: AddOptions| self.contains(one.union(other));
        if both(AddOptions::NX, AddOptions::XX) {
            return Err(Fail::text("ERR XX and NX options at the same time are not compatible"));
        }
        if both(AddOptions::GT, AddOptions::NX)
            || both(AddOptions::LT, AddOptions::NX)
            || both(AddOptions::GT, AddOptions::LT)
        {
            return Err(Fail::text("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        if self.contains(AddOptions::INCR) && pairs > 1 {
            return Err(Fail::text("ERR INCR option supports a single increment-element pair"));
        }
        Ok(())
    }

    /// The score of a member that has the `old` one; `None` if it is to stay as it is.
    fn score(self, old: Option<f64>, given: f64) -> Result<Option<f64>, Fail> {
        let Some(old) = old else { return Ok((!self.contains(AddOptions::XX)).then_some(given)) };
        if self.contains(AddOptions::NX) {
            return Ok(None);
        }
        let new = if self.contains(AddOptions::INCR) { old + given } else { given };
        if new.is_nan() {
            return Err(Fail::text("ERR resulting score is not a number (NaN)"));
        }
        let stays = self.contains(AddOptions::GT) && new <= old || self.contains(AddOptions::LT) && new >= old;
        Ok((!stays).then_some(new))
    }
}

fn add(call: &mut Call<'_, '_>, mut options: AddOptions) -> Outcome {
    let mut first = 2;
    while first < call.args.len()
        && let Some(option) = AddOptions::named(call.args.get(first))
    {
        options |= option;
        first += 1;
    }
    let given = call.args.len() - first;
    if given == 0 || given % 2 == 1 {
        return Err(SYNTAX);
    }
    options.check(given / 2)?;
    let scores = call.args.from(first).step_by(2).map(|arg| double(arg, NOT_FLOAT)).collect::<Result<Vec<_>, _>>()?;
    let args = call.args;
    set_scores(call, options, scores, |place| args.get(first + 1 + 2 * place))
}

/// Gives the members of a request their scores as the options say, and replies.
pub(super) fn set_scores<'a>(
    call: &mut Call<'a, '_>,
    options: AddOptions,
    scores: Vec<f64>,
    member: impl Fn(usize) -> &'a [u8],
) -> Outcome {
    let key = call.args.get(1);
    let old = set_at(call, key)?;
    let increments = options.contains(AddOptions::INCR);
    if old.is_none() && options.contains(AddOptions::XX) {
        if increments {
            call.out.null()
        } else {
            call.out.integer(0)
        }
        return Ok(());
    }
    call.keys.check_key(key)?;
    (0..scores.len()).try_for_each(|place| call.keys.check_key(member(place)))?;
    let mut set = match old {
        Some(set) => set,
        None => call.keys.new_collection(key, ValueType::SortedSet)?,
    };
    let (before, mut updated, mut last) = (set.count, 0, None);
    for (place, score) in scores.into_iter().enumerate() {
        let member = member(place);
        let old = call.keys.score(&set, member)?;
        let new = options.score(old, score)?;
        last = new;
        if let Some(new) = new
            && old != Some(new)
        {
            call.keys.put_score(&mut set, member, old, new)?;
            updated += u64::from(old.is_some());
        }
    }
    let added = set.count - before;
    if added > 0 {
        call.keys.store(key, &set)?;
    } else if updated > 0 {
        call.keys.touch_collection(key);
    }
    match (increments, last) {
        (true, Some(score)) => call.out.double(score),
        (true, None) => call.out.null(),
        (false, _) if options.contains(AddOptions::CH) => call.out.integer((added + updated) as i64),
        (false, _) => call.out.integer(added as i64),
    }
    Ok(())
}

/// `ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]`
pub(super) fn zadd(call: &mut Call<'_, '_>) -> Outcome {
    add(call, AddOptions::empty())
}

/// `ZINCRBY key amount member`
pub(super) fn zincrby(call: &mut Call<'_, '_>) -> Outcome {
    add(call, AddOptions::INCR)
}

/// `ZREM key member [member ...]`
pub(super) fn zrem(call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.get(1);
    let mut removed = 0;
    if let Some(mut set) = set_at(call, key)? {
        call.args.from(2).try_for_each(|member| call.keys.check_key(member))?;
        for member in call.args.from(2) {
            if let Some(score) = call.keys.score(&set, member)? {
                call.keys.remove_member(&mut set, member, score)?;
                removed += 1;
            }
        }
        if removed > 0 {
            call.keys.store(key, &set)?;
        }
    }
    call.out.integer(removed);
    Ok(())
}

/// The score of a member, if there is such a set and member.
fn score(call: &mut Call<'_, '_>, set: Option<&Collection>, member: &[u8]) -> Result<Option<f64>, Fail> {
    match set {
        Some(set) => Ok(call.keys.score(set, member)?),
        None => Ok(None),
    }
}

fn reply_score(call: &mut Call<'_, '_>, set: Option<&Collection>, member: &[u8]) -> Outcome {
    match score(call, set, member)? {
        Some(score) => call.out.double(score),
        None => call.out.null(),
    }
    Ok(())
}

/// `ZSCORE key member`
pub(super) fn zscore(call: &mut Call<'_, '_>) -> Outcome {
    let set = looked_up(call, call.args.get(1))?;
    reply_score(call, set.as_ref(), call.args.get(2))
}

/// `ZMSCORE key member [member ...]`
pub(super) fn zmscore(call: &mut Call<'_, '_>) -> Outcome {
    let set = looked_up(call, call.args.get(1))?;
    call.out.array(call.args.len() - 2);
    call.args.from(2).try_for_each(|member| reply_score(call, set.as_ref(), member))?;
    call.room()
}

/// `ZCARD key`
pub(super) fn zcard(call: &mut Call<'_, '_>) -> Outcome {
    let set = looked_up(call, call.args.get(1))?;
    call.out.integer(set.map_or(0, |set| set.count as i64));
    Ok(())
}

fn rank(call: &mut Call<'_, '_>, backwards: bool) -> Outcome {
    let (set, member) = (looked_up(call, call.args.get(1))?, call.args.get(2));
    let (Some(set), Some(score)) = (set, score(call, set.as_ref(), member)?) else {
        call.out.null();
        return Ok(());
    };
    let others = match backwards {
        true => ScoreSpan::all().behind(score, member),
        false => ScoreSpan::all().before(score, member),
    };
    let rank = call.keys.count_scores(&set, &others)?;
    call.out.integer(rank as i64);
    Ok(())
}

/// `ZRANK key member`
pub(super) fn zrank(call: &mut Call<'_, '_>) -> Outcome {
    rank(call, false)
}

/// `ZREVRANK key member`
pub(super) fn zrevrank(call: &mut Call<'_, '_>) -> Outcome {
    rank(call, true)
}

/// Members and scores as replies, and their number.
#[derive(Default)]
pub(super) struct ScoredReplies {
    found: Replies,
    count: usize,
    /// Whether scores follow the members.
    scores: bool,
    /// Whether each member and its score are a list of their own.
    pub paired: bool,
}

impl ScoredReplies {
    /// With scores, in the form that a client's protocol has for them: pairs in RESP3.
    pub(super) fn new(call: &Call<'_, '_>, scores: bool) -> ScoredReplies {
        let protocol = call.out.protocol;
        let mut found = Replies::default();
        found.protocol = protocol;
        ScoredReplies { found, count: 0, scores, paired: scores && protocol == Protocol::Resp3 }
    }

    /// Adds a member; the bytes of all.
    pub(super) fn push(&mut self, score: f64, member: &[u8]) -> usize {
        if self.paired {
            self.found.array(2);
        }
        self.found.bulk(member);
        if self.scores {
            self.found.double(score);
        }
        self.count += 1;
        self.found.pending()
    }

    /// Writes all as one list; an error if they are more than the client may have.
    pub(super) fn reply(self, call: &mut Call<'_, '_>) -> Outcome {
        call.out.array(if self.scores && !self.paired { 2 * self.count } else { self.count });
        call.out.append(self.found);
        call.room()
    }
}

/// Removes the member at an end of a set, and replies with it and its score.
pub(super) fn pop_one(call: &mut Call<'_, '_>, key: &[u8], mut set: Collection, from_end: bool) -> Outcome {
    let mut found = None;
    call.keys.walk_scores(&set, &ScoreSpan::all(), from_end, 0, &mut |score, member| {
        found = Some((score, member.to_vec()));
        false
    })?;
    let (score, member) = found.ok_or_else(damaged)?;
    call.out.bulk(&member);
    call.out.double(score);
    call.room()?; // before anything is changed
    call.keys.remove_member(&mut set, &member, score)?;
    Ok(call.keys.store(key, &set)?)
}

/// Removes up to `count` members from an end of a set, and replies with the list of them.
pub(super) fn pop_several(
    call: &mut Call<'_, '_>,
    key: &[u8],
    mut set: Collection,
    from_end: bool,
    count: u64,
    mut found: ScoredReplies,
) -> Outcome {
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    let (mut left, mut last) = (count, None);
    call.keys.walk_scores(&set, &ScoreSpan::all(), from_end, 0, &mut |score, member| {
        left -= 1;
        let size = found.push(score, member);
        if left == 0 {
            last = Some((score, member.to_vec()));
        }
        left > 0 && size <= room
    })?;
    found.reply(call)?; // before anything is changed
    let popped = match last {
        Some((score, member)) if from_end => ScoreSpan::all().starting(score, &member),
        Some((score, member)) => ScoreSpan::all().through(score, &member),
        None => ScoreSpan::all(),
    };
    call.keys.remove_scores(&mut set, &popped)?;
    Ok(call.keys.store(key, &set)?)
}

fn pop(call: &mut Call<'_, '_>, from_end: bool) -> Outcome {
    if call.args.len() > 3 {
        return Err(SYNTAX);
    }
    let count = call.args.from(2).next().map(|arg| at_least(arg, 0, NOT_POSITIVE)).transpose()?;
    let key = call.args.get(1);
    match set_at(call, key)? {
        Some(set) if count != Some(0) => {
            let mut found = ScoredReplies::new(call, true);
            found.paired &= count.is_some();
            pop_several(call, key, set, from_end, count.unwrap_or(1), found)
        }
        _ => {
            call.out.array(0);
            Ok(())
        }
    }
}

/// `ZPOPMIN key [count]`
pub(super) fn zpopmin(call: &mut Call<'_, '_>) -> Outcome {
    pop(call, false)
}

/// `ZPOPMAX key [count]`
pub(super) fn zpopmax(call: &mut Call<'_, '_>) -> Outcome {
    pop(call, true)
}

/// `ZMPOP numkeys key [key ...] MIN | MAX [COUNT count]`
pub(super) fn zmpop(call: &mut Call<'_, '_>) -> Outcome {
    let (keys, end, count) = pop_words(call, 1, ["min", "max"])?;
    for key in call.args.from(keys.start).take(keys.len()) {
        if let Some(set) = set_at(call, key)? {
            let mut found = ScoredReplies::new(call, true);
            found.paired = true;
            call.out.array(2);
            call.out.bulk(key);
            return pop_several(call, key, set, is_word(end, "max"), count, found);
        }
    }
    call.out.null_array();
    Ok(())
}

/// `ZRANDMEMBER key [count [WITHSCORES]]`
pub(super) fn zrandmember(call: &mut Call<'_, '_>) -> Outcome {
    members::random(call, ValueType::SortedSet, "withscores")
}

/// `ZSCAN key cursor [MATCH pattern] [COUNT count]`
pub(super) fn zscan(call: &mut Call<'_, '_>) -> Outcome {
    members::scan(call, ValueType::SortedSet)
}

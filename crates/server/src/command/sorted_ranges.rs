//! Ranges of sorted sets, by rank, by score and by member: ZRANGE and its kin, ZCOUNT, ZLEXCOUNT,
//! and ZREMRANGEBYRANK and its kin.
//!
//! Every range becomes a stretch of the members in the order of their scores (`ScoreSpan`), which
//! is then visited, counted or removed.

use super::fail::{NOT_INTEGER, SYNTAX};
use super::sorted_sets::{ScoredReplies, looked_up, set_at};
use super::{Call, Fail, Outcome, is_word};
use crate::keyspace::{Collection, ScoreSpan, ValueType};
use crate::resp::double::parse_double_loosely;
use crate::resp::number::parse_integer;
use std::ops::{Bound, RangeBounds};

/// The kind of a range's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

/// A range as it was asked for.
enum Asked<'a> {
    /// From a rank to another, both included; negative ones count from the end.
    Ranks(i64, i64),
    Scores(Bound<f64>, Bound<f64>),
    Members(LexRange<'a>),
}

/// Members between two, in the order of their bytes; `None` without any, as behind the last.
struct LexRange<'a> {
    from: Option<Bound<&'a [u8]>>,
    to: Option<Bound<&'a [u8]>>,
}

fn integer(arg: &[u8]) -> Result<i64, Fail> {
    parse_integer(arg).ok_or(NOT_INTEGER)
}

fn score_bound(arg: &[u8]) -> Result<Bound<f64>, Fail> {
    let bound = match arg {
        [b'(', score @ ..] => parse_double_loosely(score).map(Bound::Excluded),
        _ => parse_double_loosely(arg).map(Bound::Included),
    };
    bound.ok_or(Fail::text("ERR min or max is not a float"))
}

/// A bound of members; `end`: the sign that means no bound here, the other one means nothing.
fn member_bound(arg: &[u8], end: u8) -> Result<Option<Bound<&[u8]>>, Fail> {
    match arg {
        [b'(', member @ ..] => Ok(Some(Bound::Excluded(member))),
        [b'[', member @ ..] => Ok(Some(Bound::Included(member))),
        [sign @ (b'-' | b'+')] | [sign @ (b'-' | b'+'), 0, ..] => Ok((*sign == end).then_some(Bound::Unbounded)),
        _ => Err(Fail::text("ERR min or max not valid string range item")),
    }
}

impl<'a> Asked<'a> {
    /// Reads the lower bound and the higher one.
    fn read(by: By, from: &'a [u8], to: &'a [u8]) -> Result<Asked<'a>, Fail> {
        Ok(match by {
            By::Rank => Asked::Ranks(integer(from)?, integer(to)?),
            By::Score => Asked::Scores(score_bound(from)?, score_bound(to)?),
            By::Member => Asked::Members(LexRange { from: member_bound(from, b'-')?, to: member_bound(to, b'+')? }),
        })
    }

    /// The stretch of a set that is asked for, ranks counted from the end if `backwards`; `None` if
    /// it is empty.
    fn span(&self, call: &mut Call<'_, '_>, set: &Collection, backwards: bool) -> Result<Option<ScoreSpan>, Fail> {
        match self {
            Asked::Scores(from, to) => Ok(Some(ScoreSpan::scores(*from, *to))),
            Asked::Members(range) => range.span(call, set, backwards),
            Asked::Ranks(start, end) => {
                let count = set.count as i64;
                let from = if *start < 0 { start.saturating_add(count).max(0) } else { *start };
                let last = if *end < 0 { end.saturating_add(count) } else { (*end).min(count - 1) };
                if from > last || from >= count {
                    return Ok(None);
                }
                let (from, last) = if backwards { (count - 1 - last, count - 1 - from) } else { (from, last) };
                let mut span = ScoreSpan::all();
                if from > 0 {
                    let (score, member) = call.keys.ranked(set, from as u64)?;
                    span = span.starting(score, &member);
                }
                if last < count - 1 {
                    let (score, member) = call.keys.ranked(set, last as u64)?;
                    span = span.through(score, &member);
                }
                Ok(Some(span))
            }
        }
    }
}

impl LexRange<'_> {
    /// The stretch of a set that the range means. If not all members have one score, it is the
    /// first in the order of scores whose members are in the range, the last if `backwards`, as in
    /// Redis's small sets; all members up to there are read.
    fn span(&self, call: &mut Call<'_, '_>, set: &Collection, backwards: bool) -> Result<Option<ScoreSpan>, Fail> {
        let (Some(from), Some(to)) = (self.from, self.to) else { return Ok(None) };
        let all = ScoreSpan::all();
        let (Some((lowest, first)), Some((highest, last))) =
            (call.keys.first_score(set, &all, false, 0)?, call.keys.first_score(set, &all, true, 0)?)
        else {
            return Ok(None);
        };
        if lowest == highest {
            return Ok(Some(ScoreSpan::members(lowest, from, to)));
        }
        let not_before = |member: &[u8]| RangeBounds::<[u8]>::contains(&(from, Bound::<&[u8]>::Unbounded), member);
        let not_behind = |member: &[u8]| RangeBounds::<[u8]>::contains(&(Bound::<&[u8]>::Unbounded, to), member);
        if !not_before(&last) || !not_behind(&first) {
            return Ok(None);
        }
        let (mut begin, mut end) = (None, None);
        call.keys.walk_scores(set, &all, backwards, 0, &mut |score, member| {
            let (enters, stays) = match backwards {
                true => (not_behind(member), not_before(member)),
                false => (not_before(member), not_behind(member)),
            };
            if begin.is_none() && enters {
                begin = Some((score, member.to_vec()));
            }
            if begin.is_some() && !stays {
                end = Some((score, member.to_vec()));
            }
            end.is_none()
        })?;
        let Some((score, member)) = begin else { return Ok(None) };
        let span = if backwards { all.through(score, &member) } else { all.starting(score, &member) };
        Ok(Some(match end {
            Some((score, member)) if backwards => span.behind(score, &member),
            Some((score, member)) => span.before(score, &member),
            None => span,
        }))
    }
}

/// The members that a command of the ZRANGE family asks for.
pub(super) struct Selection<'a> {
    asked: Asked<'a>,
    backwards: bool,
    scores: bool,
    skip: u64,
    limit: u64,
}

impl<'a> Selection<'a> {
    /// Reads the arguments from the lower bound on, which is the first of two; `by` and `backwards`
    /// are `None` where options choose.
    fn read(
        call: &Call<'a, '_>,
        first: usize,
        mut by: Option<By>,
        mut backwards: Option<bool>,
        stores: bool,
    ) -> Result<Selection<'a>, Fail> {
        let (mut scores, mut offset, mut limit) = (false, 0, -1);
        let mut options = call.args.from(first + 2);
        while let Some(option) = options.next() {
            match option {
                _ if !stores && is_word(option, "withscores") => scores = true,
                _ if is_word(option, "limit") && options.len() >= 2 => {
                    offset = integer(options.next().unwrap_or_default())?;
                    limit = integer(options.next().unwrap_or_default())?;
                }
                _ if backwards.is_none() && is_word(option, "rev") => backwards = Some(true),
                _ if by.is_none() && is_word(option, "bylex") => by = Some(By::Member),
                _ if by.is_none() && is_word(option, "byscore") => by = Some(By::Score),
                _ => return Err(SYNTAX),
            }
        }
        let (by, backwards) = (by.unwrap_or(By::Rank), backwards.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            return Err(Fail::text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if scores && by == By::Member {
            return Err(Fail::text("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
        }
        let (mut from, mut to) = (call.args.get(first), call.args.get(first + 1));
        if backwards && by != By::Rank {
            (from, to) = (to, from);
        }
        Ok(Selection {
            asked: Asked::read(by, from, to)?,
            backwards,
            scores,
            // A negative offset passes over everything, a negative limit is none; ranks have
            // neither.
            skip: if by == By::Rank { 0 } else { u64::try_from(offset).unwrap_or(u64::MAX) },
            limit: u64::try_from(limit).unwrap_or(u64::MAX),
        })
    }

    /// The stretch in which the members lie; `None` if there are none.
    fn span(&self, call: &mut Call<'_, '_>, set: &Collection) -> Result<Option<ScoreSpan>, Fail> {
        if self.limit == 0 || self.skip >= set.count {
            return Ok(None);
        }
        self.asked.span(call, set, self.backwards)
    }

    /// A set of the members that are asked for, which no key has yet; they are read in pieces.
    fn copied(&self, call: &mut Call<'_, '_>, source: &Collection) -> Result<Option<Collection>, Fail> {
        const TOGETHER: usize = 256 << 10;
        let Some(mut span) = self.span(call, source)? else { return Ok(None) };
        let (mut made, mut skip, mut left) = (None, self.skip, self.limit);
        while left > 0 {
            let (mut part, mut size) = (Vec::new(), 0);
            call.keys.walk_scores(source, &span, self.backwards, skip, &mut |score, member| {
                size += member.len() + size_of::<(f64, Vec<u8>)>();
                part.push((score, member.to_vec()));
                left -= 1;
                left > 0 && size < TOGETHER
            })?;
            let Some((score, last)) = part.last() else { break };
            span = if self.backwards { span.before(*score, last) } else { span.behind(*score, last) };
            skip = 0;
            let set = match &mut made {
                Some(set) => set,
                None => made.insert(call.keys.collection_without_key(ValueType::SortedSet)?),
            };
            for (score, member) in &part {
                call.keys.put_score(set, member, None, *score)?;
            }
        }
        Ok(made)
    }

    /// Visits the members that are asked for while `each` says `true`.
    fn visit(&self, call: &mut Call<'_, '_>, set: &Collection, each: &mut dyn FnMut(f64, &[u8]) -> bool) -> Outcome {
        let mut left = self.limit;
        let Some(span) = self.span(call, set)? else { return Ok(()) };
        Ok(call.keys.walk_scores(set, &span, self.backwards, self.skip, &mut |score, member| {
            left -= 1;
            each(score, member) && left > 0
        })?)
    }
}

fn range(call: &mut Call<'_, '_>, by: Option<By>, backwards: Option<bool>) -> Outcome {
    let selection = Selection::read(call, 2, by, backwards, false)?;
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    let mut found = ScoredReplies::new(call, selection.scores);
    if let Some(set) = looked_up(call, call.args.get(1))? {
        selection.visit(call, &set, &mut |score, member| found.push(score, member) <= room)?;
    }
    found.reply(call)
}

/// `ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
pub(super) fn zrange(call: &mut Call<'_, '_>) -> Outcome {
    range(call, None, None)
}

/// `ZREVRANGE key start stop [WITHSCORES]`
pub(super) fn zrevrange(call: &mut Call<'_, '_>) -> Outcome {
    range(call, Some(By::Rank), Some(true))
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
pub(super) fn zrangebyscore(call: &mut Call<'_, '_>) -> Outcome {
    range(call, Some(By::Score), Some(false))
}

/// `ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]`
pub(super) fn zrevrangebyscore(call: &mut Call<'_, '_>) -> Outcome {
    range(call, Some(By::Score), Some(true))
}

/// `ZRANGEBYLEX key min max [LIMIT offset count]`
pub(super) fn zrangebylex(call: &mut Call<'_, '_>) -> Outcome {
    range(call, Some(By::Member), Some(false))
}

/// `ZREVRANGEBYLEX key max min [LIMIT offset count]`
pub(super) fn zrevrangebylex(call: &mut Call<'_, '_>) -> Outcome {
    range(call, Some(By::Member), Some(true))
}

/// `ZRANGESTORE destination source start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count]`
pub(super) fn zrangestore(call: &mut Call<'_, '_>) -> Outcome {
    let selection = Selection::read(call, 3, None, None, true)?;
    let (target, mut made) = (call.args.get(1), None);
    if let Some(source) = looked_up(call, call.args.get(2))? {
        call.keys.check_key(target)?;
        made = selection.copied(call, &source)?;
    }
    call.keys.store_in_place(target, made.as_ref())?;
    call.out.integer(made.map_or(0, |set| set.count as i64));
    Ok(())
}

fn count(call: &mut Call<'_, '_>, by: By) -> Outcome {
    let asked = Asked::read(by, call.args.get(2), call.args.get(3))?;
    let mut count = 0;
    if let Some(set) = looked_up(call, call.args.get(1))?
        && let Some(span) = asked.span(call, &set, false)?
    {
        count = call.keys.count_scores(&set, &span)?;
    }
    call.out.integer(count as i64);
    Ok(())
}

/// `ZCOUNT key min max`
pub(super) fn zcount(call: &mut Call<'_, '_>) -> Outcome {
    count(call, By::Score)
}

/// `ZLEXCOUNT key min max`
pub(super) fn zlexcount(call: &mut Call<'_, '_>) -> Outcome {
    count(call, By::Member)
}

fn remove(call: &mut Call<'_, '_>, by: By) -> Outcome {
    let (key, asked) = (call.args.get(1), Asked::read(by, call.args.get(2), call.args.get(3))?);
    let mut removed = 0;
    if let Some(mut set) = set_at(call, key)?
        && let Some(span) = asked.span(call, &set, false)?
    {
        removed = call.keys.remove_scores(&mut set, &span)?;
        if removed > 0 {
            call.keys.store(key, &set)?;
        }
    }
    call.out.integer(removed as i64);
    Ok(())
}

/// `ZREMRANGEBYRANK key start stop`
pub(super) fn zremrangebyrank(call: &mut Call<'_, '_>) -> Outcome {
    remove(call, By::Rank)
}

/// `ZREMRANGEBYSCORE key min max`
pub(super) fn zremrangebyscore(call: &mut Call<'_, '_>) -> Outcome {
    remove(call, By::Score)
}

/// `ZREMRANGEBYLEX key min max`
pub(super) fn zremrangebylex(call: &mut Call<'_, '_>) -> Outcome {
    remove(call, By::Member)
}

//! Unions, intersections and differences of sorted sets and sets: ZUNION, ZINTER, ZDIFF, their
//! STORE forms, and ZINTERCARD. A member of a set has the score 1.
//!
//! A command walks one input after the other, some members at a time, and looks each member up in
//! the others; so no input is ever held whole. A STORE form makes the result under an id that no
//! key has yet; the others hold as much of it as a reply may have.

use super::fail::{NOT_INTEGER, SYNTAX};
use super::lists::at_least;
use super::sorted_sets::{ScoredReplies, double};
use super::{Call, Fail, Outcome, is_word};
use crate::keyspace::{Collection, HASH, KeyError, ValueType, decode_score, encode_score};
use crate::resp::number::parse_integer;

/// Members read at a time.
pub(super) const TOGETHER: usize = 128;
/// Bytes of memory that a member of the result costs beside its own.
const EACH: usize = 64;

/// Takes a member of the result and its score; whether to go on.
type Visit<'v> = dyn FnMut(&mut Call<'_, '_>, f64, &[u8]) -> Result<bool, Fail> + 'v;

/// The kind of result of several inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Members of any input.
    Union,
    /// Members of all inputs.
    Intersection,
    /// Members of the first input and of no other.
    Difference,
}

/// The form of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Reply,
    Store,
    Count,
}

/// The score of a member that several inputs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Minimum,
    Maximum,
}

impl Aggregate {
    fn named(arg: &[u8]) -> Option<Aggregate> {
        [("sum", Aggregate::Sum), ("min", Aggregate::Minimum), ("max", Aggregate::Maximum)]
            .into_iter()
            .find_map(|(name, aggregate)| is_word(arg, name).then_some(aggregate))
    }

    /// One score of two. Infinities that cancel out are 0, and NaN is no minimum and no maximum.
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum => not_nan(one + other),
            Aggregate::Minimum if other < one => other,
            Aggregate::Maximum if other > one => other,
            Aggregate::Minimum | Aggregate::Maximum => one,
        }
    }
}

fn not_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// A sorted set or set, absent ones too.
pub(super) struct Input {
    found: Option<Collection>,
    weight: f64,
}

impl Input {
    fn at(call: &mut Call<'_, '_>, key: &[u8]) -> Result<Input, Fail> {
        let found = match call.keys.collection(key, ValueType::SortedSet) {
            Err(KeyError::WrongType) => call.keys.collection(key, ValueType::Set)?,
            found => found?,
        };
        call.shared.metrics.look_up(found.is_some());
        Ok(Input { found, weight: 1.0 })
    }

    fn count(&self) -> u64 {
        self.found.as_ref().map_or(0, |found| found.count)
    }

    /// The score of a member, which is given behind its hash.
    fn score(&self, call: &mut Call<'_, '_>, hashed: &[u8]) -> Result<Option<f64>, Fail> {
        let Some(of) = &self.found else { return Ok(None) };
        let element = [of.member_prefix(), hashed].concat();
        Ok(match of.kind {
            ValueType::SortedSet => call.keys.element(of, &element)?.map(|score| decode_score(&score)).transpose()?,
            _ => call.keys.element_size(of, &element)?.map(|_| 1.0),
        })
    }

    /// The next members of a set or sorted set, each behind its hash, and their scores.
    pub(super) fn part(
        call: &mut Call<'_, '_>,
        of: &Collection,
        last: Option<&[u8]>,
    ) -> Result<Vec<(Vec<u8>, f64)>, Fail> {
        let (prefix, scored) = (of.member_prefix(), of.kind == ValueType::SortedSet);
        let last = last.map(|hashed| [prefix, hashed].concat());
        let (mut part, mut odd) = (Vec::new(), None);
        call.keys.walk(of, of.members_behind(last.as_deref()), scored, &mut |element, value| {
            match if scored { decode_score(value) } else { Ok(1.0) } {
                Ok(score) => part.push((element.get(prefix.len()..).unwrap_or_default().to_vec(), score)),
                Err(error) => odd = Some(error),
            }
            odd.is_none() && part.len() < TOGETHER
        })?;
        odd.map_or(Ok(part), |error| Err(Fail::from(error)))
    }
}

/// A command as it was asked for.
struct Request {
    operation: Operation,
    inputs: Vec<Input>,
    aggregate: Aggregate,
    scores: bool,
    /// Of ZINTERCARD; 0: none.
    limit: u64,
}

impl Request {
    /// Reads the arguments from the number of keys on.
    fn read(
        call: &mut Call<'_, '_>,
        operation: Operation,
        form: Form,
        first: usize,
        name: &str,
    ) -> Result<Request, Fail> {
        let keys = parse_integer(call.args.get(first)).ok_or(NOT_INTEGER)?;
        if keys < 1 {
            return Err(Fail::made(format!("ERR at least 1 input key is needed for '{name}' command")));
        }
        let keys = usize::try_from(keys).ok().filter(|keys| *keys < call.args.len() - first).ok_or(SYNTAX)?;
        let mut inputs = Vec::new();
        for key in call.args.from(first + 1).take(keys) {
            inputs.push(Input::at(call, key)?);
        }
        let mut request = Request { operation, inputs, aggregate: Aggregate::Sum, scores: false, limit: 0 };
        let weighted = operation != Operation::Difference && form != Form::Count;
        let mut options = call.args.from(first + 1 + keys);
        while let Some(option) = options.next() {
            match option {
                _ if weighted && options.len() >= keys && is_word(option, "weights") => {
                    for input in &mut request.inputs {
                        input.weight = double(options.next().unwrap_or_default(), WEIGHT)?;
                    }
                }
                _ if weighted && is_word(option, "aggregate") => {
                    request.aggregate = options.next().and_then(Aggregate::named).ok_or(SYNTAX)?;
                }
                _ if form == Form::Reply && is_word(option, "withscores") => request.scores = true,
                _ if form == Form::Count && is_word(option, "limit") => {
                    request.limit = at_least(options.next().ok_or(SYNTAX)?, 0, "ERR LIMIT can't be negative")?;
                }
                _ => return Err(SYNTAX),
            }
        }
        if operation != Operation::Difference {
            // The order in which scores are added, and the smallest input of an intersection.
            request.inputs.sort_by_key(Input::count);
        }
        Ok(request)
    }

    /// Gives `each` the members of the result with their scores, each once, until it says `false`.
    fn combine(&self, call: &mut Call<'_, '_>, each: &mut Visit<'_>) -> Outcome {
        if self.operation == Operation::Intersection && self.inputs.iter().any(|input| input.count() == 0) {
            return Ok(());
        }
        let walked = if self.operation == Operation::Union { self.inputs.len() } else { 1 };
        for place in 0..walked {
            let Some(of) = &self.inputs[place].found else { continue };
            let mut last: Option<Vec<u8>> = None;
            loop {
                let part = Input::part(call, of, last.as_deref())?;
                for (hashed, score) in &part {
                    if let Some(score) = self.score(call, place, hashed, *score)?
                        && !each(call, score, hashed.get(HASH..).unwrap_or_default())?
                    {
                        return Ok(());
                    }
                }
                if part.len() < TOGETHER {
                    break;
                }
                last = part.into_iter().next_back().map(|(hashed, _)| hashed);
            }
        }
        Ok(())
    }

    /// The score in the result of a member of the input at `place`; `None` if it is not in it, or
    /// was given by an earlier input already.
    fn score(&self, call: &mut Call<'_, '_>, place: usize, hashed: &[u8], own: f64) -> Result<Option<f64>, Fail> {
        let mut score = not_nan(self.inputs[place].weight * own);
        for (other, input) in self.inputs.iter().enumerate() {
            if other == place {
                continue;
            }
            let found = input.score(call, hashed)?;
            match (self.operation, found) {
                (Operation::Union, Some(_)) if other < place => return Ok(None),
                (Operation::Union, Some(found)) => {
                    score = self.aggregate.of(score, not_nan(input.weight * found));
                }
                (Operation::Intersection, Some(found)) => score = self.aggregate.of(score, input.weight * found),
                (Operation::Intersection, None) | (Operation::Difference, Some(_)) => return Ok(None),
                (Operation::Union | Operation::Difference, None) => {}
            }
        }
        Ok(Some(score))
    }
}

/// A weight is no double.
const WEIGHT: Fail = Fail::text("ERR weight value is not a float");

/// The result as a reply, which fails above the output limit.
fn reply(call: &mut Call<'_, '_>, operation: Operation, name: &str) -> Outcome {
    let request = Request::read(call, operation, Form::Reply, 1, name)?;
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    let (mut found, mut size) = (Vec::new(), 0);
    request.combine(call, &mut |_, score, member| {
        size += member.len() + EACH;
        found.push((encode_score(score), member.to_vec(), score));
        if size > room { Err(Fail::OutputLimit) } else { Ok(true) }
    })?;
    found.sort_by(|(one, first, _), (other, second, _)| (one, first).cmp(&(other, second)));
    let mut replies = ScoredReplies::new(call, request.scores);
    for (_, member, score) in found {
        if replies.push(score, &member) > room {
            return Err(Fail::OutputLimit);
        }
    }
    replies.reply(call)
}

/// Stores the result at the first key.
fn store(call: &mut Call<'_, '_>, operation: Operation, name: &str) -> Outcome {
    let request = Request::read(call, operation, Form::Store, 2, name)?;
    let target = call.args.get(1);
    call.keys.check_key(target)?;
    let mut made: Option<Collection> = None;
    request.combine(call, &mut |call, score, member| {
        let set = match &mut made {
            Some(set) => set,
            None => made.insert(call.keys.collection_without_key(ValueType::SortedSet)?),
        };
        call.keys.put_score(set, member, None, score)?;
        Ok(true)
    })?;
    call.keys.store_in_place(target, made.as_ref())?;
    call.out.integer(made.map_or(0, |set| set.count as i64));
    Ok(())
}

/// `ZUNION numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]`
pub(super) fn zunion(call: &mut Call<'_, '_>) -> Outcome {
    reply(call, Operation::Union, "zunion")
}

/// `ZINTER numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]`
pub(super) fn zinter(call: &mut Call<'_, '_>) -> Outcome {
    reply(call, Operation::Intersection, "zinter")
}

/// `ZDIFF numkeys key [key ...] [WITHSCORES]`
pub(super) fn zdiff(call: &mut Call<'_, '_>) -> Outcome {
    reply(call, Operation::Difference, "zdiff")
}

/// `ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]`
pub(super) fn zunionstore(call: &mut Call<'_, '_>) -> Outcome {
    store(call, Operation::Union, "zunionstore")
}

/// `ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]`
pub(super) fn zinterstore(call: &mut Call<'_, '_>) -> Outcome {
    store(call, Operation::Intersection, "zinterstore")
}

/// `ZDIFFSTORE destination numkeys key [key ...]`
pub(super) fn zdiffstore(call: &mut Call<'_, '_>) -> Outcome {
    store(call, Operation::Difference, "zdiffstore")
}

/// `ZINTERCARD numkeys key [key ...] [LIMIT limit]`
pub(super) fn zintercard(call: &mut Call<'_, '_>) -> Outcome {
    let request = Request::read(call, Operation::Intersection, Form::Count, 1, "zintercard")?;
    let mut count = 0;
    request.combine(call, &mut |_, _, _| {
        count += 1;
        Ok(count != request.limit)
    })?;
    call.out.integer(count as i64);
    Ok(())
}

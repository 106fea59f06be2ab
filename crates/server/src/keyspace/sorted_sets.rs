//! Sorted sets: members by score.
//!
//! A member is two elements. `m` and the hashed member has as its value the encoded score: 8 bytes
//! that compare as scores do. `s`, the encoded score and the member has an empty value. So a
//! member's score is one look-up, and members in the order of their scores, and of their bytes
//! where these are equal, are a range. The record's count is that of the members.
//!
//! A score is encoded as its double, big-endian, with the sign bit inverted; of a negative one all
//! bits are. -0 is kept as 0, and NaN never.
//!
//! Invariants
//!   ZSET-1  Each `m` element has the one `s` element that its score and member name, and no other
//!           `s` element exists.

use super::record::{Collection, damaged_by};
use super::{ElementSpan, Keyspace, after_prefix};
use everbyte_kv::{Error, Result};
use everbyte_media::seeded;
use std::ops::Bound;

/// The first byte of an element by member.
pub(super) const BY_MEMBER: &[u8] = b"m";
/// The first byte string behind all elements by member.
pub(super) const BEHIND_MEMBERS: &[u8] = b"n";
/// The first byte of an element by score.
pub(super) const BY_SCORE: &[u8] = b"s";
/// Bytes of an encoded score.
pub(super) const SCORE: usize = 8;
/// Bytes of members that are removed together.
const TOGETHER: usize = 256 << 10;

/// A score as 8 bytes that compare as scores do.
pub(crate) fn encode_score(score: f64) -> [u8; SCORE] {
    let bits = (score + 0.0).to_bits(); // -0 becomes 0
    let sign = 1 << 63;
    if bits & sign == 0 { bits ^ sign } else { !bits }.to_be_bytes()
}

/// The score that was encoded.
pub(crate) fn decode_score(bytes: &[u8]) -> Result<f64> {
    let bits = u64::from_be_bytes(bytes.try_into().map_err(|_| odd_score())?);
    let sign = 1 << 63;
    let score = f64::from_bits(if bits & sign == 0 { !bits } else { bits ^ sign });
    if score.is_nan() { Err(odd_score()) } else { Ok(score) }
}

fn odd_score() -> Error {
    damaged_by("a score in the server's table of elements is malformed")
}

/// A stretch of a sorted set in the order of scores and members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScoreSpan {
    /// The element with which it begins.
    from: Vec<u8>,
    /// The element before which it ends.
    to: Vec<u8>,
}

fn by_score(score: f64, member: &[u8]) -> Vec<u8> {
    [BY_SCORE, &encode_score(score), member].concat()
}

impl ScoreSpan {
    /// All members.
    pub(crate) fn all() -> ScoreSpan {
        ScoreSpan { from: BY_SCORE.to_vec(), to: after_prefix(BY_SCORE).unwrap_or_default() }
    }

    /// The members with scores between two bounds.
    pub(crate) fn scores(from: Bound<f64>, to: Bound<f64>) -> ScoreSpan {
        let all = ScoreSpan::all();
        let at = |score| by_score(score, b"");
        let behind = |score| after_prefix(&by_score(score, b"")).unwrap_or_default();
        ScoreSpan {
            from: match from {
                Bound::Included(score) => at(score),
                Bound::Excluded(score) => behind(score),
                Bound::Unbounded => all.from,
            },
            to: match to {
                Bound::Included(score) => behind(score),
                Bound::Excluded(score) => at(score),
                Bound::Unbounded => all.to,
            },
        }
    }

    /// The members with one score between two bounds.
    pub(crate) fn members(score: f64, from: Bound<&[u8]>, to: Bound<&[u8]>) -> ScoreSpan {
        let whole = ScoreSpan::scores(Bound::Included(score), Bound::Included(score));
        let at = |member: &[u8]| by_score(score, member);
        let behind = |member: &[u8]| by_score(score, &[member, b"\0"].concat());
        ScoreSpan {
            from: match from {
                Bound::Included(member) => at(member),
                Bound::Excluded(member) => behind(member),
                Bound::Unbounded => whole.from,
            },
            to: match to {
                Bound::Included(member) => behind(member),
                Bound::Excluded(member) => at(member),
                Bound::Unbounded => whole.to,
            },
        }
    }

    /// This one from a member on.
    pub(crate) fn starting(self, score: f64, member: &[u8]) -> ScoreSpan {
        ScoreSpan { from: by_score(score, member), ..self }
    }

    /// This one from behind a member on.
    pub(crate) fn behind(self, score: f64, member: &[u8]) -> ScoreSpan {
        ScoreSpan { from: by_score(score, &[member, b"\0"].concat()), ..self }
    }

    /// This one up to a member.
    pub(crate) fn before(self, score: f64, member: &[u8]) -> ScoreSpan {
        ScoreSpan { to: by_score(score, member), ..self }
    }

    /// This one up to a member and with it.
    pub(crate) fn through(self, score: f64, member: &[u8]) -> ScoreSpan {
        ScoreSpan { to: by_score(score, &[member, b"\0"].concat()), ..self }
    }

    fn is_empty(&self) -> bool {
        self.from >= self.to
    }

    fn elements(&self, backwards: bool) -> ElementSpan<'_> {
        ElementSpan { from: Bound::Included(&self.from), to: Bound::Excluded(&self.to), backwards }
    }
}

/// Score and member of an element by score.
fn parts(element: &[u8]) -> Result<(f64, &[u8])> {
    let (score, member) =
        element.strip_prefix(BY_SCORE).and_then(|rest| rest.split_at_checked(SCORE)).ok_or_else(odd_score)?;
    Ok((decode_score(score)?, member))
}

impl Keyspace<'_> {
    /// The score of a member; `None` without it.
    pub(crate) fn score(&mut self, set: &Collection, member: &[u8]) -> Result<Option<f64>> {
        self.element(set, &set.member_element(member))?.map(|bytes| decode_score(&bytes)).transpose()
    }

    /// Gives a member a score, in place of the `old` one. The set has to be stored afterwards if
    /// the member is new.
    pub(crate) fn put_score(&mut self, set: &mut Collection, member: &[u8], old: Option<f64>, new: f64) -> Result<()> {
        match old {
            Some(old) if !seeded("server-old-score-kept") => self.remove_by_score(set, member, old)?,
            Some(_) => {}
            None => set.count += 1,
        }
        if old.is_none() || !seeded("server-new-score-lost") {
            self.put_element(set, &set.member_element(member), &encode_score(new))?;
        }
        self.put_element(set, &by_score(new, member), &[]).map(drop)
    }

    /// Removes a member with its score. The set has to be stored afterwards.
    pub(crate) fn remove_member(&mut self, set: &mut Collection, member: &[u8], score: f64) -> Result<()> {
        self.remove_by_score(set, member, score)?;
        self.remove_by_member(set, member)
    }

    fn remove_by_score(&mut self, set: &Collection, member: &[u8], score: f64) -> Result<()> {
        let found = self.remove_element(set, &by_score(score, member))?;
        if found { Ok(()) } else { Err(disagreeing()) }
    }

    fn remove_by_member(&mut self, set: &mut Collection, member: &[u8]) -> Result<()> {
        if !seeded("server-popped-member-kept") && !self.remove_element(set, &set.member_element(member))? {
            return Err(disagreeing());
        }
        set.count = set.count.checked_sub(1).ok_or_else(disagreeing)?;
        Ok(())
    }

    /// Visits the members of a span and their scores in order, without the first `skip`, while
    /// `each` says `true`.
    pub(crate) fn walk_scores(
        &mut self,
        set: &Collection,
        span: &ScoreSpan,
        backwards: bool,
        skip: u64,
        each: &mut dyn FnMut(f64, &[u8]) -> bool,
    ) -> Result<()> {
        if span.is_empty() {
            return Ok(());
        }
        let mut odd = None;
        self.walk_past(set, span.elements(backwards), skip, false, &mut |element, _| match parts(element) {
            Ok((score, member)) => each(score, member),
            Err(error) => {
                odd = Some(error);
                false
            }
        })?;
        odd.map_or(Ok(()), Err)
    }

    /// The first member of a span, or the last, without the first `skip`; and its score.
    pub(crate) fn first_score(
        &mut self,
        set: &Collection,
        span: &ScoreSpan,
        backwards: bool,
        skip: u64,
    ) -> Result<Option<(f64, Vec<u8>)>> {
        let mut found = None;
        self.walk_scores(set, span, backwards, skip, &mut |score, member| {
            found = Some((score, member.to_vec()));
            false
        })?;
        Ok(found)
    }

    /// The member of a rank below the count, and its score. The walk begins at the nearer end.
    pub(crate) fn ranked(&mut self, set: &Collection, rank: u64) -> Result<(f64, Vec<u8>)> {
        let from_end = set.count.saturating_sub(rank + 1);
        let found = self.first_score(set, &ScoreSpan::all(), from_end < rank, rank.min(from_end))?;
        found.ok_or_else(disagreeing)
    }

    /// The number of members in a span. They are passed over leaf by leaf, and beside them those
    /// outside of it: the shorter way tells.
    pub(crate) fn count_scores(&mut self, set: &Collection, span: &ScoreSpan) -> Result<u64> {
        let whole = ScoreSpan::all();
        if span.is_empty() {
            return Ok(0);
        }
        if span.from <= whole.from && span.to >= whole.to {
            return Ok(set.count);
        }
        let before = ScoreSpan { from: whole.from, to: span.from.clone() };
        let behind = ScoreSpan { from: span.to.clone(), to: whole.to };
        let [mut inside, before, behind] =
            self.element_ranges(set, [span, &before, &behind].map(|it| it.elements(false)))?;
        let (mut within, mut outside) = (0, 0);
        let mut others = [before, behind].into_iter();
        let mut other = others.next();
        loop {
            let (count, more) = inside.count_part()?;
            within += count;
            if !more {
                return Ok(within);
            }
            let Some(range) = &mut other else {
                return set.count.checked_sub(outside).ok_or_else(disagreeing);
            };
            let (count, more) = range.count_part()?;
            outside += count;
            if !more {
                other = others.next();
            }
        }
    }

    /// Removes the members of a span; how many there were. The set has to be stored afterwards.
    pub(crate) fn remove_scores(&mut self, set: &mut Collection, span: &ScoreSpan) -> Result<u64> {
        let (count, mut left) = (self.count_scores(set, span)?, span.clone());
        if count == set.count {
            set.count = 0; // the elements go with the record
            return Ok(count);
        }
        loop {
            let (mut part, mut size, mut last) = (Vec::new(), 0, None);
            self.walk_scores(set, &left, false, 0, &mut |score, member| {
                size += member.len() + SCORE;
                last = Some(score);
                part.push(member.to_vec());
                size < TOGETHER
            })?;
            for member in &part {
                self.remove_by_member(set, member)?;
            }
            match (last, part.last()) {
                (Some(score), Some(member)) => left = left.behind(score, member),
                _ => break,
            }
        }
        if count > 0 {
            self.remove_span(set, span.elements(false))?;
        }
        Ok(count)
    }

    /// Whether the elements of a sorted set agree (ZSET-1, KEYS-3).
    #[cfg(test)]
    pub(crate) fn agrees(&mut self, set: &Collection) -> Result<bool> {
        let (mut by_member, mut by_score) = (Vec::new(), Vec::new());
        self.visit_elements(set, ElementSpan::ALL, &mut |element, value| {
            match element.split_at(1) {
                (BY_MEMBER, rest) => by_member.push([value, &rest[super::HASH..]].concat()),
                (_, rest) => by_score.push(rest.to_vec()),
            }
            true
        })?;
        by_member.sort();
        Ok(by_member == by_score && by_score.len() as u64 == set.count)
    }
}

fn disagreeing() -> Error {
    damaged_by("the elements of a sorted set in the server's table of elements disagree")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_scores_compare_as_scores_do() {
        let scores = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -5e-324,
            0.0,
            5e-324,
            f64::MIN_POSITIVE,
            1.0,
            1.0 + f64::EPSILON,
            f64::MAX,
            f64::INFINITY,
        ];
        assert!(scores.map(encode_score).is_sorted_by(|low, high| low < high));
        for score in scores {
            assert_eq!(decode_score(&encode_score(score)).unwrap().to_bits(), score.to_bits());
        }
        assert_eq!(encode_score(-0.0), encode_score(0.0));
        for odd in [&[0xff; 8][..], &[0; 8], b"", &[0x80; 7], &[0x80; 9]] {
            assert!(decode_score(odd).is_err());
        }
    }

    #[test]
    fn spans_hold_what_lies_between_their_bounds() {
        use Bound::{Excluded, Included, Unbounded};
        let within =
            |span: &ScoreSpan, score, member: &[u8]| (&span.from..&span.to).contains(&&by_score(score, member));
        let span = ScoreSpan::scores(Excluded(1.0), Included(2.0));
        assert!(!within(&span, 1.0, b"\xff\xff") && within(&span, 1.5, b"") && within(&span, 2.0, b"\xff\xff"));
        let span = ScoreSpan::scores(Included(1.0), Excluded(f64::INFINITY));
        assert!(within(&span, 1.0, b"") && within(&span, f64::MAX, b"x") && !within(&span, f64::INFINITY, b""));
        let span = ScoreSpan::scores(Unbounded, Included(f64::INFINITY));
        assert!(within(&span, f64::NEG_INFINITY, b"") && within(&span, f64::INFINITY, b"\xff"));
        let span = ScoreSpan::members(1.0, Excluded(b"b"), Unbounded);
        assert!(!within(&span, 1.0, b"b") && within(&span, 1.0, b"b\0") && within(&span, 1.0, b"\xff"));
        assert!(!within(&span, 1.1, b"c"));
        let span = ScoreSpan::members(1.0, Unbounded, Included(b"b"));
        assert!(within(&span, 1.0, b"") && within(&span, 1.0, b"b") && !within(&span, 1.0, b"b\0"));
        assert!(ScoreSpan::scores(Included(2.0), Included(1.0)).is_empty());
        assert!(ScoreSpan::scores(Excluded(1.0), Included(1.0)).is_empty());
        assert!(!ScoreSpan::all().is_empty());
    }
}

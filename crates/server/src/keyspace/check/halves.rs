//! Whether the elements of a sorted set by member are those by score (ZSET-1).
//!
//! Either half is summed up as its elements come: for each a hash, with keys of this process, of
//! its score and member. Halves that differ have different sums, but for a chance in 2^64.

use crate::keyspace::collections::{HASH, hashed};
use crate::keyspace::sorted_sets::{BY_MEMBER, BY_SCORE, SCORE, decode_score, encode_score};
use std::hash::{BuildHasher, RandomState};

/// The number of the elements of one half, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Half {
    count: u64,
    sum: u64,
}

/// The elements of a sorted set, as far as they were walked.
#[derive(Default)]
pub(super) struct Halves {
    by_member: Half,
    by_score: Half,
    hasher: RandomState,
}

impl Halves {
    /// Adds an element, whose value has `size` bytes; `value` is empty unless these are 8. An error
    /// if it is no element of a sorted set.
    pub(super) fn add(&mut self, element: &[u8], value: &[u8], size: u64) -> Result<(), String> {
        let malformed =
            || format!("element \"{}\" is none of a sorted set", element[..element.len().min(64)].escape_ascii());
        let is_score = |bytes: &[u8]| decode_score(bytes).is_ok_and(|score| encode_score(score) == bytes);
        let half = if let Some(rest) = element.strip_prefix(BY_MEMBER)
            && let Some(member) = rest.get(HASH..)
        {
            if hashed(member) != rest || !is_score(value) {
                return Err(malformed());
            }
            self.by_member.sum = self.by_member.sum.wrapping_add(self.hasher.hash_one((value, member)));
            &mut self.by_member
        } else if let Some((score, member)) =
            element.strip_prefix(BY_SCORE).and_then(|rest| rest.split_at_checked(SCORE))
        {
            if size != 0 || !is_score(score) {
                return Err(malformed());
            }
            self.by_score.sum = self.by_score.sum.wrapping_add(self.hasher.hash_one((score, member)));
            &mut self.by_score
        } else {
            return Err(malformed());
        };
        half.count += 1;
        Ok(())
    }

    /// The difference of the halves, if there is any.
    pub(super) fn difference(&self) -> Option<String> {
        let (members, scores) = (self.by_member.count, self.by_score.count);
        (self.by_member != self.by_score).then(|| {
            format!("{members} elements by member and {scores} by score are not of the same scores and members")
        })
    }
}

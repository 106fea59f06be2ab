//! [`Shape`]: the buckets of a table. It grows by one bucket at a time (linear hashing): the new one
//! takes entries of one other, and no other moves.
//!
//! Buckets lie in segments: the first has [`FIRST_SEGMENT`], each further one as many as all before
//! it. A bucket is one word: the first entry of its chain.

use crate::hashed::layout::{FIRST_SEGMENT, SEGMENTS};

/// The number of buckets, and where their segments lie.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub buckets: u64,
    pub segments: [u64; SEGMENTS],
}

/// The segment of a bucket.
pub(crate) fn segment_of(bucket: u64) -> usize {
    if bucket < FIRST_SEGMENT { 0 } else { (bucket / FIRST_SEGMENT).ilog2() as usize + 1 }
}

/// The first bucket of a segment.
pub(crate) fn first_of(segment: usize) -> u64 {
    if segment == 0 { 0 } else { FIRST_SEGMENT << (segment - 1) }
}

/// Bytes of a segment.
pub(crate) fn segment_len(segment: usize) -> u64 {
    8 * if segment == 0 { FIRST_SEGMENT } else { first_of(segment) }
}

/// The most buckets that a table can have.
pub(crate) const BUCKETS_MAX: u64 = FIRST_SEGMENT << (SEGMENTS - 1);

/// The bucket of a hash in a table of `buckets`.
#[inline]
pub(crate) fn bucket_of(hash: u64, buckets: u64) -> u64 {
    let all = buckets.next_power_of_two();
    let bucket = hash & (all - 1);
    if bucket < buckets { bucket } else { bucket - all / 2 }
}

/// The bucket whose entries bucket `new` takes a part of, when it is added behind all others.
pub(crate) fn split_by(new: u64) -> u64 {
    new - (new + 1).next_power_of_two() / 2
}

/// The buckets of a table of `now` that hold what bucket `old` held when there were `then`.
pub(crate) fn descendants(old: u64, then: u64, now: u64) -> impl Iterator<Item = u64> {
    let all = then.next_power_of_two();
    let other = old + all / 2;
    let other = (old < all / 2 && other >= then).then_some(other);
    let step = move |first: u64| (0..).map(move |turn| first + turn * all).take_while(move |&bucket| bucket < now);
    step(old).chain(other.into_iter().flat_map(step))
}

impl Shape {
    /// The address of a bucket's word.
    #[inline]
    pub(crate) fn head_at(&self, bucket: u64) -> u64 {
        let segment = segment_of(bucket);
        self.segments[segment] + (bucket - first_of(segment)) * 8
    }

    /// The bucket of a hash.
    #[inline]
    pub(crate) fn bucket_of(&self, hash: u64) -> u64 {
        bucket_of(hash, self.buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn segments_lie_side_by_side() {
        assert_eq!((first_of(0), first_of(1), first_of(2)), (0, 16, 32));
        for segment in 0..10 {
            let (first, count) = (first_of(segment), segment_len(segment) / 8);
            assert_eq!((segment_of(first), segment_of(first + count - 1)), (segment, segment));
            assert_eq!(first + count, first_of(segment + 1));
        }
        assert_eq!(segment_of(BUCKETS_MAX - 1), SEGMENTS - 1);
    }

    #[test]
    fn a_new_bucket_takes_hashes_of_one_other_alone() {
        for buckets in 16..200 {
            for hash in 0..4096 {
                let (before, after) = (bucket_of(hash, buckets), bucket_of(hash, buckets + 1));
                assert!(before == after || (after == buckets && before == split_by(buckets)), "{buckets} {hash}");
            }
        }
    }

    #[test]
    fn descendants_hold_every_hash_of_a_bucket_and_no_other() {
        for then in 16..70 {
            for now in then..260 {
                let mut all = BTreeSet::new();
                for old in 0..then {
                    let found: BTreeSet<u64> = descendants(old, then, now).collect();
                    assert!(found.iter().all(|&bucket| all.insert(bucket)), "in two of them");
                    for hash in (0..512).filter(|&hash| bucket_of(hash, then) == old) {
                        assert!(found.contains(&bucket_of(hash, now)), "{then} {now} {old} {hash}");
                    }
                }
                assert_eq!(all, (0..now).collect());
            }
        }
    }
}

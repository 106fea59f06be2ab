//! Growing by one bucket: the records of the next bucket in turn are shared with a new one at the end.

use super::chain::{Bucket, Chain};
use super::{Hash, State};
use crate::Result;
use crate::base::set_all;
use crate::layout::{BUCKET, BUCKETS_AT, FIRST_SEGMENT, LINK, SEGMENTS, SEGMENTS_AT, SLOTS};
use everbyte_media::seeded;
use everbyte_tx::Tx;

/// Buckets that the first `segments` segments hold.
pub(super) fn buckets_of(segments: usize) -> u64 {
    if segments == 0 { 0 } else { FIRST_SEGMENT << (segments - 1) }
}

/// Bytes of a segment.
pub(super) fn segment_len(segment: usize) -> u64 {
    (buckets_of(segment + 1) - buckets_of(segment)) * BUCKET
}

/// The segment of a bucket.
fn segment_of(index: u64) -> usize {
    (index / FIRST_SEGMENT).checked_ilog2().map_or(0, |bits| bits as usize + 1)
}

pub(super) fn bucket_at(segments: &[u64; SEGMENTS], index: u64) -> u64 {
    let segment = segment_of(index);
    segments[segment] + (index - buckets_of(segment)) * BUCKET
}

impl Hash {
    /// Adds a bucket. Ordered on return, like any commit; without room nothing happens and chains grow instead.
    pub(super) fn split(&self, state: &mut State) -> Result<()> {
        let new = state.buckets;
        let segment = segment_of(new);
        if segment >= SEGMENTS {
            return Ok(());
        }
        let whole = (new + 1).next_power_of_two();
        let chain: Vec<Bucket> = Chain::of(self, state.bucket_at(new & (whole / 2 - 1))).collect::<Result<_>>()?;
        let (mut stay, mut go) = (Vec::new(), Vec::new());
        for (_, slot) in chain.iter().flat_map(Bucket::slots) {
            let hash = self.record(slot)?.head.hash;
            if hash & (whole - 1) == new { go.push(slot) } else { stay.push(slot) }
        }
        let mut segments = state.segments;
        let grown = self.base.run(&mut state.past, |tx| {
            let mut words = vec![(self.base.root + BUCKETS_AT, new + 1)];
            if segments[segment] == 0 {
                segments[segment] = tx.allocate(segment_len(segment))?.at;
                words.push((self.base.root + SEGMENTS_AT + segment as u64 * 8, segments[segment]));
            }
            let at = bucket_at(&segments, new);
            if !seeded("hkv-bucket-unflushed") {
                tx.overwrite(at, BUCKET)?; // HKV-2
            }
            fill(tx, at, &go)?;
            keep(tx, &chain, &stay, &mut words)?;
            set_all(tx, &words)
        });
        match grown {
            Ok(()) => {
                (state.buckets, state.segments) = (new + 1, segments);
                Ok(())
            }
            Err(error) if error.is_full() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Writes a chain of the transaction's own from `at` on.
fn fill(tx: &Tx<'_>, at: u64, slots: &[u64]) -> Result<()> {
    let mut at = at;
    let mut rest = slots;
    loop {
        let (here, beyond) = rest.split_at(rest.len().min(SLOTS as usize));
        tx.media().zero(at, BUCKET);
        for (index, &slot) in here.iter().enumerate() {
            tx.media().store(at + index as u64 * 8, slot);
        }
        if beyond.is_empty() {
            return Ok(());
        }
        let next = tx.allocate(BUCKET)?.at;
        tx.media().store(at + LINK, next);
        (at, rest) = (next, beyond);
    }
}

/// What it takes that a chain holds just `slots`, of its own: words to change, and buckets to free.
fn keep(tx: &Tx<'_>, chain: &[Bucket], slots: &[u64], words: &mut Vec<(u64, u64)>) -> Result<()> {
    let needed = slots.len().div_ceil(SLOTS as usize).max(1);
    let mut slots = slots.iter();
    for (index, bucket) in chain.iter().enumerate() {
        if index >= needed {
            tx.free(bucket.at)?;
            continue;
        }
        let wanted = (0..SLOTS).map(|_| slots.next().copied().unwrap_or(0));
        words.extend(bucket.changes(wanted));
        if index + 1 == needed && chain.len() > needed {
            words.push((bucket.at + LINK, 0));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_has_a_place_of_its_own() {
        let segments = std::array::from_fn(|segment| (segment as u64) << 40);
        let mut at = 0;
        for index in 0..FIRST_SEGMENT << 8 {
            let found = bucket_at(&segments, index);
            let segment = segment_of(index);
            assert_eq!(found >> 40, segment as u64);
            assert!(found - segments[segment] < segment_len(segment));
            assert!(found == at + BUCKET || found == segments[segment], "{index}");
            at = found;
        }
        assert_eq!(buckets_of(1), FIRST_SEGMENT);
        assert_eq!((segment_of(15), segment_of(16), segment_of(31), segment_of(32)), (0, 1, 1, 2));
    }
}

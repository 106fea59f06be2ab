//! Growing by one bucket: the next bucket shares its records with a new one at the end.

use super::chain::{Bucket, Chain};
use super::{Hash, HashState, linked, place_of};
use crate::Result;
use crate::base::{Base, set_all};
use crate::layout::{BUCKET, BUCKETS_AT, FIRST_SEGMENT, HASH_MAGIC, HashRoot, LINK, SEGMENTS, SEGMENTS_AT, SLOTS};
use everbyte_heap::Op;
use everbyte_media::museum::unless;
use everbyte_media::{Checked, Flusher, Offset};
use everbyte_tx::Tx;
use std::ops::Range;
use zerocopy::IntoBytes;

/// Buckets of the first `segments` segments.
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

/// Buckets that one log record adds.
pub(super) const GROUP: u64 = 4;

impl Hash {
    /// Adds as many buckets as one log record can. Without free space chains grow instead.
    pub(super) fn split_some(&self, state: &mut HashState) -> Result<()> {
        let goal = state.buckets + GROUP;
        while state.buckets < goal && !self.split_group(state)? {
            let before = state.buckets;
            self.split(state)?;
            if state.buckets == before {
                break;
            }
        }
        Ok(())
    }

    /// Adds a group of buckets by a log record. `false`: it takes a transaction for each.
    fn split_group(&self, state: &mut HashState) -> Result<bool> {
        let new = state.buckets;
        let segment = segment_of(new);
        if !new.is_multiple_of(GROUP) || segment >= SEGMENTS || state.segments[segment] == 0 {
            return Ok(false);
        }
        let whole = (new + 1).next_power_of_two();
        let (mut words, mut needless) = ([0; WORDS], Vec::new());
        let chains = (new..new + GROUP).map(|index| Chain::of(self, state.bucket_at(index - whole / 2)).collect());
        let chains = chains.collect::<Result<Vec<Vec<Bucket>>>>()?;
        let slots = |chain: &[Bucket]| chain.iter().flat_map(Bucket::slots).map(|(_, slot)| slot).collect::<Vec<_>>();
        let all: Vec<Vec<u64>> = chains.iter().map(|chain| slots(chain)).collect();
        all.iter().flatten().for_each(|slot| self.heap().media().prefetch(place_of(*slot)));
        for (number, (chain, slots)) in chains.iter().zip(&all).enumerate() {
            let mut go = words[number * 8..].iter_mut().take(SLOTS as usize);
            let mut stay = slots.len();
            for &slot in slots {
                if self.record(slot)?.head.hash & (whole - 1) == new + number as u64 {
                    let Some(place) = go.next() else { return Ok(false) };
                    (*place, stay) = (slot, stay - 1);
                }
            }
            match &chain[..] {
                [_] => {}
                [_, second] if stay <= SLOTS as usize => needless.push(second.at),
                _ => return Ok(false),
            }
        }
        self.add_group(state, &words, &needless)?;
        Ok(true)
    }

    /// Appends a group of buckets with these words behind the last one; the old buckets lose these
    /// slots, and the buckets in `needless` are freed.
    fn add_group(&self, state: &mut HashState, words: &[u64; WORDS], needless: &[u64]) -> Result<()> {
        let (heap, media) = (self.heap(), self.base.media());
        if !needless.is_empty() {
            // Slots that go are room for those that are gathered. The log record before may have
            // filled one: applied again, it would overwrite the slot that was gathered there.
            unless("hkv-gather-unretired", || self.base.retire(&mut state.log));
        }
        let mut ops = Vec::new();
        for &at in needless {
            ops.push(heap.op_free(at).inspect_err(|_| heap.abandon(&ops))?);
        }
        let (at, count) = (state.bucket_at(state.buckets), state.buckets + GROUP);
        let _section = media.section();
        media.put(at, words);
        media.flush_unless("hkv-group-unflushed", at, GROUP * BUCKET);
        self.base.write_log_record(&mut state.log, &ops, &[(self.base.root + BUCKETS_AT, count)], sum(words));
        // The log record has counted them, whatever follows.
        let new = state.buckets..count;
        state.buckets = count;
        let swept = sweep(&self.base, &state.segments, new);
        self.base.order(&mut state.log);
        swept
    }

    /// Adds a bucket. Ordered on return, like any commit; without free space chains grow instead.
    pub(super) fn split(&self, state: &mut HashState) -> Result<()> {
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
        let grown = self.base.run(&mut state.log, |tx| {
            let mut words = vec![(self.base.root + BUCKETS_AT, new + 1)];
            if segments[segment] == 0 {
                segments[segment] = (tx.allocate(segment_len(segment))?.at).get();
                words.push((self.base.root + SEGMENTS_AT + segment as u64 * 8, segments[segment]));
            }
            let at = bucket_at(&segments, new);
            unless("hkv-bucket-unflushed", || tx.overwrite(at, BUCKET))?; // HKV-2
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
        tx.media().store(at + LINK, next.get());
        (at, rest) = (next.get(), beyond);
    }
}

/// The changes after which a chain has just `slots`, of its own: words to change, and buckets to
/// free.
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

/// Words of a group of buckets.
const WORDS: usize = (GROUP * BUCKET / 8) as usize;

fn sum(words: &[u64; WORDS]) -> u32 {
    crc32c::crc32c(words.as_bytes())
}

/// The buckets that a log record adds, if it adds a group.
pub(crate) fn added(base: &Base, ops: &[Op], words: &[(u64, u64)]) -> Option<Range<u64>> {
    let &[(at, count)] = words else { return None };
    let adds = ops.iter().all(|op| op.frees()) && at == base.root + BUCKETS_AT && count.is_multiple_of(GROUP);
    let possible = FIRST_SEGMENT + GROUP..=buckets_of(SEGMENTS);
    (adds && possible.contains(&count)).then(|| count - GROUP..count)
}

/// Offsets of the segments; `None` if there is no root of a hash store.
fn segments(base: &Base) -> Option<[u64; SEGMENTS]> {
    let len = size_of::<HashRoot>() as u64;
    let good = base.root.is_multiple_of(BUCKET) && base.heap().may_hold_blocks(base.root, len);
    let root: HashRoot = good.then(|| base.media().get(base.root))?;
    (root.head.magic == HASH_MAGIC && root.head.checksum_agrees()).then(|| root.segments.map(Offset::get))
}

/// The checksum of the buckets of a group.
pub(crate) fn checksum(base: &Base, new: Range<u64>) -> Option<u32> {
    let at = bucket_at(&segments(base)?, new.start);
    let words: Option<Vec<_>> = (0..GROUP).map(|index| linked::read(base, at.checked_add(index * BUCKET)?)).collect();
    base.media().reflush(at, GROUP * BUCKET);
    Some(crc32c::crc32c(words?.as_bytes()))
}

/// [`sweep`], in recovery.
pub(crate) fn sweep_again(base: &Base, new: Range<u64>) -> Result<()> {
    let segments = segments(base).ok_or_else(|| base.damaged(base.root, "a bucket that was split leads to none"))?;
    sweep(base, &segments, new)
}

/// Removes the slots of new buckets from the old ones, and moves the rest of two buckets of a chain
/// into the first, if they fit. Flushed. May be repeated.
fn sweep(base: &Base, segments: &[u64; SEGMENTS], new: Range<u64>) -> Result<()> {
    let damaged = |at| base.damaged(at, "a bucket that was split leads to none");
    let (half, media) = (new.end.next_power_of_two() / 2, base.media());
    let read = |at| linked::read(base, at).ok_or_else(|| damaged(at));
    let mut gathered = false;
    for index in new.clone() {
        let at = bucket_at(segments, index - half);
        let (moved, first) = (read(bucket_at(segments, index))?, read(at)?);
        let goes = |slot: &u64| moved[..SLOTS as usize].contains(slot) || *slot == 0;
        if first[SLOTS as usize] == 0 {
            continue;
        }
        let second = read(first[SLOTS as usize])?;
        let here = |slot: &u64| first[..SLOTS as usize].contains(slot);
        let rest: Vec<u64> =
            second[..SLOTS as usize].iter().filter(|slot| !goes(slot) && !here(slot)).copied().collect();
        let room: Vec<u64> = (0..SLOTS).filter(|slot| goes(&first[*slot as usize])).collect();
        if second[SLOTS as usize] == 0 && rest.len() <= room.len() {
            room.iter().zip(rest).for_each(|(slot, word)| media.store(at + slot * 8, word));
            media.flush(at, BUCKET); // a process may have died before it flushed them
            gathered = true;
        }
    }
    if gathered {
        media.fence_unless("hkv-gather-unfenced"); // the first bucket before the link to the second falls
    }
    for index in new {
        let at = bucket_at(segments, index - half);
        let (moved, first) = (read(bucket_at(segments, index))?, read(at)?);
        let goes = |slot: &u64| moved[..SLOTS as usize].contains(slot) || *slot == 0;
        let mut flusher = Flusher::new(media);
        let mut clear = |at: u64, words: &[u64; 8]| {
            let gone = (0..SLOTS).filter(|slot| words[*slot as usize] != 0 && goes(&words[*slot as usize]));
            gone.for_each(|slot| media.store(at + slot * 8, 0));
            flusher.touch(at, BUCKET);
        };
        clear(at, &first);
        let link = first[SLOTS as usize];
        if link == 0 {
            continue;
        }
        let second = read(link)?;
        let gone = |slot: &u64| goes(slot) || first[..SLOTS as usize].contains(slot);
        if second[SLOTS as usize] == 0 && second[..SLOTS as usize].iter().all(gone) {
            media.store(at + LINK, 0);
        } else {
            clear(link, &second);
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

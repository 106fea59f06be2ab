//! A bitmap on media: one bit for each cluster of the store, from offset 0.
//!
//! Its pages are part of the sparse file: a page is backed the first time one of its bits is to be set, and one that
//! was never backed reads as clear. It is never scanned at open.
//!
//! Invariants
//!   SPACE-1  A page of the bitmap is backed before a bit in it is stored, so that storing cannot fail.
//!
//! Threads: changes are made under the lock of [`crate::Space`]; tests may run at any time, word by word.

use crate::{CLUSTER, Result, error::Error};
use everbyte_media::Media;
use std::ops::Range;

const PAGE: u64 = 4096;
/// Bytes of the store that one word of the bitmap speaks for.
const WORD_COVERS: u64 = 64 * CLUSTER;
/// Bytes of the store that one page of the bitmap speaks for.
const PAGE_COVERS: u64 = PAGE * 8 * CLUSTER;

/// A bitmap of clusters at a fixed place of the store.
#[derive(Clone, Copy, Debug)]
pub struct Bitmap {
    at: u64,
    len: u64,
}

impl Bitmap {
    /// The bitmap in `at..at+len`, both multiples of 4096.
    pub fn new(at: u64, len: u64) -> Bitmap {
        assert!(at.is_multiple_of(PAGE) && len.is_multiple_of(PAGE), "a bitmap is whole pages");
        Bitmap { at, len }
    }

    /// Bytes of store that it can speak for.
    pub fn capacity(&self) -> u64 {
        self.len * 8 * CLUSTER
    }

    /// The pages of the bitmap itself that speak for `range`, as offsets in the store.
    pub fn pages(&self, range: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
        let first = range.start / PAGE_COVERS;
        let end = range.end.div_ceil(PAGE_COVERS);
        let at = self.at;
        (first..end).map(move |page| at + page * PAGE)
    }

    /// Backs one page (SPACE-1).
    pub(crate) fn back(&self, media: &Media, page: u64) -> Result<()> {
        media.extend(page, PAGE).map_err(|source| Error::of_extend(page, PAGE, source))
    }

    fn word_at(&self, index: u64) -> u64 {
        self.at + index * 8
    }

    /// The word that speaks for `index * 4 MiB` onwards; clear where the bitmap was never backed.
    fn word(&self, media: &Media, index: u64) -> u64 {
        let at = self.word_at(index);
        if index * 8 < self.len && media.holds(at, 8) { media.load(at) } else { 0 }
    }

    /// Whether the cluster that holds `at` is set.
    pub fn test(&self, media: &Media, at: u64) -> bool {
        let bit = at / CLUSTER;
        self.word(media, bit / 64) >> (bit % 64) & 1 == 1
    }

    /// Sets or clears the clusters of `range` and flushes; no fence.
    pub(crate) fn change(&self, media: &Media, range: &Range<u64>, set: bool) {
        assert!(range.end <= self.capacity(), "SPACE-1: {range:x?} is beyond what the bitmap speaks for");
        for (index, mask) in words(range) {
            let at = self.word_at(index);
            if !set && !media.holds(at, 8) {
                continue; // never backed: clear already
            }
            let old = media.load(at);
            let new = if set { old | mask } else { old & !mask };
            if new != old {
                media.store(at, new);
                media.flush(at, 8);
            }
        }
    }

    /// The runs of clusters within `range` whose bit is `set`, in order, as ranges of store offsets.
    pub fn runs(&self, media: &Media, range: Range<u64>, set: bool) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for (index, mask) in words(&range) {
            let word = self.word(media, index);
            let mut hits = mask & if set { word } else { !word };
            while hits != 0 {
                let first = hits.trailing_zeros();
                let count = (hits >> first).trailing_ones();
                let start = index * WORD_COVERS + u64::from(first) * CLUSTER;
                let end = start + u64::from(count) * CLUSTER;
                match runs.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => runs.push(start..end),
                }
                let done = first + count;
                hits = if done == 64 { 0 } else { hits & (u64::MAX << done) };
            }
        }
        runs
    }
}

/// The words that speak for `range`, each with the bits that lie in it.
fn words(range: &Range<u64>) -> impl Iterator<Item = (u64, u64)> + use<> {
    assert!(
        range.start.is_multiple_of(CLUSTER) && range.end.is_multiple_of(CLUSTER),
        "bits speak for whole clusters: {range:x?}"
    );
    let (first, end) = (range.start / CLUSTER, range.end / CLUSTER);
    let last_word = if first < end { end.div_ceil(64) } else { first / 64 };
    (first / 64..last_word).map(move |index| {
        let low = first.max(index * 64) - index * 64;
        let high = end.min(index * 64 + 64) - index * 64;
        let mask = (u64::MAX << low) & (u64::MAX >> (64 - high));
        (index, mask)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_media::Options;
    use proptest::prelude::*;

    proptest! {
        /// The bitmap agrees with a plain set of clusters after every change.
        #[test]
        fn agrees_with_a_set(changes in prop::collection::vec((0u64..300, 0u64..140, any::<bool>()), 1..40)) {
            let media = Media::anonymous(1 << 20, &Options::default()).unwrap();
            let bitmap = Bitmap::new(64 << 10, 4096);
            let mut plain = [false; 512];
            for (first, count, set) in changes {
                bitmap.change(&media, &(first * CLUSTER..(first + count) * CLUSTER), set);
                plain[first as usize..(first + count) as usize].fill(set);
                for (cluster, &is) in plain.iter().enumerate() {
                    prop_assert_eq!(bitmap.test(&media, cluster as u64 * CLUSTER), is);
                }
                for set in [true, false] {
                    let runs = bitmap.runs(&media, 0..512 * CLUSTER, set);
                    let mut from_runs = [!set; 512];
                    for run in &runs {
                        from_runs[(run.start / CLUSTER) as usize..(run.end / CLUSTER) as usize].fill(set);
                    }
                    prop_assert_eq!(from_runs, plain);
                    prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start));
                }
            }
        }
    }
}
